"""The patterns by which real tokenizers split text, and which of them the fast path applies."""

import unicodedata
from functools import lru_cache

import numpy as np

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

# --- where text may be split first ------------------------------------------------------------------
# Classes of characters. MARK is punctuation and symbols except QUOTE, the apostrophe.
SPACE, META, OTHER, LETTER, MARK, DIGIT, QUOTE = range(7)
NEVER, ALWAYS, AFTER_TWO = range(3)  # AFTER_TWO: if all before is a space or mark, and marks
APART = {GPT_2, SMOLLM2}  # with these, a mark and the letters behind it are never one pre-token
SINGLE_DIGITS = {QWEN, TEKKEN, SMOLLM2}


def cuts_of(pattern: str | None) -> np.ndarray:
    """Where a pattern always ends a pre-token, by the classes of the characters before and after.

    No alternative of a pattern goes on from a letter or digit to the other, nor from either to a mark,
    nor from a mark to a digit; and no pattern looks back, so the rest is split as if it stood alone.
    """
    cuts = np.full((7, 7), NEVER, np.uint8)
    if pattern is None:
        return cuts
    cuts[LETTER, [MARK, DIGIT]] = cuts[DIGIT, [LETTER, MARK, QUOTE]] = cuts[MARK, DIGIT] = ALWAYS
    cuts[LETTER, QUOTE] = NEVER if pattern == GPT_4O else ALWAYS
    cuts[MARK, LETTER] = ALWAYS if pattern in APART else AFTER_TWO
    cuts[DIGIT, DIGIT] = ALWAYS if pattern in SINGLE_DIGITS else NEVER
    return cuts


@lru_cache
def classes() -> np.ndarray:
    """The class of each character below U+10000; the others are `OTHER`.

    Letters and marks are those that all Unicode versions know as such, and that composition (NFC)
    leaves as they are.
    """
    table = np.full(1 << 16, OTHER, np.uint8)
    for code, char in enumerate(map(chr, range(1 << 16))):
        kind = unicodedata.category(char)[0]
        if char.isspace():
            table[code] = SPACE
        elif kind in "LPS" and not is_doubtful(char) and unicodedata.is_normalized("NFC", char):
            table[code] = LETTER if kind == "L" else MARK
    table[ord("0") : ord("9") + 1] = DIGIT
    table[ord("'")], table[ord("▁")] = QUOTE, META
    return table


def is_doubtful(text: str) -> bool:
    """Say whether the ``regex`` module and the library may class a character of the text differently.

    They do for characters newer than this Python's Unicode version, and for U+0295, which Unicode 17
    moved from the lowercase letters to those without case.
    """
    unassigned = not text.isprintable() and any(unicodedata.category(c) == "Cn" for c in text)
    return unassigned or "ʕ" in text
