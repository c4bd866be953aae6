"""Data structures of merge learning: words in one flat array, and all pairs of adjacent symbols.

Pairs are in a hash table, each with its count and the places where it occurs.
"""

from collections import namedtuple

import numpy as np

from ..common.compiled import compiled, grown, index_keys, pair_key, slot_of

# All words are in one int32 array. A symbol is an ID >= 0. Each word is preceded by a header of two
# numbers <= BOUNDARY that encode the word's count (its weight), next to the word for the sake of the
# processor's cache; a last header ends the array.
#
# A merged symbol is at the first of the `n` places it covers. The second and the last place
# hold -n, so that the gap can be skipped from either side; those between hold older such numbers.
BOUNDARY = -(2**30)
HEADER = 2
WEIGHT_BITS = 26  # bits of a weight in each of the header's two numbers
WEIGHT_MASK = (1 << WEIGHT_BITS) - 1
# An occurrence is the place of its left symbol in the array: 32 bits as long as these suffice.
MAX_PLACES = 2**28  # symbols of a word
STRIDE_BITS = (
    6  # of 64 places, the first one's word is noted, so that no search for a word is longer
)

PAIR = np.dtype(
    [
        ("key", np.int64),  # left symbol in the upper half, right symbol in the lower
        ("count", np.int64),  # current number of occurrences
        ("tie", np.int64),  # of equal priorities the smaller wins
        ("block", np.int32),  # the newest block of occurrences; -1 for none
        ("rank", np.int32),  # of its base merge, from 1; 0 for none
        ("result", np.int32),  # the symbol that its base merge produces
    ],
    align=True,
)
PAIR = np.dtype((np.record, PAIR))  # so that `row.tie` works in uncompiled code as well
# A block is a slice of the array of occurrences, in ascending order. A pair that is created by
# several merges has several blocks, linked by `previous`. Occurrences can be outdated: another merge
# may have replaced one of the symbols.
BLOCK = np.dtype((np.record, [("begin", np.int64), ("end", np.int64), ("previous", np.int64)]))
SPARE = 4  # capacity of new arrays, in multiples of their size; pages not written take no memory
REFUSED = -(2**62)  # as a count: the pair is never merged

# `table` maps keys to rows; `filled` has the numbers of rows, blocks and occurrences in use; `begins`
# says where the word begins that is at each 64th place.
Pairs = namedtuple("Pairs", "table rows blocks occurrences filled begins")


