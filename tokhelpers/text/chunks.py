"""Unique chunks of text and their counts, in one compiled pass over the bytes.

A chunk is what stands between single spaces that separate words: most are words. Cutting there is
what every code path to pre-tokens begins with, and from then on only unique chunks are looked at. Where
the rules allow it, text is cut at the ends of lines, too.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numba import njit

WORD, SPACE, META = 0, 1, 2
# what a unique chunk takes, and each byte of it, until it is pre-token counts (measured)
CHUNK_BYTES, TEXT_BYTES = 600, 4


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def _cut(text, offsets, weights, lines, chunks, ends, spaced, times):
    """Cut documents into chunks; returns how many, and the sizes of the text.

    Chunk `i` goes into `chunks` behind byte `ends[i]`, up to `ends[i + 1]`; `spaced[i]` says whether
    a space stands before it, `times[i]` how often it counts. `lines`: cut at the ends of lines, too.
    The sizes are characters, bytes, words between white space, and documents.
    """
    n, used, sizes = 0, 0, np.zeros(4, np.int64)
    for d in range(len(weights)):
        i, end, space = offsets[d], offsets[d + 1], 0
        before, chars, words = SPACE, 0, 0
        while i < end:
            b = text[i]
            kind = WORD if 32 < b < 128 else _kind(text, i)
            between = b == 32 and before == WORD and i + 1 < end and _kind(text, i + 1) == WORD
            chars += 1
            words += kind == SPACE and before != SPACE
            before = kind
            if not between:
                chunks[used] = b
                used += 1
            i += 1
            while i < end and text[i] & 0xC0 == 0x80:  # the other bytes of the character
                chunks[used] = text[i]
                used += 1
                i += 1
            line = lines and (b == 10 or b == 13) and _line_ends(text, i, end)
            if between or line or (i == end and used > ends[n]):
                spaced[n], times[n] = space, weights[d]
                n += 1
                ends[n], space = used, between
        size = np.array((chars, end - offsets[d], words + (before != SPACE), 1))
        sizes += weights[d] * size
    return n, sizes


def _batch(texts: list[bytes], times: list[int], lines: bool) -> tuple:
    """Unique chunks of documents, their counts without and with a space before them, the sizes."""
    text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    offsets, weights = np.cumsum([0, *map(len, texts)]), np.array(times, np.int64)
    most = len(texts) + np.count_nonzero((text == 32) | (text == 10) | (text == 13))
    chunks, ends = np.empty_like(text), np.zeros(most + 1, np.int64)
    spaced, often = np.empty((2, most), np.int64)
    n, sizes = _cut(text, offsets, weights, lines, chunks, ends, spaced, often)
    strings = pa.LargeStringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(chunks))
    found = strings.dictionary_encode()
    counts = np.zeros(2 * len(found.dictionary), np.int64)
    np.add.at(counts, 2 * found.indices.to_numpy() + spaced[:n], often[:n])
    return found.dictionary.to_pylist(), counts[::2].tolist(), counts[1::2].tolist(), sizes


def count_chunks(
    batches: Iterable[tuple[list[bytes], list[int]]], lines: bool = False, memory: int | None = None
) -> Iterator[tuple[dict[str, int], dict[str, int], np.ndarray]]:
    """Count the chunks of documents, which come in batches of (UTF-8 texts, how often each).

    A chunk ends at a single space between two characters that are neither white space nor ``▁``,
    and with ``lines`` also behind the last newline in white space. Yields the counts of chunks
    without a space before them, those of chunks behind one, and the sizes of the text (int64):
    characters, bytes, words between white space, documents. With ``memory`` it yields whenever the
    chunks would take more than so many bytes until they are pre-token counts; a batch is always
    counted as a whole.

    >>> [(alone, behind, sizes)] = count_chunks([([b"a cat", b"a  cat"], [1, 2])])
    >>> alone, behind, sizes.tolist()
    ({'a': 1, 'a  cat': 2}, {'cat': 1}, [17, 17, 6, 3])
    """
    alone, behind, sizes, size = {}, {}, np.zeros(4, np.int64), 0
    for texts, times in batches:
        chunks, first, others, measured = _batch(texts, times, lines)
        sizes += measured
        for counts, more in ((alone, first), (behind, others)):
            for chunk, n in zip(chunks, more, strict=True):
                if n and chunk in counts:
                    counts[chunk] += n
                elif n:
                    counts[chunk] = n
                    size += CHUNK_BYTES + TEXT_BYTES * len(chunk)
        if memory is not None and size > memory:
            yield alone, behind, sizes
            alone, behind, sizes, size = {}, {}, np.zeros(4, np.int64), 0
    yield alone, behind, sizes
