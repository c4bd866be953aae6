"""The one compiled loop behind every BPE trainer, WordPiece and continued training.

Again and again the best pair of neighbouring symbols becomes one symbol. Three ideas make it fast:

- Each unique word is held once, as symbol ids, together with how often it occurs (its weight).
- Each pair knows its count and the words in which it was seen, its sightings. A merge visits these
  words and no others, and changes the counts of the pairs beside each replaced one.
- Pairs wait in a heap. An entry whose pair became rarer stays there until it comes up; then it is
  checked against the pair's count of now. A pair that rose is pushed once more.
"""

import heapq
from collections import namedtuple

import numpy as np
from numba import njit

from ..tokenizer.segmentation import pair_key, slot_of
from .pairs import (
    PAIR,
    REFUSED,
    SIGHTING,
    Pairs,
    both_symbols,
    fits,
    keys_of,
    longer,
    reserve,
    row_of,
    see,
)

WORD = np.dtype([(name, np.int64) for name in ("begin", "end", "first_end", "weight")])
MOST_SYMBOLS = 2**52  # priorities are float64, which has all whole numbers up to 2**53
LENGTH_BITS = 18  # of a tie by spelling; the characters have the other 44 bits

# `symbols` of all words one after the other: a word's are those from its `begin` to its `end`, which
# moves down from `first_end` as it is merged. `starts`: where each symbol's spelling begins.
Words = namedtuple("Words", "symbols starts records")
# the characters of all words as ranks in code-point order, from 1 on, and the bits that a rank takes
Spelling = namedtuple("Spelling", "ranks bits")
# For WordPiece's score: how often each symbol occurs; for each symbol on either side, the newest
# pair with it there; for each pair on either side, the next older one with the same symbol there.
Scores = namedtuple("Scores", "frequency newest older")
Merge = namedtuple("Merge", "row new turn single")
Scratch = namedtuple("Scratch", "used fresh")  # as long as the longest word


def words_of(symbols, offsets, counts, *, spelled: bool) -> tuple[Words, Spelling]:
    """The words as the loop takes them, and their spelling (empty, unless ties go by it)."""
    records = np.empty(len(counts), WORD)
    records["begin"], records["end"], records["weight"] = offsets[:-1], offsets[1:], counts
    records["first_end"] = offsets[1:]
    if not spelled:
        return Words(symbols, np.zeros(0, np.int64), records), Spelling(np.zeros(0, np.int32), 1)
    ranks = np.cumsum(np.bincount(symbols) > 0).astype(np.int32)
    spelling = Spelling(ranks[symbols], int(ranks[-1]).bit_length())
    return Words(symbols, np.arange(len(symbols)), records), spelling


# --- what merging starts from -------------------------------------------------------------------
@njit(cache=True)
def _complete(pairs, scores, spelling, known, had):
    """Write into the rows from `had` on what decides a tie and whether their merge is known, and
    link them to the other pairs of their symbols. Returns the scores, which hold the links."""
    rows, (frequency, newest, older) = pairs.rows, scores
    if len(newest) and len(older) < len(rows):
        older = longer(older, len(rows))
    for i in range(had, pairs.filled[0]):
        key = rows[i].key
        spelled = len(spelling.ranks) > 0
        rows[i].tie = _spelling_order(spelling, rows[i].start, rows[i].length) if spelled else key
        if len(known.results):
            rank = known.table[slot_of(known.table, known.keys, key)]
            if rank >= 0:
                rows[i].rank, rows[i].result = rank + 1, known.results[rank]
        if len(newest):
            for side, symbol in enumerate(both_symbols(key)):
                older[i, side] = newest[symbol, side]
                newest[symbol, side] = i
    return Scores(frequency, newest, older)


# --- which pair is next -------------------------------------------------------------------------
@njit(cache=True)
def _spelling_order(spelling, start, length):
    """A token's length and its first characters, as a number that sorts as they do."""
    order, free = np.int64(min(length, 2**LENGTH_BITS)), 62 - LENGTH_BITS
    for j in range(start, start + length):
        if free < spelling.bits:
            break
        order = order << spelling.bits | spelling.ranks[j]
        free -= spelling.bits
    return order << free


@njit(cache=True)
def _first_spelled(heap, rows, spelling, i, priority):
    """Of the pairs that tie with `i` so far, the one spelled first; the others go back."""
    tie, passed = rows[i].tie, [np.int64(0) for _ in range(0)]
    while len(heap) > 0 and heap[0][0] == priority and heap[0][1] == tie:
        k = heapq.heappop(heap)[2]
        if k == i or np.float64(-rows[k].count) != priority:
            if k != i and rows[k].count > 0:
                heapq.heappush(heap, (np.float64(-rows[k].count), tie, k))
            continue
        for j in range(tie >> 62 - LENGTH_BITS):
            difference = spelling.ranks[rows[k].start + j] - spelling.ranks[rows[i].start + j]
            if difference != 0:
                if difference < 0:
                    i, k = k, i
                break
        passed.append(k)
    for k in passed:
        heapq.heappush(heap, (priority, tie, k))
    return i


