"""Rows of new tokens, from the rows of old ones: averages, draws, and FOCUS."""

import warnings
from collections.abc import Iterable
from contextlib import contextmanager

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer
from torch.nn.functional import normalize

from .batches import encode_texts

INITS = ("fvt", "mean", "normal", "zero", "first-last", "focus")
WINDOW, DIMENSIONS = 5, 100  # of FOCUS: places to either side, and directions of a token's vector

# For each new token the old ids to average, and their weights.
Recipe = list[tuple[tuple[int, ...], np.ndarray]]


def recipes(init: str, sources: pd.DataFrame, new: Tokenizer, corpus) -> tuple[Recipe, Recipe]:
    """Return what to average for each new token: in the input table, and in an untied head.

    An ``init`` without pieces averages nothing. Warns of new tokens that have no old piece.
    """
    made = sources[sources.origin == "new"]
    if init in ("mean", "normal", "zero"):
        nothing = [((), np.ones(0))] * len(made)
        return nothing, nothing
    without = made.token[made.pieces.map(len) == 0].tolist()
    if without:
        warnings.warn(
            f"{len(without)} new tokens, {without[0]!r} the first, have no piece under the old "
            "tokenizer: their rows start as the mean of all rows",
            stacklevel=4,
        )
    if init == "first-last":
        one = np.ones(1)
        return [(p[-1:], one) for p in made.pieces], [(p[:1], one) for p in made.pieces]
    if init == "focus" and corpus is None:
        raise ValueError("init='focus' compares tokens by their text: give it as corpus=")
    found = focus_weights(sources, new, corpus) if init == "focus" else {}
    recipe = [found.get(i, (p, np.ones(len(p)))) for i, p in made.pieces.items()]
    return recipe, recipe


def first_rows(init: str, recipe: Recipe, seed: int, rows, tokens, mean) -> torch.Tensor:
    """Compute the new tokens' rows from all rows, the tokens' rows, and the mean of the latter."""
    if init == "normal":
        return draws(tokens, mean, len(recipe), seed)
    found = (torch.zeros_like(mean) if init == "zero" else mean).repeat(len(recipe), 1)
    for i, (ids, weights) in enumerate(recipe):
        if ids:
            shares = torch.from_numpy(weights).to(mean)[:, None]
            found[i] = (shares * rows[list(ids)].to(mean.dtype)).sum(0) / shares.sum()
    return found


def stretch(found: torch.Tensor, tokens: torch.Tensor, mean: torch.Tensor) -> None:
    """Put rows as far from the mean row as tokens' rows are (median), in place.

    An average of rows is nearer to the mean row than the rows are. What all rows share, the mean
    row, stays as it is: stretched as well, it makes the new tokens likely after any text.
    """
    median = (tokens.float() - mean).norm(dim=1).median()
    apart = found - mean
    found.copy_(mean + apart * (median / apart.norm(dim=1, keepdim=True).clamp(min=1e-30)))


@contextmanager
def one_thread():
    """Let one thread compute: several add numbers up in no promised order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def draws(rows: torch.Tensor, mean: torch.Tensor, n: int, seed: int) -> torch.Tensor:
    """Draw around the mean with the rows' covariance, by its symmetric square root."""
    width = rows.shape[1]
    products = torch.zeros((width, width), dtype=torch.float64, device=rows.device)
    for some in rows.split(8_192):
        centred = some.float() - mean
        products += centred.T @ centred
    values, vectors = torch.linalg.eigh(products / max(len(rows) - 1, 1))
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    drawn = torch.randn((n, width), generator=torch.Generator().manual_seed(seed))
    return mean + drawn.to(rows.device) @ root.float()


def focus_weights(
    sources: pd.DataFrame, new: Tokenizer, corpus: Iterable[str]
) -> dict[int, tuple[tuple[int, ...], np.ndarray]]:
    """Compute for new ids that the text holds the old ids that they resemble, and their weights.

    These are the sparsemax of the cosines between the ``token_vectors`` of a new token and of all
    tokens that were there before. Source: Dobler and de Melo 2023 (FOCUS), section 3.
    """
    ids, vectors = token_vectors(encode_texts(new, corpus))
    origin = sources.origin.to_numpy()[ids]
    wanted, known = np.flatnonzero(origin == "new"), np.flatnonzero(origin == "copied")
    if not len(wanted) or not len(known):
        raise ValueError(
            "the text holds no new token: give corpus= the text they were learned from"
        )
    old = np.array([piece[0] for piece in sources.pieces[ids[known]]])
    found = {}
    for some in np.array_split(wanted, -(-len(wanted) // 1_000)):
        weights = sparsemax(vectors[some] @ vectors[known].T).numpy()
        for place, row in zip(some, weights, strict=True):
            kept = np.flatnonzero(row)
            found[int(ids[place])] = tuple(old[kept].tolist()), row[kept]
    return found


def sparsemax(scores: torch.Tensor) -> torch.Tensor:
    """Compute weights that add up to 1 in each row; small scores get exactly 0.

    Source: Martins and Astudillo 2016, algorithm 1.
    """
    ordered = scores.sort(dim=1, descending=True).values
    n = torch.arange(1, scores.shape[1] + 1)
    threshold = (ordered.cumsum(1) - 1) / n
    last = (ordered > threshold).sum(1, keepdim=True) - 1
    return (scores - threshold.gather(1, last)).clamp(min=0)


def token_vectors(documents: list[list[int]]) -> tuple[np.ndarray, torch.Tensor]:
    """Compute a vector of length 1 for each id that documents of ids hold; returns ids and vectors.

    Pairs of neighbours are counted, and their positive pointwise mutual information is factorised
    (Levy and Goldberg 2014, section 3), with a fixed seed.
    """
    pairs = []
    for document in documents:
        ids = np.array(document, np.int64)
        for k in range(1, min(WINDOW, len(ids) - 1) + 1):
            pairs += [(ids[:-k], ids[k:]), (ids[k:], ids[:-k])]
    if not pairs:
        raise ValueError("the text has no two tokens side by side: give more of it as corpus=")
    ids, places = np.unique(np.concatenate(pairs, axis=1), return_inverse=True)
    (one, two), n = places.reshape(2, -1), len(ids)
    codes, times = np.unique(one * n + two, return_counts=True)
    one, two = np.divmod(codes, n)
    of_token = np.bincount(one, times)
    shared = np.log(times / (of_token[one] * of_token[two]) * times.sum())
    where = np.stack([one, two])[:, shared > 0]
    shared = shared[shared > 0]
    matrix = torch.sparse_coo_tensor(where, shared, (n, n), check_invariants=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        vectors, values, _ = torch.svd_lowrank(matrix, min(DIMENSIONS, n), niter=4)
    return ids, normalize(vectors * values.sqrt(), dim=1)
