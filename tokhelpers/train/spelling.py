"""How tokens are spelled, where ties go by it: the shorter first, then in order of code points."""

import heapq
from collections import namedtuple

import numpy as np

from ..tokenizer.compiled import both_symbols, compiled, grown, no_numbers

LENGTH_BITS = 18  # of a tie; the characters have the other 44 bits

# The characters of each symbol as ranks in code-point order, from 1 on: `lengths` of them from
# `starts` on. `filled`: how many ranks there are; `bits`: what a rank takes.
Spelling = namedtuple("Spelling", "ranks starts lengths filled bits")


def spelling_of(symbols: np.ndarray) -> Spelling:
    """The spelling of symbols that are single characters, numbered in the order of their code points."""
    there = np.bincount(symbols) > 0
    ranks = np.cumsum(there).astype(np.int32)
    bits = max(1, int(ranks.max(initial=0)).bit_length())
    filled = np.array([len(ranks)])
    return Spelling(ranks, np.arange(len(ranks)), there.astype(np.int64), filled, bits)


@compiled
def spell(spelling, key, new):
    """The spelling with that of a merged symbol behind it."""
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
    """The length and the first characters of a pair's token, as a number that sorts as they do."""
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
    """The rank of a token's character `j`; the token is made of two symbols."""
    behind = j - spelling.lengths[left]
    at = spelling.starts[left] + j if behind < 0 else spelling.starts[right] + behind
    return spelling.ranks[at]


@compiled
def first_spelled(heap, rows, spelling, i, priority, limit):
    """Of the pairs that tie with `i` so far, the one spelled first; the others go back."""
    tie, passed = rows[i].tie, no_numbers()
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
        passed.append(k)
    for k in passed:
        heapq.heappush(heap, (priority, tie, k))
    return i
