"""Learn merges: byte pair encoding, WordPiece and continued training as options of one function.

Words are flat: one array of symbol IDs, and the offsets at which the words start.
"""

from collections.abc import Callable, Iterator, Set
from functools import partial

import numpy as np

from ..common.checks import progress
from ..common.compiled import compiled
from ..text.pretokens import Pretokens
from ..tokenizer.segmentation import MergeTable, initial_ids, merge_table, segment
from ..tokenizer.spec import TokenizerSpec
from .merge_loop import ANSWER, MAX_SYMBOLS, merge_loop
from .pairs import MAX_PLACES, all_pairs, text_of
from .sentencepiece_rules import (
    LENGTH,
    has_rules,
    new_characters,
    normalise,
    piece_check,
    shorter_than,
)
from .spelling import Spelling, spelling_of


def prefix_order(symbols: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sort words by their first symbols, and return the order.

    Segmentation and learning do not depend on the order of words. But in this order most
    occurrences of a pair are close in memory, which saves some per cent of the time.
    """
    return np.argsort(_prefixes(symbols, offsets, int(symbols.max(initial=1)).bit_length()))


@compiled
def _prefixes(symbols, offsets, bits):
    """For each word a number made of as many of its first symbols as fit."""
    numbers = np.zeros(len(offsets) - 1, np.int64)
    for w in range(len(numbers)):
        free = 63 - bits
        for j in range(offsets[w], offsets[w + 1]):
            if free < 0:
                break
            numbers[w] |= np.int64(symbols[j]) << free
            free -= bits
    return numbers


def learn_merges(
    symbols: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    becomes: Callable[[int, int], int],
    *,
    min_frequency: int = 1,
    best: str = "pair",
    base_merges: np.ndarray | MergeTable | None = None,
    new_from: int = -1,
) -> Iterator[tuple[int, int, int, int]]:
    """Merge the best pair repeatedly; yield left, right, result and count of each merge.

    ``symbols`` (int32, flat) and ``offsets`` (int64) are the unique words, ``counts`` (int64) their
    counts. ``becomes(left, right)`` returns the ID of the merged symbol, new or old, or a negative
    number to refuse the pair for good. ``best`` is

    - ``pair``: the highest count, then the smaller pair of IDs, as in the Hugging Face trainer;
    - ``token``: the highest count, then the shorter merged token, then the order of its symbols, as
      in sentencepiece; the words must consist of single characters;
    - ``score``: WordPiece's score (thesis, section 4.1.2.1), then the smaller IDs.

    To continue a tokenizer's training, pass its merges as ``base_merges`` (the words are segmented
    by them) and as ``new_from`` the first ID of new symbols. A merge into an older symbol can create
    pairs that have a merge already. These are merged first, as an encoder will do, and not
    yielded; otherwise later merges would be learned on pairs that an encoder never leaves.
    Pairs are counted at every position (``aaa`` has ``a a`` twice) and merged from left to right.
    Raises ValueError for an unknown ``best``, counts that are not exact as floats, and words that
    are too long. Source: Sennrich et al. 2016.
    """
    if best not in ("pair", "token", "score"):
        raise ValueError(f"best={best!r}: use pair, token or score")
    spelling = spelling_of(symbols if best == "token" else symbols[:0])
    options = {"min_frequency": min_frequency, "base_merges": base_merges, "new_from": new_from}
    loop, answer = start_loop(symbols, offsets, counts, spelling, scored=best == "score", **options)
    try:
        for left, right, count in loop:
            answer["becomes"] = result = becomes(left, right)
            if result >= 0:
                yield left, right, result, count
    finally:
        answer["ends"] = True
        next(loop, None)


def start_loop(
    symbols,
    offsets,
    counts,
    spelling: Spelling,
    *,
    scored=False,
    min_frequency,
    base_merges,
    new_from,
):
    """Check the words, and start the compiled loop; returns it and its answer (an array of one)."""
    total = float(np.diff(offsets) @ np.asarray(counts, float))  # a float cannot overflow here
    if total > MAX_SYMBOLS:
        raise ValueError(
            f"the words have {total:.4g} symbols, each counted as often as its word, and counts are "
            "exact up to 2^52 (4.5e15): divide the counts"
        )
    if (longest := np.diff(offsets).max(initial=0)) > MAX_PLACES:
        raise ValueError(
            f"a word has {longest:,} symbols, and {MAX_PLACES:,} are allowed: split the text into "
            "shorter words, or leave this one out"
        )
    text = text_of(symbols, offsets, counts, prefix_order(symbols, offsets))
    table = merge_table(np.empty((0, 3), np.int32) if base_merges is None else base_merges)
    answer, min_frequency = np.zeros(1, ANSWER), max(1, min_frequency)
    loop = merge_loop(
        all_pairs(text), text, spelling, table, scored, new_from, min_frequency, answer
    )
    return loop, answer


def learn_vocabulary(
    symbols: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    vocab: dict[str, int],
    n_tokens: int,
    *,
    base_merges: np.ndarray | MergeTable | None = None,
    prefix: str = "",
    valid: Callable[[str], bool] | None = None,
    excluded: Set[str] = frozenset(),
    **options,
) -> tuple[list[str], list[tuple[str, str]], list[int]]:
    """Learn merges until there are ``n_tokens`` new tokens, or until no pair is left.

    ``symbols``, ``offsets``, ``counts`` and ``options`` are as for ``learn_merges``; ``vocab`` maps
    token strings to the symbols. A merge into a token of ``vocab`` is kept, but adds no token. To
    continue from the merges by which the words were segmented, pass these as ``base_merges``. The
    right part of a merge loses ``prefix``. A token that is not ``valid`` is never built, and no
    merge uses or builds one of the ``excluded`` tokens. Returns tokens, merges and the frequency
    of each merge, in learned order.

    >>> import numpy as np
    >>> words = np.array([0, 1, 0, 1, 2], np.int32), np.array([0, 2, 5]), np.array([5, 1])
    >>> learn_vocabulary(*words, {"b": 0, "##a": 1, "##t": 2}, 2, prefix="##")
    (['ba', 'bat'], [('b', '##a'), ('ba', '##t')], [6, 1])
    """
    if base_merges is not None:
        new_from = 1 + max(vocab.values(), default=-1)
        options |= {"base_merges": base_merges, "new_from": new_from}
    learn = partial(learn_merges, symbols, offsets, counts, **options)
    rules = {"prefix": prefix, "valid": valid, "excluded": excluded}
    return name_merges(learn, vocab, n_tokens, **rules)


def name_merges(
    learn: Callable[[Callable], Iterator[tuple[int, int, int, int]]],
    vocab: dict[str, int],
    n_tokens: int,
    *,
    prefix: str = "",
    valid: Callable[[str], bool] | None = None,
    excluded: Set[str] = frozenset(),
) -> tuple[list[str], list[tuple[str, str]], list[int]]:
    """Take merges of IDs until there are ``n_tokens`` new tokens; see ``learn_vocabulary``.

    ``learn`` is called with the function that names what a pair becomes, and iterates over merges.
    """
    vocab, name = dict(vocab), {i: token for token, i in vocab.items()}
    new_from = 1 + max(name, default=-1)
    tokens, merges, frequencies = [], [], []

    def becomes(left: int, right: int) -> int:
        token = name[left] + name[right][len(prefix) :]
        if not excluded.isdisjoint((name[left], name[right], token)):
            return -1
        if valid is not None and not valid(token):
            return -1
        result = vocab.get(token)
        if result is None:
            result = vocab[token] = new_from + len(tokens)
            name[result] = token
            tokens.append(token)
        return result

    learned = learn(becomes)
    with progress("learning tokens", total=n_tokens) as bar:
        while len(tokens) < n_tokens and (merge := next(learned, None)):
            left, right, _, count = merge
            merges.append((name[left], name[right]))
            frequencies.append(count)
            bar.update(len(tokens) - bar.n)
    return tokens, merges, frequencies


def learn_tokens(
    words: Pretokens,
    spec: TokenizerSpec,
    n_tokens: int,
    *,
    min_frequency: int = 1,
    max_token_length: int | None = None,
) -> tuple[list[str], list[tuple[str, str]], list[int], int]:
    """Continue the training of a BPE tokenizer on counted pre-tokens; see ``continue_bpe``.

    Returns tokens, merges, the frequency of each merge, and the number of new characters, which are
    the first tokens. Added tokens are never learned, and the byte tokens and the unknown token of a
    tokenizer of characters are never merged.
    """
    texts, counts, extended, characters = words.strings, words.counts, spec, []
    if has_rules(spec):
        texts, counts = normalise(words, spec)
        characters = new_characters(texts, counts, spec, min_frequency)[:n_tokens]
        extended, valid = spec.with_tokens(characters), piece_check(max_token_length or LENGTH)
    else:
        valid = shorter_than(max_token_length)
    symbols, offsets = initial_ids(texts, extended, dropping=True)
    order = prefix_order(symbols, offsets)
    symbols, offsets = segment(symbols, offsets, extended.merge_table, order)
    tokens, merges, frequencies = learn_vocabulary(
        symbols,
        offsets,
        counts[order],
        extended.vocab,
        n_tokens - len(characters),
        base_merges=extended.merge_table,
        min_frequency=min_frequency,
        valid=valid,
        excluded=spec.not_learned,
    )
    return characters + tokens, merges, frequencies, len(characters)
