"""Unique chunks of text and their counts, in one compiled pass over the bytes.

A chunk is what stands between single spaces that separate words: most are words. Cutting there is
what every code path to pre-tokens begins with, and from then on only unique chunks are looked at. Where
the rules allow it, text is cut at the ends of lines, too.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numba import njit

from ..tokenizer.segmentation import longer

WORD, SPACE, META = 0, 1, 2
# what a unique chunk takes, and each byte of it, until it is pre-token counts (measured)
CHUNK_BYTES, TEXT_BYTES = 250, 4

# The unique chunks: their bytes one after the other in `text`, chunk `i` from `ends[i]` to
# `ends[i + 1]`, and how often each occurs; `table` leads from a chunk's hash to its number.
Found = namedtuple("Found", "text ends times hashes table")


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


# --- one pass over the text ---------------------------------------------------------------------
@njit(cache=True, nogil=True)
def _cut(text, offsets, weights, spaces, lines, chunks, ends, times):
    """Cut documents into chunks; returns how many, and the sizes of the text.

    Chunk `i` goes into `chunks` behind byte `ends[i]`, up to `ends[i + 1]`; `times[i]` says how
    often it counts. `spaces`: a chunk keeps the space before it. `lines`: cut at the ends of lines,
    too. The sizes are characters, bytes, words between white space, and documents.
    """
    n, used, sizes = 0, 0, np.zeros(4, np.int64)
    for d in range(len(weights)):
        i, end = offsets[d], offsets[d + 1]
        before, chars, words = SPACE, 0, 0
        while i < end:
            b = text[i]
            kind = WORD if 32 < b < 128 else _kind(text, i)
            between = b == 32 and before == WORD and i + 1 < end and _kind(text, i + 1) == WORD
            chars += 1
            words += kind == SPACE and before != SPACE
            before = kind
            if between:
                ends[n + 1], times[n] = used, weights[d]
                n += 1
            if spaces or not between:
                chunks[used] = b
                used += 1
            i += 1
            while i < end and text[i] & 0xC0 == 0x80:  # the other bytes of the character
                chunks[used] = text[i]
                used += 1
                i += 1
            line = lines and (b == 10 or b == 13) and _line_ends(text, i, end)
            if (line or i == end) and used > ends[n]:
                ends[n + 1], times[n] = used, weights[d]
                n += 1
        size = np.array((chars, end - offsets[d], words + (before != SPACE), 1))
        sizes += weights[d] * size
    return n, sizes


# --- the table of unique chunks -----------------------------------------------------------------
def _nothing_found() -> Found:
    size = 1 << 12
    text, ends, times = np.empty(1 << 16, np.uint8), np.zeros(size + 1, int), np.zeros(size, int)
    return Found(text, ends, times, np.zeros(size, np.uint64), np.full(2 * size, -1, np.int32))


@njit(cache=True, nogil=True)
def _hash(text, begin, end):
    """FNV-1a of 64 bits."""
    value = np.uint64(0xCBF29CE484222325)
    for k in range(begin, end):
        value = (value ^ np.uint64(text[k])) * np.uint64(0x100000001B3)
    return value


@njit(cache=True, nogil=True)
def _first_slot(table, value):
    return (value ^ value >> np.uint64(32)) & np.uint64(len(table) - 1)


@njit(cache=True, nogil=True)
def _next_slot(table, i):
    return (i + np.uint64(1)) & np.uint64(len(table) - 1)


@njit(cache=True, nogil=True)
def _are_equal(a, begin, b, start, size):
    """Whether so many bytes are the same from `begin` on in one text, from `start` on in the other."""
    k = 0
    while k < size and a[begin + k] == b[start + k]:
        k += 1
    return k == size


@njit(cache=True, nogil=True)
def _grown(found, n, size):
    """The same chunks in arrays into which one more, of `size` bytes, fits."""
    text, ends, times, hashes, table = found
    if ends[n] + size > len(text):
        text = longer(text, 2 * (ends[n] + size))
    if n == len(times):
        ends, times, hashes = (
            longer(ends, 2 * n + 1),
            longer(times, 2 * n),
            longer(hashes, 2 * n),
        )
        table = np.full(4 * n, -1, np.int32)
        for c in range(n):
            i = _first_slot(table, hashes[c])
            while table[i] >= 0:
                i = _next_slot(table, i)
            table[i] = c
    return Found(text, ends, times, hashes, table)


@njit(cache=True, nogil=True)
def _add(chunks, offsets, weights, found, n):
    """Add chunks to the `n` unique ones that are found; returns these, and how many they are now."""
    text, ends, times, hashes, table = found
    for k in range(len(weights)):
        begin, size = offsets[k], offsets[k + 1] - offsets[k]
        if n == len(times) or ends[n] + size > len(text):
            found = _grown(Found(text, ends, times, hashes, table), n, size)
            text, ends, times, hashes, table = found
        # 1. Look the chunk up: its slot, or a free one.
        value = _hash(chunks, begin, begin + size)
        i = _first_slot(table, value)
        while table[i] >= 0:
            c = table[i]
            same = hashes[c] == value and ends[c + 1] - ends[c] == size
            if same and _are_equal(text, ends[c], chunks, begin, size):
                break
            i = _next_slot(table, i)
        # 2. Write a new one behind the others.
        if table[i] < 0:
            table[i], hashes[n] = n, value
            text[ends[n] : ends[n] + size] = chunks[begin : begin + size]
            ends[n + 1] = ends[n] + size
            n += 1
        times[table[i]] += weights[k]
    return Found(text, ends, times, hashes, table), n


class Chunks:
    """The unique chunks of the documents that were added, as they came first, and their counts."""

    def __init__(self, spaces: bool, lines: bool):
        self._cuts = spaces, lines
        self._found, self._n, self.sizes = _nothing_found(), 0, np.zeros(4, np.int64)

    def add(self, texts: list[bytes], times: list[int]) -> None:
        """Cut documents (UTF-8) that occur so often, and count their chunks."""
        text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
        offsets, weights = np.cumsum([0, *map(len, texts)]), np.array(times, np.int64)
        most = len(texts) + np.count_nonzero((text == 32) | (text == 10) | (text == 13))
        chunks, ends, often = np.empty_like(text), np.zeros(most + 1, int), np.empty(most, int)
        n, sizes = _cut(text, offsets, weights, *self._cuts, chunks, ends, often)
        self._found, self._n = _add(chunks, ends, often[:n], self._found, self._n)
        self.sizes += sizes

    @property
    def memory(self) -> int:
        """The bytes that the chunks take until they are pre-token counts."""
        return CHUNK_BYTES * self._n + TEXT_BYTES * int(self._found.ends[self._n])

    def counted(self) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        """The chunks, their counts, and the sizes of the text."""
        text, ends, times, *_ = self._found
        buffers = pa.py_buffer(ends[: self._n + 1]), pa.py_buffer(text[: ends[self._n]])
        strings = pa.LargeStringArray.from_buffers(self._n, *buffers)
        return strings, times[: self._n], self.sizes


def count_chunks(
    batches: Iterable[tuple[list[bytes], list[int]]],
    *,
    spaces: bool = False,
    lines: bool = False,
    memory: int | None = None,
) -> Iterator[tuple[pa.Array, np.ndarray, np.ndarray]]:
    """Count the chunks of documents, which come in batches of (UTF-8 texts, how often each).

    A chunk ends at a single space between two characters that are neither white space nor ``▁``,
    and with ``lines`` also behind the last newline in white space. That space begins the next chunk
    with ``spaces``, and belongs to none without. Yields the unique chunks, their counts, and the
    sizes of the text (int64): characters, bytes, words between white space, documents. With
    ``memory`` it yields whenever the chunks would take more than so many bytes until they are
    pre-token counts; a batch is always counted as a whole.

    >>> [(chunks, counts, sizes)] = count_chunks([([b"a cat", b"a  cat"], [1, 2])])
    >>> chunks.to_pylist(), counts.tolist(), sizes.tolist()
    (['a', 'cat', 'a  cat'], [1, 1, 2], [17, 17, 6, 3])
    """
    chunks = Chunks(spaces, lines)
    with ThreadPoolExecutor(1) as pool:  # compiled code lets go of Python's lock: meanwhile
        counting = pool.submit(chunks.add, [], [])  # the next batch is made
        for batch in batches:
            counting.result()
            if memory is not None and chunks.memory > memory:
                yield chunks.counted()
                chunks = Chunks(spaces, lines)
            counting = pool.submit(chunks.add, *batch)
        counting.result()
    yield chunks.counted()
