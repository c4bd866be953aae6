"""Applying merges to unique pre-tokens, compiled.

Words are flat: one array of symbol ids, and the offsets at which each word begins.
"""

import heapq
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from .compiled import compiled, index_keys, pair_key, slot_of
from .library import Library, opened
from .parts import BYTE_TOKENS, Parts, read_parts
from .token_bytes import code_points

# --- applying merges ----------------------------------------------------------------------------
MANY = 20_000  # words, from which on two threads are faster than one
SHORT = 64  # symbols of a word, in which the best pair is found faster without a heap
NO_MERGE = np.int64(2**31 - 1)  # a rank behind all others
MergeTable = namedtuple("MergeTable", "table keys results")


def merge_table(merges: np.ndarray | MergeTable) -> MergeTable:
    """Index merges (int32 rows of left, right, result) by their pair, for ``segment``, if need be.

    >>> merge_table(np.array([[0, 1, 2]], np.int32)).results.tolist()
    [2]
    """
    if isinstance(merges, MergeTable):
        return merges
    keys = (merges[:, 0].astype(np.int64) << 32) | merges[:, 1]
    size = 1 << max(5, 1 + len(keys).bit_length())
    return MergeTable(index_keys(keys, len(keys), size), keys, np.ascontiguousarray(merges[:, 2]))


def merges_of(parts: Parts) -> MergeTable:
    """Index the merges of a tokenizer, once for these parts and for copies with the same merges.

    >>> from tokenizers import Tokenizer, models
    >>> merges_of(read_parts(Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])))).results
    array([2], dtype=int32)
    """
    known = vars(parts)
    if "merge_table" not in known:
        known["merge_table"] = merge_table(parts.merges)
    return known["merge_table"]


@compiled
def _rank(merges, left, right):
    """The rank of a pair's merge, or NO_MERGE."""
    rank = merges.table[slot_of(merges.table, merges.keys, pair_key(left, right))]
    return rank if rank >= 0 else NO_MERGE


@compiled
def ranks_of(rows, merges):
    """The rank that each row's pair has among merges, NO_MERGE for pairs that are not among them."""
    ranks = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        ranks[i] = _rank(merges, rows[i, 0], rows[i, 1])
    return ranks


@compiled
def _merge_short(symbol, n, rank, merges):
    """Merge in the first `n` of `symbol`: how many are left, and the last merge's rank or -1.

    `rank[j]` is that of the pair at `j`; the best is looked for from left to right each time.
    """
    last = -1
    for j in range(n - 1):
        rank[j] = _rank(merges, symbol[j], symbol[j + 1])
    while n > 1:
        best = 0
        for j in range(1, n - 1):
            if rank[j] < rank[best]:
                best = j
        if rank[best] == NO_MERGE:
            break
        last = rank[best]
        n -= 1
        symbol[best] = merges.results[last]
        for j in range(best + 1, n):
            symbol[j], rank[j - 1] = symbol[j + 1], rank[j]
        if best > 0:
            rank[best - 1] = _rank(merges, symbol[best - 1], symbol[best])
        if best < n - 1:
            rank[best] = _rank(merges, symbol[best], symbol[best + 1])
    return n, last


@compiled
def _merge_long(symbol, n, merges):
    """As `_merge_short`, with a heap: the time grows little faster than the word."""
    before, after = np.arange(n) - 1, np.arange(n) + 1  # neighbours that are left
    heap = [np.int64(0) for _ in range(0)]  # of rank and position, some out of date
    for j in range(n - 1):
        heapq.heappush(heap, _rank(merges, symbol[j], symbol[j + 1]) << 32 | j)
    last = -1
    while len(heap) > 0:
        top = heapq.heappop(heap)
        rank, j = top >> 32, top & 0xFFFFFFFF
        if rank == NO_MERGE:
            break
        k = after[j]
        if symbol[j] < 0 or k == n or rank != _rank(merges, symbol[j], symbol[k]):
            continue
        last = rank
        symbol[j], symbol[k], after[j] = merges.results[rank], -1, after[k]
        if after[j] < n:
            before[after[j]] = j
            heapq.heappush(heap, _rank(merges, symbol[j], symbol[after[j]]) << 32 | j)
        if before[j] >= 0:
            heapq.heappush(heap, _rank(merges, symbol[before[j]], symbol[j]) << 32 | before[j])
    m = 0
    for j in range(n):
        if symbol[j] >= 0:
            symbol[m] = symbol[j]
            m += 1
    return m, last


@compiled
def _segment(symbols, offsets, merges, out, lengths, last):
    """Merge within each word, always the pair of best rank, the leftmost of equals.

    Writes the tokens into `out`, how many each word has into `lengths`, and into `last` the rank of
    the last merge in each, or -1.
    """
    rank, written = np.empty(SHORT, np.int64), 0
    for w in range(len(offsets) - 1):
        n = offsets[w + 1] - offsets[w]
        symbol = out[written : written + n]
        for j in range(n):
            symbol[j] = symbols[offsets[w] + j]
        if n <= SHORT:
            lengths[w], last[w] = _merge_short(symbol, n, rank, merges)
        else:
            lengths[w], last[w] = _merge_long(symbol, n, merges)
        written += lengths[w]
    return written


