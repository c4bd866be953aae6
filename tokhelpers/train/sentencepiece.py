"""SentencePiece's rules: which pieces its BPE trainer allows, and which characters it begins with."""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np

from ..text.pretokens import Pretokens
from ..tokenizer.pretokenization import pretokenizer
from ..tokenizer.segmentation import sum_by_id
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import code_points

DIGITS = frozenset("0123456789０１２３４５６７８９")  # those that sentencepiece knows
LENGTH = 16  # characters of a piece at most, as in Llama-2, Mistral v1
COVERAGE = 0.99995  # of a text's characters that share shall be tokens; as in Llama-2, Mistral v1


# --- which pieces are allowed -------------------------------------------------------------------
def piece_check(
    max_sentencepiece_length: int | None = LENGTH,
    split_by_unicode_script: bool = True,
    split_by_number: bool = True,
    split_digits: bool = True,
) -> Callable[[str], bool]:
    """Make a function that says whether a merged piece keeps to the rules of sentencepiece's trainer.

    Their names are its own, the defaults those of Llama-2 and Mistral v1. No piece is of two scripts
    (Han, Hiragana and Katakana are one, inherited marks go with their base), or of digits and
    letters, and every digit stands alone. ``▁`` stands only at the start of a piece, or in one of
    nothing else. Source: ``IsValidSentencePiece`` there.

    >>> valid = piece_check()
    >>> [valid(piece) for piece in ("▁cat", "cat▁", "▁▁", "▁7", "aж", "食べる")]
    [True, False, True, False, False, True]
    """
    limit = max_sentencepiece_length or float("inf")

    def valid(piece: str) -> bool:
        if len(piece) > limit:
            return False
        body = piece.lstrip("▁")
        if not body:
            return True
        if len(piece) - len(body) > 1 or "▁" in body:
            return False
        if split_digits and not DIGITS.isdisjoint(piece):
            return False
        return not split_by_unicode_script or _one_script(body, split_by_number)

    return valid


def shorter_than(limit: int | None) -> Callable[[str], bool] | None:
    """Make a function that says whether a token string has at most so many characters."""
    return None if limit is None else lambda token: len(token) <= limit


def _one_script(text: str, by_number: bool) -> bool:
    """Whether text stays within one script; digits are of any, unless `by_number`."""
    before = None
    for character in text:
        script = _script(character)
        if script == "Zinh":
            script = before
        elif character in DIGITS and not by_number:
            script = None
        if None not in (script, before) and script != before:
            return False
        before = script
    return True


@cache
def _script(character: str) -> str:
    from fontTools.unicodedata import script

    kana = {"Hira", "Kana"}
    return "Hani" if script(character) in kana or character == "ー" else script(character)


# --- what is learned from ------------------------------------------------------------------------
def has_rules(spec: TokenizerSpec) -> bool:
    """Whether these rules hold: not for bytes, nor where a pre-tokenizer has rules of its own."""
    pre_tokenizer = spec.pipeline["pre_tokenizer"] or {"type": "Metaspace"}
    return not spec.byte_level and pre_tokenizer["type"] == "Metaspace"


def normalised(words: Pretokens, spec: TokenizerSpec) -> tuple[list[str], np.ndarray]:
    """Pre-tokens and counts of the NFKC-normalised text, in which there may be more spaces."""
    split = pretokenizer(json.dumps(spec.pipeline | {"normalizer": None})).split
    normal = Counter()
    for word, n in zip(words.words, words.counts.tolist(), strict=True):
        text = unicodedata.normalize("NFKC", word)
        for piece in [word] if text == word else split(text.replace(" ", "▁")):
            normal[piece] += n
    return list(normal), np.fromiter(normal.values(), np.int64, len(normal))


def new_characters(texts, counts, spec: TokenizerSpec, least: int) -> list[str]:
    """The characters that the vocabulary lacks and ``COVERAGE`` asks for, the most frequent first.

    Control characters are no candidates: for sentencepiece a text ends at a line break.
    """
    codes, offsets = code_points(texts)
    seen = sum_by_id(codes, np.repeat(counts, np.diff(offsets)), 1 + int(codes.max(initial=0)))
    often = {chr(code): int(seen[code]) for code in np.flatnonzero(seen)}
    often = {c: n for c, n in often.items() if unicodedata.category(c) != "Cc"}
    new = sorted(often.keys() - spec.alphabet - spec.unmerged, key=lambda c: (-often[c], c))
    left, total, taken = sum(often[c] for c in new), sum(often.values()), []
    for character in new:
        if total - left >= COVERAGE * total or often[character] < least:
            break
        taken.append(character)
        left -= often[character]
    return taken
