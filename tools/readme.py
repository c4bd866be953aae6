"""Write the README's tables, of the notebooks and of what is promised, from data/: `make readme`."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "site"))

from pages import rows, series  # noqa: E402

START, END = "<!-- %s: made by `make readme` -->", "<!-- end -->"
HEAD = (
    "| | notebook | what it shows | regenerates | minutes | figures |\n|---|---|---|---|---|---|\n"
)
SHORT = {
    "paper": "",
    "summary": "summary: ",
    "superbpe": "SuperBPE: ",
    "thesis": "thesis: ",
    "adaptbpe": "AdaptBPE: ",
    "lecture": "lecture: ",
    "nemotron": "Nemotron: ",
}


def regenerated(number):
    """The tables and figures that a notebook shows beside the published ones, document by document."""
    items = {}
    for row in rows("data/reproduced.csv"):
        kind, _, which = row["item"].partition(" ")
        if row["notebook"] == number and row["verdict"] not in ("not attempted", "re-analysed"):
            items.setdefault(row["document"], {}).setdefault(kind, []).append(which)
    said = []
    for document, kinds in items.items():
        parts = [plural(kind, sorted(set(which), key=order)) for kind, which in kinds.items()]
        said.append(SHORT[document] + "; ".join(parts))
    return "; ".join(said)


def order(which):
    """By number, then by letter or name."""
    return int(which) if which.isdigit() else 99, which


def plural(kind, which):
    return f"{kind}s {', '.join(which)}" if len(which) > 1 else f"{kind} {which[0]}"


def table():
    """The table as Markdown: a row a notebook, with the minutes it took and its figures."""
    seconds = {row["notebook"]: int(row["seconds"]) for row in rows("data/measured/notebooks.csv")}
    figures = [row["figure"][:2] for row in rows("data/figures.csv")]
    lines = []
    for row in series():
        number, _, name = row["notebook"].partition("_")
        took = seconds.get(row["notebook"])  # none for one that is newer than the last `make times`
        minutes = max(1, round(took / 60)) if took else ""
        link = f"[{name}](notebooks/{row['notebook']}.ipynb)"
        cells = [number, link, row["teaches"], regenerated(number), minutes]
        lines.append("| " + " | ".join(map(str, [*cells, figures.count(number) or ""])) + " |\n")
    return HEAD + "".join(lines)


def collected():
    """How many cases each file of tests has: `train/trainers` is `tests/train/test_trainers.py`."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:nbval", "tests"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(?m)^tests/((?:\w+/)?)test_(\w+)\.py: (\d+)", told)
    return {folder + name: int(n) for folder, name, n in found}


def place(name):
    """Where in tests/ the tests of this name stand."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/test_{file}".strip("/")


def promises():
    """What the project promises, by what tests, and with how many cases, two digits of them."""
    cases = collected()
    lines = ["| promised | tested in `tests/` by | cases, at least |\n|---|---|---|\n"]
    for row in rows("data/promises.csv"):
        files = row["tests"].split()
        if missing := [name for name in files if name not in cases]:
            raise ValueError(f"data/promises.csv names tests that are not there: {missing}")
        links = ", ".join(f"[{name}](tests/{place(name)}.py)" for name in files)
        n = sum(cases[name] for name in files)
        ten = 10 ** max(0, len(str(n)) - 2)
        lines.append(f"| {row['promise']} | {links} | {n // ten * ten:,} |\n")
    return "".join(lines)


TABLES = {"notebooks": table, "promises": promises}


def readme(text, names=tuple(TABLES)):
    """The README with its tables, or those of these names, put where they stand."""
    for name in names:
        start = START % name
        found = re.findall(f"(?s){start}.*?{END}", text)
        if (n := len(found)) != 1:
            raise ValueError(
                f"the README has {n} places for {name}: give it one, {start} ... {END}"
            )
        text = text.replace(found[0], f"{start}\n\n{TABLES[name]()}\n{END}")
    return text


if __name__ == "__main__":
    file = ROOT / "README.md"
    file.write_text(readme(file.read_text(encoding="utf-8")), encoding="utf-8")
