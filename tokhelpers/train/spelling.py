"""Break ties by spelling: by the merged token, as SentencePiece does, or by the pair, as parity-aware BPE."""

import heapq
from collections import namedtuple

import numpy as np

from ..common.compiled import both_symbols, compiled, grown, no_numbers
from ..tokenizer.token_bytes import code_points

LENGTH_BITS = 18  # bits of a tie for the token's length; its first characters share the other 44

# Each symbol's characters, as ranks (from 1) in code-point order: `lengths` of them from `starts`
# on. `filled` is the number of ranks in use, `bits` the width of a rank. Of tied pairs comes first the
# one whose token is shorter, then the first in code-point order; with `by_pair`, the last of the pairs,
# left symbol before right one, in code-point order.
Spelling = namedtuple("Spelling", "ranks starts lengths filled bits by_pair")


def spelling_of(symbols: np.ndarray) -> Spelling:
    """Spell symbols that are single characters, numbered in code-point order."""
    is_used = np.bincount(symbols) > 0
    ranks = np.cumsum(is_used).astype(np.int32)
    bits = max(1, int(ranks.max(initial=0)).bit_length())
    filled = np.array([len(ranks)])
    return Spelling(ranks, np.arange(len(ranks)), is_used.astype(np.int64), filled, bits, False)


def pair_spelling(vocab: dict[str, int]) -> Spelling:
    """Spell the tokens of a vocabulary, for ties by pair."""
    names = [""] * (1 + max(vocab.values(), default=0))
    for token, i in vocab.items():
        names[i] = token
    codes, offsets = code_points(names)
    is_used = np.zeros(1 + codes.max(initial=0), bool)
    is_used[codes] = True
    ranks = np.cumsum(is_used)[codes].astype(np.int32)
    bits, filled = max(1, int(is_used.sum()).bit_length()), np.array([len(ranks)])
    return Spelling(ranks, offsets[:-1].copy(), np.diff(offsets), filled, bits, True)


@compiled
def spell(spelling, key, new):
    """Append the spelling of symbol `new`, the merged pair."""
    ranks, starts, lengths, filled, bits, by_pair = spelling
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
    return Spelling(ranks, starts, lengths, filled, bits, by_pair)


@compiled
def spelling_order(spelling, key):
    """A number that sorts pairs by spelling, as far as its bits reach."""
    left, right = both_symbols(key)
    if spelling.by_pair:
        return _pair_order(spelling, left, right)
    length = spelling.lengths[left] + spelling.lengths[right]
    order, free = np.int64(min(length, 2**LENGTH_BITS)), 62 - LENGTH_BITS
    for j in range(length):
        if free < spelling.bits:
            break
        order = order << spelling.bits | _character(spelling, left, right, j)
        free -= spelling.bits
    return order << free


@compiled
def _pair_order(spelling, left, right):
    """A number that falls with a pair's characters: those of the left symbol, a zero, the right's."""
    order, free, end = np.int64(0), 62, spelling.lengths[left]
    for j in range(end + 1 + spelling.lengths[right]):
        if free < spelling.bits:
            break
        rank = np.int64(0)
        if j != end:
            rank = np.int64(_character(spelling, left, right, j if j < end else j - 1))
        order = order << spelling.bits | rank
        free -= spelling.bits
    return (np.int64(1) << 62) - 1 - (order << free)


@compiled
def _character(spelling, left, right, j):
    """The rank of character `j` of a token made of two symbols."""
    j_right = j - spelling.lengths[left]
    at = spelling.starts[left] + j if j_right < 0 else spelling.starts[right] + j_right
    return spelling.ranks[at]


@compiled
def _symbol_order(spelling, a, b):
    """Compare two symbols in code-point order: negative if `a` comes first, 0 if they are spelled alike."""
    n, m = spelling.lengths[a], spelling.lengths[b]
    for j in range(min(n, m)):
        difference = _character(spelling, a, a, j) - _character(spelling, b, b, j)
        if difference != 0:
            return np.int64(difference)
    return np.int64(n - m)


@compiled
def _precedes(spelling, first, second):
    """Whether the first pair comes before the second, both with the same number as their order."""
    (a, b), (c, d) = both_symbols(first), both_symbols(second)
    if spelling.by_pair:
        difference = _symbol_order(spelling, a, c)
        return (difference if difference != 0 else _symbol_order(spelling, b, d)) > 0
    for j in range(spelling.lengths[a] + spelling.lengths[b]):
        difference = _character(spelling, a, b, j) - _character(spelling, c, d, j)
        if difference != 0:
            return difference < 0
    return False


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
        if _precedes(spelling, rows[k].key, rows[i].key):
            i, k = k, i
        others.append(k)
    for k in others:
        heapq.heappush(heap, (priority, tie, k))
    return i
