"""Unique chunks of text and their counts, in one compiled pass over the bytes.

A chunk is what stands between single spaces that separate words: most are words. Cutting there is
what every code path to pre-tokens begins with, and from then on only unique chunks are looked at. Where
the rules allow it, text is cut at the ends of lines, too.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pyarrow as pa

from ..tokenizer.compiled import compiled

THREADS = 2  # compiled code and Arrow let go of the interpreter's lock
WORD, SPACE, META = 0, 1, 2
# what a unique chunk takes, and each byte of it, until it is pre-token counts (measured)
CHUNK_BYTES, TEXT_BYTES = 250, 4
UNADDED = 1 << 17  # counts that wait to be added up with those before


@compiled
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


@compiled
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
@compiled
def _end_chunk(ends, times, n, end, weight):
    """End a chunk behind the `n` that were cut, unless it is empty; returns how many they are now."""
    if end == ends[n]:
        return n
    ends[n + 1], times[n] = end, weight
    return n + 1


@compiled
def _cut(text, offsets, weights, spaces, lines, kept, ends, times):
    """Cut documents into chunks; returns how many, and the sizes of the text.

    The chunks' bytes go into `kept`, their ends there into `ends`, how often each counts into `times`.
    `spaces`: a chunk keeps the space before it. `lines`: cut at the ends of lines, too. The sizes are
    characters, bytes, words between white space, and documents.
    """
    n, m, sizes = 0, 0, np.zeros(4, np.int64)
    for d in range(len(weights)):
        i, end, before, chars, words = offsets[d], offsets[d + 1], SPACE, 0, 0
        while i < end:
            b = text[i]
            kind = WORD if 32 < b < 128 else _kind(text, i)
            between = b == 32 and before == WORD and i + 1 < end and _kind(text, i + 1) == WORD
            if between:
                n = _end_chunk(ends, times, n, m, weights[d])
            if spaces or not between:
                kept[m] = b
                m += 1
            chars += 1
            words += kind == SPACE and before != SPACE
            before = kind
            i += 1
            while i < end and text[i] & 0xC0 == 0x80:  # the other bytes of the character
                kept[m] = text[i]
                m += 1
                i += 1
            if lines and (b == 10 or b == 13) and _line_ends(text, i, end):
                n = _end_chunk(ends, times, n, m, weights[d])
        n = _end_chunk(ends, times, n, m, weights[d])
        size = np.array((chars, end - offsets[d], words + (before != SPACE), 1))
        sizes += weights[d] * size
    return n, sizes


def _unique(strings: pa.Array, counts: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Strings as they came first, each once, with its counts added up."""
    found = strings.dictionary_encode()
    total = np.zeros(len(found.dictionary), np.int64)
    np.add.at(total, found.indices.to_numpy(), counts)
    return found.dictionary, total


def _count_batch(texts: list[bytes], weights: list[int], spaces: bool, lines: bool) -> tuple:
    """The unique chunks of a batch, their counts, and the sizes of its text."""
    text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    offsets = np.cumsum([0, *map(len, texts)])
    most = len(texts) + np.count_nonzero((text == 32) | (text == 10) | (text == 13))
    kept, ends, times = np.empty_like(text), np.zeros(most + 1, np.int64), np.empty(most, np.int64)
    n, sizes = _cut(text, offsets, np.array(weights, np.int64), spaces, lines, kept, ends, times)
    chunks = pa.LargeStringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(kept))
    return *_unique(chunks, times[:n]), sizes


class _Counts:
    """Chunks of one batch after the other, their counts, and the sizes of the text."""

    def __init__(self):
        self._tables, self._sizes = [], np.zeros(4, np.int64)

    def add(self, chunks: pa.Array, counts: np.ndarray, sizes: np.ndarray) -> None:
        """Add what `_count_batch` returns; from time to time what came several times becomes one."""
        self._tables.append((chunks, counts))
        self._sizes += sizes
        first, *others = (len(counts) for _, counts in self._tables)
        if sum(others) > max(first, UNADDED):
            self._tables = [self._added_up()]

    def _added_up(self) -> tuple[pa.Array, np.ndarray]:
        chunks, counts = zip(*self._tables, strict=True)
        return _unique(pa.concat_arrays(chunks), np.concatenate(counts))

    @property
    def memory(self) -> int:
        """The bytes that the chunks take until they are pre-token counts."""
        return sum(CHUNK_BYTES * len(n) + TEXT_BYTES * c.nbytes for c, n in self._tables)

    def result(self) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        return *self._added_up(), self._sizes


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
    counts, batches, waiting = _Counts(), iter(batches), deque()
    with ThreadPoolExecutor(THREADS) as pool:
        while True:
            for batch in islice(batches, 1 + THREADS - len(waiting)):
                waiting.append(pool.submit(_count_batch, *batch, spaces, lines))
            if not waiting:
                break
            found = waiting.popleft().result()
            if memory is not None and counts.memory > memory:
                yield counts.result()
                counts = _Counts()
            counts.add(*found)
    yield counts.result()
