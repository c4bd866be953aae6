"""Tables of our own that take long, kept in ``data/measured`` with how they were made."""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import psutil

from tokhelpers.models.timing import processor
from tokhelpers.notebook.records import profile
from tokhelpers.tokenizer.files import write_all

ROOT = Path(__file__).parents[1]
LIBRARIES = (
    "tokenizers", "transformers", "torch", "sentencepiece", "wordfreq", "numpy", "pandas", "numba",
)  # fmt: skip


def record_measured(table: pd.DataFrame, name: str, *, command: str, seconds: float) -> None:
    """Keep a table as ``data/measured/NAME.csv``, and how it was made as ``NAME.json``.

    The second holds the command, the commit, profile and seed, versions, processor, cores, memory
    in GB, the ``seconds`` it took, and the date. Numbers have six digits. Another folder can be
    given in ``TOKHELPERS_MEASURED``. Raises ValueError for an empty table.
    """
    if not len(table):
        raise ValueError(f"the table {name} has no rows: there is nothing to keep")
    folder = Path(os.environ.get("TOKHELPERS_MEASURED", ROOT / "data" / "measured"))
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
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "csv": table.to_csv(index=False, float_format="%.6g", lineterminator="\n"),
        "json": json.dumps(how, indent=1) + "\n",
    }
    write_all({folder / f"{name}.{ending}": text.encode() for ending, text in texts.items()})


def _commit() -> str:
    """Return the checkout's commit; "unknown" without a repository or git."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
        )
    except OSError:  # git is not installed
        return "unknown"
    return found.stdout.strip() or "unknown"
