"""The compiled loop that learns merges, for every BPE trainer, WordPiece and continued training.

Each step merges the best pair of adjacent symbols. Four ideas make it fast:

- Each unique word is stored once, as symbol IDs, with its count (its weight).
- Each pair has its count and a list of its occurrences. A merge visits these only, in ascending
  order, and moves no symbols: the merged symbol leaves a gap behind it.
- A merge changes the counts of pairs adjacent to the replaced ones. All of them contain one of its
  symbols, so changes are summed by the other symbol, its neighbour, and looked up once.
- Pairs wait in a heap. An entry whose pair became less frequent is corrected when it is popped; a
  pair whose priority rose is pushed again. Only the best pairs are in the heap, down to a fixed
  fraction of the highest priority; when it runs empty, it is filled again.
"""

import heapq
from collections import namedtuple

import numpy as np

from ..common.compiled import both_symbols, compiled, grown, no_numbers, pair_key, slot_of
from .pairs import (
    BOUNDARY,
    REFUSED,
    begin_of,
    is_candidate,
    occurrences_of,
    open_block,
    reserve,
    row_of,
    weight_of,
)
from .spelling import first_spelled, spell, spelling_order
from .wordpiece_scores import LEFT, RIGHT, UNLISTED, Scores, link, raise_pairs, start_scores

# What one merge notes of a neighbour (twice the symbol plus the side): how often it is adjacent to a
# replaced pair in the text and in the unique words, and where the next occurrence of their pair goes
NEIGHBOUR = np.dtype((np.record, [("count", np.int64), ("size", np.int64), ("next", np.int64)]))
# The caller's answer to a pair: the symbol that it becomes (negative: never merge it), or to stop; and,
# if it is `directed`, another `pair` (key) to merge instead. `merged` counts what was merged since the
# start, each as often as its word: so much shorter is the text.
NUMBERS = [(name, np.int64) for name in ("becomes", "pair", "merged")]
ANSWER = np.dtype((np.record, [*NUMBERS, ("directed", np.bool_), ("ends", np.bool_)]))
SPAN = 16.0  # the heap has the pairs whose priority is at least the highest one divided by this
MAX_SYMBOLS = 2**52  # in the text; priorities are float64, exact for integers up to 2**53

Merge = namedtuple("Merge", "row left right new single")
# Buffers of one merge. `stats` are the records above, by neighbour; `neighbours` those that
# occurred; `neighbour_ids` and `occurrences` list each occurrence of a new pair.
Notes = namedtuple("Notes", "stats neighbours neighbour_ids occurrences")


# --- new pairs ------------------------------------------------------------------------------------
@compiled
def _complete(pairs, scores, spelling, base_merges, begin):
    """Set the tie and the base merge of all rows from `begin` on, and link them to their symbols.

    Returns the scores, which hold the links.
    """
    rows, (frequency, newest, older) = pairs.rows, scores
    size = len(older)
    if len(newest) and size < 2 * len(rows):
        older = grown(older, 2 * len(rows))
        for i in range(size, len(older)):
            older[i] = UNLISTED
    for i in range(begin, pairs.filled[0]):
        key = rows[i].key
        rows[i].tie = spelling_order(spelling, key) if len(spelling.ranks) else key
        if len(base_merges.results):
            rank = base_merges.table[slot_of(base_merges.table, base_merges.keys, key)]
            if rank >= 0:
                rows[i].rank, rows[i].result = rank + 1, base_merges.results[rank]
        if len(newest):
            link(newest, older, key, i)
    return Scores(frequency, newest, older)


# --- the best pair --------------------------------------------------------------------------------
@compiled
def _priority(rows, frequency, i):
    """A pair's count, or its score: the count over the product of its symbols' frequencies.

    Base merges precede all counts, in order of their ranks.
    """
    if rows[i].rank > 0:
        return 2.0 * MAX_SYMBOLS - rows[i].rank
    if len(frequency) == 0:
        return np.float64(rows[i].count)
    left, right = both_symbols(rows[i].key)
    return rows[i].count / (np.float64(frequency[left]) * np.float64(frequency[right]))


@compiled
def _push(heap, pairs, frequency, indices, min_frequency, limit):
    """Push those of some rows that are candidates and have at least the priority `limit`."""
    rows = pairs.rows
    for i in indices:
        if is_candidate(rows, i, min_frequency):
            priority = _priority(rows, frequency, i)
            if priority >= limit:
                heapq.heappush(heap, (-priority, rows[i].tie, np.int64(i)))


@compiled
def _fill(heap, pairs, frequency, min_frequency):
    """Push the candidates of the highest priorities, and return the lowest priority included."""
    rows, best = pairs.rows, 0.0
    for i in range(pairs.filled[0]):
        if is_candidate(rows, i, min_frequency):
            best = max(best, _priority(rows, frequency, i))
    _push(heap, pairs, frequency, range(pairs.filled[0]), min_frequency, best / SPAN)
    return best / SPAN


