"""Parity-aware BPE: at each step the language with the worst compression chooses the pair to merge.

One merge loop for each language has its training text, another its development text. All of them
merge the same pairs, in lockstep.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np
from tokenizers import Tokenizer

from ..common.checks import whole_number
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.segmentation import initial_ids, segment
from ..tokenizer.spec import TokenizerSpec, merge_ids
from .merges import name_merges, prefix_order, start_loop
from .sentencepiece_rules import (
    LENGTH,
    has_rules,
    new_characters,
    normalise,
    piece_check,
    shorter_than,
)
from .spelling import Spelling, pair_spelling
from .trainers import train_byte_level_bpe

# the unique words of a language: symbols (int32, flat), offsets and counts (int64)
Words = tuple[np.ndarray, np.ndarray, np.ndarray]


class DirectedLoop:
    """The merge loop of one language, which merges the pairs that it is told to merge.

    ``best`` is the best pair of its own text and the pair's count, or None when no pair is left.
    """

    def __init__(self, words: Words, spelling: Spelling, **options):
        own = spelling._replace(  # a loop appends to it
            **{name: getattr(spelling, name).copy() for name in spelling._fields[:4]}
        )
        self._loop, self._answer = start_loop(*words, own, **options)
        self.best = next(self._loop, None)

    def merge(self, left: int, right: int, result: int) -> None:
        """Merge a pair of symbols wherever it occurs, and from now on wherever an old merge would."""
        if self.best is not None:
            answer = self._answer[0]
            answer["directed"], answer["pair"] = True, int(left) << 32 | int(right)
            answer["becomes"] = result
            self.best = next(self._loop, None)

    def refuse(self) -> None:
        """Never merge the best pair of this text."""
        self._answer[0]["directed"], self._answer[0]["becomes"] = False, -1
        self.best = next(self._loop, None)

    @property
    def merged(self) -> int:
        """By how many tokens the text is shorter than at the start."""
        return int(self._answer[0]["merged"])

    def close(self) -> None:
        self._answer[0]["ends"] = True
        next(self._loop, None)


def worst_compressed(choosing: list[int], tokens: list[int], chosen: list[int]) -> int:
    """Of the languages that can choose, the one with most tokens (ties: the first)."""
    return max(choosing, key=lambda language: (tokens[language], -language))


def parity_merges(
    becomes: Callable[[int, int], int],
    training: Sequence[Words],
    development: Sequence[Words],
    spelling: Spelling,
    *,
    min_frequency: int = 1,
    choose: Callable[[list[int], list[int], list[int]], int] = worst_compressed,
    chosen: list[int] | None = None,
    **options,
) -> Iterator[tuple[int, int, int, int]]:
    """Merge the best pair of the language that ``choose`` names; yield left, right, result and count.

    ``training`` and ``development`` have the words of each language in the same order; ``options``
    (``base_merges`` and ``new_from``) and ``becomes`` are as for ``learn_merges``. ``choose`` gets the
    languages that still have a pair of the minimum frequency, the tokens of all in their development
    texts, and the language of each merge so far, which is also kept in ``chosen``. Its best pair is the
    most frequent one in its training text (ties: the last in code-point order).
    """
    chosen = [] if chosen is None else chosen
    lengths = [int(np.diff(offsets) @ counts) for _, offsets, counts in development]
    start = partial(DirectedLoop, spelling=spelling, **options)
    loops = [start(words, min_frequency=min_frequency) for words in training]
    measured = [start(words, min_frequency=1) for words in development]
    try:
        while choosing := [i for i, loop in enumerate(loops) if loop.best is not None]:
            tokens = [length - loop.merged for length, loop in zip(lengths, measured, strict=True)]
            language = choose(choosing, tokens, chosen)
            left, right, count = loops[language].best
            result = becomes(left, right)
            if result < 0:
                loops[language].refuse()
                continue
            for loop in chain(loops, measured):
                loop.merge(left, right, result)
            chosen.append(language)
            yield left, right, result, count
    finally:
        for loop in chain(loops, measured):
            loop.close()


def learn_parity(
    training: Sequence[Pretokens],
    development: Sequence[Pretokens],
    spec: TokenizerSpec,
    n_tokens: int,
    *,
    min_frequency: int = 1,
    max_token_length: int | None = None,
    **choice,
) -> tuple[list[str], list[tuple[str, str]], list[int], int]:
    """Continue the training of a BPE tokenizer on several languages; see ``continue_parity_bpe``.

    ``choice`` (``choose`` and ``chosen``) is as for ``parity_merges``. Returns what ``learn_tokens``
    returns. A tokenizer without merges is trained as from scratch.
    """
    texts = [[(words.strings, words.counts) for words in side] for side in (training, development)]
    extended, characters, valid = spec, [], shorter_than(max_token_length)
    if has_rules(spec):
        texts = [[normalise(words, spec) for words in side] for side in (training, development)]
        strings = list(chain.from_iterable(strings for strings, _ in texts[0]))
        counts = np.concatenate([counts for _, counts in texts[0]])
        characters = new_characters(strings, counts, spec, min_frequency)[:n_tokens]
        extended, valid = spec.with_tokens(characters), piece_check(max_token_length or LENGTH)
    sides = [[_segmented(*text, extended) for text in side] for side in texts]
    options = {"base_merges": None, "new_from": -1}
    if len(spec.merges):
        new_from = 1 + max(extended.vocab.values())
        options = {"base_merges": extended.merge_table, "new_from": new_from}
    options |= {"spelling": pair_spelling(extended.vocab), "min_frequency": min_frequency}
    learn = partial(parity_merges, training=sides[0], development=sides[1], **options, **choice)
    names = {"valid": valid, "excluded": spec.added.keys() if spec.byte_level else spec.unmerged}
    learned = name_merges(learn, extended.vocab, n_tokens - len(characters), **names)
    tokens, merges, frequencies = learned
    return characters + tokens, merges, frequencies, len(characters)


def _segmented(strings, counts: np.ndarray, spec: TokenizerSpec) -> Words:
    """Pre-tokens as the tokenizer segments them, without merge skipping."""
    symbols, offsets = initial_ids(strings, spec, dropping=True)
    order = prefix_order(symbols, offsets)
    return *segment(symbols, offsets, spec.merge_table, order), counts[order]


def count_languages(
    corpora: Mapping[str, Iterable[str] | Pretokens],
    development: Mapping[str, Iterable[str] | Pretokens],
    tokenizer: Tokenizer | TokenizerSpec,
) -> tuple[list[Pretokens], list[Pretokens]]:
    """Count the training and development text of each language, in the order of ``corpora``."""
    for name, texts in (("corpora", corpora), ("development", development)):
        if not isinstance(texts, Mapping) or isinstance(texts, Pretokens):
            raise TypeError(
                f"{name} must map languages to corpora, not {type(texts).__name__}: "
                "give {'en': ..., 'de': ...}"
            )
    if not corpora:
        raise ValueError("corpora has no languages: give {'en': ..., 'de': ...}")
    if different := sorted(corpora.keys() ^ development.keys()):
        raise ValueError(
            f"corpora and development have different languages, first {different[0]!r}: give each "
            "language in both"
        )
    training = [count_pretokens(corpus, tokenizer) for corpus in corpora.values()]
    return training, [count_pretokens(development[language], tokenizer) for language in corpora]


def train_parity_bpe(
    corpora: Mapping[str, Iterable[str] | Pretokens],
    *,
    vocab_size: int,
    development: Mapping[str, Iterable[str] | Pretokens],
    min_frequency: int = 0,
    max_token_length: int | None = None,
    **options,
) -> Tokenizer:
    """Train a byte-level BPE tokenizer on several languages, so that all are compressed alike.

    ``corpora`` and ``development`` map languages to corpora, or to counts by the tokenizer's rules, the
    development texts being translations of each other. At each step the language with most tokens in
    its development text chooses the pair to merge (ties: the first): the most frequent one in its own
    corpus (ties: the last in code-point order), at least ``min_frequency`` times. When it has none left
    it chooses no more. ``options`` (``pre_tokenizer``, ``normalizer``, ``special_tokens``,
    ``isolate_digits``, ``isolate_punctuation``) and IDs are as for ``train_byte_level_bpe``.

    Warns if the texts yield fewer tokens. Raises TypeError for anything but mappings, and ValueError
    for languages that only one of them has, for a vocabulary that is too small, and for counts by other
    rules. Source: Foroutan et al. 2025, parity-aware BPE (arXiv 2508.04796); the merges are those of
    the library's ``ParityBpeTrainer(variant="base")``.

    >>> corpora = {"en": ["cat"] * 99, "fi": ["kissa"]}
    >>> tokenizer = train_parity_bpe(
    ...     corpora, vocab_size=258, development={"en": ["cat"], "fi": ["kissa"]})
    >>> tokenizer.encode("kissa cat").tokens
    ['k', 'i', 'ssa', 'Ġ', 'c', 'a', 't']
    """
    special = options.get("special_tokens", ())
    empty = train_byte_level_bpe(["a"], vocab_size=256 + len(special), **options)
    spec = TokenizerSpec.from_tokenizer(empty)
    n_tokens = whole_number("vocab_size", vocab_size) - spec.next_id
    if n_tokens < 0:
        raise ValueError(
            f"vocab_size={vocab_size:,} is smaller than the {spec.next_id:,} special tokens and bytes "
            f"that training begins with: use at least {spec.next_id:,}"
        )
    counts = count_languages(corpora, development, spec)
    rules = {"min_frequency": min_frequency, "max_token_length": max_token_length}
    tokens, merges, _, _ = learn_parity(*counts, spec, n_tokens, **rules)
    if len(tokens) < n_tokens:
        warnings.warn(
            f"asked for a vocabulary of {vocab_size:,}; these texts yield {spec.next_id + len(tokens):,}: "
            "ask for fewer tokens or bring more text",
            stacklevel=2,
        )
    trained = spec.with_tokens(tokens)
    return trained.with_(merges=merge_ids(trained.vocab, merges)).to_tokenizer()
