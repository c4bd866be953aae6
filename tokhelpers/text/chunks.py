"""Unique chunks of text and their counts, in one compiled pass over the bytes.

A chunk is what stands between single spaces that separate words: most are words. Cutting there is
what every code path to pre-tokens begins with, and from then on only unique chunks are looked at. Where
the rules allow it, text is cut at the ends of lines, too.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
import pyarrow as pa

from ..tokenizer.compiled import compiled, grown

THREADS = 2  # compiled code lets go of the interpreter's lock; each adds half of the chunks
WORD, SPACE, META = 0, 1, 2
# what a unique chunk takes, and each byte of it, until it is pre-token counts (measured)
CHUNK_BYTES, TEXT_BYTES = 250, 4

# A chunk as it was cut out of a text, from byte `begin` to `end`, and how often it counts
CUT = np.dtype(
    (np.record, [("begin", np.int64), ("end", np.int64), ("times", np.int64), ("hash", np.uint32)])
)
# A unique chunk, whose bytes go from `begin` to the next one's: how often it occurs, and its place:
# how many chunks were cut before its first occurrence
CHUNK = np.dtype((np.record, [("begin", np.int64), ("count", np.int64), ("place", np.int64)]))
# The unique chunks: their bytes one after the other, a record of each, and a hash table whose slots
# hold a chunk's hash in the upper half and its number in the lower one; -1: free
Found = namedtuple("Found", "text records table")


# Bytes that are part of a word wherever they stand: they begin neither white space nor ``▁``
IN_WORDS = np.ones(256, np.bool_)
IN_WORDS[[*range(33), 0xC2, 0xE1, 0xE2, 0xE3]] = False
NOTHING = np.uint64(0xCBF29CE484222325)  # the hash of no bytes


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
def _mixed(value, byte):
    """FNV-1a of 64 bits: the hash of some bytes and one more."""
    return (value ^ np.uint64(byte)) * np.uint64(0x100000001B3)


@compiled
def _end_chunk(cuts, n, begin, end, times, value):
    """Write a chunk behind the `n` that were cut, unless it is empty; returns how many they are now."""
    if end == begin:
        return n
    cuts[n].begin, cuts[n].end, cuts[n].times = begin, end, times
    cuts[n].hash = np.uint32((value ^ value >> np.uint64(32)) & np.uint64(0xFFFFFFFF))
    return n + 1


@compiled
def _cut(text, offsets, weights, spaces, lines, cuts):
    """Cut documents into chunks; returns how many, and the sizes of the text.

    `spaces`: a chunk keeps the space before it. `lines`: cut at the ends of lines, too. The sizes are
    characters, bytes, words between white space, and documents.
    """
    n, sizes = 0, np.zeros(4, np.int64)
    for d in range(len(weights)):
        begin = i = offsets[d]
        end, before, chars, words, value = offsets[d + 1], SPACE, 0, 0, NOTHING
        while i < end:
            b = text[i]
            if IN_WORDS[b]:
                value, before = _mixed(value, b), WORD
                chars += b & 0xC0 != 0x80
                i += 1
                continue
            kind, after = _kind(text, i), i + 1
            if b == 32 and before == WORD and after < end and _kind(text, after) == WORD:
                n = _end_chunk(cuts, n, begin, i, weights[d], value)
                begin, value = i if spaces else after, NOTHING
            chars += 1
            words += kind == SPACE and before != SPACE
            before = kind
            while after < end and text[after] & 0xC0 == 0x80:  # the other bytes of the character
                after += 1
            for k in range(max(i, begin), after):
                value = _mixed(value, text[k])
            i = after
            if lines and (b == 10 or b == 13) and _line_ends(text, i, end):
                n = _end_chunk(cuts, n, begin, i, weights[d], value)
                begin, value = i, NOTHING
        n = _end_chunk(cuts, n, begin, end, weights[d], value)
        sizes[0] += weights[d] * chars
        sizes[1] += weights[d] * (end - offsets[d])
        sizes[2] += weights[d] * (words + (before != SPACE))
        sizes[3] += weights[d]
    return n, sizes


def _cut_batch(texts: list[bytes], times: list[int], spaces: bool, lines: bool) -> tuple:
    """The text of a batch, its chunks, and its sizes."""
    text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)
    offsets, weights = np.cumsum([0, *map(len, texts)]), np.array(times, np.int64)
    most = len(texts) + np.count_nonzero((text == 32) | (text == 10) | (text == 13))
    cuts = np.empty(most, CUT)
    n, sizes = _cut(text, offsets, weights, spaces, lines, cuts)
    return text, cuts[:n], sizes


# --- the table of unique chunks -----------------------------------------------------------------
@compiled
def _are_equal(a, begin, b, start, size):
    """Whether so many bytes are the same from `begin` on in one text, from `start` on in the other."""
    k = 0
    while k < size and a[begin + k] == b[start + k]:
        k += 1
    return k == size


@compiled
def _with_room(found, n, size):
    """The same chunks in arrays into which one more, of `size` bytes, fits."""
    text, records, table = found
    if records[n].begin + size > len(text):
        text = grown(text, 2 * (records[n].begin + size))
    if n + 1 == len(records):
        records, larger = grown(records, 2 * n + 1), np.full(4 * n, -1, np.int64)
        for slot in table[table >= 0]:
            i = (slot >> 32) & (len(larger) - 1)
            while larger[i] >= 0:
                i = (i + 1) & (len(larger) - 1)
            larger[i] = slot
        table = larger
    return Found(text, records, table)


@compiled
def _add_fitting(chunks, cuts, k, before, share, text, records, table, n):
    """Add chunks from the `k`-th on as far as they fit into the arrays, as `_add` does.

    Returns the first that does not fit, and how many unique ones there are.
    """
    mask = len(table) - 1
    while k < len(cuts):
        if cuts[k].hash & 1 != share:
            k += 1
            continue
        begin, size = cuts[k].begin, cuts[k].end - cuts[k].begin
        if n + 1 == len(records) or records[n].begin + size > len(text):
            break
        # 1. Look the chunk up: its slot, or a free one.
        value = np.int64(cuts[k].hash) >> 1
        i = value & mask
        while table[i] >= 0:
            c = table[i] & 0xFFFFFFFF
            there, end = records[c].begin, records[c + 1].begin
            same = table[i] >> 32 == value and end - there == size
            if same and _are_equal(text, there, chunks, begin, size):
                break
            i = (i + 1) & mask
        # 2. Write a new one behind the others.
        if table[i] < 0:
            table[i] = value << 32 | n
            start = records[n].begin
            for j in range(size):
                text[start + j] = chunks[begin + j]
            records[n].place = before + k
            n += 1
            records[n].begin, records[n].count = start + size, 0
        records[table[i] & 0xFFFFFFFF].count += cuts[k].times
        k += 1
    return k, n


@compiled
def _add(chunks, cuts, before, share, found, n):
    """Add the chunks of which the lowest bit of the hash is `share` to the `n` unique ones.

    `before` chunks were cut before these. Returns the unique chunks, and how many they are now.
    """
    k = 0
    while k < len(cuts):
        text, records, table = found
        k, n = _add_fitting(chunks, cuts, k, before, share, text, records, table, n)
        if k < len(cuts):
            found = _with_room(found, n, cuts[k].end - cuts[k].begin)
    return found, n


class _Chunks:
    """Unique chunks with a share of all hashes, as they came first, and their counts."""

    def __init__(self, share: int):
        size = 1 << 12
        records, table = np.zeros(size + 1, CHUNK), np.full(2 * size, -1, np.int64)
        self._share, self._n, self._before = share, 0, 0
        self._found = Found(np.empty(1 << 16, np.uint8), records, table)

    def add(self, batches: list[tuple]) -> None:
        """Count the chunks of this share in batches, as `_cut_batch` returns them."""
        for text, cuts, _ in batches:
            self._found, self._n = _add(text, cuts, self._before, self._share, self._found, self._n)
            self._before += len(cuts)

    @property
    def memory(self) -> int:
        """The bytes that the chunks take until they are pre-token counts."""
        return CHUNK_BYTES * self._n + TEXT_BYTES * int(self._found.records["begin"][self._n])

    def table(self) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        """The chunks, their counts, and how many were cut before the first occurrence of each."""
        text, records, _ = self._found
        ends = np.ascontiguousarray(records["begin"][: self._n + 1])
        buffers = pa.py_buffer(ends), pa.py_buffer(text[: ends[-1]])
        records = records[: self._n]
        strings = pa.LargeStringArray.from_buffers(self._n, *buffers)
        return strings, records["count"], records["place"]


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

    def fresh() -> tuple[list[_Chunks], np.ndarray]:
        return [_Chunks(share) for share in range(THREADS)], np.zeros(4, np.int64)

    (shares, sizes), batches, cutting, adding = fresh(), iter(batches), [], []
    with ThreadPoolExecutor(THREADS) as pool:
        # the next batches are made while threads cut these, and add those before
        while (some := list(islice(batches, THREADS))) or cutting:
            cut = _results(cutting)
            _results(adding)
            if memory is not None and sum(share.memory for share in shares) > memory:
                yield _in_order(shares, sizes)
                shares, sizes = fresh()
            adding = [pool.submit(share.add, cut) for share in shares]
            cutting = [pool.submit(_cut_batch, *batch, spaces, lines) for batch in some]
            sizes += sum(of_batch for _, _, of_batch in cut)
        _results(adding)
    yield _in_order(shares, sizes)


def _results(futures: list[Future]) -> list:
    return [future.result() for future in futures]


def _in_order(shares: list[_Chunks], sizes: np.ndarray) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """The chunks of all shares in the order in which they came, with their counts."""
    chunks, counts, places = zip(*(share.table() for share in shares), strict=True)
    order = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_arrays(chunks).take(pa.array(order)), np.concatenate(counts)[order], sizes