@compiled
def _best(heap, pairs, scores, spelling, min_frequency, limit):
    """Return the row of the best pair, -1 if there is none, and the priority limit of the heap."""
    rows, frequency = pairs.rows, scores.frequency
    while len(heap) > 0 or limit > 0:
        if len(heap) == 0:
            limit = _fill(heap, pairs, frequency, min_frequency)  # 0 without candidates
            continue
        priority, _, i = heapq.heappop(heap)
        if not is_candidate(rows, i, min_frequency):
            continue
        current = _priority(rows, frequency, i)
        if current == -priority:
            if len(spelling.ranks):
                i = first_spelled(heap, rows, spelling, i, priority, limit)
            return i, limit
        if limit <= current < -priority:  # one that rose has been pushed again already
            heapq.heappush(heap, (-current, rows[i].tie, np.int64(i)))
    return np.int64(-1), limit


# --- one merge ------------------------------------------------------------------------------------
@compiled
def _replace(text, begins, matches, merge, stats, neighbours, neighbour_ids, occurrences):
    """Replace a pair at its occurrences, and note the neighbours there.

    Returns the numbers of neighbours and of new pairs' occurrences that were noted, and the weight
    of the replaced pairs.
    """
    t, n, replaced, last_word = 0, 0, np.int64(0), np.int64(-1)
    for k in range(len(matches)):
        at = np.int64(matches[k])
        # 1. Find the two symbols, at `at` and `middle`, unless they have been replaced; `after` follows.
        if text[at] != merge.left:
            continue
        middle = _next(text, at)
        if text[middle] != merge.right:
            continue
        begin = begin_of(text, begins, at)
        if merge.single and begin == last_word:
            continue
        after = _next(text, middle)
        weight = weight_of(text, begin)
        # 2. Note the neighbours, and the occurrences of the new pairs.
        if text[at - 1] > BOUNDARY:
            before = at + text[at - 1] if text[at - 1] < 0 else at - 1
            neighbour = 2 * np.int64(text[before]) + LEFT
            t = _note(stats, neighbours, t, neighbour, weight)
            neighbour_ids[n], occurrences[n] = neighbour, before
            n += 1
        if text[after] > BOUNDARY:
            neighbour = 2 * np.int64(text[after]) + RIGHT
            t = _note(stats, neighbours, t, neighbour, weight)
            neighbour_ids[n], occurrences[n] = neighbour, at
            n += 1
        # 3. Write the merged symbol and the length of its gap.
        text[middle] = text[at + 1] = text[after - 1] = at - after
        text[at] = merge.new
        replaced += weight
        last_word = begin
    return t, n, replaced


@compiled(inline="always")
def _next(text, at):
    """The place of the symbol after the one at `at`, or of the next word's header."""
    gap = text[at + 1]
    return at - gap if BOUNDARY < gap < 0 else at + 1


@compiled(inline="always")
def _note(stats, neighbours, t, neighbour, weight):
    """Accumulate a neighbour's count; returns the new number of distinct neighbours."""
    if stats[neighbour].size == 0:
        neighbours[t] = neighbour
        t += 1
    stats[neighbour].count += weight
    stats[neighbour].size += 1
    return t


@compiled
def _recount(pairs, merge, stats, neighbours, neighbour_ids, new_occurrences):
    """Update the counts of adjacent pairs, and write the occurrences of the new ones.

    In `neighbours` the rows of the new pairs take the neighbours' place.
    """
    table, rows, blocks, occurrences, filled, _ = pairs
    for t in range(len(neighbours)):
        neighbour = neighbours[t]
        symbol, side = neighbour >> 1, neighbour & 1
        if side == LEFT:
            old, new = pair_key(symbol, merge.left), pair_key(symbol, merge.new)
        else:
            old, new = pair_key(merge.right, symbol), pair_key(merge.new, symbol)
        rows[row_of(table, rows, filled, old)].count -= stats[neighbour].count
        neighbours[t] = i = row_of(table, rows, filled, new)
        rows[i].count += stats[neighbour].count
        stats[neighbour].next = open_block(rows, blocks, filled, i, stats[neighbour].size)
        stats[neighbour].count = stats[neighbour].size = 0
    for k in range(len(neighbour_ids)):
        occurrences[stats[neighbour_ids[k]].next] = new_occurrences[k]
        stats[neighbour_ids[k]].next += 1


@compiled
def _with_room(notes, new, n_matches):
    """The same buffers, with room for symbol `new` and for the neighbours of the matches."""
    stats, neighbours, neighbour_ids, occurrences = notes
    size = len(stats)
    if 2 * new >= size:
        stats = grown(stats, 4 * new)
        for i in range(size, len(stats)):
            stats[i].count = stats[i].size = 0
    if 2 * n_matches > len(neighbour_ids):  # one on either side
        neighbours = np.empty(3 * n_matches, np.int64)
        occurrences = np.empty(3 * n_matches, occurrences.dtype)
        neighbour_ids = np.empty(3 * n_matches, np.int32)
    return Notes(stats, neighbours, neighbour_ids, occurrences)


