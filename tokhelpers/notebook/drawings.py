"""Draw algorithms with matplotlib: text as boxes, merges as a tree, a lattice, a trainer's index.

Each function returns a figure and the table of what it shows, the arguments of ``save_figure``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, combinations, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import FancyBboxPatch

from ..tokenizer.library_encoder import without_truncation
from ..tokenizer.token_bytes import BYTE_TOKENS
from .figures import COLOURS

LINE, GREY = "#444444", "#999999"
SMALLEST = 7.5  # points: still readable at column width
# The look of a box by its kind: face colour, edge colour, text colour.
LOOKS = {
    "plain": ("#ffffff", GREY, LINE),
    "new": ("#d6eaf8", COLOURS[0], "#000000"),
    "failed": ("#ffffff", "#cccccc", GREY),
    "ghost": ("#ffffff", GREY, GREY),
    "special": ("#fbe3d6", COLOURS[1], "#000000"),
}


def draw_boxes(rows: Iterable[tuple[str, Sequence[tuple]]], *, title: str = ""):
    """Draw rows of boxes on a common scale: a text in several notations, or the steps of a search.

    A row is a label and its boxes, each (start, stop, text, kind), where kind is "plain", "new",
    "failed" or "special". The scale is in characters or bytes, as the caller counts them.

    >>> _, table = draw_boxes([("letters", [(0, 1, "a", "plain"), (1, 2, "t", "plain")])])
    >>> table.text.tolist()
    ['a', 't']
    """
    rows = list(rows)
    right = max(stop for _, boxes in rows for _, stop, _, _ in boxes)
    figure, axes = _axes(7, 0.38 * len(rows) + 0.7, (0, right), (0.5 - len(rows), 0.5), title)
    for y, (label, boxes) in enumerate(rows):
        axes.text(-0.25, -y, label, ha="right", va="center", fontsize="small")
        for start, stop, text, kind in boxes:
            _box(axes, (start + stop) / 2, -y, stop - start, text, kind)
    flat = [(label, *box) for label, boxes in rows for box in boxes]
    return figure, pd.DataFrame(flat, columns=["row", "start", "stop", "text", "kind"])


def draw_pipeline(text: str, tokenizer, *, title: str = ""):
    """Draw the pipeline of a byte-level tokenizer: characters, pre-tokens, tokens, IDs.

    ``text`` should be ASCII, so that no token ends within a character.

    >>> _, table = draw_pipeline("a bat", th.train_byte_level_bpe(["bat bat"], vocab_size=258))
    >>> table[table.row == "tokens"].text.tolist()
    ['a', '␣', 'bat']
    """
    backend, visible = without_truncation(tokenizer), text.replace(" ", "␣")
    encoding = backend.encode(text, add_special_tokens=False)
    pretokens = (span for _, span in backend.pre_tokenizer.pre_tokenize_str(text))
    segmentations = [
        ("characters", pairwise(range(len(text) + 1)), "plain"),
        ("pre-tokens", pretokens, "plain"),
        ("tokens", encoding.offsets, "new"),
    ]
    rows = [
        (label, [(a, b, visible[a:b], kind) for a, b in spans])
        for label, spans, kind in segmentations
    ]
    ids = zip(encoding.offsets, encoding.ids, strict=True)
    rows.append(("IDs", [(a, b, str(i), "special") for (a, b), i in ids]))
    return draw_boxes(rows, title=title)


def draw_tokens(texts: Mapping[str, str], tokenizer, *, title: str = ""):
    """Draw a row for each text, with a box for each of its tokens; the keys of ``texts`` label the rows.

    No token should end within a character.

    >>> _, table = draw_tokens({"one": "a bat"}, th.train_byte_level_bpe(["bat bat"], vocab_size=258))
    >>> table.text.tolist()
    ['a', '␣', 'bat']
    """
    rows, backend = [], without_truncation(tokenizer)
    for label, text in texts.items():
        offsets = backend.encode(text, add_special_tokens=False).offsets
        boxes = [(a, b, text[a:b].replace(" ", "␣"), "plain") for a, b in offsets]
        rows.append((f"{label}: {len(boxes)} tokens", boxes))
    return draw_boxes(rows, title=title)


def draw_bytes(text: str, tokenizer, *, title: str = ""):
    """Draw a text as characters, UTF-8 bytes and tokens of a SentencePiece tokenizer.

    The scale is in bytes; the first character is the space, byte 20, that the tokenizer puts before
    the text.

    >>> draw_bytes("é", th.train_sentencepiece_bpe(["a bat"], vocab_size=260))[1].text.tolist()
    ['␣', 'é', '20', 'C3', 'A9', '▁', '<0xC3>', '<0xA9>']
    """
    characters = [" ", *text]
    encoded = "".join(characters).encode()
    tokens = without_truncation(tokenizer).encode(text, add_special_tokens=False).tokens
    in_hex = [f"{byte:02X}" for byte in encoded]
    labels = {"characters": characters, "UTF-8 bytes": in_hex, "tokens": tokens}
    rows = []
    for name, texts in labels.items():
        is_byte = [name == "UTF-8 bytes" or t in BYTE_TOKENS for t in texts]
        sizes = [len(t.replace("▁", " ").encode()) for t in texts]
        widths = np.where(is_byte, 1, sizes).tolist()
        sides = pairwise(accumulate(widths, initial=0))
        shown = [t.replace(" ", "␣") for t in texts]
        rows.append((name, [(*side, t, "plain") for side, t in zip(sides, shown, strict=True)]))
    return draw_boxes(rows, title=title)


def draw_longest_match(word: str, steps: Iterable[Mapping], *, title: str = ""):
    """Draw the search for the longest match: a row for each candidate, in colour if it is a token.

    ``steps`` is the trace of ``textbook.tokenize_wordpiece`` for a word, with the prefix ##.

    >>> steps = [{"tried": ["at", "a"], "token": "a"}, {"tried": ["##t"], "token": "##t"}]
    >>> draw_longest_match("at", steps)[1].row.tolist()
    ['word', 'word', 'no match', 'match', 'match']
    """
    start, rows = 0, [("word", [(i, i + 1, letter, "plain") for i, letter in enumerate(word)])]
    for step in steps:
        for candidate in step["tried"]:
            stop = start + len(candidate.removeprefix("##"))
            is_match = candidate == step["token"]
            label, kind = ("match", "new") if is_match else ("no match", "failed")
            rows.append((label, [(start, stop, candidate, kind)]))
        start = stop
    return draw_boxes(rows, title=title)


def draw_merges(
    states: Sequence[Sequence[str]],
    *,
    labels: Sequence[str] = (),
    ghosts: Sequence[str] = (),
    title: str = "",
):
    """Draw the merges of a word as a tree that grows upwards, one row per state.

    ``states`` are lists of tokens: the first has single characters, each later one merges two
    adjacent tokens of its predecessor. ``labels`` has a label for each row, such as the merge.
    ``ghosts`` are tokens that spell the word but are never produced: dashed grey boxes on top.

    >>> _, table = draw_merges([["c", "a", "t"], ["c", "at"], ["cat"]])
    >>> table.token.tolist()
    ['c', 'a', 't', 'c', 'at', 'cat']
    """
    size, height = sum(map(len, states[0])), len(states) + bool(ghosts)
    tall = (0.55 if height < 9 else 0.42) * height + 0.6
    room = max(0, 8.4 - size)  # beside a short word, so that boxes keep their size
    left = min(room, room / 2 + 0.9)  # the labels, which stand at the left, are part of the picture
    figure, axes = _axes(
        7, tall, (-0.1 - left, size + room - left + 0.1), (-0.5, height - 0.5), title
    )
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
    """Draw the lattice of a word, an arc per token of ``p``, with the best segmentation in colour.

    ``p`` maps tokens to probabilities, which label the arcs; ``best`` is a list of tokens.

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
        t = np.linspace(0, 1, 40)  # arcs of long tokens pass above short ones
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
    """Draw the index of a fast trainer: for each pair, its count and the words that contain it.

    ``words`` maps a word's tokens to its count, ``pair`` is merged next. In colour is what the merge
    affects: the words with the pair, and all pairs in those words. The most frequent pair is at the
    top.

    >>> _, table = draw_index({("a", "t"): 2, ("b", "a", "t"): 1, ("b", "e"): 4}, ("a", "t"))
    >>> table[table.affected].pair.tolist()
    ['a t', 'b a']
    """
    words_with: dict[tuple[str, str], set[int]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for i, (tokens, count) in enumerate(words.items()):
        for two in pairwise(tokens):
            counts[two] += count
            words_with.setdefault(two, set()).add(i)
    order = sorted(counts, key=lambda two: (-counts[two], two))
    affected, tall = words_with[pair], max(len(order), len(words))
    figure, axes = _axes(7, 0.38 * tall + 0.9, (0, 6.6), (-tall + 0.4, 1.1), title)
    step = (tall - 1) / max(1, len(words) - 1)
    rows = []
    for y, two in enumerate(order):
        in_affected = bool(affected & words_with[two])
        kind = "special" if two == pair else "new" if in_affected else "plain"
        _box(axes, 1.2, -y, 1.9, f"{counts[two]}   {' + '.join(two)}", kind)
        for i in sorted(words_with[two]):
            colour = COLOURS[1] if two == pair else COLOURS[0] if i in affected else "#cccccc"
            axes.plot([2.2, 4.3], [-y, -i * step], color=colour, lw=1.4 if i in affected else 0.9)
        rows.append((" ".join(two), counts[two], len(words_with[two]), in_affected))
    for i, (tokens, count) in enumerate(words.items()):
        kind = "new" if i in affected else "plain"
        _box(axes, 5.4, -i * step, 2.1, f"{' '.join(tokens)}   × {count}", kind)
    for x, head in ((1.2, "pairs by count"), (3.25, "index"), (5.4, "words")):
        axes.text(x, 0.85, head, ha="center", fontsize="small", color=LINE)
    return figure, pd.DataFrame(rows, columns=["pair", "count", "words", "affected"])


def _axes(width: float, height: float, xlim: tuple, ylim: tuple, title: str):
    """Make a figure of a size in inches, with invisible axes."""
    figure, axes = plt.subplots(figsize=(width, height))
    axes.set(xlim=xlim, ylim=ylim, title=title)
    axes.axis("off")
    return figure, axes


def _box(axes, x: float, y: float, width: float, text: str, kind: str) -> None:
    """Draw a box with text, centred at a point."""
    face, edge, ink = LOOKS[kind]
    look = {"boxstyle": "round,pad=0,rounding_size=0.08", "fc": face, "ec": edge, "zorder": 2}
    look["linestyle"] = "--" if kind == "ghost" else "-"
    axes.add_patch(FancyBboxPatch((x - width / 2 + 0.04, y - 0.33), width - 0.08, 0.66, **look))
    inches = axes.figure.get_figwidth() * width / (axes.get_xlim()[1] - axes.get_xlim()[0])
    size = "small" if 0.085 * len(text) <= inches else SMALLEST
    axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=size, zorder=3)
