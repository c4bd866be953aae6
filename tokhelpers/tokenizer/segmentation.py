"""Segment unique pre-tokens by applying merges, in compiled code.

Words are flat: one array of symbol IDs, and the offset at which each word begins.
"""

import heapq
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from ..common.compiled import compiled, index_keys, pair_key, slot_of
from .token_bytes import BYTE_TOKENS, code_points, look_up

# --- applying merges ----------------------------------------------------------------------------
MANY = 20_000  # words from which on two threads are faster than one
SHORT = 64  # symbols of a word up to which the best pair is found faster without a heap
NO_MERGE = np.int64(2**31 - 1)  # a rank after all others
MergeTable = namedtuple("MergeTable", "table keys results")


def merge_table(merges: np.ndarray | MergeTable) -> MergeTable:
    """Index merges (int32 rows: left, right, result) by pair for ``segment``; a table is returned as it is.

    >>> merge_table(np.array([[0, 1, 2]], np.int32)).results.tolist()
    [2]
    """
    if isinstance(merges, MergeTable):
        return merges
    keys = (merges[:, 0].astype(np.int64) << 32) | merges[:, 1]
    size = 1 << max(5, 1 + len(keys).bit_length())
    return MergeTable(index_keys(keys, len(keys), size), keys, np.ascontiguousarray(merges[:, 2]))


@compiled
def _rank(table, keys, left, right):
    """The rank of a pair's merge, or NO_MERGE."""
    rank = table[slot_of(table, keys, pair_key(left, right))]
    return rank if rank >= 0 else NO_MERGE


@compiled
def ranks_of(rows, merges):
    """The rank of each row's pair among the merges, or NO_MERGE."""
    table, keys, _ = merges
    ranks = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        ranks[i] = _rank(table, keys, rows[i, 0], rows[i, 1])
    return ranks


@compiled
def _merge_short(symbol, n, rank, table, keys, results):
    """Merge in the first `n` of `symbol`; return how many are left, and the last merge's rank or -1.

    `rank[j]` is the rank of the pair at `j`; the best pair is searched from left to right each time.
    """
    last = -1
    for j in range(n - 1):
        rank[j] = _rank(table, keys, symbol[j], symbol[j + 1])
    while n > 1:
        best = 0
        for j in range(1, n - 1):
            if rank[j] < rank[best]:
                best = j
        if rank[best] == NO_MERGE:
            break
        last = rank[best]
        n -= 1
        symbol[best] = results[last]
        for j in range(best + 1, n):
            symbol[j], rank[j - 1] = symbol[j + 1], rank[j]
        if best > 0:
            rank[best - 1] = _rank(table, keys, symbol[best - 1], symbol[best])
        if best < n - 1:
            rank[best] = _rank(table, keys, symbol[best], symbol[best + 1])
    return n, last


@compiled
def _merge_long(symbol, n, table, keys, results):
    """As `_merge_short`, with a heap: the time grows only a little faster than the word."""
    before, after = np.arange(n) - 1, np.arange(n) + 1  # adjacent symbols that are left
    heap = [np.int64(0) for _ in range(0)]  # of rank and position, some out of date
    for j in range(n - 1):
        heapq.heappush(heap, _rank(table, keys, symbol[j], symbol[j + 1]) << 32 | j)
    last = -1
    while len(heap) > 0:
        top = heapq.heappop(heap)
        rank, j = top >> 32, top & 0xFFFFFFFF
        if rank == NO_MERGE:
            break
        k = after[j]
        if symbol[j] < 0 or k == n or rank != _rank(table, keys, symbol[j], symbol[k]):
            continue
        last = rank
        symbol[j], symbol[k], after[j] = results[rank], -1, after[k]
        if after[j] < n:
            before[after[j]] = j
            heapq.heappush(heap, _rank(table, keys, symbol[j], symbol[after[j]]) << 32 | j)
        if before[j] >= 0:
            heapq.heappush(heap, _rank(table, keys, symbol[before[j]], symbol[j]) << 32 | before[j])
    m = 0
    for j in range(n):
        if symbol[j] >= 0:
            symbol[m] = symbol[j]
            m += 1
    return m, last


