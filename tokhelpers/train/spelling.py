"""Break ties by spelling, as SentencePiece does: the shorter token, then code points."""

import heapq
from collections import namedtuple

import numpy as np

from ..tokenizer.compiled import both_symbols, compiled, grown, no_numbers

LENGTH_BITS = 18  # bits of a tie for the token's length; its first characters share the other 44

# Each symbol's characters, as ranks (from 1) in code-point order: `lengths` of them from `starts`
# on. `filled` is the number of ranks in use, `bits` the width of a rank.
Spelling = namedtuple("Spelling", "ranks starts lengths filled bits")


def spelling_of(symbols: np.ndarray) -> Spelling:
    """Spell symbols that are single characters, numbered in code-point order."""
    is_used = np.bincount(symbols) > 0
    ranks = np.cumsum(is_used).astype(np.int32)
    bits = max(1, int(ranks.max(initial=0)).bit_length())
    filled = np.array([len(ranks)])
    return Spelling(ranks, np.arange(len(ranks)), is_used.astype(np.int64), filled, bits)


@compiled
def spell(spelling, key, new):
    """Append the spelling of symbol `new`, the merged pair."""
    ranks, starts, lengths, filled, bits = spelling
    if new >= len(starts):
        starts, lengths = grown(starts, 2 * new), grown(lengths, 2 * new)
    left, right = both_symbols(key)
    starts[new], lengths[new] = filled[0], lengths[left] + lengths[right]
    if filled[0] + lengths[new] > len(ranks):
        ranks = grown(ranks, 2 * (filled[0] + lengths[new]))
    for part in (left, right):
        for j in range(starts[part], starts[part] + lengths[part]):
            ranks[filled[0]] = ranks[j]
            filled[0] += 1
    return Spelling(ranks, starts, lengths, filled, bits)


@compiled
def spelling_order(spelling, key):
    """A number that sorts by the length of a pair's merged token, then by its first characters."""
    left, right = both_symbols(key)
    length = spelling.lengths[left] + spelling.lengths[right]
    order, free = np.int64(min(length, 2**LENGTH_BITS)), 62 - LENGTH_BITS
    for j in range(length):
        if free < spelling.bits:
            break
        order = order << spelling.bits | _character(spelling, left, right, j)
        free -= spelling.bits
    return order << free


@compiled
def _character(spelling, left, right, j):
    """The rank of character `j` of a token made of two symbols."""
    j_right = j - spelling.lengths[left]
    at = spelling.starts[left] + j if j_right < 0 else spelling.starts[right] + j_right
    return spelling.ranks[at]


@compiled
def first_spelled(heap, rows, spelling, i, priority, limit):
    """Return the first in spelling of pair `i` and the pairs tied with it; push back the others.

    Ties are numbers that hold only the first characters of a token; this compares all of them.
    """
    tie, others = rows[i].tie, no_numbers()
    while len(heap) > 0 and heap[0][0] == priority and heap[0][1] == tie:
        k = heapq.heappop(heap)[2]
        if k == i or np.float64(-rows[k].count) != priority:
            if k != i and rows[k].count >= limit:
                heapq.heappush(heap, (np.float64(-rows[k].count), tie, k))
            continue
        (a, b), (c, d) = both_symbols(rows[k].key), both_symbols(rows[i].key)
        for j in range(tie >> 62 - LENGTH_BITS):
            difference = _character(spelling, a, b, j) - _character(spelling, c, d, j)
            if difference != 0:
                if difference < 0:
                    i, k = k, i
                break
        others.append(k)
    for k in others:
        heapq.heappush(heap, (priority, tie, k))
    return i
