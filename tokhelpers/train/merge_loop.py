"""The one compiled loop behind every BPE trainer, WordPiece and continued training.

Again and again the best pair of neighbouring symbols becomes one symbol. Four ideas make it fast:

- Each unique word is held once, as symbol ids, together with how often it occurs (its weight).
- Each pair knows its count and the places where it was seen, its sightings. A merge visits these and
  no others, in ascending order, and moves no symbol: it leaves a hole behind the merged one.
- A merge changes the counts of the pairs on either side of what it replaces. All of them hold one
  of its own symbols, so their changes are added up by the other symbol, and looked up once.
- Pairs wait in a heap. An entry whose pair became rarer stays there until it comes up; then it is
  checked against the pair's count of now. A pair that rose is pushed once more. Only the best pairs
  wait there, down to a fixed share of the highest priority; then the heap is filled anew.
"""

import heapq
from collections import namedtuple

import numpy as np

from ..tokenizer.compiled import both_symbols, compiled, grown, no_numbers, pair_key, slot_of
from .pairs import (
    BOUNDARY,
    PLACE_BITS,
    PLACE_MASK,
    REFUSED,
    is_candidate,
    open_block,
    reserve,
    row_of,
    sightings_of,
    weight_of,
)
from .scores import BEFORE, BEHIND, UNLISTED, Scores, link, raise_pairs, start_scores
from .spelling import first_spelled, spell, spelling_order

# What was noted of a symbol on one side of the occurrences that a merge replaced: how often it stood
# there in the text, how often in the unique words, and where the next sighting of its new pair goes
BESIDE = np.dtype((np.record, [("count", np.int64), ("seen", np.int64), ("next", np.int64)]))
# What is answered to the best pair: the symbol that it becomes (below zero: it is refused for good),
# or that no other is wanted
ANSWER = np.dtype((np.record, [("becomes", np.int64), ("ends", np.bool_)]))
SPAN = 16.0  # the best pairs in the heap: those at most so many times below the highest priority
MOST_SYMBOLS = 2**52  # priorities are float64, which has all whole numbers up to 2**53

Merge = namedtuple("Merge", "row left right new single")
# `beside`: what is noted of each neighbour; `touched`: those of whom something is; `whom` and `where`:
# neighbours as they were met, and the sighting of their new pair
Notes = namedtuple("Notes", "beside touched whom where")


# --- what merging starts from -------------------------------------------------------------------
@compiled
def _complete(pairs, scores, spelling, known, had):
    """Write into the rows from `had` on what decides a tie and whether their merge is known, and
    link them to the other pairs of their symbols. Returns the scores, which hold the links."""
    rows, (frequency, newest, older) = pairs.rows, scores
    size = len(older)
    if len(newest) and size < 2 * len(rows):
        older = grown(older, 2 * len(rows))
        for i in range(size, len(older)):
            older[i] = UNLISTED
    for i in range(had, pairs.filled[0]):
        key = rows[i].key
        rows[i].tie = spelling_order(spelling, key) if len(spelling.ranks) else key
        if len(known.results):
            rank = known.table[slot_of(known.table, known.keys, key)]
            if rank >= 0:
                rows[i].rank, rows[i].result = rank + 1, known.results[rank]
        if len(newest):
            link(newest, older, key, i)
    return Scores(frequency, newest, older)


# --- which pair is next -------------------------------------------------------------------------
@compiled
def _priority(rows, frequency, i):
    """A pair's count, or with symbol frequencies its score: the count over the product of these.

    A known merge goes before all counts, that of the lowest rank first.
    """
    if rows[i].rank > 0:
        return 2.0 * MOST_SYMBOLS - rows[i].rank
    if len(frequency) == 0:
        return np.float64(rows[i].count)
    left, right = both_symbols(rows[i].key)
    return rows[i].count / (np.float64(frequency[left]) * np.float64(frequency[right]))


@compiled
def _push(heap, pairs, frequency, some, least, limit):
    """Push those of some rows that are candidates and have at least the priority `limit`."""
    rows = pairs.rows
    for i in some:
        if is_candidate(rows, i, least):
            priority = _priority(rows, frequency, i)
            if priority >= limit:
                heapq.heappush(heap, (-priority, rows[i].tie, np.int64(i)))


@compiled
def _fill(heap, pairs, frequency, least):
    """Push the candidates of the highest priorities, and return the limit down to which they go."""
    rows, best = pairs.rows, 0.0
    for i in range(pairs.filled[0]):
        if is_candidate(rows, i, least):
            best = max(best, _priority(rows, frequency, i))
    _push(heap, pairs, frequency, range(pairs.filled[0]), least, best / SPAN)
    return best / SPAN


