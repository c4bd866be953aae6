"""Count the unique chunks of a text, in one compiled pass over its bytes and in all threads.

A chunk is what stands between single spaces that separate words; most chunks are words. Every code
path to pre-tokens begins with this split, and then only has to look at unique chunks. Where the
pre-tokenizer allows it, text is split at the ends of lines and around punctuation and digits as well.

Unique chunks are in hash tables, each for a part of the hashes. Threads first split batches of
documents and then add the chunks of all these batches to the tables, in order: no table is ever used
by two threads at once, none has to be merged, and the result is the same for any number of threads.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..common.compiled import compiled
from ..tokenizer.patterns import (
    AFTER_TWO,
    ALWAYS,
    LETTER,
    MARK,
    META,
    OTHER,
    SPACE,
    classes,
    cuts_of,
)
from ..tokenizer.token_bytes import character_at
from .unique_chunks import CHUNK, Table

THREADS = os.cpu_count() or 1  # compiled code releases the GIL
TABLES = 16
CHUNKS_AT_ONCE = 1 << 20  # chunks that a table takes at a time, as it makes room as if all were new
MUCH = 1 << 24  # bytes of text, after which memory is worth releasing
HIGHEST = np.uint64(60)  # bits of a hash choose the table
PRIME, MIXER = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


class Batch(NamedTuple):
    """Documents as UTF-8 in one array of bytes: where each begins and ends, how often it counts."""

    text: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    weights: np.ndarray

    def opened(self) -> "Batch":
        return self


class Block(NamedTuple):
    """UTF-8 in which the documents are still to be found, in the thread that will split them."""

    text: bytes
    documents: Callable[[bytes], Batch]

    def opened(self) -> Batch:
        return self.documents(self.text)


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
    encoded = pa.concat_arrays(strings).dictionary_encode()
    totals = np.bincount(encoded.indices, np.concatenate(counts), len(encoded.dictionary))
    return Counts(encoded.dictionary, totals.astype(np.int64), sum(sizes))


def release_memory(counted: int) -> None:
    """Give unused memory back to the system after so many bytes of text, unless they are few."""
    if counted > MUCH:
        pa.default_memory_pool().release_unused()
        pa.system_memory_pool().release_unused()  # that of numpy and of compiled code


# --- one pass over the text ---------------------------------------------------------------------
@compiled(inline="always")
def _class_at(text, i, classes):
    """The class of the character that begins at byte `i`, its code point, and where the next begins."""
    code, after = character_at(text, i)
    return classes[code] if code < 0x10000 else np.uint8(OTHER), code, after


@compiled
def _line_ends(text, i, end, classes):
    """Whether a line ends before byte `i`: no newline follows in the same white space.

    Nor does a slash, which is part of the line end in Tekken's pattern.
    """
    while i < end:
        kind, code, after = _class_at(text, i, classes)
        if kind != SPACE:
            return code != 47
        if code == 10 or code == 13:
            return False
        i = after
    return True


@compiled
def _split(text, begins, ends, weights, classes, rules, spaces, lines, chunks):
    """Write where each chunk begins and ends, its hash and its weight; returns their number and sizes."""
    n, sizes = 0, np.zeros(4, np.int64)
    for d in range(len(begins)):
        i, end, weight = begins[d], ends[d], weights[d]
        start, number, before, marks, chars, words = i, MIXER, np.uint8(SPACE), 0, 0, 0
        while i < end:
            kind, code, after = _class_at(text, i, classes)
            if kind == LETTER and before == LETTER:  # as most of a text is
                number = (number ^ np.uint64(code)) * PRIME
                chars += 1
                i = after
                continue
            is_kept = True
            if kind == SPACE:
                cuts = code == 32 and before > META and after < end
                cuts = cuts and _class_at(text, after, classes)[0] > META
                is_kept = spaces or not cuts
                words += before != SPACE
            else:
                rule = rules[before, kind]
                cuts = rule == ALWAYS or (rule == AFTER_TWO and marks > 1)
            if cuts:
                n = _end_chunk(chunks, n, start, i, number, weight)
                start, number, marks = i if is_kept else after, MIXER, 0
            if is_kept:
                number = (number ^ np.uint64(code)) * PRIME
            # of a chunk that has only marks so far, behind at most one space
            marks = marks + 1 if kind == MARK or (code == 32 and i == start) else -(2**62)
            chars += 1
            before, i = kind, after
            if lines and (code == 10 or code == 13) and _line_ends(text, i, end, classes):
                n = _end_chunk(chunks, n, start, i, number, weight)
                start, number, marks = i, MIXER, 0
        n = _end_chunk(chunks, n, start, end, number, weight)
        sizes[0] += weight * chars
        sizes[1] += weight * (end - begins[d])
        sizes[2] += weight * (words + (before != SPACE))
        sizes[3] += weight
    return n, sizes


@compiled(inline="always")
def _end_chunk(chunks, n, begin, end, number, weight):
    """Note a chunk unless it is empty; returns the new number of chunks."""
    if begin < end:
        number = (number ^ number >> np.uint64(32)) * MIXER
        chunks[n].begin, chunks[n].end, chunks[n].place = begin, end, begin
        chunks[n].hash, chunks[n].count = number, weight
        n += 1
    return n


class Split(NamedTuple):
    """The unique chunks of a batch: those of table t are from ``first[t]`` to ``first[t + 1]``.

    ``size`` is the batch's in bytes, ``sizes`` are as in `Counts`.
    """

    text: np.ndarray
    chunks: np.ndarray
    first: np.ndarray
    size: int
    sizes: np.ndarray


def _split_batch(batch: Batch | Block, rules: np.ndarray, spaces: bool, lines: bool) -> Split:
    batch, unique = batch.opened(), Table()
    chunks = np.empty(len(batch.text), CHUNK)
    n, sizes = _split(*batch, classes(), rules, spaces, lines, chunks)
    for k in range(0, n, CHUNKS_AT_ONCE):
        unique.add(batch.text, chunks[k : min(k + CHUNKS_AT_ONCE, n)], 0)
    chunks = np.empty(unique.n, CHUNK)
    first = _by_table(unique.chunks, chunks)
    return Split(unique.text[: unique.used].copy(), chunks, first, len(batch.text), sizes)


@compiled
def _by_table(chunks, by_table):
    """Sort chunks by their tables, the highest bits of their hashes; returns where each table's begin."""
    first = np.zeros(TABLES + 2, np.int64)
    for k in range(len(by_table)):
        first[(chunks[k].hash >> HIGHEST) + np.uint64(2)] += 1
    for table in range(TABLES):
        first[table + 1] += first[table]
    for k in range(len(by_table)):
        at = (chunks[k].hash >> HIGHEST) + np.uint64(1)
        by_table[first[at]] = chunks[k]
        first[at] += 1
    return first[: TABLES + 1]


