"""Byte-level BPE for tiktoken, whose encoders have byte strings and ranks, but no merges."""

from __future__ import annotations  # tiktoken is not needed for the rest of the package

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

from .parts import Parts, all_splits, build_tokenizer, parts_with_skipping, read_parts
from .pretokenization import proven_pattern
from .segmentation import merges_of, segment, symbols_of
from .token_bytes import byte_of

if TYPE_CHECKING:
    import tiktoken


def to_tiktoken(tokenizer: Tokenizer, *, name: str = "tokhelpers") -> tiktoken.Encoding:
    """Convert a byte-level BPE tokenizer to a ``tiktoken.Encoding`` that gives the same ids.

    ``encode(text, allowed_special="all")`` gives what ``encode(text, add_special_tokens=False)``
    gives here. tiktoken merges any two neighbours that make a token, the smallest id first, and
    takes a pre-token that is a token whole. So merges must come in order of the ids of their
    results, and every token must be what merges make of its bytes; with merge skipping, one that is
    not must come out in three parts at least: then no two parts of it ever make it up. Most
    extensions of Llama-3 join parts of such an old token: ``tiktoken_merges`` helps.

    Raises ValueError for a tokenizer that tiktoken cannot express: other merges, a normalizer, a
    pre-tokenizer other than those of GPT-2, Llama-3, Qwen and Mistral Nemo, added tokens that are
    not special; ImportError where tiktoken is not installed.

    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=258)
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
    pattern = proven_pattern(
        json.dumps({"normalizer": None, "pre_tokenizer": parts.settings["pre_tokenizer"]})
    )
    _check_settings(parts, pattern, ordinary)
    _check_merges(parts, ordinary)
    ranks = {bytes(map(byte_of().__getitem__, token)): parts.vocab[token] for token in ordinary}
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def tiktoken_merges(tokenizer: Tokenizer) -> Tokenizer:
    """Copy a byte-level BPE tokenizer with the merges that tiktoken makes of its vocabulary.

    These are all splits of each token into two tokens, in order of the ids of what they make, and
    merge skipping is on. Tokens and ids stay; text may be segmented differently where two
    neighbours make a token and had no merge. The result can be given to ``to_tiktoken``.

    Raises ValueError for a tokenizer that is not byte-level BPE.

    >>> base = th.train_byte_level_bpe(["at"], vocab_size=257)
    >>> longer = th.extend(base, th.Extension(["ba", "bat"], [("b", "a"), ("ba", "t")]))
    >>> longer.encode("bat").tokens, tiktoken_merges(longer).encode("bat").tokens
    (['b', 'at'], ['bat'])
    """
    parts = read_parts(tokenizer)
    if not parts.byte_level:
        raise ValueError("the tokenizer is not byte-level BPE, and tiktoken knows bytes only")
    ordinary = sorted(parts.vocab.keys() - parts.special, key=parts.vocab.get)
    made = Parts(parts.settings, parts.vocab, all_splits(parts, parts.vocab, ordinary))
    return build_tokenizer(parts_with_skipping(made, True))


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
        "tokens outside the byte alphabet": any(not alphabet >= set(token) for token in ordinary),
    }
    found = ", ".join(what for what, there in obstacles.items() if there)
    if found:
        raise ValueError(
            f"the tokenizer has {found}, which tiktoken cannot express: use tokenizer.json"
        )


def _check_merges(parts: Parts, ordinary: list[str]) -> None:
    """Refuse merges with which tiktoken, which has the ids of tokens alone, would not agree.

    How merges build a token does not depend on the text around it. So a token that merges build
    when it is tokenized alone is always built by the same merges; and two neighbours that make a
    token, but have no merge, occur in a text only if they occur when that token is tokenized alone.
    """
    early = np.flatnonzero(np.diff(parts.merges[:, 2]) < 0)
    if len(early):
        late = parts.tokens[int(parts.merges[early[0] + 1, 2])]
        raise ValueError(
            f"the merge into {late!r} comes later than its id says, and tiktoken merges in order of "
            "ids: give it the merges of tiktoken with tiktoken_merges"
        )
    _, offsets = segment(*symbols_of(ordinary, parts), merges_of(parts))
    sizes = np.diff(offsets)
    wrong = np.flatnonzero(sizes == 2 if parts.merge_skipping else sizes > 1)
    if len(wrong):
        raise ValueError(
            f"{len(wrong):,} tokens, first {ordinary[wrong[0]]!r}, are not what merges make of their "
            "bytes, as they would be in tiktoken: give it the merges of tiktoken with tiktoken_merges"
        )
