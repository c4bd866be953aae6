"""`mytok`: what the reader writes in lesson 01 is kept, checked again, and used by later lessons."""

import json
import linecache
import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from test_project import ROOT, code

import tokhelpers as th
from tokhelpers.notebook.checks import KEPT, PROBES, mytok
from tools.run_notebooks import environment
from tools.student import graded, read, solved, tags, without_outputs, write

LESSONS = sorted((ROOT / "notebooks").glob("0[1-6]_*.ipynb"))
SOLUTION = LESSONS[0].parent / "solutions" / LESSONS[0].name


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder without a file, in which keeping is switched on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOKHELPERS_MYTOK", raising=False)
    return tmp_path


OWN = "Your own version is used: count_pairs, merge, learn, encode."
TEXTBOOK = "The textbook's version is used: count_pairs, merge, learn, encode."


def run_cell(source, space):
    """Runs a cell as IPython does: its source can be found again. Returns its last expression."""
    name = f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    *before, last = source.split("\nth.notebook.check(")
    exec(compile(before[0] if before else last, name, "exec"), space)
    return eval("th.notebook.check(" + last, space) if before else None


def solve(*names):
    """Solves exercises of lesson 01, and checks them as its cells do."""
    space = {"th": th}
    answers = solved(read(SOLUTION))
    for cell in code(SOLUTION):
        if "check" in tags(cell) and cell["id"].removeprefix("check-") in names:
            space["mytok"] = mytok(th.textbook)
            exec("from collections import Counter\nfrom itertools import pairwise", space)
            run_cell(answers[cell["id"].replace("check-", "ex-")], space)
            assert run_cell("\n" + cell["source"], space).right


def test_what_is_right_is_kept_and_loaded_and_the_rest_is_the_textbooks():
    assert repr(mytok(th.textbook)).startswith("Not yet written by you, so the textbook's version")
    solve("count", "merge")
    some = mytok(th.textbook)
    assert some.count_pairs is not th.textbook.count_pairs and some.learn is th.textbook.learn
    assert repr(some).splitlines() == [
        "Your own version is used: count_pairs, merge.",
        "Not yet written by you, so the textbook's version is used: learn, encode.",
    ]
    solve("learn", "encode", "encode")
    text = KEPT.read_text(encoding="utf-8")
    assert repr(mytok(th.textbook)) == OWN
    assert text.count("def encode") == 1 and "th.notebook" not in text
    assert not mytok(th.textbook, text).faults


@pytest.mark.parametrize(
    ("learn", "says"),
    [
        ("def learn(words, k):\n    return []", "yours is not right: learn("),
        ("def learn(words, k):\n    return found[:k]", "NameError: name 'found' is not defined"),
        ("def learn(words, k):\n    raise SystemExit", "yours exits Python"),
    ],
)
def test_a_function_that_is_wrong_or_looks_outside_is_not_used(learn, says):
    KEPT.write_text("merge = mytok.merge\n\n" + learn)
    made = mytok(th.textbook)
    assert says in made.faults["learn"] and "merge" not in made.faults
    assert made.learn is th.textbook.learn


IN_PLACE = """
def merge(tokens, pair):
    k = 0
    while k < len(tokens) - 1:
        if tokens[k : k + 2] == list(pair):
            tokens[k : k + 2] = ["".join(pair) if isinstance(pair[0], str) else b"".join(pair)]
        k += 1
    return tokens

def encode(tokens, ranks):
    while True:
        ranked = [(ranks[p], k) for k, p in enumerate(zip(tokens, tokens[1:])) if p in ranks]
        if not ranked:
            return tuple(tokens)
        k = min(ranked)[1]
        tokens[k : k + 2] = [tokens[k] + tokens[k + 1]]

def learn(words, k):
    merges = []
    while len(merges) < k and (pairs := mytok.count_pairs(words)):
        merges.append(list(max(pairs, key=pairs.get)))
        for tokens, _ in words:
            tokens[:] = mytok.merge(tokens, tuple(merges[-1]))
    return merges
"""