@compiled
def _merge_pair(pairs, text, scores, spelling, base_merges, notes, merge, min_frequency, answer):
    """Merge a pair in all words; returns the new state, and the rows whose priority may have risen."""
    n_rows = pairs.filled[0]
    matches = occurrences_of(pairs, merge.row)
    notes = _with_room(notes, merge.new, len(matches))
    stats, neighbours, neighbour_ids, occurrences = notes
    t, n, replaced = _replace(
        text, pairs.begins, matches, merge, stats, neighbours, neighbour_ids, occurrences
    )
    pairs = reserve(pairs, 2 * t, n)
    _recount(pairs, merge, stats, neighbours[:t], neighbour_ids[:n], occurrences)
    raised = no_numbers()
    for i in neighbours[:t]:
        raised.append(i)
    pairs.rows[merge.row].count -= replaced
    answer[0].merged += replaced
    if merge.single:
        raised.append(merge.row)
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
            newest[2 * symbol + LEFT] = newest[2 * symbol + RIGHT] = -1
    scores = _complete(pairs, Scores(frequency, newest, older), spelling, base_merges, n_rows)
    if size:  # the parts have become less frequent, so the score of each of their pairs rises
        for i in raised:
            link(scores.newest, scores.older, pairs.rows[i].key, i)
        frequency[merge.new] += replaced
        for symbol in (merge.left, merge.right):
            frequency[symbol] -= replaced
            raise_pairs(pairs, scores, symbol, min_frequency, raised)
    return pairs, scores, spelling, notes, raised


@compiled
def _row_of_pair(pairs, scores, spelling, base_merges, key):
    """The row of a pair that need not occur in the text; returns the new state as well."""
    n_rows, pairs = pairs.filled[0], reserve(pairs, 1, 0)
    i = row_of(pairs.table, pairs.rows, pairs.filled, key)
    return pairs, _complete(pairs, scores, spelling, base_merges, n_rows), i


# --- the loop -------------------------------------------------------------------------------------
@compiled
def _remember(pairs, i, result, rank):
    """Store what a pair becomes: as a merge if it has a rank, or that it is refused.

    A function of its own, as writes of a generator into rows are lost (numba 0.68.1).
    """
    if result < 0:
        pairs.rows[i].count = REFUSED
    elif rank > 0:
        pairs.rows[i].rank, pairs.rows[i].result = rank, result


@compiled
def merge_loop(pairs, text, spelling, base_merges, scored, new_from, min_frequency, answer):
    """Yield the best pair and its count until `answer` ends it; the caller's `answer` names its result.

    Or it directs the loop to merge another pair, which need not occur yet.

    The best pair has the highest priority, ties going to the lower tie number, among the pairs that
    occur `min_frequency` times. With `new_from` >= 0, symbols from this ID on are new; see
    `learn_merges` for merges into older ones. The caller must end the loop: numba frees its memory only
    when the generator returns.
    """
    scores = _complete(pairs, start_scores(text, scored), spelling, base_merges, 0)
    stats = np.zeros(2 * max(1, 1 + text.max()), NEIGHBOUR)
    empty = np.empty(0, np.int64)
    notes = Notes(stats, empty, np.empty(0, np.int32), np.empty(0, pairs.occurrences.dtype))
    heap = [(0.0, np.int64(0), np.int64(0)) for _ in range(0)]
    rank, newest = np.int64(len(base_merges.results)), np.int64(new_from - 1)
    i, limit = _best(heap, pairs, scores, spelling, min_frequency, np.inf)
    while i >= 0:
        # 1. Ask what the pair becomes, unless it has a base merge.
        new = pairs.rows[i].result
        left, right = both_symbols(pairs.rows[i].key)
        if pairs.rows[i].rank == 0:
            yield left, right, pairs.rows[i].count
            if answer[0].ends:
                return
            new = np.int32(answer[0].becomes)
            if answer[0].directed and answer[0].pair != pairs.rows[i].key:
                _push(heap, pairs, scores.frequency, (i,), min_frequency, 0.0)
                pair = answer[0].pair
                pairs, scores, i = _row_of_pair(pairs, scores, spelling, base_merges, pair)
                left, right = both_symbols(pair)
            if new >= 0 and new_from >= 0:
                rank += 1
            _remember(pairs, i, new, rank if new_from >= 0 else 0)
        # 2. Merge it, and push the pairs that rose. A merge into an older symbol is `single`, at most
        #    one per word and visit, as that symbol may be merged with its neighbour at once.
        if new >= 0:
            merge = Merge(i, left, right, new, new_from >= 0 and new <= newest)
            newest = max(newest, np.int64(new))
            pairs, scores, spelling, notes, raised = _merge_pair(
                pairs, text, scores, spelling, base_merges, notes, merge, min_frequency, answer
            )
            _push(heap, pairs, scores.frequency, raised, min_frequency, limit)
        # 3. Find the next.
        i, limit = _best(heap, pairs, scores, spelling, min_frequency, limit)
