"""Hostile examples of each kind: thirty in the fast tier, 200 in the long one, `make soak` more."""

import os
import subprocess
import sys
from pathlib import Path

import hostile
import pytest

SLOW = {"text: training": 5, "text: lone surrogates": 2}  # by how much fewer are tried


@pytest.mark.parametrize("examples", [30, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", hostile.TARGETS)
def test_hostile_input(name, examples):
    examples //= SLOW.get(name, 1)
    assert hostile.tried(name, examples) >= examples // 4


@pytest.mark.parametrize(
    ("fault", "seconds", "told"),
    [
        ("time.sleep(999)", 1, "Timeout (0:00:01)!"),  # however slow the machine is
        ("hoard.append(b'x' * 400_000_000)", 600, "an example took "),
        ("os.abort()", 600, ""),
        ("1 / 0", 600, "ZeroDivisionError"),
    ],
)
def test_a_target_that_goes_wrong_fails(fault, seconds, told):
    """Too slow, too large, a crash of the process, an error that is not ours: in the third example."""
    program = (
        "import os, time, hostile; from hypothesis import strategies as st\n"
        "seen, hoard = [], []\n"
        "def holds(_):\n"
        "    seen.append(1)\n"
        f"    if len(seen) == 3: {fault}\n"
        f"hostile.TARGETS, hostile.SECONDS = {{'one': (st.integers(), holds)}}, {seconds}\n"
        "hostile.MEGABYTES = 300\n"
        "raise SystemExit(not hostile.tried_until('one', 0, 0))"
    )
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", program], env=here, capture_output=True, text=True)
    assert done.returncode != 0 and told in done.stdout + done.stderr


def test_a_crash_loses_no_other_target(monkeypatch, capsys):
    codes = dict.fromkeys(hostile.TARGETS, 0) | {"text: qwen": -6, "files: our counts": 1}

    def run(command, **options):
        said = (
            "a panic\n1,200 examples, 305 MB" if command[3] == "text: llama-3" else "what it said"
        )
        return subprocess.CompletedProcess(command, codes[command[3]], stdout=f"{said}\n")

    monkeypatch.setattr(hostile.subprocess, "run", run)
    failed, seen = hostile.soak(0)
    assert failed == 2 and seen.to_numpy().tolist() == [["text: llama-3", 1200, 305]]
    told = capsys.readouterr().out
    assert told.count("what it said") == len(hostile.TARGETS) - 1
    assert "text: qwen: what it said\nFAILED (-6)" in told
