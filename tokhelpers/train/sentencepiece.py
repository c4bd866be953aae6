"""SentencePiece BPE models: the rules of their pieces, and continued training by them."""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np

from ..text.pretokens import Pretokens
from ..tokenizer.parts import Parts
from ..tokenizer.pretokenization import library_cutter
from ..tokenizer.segmentation import segment, sum_by_id, symbols_of
from ..tokenizer.token_bytes import code_points
from .merges import learn_vocabulary

DIGITS = frozenset("0123456789０１２３４５６７８９")  # those that sentencepiece knows


COVERAGE = (
    0.99995  # share of a text's characters that are to be tokens; as in Llama-2 and Mistral v1
)


# --- which pieces are allowed -------------------------------------------------------------------
def piece_check(
    max_sentencepiece_length: int | None = 16,
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


# --- continued training -------------------------------------------------------------------------
def learn_pieces(
    words: Pretokens,
    parts: Parts,
    n_tokens: int,
    *,
    min_frequency: int = 1,
    max_token_length: int | None = None,
) -> tuple[tuple[list[str], list[tuple[str, str]], list[int]], int]:
    """Continue the training of a tokenizer of characters; returns as ``learn_tokens``, and a number.

    This says how many of the first tokens are new characters: they count among the ``n_tokens``, and
    need no merges. Nothing merges with byte tokens and the unknown token. Source: Purason et al.
    2025, section 3.1.
    """
    pre_tokenizer = parts.steps["pre_tokenizer"]
    if pre_tokenizer is None or pre_tokenizer["type"] == "Metaspace":
        texts, counts = _normalised(words, parts)
        characters = _new_characters(texts, counts, parts, min_frequency)[:n_tokens]
        valid = piece_check(max_token_length or 16)
    else:  # the rules are those of the pre-tokenizer
        texts, counts, characters = words.strings, words.counts, []
        valid = piece_check(max_token_length, split_by_unicode_script=False, split_digits=False)
    wider = parts.with_tokens(characters)
    tokens, *learned = learn_vocabulary(
        *segment(*symbols_of(texts, wider, dropping=True), wider.merge_table),
        counts,
        wider.vocab,
        n_tokens - len(characters),
        known=wider.merge_table,
        valid=valid,
        apart=parts.unmerged,
        min_frequency=min_frequency,
    )
    return (characters + tokens, *learned), len(characters)


def _normalised(words: Pretokens, parts: Parts) -> tuple[list[str], np.ndarray]:
    """Pre-tokens and counts of the NFKC-normalised text, in which there may be more spaces."""
    cut = library_cutter(json.dumps(parts.steps | {"normalizer": None}))
    normal = Counter()
    for word, n in zip(words.words, words.counts.tolist(), strict=True):
        text = unicodedata.normalize("NFKC", word)
        for piece in [word] if text == word else cut(text.replace(" ", "▁")):
            normal[piece] += n
    return list(normal), np.fromiter(normal.values(), np.int64, len(normal))


def _new_characters(texts, counts, parts: Parts, least: int) -> list[str]:
    """The characters that the vocabulary lacks and ``COVERAGE`` asks for, the most frequent first.

    Control characters are no candidates: for sentencepiece a text ends at a line break.
    """
    codes, offsets = code_points(texts)
    seen = sum_by_id(codes, np.repeat(counts, np.diff(offsets)), 1 + int(codes.max(initial=0)))
    often = {chr(code): int(seen[code]) for code in np.flatnonzero(seen)}
    often = {c: n for c, n in often.items() if unicodedata.category(c) != "Cc"}
    new = sorted(often.keys() - parts.alphabet - parts.unmerged, key=lambda c: (-often[c], c))
    left, total, taken = sum(often[c] for c in new), sum(often.values()), []
    for character in new:
        if total - left >= COVERAGE * total or often[character] < least:
            break
        taken.append(character)
        left -= often[character]
    return taken
