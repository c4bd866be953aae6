"""State of WordPiece's score: symbol frequencies, and the pairs of each symbol.

When a symbol becomes less frequent, the scores of all its pairs rise, so these must be found.
"""

import warnings
from collections import namedtuple

import numpy as np

from ..common.compiled import both_symbols, compiled
from .pairs import BOUNDARY, is_candidate, weight_of

# The two sides of a symbol, and the two symbols of a pair. Arrays with an entry for each are indexed
# by twice the symbol (or row) plus the side.
LEFT, RIGHT = 0, 1
MANY_MERGES, RARE = 1_000, 5  # of which and below which rare pairs are warned of
UNLISTED = -2  # as a link: the pair is in no list

# `frequency` of each symbol (empty unless WordPiece's score is used), and linked lists of its
# pairs: `newest` is the head of a symbol's list on either side, `older` the links between pairs.
Scores = namedtuple("Scores", "frequency newest older")


@compiled
def start_scores(text, scored):
    """Count the symbols of the text, if they are `scored`; all lists are empty."""
    frequency = np.zeros(max(0, 1 + text.max()) if scored else 0, np.int64)
    weight = np.int64(0)
    for at in range(len(text) if scored else 0):
        if text[at] > BOUNDARY:
            frequency[text[at]] += weight
        else:
            weight = weight_of(text, at + 1)
    newest = np.full(2 * len(frequency), -1, np.int32)
    return Scores(frequency, newest, np.empty(0, np.int32))


@compiled
def link(newest, older, key, i):
    """Insert pair `i` into the lists of its two symbols, unless it is in them."""
    for side, symbol in enumerate(both_symbols(key)):
        if older[2 * i + side] == UNLISTED:
            older[2 * i + side] = newest[2 * symbol + side]
            newest[2 * symbol + side] = i


@compiled
def raise_pairs(pairs, scores, symbol, min_frequency, raised):
    """Append the candidate pairs of a symbol to `raised`; remove all others from its lists."""
    (_, newest, older), rows = scores, pairs.rows
    for side in range(2):
        last, i = np.int64(-1), np.int64(newest[2 * symbol + side])
        while i >= 0:
            following = np.int64(older[2 * i + side])
            if is_candidate(rows, i, min_frequency):
                raised.append(i)
                last = i
            else:
                older[2 * i + side] = UNLISTED
                if last < 0:
                    newest[2 * symbol + side] = following
                else:
                    older[2 * last + side] = following
            i = following


def warn_of_rare_pairs(frequencies: list[int]) -> None:
    """Warn if half of many merges are of pairs that occur fewer than ``RARE`` times."""
    if len(frequencies) >= MANY_MERGES and (median := int(np.median(frequencies))) < RARE:
        warnings.warn(
            f"half of the {len(frequencies):,} merges are of pairs that occur at most {median:,} "
            "times, as WordPiece's score prefers rare pairs: pass min_frequency=20 for tokens that "
            "compress, or min_frequency=0 if this is meant",
            stacklevel=3,
        )
