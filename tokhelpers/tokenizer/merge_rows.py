"""Merges as rows of IDs: from pairs of tokens, and from all splits of tokens."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np


def merge_ids(vocab: dict[str, int], merges: Sequence) -> np.ndarray:
    """Convert merges, given as pairs of tokens, to int32 rows of three IDs: left, right, result.

    Raises ValueError, naming the first few, if a part or a result is not in the vocabulary.

    >>> merge_ids({"a": 0, "b": 1, "ab": 2}, [("a", "b")]).tolist()
    [[0, 1, 2]]
    """
    try:
        id_of = vocab.__getitem__
        parts = np.fromiter(map(id_of, chain.from_iterable(merges)), np.int32, 2 * len(merges))
        results = np.fromiter(map(id_of, map("".join, merges)), np.int32, len(merges))
    except KeyError:
        wrong = [(a, b) for a, b in merges if not {a, b, a + b} <= vocab.keys()]
        examples = ", ".join(f"{a!r} + {b!r}" for a, b in wrong[:3])
        raise ValueError(
            f"{len(wrong):,} merges name tokens that the vocabulary lacks, first {examples}: "
            "drop them or add their tokens"
        ) from None
    return np.column_stack([parts.reshape(-1, 2), results])


def all_splits(spec, tokens: Iterable[str]) -> np.ndarray:
    """List all splits of ``tokens`` into two ordinary tokens as int32 rows: left, right, result.

    They follow the order of ``tokens``; of one token, those with the longer left part come first.
    """
    vocab, find = spec.vocab, spec.vocab.get
    splits = (
        (left, right, vocab[token])
        for token in tokens
        for i in range(len(token) - 1, 0, -1)
        if (left := find(token[:i])) is not None and (right := find(token[i:])) is not None
    )
    rows = np.fromiter(chain.from_iterable(splits), np.int32).reshape(-1, 3)
    special = [vocab[content] for content in spec.special if content in vocab]
    return rows[~np.isin(rows[:, :2], special).any(1)]