@njit(cache=True)
def _priority(rows, frequency, i):
    """A pair's count, or with symbol frequencies its score: the count over the product of these.

    A known merge goes before all counts, that of the lowest rank first.
    """
    if rows[i].rank > 0:
        return np.float64(2 * MOST_SYMBOLS - rows[i].rank)
    if len(frequency) == 0:
        return np.float64(rows[i].count)
    left, right = both_symbols(rows[i].key)
    return rows[i].count / (np.float64(frequency[left]) * np.float64(frequency[right]))


@njit(cache=True)
def _is_candidate(rows, i, least):
    """Whether a pair occurs often enough; one whose merge is known is merged wherever it occurs."""
    return rows[i].count >= (least if rows[i].rank == 0 else 1)


@njit(cache=True)
def _push(heap, rows, frequency, i, least):
    if _is_candidate(rows, i, least):
        heapq.heappush(heap, (-_priority(rows, frequency, i), rows[i].tie, np.int64(i)))


# --- one merge ----------------------------------------------------------------------------------
@njit(cache=True)
def _merge_in_words(pairs, words, scratch, merge, node, risen):
    """Replace a pair in the words of its sightings from `node` on, and keep all counts exact.

    Lists the rows that rise in `risen`. Stops before a word whose new pairs may not fit. Returns
    the sighting of that word, or -1 at the end, and how many occurrences were replaced.
    """
    # as variables: in a tuple, each use would count a reference, which took half of the time
    table, rows, sightings, filled = pairs
    keys = keys_of(rows)
    symbols, starts, records = words
    used, fresh = scratch
    left, right = both_symbols(rows[merge.row].key)
    replaced = np.int64(0)
    while node >= 0:
        w = sightings[node].word
        begin, end, weight = records[w].begin, records[w].end, records[w].weight
        if not fits(rows, sightings, filled, 2 * (end - begin)):
            break
        node = sightings[node].before
        # 1. From left to right, mark the symbols that belong to an occurrence; only those of the
        #    first, if the merge is a single one.
        first, last, j = -1, -1, begin
        while j < end - 1:
            used[j - begin] = symbols[j] == left and symbols[j + 1] == right
            if used[j - begin]:
                first = j if first < 0 else first
                last = j = j + 1
                used[j - begin] = True
                if merge.single:
                    used[j + 1 - begin : end - begin] = False
                    break
            j += 1
        if first < 0:  # another merge took it away since it was seen here
            continue
        used[end - 1 - begin] = False
        # 2. Uncount the pairs that stand in or beside an occurrence.
        for j in range(max(first - 1, begin), min(last + 1, end - 1)):
            if symbols[j] == left and symbols[j + 1] == right:
                rows[merge.row].count -= weight
            elif used[j - begin] or used[j + 1 - begin]:
                i = row_of(table, keys, rows, filled, pair_key(symbols[j], symbols[j + 1]))
                rows[i].count -= weight
        # 3. Write the word anew, the merged symbol for each occurrence.
        m = j = first
        while j < end:
            fresh[m - begin] = used[j - begin]
            symbols[m] = merge.new if used[j - begin] else symbols[j]
            if len(starts):
                starts[m] = starts[j]
            j += 2 if used[j - begin] else 1
            m += 1
        records[w].end = m
        replaced += (end - m) * weight
        # 4. Count the pairs with a merged symbol.
        for j in range(max(first - 1, begin), m - 1):
            if fresh[j - begin] or fresh[j + 1 - begin]:
                i = row_of(table, keys, rows, filled, pair_key(symbols[j], symbols[j + 1]))
                if len(starts):
                    behind = starts[j + 2] if j + 2 < m else records[w].first_end
                    rows[i].start, rows[i].length = starts[j], behind - starts[j]
                see(rows, sightings, filled, i, w, weight)
                if rows[i].turn != merge.turn:
                    rows[i].turn = merge.turn
                    risen.append(i)
    return node, replaced


@njit(cache=True)
def _merge_pair(pairs, words, scores, spelling, known, scratch, merge):
    """Replace a pair in all words: the pairs and scores after it, and the rows that may have risen."""
    had, risen = pairs.filled[0], [np.int64(0) for _ in range(0)]
    node, replaced = pairs.rows[merge.row].sighting, np.int64(0)
    while node >= 0:
        node, n = _merge_in_words(pairs, words, scratch, merge, node, risen)
        replaced += n
        if node >= 0:
            word = words.records[pairs.sightings[node].word]
            pairs = reserve(pairs, 2 * (word.end - word.begin))
    frequency, newest, older = scores
    size = len(frequency)
    if 0 < size <= merge.new:
        frequency, newest = longer(frequency, 2 * merge.new), longer(newest, 2 * merge.new)
        newest[size:] = -1
    scores = _complete(pairs, Scores(frequency, newest, older), spelling, known, had)
    if size:  # the parts are rarer now, so every pair with one of them scores higher
        rows, parts = pairs.rows, both_symbols(pairs.rows[merge.row].key)
        frequency[merge.new] += replaced
        for symbol in parts:
            frequency[symbol] -= replaced
            for side in range(2):
                i = np.int64(newest[symbol, side])
                while i >= 0:
                    if rows[i].count > 0 and rows[i].turn != merge.turn:
                        rows[i].turn = merge.turn
                        risen.append(i)
                    i = np.int64(scores.older[i, side])
    if merge.single:
        risen.append(merge.row)
    return pairs, scores, risen


