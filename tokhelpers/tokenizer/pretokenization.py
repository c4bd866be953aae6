"""How a tokenizer cuts text before its model sees it: its patterns, its rules, and cutters.

``PATTERNS`` are the patterns by which the ``regex`` module cuts as the library does
(tests/text/test_pretokens.py goes through every code point).
"""

import json
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

import regex
from tokenizers import Tokenizer, models
from tokenizers.normalizers import NFC

from .token_bytes import byte_of

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
# With \z, the end of the text, where OpenAI writes $: to the library that is the end of a line. For
# the same reason digits are \p{N}{1,3}, not \p{N}{1,3}+, which the library reads as a repetition.
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
# SmolLM2's rules, in one pattern: each digit stands alone before GPT-2's pattern cuts what is left, so
# that white space before a digit is at the end of its piece.
SMOLLM2 = GPT_2.replace(r"| ?\p{N}+", r"|\p{N}").replace(r"|\s+(?!\S)", r"|\s+(?=\p{N})|\s+(?!\S)")
# In these patterns a space begins a pre-token, and nothing else does directly after a word. The value
# says of which letters (Unicode categories) a run, and a space and a run, is always one pre-token.
WITHOUT_CASE = {"Lm", "Lo"}
LETTERS = {"Lu", "Ll", "Lt"} | WITHOUT_CASE
PATTERNS = dict.fromkeys((LLAMA_3, QWEN, GPT_2, GPT_4, SMOLLM2), LETTERS)
PATTERNS |= dict.fromkeys((TEKKEN, GPT_4O), {"Ll"} | WITHOUT_CASE)
LINES = {LLAMA_3, QWEN, TEKKEN}  # a pre-token ends after the last newline in white space

NOTHING = {"type": "BPE", "vocab": {}, "merges": []}
# Its only token is empty, so each pre-token comes out as one unknown token, which is the pre-token
UNKNOWN = {"type": "Unigram", "unk_id": 0, "vocab": [["", 0.0]], "byte_fallback": False}
LONGEST = 1 << 24  # characters that the library normalizes and cuts at a time

BEFORE_META = re.compile("(?<=[^▁])(?=▁)")


def cuts_text(pre_tokenizer: dict | None) -> bool:
    """Say whether a pre-tokenizer, as JSON, cuts at all: ``Metaspace`` may be told not to."""
    return pre_tokenizer is not None and pre_tokenizer.get("split") is not False


@lru_cache
def proven_pattern(rules: str) -> str | None:
    """Return the pattern of ``PATTERNS`` behind these rules, or None.

    NFC before it is allowed, as composing does not reach across the cut before a space.
    """
    rules = json.loads(rules)
    if rules["normalizer"] not in (None, {"type": "NFC"}):
        return None
    match rules["pre_tokenizer"]:
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
                {"type": "Split", "pattern": {"Regex": found}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False},
            ],
        } if found in PATTERNS:  # fmt: skip
            return found
    return None


def shell(rules: str, model: dict = NOTHING) -> Tokenizer:
    """Make a tokenizer that treats text by these rules, with an empty model or this one."""
    settings = json.loads(Tokenizer(models.BPE()).to_str())
    return Tokenizer.from_str(json.dumps(settings | json.loads(rules) | {"model": model}))


def library_cutter(rules: str) -> Callable[[str], list[str]]:
    """Make a function that cuts a text by the library itself, for rules without a proven pattern.

    The function raises ValueError for a text of more than ``LONGEST`` characters.

    >>> library_cutter('{"normalizer": null, "pre_tokenizer": {"type": "Whitespace"}}')("a cat")
    ['a', 'cat']
    """
    inner = shell(rules)
    normalizer, pre_tokenizer = inner.normalizer, inner.pre_tokenizer
    whole = not cuts_text(json.loads(rules)["pre_tokenizer"])

    def cut(text: str) -> list[str]:
        if len(text) > LONGEST:
            raise ValueError(
                f"a piece of text of {len(text):,} characters without a space between two words, first "
                f"{text[:20]!r}: the library takes much time and memory for more than {LONGEST:,}, so cut it "
                "into lines"
            )
        if normalizer is not None:
            text = normalizer.normalize_str(text)
        pieces = [text]
        if pre_tokenizer is not None:
            pieces = [piece for piece, _ in pre_tokenizer.pre_tokenize_str(text)]
        return [word for piece in pieces for word in BEFORE_META.split(piece)] if whole else pieces

    return cut


@lru_cache
def pattern_cutter(rules: str) -> Callable[[str], list[str]]:
    """A function that cuts a text by its proven pattern, the pieces not in the byte alphabet.

    The library cuts text that the pattern may take otherwise.
    """
    pattern, library_cut = proven_pattern(rules), library_cutter(rules)
    # the end of the text has another name there, at least in older versions
    find = regex.compile(pattern.replace(r"\z", r"\Z")).findall
    composes, compose = json.loads(rules)["normalizer"] is not None, NFC().normalize_str

    def cut(chunk: str) -> list[str]:
        if chunk.isascii():
            return find(chunk)
        if is_doubtful(chunk):
            pieces = library_cut(chunk)
            return [bytes(map(byte_of().__getitem__, piece)).decode() for piece in pieces]
        if composes and not unicodedata.is_normalized("NFC", chunk):
            chunk = compose(chunk)  # by the library: its Unicode is older than Python's
        return find(chunk)

    return cut


def is_doubtful(word: str) -> bool:
    """Say whether the regex module and the library may class a character of the word differently.

    They do so with characters newer than this Python's Unicode version, and with U+0295, which
    Unicode 17 moved from the lower case to the letters without case.
    """
    unassigned = not word.isprintable() and any(unicodedata.category(c) == "Cn" for c in word)
    return unassigned or "ʕ" in word
