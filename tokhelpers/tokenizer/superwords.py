"""Superwords: let pre-tokens span several words, so that tokens can be learned across spaces."""

import re

import numpy as np
import regex
from tokenizers import Tokenizer

from ..common.checks import positive
from .patterns import GPT_2, GPT_4, GPT_4O, LLAMA_3, QWEN, TEKKEN
from .pretokenization import META
from .spec import TokenizerSpec

DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
).replace(r"\r\n", "\r\n")  # its file has the characters, not their escapes
# The alternative of each pattern that matches a word, and what a further word of a run is: a space and
# the same word. By the two cases of Tekken's and GPT-4o's patterns a run can start with either.
LETTERS, MARKED = r"\p{L}+", r"[\p{L}\p{M}]+"
LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
WORDS = {  # pattern: its alternatives for words, and a further word
    GPT_2: ([r" ?\p{L}+"], LETTERS),
    GPT_4: ([r"[^\r\n\p{L}\p{N}]?+\p{L}++"], r"\p{L}++"),
    LLAMA_3: ([r"[^\r\n\p{L}\p{N}]?\p{L}+"], LETTERS),
    QWEN: ([r"[^\r\n\p{L}\p{N}]?\p{L}+"], LETTERS),
    TEKKEN: ([rf"[^\r\n\p{{L}}\p{{N}}]?{case}" for case in (LOWER, UPPER)], f"(?:{LOWER}|{UPPER})"),
    GPT_4O: (
        [rf"[^\r\n\p{{L}}\p{{N}}]?{case}{ENDING}" for case in (LOWER, UPPER)],
        f"(?:{LOWER}|{UPPER}){ENDING}",
    ),
    DEEPSEEK: (["[^\r\n" + rf"\p{{L}}\p{{P}}\p{{S}}]?{MARKED}"], MARKED),
}
ACROSS = regex.compile(r"[\p{L}\p{M}][ ▁]").search  # a letter and a space
ACROSS_BYTES = re.compile(rb"[A-Za-z\x80-\xff] ").search  # the same in incomplete UTF-8


def with_superwords(tokenizer: Tokenizer, max_words: int = 4) -> Tokenizer:
    """Copy a BPE tokenizer with pre-tokens of up to ``max_words`` words.

    Words are runs of letters with a single space between them. ``continue_bpe`` and ``extend`` then learn
    and add tokens that cross spaces. Vocabulary, IDs and merges stay as they are, and so does the
    segmentation of every text with merge skipping off: no old merge crosses a space. With merge skipping
    on, a word that merges do not reach is no longer emitted unchanged inside a run.

    Works for byte-level BPE with the patterns of GPT-2, SmolLM2, GPT-4, GPT-4o, Llama 3, Qwen, Mistral's
    Tekken and DeepSeek V3, and for SentencePiece BPE without pre-tokenizer. Raises ValueError for any
    other pre-tokenizer, for a tokenizer whose merges cross spaces already, and for ``max_words`` below 2.

    Source: Liu et al. 2025, SuperBPE (arXiv 2503.13423), here on an existing vocabulary.

    >>> tokenizer = with_superwords(th.train_byte_level_bpe(["of the"], vocab_size=260))
    >>> extension = th.continue_bpe(tokenizer, ["of the cat, of the dog"] * 9, 3)
    >>> th.extend(tokenizer, extension).encode("of the").tokens
    ['ofĠthe']
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    further = positive("max_words", max_words, 2) - 1
    _check_merges(spec)
    pre_tokenizer = (
        _sentencepiece_step(further) if _is_sentencepiece(spec) else _step(spec, further)
    )
    settings = {**spec.settings, "pre_tokenizer": pre_tokenizer}
    return spec.with_(settings=settings).to_type_of(tokenizer)


def _check_merges(spec: TokenizerSpec) -> None:
    """Refuse merges across a letter and a space: they would apply inside runs, to old text as well."""
    tokens = [spec.tokens[i] for i in np.unique(spec.merges[:, 2]).tolist()]
    for token, raw in zip(tokens, spec.raw(tokens), strict=True):
        if b" " not in raw[1:]:
            continue
        text = spec.text_of(token)
        if ACROSS_BYTES(raw) if text is None else ACROSS(text):
            raise ValueError(
                f"merges of this tokenizer cross spaces already, as in {token!r}: text would be segmented "
                "differently"
            )


def _is_sentencepiece(spec: TokenizerSpec) -> bool:
    normalizer = spec.pipeline["normalizer"] or {}
    steps = normalizer.get("normalizers", [normalizer])
    return spec.pipeline["pre_tokenizer"] is None and steps[-2:] == META


def _step(spec: TokenizerSpec, further: int) -> dict:
    """The pre-tokenizer of a byte-level tokenizer, its word alternatives extended to runs."""
    pre_tokenizer = spec.pipeline["pre_tokenizer"] or {}
    steps = [dict(step) for step in pre_tokenizer.get("pretokenizers", [pre_tokenizer])]
    last = steps[-1]
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        raise ValueError(
            f"superwords are not supported with the pre-tokenizer {_name(pre_tokenizer)}"
        )
    if last["use_regex"]:  # GPT-2's pattern, inside ByteLevel
        last["use_regex"] = False
        steps[-1:] = [_split(GPT_2), last]
    split = steps[-2]
    pattern = split.get("pattern", {}).get("Regex")
    if pattern not in WORDS or split["behavior"] != "Isolated" or split["invert"]:
        raise ValueError(
            f"superwords are not supported with the pre-tokenizer {_name(pre_tokenizer)}"
        )
    steps[-2] = _split(superword_pattern(pattern, further))
    return {"type": "Sequence", "pretokenizers": steps}


def superword_pattern(pattern: str, further: int) -> str:
    """Extend the word alternatives of a known pattern to runs with up to ``further`` more words."""
    alternatives, word = WORDS[pattern]
    for alternative in alternatives:
        pattern = pattern.replace(alternative, f"{alternative}(?: {word}){{0,{further}}}", 1)
    return pattern


def _sentencepiece_step(further: int) -> dict:
    """A split of text with ``▁`` for spaces: runs of words of letters, else what stands before a ``▁``."""
    run = rf"▁?\p{{L}}+(?:▁\p{{L}}+(?=▁|\z)){{1,{further}}}"
    return _split(rf"{run}|▁*[^▁]+|▁+")


def _split(pattern: str) -> dict:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _name(pre_tokenizer: dict) -> str:
    return f"{str(pre_tokenizer)[:80]}: use one of GPT-2, GPT-4, GPT-4o, Llama 3, Qwen, Tekken, DeepSeek"
