"""Embedding tables and output heads for a changed vocabulary, row by row."""

import math
import warnings
from collections.abc import Iterable, Mapping
from copy import deepcopy

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer

from ..tokenizer.encoder import Encoder
from ..tokenizer.library import as_encoder
from .initialisation import INITS, first_rows, one_thread, recipes, stretch
from .rows import row_sources

# Most released tables have up to about 900 rows more than their tokenizer has tokens (phi-2: 905).
MAX_PADDING = 1_024


def plan_transfer(
    model, old: Tokenizer, new: Tokenizer, *, max_padding: int | None = MAX_PADDING
) -> pd.Series:
    """Say what ``transfer_embeddings`` would do, before anything is changed.

    ``tokens`` and ``largest_id`` are the new tokenizer's. ``configured_size``, ``table_rows`` and
    ``padding`` (rows without a token) are the model's as it is; ``new_rows`` and ``new_padding`` are
    those that it would have. Rows are ``copied``, ``initialised`` (new tokens) or ``dropped`` (old
    tokens that went). ``head`` is "tied", "untied" or "none". A table with padding keeps its size
    while the tokens fit, and otherwise is a multiple of 64 again, or of the power of two below it
    that the old size was. ``new_ids`` and ``modules`` are what peft's ``TrainableTokensConfig`` needs
    to train nothing but the new rows (``token_indices``, ``target_modules``).

    Raises ValueError when ``old`` cannot be the model's tokenizer: when it has more ids than the
    table has rows, or leaves more than ``max_padding`` rows without a token (None allows any number).

    >>> old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> plan = plan_transfer(th.new_model("small-llama", 320, device="meta"), old, new)
    >>> plan[["table_rows", "padding", "new_rows", "copied", "initialised"]].tolist()
    [320, 63, 320, 257, 1]
    """
    return _plan(model, as_encoder(old), row_sources(old, new), max_padding)


def _plan(model, old: Encoder, sources: pd.DataFrame, max_padding: int | None) -> pd.Series:
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    rows, ids = len(table.weight), old.all_ids.values()
    _check_tables(table.weight, head, ids, max_padding)
    origins, before, needed = sources.origin.value_counts(), 1 + max(ids), len(sources)
    multiple = math.gcd(rows, 64) if rows > before else 1
    fits = before <= needed <= rows
    new_rows = rows if fits else math.ceil(needed / multiple) * multiple
    copied, initialised = int(origins.get("copied", 0)), int(origins.get("new", 0))
    kind = "none" if head is None else "tied" if head.weight is table.weight else "untied"
    trained = {id(part) for part in (table, head if kind == "untied" else table)}
    return pd.Series(
        {
            "tokens": copied + initialised,
            "largest_id": needed - 1,
            "configured_size": model.config.get_text_config().vocab_size,
            "table_rows": rows,
            "padding": rows - len(ids),
            "new_rows": new_rows,
            "new_padding": new_rows - copied - initialised,
            "copied": copied,
            "initialised": initialised,
            "dropped": len(ids) - copied,
            "head": kind,
            "head_bias": _bias(model) is not None,
            "width": table.weight.shape[1],
            "new_ids": np.flatnonzero(sources.origin == "new").tolist(),
            "modules": [name for name, m in model.named_modules() if id(m) in trained],
            "dtype": str(table.weight.dtype).removeprefix("torch."),
        },
        name="plan",
        dtype=object,
    )


def _check_tables(table, head, ids, max_padding: int | None) -> None:
    """Refuse a tokenizer that cannot be the model's, and tables that cannot be averaged."""
    rows = len(table)
    found = (
        f"the old tokenizer has {len(ids):,} tokens with ids up to {max(ids):,}, the model's "
        f"embedding table {rows:,} rows: give the tokenizer that the model was trained with"
    )
    if max(ids) >= rows:
        raise ValueError(found)
    if max_padding is not None and rows - len(ids) > max_padding:
        raise ValueError(f"{found}, or max_padding=None if it is this one")
    if not table.is_floating_point():
        raise ValueError(f"rows of {table.dtype} cannot be averaged: load the model unquantised")
    if head is not None and (n := len(head.weight)) != rows:
        raise ValueError(
            f"the embedding table has {rows:,} rows, the output head {n:,}: make them equal first"
        )


