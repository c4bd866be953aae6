"""Give a model the embeddings that a changed tokenizer needs."""

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer

from ..tokenizer.encoder import Encoder
from ..tokenizer.library_encoder import as_encoder
from .configured_ids import update_configured_ids
from .ids import row_sources
from .initialisation import INITS, averages, initial_embeddings, one_thread, rescale_distances

# Most released embedding tables have at most about 900 rows without a token (phi-2: 905).
MAX_PADDING = 1_024


def plan_transfer(
    model, old: Tokenizer, new: Tokenizer, *, max_padding: int | None = MAX_PADDING
) -> pd.Series:
    """Report what ``transfer_embeddings`` would do, without changing anything.

    Of the new tokenizer: ``tokens``, ``largest_id``. Of the model: ``configured_size``,
    ``table_rows``, ``padding`` (rows without a token), ``head`` ("tied", "untied" or "none"),
    ``head_bias``, ``width``, ``dtype``. After the transfer: ``new_rows``, ``new_padding``, and the
    numbers of ``copied``, ``initialised`` (new) and ``dropped`` (removed) tokens. A padded table keeps
    its size while the tokens fit; otherwise its size stays a multiple of 64, or of the largest power
    of two below 64 that divided it. ``new_ids`` and ``modules`` are the ``token_indices`` and
    ``target_modules`` with which peft's ``TrainableTokensConfig`` trains the new embeddings only.

    Raises ValueError if ``old`` cannot be the model's tokenizer: if its IDs exceed the table, or leave
    more than ``max_padding`` rows without a token (None: any number).

    >>> old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> plan = plan_transfer(th.new_model("small-llama", 320, device="meta"), old, new)
    >>> plan[["table_rows", "padding", "new_rows", "copied", "initialised"]].tolist()
    [320, 63, 320, 257, 1]
    """
    return _plan(model, as_encoder(old), row_sources(old, new), max_padding)


def _plan(model, old: Encoder, sources: pd.DataFrame, max_padding: int | None) -> pd.Series:
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    rows, old_ids = len(table.weight), old.all_ids.values()
    _check_model(table.weight, head, old_ids, max_padding)
    origins, old_size, new_size = sources.origin.value_counts(), 1 + max(old_ids), len(sources)
    multiple = math.gcd(rows, 64) if rows > old_size else 1
    fits = old_size <= new_size <= rows
    new_rows = rows if fits else math.ceil(new_size / multiple) * multiple
    copied, initialised = int(origins.get("copied", 0)), int(origins.get("new", 0))
    kind = "none" if head is None else "tied" if head.weight is table.weight else "untied"
    embeddings = {id(module) for module in (table, head if kind == "untied" else table)}
    return pd.Series(
        {
            "tokens": copied + initialised,
            "largest_id": new_size - 1,
            "configured_size": model.config.get_text_config().vocab_size,
            "table_rows": rows,
            "padding": rows - len(old_ids),
            "new_rows": new_rows,
            "new_padding": new_rows - copied - initialised,
            "copied": copied,
            "initialised": initialised,
            "dropped": len(old_ids) - copied,
            "head": kind,
            "head_bias": _head_bias(model) is not None,
            "width": table.weight.shape[1],
            "new_ids": np.flatnonzero(sources.origin == "new").tolist(),
            "modules": [name for name, m in model.named_modules() if id(m) in embeddings],
            "dtype": str(table.weight.dtype).removeprefix("torch."),
        },
        name="plan",
        dtype=object,
    )


