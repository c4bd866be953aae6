"""Convert to tiktoken, whose encoder has ranks but no merges."""

import json
from itertools import pairwise

import numpy as np
from tokenizers import Tokenizer

from ..common.extras import requires
from .merge_rows import all_splits
from .pretokenization import proven_pattern
from .spec import TokenizerSpec
from .token_bytes import byte_of


def check_order(spec: TokenizerSpec, order, advice: str) -> None:
    """Refuse merges of which one has a smaller number in ``order`` than the one before it."""
    decreases = np.flatnonzero(np.diff(order) < 0)
    if len(decreases):
        token = spec.tokens[int(spec.merges[decreases[0] + 1, 2])]
        raise ValueError(f"merge order disagrees with IDs at {token!r}: {advice}")


def to_tiktoken(tokenizer: Tokenizer):
    """Convert a byte-level BPE tokenizer to a ``tiktoken.Encoding`` with the same IDs.

    ``encode(text, allowed_special="all")`` returns what ``encode(text, add_special_tokens=False)``
    returns here. tiktoken merges any two adjacent symbols that form a token, the one with the smallest ID
    first, and emits a pre-token that is a token unchanged. Merges must therefore be in order of the IDs
    of their results, and every token must be what merges make of its bytes; with merge skipping, one
    that is not must be segmented into at least three tokens. Most extensions of Llama-3 violate this:
    use ``tiktoken_merges``.

    Raises ValueError for what tiktoken cannot express: other merges, a normalizer, a pre-tokenizer
    other than those of GPT-2, GPT-4, Llama-3, Qwen and Mistral Nemo, added tokens that are not special.

    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    >>> to_tiktoken(tokenizer).encode("bat bag") == tokenizer.encode("bat bag").ids
    True
    """
    with requires("data"):
        import tiktoken

    spec = TokenizerSpec.from_tokenizer(tokenizer)
    ordinary = [token for token in spec.vocab if token not in spec.added]
    pattern = proven_pattern(json.dumps(spec.pipeline | {"normalizer": None}))
    _check_settings(spec, pattern, ordinary)
    _check_merges(spec, ordinary)
    ranks = {bytes(map(byte_of().__getitem__, token)): spec.vocab[token] for token in ordinary}
    options = {"mergeable_ranks": ranks, "special_tokens": spec.added}
    return tiktoken.Encoding("tokhelpers", pat_str=pattern, **options)


def tiktoken_merges(tokenizer: Tokenizer) -> Tokenizer:
    """Copy a byte-level BPE tokenizer with the merges that tiktoken derives from its vocabulary.

    These are all splits of each token into two tokens, in order of the ID of the result, with merge
    skipping on. Tokens and IDs stay; text is segmented differently where two adjacent symbols form a
    token but had no merge. The result can be passed to ``to_tiktoken``.

    Raises ValueError for a tokenizer that is not byte-level BPE.

    >>> base = th.train_byte_level_bpe(["at"], vocab_size=257)
    >>> longer = th.extend(base, th.Extension(["ba", "bat"], [("b", "a"), ("ba", "t")]))
    >>> longer.encode("bat").tokens, tiktoken_merges(longer).encode("bat").tokens
    (['b', 'at'], ['bat'])
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    if not spec.byte_level:
        raise ValueError(
            "the tokenizer is not byte-level BPE, and tiktoken has tokens of bytes only"
        )
    ordinary = sorted(spec.vocab.keys() - spec.special, key=spec.vocab.get)
    merges = all_splits(spec, ordinary)
    return spec.with_(merges=merges).with_skipping(True).to_type_of(tokenizer)


def _check_settings(spec: TokenizerSpec, pattern: str | None, ordinary: list[str]) -> None:
    """Refuse settings that have no counterpart in tiktoken."""
    alphabet, added = byte_of().keys(), spec.added_tokens.values()
    flags = ("single_word", "lstrip", "rstrip")
    pre_tokenizer = json.dumps(spec.pipeline["pre_tokenizer"])
    obstacles = {
        "a normalizer": spec.pipeline["normalizer"],
        f"the pre-tokenizer {pre_tokenizer[:80]}": pattern is None,
        "truncation or padding": spec.settings["truncation"] or spec.settings["padding"],
        "merge dropout": spec.dropout,
        "added tokens that are not special": spec.splits_at_added,
        f"special tokens with one of {', '.join(flags)}": any(
            getattr(t, flag) for t in added for flag in flags
        ),
        "a special token that is a prefix of another": any(
            b.startswith(a) for a, b in pairwise(sorted(spec.added))
        ),
        "merges of special tokens": np.isin(spec.merges, [*spec.added.values()]).any(),
        "no token for some bytes": not alphabet <= spec.vocab.keys() - spec.added.keys(),
        "tokens outside the byte alphabet": any(not alphabet >= set(token) for token in ordinary),
    }
    if present := ", ".join(name for name, is_present in obstacles.items() if is_present):
        advice = "use tokenizer.json"
        if present == "a normalizer" and spec.pipeline["normalizer"] == {"type": "NFC"}:
            advice += (
                ", or set tokenizer.normalizer = None on a copy and pass tiktoken "
                'unicodedata.normalize("NFC", text)'
            )
        raise ValueError(f"the tokenizer has {present}, which tiktoken cannot express: {advice}")


def _check_merges(spec: TokenizerSpec, ordinary: list[str]) -> None:
    """Refuse merges that tiktoken, which has only the IDs of tokens, would not reproduce.

    How merges build a token does not depend on the text around it. So two adjacent symbols that form a
    token but have no merge occur in a text only if they occur when that token is tokenized alone.
    """
    check_order(spec, spec.merges[:, 2], "tiktoken merges in order of IDs, use tiktoken_merges")
    lengths = spec.token_lengths(ordinary)
    wrong = np.flatnonzero(lengths == 2 if spec.merge_skipping else lengths > 1)
    if len(wrong):
        raise ValueError(
            f"{len(wrong):,} tokens, first {ordinary[wrong[0]]!r}, are not what merges make of their "
            "bytes, as tiktoken would have it: use tiktoken_merges"
        )
