"""The project as a whole: its files agree with each other, and its notebooks keep the rules."""

import ast
import csv
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import resolve_name
from operator import attrgetter
from pathlib import Path

import pandas as pd
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import tokhelpers as th

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "figures"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
MAKEFILE = (ROOT / "Makefile").read_text()
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_file = pytest.mark.parametrize(
    "path", NOTEBOOKS + SOLUTIONS, ids=lambda path: f"{path.parent.name}/{path.stem}"
)


@cache
def cells(path):
    """The cells of a notebook, as its file has them, each source in one piece."""
    stored = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in stored]


def code(path):
    return [cell for cell in cells(path) if cell["cell_type"] == "code"]


def prose(path):
    return "\n".join(cell["source"] for cell in cells(path) if cell["cell_type"] == "markdown")


@cache
def rows(name):
    """The rows of a table in `data`."""
    with open(ROOT / "data" / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


# --- the environment -----------------------------------------------------------------------------
def pins():
    """The pinned version of each package, each named once."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"==[\w.+]+", str(r.specifier)) for r in wanted)
    found = {canonicalize_name(r.name): str(r.specifier)[2:] for r in wanted}
    assert len(found) == len(wanted)
    return found


def test_each_dependency_has_a_pin_in_its_range():
    optional = PYPROJECT["project"]["optional-dependencies"]
    lists = (PYPROJECT["project"]["dependencies"], *optional.values())
    for wanted in (Requirement(line) for lines in lists for line in lines):
        if wanted.name != "tokhelpers":  # an extra that names others
            assert wanted.specifier.contains(pins()[canonicalize_name(wanted.name)]), wanted


def test_conda_environment_agrees_with_the_others():
    *entries, last = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert "pip" in entries and {f"python={version}" for version in PYTHONS} & set(entries)
    index, *wanted = last["pip"]
    assert index.removeprefix("--extra-index-url ") in MAKEFILE
    assert wanted == ["-r requirements.txt", "-e ."]


def test_the_tested_pythons_are_the_same_everywhere():
    wanted = SpecifierSet(PYPROJECT["project"]["requires-python"])
    assert [f"3.{minor}" for minor in range(15) if f"3.{minor}" in wanted] == PYTHONS
    loop = re.search(r"for p in (.+) python3; do", MAKEFILE)[1]
    assert loop.split() == [f"python{version}" for version in reversed(PYTHONS)]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert workflow["jobs"]["commands"]["strategy"]["matrix"]["python"] == PYTHONS
    commands = [step["run"] for step in workflow["jobs"]["commands"]["steps"] if "run" in step]
    assert commands == ["make figures PYTHON=python", "make test PYTHON=python"]


@pytest.fixture
def make(tmp_path):
    """A function that runs make where Pythons behave as told; the others are not there."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}

    def run(*arguments, **told):
        for name in (*(f"python{version}" for version in PYTHONS), "python3"):
            script = told.get(name.replace(".", "_"), "exit 127")
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        command = ["make", "-s", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def test_make_takes_the_newest_python_that_works_or_says_what_is_missing(make, tmp_path):
    """3.14 is a version manager's stub, which exits with an error; 3.13 works."""
    works = 'case "$1" in -m) echo "made by ${0##*/}"; exit 1;; esac'
    two = {"python3_13": works, "python3_12": works}
    assert make("setup", **two).stdout == "made by python3.13\n"
    assert make("setup", "PYTHON=python3.12", **two).stdout == "made by python3.12\n"
    half_made = tmp_path / ".venv" / "bin" / "python"  # as an interrupted setup leaves it
    half_made.parent.mkdir(parents=True)
    half_made.symlink_to(sys.executable)
    assert make("setup", **two).stdout == "made by python3.13\n"
    nothing = make("setup")
    assert nothing.returncode == 2 and "Python 3.11 or later is needed" in nothing.stderr
    told = make("setup", python3='case "$2" in *ensurepip*) exit 1;; esac').stderr
    assert "python3 lacks venv or ensurepip" in told and "apt-get install python3-venv" in told


@pytest.mark.skipif(sys.platform != "linux", reason="PyPI's torch for macOS has no CUDA")
def test_make_goes_on_without_the_cpu_build_of_torch(make, tmp_path):
    pip, asked = tmp_path / ".venv" / "bin" / "pip", tmp_path / "asked"
    pip.parent.mkdir(parents=True)
    pip.write_text('#!/bin/sh\ncase "$*" in *freeze*) exit 0;; esac\necho "$*" >asked\nexit 1\n')
    pip.chmod(0o755)
    told = make("torch")
    assert told.returncode == 0 and "PyPI's build comes instead" in told.stderr
    assert f"torch=={pins()['torch']}+cpu" in asked.read_text()
    asked.unlink()
    assert make("torch", "GPU=1").stderr == "" and not asked.exists()


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert PYPROJECT["project"]["version"] == th.__version__ == citation["version"]
    assert PYPROJECT["project"]["license"] == citation["license"]


def test_ci_runs_the_test_command():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-3:] == ["make test", "wait", "make test-all"]


def test_documented_commands_exist():
    targets = set(re.findall(r"(?m)^([a-z-]+):", MAKEFILE))
    documents = sorted(ROOT.glob("*.md"))
    assert ROOT / "CONTRIBUTING.md" in documents
    for document in documents:
        content = document.read_text(encoding="utf-8")
        blocks = "\n".join(re.findall(r"(?s)```\w*\n(.*?)```", content))
        named = re.findall(r"`make ([a-z-]+)", content) + re.findall(r"\bmake ([a-z-]+)", blocks)
        assert named and set(named) <= targets, document.name


# --- the package ---------------------------------------------------------------------------------
def test_import_is_light():
    heavy = {"torch", "transformers", "numba", "pandas", "matplotlib", "tokenizers"}
    program = "import sys, tokhelpers; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert "tokhelpers" in loaded and not heavy & set(loaded)


PUBLIC = [name for name in th.__all__ if not inspect.ismodule(getattr(th, name))]


def test_each_public_function_has_an_example():
    functions = {
        name: getattr(th, name) for name in PUBLIC if inspect.isfunction(getattr(th, name))
    }
    assert not [name for name, made in functions.items() if ">>> " not in inspect.getdoc(made)]


def test_no_public_name_is_a_module():
    """`th.name` would be the module once something imports that."""
    assert len(PUBLIC) <= 55
    assert not set(PUBLIC) & {path.stem for path in (ROOT / "tokhelpers").glob("*")}


RENAMED = {name: new for name, new in th._RENAMED.items() if name not in th.__all__}


@pytest.mark.parametrize("name", RENAMED)
def test_a_renamed_name_is_answered_with_the_new_one(name):
    with pytest.raises(
        AttributeError, match=f"no '{name}' any more: use {re.escape(RENAMED[name])}"
    ):
        getattr(th, name)
    if path := re.match(r"th\.([\w.]+)", RENAMED[name]):
        assert callable(attrgetter(path[1])(th))


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = th.no_such_name


FOLDERS = ["tokenizer", "text", "train", "adapt", "measure", "models", "notebook"]
LAYERS = ["common", *FOLDERS]
MODULES = sorted((ROOT / "tokhelpers").rglob("*.py"))


def imports(path):
    """What a module imports from the package: the folder, or the module at the top, and the name."""
    place = ".".join(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), place)
            for alias in node.names:
                package, folder, *_ = f"{module}.{alias.name}".split(".")
                if package == "tokhelpers":
                    yield folder, alias.name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_the_list_of_folders(path):
    inside = path.relative_to(ROOT / "tokhelpers").parts
    later = LAYERS[LAYERS.index(inside[0]) + 1 :] if len(inside) > 1 else []
    for folder, name in imports(path):
        assert folder not in ("textbook", *later), name
        assert not name.startswith("_") or name == "__version__"


