"""Numbers kept as files, published or our own, and how much the notebooks compute."""

import os
from dataclasses import dataclass

import pandas as pd

from ..tokenizer.files import CHECKOUT


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


def published(table: str) -> pd.DataFrame:
    """Load a published table, as transcribed in ``data/paper``.

    ``sources.csv`` there says where each table stands. Raises FileNotFoundError, naming the tables
    there are, for an unknown one.

    >>> int(published("paper_table_08").unreachable_tokens[0])
    588
    """
    return _table("paper", table, "published")


def measured(table: str) -> pd.DataFrame:
    """Load a table of our own that takes too long for a notebook: ``data/measured/TABLE.csv``.

    ``TABLE.json`` beside it says how it was made. Raises FileNotFoundError, naming the tables there
    are, for an unknown one.

    >>> measured("many_languages").language.nunique()
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