# --- words ----------------------------------------------------------------------------------------
def text_of(
    symbols: np.ndarray, offsets: np.ndarray, counts: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Write words, given flat with offsets, and their counts into one array with headers, in an order.

    Allocated by numpy, which asks for huge pages; compiled code does not.
    """
    text = np.empty(len(symbols) + HEADER * len(offsets), np.int32)
    _write_words(text, symbols, offsets, counts, order)
    return text


@compiled
def _write_words(text, symbols, offsets, counts, order):
    at = 0
    for w in order:
        text[at] = BOUNDARY - (counts[w] >> WEIGHT_BITS)
        text[at + 1] = BOUNDARY - (counts[w] & WEIGHT_MASK)
        at += HEADER
        for j in range(offsets[w], offsets[w + 1]):
            text[at] = symbols[j]
            at += 1
    text[at : at + HEADER] = BOUNDARY


@compiled(inline="always")
def weight_of(text, begin):
    """The count of the word that starts at `begin`."""
    high, low = BOUNDARY - np.int64(text[begin - 2]), BOUNDARY - np.int64(text[begin - 1])
    return high << WEIGHT_BITS | low


@compiled(inline="always")
def begin_of(text, begins, at):
    """Where the word begins that has a symbol, or a gap, at `at`."""
    begin, recorded = at, at >> STRIDE_BITS << STRIDE_BITS
    while begin > recorded:
        if text[begin - 1] <= BOUNDARY:
            return begin
        begin -= 1
    return np.int64(begins[at >> STRIDE_BITS])


@compiled(inline="always")
def end_of(text, begin):
    """The end of the word that starts at `begin`; valid only before the first merge."""
    end = begin
    while text[end] > BOUNDARY:
        end += 1
    return end


# --- pairs ----------------------------------------------------------------------------------------
@compiled
def _table_for(keys, n, size):
    """A hash table of the first `n` keys, with room for `size`."""
    power = 4096
    while power < 2 * size:
        power *= 2
    return index_keys(keys, n, power)


@compiled
def reserve(pairs, n, n_occurrences):
    """The same pairs, in arrays with room for `n` more rows and blocks and for more occurrences."""
    table, rows, blocks, occurrences, filled, begins = pairs
    if filled[0] + n > len(rows):
        rows = grown(rows, 2 * (filled[0] + n))
    if 2 * (filled[0] + n) > len(table):
        table = _table_for(rows["key"], filled[0], filled[0] + n)
    if filled[1] + n > len(blocks):
        blocks = grown(blocks, 2 * (filled[1] + n))
    if filled[2] + n_occurrences > len(occurrences):
        occurrences = grown(occurrences[: filled[2]], 2 * (filled[2] + n_occurrences))
    return Pairs(table, rows, blocks, occurrences, filled, begins)


@compiled
def row_of(table, rows, filled, key):
    """The row of a pair; a new pair gets the next free row."""
    slot = slot_of(table, rows["key"], key)
    i = np.int64(table[slot])
    if i < 0:
        i = filled[0]
        filled[0] += 1
        table[slot] = i
        init_row(rows, i, key, 0)
    return i


@compiled
def init_row(rows, i, key, count):
    """Initialise a row, except for its tie."""
    rows[i].key, rows[i].count = key, count
    rows[i].block, rows[i].rank, rows[i].result = -1, 0, 0


@compiled
def open_block(rows, blocks, filled, i, size):
    """Give pair `i` a block for `size` occurrences, and return where it begins."""
    b, begin = filled[1], filled[2]
    blocks[b].begin, blocks[b].end, blocks[b].previous = begin, begin + size, rows[i].block
    rows[i].block = b
    filled[1] += 1
    filled[2] += size
    return begin


@compiled
def occurrences_of(pairs, i):
    """All occurrences of pair `i`, ascending."""
    blocks, occurrences = pairs.blocks, pairs.occurrences
    if pairs.rows[i].block < 0:
        return occurrences[:0]
    newest = blocks[pairs.rows[i].block]
    if newest.previous < 0:
        return occurrences[newest.begin : newest.end]
    block, joined = np.int64(pairs.rows[i].block), np.empty(0, occurrences.dtype)
    while block >= 0:
        part = occurrences[blocks[block].begin : blocks[block].end]
        joined = np.concatenate((joined, part))
        block = blocks[block].previous
    return np.sort(joined)


@compiled
def is_candidate(rows, i, min_frequency):
    """Whether a pair is frequent enough to be merged; a base merge applies wherever it occurs."""
    return rows[i].count >= (min_frequency if rows[i].rank == 0 else 1)


# --- the pairs of all words -----------------------------------------------------------------------
@compiled
def _number_pairs(text, begin, table, keys, counts, sizes, places, n):
    """Number pairs in order of first occurrence, from `n` on, and count them.

    `counts` are weighted, `sizes` are not; `places` gets the number of the pair at each place. Stops
    before a word that could fill more than half of the table; returns where it starts, and the
    number of pairs.
    """
    while begin < len(text):
        weight, end = weight_of(text, begin), end_of(text, begin)
        if 2 * (n + end - begin) > len(table):
            break
        for j in range(begin, end - 1):
            key = pair_key(text[j], text[j + 1])
            slot = slot_of(table, keys, key)
            if table[slot] < 0:
                table[slot], keys[n], counts[n], sizes[n] = n, key, 0, 0
                n += 1
            i = table[slot]
            places[j] = i
            counts[i] += weight
            sizes[i] += 1
        begin = end + HEADER
    return begin, n


@compiled
def _init_rows(rows, blocks, filled, keys, counts, sizes):
    """Initialise all rows with a block each; `sizes` then holds where each block begins."""
    for i in range(len(sizes)):
        init_row(rows, i, keys[i], counts[i])
        sizes[i] = open_block(rows, blocks, filled, i, sizes[i])


@compiled
def _write_occurrences(text, places, next_free, occurrences, begins):
    """Write occurrences into the pairs' blocks; `next_free` is where each pair's next one goes."""
    begin = HEADER
    while begin < len(text):
        end = end_of(text, begin)
        for j in range(begin, end - 1):
            i = places[j]
            occurrences[next_free[i]] = j
            next_free[i] += 1
        for k in range(begin + (1 << STRIDE_BITS) - 1 >> STRIDE_BITS, (end - 1 >> STRIDE_BITS) + 1):
            begins[k] = begin
        begin = end + HEADER


def all_pairs(text: np.ndarray) -> Pairs:
    """Collect the pairs of all words, with their counts and occurrences.

    Most arrays are allocated by numpy, in huge pages, which makes random access faster.
    """
    keys, counts, sizes = np.empty((3, len(text)), np.int64)
    places, begin, n = np.empty(len(text), np.int32), HEADER, 0
    while begin < len(text):
        table = _table_for(keys, n, 2 * (n + end_of(text, begin) - begin))
        begin, n = _number_pairs(text, begin, table, keys, counts, sizes, places, n)
    size = min(SPARE * n, len(text))
    rows, blocks, filled = np.empty(size, PAIR), np.empty(size, BLOCK), np.array((n, 0, 0))
    _init_rows(rows, blocks, filled, keys, counts, sizes[:n])
    place = np.int32 if len(text) < 2**31 else np.int64
    occurrences = np.empty(SPARE * filled[2], place)
    begins = np.empty((len(text) >> STRIDE_BITS) + 1, place)
    _write_occurrences(text, places, sizes, occurrences, begins)
    return Pairs(table, rows, blocks, occurrences, filled, begins)
