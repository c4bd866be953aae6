"""Pre-tokenization: split text as a tokenizer's normalizer and pre-tokenizer do.

The library does it, with two shortcuts where they are proven to give the same pre-tokens
(tests/text/test_pretokens.py goes through every code point): the patterns in ``PATTERNS`` run in the
``regex`` module, and a chunk between two spaces that consists of letters is one pre-token as it is.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import regex
from pyarrow import compute
from tokenizers import Tokenizer, models
from tokenizers.normalizers import NFC

from .token_bytes import byte_of, bytes_of, characters_of, have_only, token_strings

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# OpenAI writes $ where this has \z, the end of the text: the library takes $ for the end of a line.
# Digits are \p{N}{1,3}, not \p{N}{1,3}+, which the library takes for a repetition.
GPT_4 = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++\z|\s*[\r\n]|\s+(?!\S)|\s"
)
GPT_4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# SmolLM2's two steps in one pattern: single digits are split off before GPT-2's pattern is applied, so
# that white space before a digit ends its piece.
SMOLLM2 = GPT_2.replace(r"| ?\p{N}+", r"|\p{N}").replace(r"|\s+(?!\S)", r"|\s+(?=\p{N})|\s+(?!\S)")
# With these patterns a space starts a pre-token, and directly after a word nothing else does. A value
# lists the categories of letters of which a run, with or without a space before it, is one pre-token.
WITHOUT_CASE = {"Lm", "Lo"}
LETTERS = {"Lu", "Ll", "Lt"} | WITHOUT_CASE
PATTERNS = dict.fromkeys((LLAMA_3, QWEN, GPT_2, GPT_4, SMOLLM2), LETTERS)
PATTERNS |= dict.fromkeys((TEKKEN, GPT_4O), {"Ll"} | WITHOUT_CASE)
LINES = {LLAMA_3, QWEN, TEKKEN}  # with these, the last newline in white space ends a pre-token

EMPTY_MODEL = {"type": "BPE", "vocab": {}, "merges": []}
# Its only token is empty, so each pre-token becomes one unknown token, whose string is the pre-token
UNKNOWN_MODEL = {"type": "Unigram", "unk_id": 0, "vocab": [["", 0.0]], "byte_fallback": False}
LONGEST = 1 << 24  # characters that the library normalises and splits at a time

BEFORE_META = re.compile("(?<=[^▁])(?=▁)")


def splits_text(pre_tokenizer: dict | None) -> bool:
    """Say whether a pre-tokenizer, as JSON, splits at all: ``Metaspace`` can be told not to."""
    return pre_tokenizer is not None and pre_tokenizer.get("split") is not False


def pretokenizer_only(config: str, model: dict = EMPTY_MODEL) -> Tokenizer:
    """Make a tokenizer with this normalizer and pre-tokenizer (JSON) and an empty model."""
    settings = json.loads(Tokenizer(models.BPE()).to_str())
    return Tokenizer.from_str(json.dumps(settings | json.loads(config) | {"model": model}))


@lru_cache
def proven_pattern(config: str) -> str | None:
    """Return the pattern of ``PATTERNS`` that a normalizer and pre-tokenizer amount to, or None.

    NFC is allowed before it, since composition does not reach across a split before a space.
    """
    config = json.loads(config)
    if config["normalizer"] not in (None, {"type": "NFC"}):
        return None
    match config["pre_tokenizer"]:
        case {"type": "ByteLevel", "use_regex": True, "add_prefix_space": False}:
            return GPT_2
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "use_regex": True, "add_prefix_space": False},
            ],
        }:
            return SMOLLM2
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False},
            ],
        } if pattern in PATTERNS:  # fmt: skip
            return pattern
    return None


def is_doubtful(text: str) -> bool:
    """Say whether the ``regex`` module and the library may class a character of the text differently.

    They do for characters newer than this Python's Unicode version, and for U+0295, which Unicode 17
    moved from the lowercase letters to those without case.
    """
    unassigned = not text.isprintable() and any(unicodedata.category(c) == "Cn" for c in text)
    return unassigned or "ʕ" in text


# --- splitting --------------------------------------------------------------------------------------
class Pretokenizer:
    """Split text by one normalizer and pre-tokenizer; made by ``pretokenizer``.

    ``pattern`` is the proven pattern or None. ``prefix`` is what is written before each chunk.
    ``at_spaces`` says whether text may be split at single spaces between words first.

    >>> [*pretokenizer('{"normalizer": null, "pre_tokenizer": {"type": "Whitespace"}}')(["a cat"])]
    [['a', 'cat']]
    """

    def __init__(self, config: str):
        self.config, self.pattern = config, proven_pattern(config)
        rules = None if self.pattern else _word_rules(config)
        self.at_spaces = self.pattern is not None or rules is not None
        self.prefix, self._forms, self._types = rules or ("", [], set())
        # Splits one text or chunk. By a pattern the pieces are plain text, not the byte alphabet.
        self.split = _library_splitter(config)
        if self.pattern:
            self.split = _pattern_splitter(config, self.pattern, self.split)

    def __call__(self, texts: list[str]) -> Iterator[list[str]]:
        """Yield the pre-tokens of each text as the model gets them."""
        if self.pattern is None:
            return map(self.split, texts)
        single = self.are_single(pa.array(texts, pa.large_string())).tolist()
        pieces = [[t] if alone else self.split(t) for t, alone in zip(texts, single, strict=True)]
        written = iter(token_strings(chain.from_iterable(pieces)))
        return (list(islice(written, len(of_text))) for of_text in pieces)

    def are_single(self, chunks: pa.Array) -> np.ndarray:
        """Say which chunks (an Arrow array of large strings) are one pre-token, behind ``prefix``."""
        if self.pattern is not None:
            kinds = PATTERNS[self.pattern]
            form = ["NFC"] if json.loads(self.config)["normalizer"] is not None else []

            def allowed(character: str) -> bool:
                return unicodedata.category(character) in kinds and not is_doubtful(character)

            return _have_letters(chunks, allowed, spaces=True) & _are_normalised(chunks, *form)
        if self.prefix and not self._forms and not self._types:
            return ~compute.match_substring_regex(chunks, "[ ▁]|<0x").to_numpy(zero_copy_only=False)
        if self.prefix and len(self._forms) < 2 and self._types <= AT_MARKS:
            return _have_letters(chunks, str.isalpha) & _are_normalised(chunks, *self._forms)
        unchanged = (
            _unchanged_ascii(self.config) if not self.prefix and self._types <= AT_MARKS else ()
        )
        return _have_letters(chunks, unchanged.__contains__)


@lru_cache
def pretokenizer(config: str) -> Pretokenizer:
    """Make the function that splits texts by a normalizer and pre-tokenizer (JSON)."""
    return Pretokenizer(config)


def _library_splitter(config: str) -> Callable[[str], list[str]]:
    """A function that splits a text by the library itself.

    It raises ValueError for a text of more than ``LONGEST`` characters.
    """
    inner = pretokenizer_only(config)
    normalizer, pre_tokenizer = inner.normalizer, inner.pre_tokenizer
    unsplit = not splits_text(json.loads(config)["pre_tokenizer"])
    if AT_START in config:  # the pre-tokenizer alone does not know what the normalizer removed
        without_model = pretokenizer_only(config, UNKNOWN_MODEL)
        return lambda text: without_model.encode(text, add_special_tokens=False).tokens

    def split(text: str) -> list[str]:
        if len(text) > LONGEST:
            raise ValueError(
                f"{len(text):,} characters without a space between two words, beginning with {text[:20]!r}: "
                f"the library needs much time and memory beyond {LONGEST:,}, so split the text into lines"
            )
        if normalizer is not None:
            text = normalizer.normalize_str(text)
        pieces = [text]
        if pre_tokenizer is not None:
            pieces = [piece for piece, _ in pre_tokenizer.pre_tokenize_str(text)]
        return (
            [word for piece in pieces for word in BEFORE_META.split(piece)] if unsplit else pieces
        )

    return split


def _pattern_splitter(
    config: str, pattern: str, by_library: Callable
) -> Callable[[str], list[str]]:
    """A function that splits a text by a proven pattern, and leaves doubtful text to the library."""
    # older versions of the module write the end of the text in another way
    find = regex.compile(pattern.replace(r"\z", r"\Z")).findall
    composes, compose = json.loads(config)["normalizer"] is not None, NFC().normalize_str

    def split(text: str) -> list[str]:
        if text.isascii():
            return find(text)
        if is_doubtful(text):
            return [bytes(map(byte_of().__getitem__, piece)).decode() for piece in by_library(text)]
        if composes and not unicodedata.is_normalized("NFC", text):
            text = compose(text)  # by the library, whose Unicode version is older than Python's
        return find(text)

    return split


# --- chunks that are one pre-token ------------------------------------------------------------------
COMMUTING = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "BertNormalizer"}
AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
AT_MARKS = AT_SPACES | {"Digits", "Punctuation"}
META = [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
]
AT_START = '"prepend_scheme": "first"'  # Metaspace writes ▁ at the start of the text only
AT_BYTES = {"type": "Split", "pattern": {"Regex": "<(?=0x[0-9A-F]{2}>)"}, "invert": False}
AT_META = {"type": "Split", "pattern": {"String": "▁"}, "behavior": "MergedWithNext"}


def _flattened(rule: dict | None, inner: str) -> list[dict]:
    """The steps of a normalizer or pre-tokenizer, one after the other."""
    if rule is None:
        return []
    if rule["type"] != "Sequence":
        return [rule]
    return [step for part in rule[inner] for step in _flattened(part, inner)]


def _word_rules(config: str) -> tuple[str, list[str], set[str]] | None:
    """What a configuration does to a word that it splits alike alone and behind a single space.

    That is the prefix, and the types of the normalizers and of the pre-tokenizers after the split at
    spaces. None for one that does not split there: it does where white space separates words and is
    dropped, and where each space is written as ``▁`` and another ``▁`` precedes the text.
    """
    settings = json.loads(config)
    forms = _flattened(settings["normalizer"], "normalizers")
    first, *later = _flattened(settings["pre_tokenizer"], "pretokenizers") or [None]
    writes_spaces = forms[-2:] == META
    if writes_spaces:
        forms, at_spaces = forms[:-2], first in (None, AT_META | {"invert": False})
        # this step splits only chunks with "<0x", which are left to the library
        later = [step for step in later if not step.items() >= AT_BYTES.items()]
    else:
        at_spaces = first is not None and first["type"] in AT_SPACES
    forms = [step["type"] for step in forms]
    if not at_spaces or not COMMUTING.issuperset(forms) or AT_START in config:
        return None
    return "▁" * writes_spaces, forms, {step["type"] for step in later}


def _have_letters(
    chunks: pa.Array, is_letter: Callable[[str], bool], *, spaces: bool = False
) -> np.ndarray:
    """Which chunks consist of letters, behind at most one space if ``spaces`` is set."""
    raw, offsets = bytes_of(chunks)
    letter = characters_of(raw)
    for code in np.flatnonzero(letter).tolist():
        letter[code] = is_letter(chr(code))
    return have_only(raw, offsets, letter, 32 * spaces)


def _are_normalised(chunks: pa.Array, form: str | None = None) -> np.ndarray:
    """Which chunks are in this Unicode form; none are if there is no such form."""
    if form not in (None, "NFC", "NFD", "NFKC", "NFKD"):
        return np.zeros(len(chunks), bool)
    if form is None or unicodedata.is_normalized(form, bytes_of(chunks)[0].tobytes().decode()):
        return np.ones(len(chunks), bool)
    return np.array([unicodedata.is_normalized(form, chunk) for chunk in chunks.to_pylist()], bool)


@lru_cache
def _unchanged_ascii(config: str) -> set[str]:
    """The ASCII characters that stay as they are, and in one piece with a letter on either side."""
    split = _library_splitter(config)
    return {char for char in map(chr, range(33, 127)) if split(f"a{char}a") == [f"a{char}a"]}
