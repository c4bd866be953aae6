"""Find the repeated substrings of many words, or given ones, and where they occur, with a suffix array.

All suffixes of the words are sorted by their first characters. The occurrences of a substring are
then adjacent, and one pass with a stack visits all substrings in code-point order.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..common.compiled import compiled
from ..tokenizer.token_bytes import code_points


class Text(NamedTuple):
    """Words in one array, with a zero after each: as numbers and as a string."""

    codes: np.ndarray  # int32: characters, numbered from 1 in code-point order
    starts: np.ndarray  # int64: where each word starts, and the end of the text
    string: str

    def read(self, places: np.ndarray, lengths: np.ndarray) -> list[str]:
        """Return the substrings of the given lengths at the given places."""
        ends = (places + lengths).tolist()
        return [self.string[i:end] for i, end in zip(places.tolist(), ends, strict=True)]


class Matches(NamedTuple):
    """The tokens that start at place ``i``: ``tokens[offsets[i]:offsets[i + 1]]``, short to long.

    Tokens are numbered in code-point order; ``lengths`` are in characters.
    """

    offsets: np.ndarray  # int64
    tokens: np.ndarray  # int32
    lengths: np.ndarray  # int32


def write_text(words: Sequence[str]) -> Text:
    """Write words into a ``Text``."""
    raw, offsets = code_points(words)
    is_used = np.zeros(raw.max(initial=0) + 1, bool)
    is_used[raw] = True
    codes, word = np.zeros(len(raw) + len(words), np.int32), np.arange(len(offsets))
    codes[np.arange(len(raw)) + np.repeat(word[:-1], np.diff(offsets))] = np.cumsum(is_used)[raw]
    return Text(codes, offsets + word, "".join(f"{word}\0" for word in words))


@compiled
def _rests(codes, depth):
    """The number of characters from each place to the end of its word, at most `depth`."""
    rest = np.zeros(len(codes), np.int32)
    for i in range(len(codes) - 2, -1, -1):
        if codes[i] > 0:
            rest[i] = min(rest[i + 1] + 1, depth)
    return rest


@compiled
def _sort(codes, rest, places, depth, n_codes):
    """Sort places by the next `depth` characters: a stable radix sort, last character first."""
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
    """The common prefix length of each suffix with its predecessor in the order; a zero at the end."""
    shared = np.zeros(len(order) + 1, np.int32)
    for k in range(1, len(order)):
        i, j = order[k - 1], order[k]
        longest, n = min(rest[i], rest[j]), 0
        while n < longest and codes[i + n] == codes[j + n]:
            n += 1
        shared[k] = n
    return shared


@compiled
def _before(codes, i):
    return codes[i - 1] if i > 0 else 0


@compiled
def _repeats(codes, rest, order, shared, weights, depth):
    """Rows of rank of the first occurrence, length and count: see `find_repeats`."""
    n = len(order)
    total = np.zeros(n + 1, np.int64)  # cumulative weights by rank
    changes = np.zeros(n, np.int64)  # cumulative changes of the preceding character by rank
    for k in range(n):
        total[k + 1] = total[k] + weights[order[k]]
        if k > 0:
            changed = _before(codes, order[k]) != _before(codes, order[k - 1])
            changes[k] = changes[k - 1] + changed
    repeats, n_repeats = np.empty((2 * n, 3), np.int64), 0
    lengths, ranks, top = np.zeros(depth + 1, np.int64), np.zeros(depth + 1, np.int64), 0
    for k in range(1, n + 1):
        i, rank = order[k - 1], k - 1
        unique = rest[i] > max(shared[k - 1], shared[k])  # repeated only if its word is
        if unique and weights[i] > 1 and (rest[i] == depth or _before(codes, i) == 0):
            repeats[n_repeats] = rank, np.int64(rest[i]), weights[i]
            n_repeats += 1
        while lengths[top] > shared[k]:
            rank, length = ranks[top], lengths[top]
            same_before = changes[k - 1] == changes[rank] and _before(codes, order[rank]) > 0
            if not same_before or length == depth:
                repeats[n_repeats] = rank, length, total[k] - total[rank]
                n_repeats += 1
            top -= 1
        if lengths[top] < shared[k]:
            top += 1
            lengths[top], ranks[top] = shared[k], rank
    return repeats[:n_repeats]


@compiled
def _walk(order, shared, ranks, lengths, offsets, tokens):
    """Write the tokens at each place; with `tokens` empty, count them in `offsets[i + 1]`.

    `ranks[t]` is the first rank in the order at which token t occurs.
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
            offsets[i + 1] = top
        else:
            for j in range(top):
                tokens[offsets[i] + j] = stack[j]


