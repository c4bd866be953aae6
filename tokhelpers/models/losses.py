"""The loss of a causal model on text, and what any score of many rows needs."""

import inspect
import math
from collections.abc import Callable, Iterable

import numpy as np
import torch
import torch.nn.functional as F

from .architectures import head_of
from .batches import NO_LABEL, around, check_ids, collated, encode_texts, sequence_length

PLACES = 8_192  # ids, with padding, that go through a model at once, at most
PADDED = 1.25  # how much longer than the shortest row of a part its longest may be
SCORES = 2**28  # scores over the vocabulary that these have at most: 1 GiB in float32


def loss_per_byte(
    model,
    tokenizer,
    texts: Iterable[str],
    *,
    length: int | None = None,
    separator: str | int | None = None,
) -> float:
    """Compute a causal model's loss on texts in nats per UTF-8 byte, comparable across tokenizers.

    Each text stands alone behind the ``separator`` (default: what the tokenizer's post-processor
    puts before or behind a text, or its only special token), in pieces of ``length`` ids (default:
    the model's positions, 2,048 at most): the sum of the losses of all its tokens, divided by its
    bytes. The model computes in its own type, on its device. Raises ValueError for a model that is
    not causal, ids outside its table, a length above its positions, and texts without a byte.

    >>> tokenizer = th.train_byte_level_bpe(["bat"], vocab_size=258, special_tokens=["<end>"])
    >>> small = th.new_model("small-llama", 258, hidden_size=6)
    >>> import math
    >>> _ = small.get_output_embeddings().weight.data.zero_()
    >>> loss_per_byte(small, tokenizer, ["bat"]), 2 * math.log(258) / 3  # all ids are as likely
    (3.7019..., 3.7019...)
    """
    head_of(model, "causal-lm")
    texts = list(texts)
    length = sequence_length(model, length)
    documents = encode_texts(tokenizer, texts)
    if not (size := sum(len(text.encode()) for text in texts)):
        raise ValueError("the texts are all empty: there is no byte to divide by")
    before, _ = around(tokenizer, separator)
    rows = [np.array([before[-1], *ids]) for ids in documents]
    rows = [row[i : i + length + 1] for row in rows for i in range(0, len(row) - 1, length)]
    return math.fsum(scores(model, list(map(predicted, rows)), row_losses)) / size


def predicted(row: np.ndarray) -> dict:
    """Make the example to predict each id of a row, but the first, from those before it."""
    return {"ids": row[:-1], "labels": row[1:]}


@torch.no_grad()
def scores(model, rows: list[dict], function: Callable) -> np.ndarray:
    """Return what ``function(model, batch)`` gives for each row, float32, without dropout."""
    check_ids(model, [row["ids"] for row in rows])
    parts, mode = portions(model, rows), model.training
    model.eval()
    try:
        found = [function(model, batch_of(model, rows, part)) for part in parts]
    finally:
        model.train(mode)
    return torch.cat(found).float().cpu().numpy()[np.argsort(sum(parts, []))]


def portions(model, rows: list[dict]) -> list[list[int]]:
    """The places of the rows of each part: rows of like lengths, which need less padding."""
    places = min(PLACES, SCORES // model.get_input_embeddings().num_embeddings)
    parts = [[]]
    lengths = [max(1, len(row["ids"])) for row in rows]
    for i in sorted(range(len(rows)), key=lengths.__getitem__):
        full = (len(parts[-1]) + 1) * lengths[i] > places
        if parts[-1] and (full or lengths[i] > PADDED * lengths[parts[-1][0]]):
            parts.append([])
        parts[-1].append(i)
    return parts


def batch_of(model, rows: list[dict], part: list[int]) -> dict[str, torch.Tensor]:
    batch = collated([rows[i] for i in part])
    return {key: value.to(model.device) for key, value in batch.items()}


def row_losses(model, batch: dict) -> torch.Tensor:
    """Compute the sum of the losses of each row's labels, in nats."""
    wanted = batch["labels"] != NO_LABEL
    logits = label_logits(model, batch).float()
    losses = torch.zeros(wanted.shape, device=logits.device)
    losses[wanted] = F.cross_entropy(logits, batch["labels"][wanted], reduction="none")
    return losses.sum(1)


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