def segment(symbols, offsets, merges) -> tuple[np.ndarray, np.ndarray]:
    """Apply merges to every word and return the tokens, flat, with their offsets.

    ``symbols`` (int32) and ``offsets`` (int64, one more than words) are the words; ``merges`` is a
    ``MergeTable`` or an int32 array of rows left, right, result. The tokens are those of the
    library's BPE with merge skipping off.

    >>> import numpy as np
    >>> ids, offsets = segment(np.array([0, 1, 0], np.int32), np.array([0, 3]),
    ...                        np.array([[0, 1, 2]], np.int32))
    >>> ids.tolist(), offsets.tolist()
    ([2, 0], [0, 2])
    """
    ids, offsets, _ = segment_tracing(symbols, offsets, merges)
    return ids, offsets


def segment_tracing(symbols, offsets, merges) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Apply merges as ``segment`` does, and return each word's last merge rank (-1 if none) as well.

    >>> import numpy as np
    >>> merges = np.array([[0, 1, 2], [2, 0, 3]], np.int32)
    >>> segment_tracing(np.array([0, 1, 0], np.int32), np.array([0, 3]), merges)[2].tolist()
    [1]
    """
    merges = merge_table(merges)
    symbols = np.ascontiguousarray(symbols, np.int32)
    offsets = np.ascontiguousarray(offsets, np.int64)
    lengths = np.zeros(len(offsets) - 1, np.int64)
    last = np.full(len(lengths), -1, np.int32)

    def part(first: int, end: int) -> np.ndarray:
        out = np.empty(offsets[end] - offsets[first], np.int32)
        n = _segment(
            symbols, offsets[first : end + 1], merges, out, lengths[first:end], last[first:end]
        )
        return out[:n]

    if len(lengths) < MANY:
        tokens = part(0, len(lengths))
    else:
        middle = len(lengths) // 2
        with ThreadPoolExecutor(2) as pool:  # the compiled loop lets go of the interpreter's lock
            tokens = np.concatenate([*pool.map(part, (0, middle), (middle, len(lengths)))])
    return tokens, np.concatenate([[0], np.cumsum(lengths)]), last


def sum_by_id(ids: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Sum the weights of each id's occurrences: an int64 array of ``size``.

    >>> import numpy as np
    >>> sum_by_id(np.array([2, 0, 2]), np.array([5, 1, 3]), 4).tolist()
    [1, 0, 8, 0]
    """
    counts = np.zeros(size, np.int64)
    np.add.at(counts, ids, weights)
    return counts


def symbols_of(words: list[str] | pa.Array, parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids that a BPE encoder starts from: one per character, or the character's bytes.

    ``words`` are pre-tokens, as the pre-tokenizer writes them (a list, or an Arrow array of large
    strings). Returns ids (int32, flat) and offsets (int64, one more than words). A character that the
    vocabulary lacks becomes its byte tokens where the model falls back to them, else the unknown
    token, else nothing, as in the library.

    >>> from tokenizers import Tokenizer, models
    >>> parts = read_parts(Tokenizer(models.BPE({"a": 0, "b": 1}, [])))
    >>> [array.tolist() for array in symbols_of(["ab", "bbc"], parts)]
    [[0, 1, 1, 1], [0, 2, 4]]
    """
    codes, offsets = code_points(words)
    sizes = np.diff(offsets)
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
        raw = [parts.vocab.get(BYTE_TOKENS[byte]) for byte in chr(code).encode()]
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


def token_counts(tokenizer: Tokenizer | Parts, words, *, start=None) -> np.ndarray:
    """Count how often each id is produced on counted pre-tokens: an int64 array indexed by id.

    ``words`` are ``Pretokens``, counted by the tokenizer's rules. The model is BPE, WordPiece or
    Unigram; merge skipping is as the tokenizer has it. Added tokens are not searched for in the
    text. ``start`` (BPE only) is what ``segment`` made of the words by the first of the merges.
    Raises TypeError for anything but ``Pretokens``.

    >>> from tokhelpers.train.trainers import train_byte_level_bpe
    >>> from tokhelpers.text.counting import counted
    >>> tokenizer = train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> counts = token_counts(tokenizer, counted(["bat"], tokenizer))
    >>> int(counts[tokenizer.token_to_id("ba")]), int(counts.sum())
    (1, 2)
    """
    if not hasattr(words, "counts"):
        raise TypeError(
            f"counted pre-tokens are needed, got {type(words).__name__}: count a text with "
            "count_pretokens(corpus, tokenizer)"
        )
    if isinstance(parts := opened(tokenizer), Library):
        return parts.token_counts(words)
    parts = read_parts(parts)
    start = symbols_of(words.strings, parts) if start is None else start
    ids, offsets = segment(*start, merges_of(parts))
    weights = np.repeat(words.counts, np.diff(offsets))
    if parts.merge_skipping:
        whole = np.array([parts.vocab.get(word, -1) for word in words.words], np.int64)
        merged = np.repeat(whole < 0, np.diff(offsets))
        ids = np.concatenate([ids[merged], whole[whole >= 0]])
        weights = np.concatenate([weights[merged], words.counts[whole >= 0]])
    return sum_by_id(ids, weights, parts.next_id)
