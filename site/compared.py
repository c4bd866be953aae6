"""A comparison with a published table or figure, and its verdict.

Nothing is typed: published numbers are read from `data/paper`, ours from `figures`, `data/measured` and
the package. A claim of a document is a question to our numbers, asked as often as they can answer.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import tokhelpers as th

FIGURES = Path(__file__).parents[1] / "figures"


@dataclass
class Compared:
    """Published numbers and ours, aligned; or, with published None, a question and its answers.

    Where several notebooks show an item, `Table 12@08` says whose numbers are compared.
    """

    document: str
    item: str
    what: str
    published: np.ndarray | None
    ours: np.ndarray
    digits: int = 1  # decimals that are shown and compared
    origin: str = "claim"  # what a question comes from

    notebook: str = ""

    def __post_init__(self):
        self.item, _, self.notebook = self.item.partition("@")
        self.ours = np.ravel(self.ours)
        if self.published is not None:
            self.published = np.ravel(self.published).astype(float)
        numbers = [self.ours] if self.published is None else [self.ours, self.published]
        if not self.ours.size or pd.isna(np.concatenate(numbers)).any():
            raise ValueError(f"{self.document}, {self.item}: nothing to compare, or a gap in it")
        if any(values.shape != self.ours.shape for values in numbers):
            raise ValueError(f"{self.document}, {self.item}: published and ours are not as many")

    @property
    def verdict(self):
        """The kind of the verdict, one of `KINDS`, and how much of a difference there is."""
        if self.published is None:
            held = self.ours.mean()
            kind = "holds" if held == 1 else "in part" if held >= 0.5 else "does not hold"
            return kind, ""
        if (self.ours.round(self.digits) == self.published.round(self.digits)).all():
            return "same", ""
        ours, theirs = self.ours.mean(), self.published.mean()
        if ours * theirs <= 0:
            return "other sign" if ours * theirs else "differs", ""
        more = ours / theirs - 1
        kind = "close" if abs(more) <= 0.1 else "larger" if more > 0 else "smaller"
        return kind, f"{100 * more:+.0f} %".replace("-", "−")

    @property
    def direction(self):
        """Whether ours point where the published numbers do: agrees, in part or disagrees."""
        kind = self.verdict[0]
        against = self.correlation is not None and self.correlation <= 0
        if kind in ("other sign", "differs", "does not hold") or against:
            return "disagrees"
        return "in part" if kind == "in part" else "agrees"

    @property
    def correlation(self):
        """The rank correlation of eight pairs or more, where both sides vary; otherwise None."""
        if self.published is None or len(self.ours) < 8:
            return None
        if not (np.ptp(self.ours) and np.ptp(self.published)):
            return None
        return pd.Series(self.ours).corr(pd.Series(self.published), method="spearman")


@cache
def figure(name):
    """The numbers of one of our figures."""
    return pd.read_csv(FIGURES / f"{name}.csv")


def follows(item, table):
    """Of a table's printed cells those that other printed cells constrain: do they agree?"""
    cells = th.notebook.load_measured("printed_cells")
    held = cells[cells.table == table].gap <= 0.5
    return (
        item,
        "printed cells that agree with those that constrain them",
        None,
        held,
        0,
        "its cells",
    )
