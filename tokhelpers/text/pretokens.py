"""Pre-tokens of a text and their counts, on which every training and measurement works.

The tokenizer's own normalizer and pre-tokenizer decide what a pre-token is. Two faster code paths
give the same counts where that is proven (tests/text/test_pretokens.py tries every code point): text
is first split at single spaces between words, so that only unique words have to be pre-tokenized;
and the patterns in ``PATTERNS`` run in the ``regex`` module.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from ..tokenizer.pretokenization import (
    LINES,
    PATTERNS,
    is_doubtful,
    library_cutter,
    pattern_cutter,
    proven_pattern,
)
from ..tokenizer.token_bytes import bytes_of, characters_of, have_only, strings_of_bytes
from .chunks import Batch, Counts, count_chunks

BATCH_BYTES = 1 << 22  # of documents that are counted together


@dataclass(frozen=True, eq=False, repr=False)
class Pretokens(Mapping):
    """Unique pre-tokens of a text and how often each occurs: a mapping pre-token -> count.

    ``strings`` (an Arrow array) and ``words`` (a list) are the pre-tokens in the form that the model
    receives (``Ġword``), ``counts`` is an int64 array parallel to them. ``chars``, ``bytes`` (UTF-8),
    ``spaced_words`` (separated by white space) and ``documents`` are sizes of the original text,
    before normalisation. ``pretokenizer_config`` is the normalizer and pre-tokenizer, as JSON.
    """

    strings: pa.Array
    counts: np.ndarray
    chars: int
    bytes: int
    spaced_words: int
    documents: int
    pretokenizer_config: str

    @cached_property
    def words(self) -> list[str]:
        return self.strings.to_pylist()

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __getitem__(self, word: str) -> int:
        return int(self.counts[self._indices[word]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.strings)

    def at_least(self, min_count: int) -> "Pretokens":
        """Keep the pre-tokens that occur at least ``min_count`` times; ValueError if there is none."""
        is_kept = self.counts >= min_count
        if not is_kept.any():
            raise ValueError(
                f"no pre-token occurs {min_count:,} times: give a smaller min_count"
                if min_count > 1
                else f"the corpus has no text in its {self.documents:,} documents: nothing to count"
            )
        if is_kept.all():
            return self
        return replace(self, strings=self.strings.filter(is_kept), counts=self.counts[is_kept])

    def __repr__(self) -> str:
        return f"Pretokens({len(self):,} unique, {self.counts.sum():,} in all)"


# --- which code path: a proven pattern, words, or the library ----------------------------------------
COMMUTING = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "BertNormalizer"}
AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
AT_MARKS = AT_SPACES | {"Digits", "Punctuation"}
META = [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
]
AT_BYTES = {"type": "Split", "pattern": {"Regex": "<(?=0x[0-9A-F]{2}>)"}, "invert": False}
AT_META = {"type": "Split", "pattern": {"String": "▁"}, "behavior": "MergedWithNext"}


class WordConfig(NamedTuple):
    """What a config does to words: prefix, normalizers, pre-tokenizers behind the split at spaces."""

    prefix: str
    normalizers: list[str]
    pre_tokenizers: set[str]


def _pipeline(config: dict | None, inner: str) -> list[dict]:
    """The parts of a normalizer or pre-tokenizer, in order."""
    if config is None:
        return []
    if config["type"] != "Sequence":
        return [config]
    return [step for part in config[inner] for step in _pipeline(part, inner)]


@lru_cache
def word_config(pretokenizer_config: str) -> WordConfig | None:
    """Return what a config does to a word, if it treats it alike alone and behind a single space.

    It does so where white space separates words and is dropped, and where each space is replaced
    by ``▁`` and another ``▁`` is put before the text. Returns None for any other config.
    """
    config = json.loads(pretokenizer_config)
    forms = _pipeline(config["normalizer"], "normalizers")
    first, *later = _pipeline(config["pre_tokenizer"], "pretokenizers") or [None]
    replaces_spaces = forms[-2:] == META
    if replaces_spaces:
        forms, is_at_spaces = forms[:-2], first in (None, AT_META | {"invert": False})
        # only chunks with "<0x" are split there: they are left to the library
        later = [step for step in later if not step.items() >= AT_BYTES.items()]
    else:
        is_at_spaces = first is not None and first["type"] in AT_SPACES
    forms = [step["type"] for step in forms]
    if not is_at_spaces or not COMMUTING.issuperset(forms):
        return None
    return WordConfig("▁" * replaces_spaces, forms, {step["type"] for step in later})


# --- from chunks to pre-tokens ---------------------------------------------------------------------
def _of_letters(chunks: pa.Array, is_letter: Callable[[str], bool], spaces: bool) -> np.ndarray:
    """Which chunks consist of letters, behind at most one space if `spaces`."""
    raw, offsets = bytes_of(chunks)
    letter = characters_of(raw)
    for code in np.flatnonzero(letter).tolist():
        letter[code] = is_letter(chr(code))
    return have_only(raw, offsets, letter, 32 * spaces)


def _normalised(chunks: pa.Array, form: str | None = None) -> np.ndarray:
    """Which chunks are in this Unicode form; none if it is another normalizer."""
    if form not in (None, "NFC", "NFD", "NFKC", "NFKD"):
        return np.zeros(len(chunks), bool)
    if form is None or unicodedata.is_normalized(form, bytes_of(chunks)[0].tobytes().decode()):
        return np.ones(len(chunks), bool)
    return np.array([unicodedata.is_normalized(form, chunk) for chunk in chunks.to_pylist()], bool)


@lru_cache
def _kept_ascii(pretokenizer_config: str) -> set[str]:
    """The ASCII characters that are not changed, and not separated from a letter on either side."""
    pretokenize = library_cutter(pretokenizer_config)
    return {c for c in map(chr, range(33, 127)) if pretokenize(f"a{c}a") == [f"a{c}a"]}


def _by_words(chunks: pa.Array, pretokenizer_config: str) -> tuple[np.ndarray, str, Callable]:
    """Which chunks are pre-tokens behind a prefix, the prefix, and the function for the others."""
    meta, forms, later = word_config(pretokenizer_config)
    if meta and not forms and not later:
        needs_library = compute.match_substring_regex(chunks, "[ ▁]|<0x")
        is_pretoken = ~needs_library.to_numpy(zero_copy_only=False)
    elif meta and len(forms) < 2 and later <= AT_MARKS:
        is_pretoken = _of_letters(chunks, str.isalpha, False) & _normalised(chunks, *forms)
    else:
        kept = _kept_ascii(pretokenizer_config) if not meta and later <= AT_MARKS else ()
        is_pretoken = _of_letters(chunks, kept.__contains__, False)
    return is_pretoken, meta, library_cutter(pretokenizer_config)


def by_pattern(chunks: pa.Array, pretokenizer_config: str) -> tuple[np.ndarray, str, Callable]:
    """Return which chunks are pre-tokens by a proven pattern, no prefix, the function for the others.

    None of these pre-tokens is in the byte alphabet.
    """
    kinds = PATTERNS[proven_pattern(pretokenizer_config)]
    form = "NFC" if json.loads(pretokenizer_config)["normalizer"] is not None else None
    is_pretoken = _of_letters(
        chunks, lambda c: unicodedata.category(c) in kinds and not is_doubtful(c), True
    ) & _normalised(chunks, form)
    return is_pretoken, "", pattern_cutter(pretokenizer_config)


def _pretokens_of(chunks: pa.Array, counts: np.ndarray, pretokenizer_config: str) -> tuple:
    """Pre-tokens of unique chunks and their counts; only chunks that may have several are split."""
    is_proven = proven_pattern(pretokenizer_config) is not None
    path = by_pattern if is_proven else _by_words
    is_pretoken, prefix, pretokenize = path(chunks, pretokenizer_config)
    pieces = Counter()
    others = chunks.filter(~is_pretoken).to_pylist()
    for chunk, n in zip(others, counts[~is_pretoken].tolist(), strict=True):
        for piece in pretokenize(chunk):
            pieces[piece] += n
    words = chunks.filter(is_pretoken)
    if prefix:
        prefix, end = (pa.scalar(text, chunks.type) for text in (prefix, ""))
        words = compute.binary_join_element_wise(prefix, words, end)
    words, counts = _with_pieces(words, counts[is_pretoken], pieces)
    return strings_of_bytes(*bytes_of(words)) if is_proven else words, counts


def _with_pieces(words: pa.Array, counts: np.ndarray, pieces: Counter) -> tuple:
    """Add up pre-tokens that are chunks and the pieces of other chunks."""
    in_both = compute.is_in(words, pa.array(list(pieces), words.type))
    in_both = in_both.to_numpy(zero_copy_only=False)
    for word, n in zip(words.filter(in_both).to_pylist(), counts[in_both].tolist(), strict=True):
        pieces[word] += n
    words = pa.concat_arrays([words.filter(~in_both), pa.array(list(pieces), words.type)])
    numbers = np.fromiter(pieces.values(), np.int64, len(pieces))
    return words, np.concatenate([counts[~in_both], numbers])


# --- from documents to counts ------------------------------------------------------------------------
def count_units(batches: Iterable[Batch], pretokenizer_config: str) -> Counts:
    """Count what `pretokens_of_units` turns into pre-tokens: chunks, or the library's pre-tokens.

    The result does not depend on how the documents are batched.
    """
    pattern = proven_pattern(pretokenizer_config)
    if pattern is not None or word_config(pretokenizer_config) is not None:
        return count_chunks(batches, spaces=pattern is not None, lines=pattern in LINES)
    pretokenize, counts, sizes = library_cutter(pretokenizer_config), Counter(), np.zeros(4, int)
    for batch in batches:
        raw = batch.text.tobytes()
        for begin, end, n in zip(*(column.tolist() for column in batch[1:]), strict=True):
            text = raw[begin:end].decode()
            for piece in pretokenize(text):
                counts[piece] += n
            sizes += n * np.array([len(text), end - begin, len(text.split()), 1])
    counts.pop("", None)
    units = pa.array(list(counts), pa.large_string())
    return Counts(units, np.fromiter(counts.values(), np.int64, len(counts)), sizes)


def pretokens_of_units(units: pa.Array, counts: np.ndarray, pretokenizer_config: str) -> tuple:
    """Turn unique units and their counts into unique pre-tokens and their counts."""
    is_library = (
        proven_pattern(pretokenizer_config) is None and word_config(pretokenizer_config) is None
    )
    return (units, counts) if is_library else _pretokens_of(units, counts, pretokenizer_config)


def batches_of(documents: Iterable[tuple[str, int]]) -> Iterator[Batch]:
    """Encode weighted documents as UTF-8, about `BATCH_BYTES` at a time.

    Raises ValueError for a document with a lone surrogate.
    """
    documents, texts, weights, size = iter(documents), [], [], 0
    while group := list(islice(documents, 100)):
        try:
            encoded = [text.encode() for text, _ in group]
        except UnicodeEncodeError as error:
            number = f"U+{ord(error.object[error.start]):04X}"
            raise ValueError(
                f"the text contains the lone surrogate {number}; fix its decoding, or replace it"
            ) from None
        texts += encoded
        weights += [n for _, n in group]
        size += sum(map(len, encoded))
        if size > BATCH_BYTES:
            yield _joined(texts, weights)
            texts, weights, size = [], [], 0
    if texts:
        yield _joined(texts, weights)


def _joined(texts: list[bytes], weights: list[int]) -> Batch:
    text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)  # an empty buffer is refused
    offsets = np.cumsum([0, *map(len, texts)])
    return Batch(text, offsets[:-1], offsets[1:], np.array(weights, np.int64))
