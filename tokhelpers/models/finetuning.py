"""Continual pretraining, causal or masked, and the loss per byte."""

import inspect
from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F

from .architectures import head_of
from .batches import (
    NO_LABEL,
    Task,
    around,
    backend,
    blocks,
    check_ids,
    encode_texts,
    sequence_length,
    sequences,
    special_ids,
)
from .optimisation import optimise, total_loss

CHOSEN = 0.15  # share of a text's tokens that a masked model guesses
MASKED, REPLACED = 0.8, 0.1  # shares of these; thesis, section 3.2.1


def pretrain(
    model,
    tokenizer,
    texts: Iterable[str],
    *,
    length: int | None = None,
    packed: bool = True,
    separator: str | int | None = None,
    **options,
):
    """Continue the pretraining of a model on texts: causal or masked, as its head is.

    Returns the trained model and the history of its steps; further ``options`` are those of
    ``optimise``: learning_rate, batch_size, epochs, steps, seed, folder and others.

    Packed, the texts are one stream, with a ``separator`` between them (default: what the
    tokenizer's post-processor puts behind or before a text, or its only special token), in blocks of
    ``length`` ids (default: the model's positions, 2,048 at most). Nothing is left out, and the
    texts of a block see each other. Not packed, as in the thesis, each text is a sequence, cut off
    at ``length``. A masked model guesses 15 % of the tokens (``masked_task``); the mask is the special
    token with "mask" in its name. Raises ValueError for a model without an output head, ids outside
    its table, a length above its positions, and no text.

    Source: thesis, sections 3.2.1, 5.1.1 and 5.2.

    >>> tokenizer = th.train_byte_level_bpe(["bat"], vocab_size=258, special_tokens=["<end>"])
    >>> small = th.new_model("small-llama", 258, hidden_size=6)
    >>> trained, history = pretrain(small, tokenizer, ["bat"] * 50, learning_rate=0.02, length=8,
    ...     batch_size=4, device="cpu")
    >>> history.columns.tolist(), int(history["items"].sum())  # 50 texts of 2 ids, 50 separators
    (['step', 'learning_rate', 'loss', 'items'], 150)
    """
    task = _text_task(model, tokenizer, texts, length, separator, packed)
    return optimise(model, task, **options)


def _text_task(model, tokenizer, texts, length, separator, packed=True) -> Task:
    causal = head_of(model, "causal-lm", "masked-lm") == "causal-lm"
    length = sequence_length(model, length)
    documents = encode_texts(tokenizer, texts)
    before, after = around(tokenizer, separator)
    if packed:
        rows = blocks(documents, length, (after or before)[-1], causal=causal)
    else:
        rows = sequences(documents, length + causal, before, after)
    return causal_task(rows) if causal else masked_task(model, tokenizer, rows)


def causal_task(rows: list[np.ndarray]) -> Task:
    """Make the task to predict each id of a row, but the first, from those before it.

    >>> causal_task([np.array([7, 8, 9])]).row(0, None)["labels"].tolist()
    [8, 9]
    """
    return Task([{"ids": row[:-1], "labels": row[1:]} for row in rows], lm_loss)


