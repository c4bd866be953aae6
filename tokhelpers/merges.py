"""The two compiled loops: learning merges, and applying them to unique pre-tokens.

Words are flat: one array of symbol ids, and the offsets at which each word begins.
"""

import heapq
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from .pretokens import Pretokens
from .surgery import Parts


# --- a hash table from a pair of ids to a number ------------------------------------------------
@njit(cache=True, nogil=True)
def _key(a, b):
    return (np.int64(a) << 32) | np.int64(b)


@njit(cache=True, nogil=True)
def _slot(table, keys, key):
    """Where `key` stands in the open-addressing `table` of indices into `keys`, or would stand."""
    mask = np.uint64(len(table) - 1)
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)  # its high half depends on the whole key
    i = mixed >> np.uint64(32) & mask
    while table[i] >= 0 and keys[table[i]] != key:
        i = (i + np.uint64(1)) & mask
    return i


@njit(cache=True)
def _index_keys(keys, n, size):
    """A table over the first `n` keys; of equal keys the last wins, as in the library."""
    table = np.full(size, -1, np.int32)
    for i in range(n):
        table[_slot(table, keys, keys[i])] = i
    return table


def _power_of_two(n: int) -> int:
    return 1 << max(4, int(n).bit_length())


# --- applying merges ----------------------------------------------------------------------------
MergeTable = namedtuple("MergeTable", "table keys results")


def merge_table(merges: np.ndarray) -> MergeTable:
    """Index merges (rows of left, right, result) by their pair, for ``segment``."""
    keys = (merges[:, 0].astype(np.int64) << 32) | merges[:, 1]
    return MergeTable(
        _index_keys(keys, len(keys), 2 * _power_of_two(len(keys))),
        keys,
        np.ascontiguousarray(merges[:, 2]),
    )


@njit(cache=True, nogil=True)
def _push_pair(heap, merges, left, right, position):
    rank = merges.table[_slot(merges.table, merges.keys, _key(left, right))]
    if rank >= 0:
        heapq.heappush(heap, (np.int64(rank) << 32) | np.int64(position))


@njit(cache=True, nogil=True)
def _segment(symbols, offsets, merges, out, lengths):
    """Merge within each word, always the pair of best rank, the leftmost of equals."""
    longest = 1
    for w in range(len(offsets) - 1):
        longest = max(longest, offsets[w + 1] - offsets[w])
    symbol = np.empty(longest, np.int32)
    before = np.empty(longest, np.int64)
    after = np.empty(longest, np.int64)
    heap = [np.int64(0) for _ in range(0)]  # of rank and position; empty again after each word
    written = 0
    for w in range(len(offsets) - 1):
        n = offsets[w + 1] - offsets[w]
        for j in range(n):
            symbol[j] = symbols[offsets[w] + j]
            before[j] = j - 1
            after[j] = j + 1 if j + 1 < n else -1
            if j > 0:
                _push_pair(heap, merges, symbol[j - 1], symbol[j], j - 1)
        while len(heap) > 0:
            top = heapq.heappop(heap)
            j = top & 0xFFFFFFFF
            result = merges.results[top >> 32]
            k = after[j]
            if symbol[j] < 0 or k < 0:
                continue
            rank = merges.table[_slot(merges.table, merges.keys, _key(symbol[j], symbol[k]))]
            if rank < 0 or merges.results[rank] != result:
                continue
            symbol[j] = result
            symbol[k] = -1
            after[j] = after[k]
            if after[k] >= 0:
                before[after[k]] = j
                _push_pair(heap, merges, result, symbol[after[k]], j)
            if before[j] >= 0:
                _push_pair(heap, merges, symbol[before[j]], result, before[j])
        lengths[w] = 0
        for j in range(n):
            if symbol[j] >= 0:
                out[written] = symbol[j]
                written += 1
                lengths[w] += 1
    return written