@compiled
def _segment(symbols, offsets, order, merges, out, lengths, last):
    """Merge within each word, in this order, always the pair of lowest rank, the leftmost if tied.

    Writes the tokens to `out`, the number of tokens of each word to `lengths`, and to `last` the rank of
    its last merge or -1.
    """
    table, keys, results = merges
    rank, written = np.empty(SHORT, np.int64), 0
    for k in range(len(order)):
        begin = offsets[order[k]]
        n = offsets[order[k] + 1] - begin
        symbol = out[written : written + n]
        for j in range(n):
            symbol[j] = symbols[begin + j]
        if n <= SHORT:
            lengths[k], last[k] = _merge_short(symbol, n, rank, table, keys, results)
        else:
            lengths[k], last[k] = _merge_long(symbol, n, table, keys, results)
        written += lengths[k]
    return written


def segment(symbols, offsets, merges, order=None) -> tuple[np.ndarray, np.ndarray]:
    """Apply merges to every word; return the tokens (int32, flat) and their offsets.

    ``symbols`` (int32) and ``offsets`` (int64, one more than words) are the words; ``merges`` is a
    ``MergeTable`` or an int32 array with rows left, right, result; ``order`` (numbers of words) is the
    order in which words are segmented and returned. The tokens are those of the library's BPE with merge
    skipping off.

    >>> import numpy as np
    >>> ids, offsets = segment(np.array([0, 1, 0], np.int32), np.array([0, 3]),
    ...                        np.array([[0, 1, 2]], np.int32))
    >>> ids.tolist(), offsets.tolist()
    ([2, 0], [0, 2])
    """
    ids, offsets, _ = segment_tracing(symbols, offsets, merges, order)
    return ids, offsets


