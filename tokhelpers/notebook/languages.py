"""Compare naive extension and continued training, language by language (notebooks 08 to 10, 20)."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial

import pandas as pd
from tokenizers import Tokenizer, normalizers

from ..adapt.extension import Extension, continue_bpe, naive_extension
from ..common.checks import positive
from ..measure.quality import evaluate_sizes, measurable
from ..text.corpora import load_corpus
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..text.shipped_counts import mixture, most_frequent, training_sources
from ..tokenizer.library_encoder import pretokenizer_config_of
from ..tokenizer.pretokenization import pretokenizer_only
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.vendors import load_tokenizer
from ..train.trainers import train_byte_level_bpe, train_sentencepiece_bpe

MAX_CHUNKS = 100_000  # most frequent chunks of a training text
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)


def compare_language(
    tokenizer: str | Tokenizer,
    language: str,
    *,
    sizes: Sequence[int] = SIZES,
    train: Iterable[str] | None = None,
    test: Iterable[str] | None = None,
    chunks: int | None = MAX_CHUNKS,
) -> pd.DataFrame:
    """Extend a tokenizer to a language, naively and by continued training, and evaluate both.

    ``language`` is one of the paper's codes, such as ``"ekk_Latn"``. Tokens are trained on ``train``
    (default: ``training:CODE``; of counts, the most frequent ``chunks``, or all if None) and
    evaluated on ``test`` (default: ``flores:CODE``). Returns one row per ``method`` ("base",
    "continued", "naive"), number of ``added`` tokens and ``merge_skipping`` (on and off where the
    tokenizer has it), with ``bytes_per_token``, ``renyi_efficiency``, ``unused_added`` (share) and
    ``unreachable_added`` (number). Sizes beyond what the text yields are left out. Raises ValueError
    for an unknown language.

    Source: Purason et al. 2025, sections 4 and 5, Appendix K; naive is their "regen" (Appendix F).

    >>> table = compare_language("qwen", "ekk_Latn", sizes=[50], train=load_corpus("ntrex:est"))
    >>> table[["method", "added", "merge_skipping", "unreachable_added"]].values.tolist()
    [['base', 0, False, 0], ['continued', 50, False, 0], ['naive', 50, False, 0]]
    """
    is_name = isinstance(tokenizer, str)
    base = _load_spec(tokenizer) if is_name else TokenizerSpec.from_tokenizer(tokenizer)
    largest = max(positive("sizes", size) for size in sizes)
    test = measurable(load_corpus(f"flores:{language}") if test is None else test, base)
    counts = count_pretokens(_training_text(language, train, chunks), base)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of fewer tokens
        continued = continue_bpe(base, counts, largest)
        naive = supplement_tokens(base, counts, continued, largest)
    methods = {"continued": (continued, "append"), "naive": (naive, "regenerate")}
    available = min(len(extension.tokens) for extension, _ in methods.values())
    skipping = (True, False) if base.merge_skipping else (False,)
    measure = partial(evaluate_sizes, base, test=test, skipping=skipping)
    unextended = measure({"base": (Extension([]), "append")}, [0])
    table = pd.concat([unextended, measure(methods, [n for n in sizes if n <= available])])
    table = table.astype({"unreachable_added": int})
    table = table.sort_values("merge_skipping", ascending=False, kind="stable", ignore_index=True)
    measures = ["bytes_per_token", "renyi_efficiency", "unused_added", "unreachable_added"]
    return table[["method", "added", "merge_skipping", *measures]]


@cache  # once for all languages
def _load_spec(name: str) -> TokenizerSpec:
    return TokenizerSpec.from_tokenizer(load_tokenizer(name))


def _training_text(language: str, train: Iterable[str] | None, chunks: int | None) -> Iterable[str]:
    """The text to train on; of counts, the most frequent chunks, ties in order of text."""
    if train is None:
        sources = (load_corpus(name).counts for name in training_sources(language))
        return mixture(sources, chunks)
    counts = getattr(train, "counts", None)
    return train if counts is None or chunks is None else most_frequent(counts, chunks)


def supplement_tokens(
    tokenizer: Tokenizer | TokenizerSpec, counts: Pretokens, continued: Extension, n_tokens: int
) -> Extension:
    """Make a naive extension: train a tokenizer of the same family on the text, take its new tokens.

    ``counts`` are pre-tokens by the tokenizer's rules; ``continued`` is the extension by continued
    training on them, whose characters a SentencePiece supplement keeps to. The supplement grows
    until it yields ``n_tokens`` new tokens; where the text yields fewer, all are returned.

    Source: Purason et al. 2025, section 3.1 (the naive approach).

    >>> base = train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> counts = count_pretokens(["cat cat"], base)
    >>> supplement_tokens(base, counts, continue_bpe(base, counts, 1), 1).tokens
    ['cat', 'Ġcat']
    """
    base = TokenizerSpec.from_tokenizer(tokenizer)
    if base.byte_level:
        pretokenizer = pretokenizer_only(base.pretokenizer_config)
        options = {"normalizer": pretokenizer.normalizer}
        options["pre_tokenizer"] = pretokenizer.pre_tokenizer
        train = partial(train_byte_level_bpe, **options)
        corpus = replace(counts, pretokenizer_config=pretokenizer_config_of(pretokenizer))
    else:
        options = {"isolate_digits": True, "split_by_script": True, "split_by_number": True}
        options |= {"byte_fallback": base.byte_fallback, "normalizer": normalizers.NFKC()}
        train = partial(train_sentencepiece_bpe, **options)
        alphabet = base.alphabet.keys() | set(continued.tokens[: continued.characters])
        corpus = {word[1:]: n for word, n in counts.items() if alphabet.issuperset(word)}
    vocab_size = n_tokens + 8_000
    while True:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of fewer tokens
            supplement = train(corpus, vocab_size=vocab_size)
        extension = naive_extension(base, supplement)
        if len(extension.tokens) >= n_tokens or supplement.get_vocab_size() < vocab_size:
            return extension
        vocab_size *= 2