def segment(symbols, offsets, merges) -> tuple[np.ndarray, np.ndarray]:
    """Apply merges to every word and return the tokens, flat, with their offsets.

    ``symbols`` int32 and ``offsets`` int64 (one more than words) hold the words; ``merges`` is a
    ``MergeTable`` or an array of rows left, right, result. Gives what the library's BPE gives with
    merge skipping off.

    >>> import numpy as np
    >>> ids, offsets = segment(np.array([0, 1, 0], np.int32), np.array([0, 3]),
    ...                        np.array([[0, 1, 2]], np.int32))
    >>> ids.tolist(), offsets.tolist()
    ([2, 0], [0, 2])
    """
    if not isinstance(merges, MergeTable):
        merges = merge_table(merges)
    symbols = np.ascontiguousarray(symbols, np.int32)
    offsets = np.ascontiguousarray(offsets, np.int64)
    lengths = np.zeros(len(offsets) - 1, np.int64)

    def part(first: int, last: int) -> np.ndarray:
        out = np.empty(offsets[last] - offsets[first], np.int32)
        n = _segment(symbols, offsets[first : last + 1], merges, out, lengths[first:last])
        return out[:n]

    middle = len(lengths) // 2
    with ThreadPoolExecutor(2) as pool:  # the compiled loop lets go of the interpreter's lock
        halves = pool.map(part, (0, middle), (middle, len(lengths)))
    return np.concatenate(list(halves)), np.concatenate([[0], np.cumsum(lengths)])


