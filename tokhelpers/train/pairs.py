"""All pairs of neighbouring symbols: a hash table of records, and where each pair was seen.

Compiled, for `merge_loop`. Numba does not notice when a compiled function of another module changes:
after a change of `slot_of` touch this module, after a change of this one touch `merge_loop`.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from ..tokenizer.segmentation import index_keys, slot_of

PAIR = np.dtype(
    [
        ("key", np.int64),  # the left symbol in the upper half, the right one in the lower
        ("count", np.int64),  # how often it occurs now; REFUSED: it is never merged
        ("tie", np.int64),  # of equal priorities the smaller goes first
        ("start", np.int64),  # where an occurrence of it begins in the spelling of the words
        ("sighting", np.int64),  # its newest one; -1: none
        ("last_word", np.int32),  # the word of that sighting
        ("length", np.int32),  # the characters of an occurrence
        ("turn", np.int32),  # the merge after which it was last listed for the heap
        ("rank", np.int32),  # of its merge, from 1 on, if that is known; else 0
        ("result", np.int32),  # the symbol that a known merge leads to
    ],
    align=True,
)  # 64 bytes, a cache line
SIGHTING = np.dtype([("word", np.int64), ("before", np.int64)])  # before: the older one, or -1
REFUSED = -(2**62)

# `table` leads from a pair's key to its row; `filled`: how many rows and sightings there are
Pairs = namedtuple("Pairs", "table rows sightings filled")


@njit(cache=True)
def both_symbols(key):
    return np.int32(key >> 32), np.int32(key & 0xFFFFFFFF)


@njit(cache=True)
def keys_of(rows):
    """The keys of all rows, as `slot_of` takes them; a view."""
    return rows["key"][:, np.newaxis]


@njit(cache=True)
def longer(rows, size):
    grown = np.zeros((size, *rows.shape[1:]), rows.dtype)
    grown[: len(rows)] = rows
    return grown


@njit(cache=True)
def fits(rows, sightings, filled, n):
    """Whether `n` more pairs and sightings fit into the arrays."""
    return filled[0] + n <= len(rows) and filled[1] + n <= len(sightings)


@njit(cache=True)
def reserve(pairs, n):
    """The same pairs in arrays into which `n` more pairs and sightings fit."""
    table, rows, sightings, filled = pairs
    if filled[0] + n > len(rows):
        size = 2 * (filled[0] + n)
        rows = longer(rows, size)
        power = len(table)
        while power < 2 * size:
            power *= 2
        table = index_keys(keys_of(rows), filled[0], power)
    if filled[1] + n > len(sightings):
        sightings = longer(sightings, (filled[1] + n) * 3 // 2)
    return Pairs(table, rows, sightings, filled)


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
        rows[i].sighting = rows[i].last_word = -1
    return i


@njit(cache=True)
def see(rows, sightings, filled, i, w, weight):
    """Count pair `i` once in word `w`, and note that it was seen there."""
    rows[i].count += weight
    if rows[i].last_word != w:
        node = filled[1]
        filled[1] += 1
        sightings[node].word, sightings[node].before = w, rows[i].sighting
        rows[i].sighting, rows[i].last_word = node, w
