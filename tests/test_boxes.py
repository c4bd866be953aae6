"""The boxes that readers run in the browser: each runs here first, with the standard library."""

import doctest
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "site" / "try"))

import boxes  # noqa: E402
from boxes import MODULES, read_boxes, read_exercises  # noqa: E402

import tokhelpers as th  # noqa: E402
from tools.student import read, solved  # noqa: E402

NUMBERS = [f"{n:02d}" for n in range(1, 6)]
LEARNED = ROOT / "site" / "try" / "learned.txt"
BOXES = [box for number in [*NUMBERS, "try"] for box in read_boxes(number)]
EXERCISES = [box for number in NUMBERS for box in read_exercises(number)]


def cpython(code, folder, seed="0"):
    """What `python box.py` prints, its traceback included, with the files that boxes read beside it."""
    for file in (*MODULES, LEARNED):
        shutil.copy(file, folder)
    (folder / "box.py").write_text(code, encoding="utf-8")
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": ""}
    command = [sys.executable, "-S", "-u", "box.py"]  # -S: no installed packages
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    run = subprocess.run(command, cwd=folder, env=env, encoding="utf-8", **pipes)
    return run.stdout.replace(f"{folder.resolve()}{os.sep}", "")


@pytest.mark.parametrize("box", BOXES, ids=lambda box: box["id"])
def test_box_prints_a_few_lines_always_the_same(box, tmp_path):
    (printed,) = {cpython(box["code"], tmp_path, seed) for seed in ("0", "1", "2")}
    lines = printed.splitlines()
    assert 3 <= len(lines) <= 20 and "Traceback" not in "".join(lines)


@pytest.mark.parametrize("box", EXERCISES, ids=lambda box: box["id"])
def test_exercise_runs_in_the_browser_and_is_not_solved_yet(box, tmp_path):
    *loaded, said = cpython(box["code"], tmp_path).splitlines()
    assert said.startswith("Not solved yet: ")
    assert bool(loaded) == ("mytok = " in box["code"])


def test_what_a_box_keeps_a_later_box_loads(tmp_path):
    """As on the site, where the page keeps the file between the runs."""
    solution = next((ROOT / "notebooks" / "solutions").glob("01_*.ipynb"))
    answers, boxes = solved(read(solution)), {box["id"][4:]: box for box in EXERCISES}
    for name, known in {"count": None, "merge": None, "learn": "count_pairs, merge"}.items():
        box = boxes[f"01-ex-{name}"]["code"]
        before, after = (
            box.split("def ")[0],
            box.split("# TODO: replace this line with your code")[1],
        )
        code = f"{before}{answers[f'ex-{name}']}\n{after}"
        said = cpython(code, tmp_path)
        assert "It is saved in mytok.py" in said and (
            known is None or f"version is used: {known}" in said
        )
    text = (tmp_path / "mytok.py").read_text(encoding="utf-8")
    assert text.count("def ") == 3 and "checks.check" not in text


def test_the_page_to_try_cuts_as_the_tokenizer_that_was_learned(tmp_path):
    learned = th.train_byte_level_bpe(th.load_corpus("hpo", chars=1_000_000), vocab_size=4_256)
    pairs = [f"{a} {b}" for a, b in th.TokenizerSpec.from_tokenizer(learned).pairs()]
    assert LEARNED.read_text(encoding="utf-8").splitlines() == pairs
    (box,) = read_boxes("try")
    *lines, _ = cpython(box["code"], tmp_path).splitlines()
    shown = [token.rpartition("(")[0] for line in lines for token in line.split()]
    text = box["code"].split('text = "')[1].split('"')[0]
    assert shown == learned.encode(text).tokens


def test_examples_in_the_docstrings():
    assert doctest.testmod(boxes) == (0, 4)
