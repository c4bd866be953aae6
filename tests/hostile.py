"""Hostile input: one table of targets, each a strategy and what must hold of every example.

`tests/test_hostile.py` tries some examples of each; `make soak` shares `TOKHELPERS_SOAK_MINUTES`, or
half an hour, evenly among them, each in a process of its own, and says how many examples each one
saw; `--keep` keeps that in `data/measured`. A target gives a right result, or one of the errors that
are ours; anything else is a finding: another error, a crash of the process, an example that takes
longer than `SECONDS`, or more memory than `MEGABYTES` on top of the first one's.
"""

import faulthandler
import os
import random
import re
import resource
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import hostile_files
import hostile_text
import hostile_tokenizers
import pandas as pd
from hypothesis import HealthCheck, Phase, given, seed, settings

from tokhelpers.notebook.records import record_measured

TARGETS = hostile_text.TARGETS | hostile_files.TARGETS | hostile_tokenizers.TARGETS
SECONDS, MEGABYTES = 60, 3000


def peak() -> int:
    """The most memory that this process has had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # what resource says on Linux begins with the parent's
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) >> 10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most >> (20 if sys.platform == "darwin" else 10)


def tried(name: str, examples: int, number: int = 0) -> int:
    """Try a target with that many examples, other ones for each number; returns how many it saw."""
    strategy, holds, *more = TARGETS[name]
    seen = before = 0

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(strategy)
    def run(example):
        nonlocal seen, before
        # the first one also loads tokenizers and compiles
        faulthandler.dump_traceback_later(SECONDS if seen else 20 * SECONDS, exit=True, file=2)
        seen += 1
        holds(*(example if isinstance(example, tuple) else (example,)), *more)
        before = before or peak()

    try:
        run()
    finally:
        faulthandler.cancel_dump_traceback_later()
    taken = peak() - before
    assert taken < MEGABYTES, f"an example took {taken:,} MB of memory"
    return seen


def tried_until(name: str, ends: float, number: int) -> tuple[int, int, str]:
    """Try a target until a time, a hundred examples and more: how many, peak memory, what failed."""
    seen = 0
    try:
        while not seen or time.time() < ends:
            seen += tried(name, 100, number)
            number += 1
    except BaseException as error:  # the library's panics are no Exception
        return seen, peak(), f"seed {number}: {''.join(traceback.format_exception(error))[-5000:]}"
    return seen, peak(), ""


def main() -> int:
    """Try all targets in turn, each for its share of the time."""
    minutes = float(os.environ.get("TOKHELPERS_SOAK_MINUTES", 30))
    failed, first, rows = 0, random.SystemRandom().randrange(2**32), []
    print(f"{minutes:g} minutes for {len(TARGETS)} targets, seeds from {first}", flush=True)
    for name in TARGETS:
        ends = time.time() + 60 * minutes / len(TARGETS)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            try:
                *saw, why = pool.submit(tried_until, name, ends, first).result()
            except BrokenProcessPool:
                saw, why = [0, 0], "the process ended"
        failed += bool(why)
        rows.append((name, *saw))
        told = f"\nFAILED {why}" if why else ""
        print("{}: {:,} examples, {:,} MB".format(name, *saw) + told, flush=True)
    if "--keep" in sys.argv and not failed:
        table = pd.DataFrame(rows, columns=["target", "examples", "peak_mb"])
        record_measured(table, "soak", command="make soak", seconds=60 * minutes)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
