"""The Unigram learner: EM for the probabilities, then the tokens that cost least are pruned.

It gives what `textbook.train_unigram` gives, compiled. Where the tokens occur in the unique words
(the matches) is found once; each round goes through the matches, and pruning removes some.
"""

import math
from collections.abc import Sequence

import numpy as np

from ..tokenizer.compiled import compiled
from .substrings import Matches, find_repeats, write_text

FAINT = 1e-9  # differences below it are those of rounding
ROUNDS = 2  # of EM between two prunings, as in sentencepiece
SEED_SIZE = 1_000_000  # tokens to begin with, at most


@compiled
def _share(matches, log_p, begin, n, rest, share):
    """From right to left: the log-probability of each rest of a word, over all its segmentations,
    and the share of each token that may come first in it."""
    first, tokens, lengths = matches
    e0 = first[begin]
    rest[n] = 0.0
    for j in range(n - 1, -1, -1):
        a, b = first[begin + j], first[begin + j + 1]
        top, total = -np.inf, 0.0
        for e in range(a, b):
            t = tokens[e]
            share[e - e0] = log_p[t] + rest[j + lengths[t]]
            top = max(top, share[e - e0])
        for e in range(a, b):
            x = share[e - e0] - top
            share[e - e0] = math.exp(x) if x < 0 else 1.0
            total += share[e - e0]
        for e in range(a, b):
            share[e - e0] /= total
        rest[j] = top + math.log(total)


@compiled
def _expect(matches, p, starts, counts):
    """How often each token is expected, over all segmentations of the words."""
    first, tokens, lengths = matches
    # compiled, as everything here: numpy's own logarithm differs in the last digit between machines
    log_p, expected = np.log(p), np.zeros(len(lengths))
    longest, share = np.diff(starts).max(), np.zeros(np.diff(first[starts]).max())
    rest, reached = np.zeros(longest), np.zeros(longest)
    for w in range(len(counts)):
        begin, n = starts[w], starts[w + 1] - starts[w] - 1
        _share(matches, log_p, begin, n, rest, share)
        reached[:n] = 0.0
        reached[0] = counts[w]  # how often a token begins there; the tokens share it
        e0 = first[begin]
        for j in range(n):
            for e in range(first[begin + j], first[begin + j + 1]):
                x = reached[j] * share[e - e0]
                expected[tokens[e]] += x
                reached[j + lengths[tokens[e]]] += x
    return expected


@compiled
def _segment(matches, log_p, begin, n, rest, chosen):
    """Viterbi from right to left: the score of each rest of a word, and its first token."""
    first, tokens, lengths = matches
    rest[n] = 0.0
    for j in range(n - 1, -1, -1):
        rest[j] = -np.inf
        for e in range(first[begin + j], first[begin + j + 1]):
            t = tokens[e]
            x = log_p[t] + rest[j + lengths[t]]
            if x > rest[j]:
                rest[j], chosen[j] = x, t


@compiled
def _fall_without(matches, log_p, begin, n, t, depth, rest, other, place, left):
    """By how much the best score of a word falls without token `t`.

    From right to left, from one place where the token is the best beginning to the next: `place`
    is the first of them and `left[place]` the next. Once the fall is the same at `depth` places
    in a row, it stays so as far as the next of them.
    """
    first, tokens, lengths = matches
    fall = 0.0
    while place >= 0:
        for j in range(place + 1, min(place + depth, n) + 1):
            other[j] = rest[j] - fall
        j, same = place, 0
        while j >= 0 and same < depth:
            other[j] = -np.inf
            for e in range(first[begin + j], first[begin + j + 1]):
                u = tokens[e]
                if u != t:
                    other[j] = max(other[j], log_p[u] + other[j + lengths[u]])
            same = same + 1 if abs(rest[j] - other[j] - fall) < FAINT else 0
            fall = rest[j] - other[j]
            j -= 1
        while place > j:
            place = left[place]
    return fall


