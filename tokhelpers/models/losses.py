"""Compute the cross-entropy of a causal model per byte of text."""

import math
from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from ..common.checks import positive
from ..tokenizer.library_encoder import as_encoder, without_truncation

IGNORED = -100  # label of a position without a loss, as in torch and transformers
MAX_LENGTH = 2_048  # tokens of a sequence, unless the caller sets it; thesis, section 5.2.1
MAX_POSITIONS = 8_192  # of a batch, padding included
MAX_LOGITS = 2**28  # of a batch: 1 GiB in float32
MAX_LENGTH_RATIO = 1.25  # of the longest to the shortest sequence of a batch


@torch.no_grad()
def loss_per_byte(
    model,
    tokenizer,
    texts: Iterable[str],
    *,
    length: int | None = None,
    separator: str | int | None = None,
) -> float:
    """Compute a causal model's cross-entropy in nats per UTF-8 byte, comparable across tokenizers.

    Each text follows the ``separator``, a token or its ID (default: the special token that the
    tokenizer's post-processor adds, or its only one), in windows of ``length`` tokens (default: the
    model's positions, at most 2,048). The losses of all tokens are summed and divided by the bytes.
    Dropout is off; the model computes in its own dtype and on its own device. Raises ValueError for
    a model that is not causal, IDs outside its embedding table, a length beyond its positions, and
    texts without a byte.

    >>> tokenizer = th.train_byte_level_bpe(["bat"], vocab_size=258, special_tokens=["<end>"])
    >>> model = th.new_model("small-llama", 258, hidden_size=6)
    >>> _ = model.get_output_embeddings().weight.data.zero_()
    >>> loss_per_byte(model, tokenizer, ["bat"]), float(2 * np.log(258) / 3)  # uniform distribution
    (3.7019..., 3.7019...)
    """
    check_causal(model)
    texts = list(texts)
    length = sequence_length(model, length)
    documents = encode_texts(tokenizer, texts)
    if not (n_bytes := sum(len(text.encode()) for text in texts)):
        raise ValueError("the texts are all empty, so there is no byte to divide by")
    start = start_id(tokenizer, separator)
    sequences = [torch.tensor([start, *ids]) for ids in documents]
    starts = [range(0, len(ids) - 1, length) for ids in sequences]
    windows = [
        ids[i : i + length + 1] for ids, at in zip(sequences, starts, strict=True) for i in at
    ]
    check_ids(model, [window.numpy() for window in windows])
    losses, training = [], model.training
    model.eval()
    try:
        for batch in length_batches(model, [len(window) - 1 for window in windows]):
            inputs = pad_sequence([windows[i][:-1] for i in batch], True).to(model.device)
            mask = pad_sequence([torch.ones(len(windows[i]) - 1) for i in batch], True)
            labels = pad_sequence([windows[i][1:] for i in batch], True, IGNORED)
            logits = model(input_ids=inputs, attention_mask=mask.to(inputs), use_cache=False).logits
            logits, labels = logits.flatten(0, 1).float(), labels.flatten().to(model.device)
            losses += F.cross_entropy(logits, labels, reduction="none").tolist()
    finally:
        model.train(training)
    return math.fsum(losses) / n_bytes


def encode_texts(tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """Encode each text without special tokens, truncation or padding.

    ``tokenizer`` is a ``tokenizers.Tokenizer``, a ``transformers`` tokenizer or an AdaptBPE encoder.
    Raises TypeError for a single string, ValueError for an empty list.

    >>> encode_texts(th.train_byte_level_bpe(["bat bat"], vocab_size=258), ["bat", ""])
    [[257], []]
    """
    if isinstance(texts, str):
        raise TypeError(f"texts is a single string, {texts!r:.40}: pass a list of strings")
    texts = list(texts)
    if not texts:
        raise ValueError("texts is empty: pass at least one text")
    return as_encoder(tokenizer).ids_batch(texts)


def start_id(tokenizer, separator: str | int | None = None) -> int:
    """Return the ID that stands before a text.

    It is the ``separator``, a token or its ID, if one is given; otherwise the last one that the
    tokenizer's post-processor puts before a text (or the last one behind it, if there is none before),
    or the tokenizer's only special token. Raises ValueError where there is none of these.
    """
    backend = without_truncation(tokenizer)
    if separator is not None:
        i = backend.token_to_id(separator) if isinstance(separator, str) else separator
        if i is None:
            raise ValueError(f"this tokenizer has no token {separator!r}: pass one that it has")
        return i
    encoding = backend.encode("a")
    is_special = encoding.special_tokens_mask
    if any(is_special):
        first = is_special.index(0) if 0 in is_special else 1
        return encoding.ids[first - 1]
    added_tokens = backend.get_added_tokens_decoder()
    special = sorted(i for i, token in added_tokens.items() if token.special)
    if len(special) == 1:
        return special[0]
    tokens = ", ".join(str(backend.id_to_token(i)) for i in special[:8]) or "it has none"
    raise ValueError(
        "it is not clear which token separates texts: pass separator=, a special token of the "
        f"tokenizer ({tokens}) or an ID"
    )


def check_causal(model) -> None:
    """Raise ValueError for a model that does not predict the next token."""
    name, has_head = type(model).__name__, model.get_output_embeddings() is not None
    if not has_head or model.config.is_encoder_decoder or name.endswith("MaskedLM"):
        raise ValueError(
            f"{name} has no head for this task: load the model with AutoModelForCausalLM"
        )


def check_ids(model, sequences: Iterable) -> None:
    """Raise ValueError for IDs outside the embedding table, which would abort the process on a GPU."""
    size = model.get_input_embeddings().num_embeddings
    for number, ids in enumerate(sequences):
        for i in (np.min(ids, initial=0), np.max(ids, initial=0)):
            if not 0 <= i < size:
                raise ValueError(
                    f"example {number} has ID {i}, but the embedding table has {size} rows, 0 to "
                    f"{size - 1}: use the model's own tokenizer, or transfer_embeddings"
                )


def sequence_length(model, length: int | None = None) -> int:
    """Return the length of sequences: as given, or the model's positions, at most 2,048."""
    limit = getattr(model.config, "max_position_embeddings", None)
    positions = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if limit is not None and getattr(positions, "padding_idx", None) is not None:
        limit -= positions.padding_idx + 1  # RoBERTa counts positions from its padding ID
    if length is None:
        return min(MAX_LENGTH, limit or MAX_LENGTH)
    positive("length", length)
    if limit is not None and length > limit:
        raise ValueError(
            f"length={length} exceeds the model's {limit} positions: use at most these"
        )
    return length


def length_batches(model, lengths: list[int]) -> list[list[int]]:
    """Group sequences of similar length into batches that fit into memory; returns their indices."""
    size = min(MAX_POSITIONS, MAX_LOGITS // model.get_input_embeddings().num_embeddings)
    batches = [[]]
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        batch, length = batches[-1], max(1, lengths[i])
        is_full = (len(batch) + 1) * length > size
        if batch and (is_full or length > MAX_LENGTH_RATIO * max(1, lengths[batch[0]])):
            batches.append([])
        batches[-1].append(i)
    return batches
