"""What a corpus is: an iterable of documents, or a mapping from documents to their counts."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from numbers import Integral
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..tokenizer.pretokenization import pretokenizer

MOST_CHARACTERS = 1 << 52  # beyond this, counts are not exact as 64-bit floats


def digest(text: str | bytes) -> int:
    """Hash a text (or its UTF-8 bytes) to 64 bits, the same in every process.

    Splits, draws and orders depend on it.

    >>> digest("a cat") % 10
    0
    """
    raw = text.encode() if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big")


class ChunkCounts(dict):
    """Chunks of running text and how often each occurs; a chunk includes the space before it.

    Any other mapping contains whole documents.
    """


class Content(NamedTuple):
    """What stands behind the name of a corpus, with a function for each way to read it.

    ``documents`` and ``blocks`` (whole lines as UTF-8 bytes) return iterators, ``counts`` returns a
    mapping. ``evaluation`` is the name of the corpus to evaluate on; None: FLORES in its language.
    """

    licence: str
    source: str
    documents: Callable[[], Iterator[str]]
    evaluation: str | None = None
    counts: Callable[[], Mapping[str, int]] | None = None
    blocks: Callable[[], Iterator[bytes]] | None = None
    is_divided: bool = True  # into the splits, by the digest of each document
    is_endless: bool = False
    is_evaluation: bool = False  # nothing should be trained on it


def check_corpus(corpus) -> None:
    """Raise TypeError for what is no iterable of texts: a string, a function, a table, a list of paths."""
    if isinstance(corpus, str):
        raise TypeError(
            "the corpus is a single string: put it in a list, or open a file with "
            'load_corpus("text:PATH")'
        )
    if callable(corpus) and not isinstance(corpus, Iterable):
        raise TypeError(f"the corpus is a function: call it, {corpus.__name__}()")
    if isinstance(corpus, list | tuple) and corpus and all(map(_is_file, corpus)):
        raise TypeError(
            f"the corpus is a list of paths, {str(corpus[0])!r} first: open them with "
            'load_corpus("text:PATH"), where PATH can be a folder or a pattern'
        )
    columns = getattr(corpus, "column_names", None)
    if isinstance(corpus, pd.DataFrame):
        columns = list(corpus.columns)
    elif isinstance(columns, dict):
        raise TypeError(f"the corpus has several splits: give a column of one, {list(columns)}")
    if columns is not None:
        kind = type(corpus).__name__
        raise TypeError(
            f'the corpus is a {kind} with the columns {columns}: give one column, such as data["text"]'
        )


def _is_file(document) -> bool:
    is_short = isinstance(document, str | os.PathLike) and len(str(document)) < 1_000
    return is_short and "\0" not in str(document) and os.path.isfile(document)


def counts_of(corpus) -> Mapping[str, int] | None:
    """Return the counts of a corpus that consists of counts, None for any other."""
    if isinstance(corpus, pd.Series):
        if not pd.api.types.is_integer_dtype(corpus.dtype):
            return None
        # an index may have a document several times
        return corpus.groupby(level=0, sort=False, dropna=False).sum().to_dict()
    return corpus if isinstance(corpus, Mapping) else getattr(corpus, "counts", None)


def weighted_documents(
    corpus: Iterable[str], pretokenizer_config: str | None = None, *, unchecked: bool = False
) -> Iterator[tuple[str, int]]:
    """Iterate over the documents of a corpus, each with how often it occurs.

    A chunk of `ChunkCounts` loses its leading space if the pre-tokenizer adds one. With ``unchecked``
    the caller finds documents that are not strings, as encoding them does at no cost. Raises TypeError
    for a single string, a table and a document that is not a string; ValueError for a missing value,
    a count that is not a non-negative integer, and counts of more than 2^52 characters.

    >>> list(weighted_documents({"cat": 2, "dog": 0}))
    [('cat', 2)]
    """
    check_corpus(corpus)
    counts = counts_of(corpus)
    if counts is None:
        return zip(corpus, repeat(1)) if unchecked else _checked_documents(corpus)
    # most counts are plain, and are recognised four times as fast as they are checked one by one
    documents = counts.items() if _are_plain(counts) else _checked_counts(counts)
    if isinstance(counts, ChunkCounts) and adds_space(pretokenizer_config):
        return ((document.removeprefix(" "), n) for document, n in documents)
    return iter(documents)


def adds_space(pretokenizer_config: str | None) -> bool:
    """Say whether a normalizer or pre-tokenizer puts ``▁`` before a text."""
    if pretokenizer_config is None:
        return False
    return "".join(pretokenizer(pretokenizer_config).split("a")).startswith("▁")


def _checked_documents(corpus: Iterable[str]) -> Iterator[tuple[str, int]]:
    for index, document in enumerate(corpus):
        if not isinstance(document, str):
            raise wrong_document(document, index)
        yield document, 1


def _are_plain(counts: Mapping[str, int]) -> bool:
    """Whether counts are strings with positive integers, far below the limit."""
    types = set(map(type, counts)), set(map(type, counts.values()))
    if types != ({str}, {int}) or max(counts.values()) >= MOST_CHARACTERS:
        return False
    numbers = np.fromiter(counts.values(), np.float64, len(counts))
    sizes = np.fromiter(map(len, counts), np.float64, len(counts)) + 1
    return numbers.min() > 0 and numbers @ sizes < MOST_CHARACTERS / 2


def _checked_counts(counts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    total = 0
    for index, (document, n) in enumerate(counts.items()):
        if not isinstance(document, str):
            raise wrong_document(document, index)
        if not isinstance(n, int | Integral) or n < 0:  # an int is recognised fastest
            raise ValueError(
                f"the count of {document!r:.40} is {n!r}: it must be a whole number, such as 1"
            )
        total += int(n) * (1 + len(document))
        if total > MOST_CHARACTERS:
            raise ValueError(
                f"the documents up to {document!r:.40} have more than 2^52 characters, beyond which "
                "counts are not exact: divide the counts"
            )
        if n:
            yield document, int(n)


def wrong_document(document, index: int) -> Exception:
    """Make the error for a document that is not a string."""
    is_nan = isinstance(document, float) and document != document
    if document is None or document is pd.NA or is_nan:
        return ValueError(f"missing value at index {index}: leave it out, or use Series.dropna()")
    kind = type(document).__name__
    return TypeError(f"the document at index {index} must be a string, not {kind}")
