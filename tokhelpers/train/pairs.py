"""What merging works on: the words as they lie in memory, and all pairs of neighbouring symbols.

Of the pairs there is a hash table, and the places where each was seen.
"""

from collections import namedtuple

import numpy as np

from ..tokenizer.compiled import compiled, grown, index_keys, pair_key, slot_of

# All words stand one after the other in one int32 array. A symbol is an id from 0 on. Before each
# word, and behind the last one, stands a header of two numbers at BOUNDARY or below, which hold how
# often the word occurs (its weight): so what is needed of a word lies side by side in memory.
#
# A merged symbol stands at the first of the `n` places that it takes. Its second and its last place
# hold -n, and so lead over the hole from either side; what is between is between BOUNDARY and 0, too.
BOUNDARY = -(2**30)
HEADER = 2
WEIGHT_BITS = 26  # of a weight that one number of the header holds
WEIGHT_MASK = (1 << WEIGHT_BITS) - 1
# A sighting says where a word begins and which place of the word is meant, in one number that sorts
# as they do.
PLACE_BITS = 28
PLACE_MASK = (1 << PLACE_BITS) - 1
MOST_PLACES = PLACE_MASK  # symbols of a word

PAIR = np.dtype(
    [
        ("key", np.int64),  # the left symbol in the upper half, the right one in the lower
        ("count", np.int64),  # how often it occurs now
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

# `table` leads from a key to the pair's row; `filled`: how many rows, blocks and sightings there are.
Pairs = namedtuple("Pairs", "table rows blocks sightings filled")


# --- words --------------------------------------------------------------------------------------
def text_of(symbols: np.ndarray, offsets: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The words as the merge loop takes them, with their headers, in an array of their own.

    numpy makes it, which asks for large pages of memory; compiled code does not.
    """
    text = np.empty(len(symbols) + HEADER * len(offsets), np.int32)
    _write_words(text, symbols, offsets, counts)
    return text


@compiled
def _write_words(text, symbols, offsets, counts):
    at = 0
    for w in range(len(counts)):
        text[at] = BOUNDARY - (counts[w] >> WEIGHT_BITS)
        text[at + 1] = BOUNDARY - (counts[w] & WEIGHT_MASK)
        at += HEADER
        for j in range(offsets[w], offsets[w + 1]):
            text[at] = symbols[j]
            at += 1
    text[at : at + HEADER] = BOUNDARY


@compiled(inline="always")
def weight_of(text, begin):
    """How often the word occurs that begins at `begin`."""
    high, low = BOUNDARY - np.int64(text[begin - 2]), BOUNDARY - np.int64(text[begin - 1])
    return high << WEIGHT_BITS | low


@compiled(inline="always")
def end_of(text, begin):
    """Where the word that begins at `begin` ends, before anything was merged in it."""
    end = begin
    while text[end] > BOUNDARY:
        end += 1
    return end


# --- pairs --------------------------------------------------------------------------------------
@compiled
def _table_for(keys, n, size):
    """A table over the first `n` of the keys, with room for `size`."""
    power = 4096
    while power < 2 * size:
        power *= 2
    return index_keys(keys, n, power)


@compiled
def reserve(pairs, n, seen):
    """The same pairs in arrays into which `n` more pairs and blocks and `seen` sightings fit."""
    table, rows, blocks, sightings, filled = pairs
    if filled[0] + n > len(rows):
        rows = grown(rows, 2 * (filled[0] + n))
    if 2 * (filled[0] + n) > len(table):
        table = _table_for(rows["key"], filled[0], filled[0] + n)
    if filled[1] + n > len(blocks):
        blocks = grown(blocks, 2 * (filled[1] + n))
    if filled[2] + seen > len(sightings):
        sightings = grown(sightings[: filled[2]], 2 * (filled[2] + seen))
    return Pairs(table, rows, blocks, sightings, filled)


@compiled
def row_of(table, rows, filled, key):
    """The row of a pair: the one it has, or a new one."""
    slot = slot_of(table, rows["key"], key)
    i = np.int64(table[slot])
    if i < 0:
        i = filled[0]
        filled[0] += 1
        table[slot] = i
        start_row(rows, i, key, 0)
    return i


@compiled
def start_row(rows, i, key, count):
    """Write what is known of a pair when it is first seen; its tie comes later."""
    rows[i].key, rows[i].count = key, count
    rows[i].block, rows[i].rank, rows[i].result = -1, 0, 0


@compiled
def open_block(rows, blocks, filled, i, seen):
    """Give pair `i` a block for so many sightings, and return where it begins."""
    b, begin = filled[1], filled[2]
    blocks[b].begin, blocks[b].end, blocks[b].before = begin, begin + seen, rows[i].block
    rows[i].block = b
    filled[1] += 1
    filled[2] += seen
    return begin


@compiled
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


@compiled
def _number_pairs(text, begin, table, keys, counts, seen, places, n):
    """Number the pairs as they come, behind the `n` that are known, and count them.

    `places` gets the number of the pair at each place. Stops before a word that might fill more than
    half of the table, and returns where it begins and how many pairs there are.
    """
    while begin < len(text):
        weight, end = weight_of(text, begin), end_of(text, begin)
        if 2 * (n + end - begin) > len(table):
            break
        for j in range(begin, end - 1):
            key = pair_key(text[j], text[j + 1])
            slot = slot_of(table, keys, key)
            if table[slot] < 0:
                table[slot], keys[n], counts[n], seen[n] = n, key, 0, 0
                n += 1
            i = table[slot]
            places[j] = i
            counts[i] += weight
            seen[i] += 1
        begin = end + HEADER
    return begin, n


@compiled
def _start_rows(rows, blocks, filled, keys, counts, seen):
    """Write the rows of the pairs and open a block for what was seen of each.

    `seen` then says where a pair's first sighting goes.
    """
    for i in range(len(seen)):
        start_row(rows, i, keys[i], counts[i])
        seen[i] = open_block(rows, blocks, filled, i, seen[i])


@compiled
def _write_sightings(text, places, following, sightings):
    """Write the sightings into the pairs' blocks. `following`: where the next one of a pair goes."""
    begin = HEADER
    while begin < len(text):
        end = end_of(text, begin)
        for j in range(begin, end - 1):
            i = places[j]
            sightings[following[i]] = np.int64(begin) << PLACE_BITS | (j - begin)
            following[i] += 1
        begin = end + HEADER


def all_pairs(text: np.ndarray) -> Pairs:
    """The pairs of all words, with their counts and sightings.

    numpy makes most arrays, too: in large pages of memory these are reached faster in any order.
    """
    keys, counts, seen = np.empty((3, len(text)), np.int64)
    places, begin, n = np.empty(len(text), np.int32), HEADER, 0
    while begin < len(text):
        table = _table_for(keys, n, 2 * (n + end_of(text, begin) - begin))
        begin, n = _number_pairs(text, begin, table, keys, counts, seen, places, n)
    size = min(MORE * n, len(text))
    rows, blocks, filled = np.empty(size, PAIR), np.empty(size, BLOCK), np.array((n, 0, 0))
    _start_rows(rows, blocks, filled, keys, counts, seen[:n])
    sightings = np.empty(MORE * filled[2], np.int64)
    _write_sightings(text, places, seen, sightings)
    return Pairs(table, rows, blocks, sightings, filled)


@compiled
def is_candidate(rows, i, least):
    """Whether a pair occurs often enough; one whose merge is known is merged wherever it occurs."""
    return rows[i].count >= (least if rows[i].rank == 0 else 1)
