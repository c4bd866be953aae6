"""Pruning: which tokens of a BPE tokenizer may go first, and a smaller tokenizer without them."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, dropwhile
from numbers import Integral

import numpy as np
from tokenizers import Tokenizer

from ..text.counting import ensure_counts
from ..text.pretokens import Pretokens
from ..tokenizer.segmentation import initial_ids, segment_tracing
from ..tokenizer.spec import TokenizerSpec

ORDERS = ("leaf-frequency", "leaf-id", "frequency", "id", "merges")


def pruning_order(
    tokenizer: Tokenizer | TokenizerSpec,
    corpus: Iterable[str] | Pretokens | None = None,
    *,
    by: str,
) -> list[str]:
    """List the tokens of a BPE tokenizer in the order in which to prune them.

    ``by`` says what goes first:

    - ``leaf-frequency``: the rarest of the leaves, the tokens of which no other is made; its count
      is then added to its two parts, which may become leaves (the paper's Algorithm 1);
    - ``leaf-id``: of the leaves, the one with the largest id;
    - ``frequency``: the rarest token; ``id``: the one with the largest id;
    - ``merges``: the token that is formed least often, whether it is produced or merged further
      (Algorithm 2); of equals the longest in bytes.

    Ties go to the larger id. A token is made of its ``splits``; tokens that no merge reaches are
    leaves. Counts are over ``corpus`` (documents, or counts by this tokenizer's rules), with merge
    skipping off; ``leaf-id`` and ``id`` need none. Characters, bytes, special and added tokens never
    go. Raises ValueError for an unknown ``by``, and for a missing or empty corpus.

    Source: Purason et al. 2025, section 3.2, Algorithm 1, Appendix D (Algorithm 2).

    >>> base = th.train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    >>> pruning_order(base, by="id"), pruning_order(base, ["tag"], by="leaf-frequency")
    (['tag', 'ag', 'Ġba', 'ba'], ['Ġba', 'ba', 'tag', 'ag'])
    """
    if by not in ORDERS:
        raise ValueError(f"by={by!r}: use one of {', '.join(ORDERS)}")
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    counts = np.zeros(spec.next_id, np.int64)
    if not by.endswith("id"):
        if corpus is None:
            raise ValueError(f"by={by!r} counts tokens in a text: give a corpus")
        counts = spec.with_skipping(False).count_tokens(ensure_counts(corpus, spec))
    vocab, free = spec.vocab, prunable(spec)
    if by.startswith("leaf"):
        return _leaves_first(spec, set(free), counts.tolist())
    if by == "merges":
        formed = _formed(spec, counts.tolist())
        in_bytes = len if spec.byte_level else lambda token: len(token.encode())
        return sorted(free, key=lambda t: (formed[vocab[t]], -in_bytes(t), -vocab[t]))
    return sorted(free, key=lambda token: (counts[vocab[token]], -vocab[token]))


def prunable(spec: TokenizerSpec) -> list[str]:
    """List the tokens that may go: all but characters, bytes, special, added and unknown tokens.

    >>> prunable(th.TokenizerSpec.from_tokenizer(th.train_byte_level_bpe(["bat bat"], vocab_size=258)))
    ['at', 'bat']
    """
    prefix = spec.prefix
    return [t for t in spec.vocab if len(t.removeprefix(prefix)) > 1 and t not in spec.unmerged]


def splits(spec: TokenizerSpec) -> tuple[np.ndarray, np.ndarray]:
    """Find the two parts of each token: those of the last merge an encoder makes on its string.

    Returns two int32 arrays of ids, indexed by id; -1 for characters, and for tokens that merges do
    not reach. A vendor's merges have every split of a token; an encoder uses one.

    >>> spec = TokenizerSpec.from_tokenizer(th.train_byte_level_bpe(["bat bat bag"], vocab_size=258))
    >>> left, right = splits(spec)
    >>> [(spec.tokens[left[i]], spec.tokens[right[i]]) for i in (256, 257)]
    [('b', 'a'), ('Ġ', 'ba')]
    """
    tokens = prunable(spec)
    ids, offsets, last = segment_tracing(
        *initial_ids(tokens, spec, dropping=True), spec.merge_table
    )
    own = np.fromiter(map(spec.vocab.__getitem__, tokens), np.int64, len(tokens))
    whole = np.flatnonzero((np.diff(offsets) == 1) & (last >= 0))
    whole = whole[ids[offsets[whole]] == own[whole]]
    left, right = np.full((2, spec.next_id), -1, np.int32)
    left[own[whole]], right[own[whole]] = spec.merges[last[whole], :2].T
    return left, right


def _made_of(spec: TokenizerSpec) -> dict[int, tuple[int, int]]:
    """The two parts of each token, by ids, of the tokens that have them."""
    left, right = splits(spec)
    made = np.flatnonzero(left >= 0)
    pairs = zip(left[made].tolist(), right[made].tolist(), strict=True)
    return dict(zip(made.tolist(), pairs, strict=True))


def _leaves_first(spec: TokenizerSpec, free: set[str], counts: list[int]) -> list[str]:
    """Of the leaves the rarest, of equals the larger id; its count goes to its parts."""
    made_of, name = _made_of(spec), spec.tokens
    above = Counter(chain.from_iterable(made_of.values()))  # how often each is a part
    heap = [(counts[i], -i) for i, token in name.items() if token in free and not above[i]]
    heapq.heapify(heap)
    order = []
    while heap:
        count, minus = heapq.heappop(heap)
        order.append(name[-minus])
        pair = made_of.get(-minus, ())
        for part in pair:
            counts[part] += count
        for part in pair:
            above[part] -= 1
            if above[part] == 0 and name[part] in free:
                heapq.heappush(heap, (counts[part], -part))
    return order


def _formed(spec: TokenizerSpec, counts: list[int]) -> list[int]:
    """How often each token is formed: those that are produced, and those that are merged further."""
    made_of, name = _made_of(spec), spec.tokens
    for i in sorted(made_of, key=lambda i: -len(name[i])):  # a token is longer than its parts
        for part in made_of[i]:
            counts[part] += counts[i]
    return counts


# --- the smaller tokenizer ------------------------------------------------------------------------
def prune(tokenizer: Tokenizer, order: Sequence[str], n: int) -> Tokenizer:
    """Copy a BPE or WordPiece tokenizer without the first ``n`` tokens of an order.

    Merges that need a pruned token are removed as well. The tokens that stay keep their order and
    get ids without holes (``id_map``), which post-processor and padding follow. Tokens at the start
    of the order that are gone already are passed over, so pruning twice is pruning once by the sum.
    Parts (``TokenizerSpec.from_tokenizer``) give parts, at a fraction of the cost.
    Raises ValueError for more tokens than can go, and for tokens that the tokenizer lacks or that
    must stay (special and added ones do).

    Source: Purason et al. 2025, section 3.2.

    >>> base = th.train_byte_level_bpe(["bat bat bag tag"], vocab_size=260)
    >>> small = prune(base, ["tag", "ag"], 1)
    >>> base.encode("tag").tokens, small.encode("tag").tokens, small.get_vocab_size()
    (['tag'], ['t', 'ag'], 259)
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer, wordpiece=True)
    return spec.without(set(_to_prune(spec, order, n))).to_type_of(tokenizer)


def _to_prune(spec: TokenizerSpec, order: Sequence[str], n: int) -> list[str]:
    """The tokens to prune, checked."""
    if isinstance(order, str):
        raise TypeError(f"order is one string, {order!r:.40}: give a list of tokens")
    if not isinstance(n, Integral) or n < 0:
        raise ValueError(f"n={n!r}: give the number of tokens to prune, from 0 on")
    order = list(dict.fromkeys(dropwhile(lambda token: token not in spec.vocab, order)))
    free = set(prunable(spec))
    if n > len(order):
        raise ValueError(
            f"asked to prune {n:,} tokens; the order has {len(order):,} of this tokenizer's, and "
            f"{len(free):,} can go at all: prune fewer"
        )
    strange = next((token for token in order if token not in free), None)
    if strange is not None:
        why = "must stay (a character, byte, special or added token)"
        if strange not in spec.vocab:
            why = "is not in this tokenizer: the order belongs to another one"
        raise ValueError(
            f"{strange!r} {why}; make the order with pruning_order(this tokenizer, ...)"
        )
    return order[:n]
