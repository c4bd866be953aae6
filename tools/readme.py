"""Write the tables of README.md and CONTRIBUTING.md from data/: `make readme`."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "site"))

from pages import described, rows, series  # noqa: E402

START, END = "<!-- %s: made by `make readme` -->", "<!-- end -->"
HEADS = (
    "| | lesson | what it teaches |\n|---|---|---|\n",
    "| | study | what it finds |\n|---|---|---|\n",
)
FIRST_STUDY = 7
DOCUMENTS = (
    "Purason et al. and a summary of it, Kim's thesis, AdaptBPE, Nemotron's recipe, a lecture, SuperBPE, "
    "Petrov et al. and parity-aware BPE"
)


def tables():
    """The lessons and the studies as two Markdown tables: number, name, and what each teaches or finds."""
    lines = []
    for name, says, title in described(series()):
        number, _, title = title.partition(" · ")
        link = f"[{title}](notebooks/{name}.ipynb)"
        lines.append(f"| {number} | {link} | {says[0].upper()}{says[1:]} |\n")
    parts = lines[:FIRST_STUDY], lines[FIRST_STUDY:]
    return "\n".join(head + "".join(part) for head, part in zip(HEADS, parts, strict=True))


VERDICTS = {  # in the order in which the README counts them
    "reproduced": "{} are reproduced",
    "reproduced at smaller scale": "{} at a smaller scale",
    "direction only": "{} agree in direction only",
    "not reproduced": "{} are not reproduced",
    "re-analysed": "{} are statistics on printed numbers",
    "not attempted": "{} were not attempted",
}


def reproduced():
    """How many published items and quantities have which verdict, in one line."""
    verdicts = Counter(row["verdict"] for row in rows("data/reproduced.csv"))
    if unknown := verdicts.keys() - VERDICTS:
        raise ValueError(f"data/reproduced.csv has verdicts without a sentence: {sorted(unknown)}")
    counts = ", ".join(phrase.format(verdicts[name]) for name, phrase in VERDICTS.items())
    return (
        f"**What is reproduced:** of {verdicts.total()} published values and claims, {counts}. They are from "
        f"{DOCUMENTS}. [data/reproduced.csv](data/reproduced.csv) lists each with the published value, ours "
        "and the reason for the difference.\n"
    )


def collected():
    """How many cases each file of tests has: `train/trainers` is `tests/train/test_trainers.py`."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:nbval", "tests"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = re.findall(r"(?m)^tests/((?:\w+/)?)test_(\w+)\.py: (\d+)", listing)
    return {folder + name: int(n) for folder, name, n in files}


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


TABLES = {"notebooks": tables, "reproduced": reproduced, "promises": promises}
FILES = {"README.md": ("notebooks", "reproduced"), "CONTRIBUTING.md": ("promises",)}


def filled(text, names):
    """A text with the tables of these names put where they stand."""
    for name in names:
        start = START % name
        places = re.findall(f"(?s){start}.*?{END}", text)
        if (n := len(places)) != 1:
            raise ValueError(f"there are {n} places for {name}: give it one, {start} ... {END}")
        text = text.replace(places[0], f"{start}\n\n{TABLES[name]()}\n{END}")
    return text


if __name__ == "__main__":
    for name, made in FILES.items():
        file = ROOT / name
        file.write_text(filled(file.read_text(encoding="utf-8"), made), encoding="utf-8")
