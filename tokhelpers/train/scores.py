"""What WordPiece's score needs: how often each symbol occurs, and which pairs hold it.

The score of a pair rises when one of its symbols becomes rarer, so the pairs of a symbol are listed.
"""

from collections import namedtuple

import numpy as np

from ..tokenizer.compiled import both_symbols, compiled
from .pairs import BOUNDARY, is_candidate, weight_of

BEFORE, BEHIND = 0, 1  # the sides; a symbol or a pair on a side is twice its number plus the side
UNLISTED = -2  # in place of an older pair: this one is in no list

# How often each symbol occurs; for each symbol on either side, the newest
# pair with it there; for each pair on either side, the next older one with the same symbol there.
Scores = namedtuple("Scores", "frequency newest older")


@compiled
def start_scores(text, scored):
    """The frequencies of symbols if these decide."""
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
    """Put a pair into the lists of its two symbols, unless it is there."""
    for side, symbol in enumerate(both_symbols(key)):
        if older[2 * i + side] == UNLISTED:
            older[2 * i + side] = newest[2 * symbol + side]
            newest[2 * symbol + side] = i


@compiled
def raise_pairs(pairs, scores, symbol, least, risen):
    """Add the pairs with a symbol to those that have risen; what is too rare leaves its lists."""
    (_, newest, older), rows = scores, pairs.rows
    for side in range(2):
        last, i = np.int64(-1), np.int64(newest[2 * symbol + side])
        while i >= 0:
            following = np.int64(older[2 * i + side])
            if is_candidate(rows, i, least):
                risen.append(i)
                last = i
            else:
                older[2 * i + side] = UNLISTED
                if last < 0:
                    newest[2 * symbol + side] = following
                else:
                    older[2 * last + side] = following
            i = following