# --- the loop -----------------------------------------------------------------------------------
@njit(cache=True)
def _start(words, scored):
    """All pairs of the words with their sightings, the frequencies of symbols if these decide, and
    the scratch space."""
    symbols, starts, records = words
    frequency = np.zeros(2 + symbols.max() if scored else 0, np.int64)
    newest, older = np.full((len(frequency), 2), -1, np.int32), np.empty((0, 2), np.int32)
    table, rows = np.full(4096, -1, np.int32), np.zeros(1024, PAIR)
    sightings, filled = np.zeros(1024, SIGHTING), np.zeros(2, np.int64)
    keys = keys_of(rows)
    longest = 1
    for w in range(len(records)):
        begin, end, weight = records[w].begin, records[w].end, records[w].weight
        longest = max(longest, end - begin)
        if not fits(rows, sightings, filled, end - begin):
            pairs = reserve(Pairs(table, rows, sightings, filled), end - begin)
            table, rows, sightings, _ = pairs
            keys = keys_of(rows)
        for j in range(begin, end - 1):
            i = row_of(table, keys, rows, filled, pair_key(symbols[j], symbols[j + 1]))
            rows[i].start, rows[i].length = j, 2
            see(rows, sightings, filled, i, w, weight)
        if scored:
            for j in range(begin, end):
                frequency[symbols[j]] += weight
    scratch = Scratch(np.zeros(longest, np.uint8), np.zeros(longest, np.uint8))
    pairs = Pairs(table, rows, sightings, filled)
    return pairs, Scores(frequency, newest, older), scratch


@njit(cache=True)
def _remember(rows, i, result, rank):
    """Note what a pair becomes, if its merge has a rank; below zero it is refused for good.

    A function of its own: what the generator writes into rows itself is lost (numba 0.68.1).
    """
    if result < 0:
        rows[i].count = REFUSED
    elif rank > 0:
        rows[i].rank, rows[i].result = rank, result


@njit(cache=True)
def merge_loop(words, spelling, known, scored, first, least, reply):
    """Yield the best pair and its count, again and again; `reply[0]` says what it becomes.

    A reply below zero refuses the pair for good. Best is the highest priority, then the lower tie,
    among the pairs that occur `least` times. With `first` at least 0, symbols from there on are
    new; see `learn_merges` for what a merge into an older one brings with it.
    """
    # 1. Count all pairs, and put those that are frequent enough into the heap.
    pairs, scores, scratch = _start(words, scored)
    scores = _complete(pairs, scores, spelling, known, 0)
    heap = [(0.0, np.int64(0), np.int64(0)) for _ in range(0)]
    for i in range(pairs.filled[0]):
        _push(heap, pairs.rows, scores.frequency, i, least)
    turn, learned, newest = np.int64(0), np.int64(len(known.results)), np.int64(first - 1)
    while len(heap) > 0:
        # 2. Take the best entry. Is it out of date, put it back with the priority of now; one that
        #    rose has been pushed again already.
        priority, _, i = heapq.heappop(heap)
        if not _is_candidate(pairs.rows, i, least):
            continue
        now = _priority(pairs.rows, scores.frequency, i)
        if now != -priority:
            if now < -priority:
                _push(heap, pairs.rows, scores.frequency, i, least)
            continue
        if len(spelling.ranks):
            i = _first_spelled(heap, pairs.rows, spelling, i, priority)
        # 3. Ask what the pair becomes, unless its merge is known.
        new = pairs.rows[i].result
        if pairs.rows[i].rank == 0:
            left, right = both_symbols(pairs.rows[i].key)
            yield left, right, pairs.rows[i].count
            new = np.int32(reply[0])
            if new >= 0 and first >= 0:
                learned += 1
            _remember(pairs.rows, i, new, learned if first >= 0 else 0)
        if new < 0:
            continue
        # 4. Replace it in the words, and push what rose. A merge into an older symbol is a single
        #    one: that symbol may at once be merged with what stands beside it.
        single = first >= 0 and new <= newest
        newest = max(newest, np.int64(new))
        turn += 1
        merge = Merge(i, new, turn, single)
        pairs, scores, risen = _merge_pair(pairs, words, scores, spelling, known, scratch, merge)
        for i in risen:
            _push(heap, pairs.rows, scores.frequency, i, least)
