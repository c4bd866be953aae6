"""Learn a Unigram vocabulary: EM for the probabilities, alternating with pruning.

The result is that of `textbook.train_unigram`, in compiled code. The occurrences of tokens in the
unique words (the matches) are found once; each round visits them, and pruning removes some.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from ..common.compiled import compiled
from .substrings import Matches, find_pieces, find_repeats, write_text

EPSILON = 1e-9  # smaller differences are rounding errors
ROUNDS = 2  # of EM before each pruning, as in sentencepiece
SEED_SIZE = 1_000_000  # maximum number of initial tokens


@compiled
def _backward(matches, log_p, begin, n, rest, share):
    """Backward pass over a word of `n` characters, from right to left.

    `rest[j]` becomes the log-probability of the word from character j on, over all segmentations;
    `share` becomes the probability of each match to be the next token where it starts.
    """
    offsets, tokens, lengths = matches
    e0 = offsets[begin]
    rest[n] = 0.0
    for j in range(n - 1, -1, -1):
        a, b = offsets[begin + j], offsets[begin + j + 1]
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
    """The E-step: the expected count of each token over all segmentations of the words."""
    offsets, tokens, lengths = matches
    # in compiled code, as numpy's logarithm differs between machines in the last digit
    log_p, expected = np.log(p), np.zeros(len(lengths))
    longest, share = np.diff(starts).max(), np.zeros(np.diff(offsets[starts]).max())
    rest, reached = np.zeros(longest), np.zeros(longest)
    for w in range(len(counts)):
        begin, n = starts[w], starts[w + 1] - starts[w] - 1
        _backward(matches, log_p, begin, n, rest, share)
        reached[:n] = 0.0
        reached[0] = counts[w]  # the expected number of tokens that start at each character
        e0 = offsets[begin]
        for j in range(n):
            for e in range(offsets[begin + j], offsets[begin + j + 1]):
                x = reached[j] * share[e - e0]
                expected[tokens[e]] += x
                reached[j + lengths[tokens[e]]] += x
    return expected


@compiled
def _segment(matches, log_p, begin, n, rest, chosen):
    """Viterbi from right to left: from each character on, the best score and its first token."""
    offsets, tokens, lengths = matches
    rest[n] = 0.0
    for j in range(n - 1, -1, -1):
        rest[j] = -np.inf
        for e in range(offsets[begin + j], offsets[begin + j + 1]):
            t = tokens[e]
            x = log_p[t] + rest[j + lengths[t]]
            if x > rest[j]:
                rest[j], chosen[j] = x, t


@compiled
def _loss_without(matches, log_p, begin, n, t, depth, rest, other, place, previous):
    """The decrease of a word's best score when token `t` is removed.

    Visits the places where the best segmentation from there on starts with `t`, from right to left:
    `place` and then `previous[place]`. Between two of them the loss is constant once it has been the
    same at `depth` places (the longest token's length) in a row.
    """
    offsets, tokens, lengths = matches
    loss = 0.0
    while place >= 0:
        for j in range(place + 1, min(place + depth, n) + 1):
            other[j] = rest[j] - loss
        j, same = place, 0
        while j >= 0 and same < depth:
            other[j] = -np.inf
            for e in range(offsets[begin + j], offsets[begin + j + 1]):
                u = tokens[e]
                if u != t:
                    other[j] = max(other[j], log_p[u] + other[j + lengths[u]])
            same = same + 1 if abs(rest[j] - other[j] - loss) < EPSILON else 0
            loss = rest[j] - other[j]
            j -= 1
        while place > j:
            place = previous[place]
    return loss


@compiled
def _losses(matches, p, starts, counts, fixed):
    """The likelihood loss of each token: how much the words' best scores decrease without it.

    Only words whose best segmentation contains the token are affected; `fixed` tokens have no loss.
    """
    lengths = matches.lengths
    log_p, losses, depth = np.log(p), np.zeros(len(lengths)), lengths.max()
    longest = np.diff(starts).max()
    rest, other = np.zeros(longest), np.zeros(longest)
    chosen, previous = np.zeros(longest, np.int32), np.zeros(longest, np.int32)
    last = np.full(len(lengths), -1, np.int32)
    for w in range(len(counts)):
        begin, n = starts[w], starts[w + 1] - starts[w] - 1
        _segment(matches, log_p, begin, n, rest, chosen)
        for j in range(n):  # link the places where the same token is the best first one
            previous[j] = last[chosen[j]]
            last[chosen[j]] = j
        j = 0
        while j < n:
            t = chosen[j]
            if not fixed[t] and last[t] >= 0:
                losses[t] += counts[w] * _loss_without(
                    matches, log_p, begin, n, t, depth, rest, other, last[t], previous
                )
                last[t] = -1  # done
            j += lengths[t]
        for j in range(n):
            last[chosen[j]] = -1
    return losses


@compiled
def _renumber(offsets, tokens, new_id):
    """Give tokens new IDs, in place; matches of tokens with a negative ID are removed."""
    n = 0
    for i in range(len(offsets) - 1):
        a, b = offsets[i], offsets[i + 1]
        offsets[i] = n
        for e in range(a, b):
            if new_id[tokens[e]] >= 0:
                tokens[n] = new_id[tokens[e]]
                n += 1
    offsets[-1] = n


def _select(matches: Matches, keep: np.ndarray) -> Matches:
    """The matches of the tokens to keep; overwrites the old ones."""
    new_id = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
    _renumber(matches.offsets, matches.tokens, new_id)
    return Matches(matches.offsets, matches.tokens[: matches.offsets[-1]], matches.lengths[keep])


def learn_unigram(
    words: Sequence[str],
    counts: np.ndarray,
    size: int,
    *,
    max_token_length: int = 16,
    shrinking: float = 0.75,
) -> dict[str, float]:
    """Learn ``size`` Unigram tokens from unique words and their counts.

    Starts from the repeated substrings of at most ``max_token_length`` characters, the best million
    by count times length. Two rounds of EM over all segmentations alternate with pruning, which
    keeps a share of ``shrinking`` of the tokens longer than a character. Returns token -> natural log
    probability in descending order (ties, to ten digits: code points); fewer than ``size`` if the
    words have fewer, or if some expected counts are 0. Memory: about 65 bytes per character of the
    unique words. Source: Kudo 2018, section 3.2; the lecture; `textbook.train_unigram`.
    """
    order = sorted(range(len(words)), key=words.__getitem__)  # the result must not depend on it
    text, counts = write_text([words[i] for i in order]), counts[order]
    places, weights, matches = find_repeats(text, counts, SEED_SIZE, max_token_length)
    p = weights / math.fsum(weights)
    fixed = matches.lengths == 1
    while True:
        for _ in range(ROUNDS):
            expected = _expect(matches, p, text.starts, counts)
            expected[fixed] = np.maximum(expected[fixed], 1)
            p = expected / math.fsum(expected)
        candidates = np.flatnonzero(~fixed)[::-1]  # ties: the last in code-point order goes first
        if len(p) <= size or len(candidates) == 0:
            break
        losses = _losses(matches, p, text.starts, counts, fixed)
        order = candidates[np.argsort(np.round(losses[candidates], 9), kind="stable")]
        n_pruned = max(1, int((1 - shrinking) * len(candidates)))
        keep = np.ones(len(p), bool)
        keep[order[: min(n_pruned, len(p) - size)]] = False
        p, places, fixed = p[keep], places[keep], fixed[keep]
        matches = _select(matches, keep)
    learned = zip(text.read(places, matches.lengths), p.tolist(), strict=True)
    learned = sorted(learned, key=lambda item: (-float(f"{item[1]:.9e}"), item[0]))
    return {token: math.log(p) for token, p in learned if p > 0}


def learn_scores(
    words: Sequence[str],
    counts: np.ndarray,
    old: Mapping[str, float],
    new: Iterable[str],
    *,
    rounds: int = 10,
) -> dict[str, float]:
    """Learn the scores of new Unigram tokens by EM, with the old scores fixed.

    ``old`` maps tokens to their scores (natural log probabilities). The expected count of a new token,
    over all segmentations and at least 1, is divided by that of all tokens. A character without a token
    has the score of an unknown one, ten below the lowest. EM begins with half of a new token's
    occurrences. Returns new token -> score. See `textbook.unigram_expected_counts`.
    """
    new, unknown = list(new), min(old.values()) - 10
    order = sorted(range(len(words)), key=words.__getitem__)  # the result must not depend on it
    text, counts = write_text([words[i] for i in order]), np.asarray(counts)[order]
    characters = set(text.string) - {"\0"}
    pieces, matches = find_pieces(text, chain(old, new, characters))
    is_new = np.isin(np.array(pieces, object), np.array(new, object))
    occurrences = _occurrences(matches, text.starts, counts)
    p = np.exp(np.array([old.get(token, unknown) for token in pieces]))
    p[is_new] = np.maximum(occurrences[is_new] / 2, 1) / occurrences.sum()
    for _ in range(rounds):
        expected = _expect(matches, p, text.starts, counts)
        expected[is_new] = np.maximum(expected[is_new], 1)
        p[is_new] = expected[is_new] / math.fsum(expected)
    scores = dict(zip(pieces, np.log(p).tolist(), strict=True))
    return {token: scores.get(token, -math.log(math.fsum(expected))) for token in new}


@compiled
def _occurrences(matches, starts, counts):
    """How often each token occurs in the words, overlaps included."""
    offsets, tokens, lengths = matches
    total = np.zeros(len(lengths))
    for w in range(len(counts)):
        for e in range(offsets[starts[w]], offsets[starts[w + 1]]):
            total[tokens[e]] += counts[w]
    return total
