"""Text into unique pre-tokens and their counts: everything after works on these.

The tokenizer's own normalizer and pre-tokenizer decide what a pre-token is. Two faster code paths
give the same counts where this is proven (tests/text/test_pretokens.py goes through every code
point): text is cut at single spaces between words first, so that only unique words are looked at;
and the patterns in ``PATTERNS`` run in the ``regex`` module.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
import pyarrow as pa
from pyarrow import compute

from ..tokenizer.checks import SURROGATE
from ..tokenizer.pretokenization import (
    LINES,
    PATTERNS,
    is_doubtful,
    library_cutter,
    pattern_cutter,
    proven_pattern,
)
from ..tokenizer.token_bytes import bytes_of, characters_of, have_only, strings_of_bytes
from .chunks import count_chunks

PRETOKEN_BYTES = 250  # what a pre-token and its count take in a mapping (measured)


@dataclass(frozen=True, eq=False, repr=False)
class Pretokens(Mapping):
    """Unique pre-tokens of a text and how often each occurs: a mapping pre-token -> count.

    ``strings`` (an Arrow array) and ``words`` (a list) are the pre-tokens as the model gets them
    (``Ġword``), ``counts`` an int64 array beside them. ``chars``, ``bytes`` (UTF-8),
    ``spaced_words`` (separated by white space) and ``documents`` measure the text as it was given,
    before normalisation. ``rules`` is the normalizer and pre-tokenizer that were applied.
    """

    strings: pa.Array
    counts: np.ndarray
    chars: int
    bytes: int
    spaced_words: int
    documents: int
    rules: str

    @cached_property
    def words(self) -> list[str]:
        return self.strings.to_pylist()

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __getitem__(self, word: str) -> int:
        return int(self.counts[self._places[word]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.strings)

    def at_least(self, min_count: int) -> "Pretokens":
        """Those that occur so often, of the same text; ValueError when there are none."""
        kept = self.counts >= min_count
        if not kept.any():
            raise ValueError(
                f"no pre-token occurs {min_count:,} times: give a smaller min_count"
                if min_count > 1
                else f"the corpus has no text in its {self.documents:,} documents: nothing to count"
            )
        if kept.all():
            return self
        return replace(self, strings=self.strings.filter(kept), counts=self.counts[kept])

    def __repr__(self) -> str:
        return f"Pretokens({len(self):,} unique, {self.counts.sum():,} in all)"


# --- which code path: a proven pattern, or the library ---------------------------------------------
COMMUTING = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "BertNormalizer"}
AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
AT_MARKS = AT_SPACES | {"Digits", "Punctuation"}
META = [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
]
AT_BYTES = {"type": "Split", "pattern": {"Regex": "<(?=0x[0-9A-F]{2}>)"}, "invert": False}
AT_META = {"type": "Split", "pattern": {"String": "▁"}, "behavior": "MergedWithNext"}


def _steps(rule: dict | None, inner: str) -> list[dict]:
    """The steps of a normalizer or pre-tokenizer, one after the other."""
    if rule is None:
        return []
    if rule["type"] != "Sequence":
        return [rule]
    return [step for part in rule[inner] for step in _steps(part, inner)]


@lru_cache
def word_rules(rules: str) -> tuple[str, list[str], set[str]] | None:
    """What rules do to a word that they cut in the same way alone and behind a single space.

    That is what is put before it, and the types of the normalizers and of the pre-tokenizers behind the
    cut at spaces. None for rules that do not cut there: they do where white space separates words and
    falls away, and where each space is written as ``▁`` and another ``▁`` stands before the text.
    """
    rules = json.loads(rules)
    forms = _steps(rules["normalizer"], "normalizers")
    cut, *later = _steps(rules["pre_tokenizer"], "pretokenizers") or [None]
    writes_spaces = forms[-2:] == META
    if writes_spaces:
        forms, cuts_there = forms[:-2], cut in (None, AT_META | {"invert": False})
        # only chunks with "<0x" are cut there: they are left to the library
        later = [step for step in later if not step.items() >= AT_BYTES.items()]
    else:
        cuts_there = cut is not None and cut["type"] in AT_SPACES
    forms = [step["type"] for step in forms]
    if not cuts_there or not COMMUTING.issuperset(forms):
        return None
    return "▁" * writes_spaces, forms, {step["type"] for step in later}


# --- from chunks to pre-tokens ---------------------------------------------------------------------
def _of_letters(chunks: pa.Array, is_letter: Callable[[str], bool], spaces: bool) -> np.ndarray:
    """Which chunks have letters only, behind one space at most if they may have `spaces`."""
    raw, offsets = bytes_of(chunks)
    letter = characters_of(raw)
    for code in np.flatnonzero(letter).tolist():
        letter[code] = is_letter(chr(code))
    return have_only(raw, offsets, letter, 32 * spaces)


def _normalised(chunks: pa.Array, form: str | None = None) -> np.ndarray:
    """Which chunks are in this Unicode form; none are in what is no such form."""
    if form not in (None, "NFC", "NFD", "NFKC", "NFKD"):
        return np.zeros(len(chunks), bool)
    if form is None or unicodedata.is_normalized(form, bytes_of(chunks)[0].tobytes().decode()):
        return np.ones(len(chunks), bool)
    return np.array([unicodedata.is_normalized(form, chunk) for chunk in chunks.to_pylist()], bool)


@lru_cache
def _kept_ascii(rules: str) -> set[str]:
    """The ASCII characters that stay what they are, and with a letter on either side."""
    cut = library_cutter(rules)
    return {char for char in map(chr, range(33, 127)) if cut(f"a{char}a") == [f"a{char}a"]}


def _by_spaces(chunks: pa.Array, rules: str) -> tuple[np.ndarray, str, Callable]:
    """Which chunks are pre-tokens behind a prefix, the prefix, and what cuts the others."""
    meta, forms, later = word_rules(rules)
    if meta and not forms and not later:
        whole = ~compute.match_substring_regex(chunks, "[ ▁]|<0x").to_numpy(zero_copy_only=False)
    elif meta and len(forms) < 2 and later <= AT_MARKS:
        whole = _of_letters(chunks, str.isalpha, False) & _normalised(chunks, *forms)
    else:
        kept = _kept_ascii(rules) if not meta and later <= AT_MARKS else ()
        whole = _of_letters(chunks, kept.__contains__, False)
    return whole, meta, library_cutter(rules)


def by_pattern(chunks: pa.Array, rules: str) -> tuple[np.ndarray, str, Callable]:
    """Which chunks are pre-tokens by a proven pattern, no prefix, and what cuts the others.

    None is in the byte alphabet.
    """
    kinds = PATTERNS[proven_pattern(rules)]
    form = "NFC" if json.loads(rules)["normalizer"] is not None else None
    whole = _of_letters(
        chunks, lambda c: unicodedata.category(c) in kinds and not is_doubtful(c), True
    ) & _normalised(chunks, form)
    return whole, "", pattern_cutter(rules)


def _pretoken_counts(chunks: pa.Array, counts: np.ndarray, rules: str) -> tuple:
    """Pre-token counts of unique chunks: only those are cut that are not known to be one each."""
    proven = proven_pattern(rules) is not None
    whole, prefix, cut = (by_pattern if proven else _by_spaces)(chunks, rules)
    pieces = Counter()
    others = chunks.filter(~whole).to_pylist()
    for chunk, n in zip(others, counts[~whole].tolist(), strict=True):
        for piece in cut(chunk):
            pieces[piece] += n
    plain = chunks.filter(whole)
    if prefix:
        prefix, end = (pa.scalar(text, chunks.type) for text in (prefix, ""))
        plain = compute.binary_join_element_wise(prefix, plain, end)
    words, counts = _with_pieces(plain, counts[whole], pieces)
    return strings_of_bytes(*bytes_of(words)) if proven else words, counts


def _with_pieces(whole: pa.Array, counts: np.ndarray, pieces: Counter) -> tuple:
    """Pre-tokens that are whole chunks, and the pieces of other chunks, added up."""
    both = compute.is_in(whole, pa.array(list(pieces), whole.type)).to_numpy(zero_copy_only=False)
    for word, n in zip(whole.filter(both).to_pylist(), counts[both].tolist(), strict=True):
        pieces[word] += n
    words = pa.concat_arrays([whole.filter(~both), pa.array(list(pieces), whole.type)])
    numbers = np.fromiter(pieces.values(), np.int64, len(pieces))
    return words, np.concatenate([counts[~both], numbers])


def tally(
    weighted: Iterable[tuple[str, int]], rules: str, *, first: int = 1, memory: int | None = None
) -> Iterator[tuple[pa.Array, np.ndarray, np.ndarray]]:
    """Count the pre-tokens of (document, how often), in portions of about `memory` bytes.

    Each portion is the pre-tokens, their counts, and the characters, bytes, words and documents
    they were made from (int64). ``first`` is the number of the first document, for messages.
    """
    pattern = proven_pattern(rules)
    if pattern is None and word_rules(rules) is None:
        for counts, sizes in _library_counts(weighted, rules, first, memory):
            words = pa.array(list(counts), pa.large_string())
            yield words, np.fromiter(counts.values(), np.int64, len(counts)), sizes
        return
    options = {"spaces": pattern is not None, "lines": pattern in LINES, "memory": memory}
    for chunks, counts, sizes in count_chunks(_in_bytes(weighted, first), **options):
        words, counts = _pretoken_counts(chunks, counts, rules)
        del chunks
        pa.default_memory_pool().release_unused()
        yield words, counts, sizes


def _in_bytes(weighted, first: int, size: int = 1 << 20):
    """Documents as UTF-8 with how often each counts, in batches of about `size` bytes."""
    documents, texts, times, filled = iter(weighted), [], [], 0
    while some := list(islice(documents, 100)):
        try:
            encoded = [text.encode() for text, _ in some]
        except (AttributeError, UnicodeEncodeError):
            raise _complaint(some, first) from None
        texts += encoded
        times += [n for _, n in some]
        filled += sum(map(len, encoded))
        first += len(some)
        if filled > size:
            yield texts, times
            texts, times, filled = [], [], 0
    yield texts, times


def _complaint(some, first: int) -> Exception:
    """What is wrong with the first document that cannot be encoded."""
    for number, (text, _) in enumerate(some, first):
        if not isinstance(text, str):
            return TypeError(f"document {number} is {type(text).__name__}, not str")
        if surrogate := SURROGATE.search(text):
            break
    return ValueError(
        f"the text holds a lone surrogate ({surrogate[0]!a}), which no encoding can write: "
        "decode it properly, or replace it"
    )


def _library_counts(weighted, rules: str, first: int, memory: int | None):
    """The slow code path: the library normalises and cuts each document."""
    cut, counts, sizes = library_cutter(rules), Counter(), np.zeros(4, np.int64)
    for number, (text, times) in enumerate(weighted, first):
        [raw], _ = next(_in_bytes([(text, times)], number))
        for piece in cut(text):
            counts[piece] += times
        counts.pop("", None)
        sizes += times * np.array([len(text), len(raw), len(text.split()), 1])
        if memory is not None and len(counts) * PRETOKEN_BYTES > memory:
            yield counts, sizes
            counts, sizes = Counter(), np.zeros(4, np.int64)
    yield counts, sizes