def test_modules_can_be_read_at_a_sitting():
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert max(n for name, n in lines.items() if name != "textbook.py") <= 350


@pytest.mark.parametrize("folder", ["", *FOLDERS])
def test_the_stub_is_what_the_folder_offers(folder):
    """Editors read it, and so does ``lazy_loader``."""
    stub = ast.parse((ROOT / "tokhelpers" / folder / "__init__.pyi").read_text(encoding="utf-8"))
    named = [a.name for node in stub.body if isinstance(node, ast.ImportFrom) for a in node.names]
    module = importlib.import_module(".".join(filter(None, ["tokhelpers", folder])))
    assert sorted(named) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in named)
    assert folder or set(named) <= set(re.findall(r"\w+", module.__doc__))


# --- the notebooks -------------------------------------------------------------------------------
@each_file
def test_notebook_is_stored_from_a_fresh_run(path):
    assert [cell["execution_count"] for cell in code(path)] == list(range(1, len(code(path)) + 1))
    shows = {row["shows"] for row in rows("figures.csv")}
    for cell in code(path):
        kinds = {output["output_type"] for output in cell["outputs"]}
        tags = cell["metadata"].get("tags", [])
        is_setup = "import tokhelpers as th\n" in cell["source"]
        assert not (is_setup and kinds) or SHOWS_INDEX in cell["source"], cell["source"]
        assert ("error" in kinds) == ("raises-exception" in tags), cell["source"]
        for output in cell["outputs"]:
            assert output.get("name") != "stderr", cell["source"]
            if "image/png" in output.get("data", {}):
                assert output["metadata"]["image/png"]["alt"] in shows