def symbols_of(words: list[str], parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """The ids a BPE encoder starts from: one a character, or its bytes where it falls back to them.

    ``words`` are pre-tokens in stored form. Returns ids (int32, flat) and offsets (int64, one
    more than words). Where the model has neither the character nor byte tokens, the unknown token
    stands for it; where it has none of these, nothing does, as in the library.
    """
    codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    sizes = np.fromiter(map(len, words), np.int64, len(words))
    last = max(map(ord, parts.alphabet), default=0)
    table = np.full(1 + max(last, int(codes.max(initial=0))), -1, np.int32)
    for character, i in parts.alphabet.items():
        table[ord(character)] = i
    ids = table[codes]
    unknown = np.flatnonzero(ids < 0)
    if len(unknown):
        ids, sizes = _fall_back(codes, ids, sizes, unknown, parts)
    return ids, np.concatenate([[0], np.cumsum(sizes)])


def _fall_back(codes, ids, sizes, unknown, parts):
    """Replace characters the vocabulary lacks by byte tokens, by the unknown token, or by nothing."""
    model = parts.settings["model"]
    unk = parts.vocab.get(model.get("unk_token"))
    pieces = {}
    for code in np.unique(codes[unknown]).tolist():
        raw = [parts.vocab.get(f"<0x{byte:02X}>") for byte in chr(code).encode()]
        usable = model.get("byte_fallback") and None not in raw
        pieces[code] = raw if usable else [unk] if unk is not None else []
    word = np.repeat(np.arange(len(sizes)), sizes)
    replaced, last = [], -2
    for at in unknown.tolist():
        piece = pieces[codes[at]]
        if piece == [unk]:  # a run of unknown characters is one unknown token, if the model says so
            fused = model.get("fuse_unk") and last == at - 1 and word[last] == word[at]
            piece, last = [] if fused else piece, at
        replaced.append(piece)
    repeats = np.ones(len(ids), np.int64)
    repeats[unknown] = [len(piece) for piece in replaced]
    longer = np.repeat(ids, repeats)
    longer[longer < 0] = np.array([i for piece in replaced for i in piece], np.int32)
    return longer, np.bincount(word, weights=repeats, minlength=len(sizes)).astype(np.int64)


# --- learning merges ----------------------------------------------------------------------------
# count of each pair, and a linked list of the words it was seen in
Pairs = namedtuple("Pairs", "table keys counts heads words nexts used")
REFUSED = np.int64(-(2**62))


@njit(cache=True)
def _longer(array, size, fill):
    grown = np.full(size, fill, array.dtype)
    grown[: len(array)] = array
    return grown


@njit(cache=True)
def _reserve(p, n):
    """The same pairs with room for `n` more pairs and sightings."""
    pairs, sightings = p.used
    if pairs + n <= len(p.keys) and sightings + n <= len(p.words):
        return p
    keys, counts, heads, table = p.keys, p.counts, p.heads, p.table
    words, nexts = p.words, p.nexts
    if pairs + n > len(keys):
        size = 2 * (pairs + n)
        keys, counts, heads = (
            _longer(keys, size, -1),
            _longer(counts, size, 0),
            _longer(heads, size, -1),
        )
        power = len(table)
        while power < 2 * size:
            power *= 2
        table = _index_keys(keys, pairs, power)
    if sightings + n > len(words):
        size = (sightings + n) * 3 // 2
        words, nexts = _longer(words, size, -1), _longer(nexts, size, -1)
    return Pairs(table, keys, counts, heads, words, nexts, p.used)


@njit(cache=True)
def _count(p, key, word, amount):
    """Add to the count of a pair; a pair that came to be is noted as seen in `word`."""
    slot = _slot(p.table, p.keys, key)
    if p.table[slot] < 0:
        p.table[slot] = p.used[0]
        p.keys[p.used[0]] = key
        p.used[0] += 1
    i = p.table[slot]
    p.counts[i] += amount
    if amount > 0 and (p.heads[i] < 0 or p.words[p.heads[i]] != word):
        node = p.used[1]
        p.words[node] = word
        p.nexts[node] = p.heads[i]
        p.heads[i] = node
        p.used[1] += 1
    return i


@njit(cache=True)
def _merge_word(p, s, a, b, new, word, weight, risen, used, fresh):
    """Replace the pair in one word, left to right, and keep the counts exact. The new length.

    `used` (the old symbol belongs to an occurrence) and `fresh` (the symbol is new) are scratch
    space, as long as the longest word.
    """
    n = len(s)
    used[:n] = False
    j = 0
    while j < n - 1:
        if s[j] == a and s[j + 1] == b:
            used[j] = used[j + 1] = True
            j += 1
        j += 1
    for j in range(n - 1):
        if used[j] or used[j + 1]:
            _count(p, _key(s[j], s[j + 1]), word, -weight)
    m = j = 0
    while j < n:
        fresh[m] = used[j]
        s[m] = new if used[j] else s[j]
        j += 2 if used[j] else 1
        m += 1
    for j in range(m - 1):
        if fresh[j] or fresh[j + 1]:
            risen.append(_count(p, _key(s[j], s[j + 1]), word, weight))
    return m


@njit(cache=True)
def _merge_loop(symbols, offsets, weights, reply):
    """Yield the best pair and its count, again and again; `reply[0]` says what it becomes.

    A reply below zero refuses the pair for good. Best is the highest count, then the smaller pair.
    """
    n_words = len(weights)
    ends = offsets[1:].copy()
    room = np.int64(1024)
    p = Pairs(
        np.full(4 * room, -1, np.int32), np.full(room, -1, np.int64), np.zeros(room, np.int64),
        np.full(room, -1, np.int64), np.empty(room, np.int32), np.empty(room, np.int64),
        np.zeros(2, np.int64),
    )  # fmt: skip
    for w in range(n_words):
        p = _reserve(p, ends[w] - offsets[w])
        for j in range(offsets[w], ends[w] - 1):
            _count(p, _key(symbols[j], symbols[j + 1]), w, weights[w])
    longest = 1
    for w in range(n_words):
        longest = max(longest, ends[w] - offsets[w])
    used, fresh = np.zeros(longest, np.bool_), np.zeros(longest, np.bool_)
    heap = [(-p.counts[i], p.keys[i]) for i in range(p.used[0]) if p.counts[i] > 0]
    heapq.heapify(heap)
    while len(heap) > 0:
        count, key = heapq.heappop(heap)
        i = p.table[_slot(p.table, p.keys, key)]
        if p.counts[i] != -count:  # stale: it comes back with today's count
            if p.counts[i] > 0:
                heapq.heappush(heap, (-p.counts[i], key))
            continue
        a, b = np.int32(key >> 32), np.int32(key & 0xFFFFFFFF)
        yield a, b, -count
        new = np.int32(reply[0])
        if new < 0:
            p.counts[i] = REFUSED
            continue
        risen = [np.int32(0) for _ in range(0)]
        node = p.heads[i]
        while node >= 0:
            w = p.words[node]
            p = _reserve(p, 2 * (ends[w] - offsets[w]))
            s = symbols[offsets[w] : ends[w]]
            n = _merge_word(p, s, a, b, new, w, weights[w], risen, used, fresh)
            ends[w] = offsets[w] + n
            node = p.nexts[node]
        risen.sort()
        for j in range(len(risen)):
            r = risen[j]
            if p.counts[r] > 0 and (j == 0 or risen[j - 1] != r):
                heapq.heappush(heap, (-p.counts[r], p.keys[r]))


def learn_merges(
    symbols: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    becomes: Callable[[int, int], int],
    *,
    min_frequency: int = 1,
) -> Iterator[tuple[int, int, int, int]]:
    """Learn merges: again and again the most frequent pair of neighbours becomes one symbol.

    ``symbols`` (int32, flat) and ``offsets`` (int64) hold the unique words in their present
    segmentation, ``counts`` (int64) how often each occurs. ``becomes(left, right)`` gives the id
    of the merged symbol, new or old, or a negative number to refuse the pair for good. Yields
    left, right, result and count of each merge until no pair reaches ``min_frequency``; stop
    taking when you have enough. Pairs are counted at every position (``aaa`` holds ``a a`` twice),
    replaced from left to right; ties go to the smaller pair of ids.

    Source: Sennrich et al. 2016; ties as in the Hugging Face trainer.

    >>> import numpy as np
    >>> words, offsets = np.array([0, 1, 0, 1, 2], np.int32), np.array([0, 2, 5])
    >>> new = iter(range(3, 9))
    >>> list(learn_merges(words, offsets, np.array([5, 1]), lambda a, b: next(new)))
    [(0, 1, 3, 6), (3, 2, 4, 1)]
    """
    symbols = np.array(symbols, np.int32)  # a copy: the loop merges in place
    reply = np.zeros(1, np.int64)
    loop = _merge_loop(
        symbols,
        np.ascontiguousarray(offsets, np.int64),
        np.ascontiguousarray(counts, np.int64),
        reply,
    )
    for a, b, count in loop:
        if count < min_frequency:
            return
        reply[0] = becomes(a, b)
        if reply[0] >= 0:
            yield a, b, int(reply[0]), count


def learn_tokens(
    words: Pretokens,
    parts: Parts,
    n_tokens: int,
    *,
    min_frequency: int = 1,
    max_token_length: int | None = None,
) -> tuple[list[str], list[tuple[str, str]], list[int]]:
    """Continue the training of a BPE tokenizer on counted pre-tokens.

    The pre-tokens are segmented by the merges there are (no merge skipping), then merges are
    learned until ``n_tokens`` new tokens stand, or earlier when no pair reaches ``min_frequency``.
    A merge into a token that is in the vocabulary already is kept and counts as no new token.
    ``max_token_length`` is in characters of the stored form (bytes, for byte-level tokenizers).
    Returns tokens, merges and the frequency of each merge, in learned order.

    Source: Purason et al. 2025, section 3.1.
    """
    ids, offsets = segment(*symbols_of(words.words, parts), parts.merges)
    vocab = dict(parts.vocab)
    name = dict(parts.tokens)
    first = parts.next_id
    tokens, merges, frequencies = [], [], []

    def becomes(left: int, right: int) -> int:
        token = name[left] + name[right]
        if max_token_length is not None and len(token) > max_token_length:
            return -1
        if token not in vocab:
            vocab[token] = first + len(tokens)
            name[vocab[token]] = token
            tokens.append(token)
        return vocab[token]

    learned = learn_merges(ids, offsets, words.counts, becomes, min_frequency=min_frequency)
    while len(tokens) < n_tokens and (merge := next(learned, None)):
        left, right, _, count = merge
        merges.append((name[left], name[right]))
        frequencies.append(count)
    return tokens, merges, frequencies
