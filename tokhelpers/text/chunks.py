"""Unique chunks of text and their counts: cut in one compiled pass over the bytes, counted by Arrow.

A chunk is what stands between single spaces that separate words: most are words. Cutting there is
what every code path to pre-tokens begins with, and from then on only unique chunks are looked at. Where
the rules allow it, text is cut at the ends of lines, too.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pyarrow as pa
from numba import njit

THREADS = 2  # compiled code lets go of the interpreter's lock, and so does Arrow
WORD, SPACE, META = 0, 1, 2
# what a unique chunk takes, and each byte of its array, until it is pre-token counts (measured)
CHUNK_BYTES, ARRAY_BYTES = 220, 4


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
def _end_chunk(text, begin, end, chunks, ends, n):
    """Write a chunk behind the `n` that were cut, unless it is empty; returns how many they are now."""
    if end == begin:
        return n
    ends[n + 1] = ends[n] + end - begin
    chunks[ends[n] : ends[n + 1]] = text[begin:end]
    return n + 1


@njit(cache=True, nogil=True)
def _cut(text, offsets, weights, spaces, lines, chunks, ends, counts):
    """Cut documents into chunks; returns how many, and the sizes of the text.

    `spaces`: a chunk keeps the space before it. `lines`: cut at the ends of lines, too. The chunks'
    bytes, their ends among these, and how often each counts are written to the last three. The sizes
    are characters, bytes, words between white space, and documents.
    """
    n, sizes = 0, np.zeros(4, np.int64)
    for d in range(len(weights)):
        cut_before = n
        begin = i = offsets[d]
        end, before, chars, words = offsets[d + 1], SPACE, 0, 0
        while i < end:
            b = text[i]
            kind = WORD if 32 < b < 128 else _kind(text, i)
            if b == 32 and before == WORD and i + 1 < end and _kind(text, i + 1) == WORD:
                n = _end_chunk(text, begin, i, chunks, ends, n)
                begin = i if spaces else i + 1
            chars += 1
            words += kind == SPACE and before != SPACE
            before = kind
            i += 1
            while i < end and text[i] & 0xC0 == 0x80:  # the other bytes of the character
                i += 1
            if lines and (b == 10 or b == 13) and _line_ends(text, i, end):
                n = _end_chunk(text, begin, i, chunks, ends, n)
                begin = i
        n = _end_chunk(text, begin, end, chunks, ends, n)
        counts[cut_before:n] = weights[d]
        size = np.array((chars, end - offsets[d], words + (before != SPACE), 1))
        sizes += weights[d] * size
    return n, sizes


def _count_batch(texts: list[bytes], times: list[int], spaces: bool, lines: bool) -> tuple:
    """The unique chunks of a batch, their counts, and the sizes of its text."""
    text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    offsets, weights = np.cumsum([0, *map(len, texts)]), np.array(times, np.int64)
    most = len(texts) + np.count_nonzero((text == 32) | (text == 10) | (text == 13))
    chunks, ends = np.empty(len(text), np.uint8), np.zeros(most + 1, np.int64)
    counts = np.empty(most, np.int64)
    n, sizes = _cut(text, offsets, weights, spaces, lines, chunks, ends, counts)
    strings = pa.LargeStringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(chunks))
    return _added_up([(strings, counts[:n], sizes)])


def _added_up(counted: list[tuple]) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Several texts as one: each chunk once, in the order in which they came, counts and sizes."""
    chunks, counts, sizes = zip(*counted, strict=True)
    found = pa.concat_arrays(chunks).dictionary_encode()
    total = np.zeros(len(found.dictionary), np.int64)
    np.add.at(total, found.indices.to_numpy(), np.concatenate(counts))
    return found.dictionary, total, sum(sizes)


def _memory(chunks: pa.Array, *_) -> int:
    """The bytes that unique chunks take until they are pre-token counts."""
    return CHUNK_BYTES * len(chunks) + ARRAY_BYTES * chunks.nbytes


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
    ``memory`` it yields whenever the chunks would take more than about so many bytes until they are
    pre-token counts; a batch is always counted as a whole.

    >>> [(chunks, counts, sizes)] = count_chunks([([b"a cat", b"a  cat"], [1, 2])])
    >>> chunks.to_pylist(), counts.tolist(), sizes.tolist()
    (['a', 'cat', 'a  cat'], [1, 1, 2], [17, 17, 6, 3])
    """
    nothing = pa.array([], pa.large_string()), np.zeros(0, np.int64), np.zeros(4, np.int64)
    batches, running, held = iter(batches), [], [nothing]
    with ThreadPoolExecutor(THREADS) as pool:
        # the next batches are made while threads count these
        while (some := list(islice(batches, THREADS))) or running:
            done = running
            running = [pool.submit(_count_batch, *batch, spaces, lines) for batch in some]
            held += [future.result() for future in done]
            before, *new = (len(chunks) for chunks, _, _ in held)
            if sum(new) <= before:  # adding up looks at all of them: it waits for as many new ones
                continue
            held = [_added_up(held)]
            if memory is not None and _memory(*held[0]) > memory:
                yield held.pop()
                held.append(nothing)
    yield _added_up(held)
