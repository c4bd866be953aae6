"""The instructor's page names the notebooks there are, and says what they say."""

import csv
import json
import re
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
PAGE = (NOTEBOOKS / "TEACHING.md").read_text(encoding="utf-8")
SESSIONS = [line.strip("| ").split(" | ") for line in re.findall(r"(?m)^\| \d+ \|.*$", PAGE)]


def words(name):
    """All that a notebook says: its prose, its code, and what it printed."""
    cells = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))["cells"]
    printed = [output for cell in cells for output in cell.get("outputs", [])]
    shown = [o.get("text", o.get("data", {}).get("text/plain", "")) for o in printed]
    return "\n".join("".join(part) for part in [*(cell["source"] for cell in cells), *shown])


def test_each_notebook_has_its_session():
    with open(NOTEBOOKS.parent / "data" / "series.csv", newline="", encoding="utf-8") as file:
        series = [f"{row['notebook']}.ipynb" for row in csv.DictReader(file)]
    named = [re.findall(r"\[(\d\d)\]\(([^)]+)\)", session[1]) for session in SESSIONS]
    assert sorted(file for pairs in named for _, file in pairs) == series
    assert all(file.startswith(number) for pairs in named for number, file in pairs)
    assert [int(session[0]) for session in SESSIONS] == list(range(1, len(SESSIONS) + 1))
    assert all((NOTEBOOKS / link).exists() for link in re.findall(r"\]\(([^)]+)\)", PAGE))


def test_exercises_belong_to_the_session():
    for _, notebooks, *_, exercises in SESSIONS:
        asked = re.findall(r"(\d\d)\.([123])\b", exercises)
        assert asked and {number for number, _ in asked} <= set(
            re.findall(r"\[(\d\d)\]", notebooks)
        )


def test_numbers_and_words_stand_in_the_notebooks_of_the_session():
    checked = 0
    for _, notebooks, _, ask, wrong, _ in SESSIONS:
        said = "".join(map(words, re.findall(r"\(([^)]+)\)", notebooks)))
        facts = re.findall(r"\d[\d,.]*\d(?: of \d+)?", ask + wrong)
        for fact in [*facts, *re.findall(r"`([^`]+)`", ask + wrong)]:
            assert fact.strip() in said, (fact, notebooks)
            checked += 1
    assert checked >= 10
