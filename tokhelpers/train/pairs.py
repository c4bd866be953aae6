"""All pairs of neighbouring symbols: a hash table of them, and the places where each was seen.

Compiled, for `merge_loop`. Numba does not notice when a compiled function of another module changes:
after a change of `slot_of` touch this module, after a change of this one `spelling` and `merge_loop`.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from ..tokenizer.segmentation import index_keys, longer, pair_key, slot_of
from .words import HEADER, PLACE_BITS, end_of, weight_of

PAIR = np.dtype(
    [
        ("tie", np.int64),  # of equal priorities the smaller goes first
        ("block", np.int32),  # its newest block of sightings; -1: none
        ("rank", np.int32),  # of its merge, from 1 on, if that is known; else 0
        ("result", np.int32),  # the symbol that a known merge leads to
    ],
    align=True,
)
PAIR = np.dtype((np.record, PAIR))  # uncompiled, too, a field is read as `row.tie`
# The sightings of a pair are those from `begin` to `end` of all sightings, ascending; it has another
# block, `before`, where it came about in several ways. Some are out of date: another merge took the
# pair away.
BLOCK = np.dtype((np.record, [("begin", np.int64), ("end", np.int64), ("before", np.int64)]))
MORE = 4  # times as much as there is fits into new arrays: what is not written to takes no memory
REFUSED = -(2**62)  # as a count: the pair is never merged

# A pair has a row: its key (the left symbol in the upper half, the right one in the lower) is in
# `keys`, how often it occurs now in `counts`, all else in `rows`. `table` leads from a key to the row;
# `filled`: how many rows, blocks and sightings there are.
Pairs = namedtuple("Pairs", "table keys counts rows blocks sightings filled")


@njit(cache=True)
def no_numbers():
    """An empty list of numbers.

    Where a list is made by a comprehension, numba 0.68 takes some of that function's writing into
    arrays for needless, and leaves it out.
    """
    return [np.int64(0) for _ in range(0)]


@njit(cache=True)
def both_symbols(key):
    return np.int32(key >> 32), np.int32(key & 0xFFFFFFFF)


@njit(cache=True)
def _table_for(keys, n, size):
    """A table over the first `n` of the keys, with room for `size`."""
    power = 4096
    while power < 2 * size:
        power *= 2
    return index_keys(keys, n, power)


@njit(cache=True)
def reserve(pairs, n, seen):
    """The same pairs in arrays into which `n` more pairs and blocks and `seen` sightings fit."""
    table, keys, counts, rows, blocks, sightings, filled = pairs
    if filled[0] + n > len(rows):
        size = 2 * (filled[0] + n)
        keys, counts, rows = longer(keys, size), longer(counts, size), longer(rows, size)
    if 2 * (filled[0] + n) > len(table):
        table = _table_for(keys, filled[0], filled[0] + n)
    if filled[1] + n > len(blocks):
        blocks = longer(blocks, 2 * (filled[1] + n))
    if filled[2] + seen > len(sightings):
        sightings = longer(sightings[: filled[2]], 2 * (filled[2] + seen))
    return Pairs(table, keys, counts, rows, blocks, sightings, filled)


@njit(cache=True)
def row_of(table, keys, counts, rows, filled, key):
    """The row of a pair: the one it has, or a new one."""
    slot = slot_of(table, keys, key)
    i = np.int64(table[slot])
    if i < 0:
        i = filled[0]
        filled[0] += 1
        table[slot] = i
        keys[i, 0], counts[i] = key, 0
        rows[i].block, rows[i].rank, rows[i].result = -1, 0, 0
    return i


@njit(cache=True)
def open_block(pairs, i, seen):
    """Give pair `i` a block for so many sightings, and return where it begins."""
    b, begin = pairs.filled[1], pairs.filled[2]
    pairs.blocks[b].begin, pairs.blocks[b].end = begin, begin + seen
    pairs.blocks[b].before = pairs.rows[i].block
    pairs.rows[i].block = b
    pairs.filled[1] += 1
    pairs.filled[2] += seen
    return begin


@njit(cache=True)
def sightings_of(pairs, i):
    """All sightings of pair `i`, ascending."""
    blocks, sightings = pairs.blocks, pairs.sightings
    newest = blocks[pairs.rows[i].block]
    if newest.before < 0:
        return sightings[newest.begin : newest.end]
    block, found = np.int64(pairs.rows[i].block), np.empty(0, np.int64)
    while block >= 0:
        some = sightings[blocks[block].begin : blocks[block].end]
        found = np.concatenate((found, some))
        block = blocks[block].before
    return np.sort(found)


@njit(cache=True)
def all_pairs(text):
    """The pairs of all words, with their counts and sightings."""
    # 1. Number the pairs as they come, and count them. `places`: the row of the pair at each place.
    table, filled = np.full(4096, -1, np.int32), np.zeros(3, np.int64)
    keys = np.empty((2048, 1), np.int64)
    counts, seen = np.empty(2048, np.int64), np.empty(2048, np.int64)
    places, begin = np.empty(len(text), np.int32), HEADER
    while begin < len(text):
        weight, end = weight_of(text, begin), end_of(text, begin)
        for j in range(begin, end - 1):
            key = pair_key(text[j], text[j + 1])
            slot = slot_of(table, keys, key)
            if table[slot] < 0:
                if filled[0] == len(keys):
                    size = 2 * filled[0]
                    keys, counts, seen = (
                        longer(keys, size),
                        longer(counts, size),
                        longer(seen, size),
                    )
                    table = _table_for(keys, filled[0], size)
                    slot = slot_of(table, keys, key)
                table[slot], keys[filled[0], 0] = filled[0], key
                counts[filled[0]] = seen[filled[0]] = 0
                filled[0] += 1
            i = table[slot]
            places[j] = i
            counts[i] += weight
            seen[i] += 1
        begin = end + HEADER
    # 2. Write the sightings into blocks. `seen` now says where the next one of a pair goes.
    size = MORE * filled[0]
    rows, blocks = np.empty(size, PAIR), np.empty(size, BLOCK)
    sightings = np.empty(MORE * seen[: filled[0]].sum(), np.int64)
    keys, counts = longer(keys[: filled[0]], size), longer(counts[: filled[0]], size)
    pairs = Pairs(table, keys, counts, rows, blocks, sightings, filled)
    for i in range(filled[0]):
        rows[i].block, rows[i].rank, rows[i].result = -1, 0, 0
        seen[i] = open_block(pairs, i, seen[i])
    begin = HEADER
    while begin < len(text):
        end = end_of(text, begin)
        for j in range(begin, end - 1):
            i = places[j]
            sightings[seen[i]] = np.int64(begin) << PLACE_BITS | (j - begin)
            seen[i] += 1
        begin = end + HEADER
    return pairs
