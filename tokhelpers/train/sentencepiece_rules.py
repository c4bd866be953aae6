"""SentencePiece's training rules: which pieces are valid, and which characters become tokens."""

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

DIGITS = frozenset("0123456789０１２３４５６７８９")  # as sentencepiece defines them
LENGTH = 16  # maximum characters of a piece, as in Llama-2 and Mistral v1
COVERAGE = 0.99995  # share of the text's characters to cover, as in Llama-2 and Mistral v1


# --- valid pieces ---------------------------------------------------------------------------------
def piece_check(
    max_sentencepiece_length: int | None = LENGTH,
    split_by_unicode_script: bool = True,
    split_by_number: bool = True,
    split_digits: bool = True,
) -> Callable[[str], bool]:
    """Return a function that checks a merged piece by the rules of sentencepiece's trainer.

    Arguments are named as there; the defaults are those of Llama-2 and Mistral v1. A piece has a
    single script (Han, Hiragana and Katakana count as one; inherited marks take their base's), no
    digits with letters, and no digit with anything. ``▁`` occurs only at the start of a piece, or in a
    piece of ``▁`` alone. Source: sentencepiece's ``IsValidSentencePiece``.

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
    """Return a function that checks that a token string has at most ``limit`` characters, or None."""
    return None if limit is None else lambda token: len(token) <= limit


def _one_script(text: str, split_by_number: bool) -> bool:
    """Whether a text has a single script; digits fit any script unless ``split_by_number``."""
    previous = None
    for character in text:
        script = _script(character)
        if script == "Zinh":
            script = previous
        elif character in DIGITS and not split_by_number:
            script = None
        if None not in (script, previous) and script != previous:
            return False
        previous = script
    return True


@cache
def _script(character: str) -> str:
    from fontTools.unicodedata import script

    kana = {"Hira", "Kana"}
    return "Hani" if script(character) in kana or character == "ー" else script(character)


# --- the training text ----------------------------------------------------------------------------
def has_rules(spec: TokenizerSpec) -> bool:
    """Whether a tokenizer follows these rules: not byte-level, and pre-tokenized by Metaspace at most."""
    pre_tokenizer = spec.pipeline["pre_tokenizer"] or {"type": "Metaspace"}
    return not spec.byte_level and pre_tokenizer["type"] == "Metaspace"


def normalise(words: Pretokens, spec: TokenizerSpec) -> tuple[list[str], np.ndarray]:
    """Apply NFKC to pre-tokens and split them at spaces that it introduces; returns new counts."""
    split = pretokenizer(json.dumps(spec.pipeline | {"normalizer": None})).split
    counts = Counter()
    for word, n in zip(words.words, words.counts.tolist(), strict=True):
        text = unicodedata.normalize("NFKC", word)
        for piece in [word] if text == word else split(text.replace(" ", "▁")):
            counts[piece] += n
    return list(counts), np.fromiter(counts.values(), np.int64, len(counts))


def new_characters(texts, counts, spec: TokenizerSpec, min_frequency: int) -> list[str]:
    """List the characters to add for ``COVERAGE`` of the text, in descending order of frequency.

    Control characters are not added: for sentencepiece a text ends at a line break.
    """
    codes, offsets = code_points(texts)
    by_code = sum_by_id(codes, np.repeat(counts, np.diff(offsets)), 1 + int(codes.max(initial=0)))
    frequency = {chr(code): int(by_code[code]) for code in np.flatnonzero(by_code)}
    frequency = {c: n for c, n in frequency.items() if unicodedata.category(c) != "Cc"}
    candidates = frequency.keys() - spec.alphabet - spec.unmerged
    candidates = sorted(candidates, key=lambda c: (-frequency[c], c))
    total, uncovered = sum(frequency.values()), sum(frequency[c] for c in candidates)
    selected = []
    for character in candidates:
        if total - uncovered >= COVERAGE * total or frequency[character] < min_frequency:
            break
        selected.append(character)
        uncovered -= frequency[character]
    return selected
