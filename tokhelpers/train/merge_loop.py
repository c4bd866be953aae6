"""The one compiled loop behind every BPE trainer, WordPiece and continued training.

Words are flat: one array of symbol ids, and the offsets at which each word begins. Pairs wait in a
heap; each knows where it was seen, so that a merge touches the words that hold it and no others.
"""

import heapq
from collections import namedtuple

import numpy as np
from numba import njit

from ..tokenizer.segmentation import index_keys, pair_key, slot_of

# A row a pair: its key, count, what decides a tie, where its form stands, the last turn in which it
# rose, its last sighting and the word of that, and the rank of its merge, from 1 on, if that is
# known (its result then stands in AT). Sightings are linked lists: rows of a word in which a pair
# was seen, and the sighting before; `beside` links pairs with the same left or right part.
Pairs = namedtuple("Pairs", "table rows beside sightings filled")
KEY, COUNT, TIE, AT, TURN, HEAD, LAST, RANK = 0, 1, 2, 3, 4, 5, 6, 7
COLUMNS = 8  # a row is a cache line
REFUSED = np.int64(-(2**62))


@njit(cache=True)
def _longer(rows, size):
    grown = np.zeros((size, rows.shape[1]), rows.dtype)
    grown[: len(rows)] = rows
    return grown


