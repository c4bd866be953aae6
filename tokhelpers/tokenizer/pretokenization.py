"""How a tokenizer cuts text before its model sees it: its patterns, its rules, and a cutter.

``PATTERNS`` are the patterns by which the ``regex`` module cuts as the library does
(tests/text/test_pretokens.py goes through every code point).
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain

from tokenizers import AddedToken, Encoding, Tokenizer, models

from .library import described
from .parts import Parts
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
# In these patterns a space begins a pre-token, and nothing else does directly after a word. The value
# says of which letters (Unicode categories) a run, and a space and a run, is always one pre-token.
WITHOUT_CASE = {"Lm", "Lo"}
LETTERS = {"Lu", "Ll", "Lt"} | WITHOUT_CASE
PATTERNS = dict.fromkeys((LLAMA_3, QWEN, GPT_2, GPT_4), LETTERS)
PATTERNS |= dict.fromkeys((TEKKEN, GPT_4O), {"Ll"} | WITHOUT_CASE)
LINES = {LLAMA_3, QWEN, TEKKEN}  # a pre-token ends after the last newline in white space

# Its only token is empty, so each pre-token comes out as one unknown token, which is the pre-token
UNKNOWN = {"type": "Unigram", "unk_id": 0, "vocab": [["", 0.0]], "byte_fallback": False}
BATCH = 1_000  # texts that `text_cutter` cuts at a time
LONGEST = 1 << 24  # characters that the library normalizes and cuts at a time

BEFORE_META = re.compile("(?<=[^▁])(?=▁)")


def cutting_rules(tokenizer: Tokenizer | Parts) -> str:
    """Return what decides a tokenizer's pre-tokens: its normalizer and pre-tokenizer, as JSON.

    By the rules of a tokenizer without pre-tokenizer, text is cut before the space symbol. Raises
    ValueError when that would cut through tokens of the vocabulary.

    >>> from tokenizers import pre_tokenizers
    >>> tokenizer = Tokenizer(models.BPE())
    >>> tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> cutting_rules(tokenizer)
    '{"normalizer": null, "pre_tokenizer": {"type": "Whitespace"}}'
    """
    encoder = described(tokenizer)
    rules = encoder.steps
    if not cuts_text(rules["pre_tokenizer"]):
        inside = (
            token for token in encoder.vocab if token.rfind("▁") > 0
        )  # most have none: much faster
        crossing = list(filter(BEFORE_META.search, inside))
        if crossing or "▁" not in json.dumps(rules, ensure_ascii=False):
            raise ValueError(
                "the tokenizer has no pre-tokenizer, so every document would be one word"
                + (f", and tokens such as {crossing[0]!r} cross spaces" if crossing else "")
                + ": give it a pre-tokenizer"
            )
    return json.dumps(rules, ensure_ascii=False)


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
                {"type": "Split", "pattern": {"Regex": found}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False},
            ],
        } if found in PATTERNS:  # fmt: skip
            return found
    return None


def library_cutter(rules: str) -> Callable[[str], list[str]]:
    """Make a function that cuts a text by the library itself, for rules without a proven pattern.

    The function raises ValueError for a text of more than ``LONGEST`` characters.

    >>> library_cutter('{"normalizer": null, "pre_tokenizer": {"type": "Whitespace"}}')("a cat")
    ['a', 'cat']
    """
    settings = json.loads(Tokenizer(models.BPE()).to_str()) | json.loads(rules)
    shell = Tokenizer.from_str(json.dumps(settings))
    normalizer, pre_tokenizer = shell.normalizer, shell.pre_tokenizer
    whole = not cuts_text(settings["pre_tokenizer"])

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


def text_cutter(
    parts: Parts, *, find_special: bool = True
) -> Callable[[list[str]], Iterator[list[str | int]]]:
    """Make a function that cuts texts into pre-tokens (str) and added tokens found in them (ids).

    The library does it all, so that its rules for added tokens hold: white space beside them, whole
    words, normalisation. Without ``find_special`` special tokens are text like any other. Raises
    ValueError for a tokenizer for which a document would be one word.

    >>> list(text_cutter(th.read_parts(th.load_tokenizer("llama-3")))(["a cat<|eot_id|>", ""]))
    [['a', 'Ġcat', 128009], []]
    """
    cutting_rules(parts)
    nothing = {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    shell = Tokenizer.from_str(json.dumps(parts.settings | nothing | {"model": UNKNOWN}))
    added = parts.settings["added_tokens"]
    shell.add_tokens([AddedToken(**{k: v for k, v in t.items() if k != "id"}) for t in added])
    shell.encode_special_tokens = not find_special
    id_of = {shell.token_to_id(t["content"]): t["id"] for t in added}
    whole = not cuts_text(parts.steps["pre_tokenizer"])

    def pieces_of(found: Encoding) -> list[str | int]:
        if not any(found.ids):
            pieces = found.tokens
        else:
            pieces = [id_of.get(i, word) for i, word in zip(found.ids, found.tokens, strict=True)]
        if not whole:
            return pieces
        words = (BEFORE_META.split(p) if isinstance(p, str) else [p] for p in pieces)
        return list(chain.from_iterable(words))

    def cut(texts: list[str]) -> Iterator[list[str | int]]:
        for k in range(0, len(texts), BATCH):
            yield from map(pieces_of, shell.encode_batch(texts[k : k + BATCH]))

    return cut


def is_doubtful(word: str) -> bool:
    """Say whether the regex module and the library may class a character of the word differently.

    They do so with characters newer than this Python's Unicode version, and with U+0295, which
    Unicode 17 moved from the lower case to the letters without case.
    """
    unassigned = not word.isprintable() and any(unicodedata.category(c) == "Cn" for c in word)
    return unassigned or "ʕ" in word


def token_text(parts: Parts, token: str) -> str | None:
    """Return the text that a token string stands for, or None if its bytes are no whole characters.

    >>> token_text(th.read_parts(th.train_byte_level_bpe(["cat"], vocab_size=257)), "Ġcaf")
    ' caf'
    """
    if not parts.byte_level:
        return token.replace("▁", " ")
    try:
        return bytes(map(byte_of().__getitem__, token)).decode()
    except (KeyError, UnicodeDecodeError):
        return None


def always_split(parts: Parts, tokens: Iterable[str]) -> list[str]:
    """List the tokens that no pre-token holds, as the normalizer or pre-tokenizer takes them apart.

    Each token's text is cut alone, after a space, and beside a letter on either side. Tokens that
    hold part of a character are not tried.

    >>> parts = th.read_parts(th.train_byte_level_bpe(["cat"], vocab_size=257))
    >>> always_split(parts, ["catĠ", "Ġcat", "cat"])
    ['catĠ']
    """
    cut = library_cutter(json.dumps(parts.steps))
    # without a pre-tokenizer merges cross spaces
    between = "\0" if cuts_text(parts.steps["pre_tokenizer"]) else ""
    contexts = (("", ""), (" ", ""), ("a", ""), ("", "a"))

    def split(token: str) -> bool:
        inner = token.removeprefix(parts.prefix)
        text = token_text(parts, inner)
        return text is not None and not any(
            inner in between.join(cut(before + text + after)) for before, after in contexts
        )

    return [token for token in tokens if split(token)]