@each_file
def test_notebook_reads_well(path):
    assert len({cell["id"] for cell in cells(path)}) == len(cells(path))
    for cell in code(path):
        assert 1 <= len(cell["source"].splitlines()) <= 25, cell["source"]
        assert "%pip" not in cell["source"] and "!pip" not in cell["source"]
        ignored = "nbval-ignore-output" in cell["metadata"].get("tags", [])
        assert not ignored or "assert " in cell["source"], cell["source"]
    kinds = "".join(cell["cell_type"][0] for cell in cells(path))
    assert kinds[0] == "m" and kinds[-1] == "m"
    assert "ccc" not in kinds, "three code cells without prose, at cell " + str(kinds.find("ccc"))


SHOWS_INDEX = "th.notebook.reproduced("  # what a study's first code cell calls
HOW_TO = ("18", "20")  # studies that compare nothing with a publication
STUDIES = [
    path
    for path in NOTEBOOKS
    if SHOWS_INDEX in code(path)[0]["source"] or path.stem.startswith(HOW_TO)
]


def test_the_index_is_aligned_to_the_left_also_when_sorted():
    rows = th.notebook.reproduced("08")
    for table in (rows, rows.sort_index(), rows[["source", "reason"]]):
        shown = table._repr_html_()
        assert '<td style="text-align: left">paper, Table 12</td>' in shown
        assert "<td>" not in shown and "<th>" not in shown
    assert repr(rows) == repr(pd.DataFrame(rows))


def test_a_long_index_is_folded_under_the_count_of_its_verdicts():
    rows = th.notebook.reproduced("08")
    line = re.search("<summary>(.*)</summary>", rows._repr_html_()).group(1)
    assert line.startswith(f"{len(rows)} published values")
    for verdict, number in rows.verdict.value_counts().items():
        assert f"{number} {verdict}" in line
    few = th.notebook.reproduced("06")
    assert len(few) == 1 and "<details>" not in few._repr_html_()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem[:2])
def test_study_tells_its_finding_first(path):
    first, number = cells(path)[0]["source"], path.stem[:2]
    assert first.startswith(f"# {number} · ")
    assert re.search(r"\*\*[^*]+\.\*\*", first), "the finding is a bold sentence"
    assert f"](../figures/{number}_" in first
    headings = re.findall(r"(?m)^## (\d+) (.*)$", prose(path))
    assert [int(n) for n, _ in headings] == list(range(1, len(headings) + 1))
    assert [title for _, title in headings][-2:] == ["Limits", "Exercises"]
    tags = [tag for cell in code(path) for tag in cell["metadata"].get("tags", [])]
    assert tags.count("exercise") == tags.count("check") >= 2
    assert f"(solutions/{path.name})" in prose(path)


@each_notebook
def test_notebook_has_the_parts_of_the_series(path):
    if path in STUDIES:
        return
    assert prose(path).startswith(f"# {path.stem[:2]} · ")
    headings = re.findall(r"(?m)^## (?:\d+ )?(.*)$", prose(path))
    assert "You will be able to" in prose(path)
    assert any("raises-exception" in cell["metadata"].get("tags", []) for cell in code(path))
    assert f"(solutions/{path.name})" in prose(path)
    if path.stem < "07":  # a lesson's exercises stand where they belong
        assert headings[-2:] == ["What goes wrong", "Summary"]
        return
    assert headings[-3:] == ["What goes wrong", "Exercises", "Summary"]
    exercises = prose(path).split("## Exercises")[1].split("## Summary")[0]
    assert re.findall(r"(?m)^\d\. \*\*(\w+)", exercises) == ["Recall", "Modify", "Extend"]