def transfer_embeddings(
    model,
    old: Tokenizer,
    new: Tokenizer,
    *,
    init: str = "fvt",
    rescale: bool = False,
    rows: Mapping[str, str] | None = None,
    corpus: Iterable[str] | None = None,
    inplace: bool = False,
    seed: int = 0,
    max_padding: int | None = MAX_PADDING,
):
    """Give a ``transformers`` model the rows that a changed tokenizer needs; return a new model.

    ``old`` is the tokenizer it has, ``new`` the changed one (extended, pruned, re-ordered). Rows of
    tokens that both have are copied, token by token. New rows start as ``init`` says:

    - "fvt": the mean of the rows of the token's pieces under ``old`` (``row_sources``);
    - "first-last": the row of its last piece in the input table, of its first in an untied head;
    - "focus": the mean of the rows of tokens with similar neighbours in ``corpus``, documents to read,
      weighted by sparsemax; "fvt" for new tokens that these do not hold;
    - "mean", "normal", "zero": the mean of all old tokens' rows, draws with their mean and covariance
      by ``seed``, or zeros.

    A token without pieces takes the mean, with a warning. An untied head and its bias are treated
    likewise, from their own rows. ``rescale`` puts the new rows of the input table as far from the
    mean row as the old ones are (median). ``rows`` names new tokens whose row is that of an old
    token, as ``{"new token": "old token"}``. Rows without a token take the old rows without one, in
    turn, or the mean where there are none. Ids in the configurations (``pad_token_id`` and so on)
    follow their tokens. The sums are done in float32 at least. Raises ValueError as
    ``plan_transfer`` does, for an unknown ``init``, "focus" without a text that holds new tokens,
    ``rows`` of other tokens, and rows that are not finite.

    Source: Purason et al. 2025, Appendix L (fvt); thesis, Table 8 (normal); Dobler and de Melo 2023
    (focus); NVIDIA Nemotron's tokenizer extension (rescale, there about zero).

    >>> old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> before = th.new_model("small-llama", 257)
    >>> rows = transfer_embeddings(before, old, new).get_input_embeddings().weight
    >>> len(rows), torch.equal(rows[257], rows[[65, 256]].mean(0))
    (258, True)
    """
    if init not in INITS:
        raise ValueError(f"no init is called {init!r}: use {', '.join(INITS)}")
    old, new = as_encoder(old), as_encoder(new)
    sources = row_sources(old, new)
    plan = _plan(model, old, sources, max_padding)
    _check_positions(model, old, new)
    named = _named(rows or {}, old, new, sources)
    model = model if inplace else deepcopy(model)
    spare = sorted(set(range(plan["table_rows"])) - old.all_tokens.keys())
    with torch.no_grad(), one_thread():  # the same rows, however many threads there are
        tables, made = _tables(model, plan), []
        for parts, recipe in zip(tables, recipes(init, sources, new, corpus), strict=False):
            held = torch.cat([part.reshape(plan["table_rows"], -1) for part in parts], dim=1)
            _check_finite(held)
            tokens = held[np.delete(np.arange(len(held)), spare)] if spare else held
            mean = tokens.mean(0, dtype=torch.float64).float()
            found = first_rows(init, recipe, seed, held, tokens, mean)
            if rescale and not made:
                width = slice(plan["width"])
                stretch(found[:, width], tokens[:, width], mean[width])
            found[list(named)] = held[list(named.values())].to(found.dtype)
            made.append(_new_rows(held, found, mean, sources, spare, plan["new_rows"]))
        for parts, table in zip(tables, made, strict=True):
            _write(parts, table, plan["table_rows"])
    _set_size(model, plan["new_rows"])
    _move_ids(model, old, new)
    return model


def _named(
    rows: Mapping[str, str], old: Encoder, new: Encoder, sources: pd.DataFrame
) -> dict[int, int]:
    """Which of the new tokens' rows, counted from 0, are which old rows."""
    place = {i: n for n, i in enumerate(np.flatnonzero(sources.origin == "new"))}
    named = {}
    for token, like in rows.items():
        row, old_row = place.get(new.all_ids.get(token)), old.all_ids.get(like)
        if row is None or old_row is None:
            raise ValueError(
                f"rows maps new tokens to tokens that the old tokenizer has, and {token!r}: {like!r} "
                "does not: give token strings of the two vocabularies"
            )
        named[row] = old_row
    return named


def _check_finite(rows: torch.Tensor) -> None:
    wrong = torch.nonzero(~rows.isfinite().all(1)).flatten().tolist()
    if wrong:
        raise ValueError(
            f"{len(wrong):,} rows of the model are not finite, row {wrong[0]} the first: load a model "
            "whose weights are whole"
        )


