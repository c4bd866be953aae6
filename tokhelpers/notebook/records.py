"""Numbers stored as files, published or our own, and how much the notebooks compute."""

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

from ..common.files import CHECKOUT, write_all

LIBRARIES = ["tokenizers", "transformers", "torch", "sentencepiece", "wordfreq"]
LIBRARIES += ["numpy", "pandas", "numba"]
TEXTS = ("reason", "notebook", "section")  # columns of reproduced.csv
VERDICTS = ["reproduced", "reproduced at smaller scale", "direction only", "not reproduced"]
VERDICTS += ["re-analysed", "not attempted"]
OPEN_ROWS = 2  # longer tables of published values are folded
NOT_TABLES = {"sources", "slips"}  # files beside the published tables


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
    """Return the current profile: ``TOKHELPERS_PROFILE``, or ``quick``.

    Raises ValueError for an unknown name.

    >>> profile().seed
    0
    """
    name = os.environ.get("TOKHELPERS_PROFILE", "quick")
    if name not in PROFILES:
        raise ValueError(f"TOKHELPERS_PROFILE is {name!r}: use {' or '.join(PROFILES)}")
    return PROFILES[name]


def load_published(table: str) -> pd.DataFrame:
    """Load a published table, as transcribed in ``data/paper``.

    ``data/paper/sources.csv`` names the document and table of each. Raises FileNotFoundError, listing
    the available tables, for an unknown name.

    >>> int(load_published("paper_table_08").unreachable_tokens[0])
    588
    """
    return load_table("paper", table, "published table")


def reproduced(notebook: str) -> pd.DataFrame:
    """List what a notebook reproduces: published values, ours, and why they differ.

    ``notebook`` is its two digits. The rows are those of ``data/reproduced.csv``: a quantity, where it
    was published, the published value and ours (means over ``cases``), their difference in the unit of
    the quantity, a verdict, the reason for a difference, and the section that computes it. For a claim,
    ``ours`` is in how many of the cases it holds. Items with equal values share a row. Raises
    ValueError for a notebook that reproduces nothing.

    >>> th.notebook.reproduced("06")[["source", "published", "ours", "verdict"]].iloc[0].tolist()
    ['paper, Table 8', '588', '588', 'reproduced']
    """
    index = load_table(".", "reproduced", "index", dtype=dict.fromkeys(TEXTS, "string"))
    rows = index[index.notebook == notebook]
    if rows.empty:
        available = ", ".join(sorted(set(index.notebook.dropna())))
        raise ValueError(f"notebook {notebook!r} reproduces nothing; those that do: {available}")
    rows = rows.assign(quantity=rows.quantity.fillna(rows.what))
    shown = rows.columns.drop(["item", "place", "what"]).tolist()
    rows = rows.groupby(shown, sort=False, dropna=False, as_index=False)["item"].agg(", ".join)
    table = pd.DataFrame(
        {
            "quantity": rows.quantity,
            "source": rows.document + ", " + rows.item,
            "published": [_number(value) for value in rows.published],
            "ours": [_number(value) for value in rows.ours],
            "difference": [_number(value, "+") for value in rows.ours - rows.published],
            "verdict": rows.verdict,
            "reason": rows.reason.fillna(""),
            "section": rows.section.fillna(""),
        }
    )
    is_claim = rows.cases == "claim"
    table.loc[is_claim, "ours"] += " of " + table.published[is_claim]
    table.loc[is_claim, "published"] = "claim"
    table.loc[is_claim, "difference"] = ""
    return ReproducedTable(table.set_index("quantity"))


class ReproducedTable(pd.DataFrame):
    """Published values beside ours; a notebook folds a long table under a line that counts the verdicts."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return ReproducedTable  # what is sorted or selected from it is one, too

    def _repr_html_(self) -> str:
        table = re.sub("<(th|td)>", r'<\1 style="text-align: left">', super()._repr_html_())
        if len(self) <= OPEN_ROWS or "verdict" not in self:
            return table
        numbers = self.verdict.value_counts().reindex(VERDICTS).dropna().astype(int)
        counts = ", ".join(f"{number} {verdict}" for verdict, number in numbers.items())
        summary = f"{len(self)} published values beside ours, with the reason: {counts}"
        return f"<details><summary>{summary}</summary>{table}</details>"


def _number(value: float, sign: str = "") -> str:
    """Write a number with up to four significant digits; nothing for a gap."""
    if pd.isna(value):
        return ""
    if value == 0:
        return "0"
    return f"{value:{sign},.0f}" if value == round(value) else f"{value:{sign},.4g}"


def load_measured(table: str) -> pd.DataFrame:
    """Load a table of our own that takes too long to compute in a notebook.

    ``data/measured/TABLE.json`` records how it was made. Raises FileNotFoundError, listing the
    available tables, for an unknown name.

    >>> load_measured("many_languages").language.nunique()
    63
    """
    return load_table("measured", table, "measured table")


def load_table(folder: str, name: str, kind: str, **options) -> pd.DataFrame:
    """Load a table of ``data``; FileNotFoundError, listing those there are, for an unknown name."""
    if CHECKOUT is None:
        raise FileNotFoundError(
            f"data/{folder} is part of a checkout of tokhelpers, but only the package is installed "
            "here: clone the repository and install it with pip install -e ."
        )
    files = CHECKOUT / "data" / folder
    file = files / f"{name}.csv"
    if not file.exists():
        stems = {path.stem for path in files.glob("*.csv")} - NOT_TABLES
        names = ", ".join(sorted(stems)) or "none"
        raise FileNotFoundError(f"no {kind} is called {name!r}; available: {names}")
    return pd.read_csv(file, **options)


def record_measured(
    table: pd.DataFrame, name: str, *, command: str, seconds: float, accelerator: str | None = None
) -> None:
    """Store a table as ``data/measured/NAME.csv``, and its provenance as ``NAME.json``.

    The provenance has the command, commit, profile, seed, versions, processor, cores, memory in GB,
    the ``seconds`` it took, the date, and the ``accelerator`` where one was used. Numbers are rounded
    to six digits. ``TOKHELPERS_MEASURED`` names another folder. Raises ValueError for an empty table.

    >>> record_measured(pd.DataFrame(), "nothing", command="make full", seconds=0)
    Traceback (most recent call last):
    ValueError: table nothing is empty: there is nothing to store
    """
    if not len(table):
        raise ValueError(f"table {name} is empty: there is nothing to store")
    folder = Path(os.environ.get("TOKHELPERS_MEASURED", (CHECKOUT or Path.cwd()) / "data/measured"))
    affinity = getattr(os, "sched_getaffinity", None)  # the cores available to this process
    provenance = {
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
    } | ({"accelerator": accelerator} if accelerator else {})
    numbers = table.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()
    about = (json.dumps(provenance, indent=1) + "\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    write_all({folder / f"{name}.csv": numbers, folder / f"{name}.json": about})


def processor() -> str:
    """Return the name of the processor."""
    file = Path("/proc/cpuinfo")
    match = re.search(r"model name\s*: (.+)", file.read_text() if file.exists() else "")
    return match[1] if match else platform.processor() or platform.machine()


def _commit() -> str:
    """The checkout's commit; "unknown" without a checkout, a repository or git."""
    if CHECKOUT is None or which("git") is None:
        return "unknown"
    command = ["git", "rev-parse", "--short", "HEAD"]
    result = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    return result.stdout.strip() or "unknown"