LESSONS = [path for path in NOTEBOOKS if path.stem < "07"]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem[:2])
def test_lesson_asks_before_it_answers_and_checks_each_exercise(path):
    assert "?" in prose(path).split("\n\n")[1]  # the question under the title
    asked = [cell["source"] for cell in cells(path) if "**[?]**" in cell["source"]]
    assert asked and all("(a)" in source and "(b)" in source for source in asked)
    asked = re.findall(r"\*\*Exercise (\d+)(?: \((\w+)\))?: [^*]+\*\* \(\d+ minutes\)", prose(path))
    assert [int(number) for number, _ in asked] == list(range(1, len(asked) + 1))
    assert {"recall", "extend"} <= {kind for _, kind in asked}
    for tag in ("exercise", "check"):
        assert len([c for c in code(path) if tag in c["metadata"].get("tags", [])]) == len(asked)


@each_file
def test_prose_has_no_dead_links_and_visible_spaces_in_code_marks(path):
    """Every renderer strips a space at the edge of a code mark: it is written as ␣."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose(path))
    assert all((path.parent / link).exists() for link in links), links
    lines = re.sub(r"(?s)```.*?```|``.*?``", "", prose(path))
    edges = [mark for mark in re.findall(r"`([^`\n]*)`", lines) if mark != mark.strip()]
    assert not edges, edges


def test_series_lists_the_notebooks():
    names = [row["notebook"] for row in rows("series.csv")]
    assert names == [path.stem for path in NOTEBOOKS] == [path.stem for path in SOLUTIONS]
    assert [name[:2] for name in names] == [f"{n:02d}" for n in range(len(names))]


# --- figures and published numbers ---------------------------------------------------------------
def drawn(path):
    """The names under which a notebook saves figures: its string constants NN_topic."""
    sources = "\n".join(cell["source"] for cell in code(path))
    return set(re.findall(rf'"({path.stem[:2]}_[a-z0-9_]+)"', sources))


def test_figures_are_those_of_the_notebooks():
    wanted = set().union(*map(drawn, NOTEBOOKS))
    assert {path.stem for path in FIGURES.glob("*.svg")} == wanted
    assert {path.stem for path in FIGURES.glob("*.csv")} == wanted


def test_index_lists_every_published_table():
    index = rows("reproduced.csv")
    keys = [(row["document"], row["item"], row["notebook"], row["quantity"]) for row in index]
    assert len(set(keys)) == len(keys)
    transcribed = {
        (row["file"].split("_")[0], row["table"] or row["place"].replace("section", "Section"))
        for row in rows("paper/sources.csv")
    }
    assert transcribed <= {key[:2] for key in keys}
    assert all(row["what"] for row in index)


def test_the_index_names_sections_that_there_are():
    written = {path.stem[:2]: path for path in NOTEBOOKS}
    for row in rows("reproduced.csv"):
        if row["section"]:
            headings = re.findall(r"(?m)^## (\d+)", prose(written[row["notebook"]]))
            assert row["section"] in headings, row
        assert row["notebook"] or row["verdict"] == "not attempted", row


# --- all files -----------------------------------------------------------------------------------
MACHINE = r"(?<![\w.:/-])/(?:home|root|Users|tmp|work|opt|mnt|private)/\w|[A-Z]:\\+Users"


def tracked() -> list[str]:
    """The files that belong to the project."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what belongs to the project is not known")
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    return [name for name in names if (ROOT / name).is_file()]  # not deleted and not yet committed


def test_no_file_names_a_machine():
    machine = re.compile(rf"{MACHINE}|(?<![\w.:/-]){re.escape(str(ROOT))}\b")
    for name in tracked():
        if not name.endswith((".png", ".xz")):
            text = (ROOT / name).read_text(encoding="utf-8")
            hit = machine.search(re.sub('"image/png": "[^"]*"', "", text))
            assert not hit, f"{name}: {hit[0]}"


def test_right_answers_of_the_exam_are_not_found_by_their_letter():
    exam = (ROOT / "notebooks" / "TEACHING.md").read_text(encoding="utf-8").split("## Questions")[1]
    questions = [line for line in exam.splitlines() if re.match(r"\d+\. ", line)]
    right = [re.findall(r"\(([abc])\) \*\*", line) for line in questions]
    assert all(len(letters) == 1 for letters in right)
    counts = [sum(letters == [letter] for letters in right) for letter in "abc"]
    assert min(counts) > len(questions) / 4, counts
