"""Prune a tokenizer: order its tokens by a criterion, and remove the first of them."""

import heapq
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, dropwhile
from numbers import Integral

import numpy as np
from tokenizers import Tokenizer

from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.encoder import Encoder
from ..tokenizer.library_encoder import as_encoder
from ..tokenizer.pretokenization import pretokenizer, splits_text
from ..tokenizer.renumbering import placeholder
from ..tokenizer.segmentation import initial_ids, segment_tracing
from ..tokenizer.spec import TokenizerSpec
from .unigram_extension import UnigramParts

ORDERS = ("leaf-frequency", "leaf-id", "frequency", "id", "merges")


def pruning_order(
    tokenizer: Tokenizer | TokenizerSpec,
    corpus: Iterable[str] | Pretokens | None = None,
    *,
    by: str,
) -> list[str]:
    """List the tokens of a BPE or Unigram tokenizer in the order in which to prune them.

    ``by`` is the pruning criterion:

    - ``leaf-frequency``: the least frequent leaf, a token that no other is made of; its count is
      then added to its two parts, which may become leaves (Algorithm 1);
    - ``leaf-id``: the leaf with the largest ID;
    - ``frequency``: the least frequent token; ``id``: the token with the largest ID;
    - ``merges``: the token that is formed least often, counting also where it is merged further
      (Algorithm 2); ties go to the longest in bytes.

    Ties go to the larger ID. The parts of a token are its ``splits``; tokens that no merge produces
    are leaves. Frequencies are over ``corpus`` (documents, or counts by this tokenizer's rules),
    without merge skipping; ``leaf-id`` and ``id`` need no corpus. Characters, bytes, special and
    added tokens are never pruned. Unigram, which has no merges, takes ``frequency`` and ``id``. Raises
    ValueError for an unknown ``by`` and for a missing or empty corpus.

    Source: Purason et al. 2025, section 3.2, Algorithm 1, Appendix D (Algorithm 2).

    >>> base = th.train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    >>> pruning_order(base, by="id"), pruning_order(base, ["tag"], by="leaf-frequency")
    (['tag', 'ag', 'Ġba', 'ba'], ['Ġba', 'ba', 'tag', 'ag'])
    """
    if by not in ORDERS:
        raise ValueError(f"by={by!r}: use one of {', '.join(ORDERS)}")
    if as_encoder(tokenizer).kind == "Unigram":
        return _unigram_order(tokenizer, corpus, by)
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    counts = np.zeros(spec.next_id, np.int64)
    if not by.endswith("id"):
        counts = spec.with_skipping(False).count_tokens(_counted(corpus, spec, by))
    vocab, candidates = spec.vocab, prunable(spec)
    if by.startswith("leaf"):
        return _leaf_order(spec, set(candidates), counts.tolist())
    if by == "merges":
        formed = _times_formed(spec, counts.tolist())
        n_bytes = len if spec.byte_level else lambda token: len(token.encode())
        return sorted(candidates, key=lambda t: (formed[vocab[t]], -n_bytes(t), -vocab[t]))
    return sorted(candidates, key=lambda token: (counts[vocab[token]], -vocab[token]))


def _counted(corpus, tokenizer, by: str) -> Pretokens:
    if corpus is None:
        raise ValueError(f"by={by!r} counts tokens in a text: give a corpus")
    return count_pretokens(corpus, tokenizer)


def _unigram_order(tokenizer: Tokenizer, corpus, by: str) -> list[str]:
    """The pieces of a Unigram tokenizer, the least frequent or those of the largest IDs first."""
    if by not in ("frequency", "id"):
        raise ValueError(
            f"by={by!r} needs merges, which Unigram does not have: use frequency or id"
        )
    parts = UnigramParts.from_tokenizer(tokenizer)
    ids, counts = parts.encoder.all_ids, np.zeros(parts.encoder.next_id, np.int64)
    if by == "frequency":
        counts = parts.encoder.count_tokens(_counted(corpus, parts.encoder, by))
    return sorted(parts.prunable(), key=lambda piece: (counts[ids[piece]], -ids[piece]))


def prunable(spec: TokenizerSpec) -> list[str]:
    """List the tokens that may be pruned: all but characters, bytes, special, added, unknown tokens.

    >>> prunable(th.TokenizerSpec.from_tokenizer(th.train_byte_level_bpe(["bat bat"], vocab_size=258)))
    ['at', 'bat']
    """
    prefix = spec.prefix
    return [t for t in spec.vocab if len(t.removeprefix(prefix)) > 1 and t not in spec.unmerged]