@njit(cache=True)
def _reserve(p, n):
    """The same pairs with room for `n` more pairs and sightings."""
    table, rows, beside, sightings = p.table, p.rows, p.beside, p.sightings
    if p.filled[0] + n > len(rows):
        size = 2 * (p.filled[0] + n)
        rows = _longer(rows, size)
        if len(beside):
            beside = _longer(beside, size)
        power = len(table)
        while power < 2 * size:
            power *= 2
        table = index_keys(rows, p.filled[0], power)
    if p.filled[1] + n > len(sightings):
        sightings = _longer(sightings, (p.filled[1] + n) * 3 // 2)
    return Pairs(table, rows, beside, sightings, p.filled)


# the text of the words, as ranks of its symbols from 1 on, and the bits that a rank takes
Form = namedtuple("Form", "text bits")
FORM_BITS = 44
NO_FORM = Form(np.zeros(0, np.int32), 1)  # where ties go by ids


def form_of(symbols: np.ndarray) -> Form:
    """The text of words that are segmented into single characters."""
    ranks = np.cumsum(np.bincount(symbols) > 0).astype(np.int32)
    return Form(ranks[symbols], int(ranks[-1]).bit_length())


@njit(cache=True)
def _packed(form, start, end):
    """The length of a form and its first symbols, as a number that sorts as they do."""
    packed, room = np.int64(min(end - start, 2**18)), FORM_BITS
    for j in range(start, end):
        if room < form.bits:
            break
        packed = packed << form.bits | form.text[j]
        room -= form.bits
    return packed << room


@njit(cache=True)
def _first_form(heap, p, form, i, priority, length):
    """Of the pairs that still tie with `i`, the one whose form comes first; the rest goes back."""
    rows, tie, passed = p.rows, p.rows[i, TIE], [np.int64(0) for _ in range(0)]
    while len(heap) > 0 and heap[0][0] == priority and heap[0][1] == tie:
        k = heapq.heappop(heap)[2]
        if k == i or np.float64(-rows[k, COUNT]) != priority:
            if k != i and rows[k, COUNT] > 0:
                heapq.heappush(heap, (np.float64(-rows[k, COUNT]), tie, k))
            continue
        for j in range(length):
            difference = form.text[rows[k, AT] + j] - form.text[rows[i, AT] + j]
            if difference != 0:
                if difference < 0:
                    i, k = k, i
                break
        passed.append(k)
    for k in passed:
        heapq.heappush(heap, (priority, tie, k))
    return i


@njit(cache=True)
def _see(table, rows, sightings, filled, key, start, end, word, amount):
    """Count a pair in `word`, where its form stands from `start` to `end`. Its row, new or old."""
    slot = slot_of(table, rows, key)
    i = np.int64(table[slot])
    if i < 0:
        i = filled[0]
        table[slot] = i
        filled[0] += 1
        rows[i, KEY], rows[i, AT], rows[i, TIE] = key, start, end  # see _finish
        rows[i, HEAD] = rows[i, LAST] = -1
    rows[i, COUNT] += amount
    if rows[i, LAST] != word:
        node = filled[1]
        filled[1] += 1
        sightings[node, 0], sightings[node, 1] = word, rows[i, HEAD]
        rows[i, HEAD], rows[i, LAST] = node, word
    return i


@njit(cache=True)
def _finish(p, form, firsts, known, had):
    """Say of the rows from `had` on what decides a tie and whether their merge is known, and link
    those that share a symbol."""
    for i in range(had, p.filled[0]):
        key = p.rows[i, KEY]
        if len(known.results):
            rank = known.table[slot_of(known.table, known.keys, key)]
            if rank >= 0:
                p.rows[i, RANK], p.rows[i, AT] = rank + 1, known.results[rank]
        end = p.rows[i, TIE]
        p.rows[i, TIE] = _packed(form, p.rows[i, AT], end) if len(form.text) else key
        if len(firsts):
            for side, symbol in enumerate((key >> 32, key & 0xFFFFFFFF)):
                p.beside[i, side] = firsts[symbol, side]
                firsts[symbol, side] = i


@njit(cache=True)
def _merge_words(
    table,
    rows,
    sightings,
    filled,
    symbols,
    starts,
    bounds,
    used,
    fresh,
    pair,
    new,
    turn,
    node,
    single,
    risen,
):
    """Replace a pair in the words of its sightings from `node` on, and keep the counts exact.

    From left to right in each word, or with `single` the first occurrence in each. `used` (the old
    symbol belongs to an occurrence) and `fresh` (the symbol is new) are scratch space, as long as
    the longest word. Rows that rise are listed in `risen`. Stops where there may be no room.
    Returns the sighting it stands at, or -1 at the end, and how many occurrences it replaced. Takes
    arrays one by one: in tuples each use would count a reference, which took half of the time.
    """
    a, b = np.int32(rows[pair, KEY] >> 32), np.int32(rows[pair, KEY] & 0xFFFFFFFF)
    merged = np.int64(0)
    while node >= 0:
        w = sightings[node, 0]
        begin, end, weight = bounds[w, 0], bounds[w, 1], bounds[w, 3]
        room = 2 * (end - begin)
        if filled[0] + room > len(rows) or filled[1] + room > len(sightings):
            break
        node = sightings[node, 1]
        first, last, j = -1, -1, begin
        while j < end - 1:
            used[j - begin] = symbols[j] == a and symbols[j + 1] == b
            if used[j - begin]:
                first = j if first < 0 else first
                last = j = j + 1
                used[j - begin] = True
                if single:
                    used[j + 1 - begin : end - begin] = False
                    break
            j += 1
        if first < 0:  # merged away since it was seen here
            continue
        used[end - 1 - begin] = False
        for j in range(max(first - 1, begin), min(last + 1, end - 1)):
            if symbols[j] == a and symbols[j + 1] == b:
                rows[pair, COUNT] -= weight
            elif used[j - begin] or used[j + 1 - begin]:
                i = table[slot_of(table, rows, pair_key(symbols[j], symbols[j + 1]))]
                rows[i, COUNT] -= weight
        m = j = first
        while j < end:
            fresh[m - begin] = used[j - begin]
            symbols[m] = new if used[j - begin] else symbols[j]
            if len(starts):
                starts[m] = starts[j]
            j += 2 if used[j - begin] else 1
            m += 1
        bounds[w, 1] = m
        merged += (end - m) * weight
        for j in range(max(first - 1, begin), m - 1):
            if fresh[j - begin] or fresh[j + 1 - begin]:
                start = until = np.int64(0)
                if len(starts):
                    start, until = starts[j], starts[j + 2] if j + 2 < m else bounds[w, 2]
                key = pair_key(symbols[j], symbols[j + 1])
                i = _see(table, rows, sightings, filled, key, start, until, w, weight)
                if rows[i, TURN] != turn:
                    rows[i, TURN] = turn
                    risen.append(i)
    return node, merged


@njit(cache=True)
def _merge_pair(p, firsts, form, known, words, frequency, i, new, turn, single, used, fresh):
    """Replace pair `i` in all words; the pairs, and the rows that may have risen."""
    had, risen = p.filled[0], [np.int64(0) for _ in range(0)]
    node, merged = p.rows[i, HEAD], np.int64(0)
    while node >= 0:
        node, n = _merge_words(
            p.table, p.rows, p.sightings, p.filled, words.symbols, words.starts, words.bounds,
            used, fresh, i, new, turn, node, single, risen,
        )  # fmt: skip
        merged += n
        if node >= 0:
            w = p.sightings[node, 0]
            p = _reserve(p, 2 * (words.bounds[w, 1] - words.bounds[w, 0]))
    _finish(p, form, firsts, known, had)
    if len(frequency):  # the parts are rarer now, so every pair with one of them scores higher
        a, b = p.rows[i, KEY] >> 32, p.rows[i, KEY] & 0xFFFFFFFF
        for symbol, sign in ((a, -1), (b, -1), (np.int64(new), 1)):
            frequency[symbol] += sign * merged
        for symbol in (a, b):
            for side in range(2):
                k = np.int64(firsts[symbol, side])
                while k >= 0:
                    if p.rows[k, COUNT] > 0 and p.rows[k, TURN] != turn:
                        p.rows[k, TURN] = turn
                        risen.append(k)
                    k = np.int64(p.beside[k, side])
    return p, risen


@njit(cache=True)
def _priority(rows, frequency, i):
    """A pair's count, or with symbol frequencies its score: the count over the product of these.

    A known merge goes before all counts, that of the lowest rank first.
    """
    if rows[i, RANK] > 0:
        return np.float64(2**52 - rows[i, RANK])
    if len(frequency) == 0:
        return np.float64(rows[i, COUNT])
    a, b = rows[i, KEY] >> 32, rows[i, KEY] & 0xFFFFFFFF
    return rows[i, COUNT] / (np.float64(frequency[a]) * np.float64(frequency[b]))


@njit(cache=True)
def _push(heap, rows, frequency, i, least):
    if rows[i, COUNT] >= (least if rows[i, RANK] == 0 else 1):
        heapq.heappush(heap, (-_priority(rows, frequency, i), rows[i, TIE], np.int64(i)))


@njit(cache=True)
def _remember(rows, i, result, rank):
    """Note what a pair becomes, if its merge has a rank; below zero it is refused for good.

    A function of its own: what the generator writes into rows itself is lost (numba 0.68.1).
    """
    if result < 0:
        rows[i, COUNT] = REFUSED
    elif rank > 0:
        rows[i, RANK], rows[i, AT] = rank, result


# bounds: where a word begins, where it ends by now, where it ended at first, and how often it occurs
Words = namedtuple("Words", "symbols starts bounds")


@njit(cache=True)
def merge_loop(symbols, offsets, weights, form, scored, known, first, least, reply):
    """Yield the best pair and its count, again and again; `reply[0]` says what it becomes.

    A reply below zero refuses the pair for good. Best is the highest priority, then the lower tie,
    among the pairs that occur `least` times. With `first` at least 0, symbols from there on are
    new; see `learn_merges` for what a merge into an older one brings with it.
    """
    starts = np.arange(len(form.text))  # where each symbol's first character stands
    words = Words(
        symbols, starts, np.column_stack((offsets[:-1], offsets[1:], offsets[1:], weights))
    )
    frequency, firsts = np.zeros(0, np.int64), np.full((0, 2), -1, np.int32)
    room = np.int64(1024)
    if scored:
        frequency = np.zeros(2 + symbols.max(), np.int64)
        firsts = np.full((len(frequency), 2), -1, np.int32)
    p = Pairs(
        np.full(4 * room, -1, np.int32),
        np.zeros((room, COLUMNS), np.int64),
        np.empty((room if scored else 0, 2), np.int32),
        np.empty((room, 2), np.int64),
        np.zeros(2, np.int64),
    )
    longest = 1
    for w in range(len(weights)):
        n = offsets[w + 1] - offsets[w]
        longest = max(longest, n)
        if p.filled[0] + n > len(p.rows) or p.filled[1] + n > len(p.sightings):
            p = _reserve(p, n)
        for j in range(offsets[w], offsets[w + 1] - 1):
            key = pair_key(symbols[j], symbols[j + 1])
            _see(p.table, p.rows, p.sightings, p.filled, key, j, j + 2, w, weights[w])
        if scored:
            for j in range(offsets[w], offsets[w + 1]):
                frequency[symbols[j]] += weights[w]
    _finish(p, form, firsts, known, 0)
    used, fresh = np.zeros(longest, np.uint8), np.zeros(longest, np.uint8)
    heap = [(0.0, np.int64(0), np.int64(0)) for _ in range(0)]
    for i in range(p.filled[0]):
        _push(heap, p.rows, frequency, i, least)
    turn, learned, newest = np.int64(0), np.int64(len(known.results)), np.int64(first - 1)
    while len(heap) > 0:
        priority, tie, i = heapq.heappop(heap)
        if p.rows[i, COUNT] < (least if p.rows[i, RANK] == 0 else 1):
            continue
        now = _priority(p.rows, frequency, i)
        if now != -priority:  # stale; one that rose has been pushed anew
            if now < -priority:
                _push(heap, p.rows, frequency, i, least)
            continue
        if len(form.text):
            i = _first_form(heap, p, form, i, priority, tie >> FORM_BITS)
        a, b = np.int32(p.rows[i, KEY] >> 32), np.int32(p.rows[i, KEY] & 0xFFFFFFFF)
        new = np.int32(p.rows[i, AT])
        if p.rows[i, RANK] == 0:
            yield a, b, p.rows[i, COUNT]
            new = np.int32(reply[0])
            if new >= 0 and first >= 0:
                learned += 1
            _remember(p.rows, i, new, learned if first >= 0 else 0)
        if new < 0:
            continue
        single = first >= 0 and new <= newest  # what comes about may take what stands next to it
        newest = max(newest, np.int64(new))
        if scored and new >= len(frequency):
            had, more = len(frequency), np.zeros(2 * new, np.int64)
            more[:had] = frequency
            frequency, firsts = more, _longer(firsts, 2 * new)
            firsts[had:] = -1
        turn += 1
        p, risen = _merge_pair(
            p, firsts, form, known, words, frequency, i, new, turn, single, used, fresh
        )
        if single:
            risen.append(i)
        for i in risen:
            _push(heap, p.rows, frequency, i, least)