def _check_model(table, head, old_ids, max_padding: int | None) -> None:
    """Raise ValueError if the IDs do not fit the table, or its embeddings cannot be averaged."""
    rows = len(table)
    sizes = (
        f"the old tokenizer has {len(old_ids):,} tokens with IDs up to {max(old_ids):,}, the model's "
        f"embedding table {rows:,} rows: pass the tokenizer that the model was trained with"
    )
    if max(old_ids) >= rows:
        raise ValueError(sizes)
    if max_padding is not None and rows - len(old_ids) > max_padding:
        raise ValueError(f"{sizes}, or max_padding=None if it is this one")
    if not table.is_floating_point():
        raise ValueError(
            f"embeddings of {table.dtype} cannot be averaged: load an unquantised model"
        )
    if head is not None and (n := len(head.weight)) != rows:
        raise ValueError(
            f"the embedding table has {rows:,} rows, the output head {n:,}: resize them first"
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
    """Give a ``transformers`` model the embeddings for a changed tokenizer; returns a new model.

    ``old`` is the model's tokenizer, ``new`` the changed one (extended, pruned, renumbered).
    Embeddings of tokens that both have are copied by token; ``init`` initialises those of new tokens:

    - "fvt": the mean of the embeddings of its pieces under ``old`` (see ``row_sources``);
    - "first-last": its last piece's input embedding, its first piece's in an untied head;
    - "focus": a sparsemax-weighted mean of tokens with similar contexts in ``corpus``, an iterable of
      documents; "fvt" for new tokens that do not occur there;
    - "mean", "normal", "zero": the mean of the old tokens, a sample from a normal distribution with
      their mean and covariance (by ``seed``), or zeros.

    An untied head and its bias are initialised in the same way from their own values. ``rescale``
    moves new input embeddings to the median distance of old ones from their mean. ``rows`` maps new
    tokens to old tokens whose embeddings they copy. Rows without a token take over old ones, or the
    mean. IDs in the configurations, such as ``pad_token_id`` and ``suppress_tokens``, follow their
    tokens. Means are computed in float32.

    Raises ValueError as ``plan_transfer`` does, for an unknown ``init``, "focus" without a suitable
    text, ``rows`` of other tokens, and embeddings that are not finite.

    Source: Purason et al. 2025, Appendix L (fvt); thesis, Table 8 (normal); Dobler and de Melo 2023
    (focus); NVIDIA Nemotron's tokenizer extension (rescale, there about zero).

    >>> old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> model = transfer_embeddings(th.new_model("small-llama", 257), old, new)
    >>> embeddings = model.get_input_embeddings().weight
    >>> len(embeddings), torch.equal(embeddings[257], embeddings[[65, 256]].mean(0))
    (258, True)
    """
    if init not in INITS:
        raise ValueError(f"unknown init {init!r}: use {', '.join(INITS)}")
    old, new = as_encoder(old), as_encoder(new)
    sources = row_sources(old, new)
    plan = _plan(model, old, sources, max_padding)
    _check_padding_id(model, old, new)
    copies = _requested_copies(rows or {}, old, new, sources)
    model = model if inplace else deepcopy(model)
    old_rows = plan["table_rows"]
    padding = sorted(set(range(old_rows)) - old.all_tokens.keys())
    with torch.no_grad(), one_thread():  # the same embeddings, whatever the number of threads
        groups, new_tables = _tables(model, plan), []
        for tensors, averaged in zip(groups, averages(init, sources, new, corpus), strict=False):
            table = torch.cat([tensor.reshape(old_rows, -1) for tensor in tensors], dim=1)
            _check_finite(table)
            tokens = table[np.delete(np.arange(old_rows), padding)] if padding else table
            mean = tokens.mean(0, dtype=torch.float64).float()
            added = initial_embeddings(init, averaged, seed, table, tokens, mean)
            if rescale and not new_tables:
                width = slice(plan["width"])  # without a bias in the last column
                rescale_distances(added[:, width], tokens[:, width], mean[width])
            added[list(copies)] = table[list(copies.values())].to(added.dtype)
            new_tables.append(_new_table(table, added, mean, sources, padding, plan["new_rows"]))
        embeddings = model.get_input_embeddings()
        padding_idx = embeddings.padding_idx
        model.resize_token_embeddings(plan["new_rows"], mean_resizing=False)
        embeddings.padding_idx = padding_idx  # transformers drops one beyond the new size
        for tensors, table in zip(_tables(model, plan), new_tables, strict=True):
            widths = [tensor.numel() // len(table) for tensor in tensors]
            for tensor, columns in zip(tensors, table.split(widths, dim=1), strict=True):
                tensor.grad = None
                tensor.copy_(columns.reshape(tensor.shape))
        if plan["head"] == "untied":
            _copy_head_bias(model)
    update_configured_ids(model, old, new)
    return model


def _requested_copies(
    rows: Mapping[str, str], old: Encoder, new: Encoder, sources: pd.DataFrame
) -> dict[int, int]:
    """Map indices of new tokens, counted from 0, to old IDs."""
    index_of = {i: n for n, i in enumerate(np.flatnonzero(sources.origin == "new"))}
    copies = {}
    for token, old_token in rows.items():
        index, old_id = index_of.get(new.all_ids.get(token)), old.all_ids.get(old_token)
        if index is None or old_id is None:
            raise ValueError(
                "rows maps new tokens to tokens of the old tokenizer, which does not hold for "
                f"{token!r}: {old_token!r}: pass token strings of the two vocabularies"
            )
        copies[index] = old_id
    return copies


def _check_finite(table: torch.Tensor) -> None:
    not_finite = torch.nonzero(~table.isfinite().all(1)).flatten().tolist()
    if not_finite:
        raise ValueError(
            f"{len(not_finite):,} embeddings of the model are not finite, first ID {not_finite[0]}: "
            "load a model with intact weights"
        )


def _tables(model, plan: pd.Series) -> list[list[torch.Tensor]]:
    """Tensors with one row per token: input embeddings, untied head; a bias goes with the last."""
    tables = [[model.get_input_embeddings().weight]]
    if plan["head"] == "untied":
        tables.append([model.get_output_embeddings().weight])
    if plan["head_bias"]:
        tables[-1].append(_head_bias(model))
    return tables


def _head_bias(model) -> torch.Tensor | None:
    """The bias of the logits; BART stores it outside its head."""
    bias = getattr(model, "final_logits_bias", None)
    return getattr(model.get_output_embeddings(), "bias", None) if bias is None else bias


def _copy_head_bias(model) -> None:
    """Store the bias of an untied head in the module around it as well, where BERT has a copy."""
    bias = getattr(head := model.get_output_embeddings(), "bias", None)
    for module in model.modules() if bias is not None else ():
        if getattr(module, "decoder", None) is head:
            module.bias = torch.nn.Parameter(bias.clone())


def _new_table(table, added, mean, sources: pd.DataFrame, padding, n: int) -> torch.Tensor:
    """The new table: copied embeddings, those of new tokens, and padding."""
    result = torch.empty((n, table.shape[1]), dtype=table.dtype, device=table.device)
    copied, new, unused = (
        np.flatnonzero(sources.origin == origin).tolist() for origin in ("copied", "new", "unused")
    )
    result[copied] = table[[pieces[0] for pieces in sources.pieces[copied]]]
    result[new] = added.to(result.dtype)
    unused += range(len(sources), n)
    filler = table[[padding[i % len(padding)] for i in range(len(unused))]] if padding else mean
    result[unused] = filler.to(result.dtype)
    return result


def _check_padding_id(model, old: Encoder, new: Encoder) -> None:
    """Raise ValueError if the padding ID moves in a model that counts positions from it (RoBERTa)."""
    table, pad_id = model.get_input_embeddings(), model.config.get_text_config().pad_token_id
    others = (m for m in model.modules() if isinstance(m, torch.nn.Embedding) and m is not table)
    if any(m.padding_idx is not None for m in others):
        token = old.all_tokens.get(pad_id)
        if (new_id := new.all_ids.get(token)) != pad_id:
            raise ValueError(
                f"{type(model).__name__} counts positions from the ID of {token!r}, {pad_id}, which "
                f"the new tokenizer changes to {new_id}: keep this ID"
            )