def masked_task(model, tokenizer, rows: list[np.ndarray], *, all_masked: bool = False) -> Task:
    """Make the task to predict hidden ids of a row from all the others.

    15 % of the row's tokens that are not special are chosen, one at least, which the library's
    collator does not ensure. Of these 80 % become the mask, 10 % a token drawn from the others, and
    10 % stay (``all_masked``: all become the mask).

    Source: BERT, as in the thesis, section 3.2.1; there whole words are chosen, here tokens.
    """
    inner = backend(tokenizer)
    special = special_ids(inner)
    masks = [i for i in special if "mask" in inner.id_to_token(i).lower()]
    if len(masks) != 1:
        raise ValueError(
            "a masked model needs one special token with 'mask' in its name, and this tokenizer has "
            f"{len(masks)}: give another tokenizer"
        )
    check_ids(model, [masks])
    size = min(model.get_input_embeddings().num_embeddings, max(inner.get_vocab().values()) + 1)
    ordinary = np.setdiff1d(np.arange(size), special)

    def masked(example: dict, rng: np.random.Generator) -> dict:
        ids = example["ids"]
        places = np.flatnonzero(np.isin(ids, special, invert=True))
        n = min(len(places), max(1, round(CHOSEN * len(places))))
        chosen = rng.choice(places, n, replace=False) if n else places
        dice, drawn = rng.random(n), rng.choice(ordinary, n)
        labels, hidden = np.full(len(ids), NO_LABEL), ids.copy()
        labels[chosen] = ids[chosen]
        new = np.where(dice < MASKED + REPLACED, drawn, ids[chosen])
        hidden[chosen] = np.where((dice < MASKED) | all_masked, masks[0], new)
        return {"ids": hidden, "labels": labels}

    return Task([{"ids": row} for row in rows], lm_loss, masked, tuple(masks))


def lm_loss(model, batch: dict) -> torch.Tensor:
    """Compute the sum of the losses of a batch's labels, in nats."""
    logits = label_logits(model, batch)
    labels = batch["labels"][batch["labels"] != NO_LABEL]
    return F.cross_entropy(logits.float(), labels, reduction="sum")


def label_logits(model, batch: dict) -> torch.Tensor:
    """Compute the logits (labels, vocabulary) of labelled places; only these reach the head."""
    wanted = batch["labels"] != NO_LABEL

    def keep(module, given, output):
        output.last_hidden_state = output.last_hidden_state[wanted][None]
        return output

    known = inspect.signature(model.forward).parameters
    cache = {"use_cache": False} if "use_cache" in known else {}
    hook = model.base_model.register_forward_hook(keep)
    try:
        return model(input_ids=batch["ids"], attention_mask=batch["mask"], **cache).logits[0]
    finally:
        hook.remove()


def loss_per_byte(
    model,
    tokenizer,
    texts: Iterable[str],
    *,
    length: int | None = None,
    separator: str | int | None = None,
) -> float:
    """Compute the loss on texts in nats per UTF-8 byte, comparable under different tokenizers.

    Each text stands alone behind the separator, in pieces of ``length`` ids. For a causal model it
    is the sum of the losses of all the text's tokens, divided by its bytes. For a masked model it is
    an approximation: the mean loss of 15 % of the tokens, all replaced by the mask, times the number
    of tokens, divided by the bytes; tokens that hide more text leave less to guess from. Options and
    errors are those of ``pretrain``; ValueError, too, for texts without a byte.

    >>> tokenizer = th.train_byte_level_bpe(["bat"], vocab_size=258, special_tokens=["<end>"])
    >>> small = th.new_model("small-llama", 258, hidden_size=6)
    >>> import math
    >>> _ = small.get_output_embeddings().weight.data.zero_()
    >>> loss_per_byte(small, tokenizer, ["bat"]), 2 * math.log(258) / 3  # all ids are as likely
    (3.7019..., 3.7019...)
    """
    texts = list(texts)
    causal = head_of(model, "causal-lm", "masked-lm") == "causal-lm"
    length = sequence_length(model, length)
    documents = encode_texts(tokenizer, texts)
    size = sum(len(text.encode()) for text in texts)
    if not size:
        raise ValueError("the texts are all empty: there is no byte to divide by")
    before, after = around(tokenizer, separator)
    if causal:
        rows = [np.array([before[-1], *ids]) for ids in documents]
        rows = [row[i : i + length + 1] for row in rows for i in range(0, len(row) - 1, length)]
        return total_loss(model, causal_task(rows))[0] / size
    most = max(1, length - len(before) - len(after))
    pieces = [ids[i : i + most] for ids in documents for i in range(0, len(ids), most)]
    rows = sequences(pieces, length, before, after)
    task = masked_task(model, tokenizer, rows, all_masked=True)
    total, items = total_loss(model, task)
    return total / items * sum(map(len, documents)) / size
