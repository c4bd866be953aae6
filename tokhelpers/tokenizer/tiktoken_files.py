"""Byte-level BPE as tiktoken, which knows bytes and ranks alone."""

from __future__ import annotations  # tiktoken is not needed for the rest of the package

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from .parts import Parts, all_splits, build_tokenizer, merge_ids, parts_with_skipping, read_parts
from .pretokenization import GPT_2, PATTERNS
from .segmentation import segment, symbols_of
from .token_bytes import byte_of

if TYPE_CHECKING:
    import tiktoken


def to_tiktoken(tokenizer: Tokenizer, *, name: str = "tokhelpers") -> tiktoken.Encoding:
    """Convert a byte-level BPE tokenizer to a ``tiktoken.Encoding`` that gives the same ids.

    ``encode(text, allowed_special="all")`` gives what ``encode(text, add_special_tokens=False)``
    gives here. tiktoken merges any two neighbours that make a token, the smallest id first, and
    takes a pre-token that is a token whole. So ids may have holes, and new tokens may lie above
    the special ones, but merges must come in order of the ids of their results. Every token must
    be what merges make of its bytes; with merge skipping, a token that is not must come out in
    three parts at least: then its parts never meet as two. New tokens may stand for several
    parts of such an old one, and do in most extensions of Llama-3: ``tiktoken_merges`` helps.

    Raises ValueError for a tokenizer that tiktoken cannot express: other merges, a normalizer, a
    pre-tokenizer other than those of GPT-2, Llama-3, Qwen and Mistral Nemo, added tokens that are
    not special; ImportError where tiktoken is not installed.

    >>> from tokhelpers.train.trainers import train_byte_level_bpe
    >>> tokenizer = train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    >>> to_tiktoken(tokenizer).encode("bat bag") == tokenizer.encode("bat bag").ids
    True
    """
    try:
        import tiktoken
    except ImportError:
        raise ImportError("to_tiktoken needs the package tiktoken: pip install tiktoken") from None

    parts = read_parts(tokenizer)
    added = parts.settings["added_tokens"]
    special = {token["content"]: token["id"] for token in added}
    ordinary = [token for token in parts.vocab if token not in special]
    pattern = _pattern(parts.settings["pre_tokenizer"])
    _check_settings(parts, pattern, ordinary)
    _check_merges(parts, ordinary)
    ranks = {bytes(map(byte_of().__getitem__, token)): parts.vocab[token] for token in ordinary}
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def tiktoken_merges(tokenizer: Tokenizer) -> Tokenizer:
    """Copy a byte-level BPE tokenizer with the merges that tiktoken makes of its vocabulary.

    These are all splits of each token into two tokens, in order of the ids of what they make, and
    merge skipping is on. Tokens and ids stay; text may be cut otherwise than before where two
    neighbours make a token and had no merge. The result can be given to ``to_tiktoken``.

    Raises ValueError for a tokenizer that is not byte-level BPE.

    >>> from tokhelpers import Extension, extend, train_byte_level_bpe
    >>> base = train_byte_level_bpe(["at"], vocab_size=257)
    >>> longer = extend(base, Extension(["ba", "bat"], [("b", "a"), ("ba", "t")]))
    >>> longer.encode("bat").tokens, tiktoken_merges(longer).encode("bat").tokens
    (['b', 'at'], ['bat'])
    """
    parts = read_parts(tokenizer)
    if not parts.byte_level:
        raise ValueError("the tokenizer is not byte-level BPE, and tiktoken knows bytes only")
    ordinary = sorted(parts.vocab.keys() - parts.special, key=parts.vocab.get)
    merges = all_splits(parts, parts.vocab, ordinary)
    made = Parts(parts.settings, parts.vocab, merge_ids(parts.vocab, merges))
    return build_tokenizer(parts_with_skipping(made, True))


def _pattern(pre_tokenizer: dict | None) -> str | None:
    """The pattern that cuts the text; None for what tiktoken is not proven to cut alike."""
    steps = (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer])
    split, last = steps if len(steps) == 2 else (None, steps[-1])
    if not last or last["type"] != "ByteLevel" or last["add_prefix_space"]:
        return None
    if split is None:
        return GPT_2 if last["use_regex"] else None
    how = {"type": "Split", "behavior": "Isolated", "invert": False}
    if last["use_regex"] or {key: split.get(key) for key in how} != how:
        return None
    pattern = split["pattern"].get("Regex")
    return pattern if pattern in PATTERNS else None


def _check_settings(parts: Parts, pattern: str | None, ordinary: list[str]) -> None:
    """Refuse what has no counterpart in tiktoken."""
    settings, added = parts.settings, parts.settings["added_tokens"]
    model, alphabet = settings["model"], byte_of().keys()
    contents = sorted(token["content"] for token in added)
    ids = [token["id"] for token in added]
    flags = ("single_word", "lstrip", "rstrip")
    obstacles = {
        "a normalizer": settings["normalizer"],
        f"the pre-tokenizer {json.dumps(settings['pre_tokenizer'])[:80]}": pattern is None,
        "truncation or padding": settings["truncation"] or settings["padding"],
        "merge dropout": model.get("dropout"),
        "a prefix or suffix of words": model.get("continuing_subword_prefix")
        or model.get("end_of_word_suffix"),
        "added tokens that are not special": any(not token["special"] for token in added),
        f"special tokens with one of {', '.join(flags)}": any(t[f] for t in added for f in flags),
        "a special token with which another begins": any(
            b.startswith(a) for a, b in pairwise(contents)
        ),
        "merges of special tokens": np.isin(parts.merges, ids).any(),
        "no token for some bytes": not alphabet <= parts.vocab.keys() - set(contents),
        "tokens that are not stored as bytes": not all(
            alphabet >= set(token) for token in ordinary
        ),
    }
    found = ", ".join(what for what, there in obstacles.items() if there)
    if found:
        raise ValueError(
            f"the tokenizer has {found}, which tiktoken cannot express: use tokenizer.json"
        )


def _check_merges(parts: Parts, ordinary: list[str]) -> None:
    """Refuse merges with which tiktoken, which has the ids of tokens alone, would not agree.

    What merges make of a stretch of text up to the moment when it is one token, or two, does not
    depend on what is around it. So a token that its own merges build is built in that one way
    wherever it is built; and two neighbours that make a token, but have no merge, come up in a
    text only if they come up when that token is tokenized alone.
    """
    early = np.flatnonzero(np.diff(parts.merges[:, 2]) < 0)
    if len(early):
        late = parts.tokens[int(parts.merges[early[0] + 1, 2])]
        raise ValueError(
            f"the merge into {late!r} comes later than its id says, and tiktoken merges in order of "
            "ids: give it the merges of tiktoken with tiktoken_merges"
        )
    _, offsets = segment(*symbols_of(ordinary, parts), parts.merges)
    sizes = np.diff(offsets)
    wrong = np.flatnonzero(sizes == 2 if parts.merge_skipping else sizes > 1)
    if len(wrong):
        raise ValueError(
            f"{len(wrong):,} tokens, first {ordinary[wrong[0]]!r}, are not what merges make of their "
            "bytes, as they would be in tiktoken: give it the merges of tiktoken with tiktoken_merges"
        )
