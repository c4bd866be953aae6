"""Pictures of algorithms: text as boxes, merges as a tree, a lattice, a trainer's index.

Each function returns a figure and the table of what it shows, as ``save_figure`` takes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from ..tokenizer.parts import backend_of
from .figures import COLOURS

LINE, GREY = "#444444", "#999999"
# How a box looks, by its kind: face, edge, colour of the text.
LOOKS = {
    "plain": ("#ffffff", GREY, LINE),
    "new": ("#d6eaf8", COLOURS[0], "#000000"),
    "failed": ("#ffffff", "#cccccc", GREY),
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
    import matplotlib.pyplot as plt

    rows = list(rows)
    wide = max(stop for _, boxes in rows for _, stop, _, _ in boxes)
    figure, axes = plt.subplots(figsize=(7, 0.38 * len(rows) + 0.7))
    axes.set(xlim=(0, wide), ylim=(0.5 - len(rows), 0.5))
    for y, (label, boxes) in enumerate(rows):
        axes.text(-0.25, -y, label, ha="right", va="center", fontsize="small")
        for start, stop, text, kind in boxes:
            _box(axes, (start + stop) / 2, -y, stop - start, text, kind)
    _bare(axes, title)
    columns = ["row", "start", "stop", "text", "kind"]
    flat = [(label, *box) for label, boxes in rows for box in boxes]
    return figure, pd.DataFrame(flat, columns=columns)


def draw_pipeline(text: str, tokenizer, *, title: str = ""):
    """Draw the steps of a byte-level tokenizer: characters, pre-tokens, tokens, ids.

    ``text`` is best in ASCII: then every token holds whole characters.

    >>> _, table = draw_pipeline("a bat", th.train_byte_level_bpe(["bat bat"], vocab_size=258))
    >>> table[table.row == "tokens"].text.tolist()
    ['a', '␣', 'bat']
    """
    backend = backend_of(tokenizer)
    encoded = backend.encode(text, add_special_tokens=False)
    # GPT-2's pre-tokenizer and Llama-3's tell where each piece stands in the text.
    cut = backend.pre_tokenizer.pre_tokenize_str(text)
    seen = [text[start:stop].replace(" ", "␣") for start, stop in encoded.offsets]

    def row(spans, texts, kind="plain"):
        return [(a, b, str(t), kind) for (a, b), t in zip(spans, texts, strict=True)]

    letters = [(i, i + 1) for i in range(len(text))]
    spans = [span for _, span in cut]
    rows = [
        ("characters", row(letters, text.replace(" ", "␣"))),
        ("pre-tokens", row(spans, [text[a:b].replace(" ", "␣") for a, b in spans])),
        ("tokens", row(encoded.offsets, seen, "new")),
        ("ids", row(encoded.offsets, encoded.ids, "special")),
    ]
    return draw_boxes(rows, title=title)


def draw_merges(states: Sequence[Sequence[str]], *, labels: Sequence[str] = (), title: str = ""):
    """Draw the merges of a word as a tree that grows upwards: a row for each state.

    ``states`` are lists of tokens, the first the single characters; each later one joins two
    neighbours of the one before. ``labels`` has a word for each row, such as the merge.

    >>> _, table = draw_merges([["c", "a", "t"], ["c", "at"], ["cat"]])
    >>> table.token.tolist()
    ['c', 'a', 't', 'c', 'at', 'cat']
    """
    import matplotlib.pyplot as plt

    size = sum(map(len, states[0]))
    tall = 0.55 if len(states) < 9 else 0.42
    figure, axes = plt.subplots(figsize=(min(7, 1.8 + 0.62 * size), tall * len(states) + 0.6))
    axes.set(xlim=(-0.1, size + 0.1), ylim=(-0.5, len(states) - 0.5))
    rows, below = [], {}
    for y, tokens in enumerate(states):
        here, start = {}, 0
        for token in tokens:
            stop = start + len(token)
            parts = [span for span in below if start <= span[0] and span[1] <= stop]
            for a, b in parts:
                axes.plot(
                    [(a + b) / 2, (start + stop) / 2], [y - 1, y], color=GREY, lw=1.1, zorder=1
                )
            new = len(parts) > 1
            wide = max(0.62, 0.5 * len(token))
            _box(axes, (start + stop) / 2, y, wide, token, "new" if new else "plain")
            rows.append((y, start, token, new))
            here[start, stop], start = token, stop
        below = here
        if labels:
            axes.text(-0.25, y, labels[y], ha="right", va="center", fontsize="small")
    _bare(axes, title)
    return figure, pd.DataFrame(rows, columns=["step", "start", "token", "new"])


def draw_lattice(word: str, p: Mapping[str, float], best: Sequence[str], *, title: str = ""):
    """Draw all segmentations of a word, an arc for each token of ``p``, and the best one in colour.

    ``p`` maps tokens to probabilities, which stand on the arcs; ``best`` is a list of tokens.

    >>> _, table = draw_lattice("ab", {"a": 0.5, "b": 0.3, "ab": 0.2}, ["ab"])
    >>> table[table.best].token.tolist()
    ['ab']
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 2.9))
    ends, place = set(), 0
    for token in best:
        ends.add((place, place + len(token)))
        place += len(token)
    rows = []
    for start in range(len(word)):
        for stop in range(start + 1, len(word) + 1):
            if (token := word[start:stop]) in p:
                chosen = (start, stop) in ends
                rows.append((start, stop, token, p[token], chosen))
                colour = COLOURS[1] if chosen else GREY
                up, wide = 0.5 * (stop - start - 1), 2.4 if chosen else 1.2
                t = np.linspace(0, 1, 40)  # long tokens fly over short ones
                x, y = start + (stop - start) * t, 4 * up * t * (1 - t)
                axes.plot(x, y, color=colour, lw=wide, zorder=2 if chosen else 1)
                head = {"arrowstyle": "-|>", "color": colour, "lw": wide}
                axes.annotate("", (x[-4], y[-4]), (x[-7], y[-7]), arrowprops=head)
                text = f"{token}  {p[token]:.3g}"
                axes.text((start + stop) / 2, up + 0.05, text, ha="center", va="bottom",
                          color=colour if chosen else LINE, fontsize="small")  # fmt: skip
    axes.plot(
        range(len(word) + 1), [0] * (len(word) + 1), "o", ms=18, mfc="white", mec=LINE, zorder=3
    )
    for place in range(len(word) + 1):
        axes.text(place, 0, place, ha="center", va="center", fontsize="small", zorder=4)
    for i, letter in enumerate(word):
        axes.text(i + 0.5, -0.16, letter, ha="center", va="top", color=GREY)
    axes.set(
        xlim=(-0.2, len(word) + 0.2), ylim=(-0.35, 0.5 * max(b - a for a, b, *_ in rows) - 0.2)
    )
    _bare(axes, title)
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
    import matplotlib.pyplot as plt

    places: dict[tuple[str, str], list[int]] = {}
    counts: dict[tuple[str, str], int] = {}
    for i, (tokens, count) in enumerate(words.items()):
        for two in pairwise(tokens):
            counts[two] = counts.get(two, 0) + count
            places.setdefault(two, []).append(i)
    order = sorted(counts, key=lambda two: (-counts[two], two))
    hit = set(places[pair])
    tall = max(len(order), len(words))
    figure, axes = plt.subplots(figsize=(7, 0.38 * tall + 0.9))
    axes.set(xlim=(0, 6.6), ylim=(-tall + 0.4, 1.1))
    step = (tall - 1) / max(1, len(words) - 1)
    rows = []
    for y, two in enumerate(order):
        touched = bool(hit & set(places[two]))
        kind = "special" if two == pair else "new" if touched else "plain"
        _box(axes, 1.2, -y, 1.9, f"{counts[two]}   {' + '.join(two)}", kind)
        for i in sorted(set(places[two])):
            colour = COLOURS[1] if two == pair else COLOURS[0] if i in hit else "#cccccc"
            axes.plot([2.2, 4.3], [-y, -i * step], color=colour, lw=1.4 if i in hit else 0.9)
        rows.append((" ".join(two), counts[two], len(set(places[two])), touched))
    for i, (tokens, count) in enumerate(words.items()):
        kind = "new" if i in hit else "plain"
        _box(axes, 5.4, -i * step, 2.1, f"{' '.join(tokens)}   × {count}", kind)
    for x, head in ((1.2, "heap of pairs"), (3.25, "index"), (5.4, "words")):
        axes.text(x, 0.85, head, ha="center", fontsize="small", color=LINE)
    _bare(axes, title)
    return figure, pd.DataFrame(rows, columns=["pair", "count", "words", "touched"])


def _box(axes, x: float, y: float, wide: float, text: str, kind: str) -> None:
    """A box with text, centred at a place of the axes."""
    from matplotlib.patches import FancyBboxPatch

    face, edge, ink = LOOKS[kind]
    style = "round,pad=0,rounding_size=0.08"
    corner, size = (x - wide / 2 + 0.04, y - 0.33), (wide - 0.08, 0.66)
    axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, fc=face, ec=edge, zorder=2))
    inches = axes.figure.get_figwidth() * wide / (axes.get_xlim()[1] - axes.get_xlim()[0])
    small = "small" if 0.085 * len(text) <= inches else "xx-small"
    axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=small, zorder=3)


def _bare(axes, title: str) -> None:
    axes.axis("off")
    if title:
        axes.set_title(title)
