"""From texts to batches of ids: encoding, padding, checks."""

from collections.abc import Iterable

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from ..tokenizer.checks import positive
from ..tokenizer.library import described, without_truncation

NO_LABEL = -100  # the label of a place that is not learned, as in torch and transformers
LENGTH = 2_048  # most ids of a sequence, where the caller sets no other; thesis, section 5.2.1


def encode_texts(tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """Encode each text: no special tokens around it, nothing cut off, no padding.

    ``tokenizer`` is a ``tokenizers.Tokenizer``, one of ``transformers``, or an AdaptBPE encoder.
    Raises TypeError for one string instead of many, ValueError for no text at all.

    >>> encode_texts(th.train_byte_level_bpe(["bat bat"], vocab_size=258), ["bat", ""])
    [[257], []]
    """
    if isinstance(texts, str):
        raise TypeError(f"texts is one string, {texts!r:.40}: put it in a list")
    texts = list(texts)
    if not texts:
        raise ValueError("there is no text: give one at least")
    return described(tokenizer).ids_batch(texts)


def special_ids(tokenizer) -> list[int]:
    added = without_truncation(tokenizer).get_added_tokens_decoder()
    return sorted(i for i, token in added.items() if token.special)


def around(tokenizer, separator: str | int | None = None) -> tuple[list[int], list[int]]:
    """Return the ids to put before and after a text.

    A given ``separator``, a token or its id, stands on both sides. Otherwise it is what the
    tokenizer's post-processor puts there ([CLS] and [SEP]), or its only special token. Raises
    ValueError where there is none of these.
    """
    inner = without_truncation(tokenizer)
    if separator is not None:
        found = inner.token_to_id(separator) if isinstance(separator, str) else separator
        if found is None:
            raise ValueError(f"this tokenizer has no token {separator!r}: give one that it has")
        return [found], [found]
    shown = inner.encode("a")
    if sum(shown.special_tokens_mask):
        first = shown.special_tokens_mask.index(0) if 0 in shown.special_tokens_mask else 1
        before = shown.ids[:first]
        after = [i for i, s in zip(shown.ids, shown.special_tokens_mask, strict=True) if s][first:]
        return before or after, after
    special = special_ids(inner)
    if len(special) == 1:
        return special, special
    some = ", ".join(str(inner.id_to_token(i)) for i in special[:8]) or "it has none"
    raise ValueError(
        "it is not clear which token stands between texts: give separator= a special token of the "
        f"tokenizer ({some}), or an id"
    )


def collated(rows: list[dict]) -> dict[str, torch.Tensor]:
    """Make one batch of rows: arrays padded on the right to the longest, and a mask for ids.

    Padding has the id 0, which the mask keeps out of attention: a tokenizer needs no padding token.
    """
    batch = {}
    for key in rows[0]:
        values = [torch.as_tensor(row[key], dtype=torch.int64) for row in rows]
        if values[0].dim() == 0:
            batch[key] = torch.stack(values)
        else:
            padding = NO_LABEL if key == "labels" else 0
            batch[key] = pad_sequence(values, batch_first=True, padding_value=padding)
        if key.endswith("ids"):
            real = [torch.ones_like(value) for value in values]
            batch[key.replace("ids", "mask")] = pad_sequence(real, batch_first=True)
    return batch


def check_ids(model, examples: Iterable) -> None:
    """Refuse ids outside the embedding table: on a GPU they would end the whole process."""
    rows = model.get_input_embeddings().num_embeddings
    for number, ids in enumerate(examples):
        for found in (np.min(ids, initial=0), np.max(ids, initial=0)):
            if not 0 <= found < rows:
                raise ValueError(
                    f"example {number} has the id {found}, and the embedding table has {rows} rows, "
                    f"0 to {rows - 1}: use the tokenizer that the model was made for, or "
                    "transfer_embeddings"
                )


def sequence_length(model, length: int | None = None) -> int:
    """Return the length to cut sequences at; None: all positions of the model, 2,048 at most."""
    limit = getattr(model.config, "max_position_embeddings", None)
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if limit is not None and getattr(table, "padding_idx", None) is not None:
        limit -= table.padding_idx + 1  # RoBERTa counts positions from behind its padding id
    if length is None:
        return min(LENGTH, limit or LENGTH)
    positive("length", length)
    if limit is not None and length > limit:
        raise ValueError(f"length={length}: the model has {limit} positions, so give that at most")
    return length
