"""SentencePiece BPE models: the rules of their pieces, and continued training by them."""

import json
import os
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

import numpy as np

from ..text.pretokens import Pretokens
from ..tokenizer.formats import spm_file
from ..tokenizer.parts import Parts
from ..tokenizer.pretokenization import library_cutter
from ..tokenizer.segmentation import segment, sum_by_id, symbols_of
from ..tokenizer.token_bytes import code_points
from .merges import learn_vocabulary

DIGITS = frozenset("0123456789０１２３４５６７８９")  # those that sentencepiece knows


@dataclass(frozen=True)
class PieceRules:
    """Say what the pieces of a SentencePiece BPE model may be; by default, as in Llama-2 and Mistral v1.

    The names are those of sentencepiece's trainer. ``max_sentencepiece_length`` is in characters,
    ``▁`` included; ``split_by_unicode_script`` allows no piece of two scripts (Han, Hiragana and
    Katakana are one, inherited marks go with their base), and with ``split_by_number`` none of
    digits and letters; ``split_digits`` keeps every digit alone. ``▁`` stands only at the start of
    a piece; ``allow_whitespace_only_pieces`` allows those of nothing else. New characters become
    tokens until ``character_coverage``, a share of the text's characters, is reached; 0 adds none.
    ``nfkc`` says that text is NFKC-normalised before it is learned from.

    >>> PieceRules(split_digits=False).max_sentencepiece_length
    16
    """

    max_sentencepiece_length: int | None = 16
    split_by_unicode_script: bool = True
    split_by_number: bool = True
    split_digits: bool = True
    allow_whitespace_only_pieces: bool = True
    character_coverage: float = 0.99995
    nfkc: bool = True


# a tokenizer with a pre-tokenizer has its rules there
NO_RULES = PieceRules(
    max_sentencepiece_length=None,
    split_by_unicode_script=False,
    split_by_number=False,
    split_digits=False,
    character_coverage=0,
    nfkc=False,
)


def piece_rules(model: str | os.PathLike) -> PieceRules:
    """Read the rules by which a SentencePiece BPE model was trained from its ``.model`` file.

    Raises ValueError for a file that is no such model, or one that cannot be converted to a
    ``tokenizers.Tokenizer`` (a normalizer other than identity, ``▁`` at the end of pieces).

    >>> from tokhelpers.tokenizer.vendors import source_file
    >>> piece_rules(source_file("mistral-v1")) == PieceRules()
    True
    """
    spec = spm_file(model).trainer_spec
    read_here = {f.name: getattr(spec, f.name) for f in fields(PieceRules) if f.name != "nfkc"}
    read_here["character_coverage"] = round(read_here["character_coverage"], 6)  # stored in 32 bits
    return PieceRules(**read_here)


def default_rules(parts: Parts) -> PieceRules | None:
    """Choose the rules for a tokenizer by its pre-tokenizer; None for a byte-level one."""
    if parts.byte_level:
        return None
    pre_tokenizer = parts.steps["pre_tokenizer"]
    if pre_tokenizer is None or pre_tokenizer["type"] == "Metaspace":
        return PieceRules()
    return NO_RULES


# --- which pieces are allowed -------------------------------------------------------------------
def piece_check(rules: PieceRules) -> Callable[[str], bool]:
    """Make a function that says whether a merged piece keeps to the rules.

    Source: sentencepiece's trainer (its ``IsValidSentencePiece``).

    >>> valid = piece_check(PieceRules())
    >>> [valid(piece) for piece in ("▁cat", "cat▁", "▁▁", "▁7", "aж", "食べる")]
    [True, False, True, False, False, True]
    """
    limit = rules.max_sentencepiece_length or float("inf")

    def valid(piece: str) -> bool:
        if len(piece) > limit:
            return False
        body = piece.lstrip("▁")
        if not body:
            return rules.allow_whitespace_only_pieces
        if len(piece) - len(body) > 1 or "▁" in body:
            return False
        if rules.split_digits and not DIGITS.isdisjoint(piece):
            return False
        return not rules.split_by_unicode_script or _one_script(body, rules.split_by_number)

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
    words: Pretokens, parts: Parts, n_tokens: int, rules: PieceRules, *, min_frequency: int = 1
) -> tuple[list[str], list[tuple[str, str]], list[int], int]:
    """Continue the training of a SentencePiece BPE tokenizer on counted pre-tokens.

    New characters come first (see ``PieceRules``; they count among the ``n_tokens``), then merges
    are learned as by ``learn_tokens``; nothing merges with byte tokens and the unknown token.
    Characters and pairs below ``min_frequency`` are left out. Returns tokens, merges, the frequency
    of each merge, and how many of the tokens are characters.

    Source: Purason et al. 2025, section 3.1.
    """
    texts, counts = _normalised(words, parts) if rules.nfkc else (words.strings, words.counts)
    characters = _new_characters(texts, counts, parts, rules, min_frequency)[:n_tokens]
    wider = parts.with_tokens(characters)
    tokens, merges, frequencies = learn_vocabulary(
        *segment(*symbols_of(texts, wider, dropping=True), wider.merge_table),
        counts,
        wider.vocab,
        n_tokens - len(characters),
        known=wider.merge_table,
        valid=piece_check(rules),
        apart=parts.unmerged,
        min_frequency=min_frequency,
    )
    return characters + tokens, merges, frequencies, len(characters)


def _normalised(words: Pretokens, parts: Parts) -> tuple[list[str], np.ndarray]:
    """Pre-tokens and counts of the NFKC-normalised text, in which there may be more spaces."""
    cut = library_cutter(json.dumps(parts.steps | {"normalizer": None}))
    normal = Counter()
    for word, n in zip(words.words, words.counts.tolist(), strict=True):
        text = unicodedata.normalize("NFKC", word)
        for piece in [word] if text == word else cut(text.replace(" ", "▁")):
            normal[piece] += n
    return list(normal), np.fromiter(normal.values(), np.int64, len(normal))


def _new_characters(texts, counts, parts: Parts, rules: PieceRules, least: int) -> list[str]:
    """The characters that the vocabulary lacks and the coverage asks for, the most frequent first.

    Control characters are no candidates: for sentencepiece a text ends at a line break.
    """
    codes, offsets = code_points(texts)
    seen = sum_by_id(codes, np.repeat(counts, np.diff(offsets)), 1 + int(codes.max(initial=0)))
    often = {chr(code): int(seen[code]) for code in np.flatnonzero(seen)}
    often = {c: n for c, n in often.items() if unicodedata.category(c) != "Cc"}
    new = sorted(often.keys() - parts.alphabet - parts.unmerged, key=lambda c: (-often[c], c))
    left, total, taken = sum(often[c] for c in new), sum(often.values()), []
    for character in new:
        if total - left >= rules.character_coverage * total or often[character] < least:
            break
        taken.append(character)
        left -= often[character]
    return taken
