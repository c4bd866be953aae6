"""Numbers kept as files, published or our own, and how much the notebooks compute."""

import json
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from shutil import which

import pandas as pd
import psutil

from ..tokenizer.files import CHECKOUT, write_all

LIBRARIES = (
    "tokenizers", "transformers", "torch", "sentencepiece", "wordfreq", "numpy", "pandas", "numba",
)  # fmt: skip


@dataclass(frozen=True)
class Profile:
    """Sizes and seed of a run; ``train_chars`` and ``test_chars`` are in characters."""

    name: str
    train_chars: int
    test_chars: int
    sizes: tuple[int, ...]
    seed: int = 0


SIZES = (1_000, 2_000, 4_000, 8_000, 16_000)
PROFILES = {
    # about a minute per notebook on a laptop
    "quick": Profile("quick", 12_000_000, 1_000_000, SIZES),
    # without a limit of time
    "full": Profile("full", 100_000_000, 10_000_000, (*SIZES, 32_000)),
}


def profile() -> Profile:
    """Return the profile in force: ``TOKHELPERS_PROFILE``, or ``quick``.

    Raises ValueError for another name.

    >>> profile().seed
    0
    """
    name = os.environ.get("TOKHELPERS_PROFILE", "quick")
    if name not in PROFILES:
        raise ValueError(f"TOKHELPERS_PROFILE is {name!r}: use {' or '.join(PROFILES)}")
    return PROFILES[name]


def load_published(table: str) -> pd.DataFrame:
    """Load a published table, as transcribed in ``data/paper``.

    ``sources.csv`` there says where each table stands. Raises FileNotFoundError, naming the tables
    there are, for an unknown one.

    >>> int(load_published("paper_table_08").unreachable_tokens[0])
    588
    """
    return _table("paper", table, "published")


def load_measured(table: str) -> pd.DataFrame:
    """Load a table of our own that takes too long for a notebook: ``data/measured/TABLE.csv``.

    ``TABLE.json`` beside it says how it was made. Raises FileNotFoundError, naming the tables there
    are, for an unknown one.

    >>> load_measured("many_languages").language.nunique()
    63
    """
    return _table("measured", table, "measured")


def _table(folder: str, name: str, kind: str) -> pd.DataFrame:
    if CHECKOUT is None:
        raise FileNotFoundError(
            f"{kind} tables stand in data/{folder} of a checkout of tokhelpers, and here only the "
            "package is installed: clone the project and install it with pip install -e ."
        )
    files = CHECKOUT / "data" / folder
    file = files / f"{name}.csv"
    if not file.exists():
        names = ", ".join(sorted({f.stem for f in files.glob("*.csv")} - {"sources", "slips"}))
        raise FileNotFoundError(f"no {kind} table is called {name!r}; there are {names or 'none'}")
    return pd.read_csv(file)


def record_measured(table: pd.DataFrame, name: str, *, command: str, seconds: float) -> None:
    """Keep a table as ``data/measured/NAME.csv``, and how it was made as ``NAME.json``.

    The second holds the command, the commit, profile and seed, versions, processor, cores, memory
    in GB, the ``seconds`` it took, and the date. Numbers have six digits. Another folder can be
    given in ``TOKHELPERS_MEASURED``. Raises ValueError for an empty table.

    >>> record_measured(pd.DataFrame(), "nothing", command="make full", seconds=0)
    Traceback (most recent call last):
    ValueError: the table nothing has no rows: there is nothing to keep
    """
    if not len(table):
        raise ValueError(f"the table {name} has no rows: there is nothing to keep")
    folder = Path(os.environ.get("TOKHELPERS_MEASURED", (CHECKOUT or Path.cwd()) / "data/measured"))
    affinity = getattr(os, "sched_getaffinity", None)  # the cores that this process may use
    how = {
        "command": command,
        "commit": _commit(),
        "profile": profile().name,
        "seed": profile().seed,
        "versions": {"python": platform.python_version()} | {x: version(x) for x in LIBRARIES},
        "processor": processor(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "seconds": round(seconds),
        "date": datetime.now(UTC).date().isoformat(),
    }
    numbers = table.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()
    about = (json.dumps(how, indent=1) + "\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    write_all({folder / f"{name}.csv": numbers, folder / f"{name}.json": about})


def processor() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", info.read_text() if info.exists() else "")
    return found[1] if found else platform.processor() or platform.machine()


def _commit() -> str:
    """The checkout's commit; "unknown" without a checkout, a repository or git."""
    if CHECKOUT is None or which("git") is None:
        return "unknown"
    asked = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(asked, cwd=CHECKOUT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"