def splits(spec: TokenizerSpec) -> tuple[np.ndarray, np.ndarray]:
    """Find the two parts of each token: those of the last merge when its string is segmented.

    Returns two int32 arrays indexed by token ID, -1 for characters and for tokens that merges do
    not produce. A vendor's merges contain every split of a token; segmentation uses one of them.

    >>> spec = TokenizerSpec.from_tokenizer(th.train_byte_level_bpe(["bat bat bag"], vocab_size=258))
    >>> left, right = splits(spec)
    >>> [(spec.tokens[left[i]], spec.tokens[right[i]]) for i in (256, 257)]
    [('b', 'a'), ('Ġ', 'ba')]
    """
    tokens = prunable(spec)
    ids, offsets, last_merge = segment_tracing(
        *initial_ids(tokens, spec, dropping=True), spec.merge_table
    )
    token_ids = np.fromiter(map(spec.vocab.__getitem__, tokens), np.int64, len(tokens))
    produced = np.flatnonzero((np.diff(offsets) == 1) & (last_merge >= 0))
    produced = produced[ids[offsets[produced]] == token_ids[produced]]
    left, right = np.full((2, spec.next_id), -1, np.int32)
    left[token_ids[produced]], right[token_ids[produced]] = spec.merges[last_merge[produced], :2].T
    return left, right


def _parts_by_id(spec: TokenizerSpec) -> dict[int, tuple[int, int]]:
    """The IDs of the two parts of each token that has them."""
    left, right = splits(spec)
    ids = np.flatnonzero(left >= 0)
    pairs = zip(left[ids].tolist(), right[ids].tolist(), strict=True)
    return dict(zip(ids.tolist(), pairs, strict=True))


def _leaf_order(spec: TokenizerSpec, candidates: set[str], counts: list[int]) -> list[str]:
    """Remove the least frequent leaf (ties: larger ID) until none is left; counts go to its parts."""
    parts_of, name = _parts_by_id(spec), spec.tokens
    uses = Counter(chain.from_iterable(parts_of.values()))  # as a part of tokens that remain
    heap = [(counts[i], -i) for i, token in name.items() if token in candidates and not uses[i]]
    heapq.heapify(heap)
    order = []
    while heap:
        count, negative_id = heapq.heappop(heap)
        order.append(name[-negative_id])
        parts = parts_of.get(-negative_id, ())
        for part in parts:
            counts[part] += count
        for part in parts:  # a second loop, as both parts may be the same token
            uses[part] -= 1
            if uses[part] == 0 and name[part] in candidates:
                heapq.heappush(heap, (counts[part], -part))
    return order


def _times_formed(spec: TokenizerSpec, counts: list[int]) -> list[int]:
    """How often each token is formed: as a token of the text, or as a part of a longer one."""
    parts_of, name = _parts_by_id(spec), spec.tokens
    for i in sorted(parts_of, key=lambda i: -len(name[i])):  # a token is longer than its parts
        for part in parts_of[i]:
            counts[part] += counts[i]
    return counts


# --- the pruned tokenizer -------------------------------------------------------------------------
def prune(
    tokenizer: Tokenizer, order: Sequence[str], n_tokens: int, *, keep_ids: bool = False
) -> Tokenizer:
    """Copy a BPE, WordPiece or Unigram tokenizer without the first ``n_tokens`` of a pruning order.

    Merges that need a pruned token are removed as well. The remaining tokens keep their order and
    get contiguous IDs (``id_map``), also in post-processor and padding. With ``keep_ids`` they keep
    their IDs, so that no model has to change: the ID of a pruned token is taken by a placeholder,
    such as ``<pruned 300>``, that no text produces. Tokens at the start of the order that are gone
    already are skipped: pruning twice equals pruning once by the sum. A ``TokenizerSpec`` gives a
    ``TokenizerSpec`` at a fraction of the cost. Raises ValueError for more tokens than can be pruned,
    and for tokens that are not in the tokenizer or must stay; with ``keep_ids`` also for a token
    that remaining ones are merged from (prune leaves), and for a tokenizer whose pre-tokenizer keeps
    spaces inside words, where text could spell a placeholder.

    Source: Purason et al. 2025, section 3.2.

    >>> base = th.train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    >>> small = prune(base, ["tag", "ag"], 1)
    >>> base.encode("tag").tokens, small.encode("tag").tokens, small.get_vocab_size()
    (['tag'], ['t', 'ag'], 259)
    >>> prune(base, ["tag", "ag"], 2, keep_ids=True).id_to_token(base.token_to_id("tag"))
    '<pruned 259>'
    """
    if as_encoder(tokenizer).kind == "Unigram":
        parts = UnigramParts.from_tokenizer(tokenizer)
        pruned = _to_prune(order, n_tokens, parts.scores, parts.prunable())
        if keep_ids:
            _check_placeholders(pruned, parts.encoder)
            return parts.with_placeholders(set(pruned)).to_tokenizer()
        return parts.without(set(pruned)).to_tokenizer()
    spec = TokenizerSpec.from_tokenizer(tokenizer, wordpiece=True)
    pruned = set(_to_prune(order, n_tokens, spec.vocab, prunable(spec)))
    small = _with_placeholders(spec, pruned) if keep_ids else spec.without(pruned)
    return small.to_type_of(tokenizer)


