"""Unique chunks of text and their counts, in one compiled pass over the bytes.

A chunk is what stands between single spaces that separate words: most are words. Cutting there is
what every code path to pre-tokens begins with, and from then on only unique chunks are looked at. Where
the rules allow it, text is cut at the ends of lines, too.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator

import numpy as np
from numba import njit

# open-addressing table of indices into the unique chunks; each one's hash, end in `text` (where
# the unique chunks stand one after the other), and counts without and with a space before it
Chunks = namedtuple("Chunks", "table hashes ends counts text used")
WORD, SPACE, META = 0, 1, 2
# what a unique chunk takes, and each byte of it, until it is pre-token counts (measured)
CHUNK_BYTES, TEXT_BYTES = 600, 4


@njit(cache=True, nogil=True)
def _kind(text, i):
    """Whether white space (as Python sees it), ``▁``, or anything else begins at byte `i`."""
    b = np.int64(text[i])  # wide enough to shift, uncompiled too
    if b < 0x80:
        return SPACE if b == 32 or 9 <= b <= 13 or 28 <= b <= 31 else WORD
    if b == 0xC2:
        return SPACE if text[i + 1] == 0x85 or text[i + 1] == 0xA0 else WORD
    if b < 0xE1 or b > 0xE3:
        return WORD
    code = (b & 0xF) << 12 | np.int64(text[i + 1] & 0x3F) << 6 | (text[i + 2] & 0x3F)
    if 0x2000 <= code <= 0x200A or code in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000):
        return SPACE
    return META if code == 0x2581 else WORD


@njit(cache=True, nogil=True)
def _line_ends(text, i, end):
    """Whether a line ends before byte `i`: no later newline stands in the same white space.

    Nor may a slash follow, which Tekken's pattern takes for a part of the line's end.
    """
    while i < end and _kind(text, i) == SPACE:
        if text[i] == 10 or text[i] == 13:
            return False
        i += 1
        while i < end and text[i] & 0xC0 == 0x80:
            i += 1
    return i == end or text[i] != 47


@njit(cache=True, nogil=True)
def _place(table, hashes, ends, unique, used, text, start, end, key):
    """The index of a chunk among the unique ones, at which it is entered if it is new."""
    mask = np.uint64(len(table) - 1)
    slot = (key ^ key >> np.uint64(32)) & mask
    while table[slot] >= 0:
        i = table[slot]
        first = ends[i - 1] if i > 0 else 0
        if hashes[i] == key and ends[i] - first == end - start:
            j = 0
            while j < end - start and unique[first + j] == text[start + j]:
                j += 1
            if j == end - start:
                return i
        slot = (slot + np.uint64(1)) & mask
    i = used[0]
    table[slot] = i
    hashes[i] = key
    for j in range(start, end):
        unique[used[1] + j - start] = text[j]
    used[1] += end - start
    ends[i] = used[1]
    used[0] += 1
    return i


@njit(cache=True, nogil=True)
def _count(table, hashes, ends, counts, unique, used, text, offsets, weights, lines, sizes, at):
    """Add the chunks of documents, and their characters, bytes, words and number, to the counts.

    Begins at document `at[0]`, byte `at[1]`, behind a space if `at[2]` is 1. Returns whether it came
    to the end; where the arrays cannot hold another chunk, `at` says where it stands. `lines`: cut at the
    ends of lines, too. Takes the arrays of `Chunks` one by one: in a tuple each use would count a
    reference.
    """
    basis, prime = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
    for d in range(at[0], len(weights)):
        end = offsets[d + 1]
        i = start = at[1] if d == at[0] else offsets[d]
        spaced = at[2] if d == at[0] else 0
        key, before, inner, words = basis, SPACE, 0, 0
        while True:
            b = text[i] if i < end else np.uint8(0)
            if 32 < b < 128:
                key = (key ^ np.uint64(b)) * prime
                before = WORD
                i += 1
                continue
            between = b == 32 and before == WORD and i + 1 < end and _kind(text, i + 1) == WORD
            line = False
            if i < end and not between:
                kind = _kind(text, i)
                words += kind == SPACE and before != SPACE
                before = kind
                key = (key ^ np.uint64(b)) * prime
                i += 1
                while i < end and text[i] & 0xC0 == 0x80:  # the other bytes of the character
                    key = (key ^ np.uint64(text[i])) * prime
                    inner += 1
                    i += 1
                line = lines and (b == 10 or b == 13) and _line_ends(text, i, end)
                if not line:
                    continue
            if i > start:
                if used[0] == len(hashes) or used[1] + i - start > len(unique):
                    at[0], at[1], at[2] = d, start, spaced
                    return False
                chunk = _place(table, hashes, ends, unique, used, text, start, i, key)
                counts[chunk, spaced] += weights[d]
            sizes[0] += weights[d] * (i - start - inner + between)
            sizes[1] += weights[d] * (i - start + between)
            sizes[2] += weights[d] * (words + (before != SPACE))
            if i == end:
                break
            i += between
            spaced = 1 if between else 0
            start, key, before, inner, words = i, basis, SPACE, 0, 0
        sizes[3] += weights[d]
    return True


def _doubled(c: Chunks) -> Chunks:
    """The same chunks in arrays for twice as many."""
    size = 2 * len(c.hashes)
    counts = np.zeros((size, 2), np.int64)
    counts[: len(c.counts)] = c.counts
    hashes, ends, text = (np.resize(old, 2 * len(old)) for old in (c.hashes, c.ends, c.text))
    table = np.full(4 * size, -1, np.int32)
    _fill_table(table, hashes, c.used[0])
    return Chunks(table, hashes, ends, counts, text, c.used)


@njit(cache=True)
def _fill_table(table, hashes, n):
    mask = np.uint64(len(table) - 1)
    for i in range(n):
        slot = (hashes[i] ^ hashes[i] >> np.uint64(32)) & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = i


def _add(c: Chunks, sizes: np.ndarray, lines: bool, texts: list[bytes], times: list[int]) -> Chunks:
    """The chunks with those of more documents; the sizes of these are added in place."""
    offsets = np.cumsum([0, *map(len, texts)])
    text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    weights, at = np.array(times, np.int64), np.zeros(3, np.int64)
    while not _count(*c, text, offsets, weights, lines, sizes, at):
        c = _doubled(c)
    return c


def count_chunks(
    batches: Iterable[tuple[list[bytes], list[int]]], lines: bool = False, memory: int | None = None
) -> Iterator[tuple[Iterator[str], np.ndarray, np.ndarray]]:
    """Count the chunks of documents, which come in batches of (UTF-8 texts, how often each).

    A chunk ends at a single space between two characters that are neither white space nor ``▁``,
    and with ``lines`` also behind the last newline in white space. Yields the unique chunks, their
    counts (int64, one row per chunk: without and with a space before it), and the sizes of the
    text: characters, bytes, words between white space, documents. With ``memory`` it yields several
    times, whenever the chunks would take more than so many bytes until they are pre-token counts;
    a batch is always counted as a whole.

    >>> [(chunks, counts, sizes)] = count_chunks([([b"a cat", b"a  cat"], [1, 2])])
    >>> list(chunks), counts.tolist(), sizes.tolist()
    (['a', 'cat', 'a  cat'], [[1, 0], [0, 1], [2, 0]], [17, 17, 6, 3])
    """
    c, sizes = _nothing(), np.zeros(4, np.int64)
    for texts, times in batches:
        c = _add(c, sizes, lines, texts, times)
        if memory is not None and c.used @ (CHUNK_BYTES, TEXT_BYTES) > memory:
            yield *_unique(c), sizes
            c, sizes = _nothing(), np.zeros(4, np.int64)
    yield *_unique(c), sizes


def _unique(c: Chunks) -> tuple[Iterator[str], np.ndarray]:
    n, used = c.used.tolist()
    return _slices(c.text[:used], c.ends[:n]), c.counts[:n]


def _nothing(capacity: int = 1 << 12) -> Chunks:
    return Chunks(
        np.full(4 * capacity, -1, np.int32),
        np.empty(capacity, np.uint64),
        np.empty(capacity, np.int64),
        np.zeros((capacity, 2), np.int64),
        np.empty(8 * capacity, np.uint8),
        np.zeros(2, np.int64),
    )


def _slices(text: np.ndarray, ends: np.ndarray) -> Iterator[str]:
    """The strings that stand one after the other in UTF-8 text."""
    whole = text.tobytes()
    first = np.flatnonzero(text & 0xC0 != 0x80) if not whole.isascii() else None
    characters = whole.decode()
    if first is not None:  # ends in characters instead of bytes
        ends = np.searchsorted(first, ends)
    ends = ends.tolist()
    return (characters[a:b] for a, b in zip([0, *ends], ends, strict=False))
