"""The columns of data/reproduced.csv that are computed: run it to write them anew."""

import csv
from pathlib import Path

from matrix import comparisons

import tokhelpers as th

FILE = Path(__file__).parents[1] / "data" / "reproduced.csv"
COMPUTED = ["covers", "direction", "closeness", "verdict"]


def of_row(row, listed):
    """The comparisons that belong to a row: its notebook's, or the item's where it has but one."""
    alone = sum(
        (other["document"], other["item"]) == (row["document"], row["item"]) for other in listed
    )
    found = comparisons().get((row["document"], row["item"]), [])
    if alone > 1 and any(not compared.notebook for compared in found):
        raise ValueError(
            f"{row['item']} stands in several notebooks: say whose with {row['item']}@NN"
        )
    return [c for c in found if alone == 1 or c.notebook == row["notebook"]]


def covers(row, found):
    """How many of the printed rows of a table are compared; empty for figures and claims."""
    number = row["item"].removeprefix("Table ")
    sizes = [compared.ours.size for compared in found if compared.published is not None]
    if not sizes or not number.isdigit():
        return ""
    printed = len(th.notebook.load_published(f"{row['document']}_table_{int(number):02}"))
    return f"{max(sizes)} of {printed} printed rows" if max(sizes) <= printed else ""


def computed(row, listed):
    """What a row's comparisons say, as the columns of COMPUTED."""
    found = of_row(row, listed)
    if not found:
        return dict.fromkeys(COMPUTED, "") | {"verdict": "not compared"}
    directions = {compared.direction for compared in found}
    direction = directions.pop() if len(directions) == 1 else "in part"
    covered = covers(row, found)
    closeness = "; ".join(compared.closeness for compared in found)
    verdict = judge(row, found, direction, covered)
    return dict(zip(COMPUTED, [covered, direction, closeness, verdict], strict=True))


def judge(row, found, direction, covered):
    """The verdict in two words or so: no more than the row's comparisons bear."""
    if direction != "agrees":
        return {"disagrees": "contradicted", "in part": "in part"}[direction]
    if "in small" in row["extent"]:
        return "in small"
    if all(compared.published is None for compared in found):
        return "claims hold"
    if covered and int(covered.split()[0]) < int(covered.split()[2]) / 2:
        return "agrees where covered"
    near = {compared.verdict[0] for compared in found} <= {"same", "close", "holds"}
    return "reproduced" if near else "same direction"


def main():
    """Write the computed columns of reproduced.csv anew; the others stay as they are."""
    with open(FILE, newline="", encoding="utf-8") as file:
        listed = list(csv.DictReader(file))
    filled = [row | computed(row, listed) for row in listed]
    with open(FILE, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(listed[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(filled)


if __name__ == "__main__":
    main()
