"""Padded batches of sequences, and scores of many sequences by a model."""

import inspect
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from tokhelpers.models.losses import IGNORED, check_ids, length_batches


def next_token_example(ids: np.ndarray) -> dict:
    """Make the example in which every ID but the first is predicted from those before it."""
    return {"ids": ids[:-1], "labels": ids[1:]}


def collate(examples: list[dict]) -> dict[str, torch.Tensor]:
    """Make a batch of examples: arrays padded on the right, and an attention mask for IDs.

    Padding has ID 0, which the mask excludes from attention: no padding token is needed.
    """
    batch = {}
    for key in examples[0]:
        values = [torch.as_tensor(example[key], dtype=torch.int64) for example in examples]
        if values[0].dim() == 0:
            batch[key] = torch.stack(values)
        else:
            padding = IGNORED if key == "labels" else 0
            batch[key] = pad_sequence(values, batch_first=True, padding_value=padding)
        if key.endswith("ids"):
            real = [torch.ones_like(value) for value in values]
            batch[key.replace("ids", "mask")] = pad_sequence(real, batch_first=True)
    return batch


def batch_indices(model, examples: list[dict]) -> list[list[int]]:
    """Group examples of similar length into batches that fit into memory."""
    return length_batches(model, [len(example["ids"]) for example in examples])


def batch_of(model, examples: list[dict], indices: list[int]) -> dict[str, torch.Tensor]:
    batch = collate([examples[i] for i in indices])
    return {key: value.to(model.device) for key, value in batch.items()}


@torch.no_grad()
def scores(model, examples: list[dict], function: Callable) -> np.ndarray:
    """Return what ``function(model, batch)`` computes for each example, in float32, without dropout."""
    check_ids(model, [example["ids"] for example in examples])
    batches, training = batch_indices(model, examples), model.training
    model.eval()
    try:
        results = [function(model, batch_of(model, examples, batch)) for batch in batches]
    finally:
        model.train(training)
    return torch.cat(results).float().cpu().numpy()[np.argsort(sum(batches, []))]


def sequence_losses(model, batch: dict) -> torch.Tensor:
    """Compute the sum of the cross-entropies of each sequence's labels, in nats."""
    labelled = batch["labels"] != IGNORED
    logits = label_logits(model, batch).float()
    losses = torch.zeros(labelled.shape, device=logits.device)
    losses[labelled] = F.cross_entropy(logits, batch["labels"][labelled], reduction="none")
    return losses.sum(1)


def label_logits(model, batch: dict) -> torch.Tensor:
    """Compute the logits (labels, vocabulary) of labelled positions; only these reach the head."""
    labelled = batch["labels"] != IGNORED

    def keep_labelled(module, inputs, output):
        output.last_hidden_state = output.last_hidden_state[labelled][None]
        return output

    accepts_cache = "use_cache" in inspect.signature(model.forward).parameters
    options = {"use_cache": False} if accepts_cache else {}
    hook = model.base_model.register_forward_hook(keep_labelled)
    try:
        return model(input_ids=batch["ids"], attention_mask=batch["mask"], **options).logits[0]
    finally:
        hook.remove()
