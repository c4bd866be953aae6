"""Whether a tokenizer is fair to languages: premium over English, Gini, single-token retention."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..text.corpora import load_corpus
from ..text.stored_counts import stored_texts
from .quality import evaluate
from .words import word_lengths

MEASURES = ["bytes_per_token", "chars_per_token", "partial_tokens", "split_characters"]


def premium(tokens: Mapping[str, float] | pd.Series, reference: str = "eng_Latn") -> pd.Series:
    """Divide each language's tokens by those of the reference language, on parallel text.

    ``tokens`` maps a language to the number of tokens of the same sentences. 2 means that the text
    takes twice the tokens that it takes in the reference language: it costs twice as much, and half
    as much of it fits into a context. Raises ValueError where the reference is missing or has no tokens.

    Source: Petrov et al. 2023 (arXiv 2305.15425), section 3; arXiv 2510.21909.

    >>> print(premium({"eng_Latn": 100, "fin_Latn": 180}).fin_Latn)
    1.8
    """
    tokens = pd.Series(tokens, dtype=float)
    if not tokens.get(reference, 0):
        raise ValueError(
            f"there are no tokens of the reference {reference!r}: give those of the same sentences"
        )
    return tokens / tokens[reference]


def gini(values: Iterable[float]) -> float:
    """Compute the Gini coefficient of numbers such as the tokens per sentence of each language.

    0 where all are equal, towards 1 where one language has all of them: the mean difference of two
    values over twice the mean. Raises ValueError without values, for negative ones or a sum of 0.

    >>> gini([1, 1, 1]), gini([0, 0, 0, 1])
    (0.0, 0.75)
    """
    values = np.sort(np.asarray(list(values), float))
    if not len(values) or not np.isfinite(values).all() or values[0] < 0 or not values.sum():
        raise ValueError(
            "a Gini coefficient is of numbers from 0 on, not all 0 and none missing; got "
            f"{values[:5].tolist()}"
        )
    n = len(values)
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float(weights @ values / (n * values.sum()))


def single_token_retention(tokenizer: Tokenizer, words: Sequence[str]) -> float:
    """Compute the share of words that stay one token, each with the space before it.

    Raises ValueError for an empty list.

    Source: arXiv 2510.09947 (single-token retention rate).

    >>> base = th.train_byte_level_bpe(["a bat", "a bat"], vocab_size=259)
    >>> single_token_retention(base, ["bat", "cat"])
    0.5
    """
    words = list(dict.fromkeys(words))
    if not words:
        raise ValueError("there are no words to look for: give the common words of a language")
    return float(np.mean(word_lengths(tokenizer, words) == 1))


def common_words(language: str, n: int = 1_000) -> list[str]:
    """List the ``n`` commonest words in the training text of a language, the commonest first.

    ``language`` is a code such as "fin_Latn". A word is a chunk of ``training:CODE`` without the
    punctuation around it, in small letters; chunks with digits or without a letter do not count. Raises
    ValueError for a language without a training text, and where it has fewer words.

    >>> common_words("eng_Latn", 3)
    ['the', 'to', 'a']
    """
    counts = Counter()
    for chunk, times in load_corpus(f"training:{language}").counts.items():
        word = _core(chunk).lower()
        if word and not any(c.isnumeric() for c in word):
            counts[word] += times
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    if len(ordered) < n:
        raise ValueError(
            f"the training text of {language} has {len(ordered):,} words, fewer than {n:,}: ask for fewer"
        )
    return ordered[:n]


def _core(chunk: str) -> str:
    """What stands between the first letter or mark of a chunk and the last."""
    inside = [i for i, c in enumerate(chunk) if unicodedata.category(c)[0] in "LMN"]
    return chunk[inside[0] : inside[-1] + 1] if inside else ""


def fairness(
    tokenizers: Mapping[str, Tokenizer], languages: Sequence[str] | None = None
) -> pd.DataFrame:
    """Measure what each tokenizer makes of the same 1,012 sentences (FLORES) in many languages.

    ``tokenizers`` maps names to tokenizers; ``languages`` are codes of FLORES texts, by default the
    66 that are written with spaces. Returns one row per tokenizer and language with ``tokenizer``,
    ``language``, ``tokens``, ``premium`` (over English), ``bytes_per_token``, ``chars_per_token``,
    ``partial_tokens`` and ``split_characters`` (as in ``evaluate``). Raises ValueError for a
    language without a FLORES text.

    Source: Petrov et al. 2023 (arXiv 2305.15425).

    >>> table = fairness({"qwen": th.load_tokenizer("qwen")}, ["fin_Latn"])
    >>> table.round(2)[["language", "premium"]].values.tolist()
    [['fin_Latn', 1.97]]
    """
    if languages is None:
        texts = stored_texts()
        languages = texts.language[texts.name.str.startswith("flores:")].tolist()
    tables = []
    for name, tokenizer in tokenizers.items():
        wanted = dict.fromkeys([*languages, "eng_Latn"])
        rows = {code: evaluate(tokenizer, load_corpus(f"flores:{code}")) for code in wanted}
        table = pd.DataFrame(rows).T.rename_axis("language")
        table = table.assign(tokenizer=name, premium=premium(table.tokens)).loc[list(languages)]
        tables.append(table.reset_index().astype({"tokens": int}))
    table = pd.concat(tables, ignore_index=True)
    return table[["tokenizer", "language", "tokens", "premium", *MEASURES]]