@compiled
def _best(heap, pairs, scores, spelling, least, limit):
    """The row of the best pair, or -1 when none is left, and the priority from which pairs wait."""
    rows, frequency = pairs.rows, scores.frequency
    while len(heap) > 0 or limit > 0:
        if len(heap) == 0:  # the limit is 0 when none is left
            limit = _fill(heap, pairs, frequency, least)
            continue
        priority, _, i = heapq.heappop(heap)
        if not is_candidate(rows, i, least):
            continue
        now = _priority(rows, frequency, i)
        if now == -priority:
            if len(spelling.ranks):
                i = first_spelled(heap, rows, spelling, i, priority, limit)
            return i, limit
        if limit <= now < -priority:  # it became rarer; one that rose was pushed again already
            heapq.heappush(heap, (-now, rows[i].tie, np.int64(i)))
    return np.int64(-1), limit


# --- one merge ----------------------------------------------------------------------------------
@compiled
def _replace(text, found, merge, beside, touched, whom, where):
    """Replace a pair wherever it was found, and note what stands beside it there.

    Returns how many neighbours are in `touched`, how many sightings were noted, and how many
    occurrences were replaced.
    """
    t, n, replaced, done = 0, 0, np.int64(0), np.int64(-1)
    for k in range(len(found)):
        sighting = found[k]
        # 1. Find the two symbols, which end before `middle` and `behind`, if they are still there.
        begin = sighting >> PLACE_BITS
        at = begin + (sighting & PLACE_MASK)
        if text[at] != merge.left or (merge.single and begin == done):
            continue
        middle = _next(text, at)
        if text[middle] != merge.right:
            continue
        behind = _next(text, middle)
        weight = weight_of(text, begin)
        # 2. Note their neighbours, with the places of the new pairs.
        if text[at - 1] > BOUNDARY:
            before = at + text[at - 1] if text[at - 1] < 0 else at - 1
            neighbour = 2 * np.int64(text[before]) + BEFORE
            t = _note(beside, touched, t, neighbour, weight)
            whom[n], where[n] = neighbour, begin << PLACE_BITS | (before - begin)
            n += 1
        if text[behind] > BOUNDARY:
            neighbour = 2 * np.int64(text[behind]) + BEHIND
            t = _note(beside, touched, t, neighbour, weight)
            whom[n], where[n] = neighbour, sighting
            n += 1
        # 3. Write the merged symbol in their place.
        text[middle] = text[at + 1] = text[behind - 1] = at - behind
        text[at] = merge.new
        replaced += weight
        done = begin
    return t, n, replaced


@compiled(inline="always")
def _next(text, at):
    """Where the symbol behind that at `at` begins, or the header of the next word."""
    hole = text[at + 1]
    return at - hole if BOUNDARY < hole < 0 else at + 1


@compiled(inline="always")
def _note(beside, touched, t, neighbour, weight):
    """Note who stands beside a replaced occurrence; returns the new number of those touched."""
    if beside[neighbour].seen == 0:
        touched[t] = neighbour
        t += 1
    beside[neighbour].count += weight
    beside[neighbour].seen += 1
    return t


@compiled
def _recount(pairs, merge, beside, touched, whom, where):
    """Change the counts of the pairs beside the replaced ones by the notes, and write the sightings
    of those that hold the merged symbol. In `touched` the rows of these take the neighbours' place."""
    table, rows, blocks, sightings, filled = pairs
    for t in range(len(touched)):
        neighbour = touched[t]
        symbol, side = neighbour >> 1, neighbour & 1
        if side == BEFORE:
            old, new = pair_key(symbol, merge.left), pair_key(symbol, merge.new)
        else:
            old, new = pair_key(merge.right, symbol), pair_key(merge.new, symbol)
        rows[row_of(table, rows, filled, old)].count -= beside[neighbour].count
        touched[t] = i = row_of(table, rows, filled, new)
        rows[i].count += beside[neighbour].count
        beside[neighbour].next = open_block(rows, blocks, filled, i, beside[neighbour].seen)
        beside[neighbour].count = beside[neighbour].seen = 0
    for k in range(len(whom)):
        sightings[beside[whom[k]].next] = where[k]
        beside[whom[k]].next += 1


