"""Pre-tokenization: split text as a tokenizer's normalizer and pre-tokenizer do.

The library does it, with two shortcuts where they are proven to give the same pre-tokens
(tests/text/test_pretokens.py goes through every code point): the patterns in ``PATTERNS`` run in the
``regex`` module, and a chunk between two spaces that consists of letters is one pre-token as it is.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import regex
from pyarrow import compute
from tokenizers import AddedToken, Tokenizer, models
from tokenizers.normalizers import NFC

from .patterns import APART, GPT_2, LINES, MARK, PATTERNS, SMOLLM2, classes, cuts_of, is_doubtful
from .token_bytes import byte_of, bytes_of, characters_of, have_only, token_strings

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
    settings, config = json.loads(Tokenizer(models.BPE()).to_str()), json.loads(config)
    config.pop("added_tokens", None)
    return Tokenizer.from_str(json.dumps(settings | config | {"model": model}))


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


# --- splitting --------------------------------------------------------------------------------------
class Pretokenizer:
    """Split text by one normalizer and pre-tokenizer; made by ``pretokenizer``.

    ``pattern`` is the proven pattern or None. ``prefix`` is what is written before each chunk.
    ``at_spaces`` says whether text may be split at single spaces between words first.

    ``config`` may also have ``added_tokens``, at which the library splits raw text: these are left
    out, and what is between them is split.

    >>> [*pretokenizer('{"normalizer": null, "pre_tokenizer": {"type": "Whitespace"}}')(["a cat"])]
    [['a', 'cat']]
    """

    def __init__(self, config: str):
        self.config, self._added = config, AddedTokens(config)
        self.pattern = proven_pattern(config) if self._added.are_inside_chunks else None
        rules = _word_rules(config) if not self.pattern and not self._added.contents else None
        self.at_spaces = self.pattern is not None or rules is not None
        self.prefix, self._forms, self._types = rules or ("", [], set())
        # Splits one text or chunk. By a pattern the pieces are plain text, not the byte alphabet.
        self.split = _library_splitter(config)
        if self.pattern:
            self.split = _pattern_splitter(config, self.pattern, self.split)
        if self._added.contents:
            self.split = self._added.splitter(self.split, plain=self.pattern is not None)

    @property
    def chunk_options(self) -> dict:
        """How text may be split into chunks first: the options of ``count_chunks``."""
        is_proven = self.pattern is not None
        cuts = self.pattern if is_proven and not self._added.contents else None
        return {"rules": cuts_of(cuts), "spaces": is_proven, "lines": self.pattern in LINES}

    def _begins(self, character: str) -> bool:
        """Whether a proven pattern keeps a character and the letters behind it together."""
        code = min(ord(character), 0xFFFF)
        is_mark = classes()[code] == MARK and self.pattern not in APART
        return character == " " or is_mark

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
        if self._added.contents:
            return self._are_single(chunks) & ~self._added.may_occur(chunks)
        return self._are_single(chunks)

    def _are_single(self, chunks: pa.Array) -> np.ndarray:
        if self.pattern is not None:
            kinds = PATTERNS[self.pattern]
            form = ["NFC"] if json.loads(self.config)["normalizer"] is not None else []

            def allowed(character: str) -> bool:
                return unicodedata.category(character) in kinds and not is_doubtful(character)

            return _have_letters(chunks, allowed, self._begins) & _are_normalised(chunks, *form)
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


# --- added tokens ------------------------------------------------------------------------------------
MANY = 50  # added tokens, of which a text is searched by the library at once


class AddedTokens:
    """The ordinary added tokens of a configuration, at which the library splits raw text.

    ``are_inside_chunks`` says whether they only split the chunk that they are in: they do if they
    contain no white space and take none from their neighbours. ``contents`` are their strings.
    """

    def __init__(self, config: str):
        self.config, settings = config, json.loads(config)
        tokens = settings.get("added_tokens", [])
        self._composes = settings["normalizer"] is not None  # NFC, if the pattern is proven
        self.contents = [token["content"] for token in tokens]
        self.are_inside_chunks = not any(
            t["lstrip"] or t["rstrip"] or any(map(str.isspace, t["content"])) for t in tokens
        )

    @cached_property
    def _search(self) -> Callable[[str], re.Match | None]:
        """Search a text for these tokens; compiled when first used, as it takes seconds for thousands."""
        forms = {form for c in self.contents for form in (c, NFC().normalize_str(c))}
        return re.compile("|".join(map(re.escape, sorted(forms)))).search

    def may_occur(self, chunks: pa.Array) -> np.ndarray:
        """Say which chunks may contain one of these tokens, before or after they are normalised."""
        occur = np.array([self._search(chunk) is not None for chunk in chunks.to_pylist()], bool)
        return occur | ~_are_normalised(chunks, "NFC") if self._composes else occur

    def splitter(self, split: Callable[[str], list[str]], *, plain: bool) -> Callable:
        """Make a function that leaves these tokens out of a text and splits what is between them.

        ``split`` is used for texts without them; ``plain`` says that it does not write the byte
        alphabet.
        """
        finder = added_finder(self.config)
        config = json.loads(self.config)
        unsplit = not splits_text(config["pre_tokenizer"])
        always = len(self.contents) > MANY or (self._composes and not plain)

        def split_between(text: str) -> list[str]:
            if len(text) > LONGEST:
                return split(text)  # raises ValueError
            composed = (
                not self._composes or text.isascii() or unicodedata.is_normalized("NFC", text)
            )
            if not always and composed and not self._search(text):
                return split(text)
            encoding = finder.encode(text, add_special_tokens=False)
            pieces = [p for i, p in zip(encoding.ids, encoding.tokens, strict=True) if not i]
            if plain:
                return [bytes(map(byte_of().__getitem__, piece)).decode() for piece in pieces]
            return [word for p in pieces for word in BEFORE_META.split(p)] if unsplit else pieces

        return split_between


def added_finder(config: str) -> Tokenizer:
    """The library's tokenizer with the added tokens of a configuration and without a model.

    A pre-token is the unknown token, ID 0.
    """
    finder = pretokenizer_only(config, UNKNOWN_MODEL)
    tokens = json.loads(config).get("added_tokens", [])
    finder.add_tokens([AddedToken(**token) for token in tokens])
    return finder


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
    chunks: pa.Array,
    is_letter: Callable[[str], bool],
    begins: Callable[[str], bool] = frozenset().__contains__,
) -> np.ndarray:
    """Which chunks consist of letters, behind at most one character that ``begins`` a chunk."""
    raw, offsets = bytes_of(chunks)
    occurs = characters_of(raw)
    allowed = occurs.view(np.uint8)
    for code in np.flatnonzero(occurs).tolist():
        allowed[code] = 2 if is_letter(chr(code)) else begins(chr(code))
    return have_only(raw, offsets, allowed)


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