def _with_placeholders(spec: TokenizerSpec, pruned: set[str]) -> TokenizerSpec:
    """Put placeholders in the places of pruned tokens, and remove the merges that need these."""
    ids = sorted(spec.vocab[token] for token in pruned)
    _check_parts(spec, np.array(ids, np.int64))
    placeholders = {spec.tokens[i]: placeholder(i, spec.all_ids) for i in ids}
    if spec.merge_skipping or spec.wordpiece:  # merges alone do not make a placeholder
        _check_placeholders(pruned, spec)
    vocab = {placeholders.get(token, token): i for token, i in spec.vocab.items()}
    return spec.with_(vocab=vocab, merges=spec.merges[~np.isin(spec.merges, ids).any(axis=1)])


def _check_parts(spec: TokenizerSpec, ids: np.ndarray) -> None:
    """Raise ValueError if a token that stays is merged from a pruned one."""
    if spec.wordpiece or not len(ids):
        return
    left, right = splits(spec)
    uses = np.isin(left, ids) | np.isin(right, ids)
    uses[ids] = False
    if uses.any():
        child = int(np.flatnonzero(uses)[0])
        part = next(p for p in (int(left[child]), int(right[child])) if p in set(ids.tolist()))
        raise ValueError(
            f"{spec.tokens[child]!r} is merged from {spec.tokens[part]!r}, which would be pruned: prune "
            "it as well, or prune leaves first (pruning_order(..., by='leaf-frequency'))"
        )


def _check_placeholders(pruned: Collection[str], encoder: Encoder) -> None:
    """Raise ValueError if a pre-token can contain a placeholder, that is, a space.

    Byte-level tokenizers write a space as another character; for others, placeholders are pre-tokenized.
    """
    if encoder.byte_level or not pruned:
        return
    token = placeholder(0)
    contexts = [token, f" {token}", f"a{token}a"]
    pretokens = pretokenizer(json.dumps(encoder.pipeline))(contexts)
    separator = "\0" if splits_text(encoder.pipeline["pre_tokenizer"]) else ""
    if any(token in separator.join(pieces) for pieces in pretokens):
        raise ValueError(
            "a text could spell the placeholder of a pruned token, as the pre-tokenizer keeps spaces "
            "inside words: give the tokenizer one that splits at spaces, or prune without keep_ids"
        )


def _to_prune(
    order: Sequence[str], n: int, vocab: Collection[str], candidates: Iterable[str]
) -> list[str]:
    """The first ``n`` tokens of the order, checked against a vocabulary and what can be pruned of it."""
    if isinstance(order, str):
        raise TypeError(f"order is one string, {order!r:.40}: give a list of tokens")
    if not isinstance(n, Integral) or n < 0:
        raise ValueError(f"n_tokens={n!r}: give the number of tokens to prune, from 0 on")
    order = list(dict.fromkeys(dropwhile(lambda token: token not in vocab, order)))
    candidates = set(candidates)
    if n > len(order):
        raise ValueError(
            f"asked to prune {n:,} tokens; the order has {len(order):,} of this tokenizer's, and "
            f"{len(candidates):,} can be pruned at all: prune fewer"
        )
    for token in order:
        if token in candidates:
            continue
        reason = "must stay (a character, byte, special or added token)"
        if token not in vocab:
            reason = "is not in this tokenizer: the order belongs to another one"
        raise ValueError(
            f"{token!r} {reason}; make the order with pruning_order(this tokenizer, ...)"
        )
    return order[:n]
