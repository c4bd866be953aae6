"""How a tokenizer cuts text before its model sees it: its patterns, its rules, and a cutter.

``PATTERNS`` are the patterns by which the ``regex`` module cuts as the library does
(tests/text/test_pretokens.py goes through every code point).
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import repeat
from numbers import Integral

from tokenizers import Tokenizer, models

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

NOTHING = {"type": "BPE", "vocab": {}, "merges": []}
# Its only token is empty, so each pre-token comes out as one unknown token, which is the pre-token
UNKNOWN = {"type": "Unigram", "unk_id": 0, "vocab": [["", 0.0]], "byte_fallback": False}
LONGEST = 1 << 24  # characters that the library normalizes and cuts at a time

BEFORE_META = re.compile("(?<=[^▁])(?=▁)")


class ChunkCounts(dict):
    """Chunks of running text and how often each occurs; a chunk has the space that stands before it.

    Iterating over any other mapping gives whole documents.
    """


def documents_with_counts(
    corpus: Iterable[str], rules: str | None = None
) -> Iterator[tuple[str, int]]:
    """Iterate over the documents of a corpus, each with how often it occurs.

    A mapping, or an object whose ``counts`` is one, says it. Where these are `ChunkCounts` and the
    rules (`cutting_rules`) put ``▁`` before a text, a chunk comes without its leading space, of
    which there would be two. Raises ValueError for a count that is no whole number from 0 on, and
    for more than 2^52 characters in all: counts are compared as 64-bit floats.

    >>> list(documents_with_counts(["a", "b", "a"])), list(documents_with_counts({"a": 2}))
    ([('a', 1), ('b', 1), ('a', 1)], [('a', 2)])
    """
    exact, total = _exact(corpus), 0
    if exact is None:
        yield from zip(corpus, repeat(1))
        return
    twice = _space_twice(exact, rules)
    for document, n in exact.items():
        if not isinstance(n, int | Integral) or n < 0:  # an int is known at once
            raise ValueError(
                f"the document {document!r:.40} has the count {n!r}: give whole numbers"
            )
        total += int(n) * (1 + len(document) if isinstance(document, str) else 1)
        if total > 1 << 52:
            raise ValueError(
                f"the documents up to {document!r:.40} stand for more than 2^52 characters, beyond "
                "which counts are not exact: divide the counts"
            )
        if n:
            yield document.removeprefix(" ") if twice else document, int(n)


def dropped_spaces(corpus: Iterable[str], rules: str) -> int:
    """How many characters of a corpus `documents_with_counts` leaves out by these rules: spaces."""
    exact = _exact(corpus)
    chunks = exact.items() if _space_twice(exact, rules) else ()
    return sum(n for chunk, n in chunks if chunk.startswith(" "))


def _exact(corpus: Iterable[str]) -> Mapping[str, int] | None:
    return corpus if isinstance(corpus, Mapping) else getattr(corpus, "counts", None)


def _space_twice(exact: Mapping[str, int] | None, rules: str | None) -> bool:
    """Whether the rules put ``▁`` before chunks that have their space already."""
    chunks = isinstance(exact, ChunkCounts) and rules is not None
    return chunks and "".join(library_cutter(rules)("a")).startswith("▁")


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


def is_doubtful(word: str) -> bool:
    """Say whether the regex module and the library may class a character of the word differently.

    They do so with characters newer than this Python's Unicode version, and with U+0295, which
    Unicode 17 moved from the lower case to the letters without case.
    """
    unassigned = not word.isprintable() and any(unicodedata.category(c) == "Cn" for c in word)
    return unassigned or "ʕ" in word
