"""All pairs of neighbouring symbols: a hash table of records, and the places where each was seen.

Compiled, for `merge_loop`. Numba does not notice when a compiled function of another module changes:
after a change of `slot_of` touch this module, after a change of this one `spelling` and `merge_loop`.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from ..tokenizer.segmentation import index_keys, longer, pair_key, slot_of

PAIR = np.dtype(
    [
        ("key", np.int64),  # the left symbol in the upper half, the right one in the lower
        ("count", np.int64),  # how often it occurs now; REFUSED: it is never merged
        ("tie", np.int64),  # of equal priorities the smaller goes first
        (
            "seen",
            np.int64,
        ),  # at first: how many sightings it has, then where the next one is written
        ("block", np.int32),  # its newest block of sightings; -1: none
        ("rank", np.int32),  # of its merge, from 1 on, if that is known; else 0
        ("result", np.int32),  # the symbol that a known merge leads to
    ],
    align=True,
)
# A sighting is a word and a place in it, as one number that sorts as they do. A pair's are those from
# `begin` to `end` of all sightings, ascending; it has another block, `before`, where it came about
# in several ways. Some are out of date: another merge took the pair away.
BLOCK = np.dtype([("begin", np.int64), ("end", np.int64), ("before", np.int64)])
REFUSED = -(2**62)

# `table` leads from a pair's key to its row; `filled`: how many rows, blocks and sightings there are
Pairs = namedtuple("Pairs", "table rows blocks sightings filled")


@njit(cache=True)
def both_symbols(key):
    return np.int32(key >> 32), np.int32(key & 0xFFFFFFFF)


@njit(cache=True)
def keys_of(rows):
    """The keys of all rows, as `slot_of` takes them; a view."""
    return rows["key"][:, np.newaxis]


@njit(cache=True)
def no_pairs():
    rows, blocks = np.zeros(1024, PAIR), np.zeros(1024, BLOCK)
    table, filled = np.full(4096, -1, np.int32), np.zeros(3, np.int64)
    return Pairs(table, rows, blocks, np.zeros(1024, np.int64), filled)


@njit(cache=True)
def reserve(pairs, n, seen):
    """The same pairs in arrays into which `n` more pairs and blocks and `seen` sightings fit."""
    table, rows, blocks, sightings, filled = pairs
    if filled[0] + n > len(rows):
        size = (filled[0] + n) * 3 // 2
        rows = longer(rows, size)
        power = len(table)
        while power < 2 * size:
            power *= 2
        table = index_keys(keys_of(rows), filled[0], power)
    if filled[1] + n > len(blocks):
        blocks = longer(blocks, (filled[1] + n) * 3 // 2)
    if filled[2] + seen > len(sightings):
        grown = np.empty(2 * (filled[2] + seen), np.int64)
        grown[: filled[2]] = sightings[: filled[2]]
        sightings = grown
    return Pairs(table, rows, blocks, sightings, filled)


@njit(cache=True)
def row_of(table, keys, rows, filled, key):
    """The row of a pair: the one it has, or a new one. `keys` are the `keys_of` the rows."""
    slot = slot_of(table, keys, key)
    i = np.int64(table[slot])
    if i < 0:
        i = filled[0]
        filled[0] += 1
        table[slot] = i
        rows[i].key = key
        rows[i].block = -1
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
    _, rows, blocks, sightings, _ = pairs
    newest = blocks[rows[i].block]
    if newest.before < 0:
        return sightings[newest.begin : newest.end]
    block, found = np.int64(rows[i].block), np.empty(0, np.int64)
    while block >= 0:
        some = sightings[blocks[block].begin : blocks[block].end]
        found = np.concatenate((found, some))
        block = blocks[block].before
    return np.sort(found)


@njit(cache=True)
def all_pairs(symbols, records):
    """The pairs of all words, with their counts and sightings."""
    # 1. Count each pair. `places`: the row of the pair at each symbol.
    pairs = no_pairs()
    table, rows, _, _, filled = pairs
    keys = keys_of(rows)
    places = np.empty(len(symbols), np.int32)
    for w in range(len(records)):
        begin, end, weight = records[w].begin, records[w].end, records[w].weight
        if filled[0] + end - begin > len(rows):
            pairs = reserve(pairs, end - begin, 0)
            table, rows, _, _, filled = pairs
            keys = keys_of(rows)
        for j in range(begin, end - 1):
            i = row_of(table, keys, rows, filled, pair_key(symbols[j], symbols[j + 1]))
            places[j] = i
            rows[i].count += weight
            rows[i].seen += 1
    # 2. Write the sightings into blocks.
    blocks = np.zeros(len(rows), BLOCK)
    pairs = Pairs(table, rows, blocks, pairs.sightings, filled)
    for i in range(filled[0]):
        rows[i].seen = open_block(pairs, i, rows[i].seen)
    sightings = np.empty(2 * filled[2], np.int64)  # what is not written to takes no memory
    for w in range(len(records)):
        for j in range(records[w].begin, records[w].end - 1):
            i = places[j]
            sightings[rows[i].seen] = np.int64(w) << 32 | (j - records[w].begin)
            rows[i].seen += 1
    return Pairs(table, rows, blocks, sightings, filled)
