"""The reproduction matrix as a page: each published table and figure, with ours and a verdict."""

from collections import Counter
from functools import cache

from compared import KINDS, Compared
from compared_others import adaptbpe, lecture, nemotron, thesis
from compared_paper import paper

DOCUMENTS = {
    "paper": (paper, "The paper: *Teaching Old Tokenizers New Words*"),
    "thesis": (thesis, "The thesis: *Tokenizer Extension on Domain-specific Finetuning*"),
    "adaptbpe": (adaptbpe, "AdaptBPE"),
    "nemotron": (nemotron, "Nemotron: extending a tokenizer"),
    "lecture": (lecture, "The lecture: *Tokenization Strategies*"),
}
HEAD = """
:::{table}
:class: matrix

| | compared | published | ours | verdict | notebook |
|---|---|--:|--:|---|---|
"""
TEXTS = {"trained": "learned from", "measured": "measured on"}
LOOKS = {"same": "good", "holds": "good", "close": "near"}
LOOKS |= dict.fromkeys(["other sign", "differs", "does not hold"], "poor")
PAGE = """---
html_theme.sidebar_secondary.remove: true
---

# Reproduction matrix

Every table and figure of four documents, and one recipe: what was published, what comes out here, and
how the two compare. {items} tables and figures, {numbers} comparisons of numbers, {claims} claims and checks.
This page is computed from `data/` and `figures/` when the site is built.

{tally}

Published values are means over those rows of a table for which we have numbers, too. Where a document
shows a figure without numbers, its *claim* is checked on our numbers, once for each case. *Its cells*
means that printed numbers are checked against each other. Texts and sizes differ, as the last column
says, so *larger* or *smaller* is not a mistake by itself; notebooks
[16](notebooks/16_finetuning.ipynb) and [19](notebooks/19_audit.ipynb) say which differences are beyond
chance. Where nothing is compared, the last column says why, or what the notebook does instead. Section 11
of notebook 19 shows how the notebooks' stored numbers are checked.
"""


@cache
def comparisons():
    """All comparisons, by document and item."""
    found = {}
    for document, (compare, _) in DOCUMENTS.items():
        for row in compare():
            compared = Compared(document, *row)
            found.setdefault((document, compared.item), []).append(compared)
    return found


def number(values, digits):
    """The mean of some numbers, as text."""
    return f"{values.mean():,.{digits}f}".replace("-", "−")


def mark(kind):
    """The kind of a verdict, as HTML."""
    return f'<span class="verdict {LOOKS.get(kind, "")}">{kind}</span>'


def cells(compared):
    """What was compared, published, ours and verdict: four cells."""
    what, size, (kind, note) = compared.what, compared.ours.size, compared.verdict
    if compared.published is None:
        return [what, compared.asked, f"{compared.ours.sum()} of {size}", mark(kind)]
    if size > 1:
        what += f" (mean of {size})"
    if compared.correlation is not None:
        note += f"<br>rank correlation {compared.correlation:.2f}"
    pair = [number(n, compared.digits) for n in (compared.published, compared.ours)]
    return [what, *pair, f"{mark(kind)} {note}".strip()]


def where(rows, names):
    """The notebooks of an item, linked to their figures: how much of it each has, from which texts."""
    parts = []
    for row in rows:
        name = names.get(row["notebook"])
        anchor = f"#{row['figure']}" if row["figure"] else ""
        link = f'<a href="notebooks/{name}.html{anchor}">{row["notebook"]}</a> ' if name else ""
        texts = [f"{how} {row[key]}" for key, how in TEXTS.items() if row[key]]
        said = [row["extent"], *texts, row["covers"]]
        verdict = f" **{row['verdict']}**" if row["direction"] else ""
        parts.append(f"{link}{'; '.join(filter(None, said)) or 'all of it'}{verdict}")
    return "<br>".join(parts)


def matrix(listed, sources, names):
    """The page, in Markdown.

    listed: the rows of reproduced.csv; sources: those of paper/sources.csv; names: of the notebooks,
    by their two digits. Raises ValueError for a comparison with an item that is not listed.
    """
    items, found = {}, comparisons()
    for row in listed:
        items.setdefault((row["document"], row["item"]), []).append(row)
    if unknown := found.keys() - items.keys():
        raise ValueError(f"reproduced.csv does not list what is compared: {sorted(unknown)}")
    said = {(row["file"].split("_")[0], row["table"]): row["what"] for row in sources}
    tables = []
    for document, (_, title) in DOCUMENTS.items():
        lines = []
        for key, rows in items.items():
            if key[0] == document:
                what = rows[0]["what"] or said.get(key, "")
                first, *others = [cells(some) for some in found.get(key, [])] or [["", "", "", "–"]]
                lines.append([f"**{key[1]}** {what}".strip(), *first, where(rows, names)])
                lines += [["", *other, ""] for other in others]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        tables.append(f"\n## {title}\n{HEAD}{body}\n:::\n")
    every = [compared for some in found.values() for compared in some]
    kinds = Counter(compared.verdict[0] for compared in every)
    tally = [
        f"- {kinds[kind]} {mark(kind)} {means}" for kind, means in KINDS.items() if kinds[kind]
    ]
    claims = sum(compared.published is None for compared in every)
    counted = {"items": len(items), "numbers": len(every) - claims, "claims": claims}
    return PAGE.format(**counted, tally="\n".join(tally)) + "".join(tables)