@compiled
def _with_room(notes, new, seen):
    """The same notes in arrays into which symbol `new` and so many sightings fit."""
    beside, touched, whom, where = notes
    size = len(beside)
    if 2 * new >= size:
        beside = grown(beside, 4 * new)
        for i in range(size, len(beside)):
            beside[i].count = beside[i].seen = 0
    if 2 * seen > len(whom):  # on either side of each
        touched, where = np.empty(3 * seen, np.int64), np.empty(3 * seen, np.int64)
        whom = np.empty(3 * seen, np.int32)
    return Notes(beside, touched, whom, where)


@compiled
def _merge_pair(pairs, text, scores, spelling, known, notes, merge, least):
    """Replace a pair in all words: the state after it, and the rows that may have risen."""
    had = pairs.filled[0]
    found = sightings_of(pairs, merge.row)
    notes = _with_room(notes, merge.new, len(found))
    beside, touched, whom, where = notes
    t, n, replaced = _replace(text, found, merge, beside, touched, whom, where)
    pairs = reserve(pairs, 2 * t, n)
    _recount(pairs, merge, beside, touched[:t], whom[:n], where)
    risen = no_numbers()
    for i in touched[:t]:
        risen.append(i)
    pairs.rows[merge.row].count -= replaced
    if merge.single:
        risen.append(merge.row)
    else:
        pairs.rows[merge.row].block = -1
    if len(spelling.ranks):
        spelling = spell(spelling, pairs.rows[merge.row].key, merge.new)
    frequency, newest, older = scores
    size = len(frequency)
    if 0 < size <= merge.new:
        frequency, newest = grown(frequency, 2 * merge.new), grown(newest, 4 * merge.new)
        for symbol in range(size, len(frequency)):
            frequency[symbol] = 0
            newest[2 * symbol + BEFORE] = newest[2 * symbol + BEHIND] = -1
    scores = _complete(pairs, Scores(frequency, newest, older), spelling, known, had)
    if size:  # the parts are rarer now, so every pair with one of them scores higher
        for i in risen:
            link(scores.newest, scores.older, pairs.rows[i].key, i)
        frequency[merge.new] += replaced
        for symbol in (merge.left, merge.right):
            frequency[symbol] -= replaced
            raise_pairs(pairs, scores, symbol, least, risen)
    return pairs, scores, spelling, notes, risen


# --- the loop -----------------------------------------------------------------------------------
@compiled
def _remember(pairs, i, result, rank):
    """Note what a pair becomes, if its merge has a rank; below zero it is refused for good.

    A function of its own: what the generator writes into rows itself is lost (numba 0.68.1).
    """
    if result < 0:
        pairs.rows[i].count = REFUSED
    elif rank > 0:
        pairs.rows[i].rank, pairs.rows[i].result = rank, result


@compiled
def merge_loop(pairs, text, spelling, known, scored, new_from, least, answer):
    """Yield the best pair and its count, again and again; the `answer` says what it becomes.

    The last answer must be that it ends: numba frees what the loop holds only when it returns. Best
    is the highest priority, then the lower tie, among the pairs that occur `least` times. With
    `new_from` at least 0, symbols from there on are new; see `learn_merges` for what a merge into an
    older one brings with it.
    """
    scores = _complete(pairs, start_scores(text, scored), spelling, known, 0)
    beside = np.zeros(2 * max(1, 1 + text.max()), BESIDE)
    none = np.empty(0, np.int64)
    notes = Notes(beside, none, np.empty(0, np.int32), none)
    heap = [(0.0, np.int64(0), np.int64(0)) for _ in range(0)]
    rank, newest = np.int64(len(known.results)), np.int64(new_from - 1)
    i, limit = _best(heap, pairs, scores, spelling, least, np.inf)
    while i >= 0:
        # 1. Ask what the pair becomes, unless its merge is known.
        new = pairs.rows[i].result
        left, right = both_symbols(pairs.rows[i].key)
        if pairs.rows[i].rank == 0:
            yield left, right, pairs.rows[i].count
            if answer[0].ends:
                return
            new = np.int32(answer[0].becomes)
            if new >= 0 and new_from >= 0:
                rank += 1
            _remember(pairs, i, new, rank if new_from >= 0 else 0)
        # 2. Replace it in the words, and push what rose. A merge into an older symbol is a single
        #    one: that symbol may at once be merged with what stands beside it.
        if new >= 0:
            merge = Merge(i, left, right, new, new_from >= 0 and new <= newest)
            newest = max(newest, np.int64(new))
            pairs, scores, spelling, notes, risen = _merge_pair(
                pairs, text, scores, spelling, known, notes, merge, least
            )
            _push(heap, pairs, scores.frequency, risen, least, limit)
        # 3. Look for the next.
        i, limit = _best(heap, pairs, scores, spelling, least, limit)
