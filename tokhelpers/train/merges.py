"""Learning merges: byte pair encoding, WordPiece and continued training differ in a few options only.

Words are flat: one array of symbol ids, and the offsets at which each word begins.
"""

from collections.abc import Callable, Iterator, Set

import numpy as np

from ..text.pretokens import Pretokens
from ..tokenizer.checks import progress
from ..tokenizer.compiled import compiled
from ..tokenizer.segmentation import MergeTable, initial_ids, merge_table, segment
from ..tokenizer.spec import TokenizerSpec
from .merge_loop import ANSWER, MOST_SYMBOLS, merge_loop
from .pairs import MOST_PLACES, all_pairs, text_of
from .sentencepiece import (
    LENGTH,
    has_rules,
    new_characters,
    normalised,
    piece_check,
    shorter_than,
)
from .spelling import spelling_of


def alike_together(symbols: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The order in which words that begin alike stand side by side.

    Neither segmentation nor learning depends on the order. But most pairs then occur in words that are
    neighbours, so that the processor's cache has what is needed next: some hundredths of the time less.
    """
    return np.argsort(_beginnings(symbols, offsets, int(symbols.max(initial=1)).bit_length()))


@compiled
def _beginnings(symbols, offsets, bits):
    """For each word a number that holds as many of its first symbols as fit."""
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
    known: np.ndarray | MergeTable | None = None,
    new_from: int = -1,
) -> Iterator[tuple[int, int, int, int]]:
    """Merge the best pair again and again; yield left, right, result and count of each.

    ``symbols`` (int32, flat) and ``offsets`` (int64) hold the unique words, ``counts`` (int64) how
    often each occurs. ``becomes(left, right)`` gives the id of the merged symbol, new or old, or a
    negative number to refuse the pair for good. ``best`` is

    - ``pair``: the highest count, then the smaller pair of ids, as in the Hugging Face trainer;
    - ``token``: the highest count, then the shorter merged token, then the first in the order of
      its symbols, as in sentencepiece; begins from single characters;
    - ``score``: WordPiece's (thesis, section 4.1.2.1), then the smaller ids.

    To continue a tokenizer's training, give its merges as ``known`` (the words are segmented by
    them) and in ``new_from`` the id from which symbols are new. Where a merge leads to an older
    symbol, pairs can appear whose merge is known. They are merged first, as an encoder will do, and
    are not yielded: otherwise later merges would build on pairs that an encoder never leaves. Pairs
    are counted at every position (``aaa`` holds ``a a`` twice) and replaced from left to right.
    Source: Sennrich et al. 2016.
    """
    if best not in ("pair", "token", "score"):
        raise ValueError(f"best is 'pair', 'token' or 'score', not {best!r}")
    total = float(np.diff(offsets) @ np.asarray(counts, float))  # as a float it cannot wrap
    if total > MOST_SYMBOLS:
        raise ValueError(
            f"by their counts the words hold {total:.4g} symbols in all, and counts are exact up to "
            "2^52 (4.5e15): divide the counts"
        )
    if (longest := np.diff(offsets).max(initial=0)) > MOST_PLACES:
        raise ValueError(
            f"a word of {longest:,} symbols: they may have {MOST_PLACES:,} at most, so cut the text into "
            "words, or leave this one out"
        )
    text = text_of(symbols, offsets, counts)
    spelling = spelling_of(symbols if best == "token" else symbols[:0])
    known = merge_table(np.empty((0, 3), np.int32) if known is None else known)
    answer, least = np.zeros(1, ANSWER), max(1, min_frequency)
    loop = merge_loop(
        all_pairs(text), text, spelling, known, best == "score", new_from, least, answer
    )
    try:
        for a, b, count in loop:
            answer["becomes"] = result = becomes(a, b)
            if result >= 0:
                yield a, b, result, count
    finally:
        answer["ends"] = True
        next(loop, None)


def learn_vocabulary(
    symbols: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    vocab: dict[str, int],
    n_tokens: int,
    *,
    known: np.ndarray | MergeTable | None = None,
    prefix: str = "",
    valid: Callable[[str], bool] | None = None,
    apart: Set[str] = frozenset(),
    **options,
) -> tuple[list[str], list[tuple[str, str]], list[int]]:
    """Learn merges until there are ``n_tokens`` new tokens, or earlier when no pair is left.

    ``symbols``, ``offsets``, ``counts`` and ``options`` are as for ``learn_merges``; ``vocab`` names
    the symbols. A merge into a token of ``vocab`` is kept and counts as no new token.
    ``known`` are the merges by which the words were segmented, to continue from there (see
    ``learn_merges``). The right part loses ``prefix`` when it is joined; a token that is not
    ``valid`` is never built, and no merge uses or builds one of those that stand ``apart``. Returns
    tokens, merges and the frequency of each merge, in learned order.

    >>> import numpy as np
    >>> words = np.array([0, 1, 0, 1, 2], np.int32), np.array([0, 2, 5]), np.array([5, 1])
    >>> learn_vocabulary(*words, {"b": 0, "##a": 1, "##t": 2}, 2, prefix="##")
    (['ba', 'bat'], [('b', '##a'), ('ba', '##t')], [6, 1])
    """
    vocab, name = dict(vocab), {i: token for token, i in vocab.items()}
    new_from, cut = 1 + max(name, default=-1), len(prefix)
    tokens, merges, frequencies = [], [], []

    def becomes(left: int, right: int) -> int:
        token = name[left] + name[right][cut:]
        if not apart.isdisjoint((name[left], name[right], token)):
            return -1
        if valid is not None and not valid(token):
            return -1
        result = vocab.get(token)
        if result is None:
            result = vocab[token] = new_from + len(tokens)
            name[result] = token
            tokens.append(token)
        return result

    if known is not None:
        options |= {"known": known, "new_from": new_from}
    learned = learn_merges(symbols, offsets, counts, becomes, **options)
    with progress("learning tokens", total=n_tokens) as shown:
        while len(tokens) < n_tokens and (merge := next(learned, None)):
            left, right, _, count = merge
            merges.append((name[left], name[right]))
            frequencies.append(count)
            shown.update(len(tokens) - shown.n)
    return tokens, merges, frequencies


def learn_tokens(
    words: Pretokens,
    spec: TokenizerSpec,
    n_tokens: int,
    *,
    min_frequency: int = 1,
    max_token_length: int | None = None,
) -> tuple[list[str], list[tuple[str, str]], list[int], int]:
    """Continue the training of a BPE tokenizer on counted pre-tokens, as ``continue_bpe`` says.

    Returns tokens, merges, the frequency of each merge, and how many of the tokens are characters,
    which come first. Nothing merges with the byte tokens and the unknown token of a tokenizer of
    characters.
    """
    texts, counts, wider, characters = words.strings, words.counts, spec, []
    if has_rules(spec):
        texts, counts = normalised(words, spec)
        characters = new_characters(texts, counts, spec, min_frequency)[:n_tokens]
        wider, valid = spec.with_tokens(characters), piece_check(max_token_length or LENGTH)
    else:
        valid = shorter_than(max_token_length)
    symbols, offsets = initial_ids(texts, wider, dropping=True)
    order = alike_together(symbols, offsets)
    symbols, offsets = segment(symbols, offsets, wider.merge_table, order)
    tokens, merges, frequencies = learn_vocabulary(
        symbols,
        offsets,
        counts[order],
        wider.vocab,
        n_tokens - len(characters),
        known=wider.merge_table,
        min_frequency=min_frequency,
        valid=valid,
        apart=frozenset() if spec.byte_level else spec.unmerged,
    )
    return characters + tokens, merges, frequencies, len(characters)