@compiled
def _losses(matches, p, starts, counts, fixed):
    """The loss of each token: what the best segmentations of all words lose without it.

    Only words whose best segmentation has the token lose by it; `fixed` tokens are not asked.
    """
    first, _, lengths = matches
    log_p, losses, depth = np.log(p), np.zeros(len(lengths)), lengths.max()
    longest = np.diff(starts).max()
    rest, other = np.zeros(longest), np.zeros(longest)
    chosen, left = np.zeros(longest, np.int32), np.zeros(longest, np.int32)
    last = np.full(len(lengths), -1, np.int32)
    for w in range(len(counts)):
        begin, n = starts[w], starts[w + 1] - starts[w] - 1
        _segment(matches, log_p, begin, n, rest, chosen)
        for j in range(n):  # links the places where a token is the best beginning
            left[j] = last[chosen[j]]
            last[chosen[j]] = j
        j = 0
        while j < n:
            t = chosen[j]
            if not fixed[t] and last[t] >= 0:
                losses[t] += counts[w] * _fall_without(
                    matches, log_p, begin, n, t, depth, rest, other, last[t], left
                )
                last[t] = -1  # asked
            j += lengths[t]
        for j in range(n):
            last[chosen[j]] = -1
    return losses


@compiled
def _renumber(first, tokens, new):
    """Gives the tokens new numbers, in place; matches of tokens with a number below 0 go."""
    n = 0
    for i in range(len(first) - 1):
        a, b = first[i], first[i + 1]
        first[i] = n
        for e in range(a, b):
            if new[tokens[e]] >= 0:
                tokens[n] = new[tokens[e]]
                n += 1
    first[-1] = n


def _only(matches: Matches, kept: np.ndarray) -> Matches:
    """The matches of the kept tokens; the old ones are used up."""
    new = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    _renumber(matches.first, matches.tokens, new)
    return Matches(matches.first, matches.tokens[: matches.first[-1]], matches.lengths[kept])


def learn_unigram(
    words: Sequence[str],
    counts: np.ndarray,
    size: int,
    *,
    max_token_length: int = 16,
    shrinking: float = 0.75,
) -> dict[str, float]:
    """Learn ``size`` Unigram tokens from unique words and how often each occurs.

    It begins with the substrings of at most ``max_token_length`` characters that recur, the million
    best by count times length. Then two rounds of EM over all segmentations alternate with pruning,
    which keeps the share ``shrinking`` of the tokens of several characters. Returns token ->
    natural log probability, the most probable first (ties, to ten digits: code points); fewer than
    ``size`` when the words have fewer, or when the expected count of some is 0. Memory: about 65
    bytes per character of the unique words. Source: Kudo 2018, section 3.2; the lecture;
    `textbook.train_unigram`.
    """
    order = sorted(range(len(words)), key=words.__getitem__)  # theirs must not decide
    text, counts = write_text([words[i] for i in order]), counts[order]
    places, weights, matches = find_repeats(text, counts, SEED_SIZE, max_token_length)
    p = weights / math.fsum(weights)
    fixed = matches.lengths == 1
    while True:
        for _ in range(ROUNDS):
            expected = _expect(matches, p, text.starts, counts)
            expected[fixed] = np.maximum(expected[fixed], 1)
            p = expected / math.fsum(expected)
        free = np.flatnonzero(~fixed)[::-1]  # of equals, the last in code-point order goes first
        if len(p) <= size or len(free) == 0:
            break
        losses = _losses(matches, p, text.starts, counts, fixed)
        order = free[np.argsort(np.round(losses[free], 9), kind="stable")]
        drop = max(1, int((1 - shrinking) * len(free)))
        kept = np.ones(len(p), bool)
        kept[order[: min(drop, len(p) - size)]] = False
        p, places, fixed = p[kept], places[kept], fixed[kept]
        matches = _only(matches, kept)
    learned = zip(text.read(places, matches.lengths), p.tolist(), strict=True)
    learned = sorted(learned, key=lambda item: (-float(f"{item[1]:.9e}"), item[0]))
    return {token: math.log(p) for token, p in learned if p > 0}
