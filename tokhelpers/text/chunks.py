"""Unique chunks of text and their counts, in one compiled pass over the bytes.

A chunk is what stands between single spaces that separate words: most are words. Cutting there is
what every code path to pre-tokens begins with, and from then on only unique chunks are looked at. Where
the rules allow it, text is cut at the ends of lines, too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numba import njit

WORD, SPACE, META = 0, 1, 2
# what a unique chunk takes, and each byte of it, until it is pre-token counts (measured)
CHUNK_BYTES, TEXT_BYTES = 250, 4
PENDING = 1 << 20  # chunks of batches that wait until they are added up


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


def add_up(parts: list[tuple[pa.Array, np.ndarray]]) -> tuple[pa.Array, np.ndarray]:
    """Add up the counts of equal strings: the unique ones, as they came first, and their counts.

    >>> words, counts = add_up([(pa.array(["a", "b"]), np.array([1, 2])), (pa.array(["a"]), np.array([4]))])
    >>> words.to_pylist(), counts.tolist()
    (['a', 'b'], [5, 2])
    """
    found = pa.concat_arrays([strings for strings, _ in parts]).dictionary_encode()
    counts = np.zeros(len(found.dictionary), np.int64)
    np.add.at(counts, found.indices.to_numpy(), np.concatenate([n for _, n in parts]))
    return found.dictionary, counts


def bytes_of(strings: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of strings (large ones), one after the other, and their offsets.

    >>> [array.tolist() for array in bytes_of(pa.array(["ab", "c"], pa.large_string()))]
    [[97, 98, 99], [0, 2, 3]]
    """
    if not len(strings):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, text = strings.buffers()
    offsets = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return np.frombuffer(text, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def _count_batch(texts: list[bytes], times: list[int], spaces: bool, lines: bool) -> tuple:
    """Unique chunks of documents, their counts, and the sizes of the text."""
    text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    offsets, weights = np.cumsum([0, *map(len, texts)]), np.array(times, np.int64)
    most = len(texts) + np.count_nonzero((text == 32) | (text == 10) | (text == 13))
    chunks, ends, often = (
        np.empty_like(text),
        np.zeros(most + 1, np.int64),
        np.empty(most, np.int64),
    )
    n, sizes = _cut(text, offsets, weights, spaces, lines, chunks, ends, often)
    strings = pa.LargeStringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(chunks))
    return *add_up([(strings, often[:n])]), sizes


def _in_threads(work: Callable, batches: Iterable[tuple]) -> Iterator:
    """What two threads make of the batches, in order; compiled code lets go of Python's lock."""
    waiting = deque()
    with ThreadPoolExecutor(2) as pool:
        for batch in batches:
            waiting.append(pool.submit(work, *batch))
            if len(waiting) == 3:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


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
    whole, parts, sizes = (
        (pa.array([], pa.large_string()), np.zeros(0, np.int64)),
        [],
        np.zeros(4, int),
    )
    for chunks, counts, measured in _in_threads(
        lambda *batch: _count_batch(*batch, spaces, lines), batches
    ):
        sizes += measured
        parts.append((chunks, counts))
        size = CHUNK_BYTES * sum(len(some) for some, _ in [whole, *parts])
        size += TEXT_BYTES * sum(some.nbytes for some, _ in [whole, *parts])
        full = memory is not None and size > memory
        # seldom, so that each chunk is looked up a few times only
        if full or sum(len(some) for some, _ in parts) > max(len(whole[0]), PENDING):
            whole, parts = add_up([whole, *parts]), []
            pa.default_memory_pool().release_unused()
        if full and CHUNK_BYTES * len(whole[0]) + TEXT_BYTES * whole[0].nbytes > memory:
            yield *whole, sizes
            whole, sizes = (whole[0][:0], whole[1][:0]), np.zeros(4, int)
    whole, parts = add_up([whole, *parts]), []
    pa.default_memory_pool().release_unused()  # some 100 MB
    yield *whole, sizes
