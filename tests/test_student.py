"""Exercises: stubs that are not solved yet, checks that say so, and solutions that pass the same checks."""

import json
import os
import re
import subprocess
import sys
import zipfile

import nbformat
import pytest
from test_project import NOTEBOOKS, ROOT, code, prose

from tokhelpers.notebook import check, check_answer
from tools.student import graded, read, solved, tags, write_student

CHAPTERS = [path for path in NOTEBOOKS if solved(read(path))]
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem[:2])


def checks(path):
    """The check cells of a notebook: source and what they said, by the ids of their cells."""
    return {
        cell["id"]: (cell["source"], "".join(cell["outputs"][-1]["data"]["text/plain"]))
        for cell in code(path)
        if "check" in tags(cell)
    }


# --- the sentences -------------------------------------------------------------------------------
def test_a_check_tells_the_first_case_that_fails_and_not_its_result():
    def double(tokens):
        return 2 * tokens

    case = ("each token stands twice, one behind the other", [["a", "b"]], ["a", "a", "b", "b"])
    told = check(double, ("one token becomes two", [["a"]], ["a", "a"]), case)
    given = "double(['a', 'b']) returns ['a', 'b', 'a', 'b']"
    assert str(told) == f"Not right yet: {case[0]}, but {given}." and not told.right
    with pytest.raises(AssertionError, match="each token stands twice"):
        told.require()
    assert check(double, ("numbers", [2], 4), ("lists and tuples", [(1,)], [1, 1])).right
    assert check(lambda x: x / 3, ("floats are rounded", [1], 1 / 3 + 1e-13)).right


def test_a_check_survives_what_a_stub_or_a_student_does():
    case = ("the last token goes", [["a", "b"]], ["a"])
    assert str(check(lambda tokens: None, case)).startswith("Not solved yet: ")
    assert "raises IndexError: list" in str(check(lambda tokens: tokens[9], case))
    assert check(lambda tokens: tokens.pop() and tokens, case, case).right  # arguments are copies
    told = str(check(lambda tokens: tokens[:-1] or None, case, ("nothing is left", [["a"]], [])))
    assert told == "Not right yet: nothing is left, but the function(['a']) returns None."
    told = str(check(lambda tokens: tokens.pop() and None, case))
    assert told.endswith("the function changes its argument and returns None: return the result.")


def test_an_answer_is_compared_by_its_parts_when_there_is_one():
    assert str(check_answer([1, ...], lambda: 1 / 0)).startswith("Not solved yet")
    assert check_answer([1, 2], (1, 2)).right and not check_answer(float("nan"), 1.0).right
    assert "2 items" in str(check_answer([1, 3], [1, 2, 3]))
    assert str(check_answer(3, [1, 2])) == "Not right yet: it is not 3."
    told = str(check_answer([1, 2], lambda: sorted([..., ...])))
    assert told.startswith("Not checked yet: ") and "raises TypeError: " in told


def test_a_function_returns_the_answer_alone_or_with_the_mistakes():
    def with_mistakes():
        return 1 + 2, {1 + 3: "count again."}

    assert check_answer(3, with_mistakes).right
    assert str(check_answer(4, with_mistakes)) == "Not right yet: count again."
    assert str(check_answer(4, lambda: 3, {4: "one less."})) == "Not right yet: one less."
    assert check_answer((1, 2), lambda: (1, 2)).right


# --- the notebooks -------------------------------------------------------------------------------
def test_all_chapters_have_exercises():
    assert CHAPTERS == NOTEBOOKS


@each_chapter
def test_exercises_are_not_solved_and_solutions_pass_the_very_same_checks(path):
    solution = path.parent / "solutions" / path.name
    asked, answered = checks(path), checks(solution)
    assert asked.keys() == answered.keys()
    for i, (source, said) in answered.items():
        assert source == asked[i][0] and said.startswith("Right")
        assert asked[i][1].startswith("Not solved yet: ")
    assert solved(read(path)).keys() == solved(read(solution)).keys()


# --- what students get ---------------------------------------------------------------------------
def test_student_version_has_no_outputs_and_no_solutions(tmp_path):
    target = tmp_path / "student"
    made = write_student(target)
    assert [path.name for path in made] == [path.name for path in NOTEBOOKS]
    for path in made:
        nbformat.validate(nbformat.read(path, as_version=4))
        assert not any(cell["outputs"] or cell["execution_count"] for cell in code(path))
    glossary = target / "notebooks" / "GLOSSARY.md"
    texts = [*map(prose, made), glossary.read_text(encoding="utf-8")]
    for link in re.findall(r"\]\(([^)#:]+)\)", "\n".join(texts)):
        assert (glossary.parent / link).is_file(), link  # none leads to solutions or exam answers
    packed = target.with_suffix(".zip")
    assert "student/notebooks/01_bpe_by_hand.ipynb" in zipfile.ZipFile(packed).namelist()
    before = packed.read_bytes()
    write_student(target)
    assert packed.read_bytes() == before


def test_tables_are_found_beside_the_notebooks_where_only_the_package_is_installed(tmp_path):
    student = tmp_path / "student"
    (student / "data" / "paper").mkdir(parents=True)
    (student / "notebooks").mkdir()
    (tmp_path / "tokhelpers").symlink_to(ROOT / "tokhelpers")
    program = "from tokhelpers.common import files; print(files.CHECKOUT)"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", program]
    said = subprocess.check_output(command, env=env, cwd=student / "notebooks", text=True)
    assert said.strip() == str(student)


@each_chapter
def test_nbgraders_version_holds_solutions_and_raises(path):
    solution = path.parent / "solutions" / path.name
    made = nbformat.reads(json.dumps(graded(read(path), read(solution))), as_version=4)
    nbformat.validate(made)
    roles = [cell.metadata.get("nbgrader") for cell in made.cells]
    assert sum(role["solution"] for role in roles if role) == len(solved(read(path)))
    for cell, role in zip(made.cells, roles, strict=True):
        if role:
            compile(cell.source, "cell", "exec")
            assert cell.source.count("### BEGIN SOLUTION") == role["solution"]
            assert not role["grade"] or cell.source.endswith(".require()")
