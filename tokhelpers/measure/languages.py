"""The same comparison for many languages: naive against continued extension, size by size."""

import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from itertools import product
from multiprocessing import get_context

import pandas as pd
from tokenizers import Tokenizer, normalizers

from ..adapt.extension import Extension, continue_bpe, naive_extension
from ..text.corpora import load_corpus
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.checks import positive
from ..tokenizer.parts import parts_with_skipping, read_parts
from ..tokenizer.vendors import load_tokenizer
from ..train.trainers import train_byte_level_bpe, train_sentencepiece_bpe
from .quality import evaluate, evaluate_sizes

# The paper's languages with a list in wordfreq: wordfreq's code and the paper's. Chinese and Japanese
# are left out: they are written without spaces, so a list of their words makes no text.
# wordfreq writes Serbian, Croatian and Bosnian as one language, in Latin letters.
LANGUAGES = {
    "ar": "arb_Arab", "bg": "bul_Cyrl", "bn": "ben_Beng", "ca": "cat_Latn", "cs": "ces_Latn",
    "da": "dan_Latn", "de": "deu_Latn", "el": "ell_Grek", "es": "spa_Latn", "fa": "fas_Arab",
    "fi": "fin_Latn", "fr": "fra_Latn", "he": "heb_Hebr", "hi": "hin_Deva", "hu": "hun_Latn",
    "id": "ind_Latn", "is": "isl_Latn", "it": "ita_Latn", "ko": "kor_Hang", "lt": "lit_Latn",
    "lv": "lvs_Latn", "mk": "mkd_Cyrl", "ms": "zsm_Latn", "nb": "nob_Latn", "nl": "nld_Latn",
    "pl": "pol_Latn", "pt": "por_Latn", "ro": "ron_Latn", "ru": "rus_Cyrl", "sh": "hrv_Latn",
    "sk": "slk_Latn", "sl": "slv_Latn", "sv": "swe_Latn", "ta": "tam_Taml", "tr": "tur_Latn",
    "uk": "ukr_Cyrl", "ur": "urd_Arab", "vi": "vie_Latn",
}  # fmt: skip
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)


def compare_language(
    tokenizer: str | Tokenizer,
    language: str,
    *,
    sizes: Sequence[int] = SIZES,
    train_chars: int = 3_500_000,
    test_chars: int = 1_000_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Extend a tokenizer by a language's tokens, naively and by continued training, and measure.

    ``language`` is one of wordfreq's; the texts are samples by word frequency, ``train_chars`` and
    ``test_chars`` characters long. Returns one row per method (column ``way``: ``base``,
    ``continued``, ``naive``), number of tokens ``added`` and ``merge_skipping`` (on and off where
    the tokenizer has it, else off), with ``bytes_per_token``, ``renyi_efficiency``,
    ``unused_added`` (share) and ``unreachable_added`` (number, by merges). Sizes for which the text
    yields too few tokens are left out. Raises ValueError for an unknown language, naming the known
    ones.

    Source: Purason et al. 2025, sections 4 and 5, Appendix K; naive is its "regen" (Appendix F).

    >>> table = compare_language("qwen", "fi", sizes=[50], train_chars=30_000, test_chars=10_000)
    >>> table[["way", "added", "merge_skipping", "unreachable_added"]].values.tolist()
    [['base', 0, False, 0], ['continued', 50, False, 0], ['naive', 50, False, 0]]
    """
    backend = load_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    base, most = read_parts(backend), max(sizes)
    train = load_corpus(f"wordfreq:{language}", chars=train_chars, seed=seed)
    test = load_corpus(f"wordfreq:{language}", chars=test_chars, split="test", seed=seed)
    words, test = count_pretokens(train, base), count_pretokens(test, base)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # a text may yield fewer
        continued = continue_bpe(base, words, most)
        naive = supplement_tokens(backend, words, continued, most)
    ways = {"continued": (continued, "append"), "naive": (naive, "regenerate")}
    there = [n for n in sizes if n <= min(len(e.tokens) for e, _ in ways.values())]
    tables = []
    for skipping in (True, False) if base.merge_skipping else (False,):
        parts = parts_with_skipping(base, skipping)
        plain = pd.DataFrame([{"way": "base", "added": 0, **evaluate(parts, test)}])
        table = pd.concat([plain, evaluate_sizes(parts, ways, there, test)], ignore_index=True)
        tables.append(table.assign(merge_skipping=skipping))
    table = pd.concat(tables, ignore_index=True).fillna({"unreachable_added": 0})
    measures = ["bytes_per_token", "renyi_efficiency", "unused_added", "unreachable_added"]
    table = table.astype({"unreachable_added": int})
    return table[["way", "added", "merge_skipping", *measures]]


def supplement_tokens(
    tokenizer: Tokenizer, words: Pretokens, continued: Extension, n_tokens: int
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
    base = read_parts(tokenizer)
    if base.byte_level:
        rules = {"normalizer": tokenizer.normalizer, "pre_tokenizer": tokenizer.pre_tokenizer}
        train, corpus = partial(train_byte_level_bpe, **rules), words
    else:  # by SentencePiece's rules, over the characters that continued training has
        rules = {"isolate_digits": True, "split_by_script": True, "split_by_number": True}
        rules["byte_fallback"] = bool(base.settings["model"].get("byte_fallback"))
        train = partial(train_sentencepiece_bpe, normalizer=normalizers.NFKC(), **rules)
        known = base.alphabet.keys() | set(continued.tokens[: continued.characters])
        corpus = {word[1:]: n for word, n in words.items() if known.issuperset(word)}
    size = n_tokens + 8_000
    while True:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of fewer
            supplement = train(corpus, vocab_size=size)
        naive = naive_extension(base, supplement)
        if len(naive.tokens) >= n_tokens or supplement.get_vocab_size() < size:
            return naive
        size *= 2


def compare_languages(
    tokenizers: Iterable[str] = ("llama-3", "qwen", "mistral-nemo", "mistral-v1"),
    languages: Iterable[str] = LANGUAGES,
    *,
    workers: int = 2,
    **options,
) -> pd.DataFrame:
    """Run ``compare_language`` for many tokenizers and languages, in ``workers`` processes.

    ``options`` are those of ``compare_language``. The rows come in the order asked for, whatever
    the number of workers, with ``tokenizer`` and ``language`` as the first columns. Raises
    ValueError for ``workers`` below 1.

    >>> few = {"sizes": [50], "train_chars": 30_000, "test_chars": 10_000}
    >>> compare_languages(["qwen"], ["fi", "hi"], workers=1, **few).groupby("language").size().tolist()
    [3, 3]
    """
    compare, pairs = partial(_compare, options), product(tokenizers, languages)
    if positive("workers", workers) == 1:
        return pd.concat(map(compare, pairs), ignore_index=True)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return pd.concat(pool.map(compare, pairs), ignore_index=True)


def _compare(options: dict, pair: tuple[str, str]) -> pd.DataFrame:
    name, language = pair
    table = compare_language(_loaded(name), language, **options)
    names = pd.DataFrame({"tokenizer": name, "language": language}, index=table.index)
    return names.join(table)


_loaded = lru_cache(maxsize=1)(load_tokenizer)  # once for all languages