# --- all batches ----------------------------------------------------------------------------------
def _add_all(table: Table, number: int, batches: list[Split], place: int) -> None:
    """Add those chunks of batches to a table that belong into the one with this number."""
    for batch in batches:
        begin, end = batch.first[number : number + 2]
        table.add(batch.text, batch.chunks[begin:end], place)
        place += batch.size


NO_RULES = cuts_of(None)


def count_chunks(
    batches: Iterable[Batch | Block],
    *,
    rules: np.ndarray = NO_RULES,
    spaces: bool = False,
    lines: bool = False,
) -> Counts:
    """Count the chunks of documents; the result does not depend on how these are batched.

    A chunk ends at a single space between two characters that are neither white space nor ``▁``,
    where the ``rules`` say so for the classes of two characters, and with ``lines`` also behind the
    last newline in white space. With ``spaces`` that space is the beginning of the next chunk,
    otherwise it is dropped.

    >>> chunks, counts, sizes = count_chunks([batch_of_lines(b"a cat\\na  cat\\na  cat")])
    >>> chunks.to_pylist(), counts.tolist(), sizes.tolist()
    (['a', 'cat', 'a  cat'], [1, 1, 2], [17, 17, 6, 3])
    """
    batches, tables = iter(batches), [Table() for _ in range(TABLES)]
    groups = iter(lambda: list(islice(batches, THREADS)), [])
    split = partial(_split_batch, rules=rules, spaces=spaces, lines=lines)
    sizes, place, being_split, being_added = np.zeros(4, int), 0, [], []
    with ThreadPoolExecutor(THREADS) as pool:
        for group in chain(groups, [[], []]):  # the next group is read while threads work
            for future in being_added:
                future.result()
            ready = [future.result() for future in being_split]
            being_added = [
                pool.submit(_add_all, table, number, ready, place)
                for number, table in enumerate(tables)
                if any(batch.first[number] < batch.first[number + 1] for batch in ready)
            ]
            being_split = [pool.submit(split, batch) for batch in group]
            sizes += sum((batch.sizes for batch in ready), np.zeros(4, int))
            place += sum(batch.size for batch in ready)
    chunks = np.concatenate([table.chunks[["count", "place"]][: table.n] for table in tables])
    strings, order = pa.concat_arrays([t.strings() for t in tables]), np.argsort(chunks["place"])
    counts, strings = chunks["count"][order], strings.take(pa.array(order))
    del tables, chunks, order
    release_memory(sizes[1])
    return Counts(strings, counts, sizes)


# --- documents in a block of lines ----------------------------------------------------------------
@compiled
def _find_lines(text, begins, ends, classes):
    """Write where the lines begin and end that are not blank, without line ends; returns their number."""
    n = begin = 0
    for i in range(len(text) + 1):
        if i < len(text) and text[i] != 10:
            continue
        end = i - 1 if i > begin and text[i - 1] == 13 else i
        k = begin
        while k < end:
            kind, _, after = _class_at(text, k, classes)
            if kind != SPACE:
                begins[n], ends[n] = begin, end
                n += 1
                break
            k = after
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
    n = _find_lines(text, begins, ends, classes())
    return Batch(text, begins[:n], ends[:n], np.ones(n, np.int64))
