"""The index of what is reproduced, as a page: each published item with ours, a verdict and the reason."""

from collections import Counter
from functools import cache

from compared import Compared
from compared_others import adaptbpe, lecture, nemotron, parity, petrov, superbpe, thesis
from compared_paper import paper

COMPARISONS = {
    "paper": paper,
    "thesis": thesis,
    "adaptbpe": adaptbpe,
    "nemotron": nemotron,
    "lecture": lecture,
    "superbpe": superbpe,
    "petrov": petrov,
    "parity": parity,
}
TITLES = {
    "paper": "The paper: *Teaching Old Tokenizers New Words* (Purason et al., arXiv 2512.03989)",
    "summary": "A machine-written summary of the paper",
    "thesis": "The thesis: *Tokenizer Extension on Domain-specific Finetuning* (Kim 2025)",
    "adaptbpe": "AdaptBPE (Balde et al. 2024)",
    "nemotron": "Nemotron's recipe for extending a tokenizer",
    "lecture": "The lecture *Tokenization Strategies* (Chakraborty)",
    "superbpe": "SuperBPE (Liu et al. 2025, arXiv 2503.13423)",
    "petrov": "Tokenizers and unfairness between languages (Petrov et al. 2023, arXiv 2305.15425)",
    "parity": "Parity-aware BPE (Foroutan et al. 2025, arXiv 2508.04796)",
}
VERDICTS = {
    "reproduced": "our number equals the published one or is within a tenth of it, or the claim holds",
    "reproduced at smaller scale": "the same with a smaller model or less text",
    "direction only": "the same sign, but another size; or a claim that holds in most cases",
    "not reproduced": "the other sign, or a claim that does not hold",
    "re-analysed": "statistics on the printed numbers; nothing is trained or measured",
    "not attempted": "with the reason, or what it would take",
}
LOOKS = {"reproduced": "good", "reproduced at smaller scale": "good", "direction only": "near"}
LOOKS |= {"not reproduced": "poor"}
HEAD = """
:::{table}
:class: matrix

| item | quantity | published | ours | verdict | reason, notebook |
|---|---|--:|--:|---|---|
"""
PAGE = """---
html_theme.sidebar_secondary.remove: true
---

# What is reproduced

Every table, figure, algorithm and numerical claim of nine documents: the published value, ours, and the
reason for the difference. {items} items, {numbers} rows. This page is made from `data/reproduced.csv`
when the site is built; in a notebook, `th.notebook.reproduced("08")` shows that notebook's rows.

<input id="matrix-filter" type="search" placeholder="Filter: Table 12, unreachable, not reproduced ..."
 aria-label="Filter the tables" style="width:100%;padding:.5em;margin:.5em 0">

{tally}

A value is the mean over the cases for which we have numbers, too. A claim is checked on our numbers, in as
many cases as these have.
"""
FILTER = """
<script>
document.getElementById("matrix-filter").addEventListener("input", function () {
  const wanted = this.value.toLowerCase().split(/\\s+/);
  let item = "";
  document.querySelectorAll("table.matrix tbody tr").forEach(function (row) {
    const first = row.cells[0].textContent.trim();
    item = first || item;
    const text = (item + " " + row.textContent).toLowerCase();
    row.hidden = !wanted.every(word => text.includes(word));
  });
});
</script>
"""


@cache
def comparisons():
    """All comparisons, by document and item."""
    by_item = {}
    for document, compare in COMPARISONS.items():
        for row in compare():
            compared = Compared(document, *row)
            by_item.setdefault((document, compared.item), []).append(compared)
    return by_item


def verdict(name):
    """A verdict, as HTML."""
    return f'<span class="verdict {LOOKS.get(name, "")}">{name}</span>'


def amount(text):
    """A number of the file with separators of thousands; other text as it is."""
    whole, dot, rest = text.partition(".")
    if not whole.lstrip("-").isdigit():
        return text
    return f"{int(whole):,}{dot}{rest}".replace("-", "−", 1) if whole != "-0" else f"−0{dot}{rest}"


def line(row, first, names):
    """A row of the file as a line of the table; its item is named in the first of several."""
    item = f"**{row['item']}** {row['what']}" if first else ""
    quantity = row["quantity"] + (f" (mean of {row['cases']})" if is_mean(row) else "")
    name = names.get(row["notebook"])
    link = f'<a href="notebooks/{name}.html">{row["notebook"]}</a>' if name else ""
    where = f"{link} §{row['section']}" if row["section"] else link
    published, ours = amount(row["published"]), amount(row["ours"])
    if row["cases"] == "claim":
        published, ours = "claim", f"{ours} of {published}"
    cells = [item, quantity, published, ours]
    return [*cells, verdict(row["verdict"]), " · ".join(filter(None, [row["reason"], where]))]


def is_mean(row):
    return row["cases"] not in ("", "1", "claim")


def matrix(rows, names):
    """The page, in Markdown: `rows` of reproduced.csv, `names` of the notebooks by their two digits.

    Raises ValueError for a comparison with an item that is not listed.
    """
    listed = {(row["document"], row["item"]) for row in rows}
    if unknown := comparisons().keys() - listed:
        raise ValueError(f"reproduced.csv does not list what is compared: {sorted(unknown)}")
    tables = []
    for document, title in TITLES.items():
        lines, before = [], None
        for row in (row for row in rows if row["document"] == document):
            lines.append(line(row, row["item"] != before, names))
            before = row["item"]
        body = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        tables.append(f"\n## {title}\n{HEAD}{body}\n:::\n")
    kinds = Counter(row["verdict"] for row in rows)
    tally = "\n".join(f"- {n} {verdict(name)}: {VERDICTS[name]}" for name, n in kinds.most_common())
    page = PAGE.format(items=len(listed), numbers=len(rows), tally=tally)
    return page + "".join(tables) + FILTER