def segment_tracing(
    symbols, offsets, merges, order=None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Apply merges as ``segment`` does; return the rank of each word's last merge (-1 if none) as well."""
    merges = merge_table(merges)
    symbols = np.ascontiguousarray(symbols, np.int32)
    offsets = np.ascontiguousarray(offsets, np.int64)
    order = np.arange(len(offsets) - 1) if order is None else order
    lengths, last = np.zeros(len(order), np.int64), np.full(len(order), -1, np.int32)

    def segment_range(start: int, end: int) -> np.ndarray:
        out, words = np.empty(len(symbols), np.int32), slice(start, end)
        n = _segment(symbols, offsets, order[words], merges, out, lengths[words], last[words])
        return out[:n]

    if len(order) < MANY:
        tokens = segment_range(0, len(order))
    else:
        middle = len(order) // 2
        with ThreadPoolExecutor(2) as pool:  # the compiled loop releases the GIL
            halves = pool.map(segment_range, (0, middle), (middle, len(order)))
            tokens = np.concatenate([*halves])
    return tokens, np.concatenate([[0], np.cumsum(lengths)]), last


def sum_by_id(ids: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Sum the weights of each ID's occurrences: an int64 array of length ``size``."""
    counts = np.zeros(size, np.int64)
    np.add.at(counts, ids, weights)
    return counts


def initial_ids(words: list[str] | pa.Array, spec, *, dropping: bool = False):
    """Return the IDs from which a BPE encoder starts: one per character, or the character's bytes.

    ``words`` are pre-tokens as the pre-tokenizer writes them (a list, or an Arrow array of large
    strings). Returns IDs (int32, flat) and offsets (int64, one more than words). A character that the
    vocabulary lacks becomes its byte tokens if the model has byte fallback, else the unknown token.
    Raises ValueError if there is neither: the library drops such a character, as does ``dropping``.

    >>> from tokenizers import Tokenizer, models
    >>> spec = th.TokenizerSpec.from_tokenizer(Tokenizer(models.BPE({"a": 0, "b": 1}, [])))
    >>> [array.tolist() for array in initial_ids(["ab", "bbc"], spec, dropping=True)]
    [[0, 1, 1, 1], [0, 2, 4]]
    """
    ids, offsets = look_up(words, spec.alphabet)
    unknown = np.flatnonzero(ids < 0)
    if not len(unknown):
        return ids, offsets
    ids, sizes = _fall_back(words, ids, np.diff(offsets), unknown, spec, dropping)
    return ids, np.concatenate([[0], np.cumsum(sizes)])


def _fall_back(words, ids, sizes, unknown, spec, dropping):
    """Replace characters that the vocabulary lacks by byte tokens, the unknown token, or nothing."""
    codes, _ = code_points(words)
    substitutes = {
        code: _substitute(chr(code), spec) for code in np.unique(codes[unknown]).tolist()
    }
    word = np.repeat(np.arange(len(sizes)), sizes)
    lost = [chr(code) for code, substitute in substitutes.items() if not substitute]
    if lost and not dropping:
        at = np.flatnonzero(codes == ord(lost[0]))[0]
        context = "".join(map(chr, codes[word == word[at]]))
        raise ValueError(
            f"this tokenizer has no token for {len(lost):,} of the text's characters and would drop "
            f"them, {lost[0]!r} in {context!r:.40} the first: remove such text"
        )
    follows = (np.diff(unknown, prepend=-2) == 1) & (word[unknown] == word[unknown - 1])
    starts = np.flatnonzero(~follows).tolist()
    replacements = [[] for _ in unknown]
    for start, end in zip(starts, [*starts[1:], len(unknown)], strict=True):
        run = [substitutes[code] for code in codes[unknown[start:end]].tolist()]
        replacements[start] = _replace_run(run, spec)
    repeats = np.ones(len(ids), np.int64)
    repeats[unknown] = [len(pieces) for pieces in replacements]
    spread = np.repeat(ids, repeats)
    spread[spread < 0] = np.array([i for pieces in replacements for i in pieces], np.int32)
    return spread, np.bincount(word, weights=repeats, minlength=len(sizes)).astype(np.int64)


def _replace_run(substitutes: list[list[int]], spec) -> list[int]:
    """The IDs for a run of characters that the vocabulary lacks, as the library writes them.

    The library holds an unknown token back until the next one, or the end of the run: byte tokens
    come before it. Runs of unknown tokens are fused if the model says so, byte tokens between or not.
    """
    ids, pending = [], False
    for substitute in substitutes:
        if substitute != [spec.unk]:
            ids += substitute
            continue
        if pending and not spec.fuses_unknown:
            ids.append(spec.unk)
        pending = True
    return ids + [spec.unk] * pending


def _substitute(character: str, spec) -> list[int]:
    """The IDs that replace a character that the vocabulary lacks."""
    byte_ids = [spec.vocab.get(BYTE_TOKENS[byte]) for byte in character.encode()]
    if spec.byte_fallback and None not in byte_ids:
        return byte_ids
    return [] if spec.unk is None else [spec.unk]


def initial_ids_of_pieces(pieces: list[str | int], spec, **options):
    """Return what ``initial_ids`` returns for pieces of which some are IDs already."""
    is_id = np.array([isinstance(piece, int) for piece in pieces], bool)
    symbols, ends = initial_ids([p for p in pieces if isinstance(p, str)], spec, **options)
    sizes = np.ones(len(pieces), np.int64)
    sizes[~is_id] = np.diff(ends)
    ids, from_ids = np.empty(sizes.sum(), np.int32), np.repeat(is_id, sizes)
    ids[from_ids] = [piece for piece in pieces if isinstance(piece, int)]
    ids[~from_ids] = symbols
    return ids, np.concatenate([[0], np.cumsum(sizes)])
