"""Substrings of many words: which of them recur, and where they stand.

All suffixes of the words are sorted by their first characters. The places where a substring
stands are then neighbours, and one walk down the list, with a stack, meets every substring in
code-point order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..tokenizer.compiled import compiled
from ..tokenizer.token_bytes import code_points


class Text(NamedTuple):
    """Words one after the other, with a zero after each: as numbers and as a string."""

    codes: np.ndarray  # int32: characters, numbered from 1 on in code-point order
    starts: np.ndarray  # int64: where each word begins, and one more for the end of the text
    string: str

    def read(self, places: np.ndarray, lengths: np.ndarray) -> list[str]:
        """Read the substrings of the given lengths that begin at the given places."""
        ends = (places + lengths).tolist()
        return [self.string[i:end] for i, end in zip(places.tolist(), ends, strict=True)]


class Matches(NamedTuple):
    """The tokens that begin at place ``i``: ``tokens[first[i]:first[i + 1]]``, short to long.

    Tokens are numbered in code-point order; ``lengths`` holds the characters of each.
    """

    first: np.ndarray  # int64
    tokens: np.ndarray  # int32
    lengths: np.ndarray  # int32


def write_text(words: Sequence[str]) -> Text:
    """Write words one after the other."""
    raw, offsets = code_points(words)
    used = np.zeros(raw.max(initial=0) + 1, bool)
    used[raw] = True
    codes, word = np.zeros(len(raw) + len(words), np.int32), np.arange(len(offsets))
    codes[np.arange(len(raw)) + np.repeat(word[:-1], np.diff(offsets))] = np.cumsum(used)[raw]
    return Text(codes, offsets + word, "".join(f"{word}\0" for word in words))


@compiled
def _rests(codes, depth):
    """How many characters of the word there are from each place on, at most `depth`."""
    rest = np.zeros(len(codes), np.int32)
    for i in range(len(codes) - 2, -1, -1):
        if codes[i] > 0:
            rest[i] = min(rest[i + 1] + 1, depth)
    return rest


@compiled
def _sort(codes, rest, places, depth, n_codes):
    """The places by the characters that stand there, equal ones in the order given.

    Radix sort, the last of `depth` characters first.
    """
    other = np.empty_like(places)
    for d in range(depth - 1, -1, -1):
        slots = np.zeros(n_codes + 2, np.int64)
        for i in places:
            slots[(codes[i + d] if d < rest[i] else 0) + 1] += 1
        slots = np.cumsum(slots)
        for i in places:
            code = codes[i + d] if d < rest[i] else 0
            other[slots[code]] = i
            slots[code] += 1
        places, other = other, places
    return places


@compiled
def _shared(codes, rest, order):
    """How many characters each place in the order shares with the one before; a zero at the end."""
    shared = np.zeros(len(order) + 1, np.int32)
    for k in range(1, len(order)):
        i, j = order[k - 1], order[k]
        most, n = min(rest[i], rest[j]), 0
        while n < most and codes[i + n] == codes[j + n]:
            n += 1
        shared[k] = n
    return shared


@compiled
def _before(codes, i):
    return codes[i - 1] if i > 0 else 0


@compiled
def _repeats(codes, rest, order, shared, weights, depth):
    """Rows of rank of the first place, length and count: see `find_repeats`."""
    n = len(order)
    total = np.zeros(n + 1, np.int64)  # of the weights, up to each rank
    turns = np.zeros(n, np.int64)  # up to each rank, places with another character before them
    for k in range(n):
        total[k + 1] = total[k] + weights[order[k]]
        if k > 0:
            turned = _before(codes, order[k]) != _before(codes, order[k - 1])
            turns[k] = turns[k - 1] + turned
    found, n_found = np.empty((2 * n, 3), np.int64), 0
    lengths, ranks, top = np.zeros(depth + 1, np.int64), np.zeros(depth + 1, np.int64), 0
    for k in range(1, n + 1):
        i, rank = order[k - 1], k - 1
        unique = rest[i] > max(shared[k - 1], shared[k])  # it recurs only as its word does
        if unique and weights[i] > 1 and (rest[i] == depth or _before(codes, i) == 0):
            found[n_found] = rank, np.int64(rest[i]), weights[i]
            n_found += 1
        while lengths[top] > shared[k]:
            rank, length = ranks[top], lengths[top]
            follows_one = turns[k - 1] == turns[rank] and _before(codes, order[rank]) > 0
            if not follows_one or length == depth:
                found[n_found] = rank, length, total[k] - total[rank]
                n_found += 1
            top -= 1
        if lengths[top] < shared[k]:
            top += 1
            lengths[top], ranks[top] = shared[k], rank
    return found[:n_found]


@compiled
def _walk(order, shared, ranks, lengths, first, tokens):
    """Write down the tokens at each place; if `tokens` is empty, count them in `first[i + 1]`.

    Token t stands at rank `ranks[t]` of the order, and at none above.
    """
    stack, top, t = np.zeros(lengths.max() + 1, np.int32), 0, 0
    for k in range(len(order)):
        while top > 0 and lengths[stack[top - 1]] > shared[k]:
            top -= 1
        while t < len(ranks) and ranks[t] == k:
            stack[top] = t
            top += 1
            t += 1
        i = order[k]
        if len(tokens) == 0:
            first[i + 1] = top
        else:
            for j in range(top):
                tokens[first[i] + j] = stack[j]


def _match(order, shared, ranks, lengths, text_size) -> Matches:
    first, tokens = np.zeros(text_size + 1, np.int64), np.zeros(0, np.int32)
    _walk(order, shared, ranks, lengths, first, tokens)
    first = np.cumsum(first)
    tokens = np.zeros(first[-1], np.int32)
    _walk(order, shared, ranks, lengths, first, tokens)
    return Matches(first, tokens, lengths)


def find_repeats(
    text: Text, counts: np.ndarray, most: int, max_length: int
) -> tuple[np.ndarray, np.ndarray, Matches]:
    """Find what Unigram starts from: a place of each repeated substring, its count, and the matches.

    Found are all characters, and of the longer substrings up to ``max_length`` characters those
    that occur twice or more and do not always stand inside the same longer one; when they are more
    than ``most``, the best by count times length (ties: code points). Source: the intervals of the
    suffix array (Abouelhoda et al., 2004), as in ``sentencepiece``, which counts words once.
    """
    codes, n_characters = text.codes, int(text.codes.max())
    rest = _rests(codes, max_length)
    places = np.flatnonzero(codes).astype(np.int32)
    order = _sort(codes, rest, places, max_length, n_characters + 1)
    shared = _shared(codes, rest, order)
    weights = np.repeat(counts, np.diff(text.starts))
    found = _repeats(codes, rest, order, shared, weights, max_length)
    found = found[found[:, 1] > 1]
    found = found[np.lexsort((found[:, 1], found[:, 0]))]  # in code-point order
    best = np.argsort(-found[:, 1] * found[:, 2], kind="stable")[: most - n_characters]
    totals = np.zeros(n_characters + 1, np.int64)
    np.add.at(totals, codes, weights)
    heads = np.searchsorted(codes[order], np.arange(1, n_characters + 1))
    characters = np.stack([heads, np.ones_like(heads), totals[1:]], 1)
    found = np.concatenate([characters, found[best]])
    ranks, lengths, totals = found[np.lexsort((found[:, 1], found[:, 0]))].T
    matches = _match(order, shared, ranks, lengths.astype(np.int32), len(codes))
    return order[ranks], totals, matches