def _tables(model, plan: pd.Series) -> list[list[torch.Tensor]]:
    """What has one row per token: the input table, and an untied head; a bias goes with the last."""
    tables = [[model.get_input_embeddings().weight]]
    if plan["head"] == "untied":
        tables.append([model.get_output_embeddings().weight])
    if plan["head_bias"]:
        tables[-1].append(_bias(model))
    return tables


def _bias(model) -> torch.Tensor | None:
    """What is added to the logits of each token; BART keeps it apart from its head."""
    apart = getattr(model, "final_logits_bias", None)
    return getattr(model.get_output_embeddings(), "bias", None) if apart is None else apart


def _write(parts: list[torch.Tensor], rows: torch.Tensor, before: int) -> None:
    """Put rows in place of the ones before; what is tied stays tied, as it is the same object."""
    widths = [part.numel() // before for part in parts]
    for part, columns in zip(parts, rows.split(widths, dim=1), strict=True):
        shape = list(part.shape)
        shape[shape.index(before)] = len(rows)
        part.data, part.grad = columns.to(part.dtype).reshape(shape).contiguous(), None


def _set_size(model, n: int) -> None:
    """Let a model whose tables have been written know how many rows they have."""
    model.get_input_embeddings().num_embeddings = n
    head = model.get_output_embeddings()
    if head is not None:
        head.out_features = n
    for module in model.modules():  # an untied BERT holds its head's bias a second time
        twin, bias = getattr(module, "bias", None), getattr(head, "bias", None)
        twice = twin is not None and bias is not None and twin is not bias
        if twice and getattr(module, "decoder", None) is head:
            twin.data = bias.data.clone()
    model.config.get_text_config().vocab_size = model.vocab_size = n


def _new_rows(rows, found, mean, sources: pd.DataFrame, spare, n: int) -> torch.Tensor:
    """The new table: copied rows, those found for new tokens, and what has no token."""
    made = torch.empty((n, rows.shape[1]), dtype=rows.dtype, device=rows.device)
    copied, new, unused = (
        np.flatnonzero(sources.origin == origin).tolist() for origin in ("copied", "new", "unused")
    )
    made[copied] = rows[[piece[0] for piece in sources.pieces[copied]]]
    made[new] = found.to(made.dtype)
    unused += range(len(sources), n)
    old = rows[[spare[i % len(spare)] for i in range(len(unused))]] if spare else mean
    made[unused] = old.to(made.dtype)
    return made


def _check_positions(model, old: Encoder, new: Encoder) -> None:
    """Refuse to move the padding id of a model that counts positions from it (RoBERTa)."""
    table, pad = model.get_input_embeddings(), model.config.get_text_config().pad_token_id
    others = (m for m in model.modules() if isinstance(m, torch.nn.Embedding) and m is not table)
    if any(m.padding_idx is not None for m in others):
        token = old.all_tokens.get(pad)
        if (moved := new.all_ids.get(token)) != pad:
            raise ValueError(
                f"{type(model).__name__} counts positions from the id of {token!r}, {pad}, and the "
                f"new tokenizer gives it {moved}: keep this id"
            )


def _move_ids(model, old: Encoder, new: Encoder) -> None:
    """Write the configured ids (``pad_token_id`` and so on) as the new tokenizer has them."""
    token_of = old.all_tokens
    moved = {i: new.all_ids.get(token) for i, token in token_of.items()}
    text, lost = model.config.get_text_config(), set()
    configs = (model.config, text, getattr(model, "generation_config", None))
    for config in {id(c): c for c in configs if c is not None}.values():
        for name, value in list(vars(config).items()):
            if name.endswith("_token_id") and isinstance(value, (int, list)):
                ids = value if isinstance(value, list) else [value]
                lost |= {token_of[i] for i in ids if moved.get(i, i) is None}
                left = [moved.get(i, i) for i in ids if moved.get(i, i) is not None] or None
                setattr(config, name, left if left is None or value is ids else left[0])
    table = model.get_input_embeddings()
    if table.padding_idx is not None:
        table.padding_idx = text.pad_token_id
    if lost:
        warnings.warn(
            f"the model's configuration names {sorted(lost)}, which the new tokenizer lacks: "
            "these settings are empty now; set them by hand",
            stacklevel=3,
        )