def _match(order, shared, ranks, lengths, text_size) -> Matches:
    """The matches of all tokens: first counted, then written."""
    offsets = np.zeros(text_size + 1, np.int64)
    _walk(order, shared, ranks, lengths, offsets, np.zeros(0, np.int32))
    offsets = np.cumsum(offsets)
    tokens = np.zeros(offsets[-1], np.int32)
    _walk(order, shared, ranks, lengths, offsets, tokens)
    return Matches(offsets, tokens, lengths)


def find_repeats(
    text: Text, counts: np.ndarray, max_size: int, max_length: int
) -> tuple[np.ndarray, np.ndarray, Matches]:
    """Find the initial tokens of Unigram: returns a place and the count of each, and the matches.

    These are all characters, and the substrings of 2 to ``max_length`` characters that occur twice
    or more and are not always part of the same longer one; of more than ``max_size``, the best by
    count times length (ties: code points). Source: the intervals of the suffix array (Abouelhoda et
    al., 2004), as in ``sentencepiece``, which counts each word once.
    """
    codes, n_characters = text.codes, int(text.codes.max())
    rest = _rests(codes, max_length)
    places = np.flatnonzero(codes).astype(np.int32)
    order = _sort(codes, rest, places, max_length, n_characters + 1)
    shared = _shared(codes, rest, order)
    weights = np.repeat(counts, np.diff(text.starts))
    repeats = _repeats(codes, rest, order, shared, weights, max_length)
    repeats = repeats[repeats[:, 1] > 1]
    repeats = repeats[np.lexsort((repeats[:, 1], repeats[:, 0]))]  # in code-point order
    best = np.argsort(-repeats[:, 1] * repeats[:, 2], kind="stable")[: max_size - n_characters]
    totals = np.zeros(n_characters + 1, np.int64)
    np.add.at(totals, codes, weights)
    first_ranks = np.searchsorted(codes[order], np.arange(1, n_characters + 1))
    characters = np.stack([first_ranks, np.ones_like(first_ranks), totals[1:]], 1)
    initial = np.concatenate([characters, repeats[best]])
    ranks, lengths, totals = initial[np.lexsort((initial[:, 1], initial[:, 0]))].T
    matches = _match(order, shared, ranks, lengths.astype(np.int32), len(codes))
    return order[ranks], totals, matches


def find_pieces(text: Text, pieces: Iterable[str]) -> tuple[list[str], Matches]:
    """Find where given substrings occur: returns those that do, in code-point order, and the matches."""
    pieces = sorted(set(pieces))
    depth = max(map(len, pieces))
    rest = _rests(text.codes, depth)
    places = np.flatnonzero(text.codes).astype(np.int32)
    order = _sort(text.codes, rest, places, depth, int(text.codes.max()) + 1)
    string, in_order, present, ranks = text.string, order.tolist(), [], []
    for piece in pieces:
        first = ranks[-1] if ranks else 0
        rank = bisect_left(in_order, piece, first, key=lambda i: string[i : i + depth])
        if rank < len(in_order) and string.startswith(piece, in_order[rank]):
            present.append(piece)
            ranks.append(rank)
    lengths = np.array([len(piece) for piece in present], np.int32)
    shared = _shared(text.codes, rest, order)
    return present, _match(order, shared, np.array(ranks, np.int64), lengths, len(text.codes))
