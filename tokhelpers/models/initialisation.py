"""Initialise embeddings of new tokens from old ones: averages, samples, and FOCUS."""

import warnings
from collections.abc import Iterable
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer
from torch.nn.functional import normalize

from .losses import encode_texts

INITS = ("fvt", "mean", "normal", "zero", "first-last", "focus")
WINDOW, DIMENSIONS = 5, 100  # of FOCUS: neighbours to either side, and of the co-occurrence vectors

# For each new token, the old IDs whose embeddings are averaged, and their weights.
Averages = list[tuple[tuple[int, ...], np.ndarray]]


def averages(init: str, sources: pd.DataFrame, new: Tokenizer, corpus) -> tuple[Averages, Averages]:
    """Return what each new token averages, in the input embeddings and in an untied head.

    Empty for an ``init`` that does not use pieces. Warns of new tokens that have no old piece.
    """
    added = sources[sources.origin == "new"]
    if init in ("mean", "normal", "zero"):
        nothing = [((), np.ones(0))] * len(added)
        return nothing, nothing
    without_pieces = added.token[added.pieces.map(len) == 0].tolist()
    if without_pieces:
        warnings.warn(
            f"{len(without_pieces)} new tokens, first {without_pieces[0]!r}, have no piece under the "
            "old tokenizer: their embeddings are initialised with the mean",
            stacklevel=4,
        )
    if init == "first-last":
        one = np.ones(1)
        return [(p[-1:], one) for p in added.pieces], [(p[:1], one) for p in added.pieces]
    if init == "focus" and corpus is None:
        raise ValueError("init='focus' compares tokens by their contexts: pass the text as corpus=")
    similar = focus_weights(sources, new, corpus) if init == "focus" else {}
    both = [similar.get(i, (p, np.ones(len(p)))) for i, p in added.pieces.items()]
    return both, both


def initial_embeddings(
    init: str, averaged: Averages, seed: int, table: torch.Tensor, tokens: torch.Tensor, mean
) -> torch.Tensor:
    """Compute the embeddings of new tokens (n, width) in float32.

    ``table`` holds all old embeddings, ``tokens`` those of old tokens (without padding), and
    ``mean`` is the mean of the latter.
    """
    if init == "normal":
        return sample_normal(tokens, mean, len(averaged), seed)
    embeddings = (torch.zeros_like(mean) if init == "zero" else mean).repeat(len(averaged), 1)
    for i, (ids, weights) in enumerate(averaged):
        if ids:
            weights = torch.from_numpy(weights).to(mean)[:, None]
            embeddings[i] = (weights * table[list(ids)].to(mean)).sum(0) / weights.sum()
    return embeddings


def rescale_distances(embeddings: torch.Tensor, tokens: torch.Tensor, mean: torch.Tensor) -> None:
    """Move embeddings to the median distance of old tokens from the mean embedding, in place.

    An average lies closer to the mean than what it averages. Scaling the whole embedding, the
    common mean included, would make the new tokens likely in every context.
    """
    median = (tokens.float() - mean).norm(dim=1).median()
    offsets = embeddings - mean
    offsets *= median / offsets.norm(dim=1, keepdim=True).clamp(min=1e-30)
    embeddings.copy_(mean + offsets)


@contextmanager
def one_thread():
    """Use a single thread, since the order of parallel sums is not deterministic."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def sample_normal(tokens: torch.Tensor, mean: torch.Tensor, n: int, seed: int) -> torch.Tensor:
    """Sample ``n`` embeddings from a normal distribution with the mean and covariance of the old."""
    width = tokens.shape[1]
    scatter = torch.zeros((width, width), dtype=torch.float64, device=tokens.device)
    for block in tokens.split(8_192):
        centred = block.float() - mean
        scatter += centred.T @ centred
    values, vectors = torch.linalg.eigh(scatter / max(len(tokens) - 1, 1))
    square_root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    samples = torch.randn((n, width), generator=torch.Generator().manual_seed(seed))
    return mean + samples.to(tokens.device) @ square_root.float()


def focus_weights(
    sources: pd.DataFrame, new: Tokenizer, corpus: Iterable[str]
) -> dict[int, tuple[tuple[int, ...], np.ndarray]]:
    """Compute which old tokens the new tokens of a corpus resemble: old IDs and weights by new ID.

    The weights are the sparsemax of cosine similarities between co-occurrence vectors. Raises
    ValueError for a corpus without new tokens. Source: Dobler and de Melo 2023 (FOCUS), section 3.
    """
    ids, vectors = cooccurrence_vectors(encode_texts(new, corpus))
    origin = sources.origin.to_numpy()[ids]
    added, copied = np.flatnonzero(origin == "new"), np.flatnonzero(origin == "copied")
    if not len(added) or not len(copied):
        raise ValueError(
            "corpus contains no new token: pass the text that the new tokens were trained on"
        )
    old_ids = np.array([pieces[0] for pieces in sources.pieces[ids[copied]]])
    similar = {}
    for block in np.array_split(added, -(-len(added) // 1_000)):
        weights = sparsemax(vectors[block] @ vectors[copied].T).numpy()
        for index, row in zip(block, weights, strict=True):
            nonzero = np.flatnonzero(row)
            similar[int(ids[index])] = tuple(old_ids[nonzero].tolist()), row[nonzero]
    return similar


def sparsemax(scores: torch.Tensor) -> torch.Tensor:
    """Map each row of scores to weights that sum to 1, many of them exactly 0.

    Source: Martins and Astudillo 2016, algorithm 1.
    """
    descending = scores.sort(dim=1, descending=True).values
    n = torch.arange(1, scores.shape[1] + 1)
    thresholds = (descending.cumsum(1) - 1) / n
    support = (descending > thresholds).sum(1, keepdim=True) - 1
    return (scores - thresholds.gather(1, support)).clamp(min=0)


def cooccurrence_vectors(documents: list[list[int]]) -> tuple[np.ndarray, torch.Tensor]:
    """Compute a unit vector for each token ID in documents; returns IDs (n) and vectors (n, 100).

    Factorises the positive pointwise mutual information of tokens within a window of 5, by a
    truncated SVD with a fixed seed. Source: Levy and Goldberg 2014, section 3.
    """
    pairs = []
    for document in documents:
        ids = np.array(document, np.int64)
        for k in range(1, min(WINDOW, len(ids) - 1) + 1):
            pairs += [(ids[:-k], ids[k:]), (ids[k:], ids[:-k])]
    if not pairs:
        raise ValueError("corpus has no two adjacent tokens: pass more text")
    ids, indices = np.unique(np.concatenate(pairs, axis=1), return_inverse=True)
    (one, two), n = indices.reshape(2, -1), len(ids)
    codes, counts = np.unique(one * n + two, return_counts=True)
    one, two = np.divmod(codes, n)
    totals = np.bincount(one, counts)
    pmi = np.log(counts / (totals[one] * totals[two]) * counts.sum())
    positions, values = np.stack([one, two])[:, pmi > 0], pmi[pmi > 0]
    matrix = torch.sparse_coo_tensor(positions, values, (n, n), check_invariants=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        vectors, values, _ = torch.svd_lowrank(matrix, min(DIMENSIONS, n), niter=4)
    return ids, normalize(vectors * values.sqrt(), dim=1)
