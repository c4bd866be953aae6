"""Count the unique chunks of a text, in one compiled pass over its bytes.

A chunk is what stands between single spaces that separate words; most chunks are words. Every code
path to pre-tokens begins with this split, and then only has to look at unique chunks. Where the
pre-tokenizer allows it, text is split at the ends of lines as well.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..tokenizer.compiled import compiled

THREADS = 2  # compiled code and Arrow release the GIL
ROWS = 1 << 22  # chunks of batches that wait until they are added up
WORD, SPACE, META = 0, 1, 2
# Bytes that are part of a word in any position: they begin neither white space nor ``▁``
IN_WORDS = np.ones(256, np.bool_)
IN_WORDS[[*range(33), 0xC2, 0xE1, 0xE2, 0xE3]] = False


class Batch(NamedTuple):
    """Documents as UTF-8 in one array of bytes: where each begins and ends, how often it counts."""

    text: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    weights: np.ndarray


class Counts(NamedTuple):
    """Unique strings in order of their first occurrence, their counts, and the sizes of the text.

    The sizes (int64) are characters, bytes, words between white space, and documents.
    """

    strings: pa.Array
    counts: np.ndarray
    sizes: np.ndarray


def add_up(parts: Iterable[Counts]) -> Counts:
    """Add up the counts of the parts of a text, in order; they are exact up to 2^52.

    >>> parts = [Counts(pa.array(words), [1, 1], np.ones(4, int)) for words in (["b", "a"], ["a", "c"])]
    >>> total = add_up(parts)
    >>> total.strings.to_pylist(), total.counts.tolist()
    (['b', 'a', 'c'], [1, 2, 1])
    """
    strings, counts, sizes = zip(*parts, strict=True)
    return _unique(pa.concat_arrays(strings), np.concatenate(counts), sum(sizes))


def _unique(strings: pa.Array, counts: np.ndarray, sizes: np.ndarray) -> Counts:
    encoded = strings.dictionary_encode()
    totals = np.bincount(encoded.indices, counts, len(encoded.dictionary))
    return Counts(encoded.dictionary, totals.astype(np.int64), sizes)


# --- one pass over the text ---------------------------------------------------------------------
@compiled
def _kind(text, i):
    """Whether white space (as in Python), ``▁``, or anything else begins at byte `i`."""
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
    """Whether a line ends before byte `i`: no newline follows in the same white space.

    Nor does a slash, which is part of the line end in Tekken's pattern.
    """
    while i < end and _kind(text, i) == SPACE:
        if text[i] == 10 or text[i] == 13:
            return False
        i += 1
        while i < end and text[i] & 0xC0 == 0x80:
            i += 1
    return i == end or text[i] != 47


@compiled
def _end_chunk(n, size, offsets, weight, weights):
    """End the chunk after `n` others at byte `size`, unless it is empty; returns the new `n`."""
    if size == offsets[n]:
        return n
    offsets[n + 1], weights[n] = size, weight
    return n + 1


@compiled
def _split(batch, spaces, lines, chunks, offsets, weights):
    """Write the chunks of documents one after the other; returns their number and the sizes."""
    text, begins, ends, document_weights = batch
    n = size = 0
    offsets[0], sizes = 0, np.zeros(4, np.int64)
    for d in range(len(begins)):
        i, end, weight = begins[d], ends[d], document_weights[d]
        before, chars, words = SPACE, 0, 0
        while i < end:
            b = text[i]
            if IN_WORDS[b]:
                chunks[size], before = b, WORD
                size += 1
                chars += b & 0xC0 != 0x80
                i += 1
                continue
            kind, after = _kind(text, i), i + 1
            between = b == 32 and before == WORD and after < end and _kind(text, after) == WORD
            if between:
                n = _end_chunk(n, size, offsets, weight, weights)
            chars += 1
            words += kind == SPACE and before != SPACE
            before = kind
            while after < end and text[after] & 0xC0 == 0x80:  # the other bytes of the character
                after += 1
            if spaces or not between:
                for k in range(i, after):
                    chunks[size] = text[k]
                    size += 1
            i = after
            if lines and (b == 10 or b == 13) and _line_ends(text, i, end):
                n = _end_chunk(n, size, offsets, weight, weights)
        n = _end_chunk(n, size, offsets, weight, weights)
        sizes[0] += weight * chars
        sizes[1] += weight * (end - begins[d])
        sizes[2] += weight * (words + (before != SPACE))
        sizes[3] += weight
    return n, sizes


def _count_batch(batch: Batch, spaces: bool, lines: bool) -> Counts:
    """The unique chunks of a batch."""
    text = batch.text
    most = len(batch.begins) + np.count_nonzero((text == 32) | (text == 10) | (text == 13))
    chunks, offsets = np.empty(len(text), np.uint8), np.empty(most + 1, np.int64)
    weights = np.empty(most, np.int64)
    n, sizes = _split(batch, spaces, lines, chunks, offsets, weights)
    buffers = pa.py_buffer(offsets[: n + 1]), pa.py_buffer(chunks)
    strings = pa.LargeStringArray.from_buffers(n, *buffers)
    return _unique(strings, weights[:n], sizes)


def count_chunks(batches: Iterable[Batch], *, spaces: bool = False, lines: bool = False) -> Counts:
    """Count the chunks of documents; the result does not depend on how these are batched.

    A chunk ends at a single space between two characters that are neither white space nor ``▁``,
    and with ``lines`` also behind the last newline in white space. With ``spaces`` that space is the
    beginning of the next chunk, otherwise it is dropped.

    >>> chunks, counts, sizes = count_chunks([batch_of_lines(b"a cat\\na  cat\\na  cat")])
    >>> chunks.to_pylist(), counts.tolist(), sizes.tolist()
    (['a', 'cat', 'a  cat'], [1, 1, 2], [17, 17, 6, 3])
    """
    empty = pa.array([], pa.large_string()), np.zeros(0, np.int64), np.zeros(4, np.int64)
    parts, most = [Counts(*empty)], ROWS
    for counts in _counted(batches, spaces, lines):
        parts.append(counts)
        if sum(len(part.strings) for part in parts) > most:
            parts = [add_up(parts)]
            most = max(ROWS, 2 * len(parts[0].strings))
    return add_up(parts)


def _counted(batches: Iterable[Batch], spaces: bool, lines: bool) -> Iterator[Counts]:
    """The counts of each batch, in order; the next ones are read while threads count these."""
    with ThreadPoolExecutor(THREADS) as pool:
        futures = deque()
        for batch in batches:
            futures.append(pool.submit(_count_batch, batch, spaces, lines))
            if len(futures) > THREADS:
                yield futures.popleft().result()
        yield from (future.result() for future in futures)


# --- documents in a block of lines ----------------------------------------------------------------
@compiled
def _find_lines(text, begins, ends):
    """Write where the lines begin and end that are not blank, without line ends; returns their number."""
    n = begin = 0
    for i in range(len(text) + 1):
        if i < len(text) and text[i] != 10:
            continue
        end = i - 1 if i > begin and text[i - 1] == 13 else i
        k = begin
        while k < end and (text[k] & 0xC0 == 0x80 or _kind(text, k) == SPACE):
            k += 1
        if k < end:
            begins[n], ends[n] = begin, end
            n += 1
        begin = i + 1
    return n


def batch_of_lines(block: bytes) -> Batch:
    """Make each line of a block a document, without its end and without blank lines.

    >>> batch = batch_of_lines(b"a cat\\r\\n \\nb")
    >>> batch.begins.tolist(), batch.ends.tolist()
    ([0, 9], [5, 10])
    """
    text = np.frombuffer(block, np.uint8)
    most = np.count_nonzero(text == 10) + 1
    begins, ends = np.empty(most, np.int64), np.empty(most, np.int64)
    n = _find_lines(text, begins, ends)
    return Batch(text, begins[:n], ends[:n], np.ones(n, np.int64))
