"""Pictures of algorithms: text as boxes, merges as a tree, a lattice, a trainer's index.

Each function returns a figure and the table of what it shows, as ``save_figure`` takes them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, combinations, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import FancyBboxPatch

from ..tokenizer.library import without_truncation
from .figures import COLOURS

LINE, GREY = "#444444", "#999999"
LEAST = 7.5  # points: what prints at column width and is still read
# How a box looks, by its kind: face, edge, colour of the text.
LOOKS = {
    "plain": ("#ffffff", GREY, LINE),
    "new": ("#d6eaf8", COLOURS[0], "#000000"),
    "failed": ("#ffffff", "#cccccc", GREY),
    "ghost": ("#ffffff", GREY, GREY),
    "special": ("#fbe3d6", COLOURS[1], "#000000"),
}


def draw_boxes(rows: Iterable[tuple[str, Sequence[tuple]]], *, title: str = ""):
    """Draw rows of boxes over one scale: a text in several notations, or the steps of a search.

    A row is a label and its boxes, each (start, stop, text, kind); a kind is "plain", "new",
    "failed" or "special". The scale is in characters or bytes, as the caller counts them.

    >>> _, table = draw_boxes([("letters", [(0, 1, "a", "plain"), (1, 2, "t", "plain")])])
    >>> table.text.tolist()
    ['a', 't']
    """
    rows = list(rows)
    wide = max(stop for _, boxes in rows for _, stop, _, _ in boxes)
    figure, axes = _axes(7, 0.38 * len(rows) + 0.7, (0, wide), (0.5 - len(rows), 0.5), title)
    for y, (label, boxes) in enumerate(rows):
        axes.text(-0.25, -y, label, ha="right", va="center", fontsize="small")
        for start, stop, text, kind in boxes:
            _box(axes, (start + stop) / 2, -y, stop - start, text, kind)
    flat = [(label, *box) for label, boxes in rows for box in boxes]
    return figure, pd.DataFrame(flat, columns=["row", "start", "stop", "text", "kind"])


def draw_pipeline(text: str, tokenizer, *, title: str = ""):
    """Draw the steps of a byte-level tokenizer: characters, pre-tokens, tokens, ids.

    ``text`` is best in ASCII: then every token holds whole characters.

    >>> _, table = draw_pipeline("a bat", th.train_byte_level_bpe(["bat bat"], vocab_size=258))
    >>> table[table.row == "tokens"].text.tolist()
    ['a', '␣', 'bat']
    """
    backend, shown = without_truncation(tokenizer), text.replace(" ", "␣")
    encoded = backend.encode(text, add_special_tokens=False)
    # GPT-2's pre-tokenizer and Llama-3's tell where each piece stands in the text.
    pretokens = (span for _, span in backend.pre_tokenizer.pre_tokenize_str(text))
    cuts = [
        ("characters", pairwise(range(len(text) + 1)), "plain"),
        ("pre-tokens", pretokens, "plain"),
        ("tokens", encoded.offsets, "new"),
    ]
    rows = [(label, [(a, b, shown[a:b], kind) for a, b in spans]) for label, spans, kind in cuts]
    ids = zip(encoded.offsets, encoded.ids, strict=True)
    rows.append(("ids", [(a, b, str(i), "special") for (a, b), i in ids]))
    return draw_boxes(rows, title=title)


def draw_merges(
    states: Sequence[Sequence[str]],
    *,
    labels: Sequence[str] = (),
    ghosts: Sequence[str] = (),
    title: str = "",
):
    """Draw the merges of a word as a tree that grows upwards: a row for each state.

    ``states`` are lists of tokens, the first the single characters; each later one joins two
    neighbours of the one before. ``labels`` has a word for each row, such as the merge. ``ghosts``
    are tokens that spell the word and are not made: they stand on top, in dashed grey boxes.

    >>> _, table = draw_merges([["c", "a", "t"], ["c", "at"], ["cat"]])
    >>> table.token.tolist()
    ['c', 'a', 't', 'c', 'at', 'cat']
    """
    size, height = sum(map(len, states[0])), len(states) + bool(ghosts)
    tall = (0.55 if height < 9 else 0.42) * height + 0.6
    right = max(size, 8.4)  # a short word leaves room at the right, so that boxes keep their size
    figure, axes = _axes(7, tall, (-0.1, right + 0.1), (-0.5, height - 0.5), title)
    rows, below = [], []
    for y, tokens in enumerate(states):
        spans = list(pairwise(accumulate(map(len, tokens), initial=0)))
        for token, (start, stop) in zip(tokens, spans, strict=True):
            middle = (start + stop) / 2
            parts = [(a + b) / 2 for a, b in below if start <= a and b <= stop]
            for part in parts:
                axes.plot([part, middle], [y - 1, y], color=GREY, lw=1.1, zorder=1)
            new = len(parts) > 1
            _box(axes, middle, y, max(0.62, 0.5 * len(token)), token, "new" if new else "plain")
            rows.append((y, start, token, new))
        below = spans
        if labels:
            axes.text(-0.25, y, labels[y], ha="right", va="center", fontsize="small")
    spans = pairwise(accumulate(map(len, ghosts), initial=0))
    for token, (start, stop) in zip(ghosts, spans, strict=True):
        _box(axes, (start + stop) / 2, height - 1, max(0.62, 0.5 * len(token)), token, "ghost")
    if ghosts:
        axes.text(-0.25, height - 1, "never made", ha="right", va="center", fontsize="small")
    return figure, pd.DataFrame(rows, columns=["step", "start", "token", "new"])


def draw_lattice(word: str, p: Mapping[str, float], best: Sequence[str], *, title: str = ""):
    """Draw all segmentations of a word, an arc for each token of ``p``, and the best one in colour.

    ``p`` maps tokens to probabilities, which stand on the arcs; ``best`` is a list of tokens.

    >>> _, table = draw_lattice("ab", {"a": 0.5, "b": 0.3, "ab": 0.2}, ["ab"])
    >>> table[table.best].token.tolist()
    ['ab']
    """
    ends = set(pairwise(accumulate(map(len, best), initial=0)))
    arcs = [(a, b) for a, b in combinations(range(len(word) + 1), 2) if word[a:b] in p]
    top = 0.5 * max(stop - start for start, stop in arcs) - 0.2
    figure, axes = _axes(7, 2.9, (-0.2, len(word) + 0.2), (-0.35, top), title)
    rows = []
    for start, stop in arcs:
        token, chosen = word[start:stop], (start, stop) in ends
        rows.append((start, stop, token, p[token], chosen))
        colour, lw = (COLOURS[1], 2.4) if chosen else (GREY, 1.2)
        up = 0.5 * (stop - start - 1)
        t = np.linspace(0, 1, 40)  # long tokens fly over short ones
        x, y = start + (stop - start) * t, 4 * up * t * (1 - t)
        axes.plot(x, y, color=colour, lw=lw, zorder=2 if chosen else 1)
        head = {"arrowstyle": "-|>", "color": colour, "lw": lw}
        axes.annotate("", (x[-4], y[-4]), (x[-7], y[-7]), arrowprops=head)
        text, ink = f"{token}  {p[token]:.3g}", colour if chosen else LINE
        middle = {"ha": "center", "va": "bottom", "fontsize": "small"}
        axes.text((start + stop) / 2, up + 0.05, text, color=ink, **middle)
    places = range(len(word) + 1)
    axes.plot(places, [0] * len(places), "o", ms=18, mfc="white", mec=LINE, zorder=3)
    for place in places:
        axes.text(place, 0, place, ha="center", va="center", fontsize="small", zorder=4)
    for i, letter in enumerate(word):
        axes.text(i + 0.5, -0.16, letter, ha="center", va="top", color=GREY)
    return figure, pd.DataFrame(rows, columns=["start", "stop", "token", "p", "best"])


def draw_index(words: Mapping[tuple[str, ...], int], pair: tuple[str, str], *, title: str = ""):
    """Draw what a fast trainer keeps: for each pair its count and the words in which it stands.

    ``words`` maps a word's tokens to its count, ``pair`` is the one to be merged. In colour is what
    the merge touches: the words that hold the pair, and the pairs in those words. The pairs stand
    in the order of the heap, the most frequent first.

    >>> _, table = draw_index({("a", "t"): 2, ("b", "a", "t"): 1, ("b", "e"): 4}, ("a", "t"))
    >>> table[table.touched].pair.tolist()
    ['a t', 'b a']
    """
    places: dict[tuple[str, str], set[int]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for i, (tokens, count) in enumerate(words.items()):
        for two in pairwise(tokens):
            counts[two] += count
            places.setdefault(two, set()).add(i)
    order = sorted(counts, key=lambda two: (-counts[two], two))
    hit, tall = places[pair], max(len(order), len(words))
    figure, axes = _axes(7, 0.38 * tall + 0.9, (0, 6.6), (-tall + 0.4, 1.1), title)
    step = (tall - 1) / max(1, len(words) - 1)
    rows = []
    for y, two in enumerate(order):
        touched = bool(hit & places[two])
        kind = "special" if two == pair else "new" if touched else "plain"
        _box(axes, 1.2, -y, 1.9, f"{counts[two]}   {' + '.join(two)}", kind)
        for i in sorted(places[two]):
            colour = COLOURS[1] if two == pair else COLOURS[0] if i in hit else "#cccccc"
            axes.plot([2.2, 4.3], [-y, -i * step], color=colour, lw=1.4 if i in hit else 0.9)
        rows.append((" ".join(two), counts[two], len(places[two]), touched))
    for i, (tokens, count) in enumerate(words.items()):
        kind = "new" if i in hit else "plain"
        _box(axes, 5.4, -i * step, 2.1, f"{' '.join(tokens)}   × {count}", kind)
    for x, head in ((1.2, "heap of pairs"), (3.25, "index"), (5.4, "words")):
        axes.text(x, 0.85, head, ha="center", fontsize="small", color=LINE)
    return figure, pd.DataFrame(rows, columns=["pair", "count", "words", "touched"])


def _axes(wide: float, tall: float, xlim: tuple, ylim: tuple, title: str):
    """Return a figure of that size in inches, and its axes, of which nothing is drawn."""
    figure, axes = plt.subplots(figsize=(wide, tall))
    axes.set(xlim=xlim, ylim=ylim, title=title)
    axes.axis("off")
    return figure, axes


def _box(axes, x: float, y: float, wide: float, text: str, kind: str) -> None:
    """A box with text, centred at a place of the axes."""
    face, edge, ink = LOOKS[kind]
    look = {"boxstyle": "round,pad=0,rounding_size=0.08", "fc": face, "ec": edge, "zorder": 2}
    look["linestyle"] = "--" if kind == "ghost" else "-"
    axes.add_patch(FancyBboxPatch((x - wide / 2 + 0.04, y - 0.33), wide - 0.08, 0.66, **look))
    inches = axes.figure.get_figwidth() * wide / (axes.get_xlim()[1] - axes.get_xlim()[0])
    small = "small" if 0.085 * len(text) <= inches else LEAST
    axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=small, zorder=3)
