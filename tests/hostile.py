"""Hostile input: one table of targets, each a strategy and what must hold of every example.

`tests/test_hostile.py` tries a few hundred examples of each; `python tests/hostile.py` (`make
soak`) shares `--minutes`, or `TOKHELPERS_SOAK_MINUTES`, evenly among them, each in a process of
its own, and says how many examples each one saw. A target gives a right result, or one of the
errors that are ours; anything else is a finding: another error, a crash of the process, an example
that takes longer than `SECONDS`, or more memory than `MEGABYTES` on top of the first one's.
"""

import argparse
import faulthandler
import os
import random
import re
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path

import hostile_files
import hostile_text
import pandas as pd
from hypothesis import HealthCheck, Phase, given, seed, settings

from tokhelpers.notebook.records import record_measured

TARGETS = hostile_text.TARGETS | hostile_files.TARGETS
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
    strategy, holds = TARGETS[name]
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
        if seen:  # the first one also loads tokenizers and compiles
            faulthandler.dump_traceback_later(SECONDS, exit=True, file=2)
        seen += 1
        holds(example)
        before = before or peak()

    try:
        run()
    finally:
        faulthandler.cancel_dump_traceback_later()
    more = peak() - before
    assert more < MEGABYTES, f"an example took {more:,} MB of memory"
    return seen


def tried_until(name: str, ends: float, number: int) -> bool:
    """Try a target until a time, a hundred examples and more; whether all was well."""
    seen = 0
    try:
        while not seen or time.time() < ends:
            seen += tried(name, 100, number)
            number += 1
    except BaseException as error:  # the library's panics are no Exception
        print(f"FAILED at seed {number}: {''.join(traceback.format_exception(error))[-5000:]}")
        return False
    print(f"{seen:,} examples, {peak():,} MB")
    return True


def soak(minutes: float) -> tuple[int, pd.DataFrame]:
    """All targets in turn, each for its share of the time: how many failed, and what each saw."""
    failed, first, seen = 0, random.SystemRandom().randrange(2**32), []
    share = 60 * minutes / len(TARGETS)
    print(f"{minutes:g} minutes for {len(TARGETS)} targets, seeds from {first}", flush=True)
    for name in TARGETS:
        ends = time.time() + share
        command = [sys.executable, __file__, "--target", name, "--ends", str(ends)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "errors": "replace"}
        try:
            done = subprocess.run(
                [*command, "--seed", str(first)], timeout=share + 20 * SECONDS, **options
            )
            code, said = done.returncode, done.stdout.strip()
        except subprocess.TimeoutExpired as error:
            code, said = "no end", (error.stdout or b"").decode(errors="replace")
        failed += code != 0
        # behind what the library may have said on its way
        if found := re.search(r"^([\d,]+) examples, ([\d,]+) MB\Z", said, re.MULTILINE):
            seen.append((name, *(int(number.replace(",", "")) for number in found.groups())))
        print(f"{name}: {said}" + f"\nFAILED ({code})" * (code != 0), flush=True)
    return failed, pd.DataFrame(seen, columns=["target", "examples", "peak_mb"])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    minutes = float(os.environ.get("TOKHELPERS_SOAK_MINUTES", 30))
    options.add_argument("--minutes", type=float, default=minutes)
    options.add_argument("--keep", action="store_true", help="keep the counts in data/measured")
    options.add_argument("--target", choices=TARGETS, help="try this one only, in this process")
    options.add_argument("--ends", type=float, default=0, help="when to end, as time.time() counts")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    if given.target is None:
        failed, table = soak(given.minutes)
        if given.keep and not failed:
            command = f"python tests/hostile.py --minutes {given.minutes:g} --keep"
            record_measured(table, "soak", command=command, seconds=60 * given.minutes)
        return 1 if failed else 0
    return 0 if tried_until(given.target, given.ends, given.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
