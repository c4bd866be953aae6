"""The same comparison for many languages: naive against continued extension, size by size."""

import warnings
from collections.abc import Iterable, Sequence
from functools import cache, partial

import pandas as pd
from tokenizers import Tokenizer, normalizers

from ..adapt.extension import Extension, continue_bpe, naive_extension
from ..text.corpora import load_corpus
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..text.stored_counts import mixture, most_frequent, training_sources
from ..tokenizer.checks import positive
from ..tokenizer.pretokenization import shell
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.vendors import load_tokenizer
from ..train.trainers import train_byte_level_bpe, train_sentencepiece_bpe
from .quality import evaluate_sizes, measurable

CHUNKS = 100_000  # of a training text, the most frequent ones
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)


def compare_language(
    tokenizer: str | Tokenizer,
    language: str,
    *,
    sizes: Sequence[int] = SIZES,
    train: Iterable[str] | None = None,
    test: Iterable[str] | None = None,
    chunks: int | None = CHUNKS,
) -> pd.DataFrame:
    """Extend a tokenizer by a language's tokens, naively and by continued training, and measure.

    ``language`` is one of the paper's codes, such as ``"ekk_Latn"``. Tokens are learned from
    ``train``, by default the language's ``training:CODE``, and measured on ``test``, by default the
    paper's own text, ``flores:CODE``; the exact counts of both are used. If ``train`` is counts, only
    its most frequent ``chunks`` are learned from (None: all), which saves time. Returns one row per
    ``method`` (``base``, ``continued``, ``naive``), number of tokens ``added`` and
    ``merge_skipping`` (on and off where the tokenizer has it, else off), with ``bytes_per_token``,
    ``renyi_efficiency``, ``unused_added`` (share) and ``unreachable_added`` (number, by merges).
    Sizes for which the text yields too few tokens are left out. Raises ValueError for an unknown
    language, naming near ones.

    Source: Purason et al. 2025, sections 4 and 5, Appendix K; naive is its "regen" (Appendix F).

    >>> table = compare_language("qwen", "ekk_Latn", sizes=[50], train=load_corpus("ntrex:est"))
    >>> table[["method", "added", "merge_skipping", "unreachable_added"]].values.tolist()
    [['base', 0, False, 0], ['continued', 50, False, 0], ['naive', 50, False, 0]]
    """
    base = (
        _loaded(tokenizer)
        if isinstance(tokenizer, str)
        else TokenizerSpec.from_tokenizer(tokenizer)
    )
    most = max(positive("sizes", size) for size in sizes)
    test = measurable(load_corpus(f"flores:{language}") if test is None else test, base)
    words = count_pretokens(_learned_from(language, train, chunks), base)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # a text may yield fewer
        continued = continue_bpe(base, words, most)
        naive = supplement_tokens(base, words, continued, most)
    methods = {"continued": (continued, "append"), "naive": (naive, "regenerate")}
    there = [n for n in sizes if n <= min(len(e.tokens) for e, _ in methods.values())]
    switches = (True, False) if base.merge_skipping else (False,)
    measure = partial(evaluate_sizes, base, test=test, skipping=switches)
    plain, extended = measure({"base": (Extension([]), "append")}, [0]), measure(methods, there)
    table = pd.concat([plain, extended]).astype({"unreachable_added": int})
    table = table.sort_values("merge_skipping", ascending=False, kind="stable", ignore_index=True)
    measures = ["bytes_per_token", "renyi_efficiency", "unused_added", "unreachable_added"]
    return table[["method", "added", "merge_skipping", *measures]]


@cache  # once for all languages
def _loaded(name: str) -> TokenizerSpec:
    return TokenizerSpec.from_tokenizer(load_tokenizer(name))


def _learned_from(language: str, train: Iterable[str] | None, chunks: int | None) -> Iterable[str]:
    """What to learn a language from; of counts the most frequent chunks, equal ones in order of text."""
    if train is None:
        return mixture(
            (load_corpus(source).counts for source in training_sources(language)), chunks
        )
    counts = getattr(train, "counts", None)
    return train if counts is None or chunks is None else most_frequent(counts, chunks)


def supplement_tokens(
    tokenizer: Tokenizer | TokenizerSpec, words: Pretokens, continued: Extension, n_tokens: int
) -> Extension:
    """Make a naive extension from a supplement: a tokenizer of the same family, trained on the text.

    ``words`` are counts by the tokenizer's rules, ``continued`` is what continued training learned
    from them: a SentencePiece supplement keeps to the characters that this has. The supplement is
    as large as it takes to give ``n_tokens`` or more; where the text yields fewer, all come back.

    Source: Purason et al. 2025, section 3.1 (the naive approach).

    >>> base = train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> words = count_pretokens(["cat cat"], base)
    >>> supplement_tokens(base, words, continue_bpe(base, words, 1), 1).tokens
    ['cat', 'Ġcat']
    """
    base = TokenizerSpec.from_tokenizer(tokenizer)
    if base.byte_level:
        inner = shell(base.rules)
        rules = {"normalizer": inner.normalizer, "pre_tokenizer": inner.pre_tokenizer}
        train, corpus = partial(train_byte_level_bpe, **rules), words
    else:  # by SentencePiece's rules, over the characters that continued training has
        rules = {"isolate_digits": True, "split_by_script": True, "split_by_number": True}
        rules["byte_fallback"] = base.byte_fallback
        train = partial(train_sentencepiece_bpe, normalizer=normalizers.NFKC(), **rules)
        known = base.alphabet.keys() | set(continued.tokens[: continued.characters])
        corpus = {word[1:]: n for word, n in words.items() if known.issuperset(word)}
    size = n_tokens + 8_000
    while True:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of fewer
            supplement = train(corpus, vocab_size=size)
        found = naive_extension(base, supplement)
        if len(found.tokens) >= n_tokens or supplement.get_vocab_size() < size:
            return found
        size *= 2