def test_functions_that_work_in_place_or_return_tuples_are_used_as_the_textbooks_are():
    KEPT.write_text(IN_PLACE)
    own = mytok(th.textbook)
    assert own.faults == {"count_pairs": "Not yet written by you"}
    words = [(list("cat"), 10), (list("bag"), 12)]
    assert own.learn(words, 2) == th.textbook.learn(words, 2) == [("b", "a"), ("ba", "g")]
    assert words == [(list("cat"), 10), (list("bag"), 12)]
    assert own.merge(words[0][0], ("a", "t")) == ["c", "at"] and words[0][0] == list("cat")
    assert own.encode("cat", {("a", "t"): 0}) == ["c", "at"]


def test_a_broken_file_is_not_used_at_all():
    KEPT.write_text("def merge(tokens, pair):\nreturn 1")
    made = mytok(th.textbook)
    assert set(made.faults) == set(PROBES)
    assert "mytok.py raises IndentationError" in repr(made)
    assert made.merge is th.textbook.merge


def test_switched_off_nothing_is_kept_or_read(monkeypatch, folder):
    monkeypatch.setenv("TOKHELPERS_MYTOK", environment()["TOKHELPERS_MYTOK"])
    space = {"th": th}
    run_cell("def first(tokens):\n    return tokens[0]", space)
    check = '\nth.notebook.check(first, ("the first", [["a"]], "a"), keep=True)'
    assert str(run_cell(check, space)) == "Right: the case holds." and not KEPT.exists()
    KEPT.write_text("1 / 0")
    assert repr(mytok(th.textbook)) == TEXTBOOK


@pytest.mark.long
def test_nbval_does_not_read_a_stray_file(folder):
    shutil.copy(ROOT / "notebooks" / "conftest.py", folder)
    (folder / "mytok.py").write_text("def merge(tokens, pair):\n    return tokens")
    source = "import tokhelpers as th\n\nth.notebook.mytok(th.textbook)"
    output = nbformat.v4.new_output("execute_result", {"text/plain": TEXTBOOK}, execution_count=1)
    cell = nbformat.v4.new_code_cell(source, execution_count=1, outputs=[output])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    nbformat.write(notebook, folder / "some.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([*command, "some.ipynb"], env=env, capture_output=True, text=True)
    assert run.returncode == 0 and "1 passed" in run.stdout, run.stdout


def test_graded_notebooks_switch_it_off():
    made = graded(read(LESSONS[1]), read(SOLUTION.parent / LESSONS[1].name))
    first = next(cell for cell in made["cells"] if cell["cell_type"] == "code")
    assert 'os.environ["TOKHELPERS_MYTOK"] = "off"' in "".join(first["source"])


@pytest.mark.first
@pytest.mark.long
def test_lessons_solved_one_after_the_other_use_the_readers_functions(folder):
    from nbclient import NotebookClient

    shutil.copytree(ROOT / "data", folder / "data", ignore=shutil.ignore_patterns("cache"))
    env = {**os.environ, **environment(), "TOKHELPERS_FIGURES": str(folder / "figures")}
    env = {**env, "TOKHELPERS_MYTOK": "on", "PYTHONPATH": str(ROOT)}
    for path in LESSONS[:5]:  # 06 takes them up in the same cell, and uses none of them
        notebook, answers = without_outputs(read(path)), solved(read(SOLUTION.parent / path.name))
        for cell in notebook["cells"]:
            if "exercise" in tags(cell):
                cell["source"] = answers[cell["id"]].splitlines(keepends=True)
        write(folder / "notebooks" / path.name, notebook)
        made = nbformat.reads(json.dumps(notebook), as_version=4)
        where = {"metadata": {"path": str(folder / "notebooks")}}
        NotebookClient(made, timeout=900, resources=where).execute(env=env)
        said = {cell["id"]: cell.outputs for cell in made.cells if cell.cell_type == "code"}
        for cell in made.cells:
            if "check" in tags(cell):
                (output,) = said[cell["id"]]
                assert output["data"]["text/plain"].startswith("Right"), (path.stem, cell["id"])
        if "cell-mytok" in said:
            (output,) = said["cell-mytok"]
            assert output["data"]["text/plain"] == OWN
    assert (folder / "notebooks" / "mytok.py").is_file()
