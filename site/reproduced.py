"""The numbers of data/reproduced.csv, which are computed: run it to write them anew.

A row with a `quantity` has the comparison of that name (`compared_paper.py`, `compared_others.py`):
`published` and `ours` are the means over its `cases`. For a claim of a document (`cases` is `claim`),
`published` is the number of cases in which it was checked, and `ours` the number in which it holds. All
other columns are written by hand; a verdict may claim no more than the numbers bear.
"""

import csv
from pathlib import Path

from matrix import VERDICTS, comparisons

FILE = Path(__file__).parents[1] / "data" / "reproduced.csv"
GOOD = {"same", "close", "holds"}


def compared_of(row):
    """The comparison that a row stands for; None for a row without a quantity."""
    if not row["quantity"]:
        return None
    matches = [
        compared
        for compared in comparisons().get((row["document"], row["item"]), [])
        if compared.what == row["quantity"] and compared.notebook in ("", row["notebook"])
    ]
    if len(matches) != 1:
        raise ValueError(
            f"{row['item']}: {len(matches)} comparisons are called {row['quantity']!r}"
        )
    return matches[0]


def numbers(row):
    """The columns published, ours and cases of a row."""
    compared = compared_of(row)
    if compared is None:
        return {"published": row["published"], "ours": row["ours"], "cases": row["cases"]}
    size = compared.ours.size
    if compared.published is None:
        return {"published": str(size), "ours": str(int(compared.ours.sum())), "cases": "claim"}
    pair = (f"{n.mean():.{max(compared.digits, 0)}f}" for n in (compared.published, compared.ours))
    return dict(zip(("published", "ours", "cases"), [*pair, str(size)], strict=True))


def is_borne(row):
    """Whether a row's numbers bear its verdict."""
    compared, verdict = compared_of(row), row["verdict"]
    if compared is None:
        return verdict in VERDICTS
    if verdict.startswith("reproduced"):
        return compared.direction == "agrees" and compared.verdict[0] in GOOD
    if verdict == "re-analysed":
        return compared.origin == "its cells"
    return (compared.direction == "disagrees") == (verdict == "not reproduced")


def main():
    """Write the computed columns of reproduced.csv anew; the others stay as they are."""
    with open(FILE, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows = [row | numbers(row) for row in rows]
    with open(FILE, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
