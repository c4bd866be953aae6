"""Count what a vocabulary costs in training: parameters and FLOPs."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from ..common.checks import positive
from .architectures import configuration, new_model


def parameter_count(architecture, vocab_size: int, head: str) -> int:
    """Count the parameters of a model, tied embeddings once.

    Arguments and errors are those of ``new_model``; no memory is allocated. Text classification has
    two labels unless the configuration says otherwise. Source: thesis, Table 9.

    >>> parameter_count("SmolLM2-135M", 49_152, "causal-lm")
    134515008
    """
    return new_model(architecture, vocab_size, head, device="meta").num_parameters()


def training_flops(architecture, vocab_size: int, head: str, length: int) -> int:
    """Count the FLOPs of a forward and backward pass on one sequence of ``length`` tokens.

    Counted by torch's ``FlopCounterMode``, except that attention in a causal model is counted for
    the preceding positions only, as fused kernels compute it. The optimiser is not counted. The
    result is linear in ``vocab_size``. Raises ValueError as ``training_memory`` does.

    >>> flops = [training_flops("small-llama", n, "causal-lm", 64) for n in (1_000, 1_001)]
    >>> (flops[1] - flops[0]) / 64 / 192  # per position and dimension of one more token
    6.0
    """
    config = training_config(architecture, vocab_size, head, 1, length)
    model = new_model(config, head=head, device="meta")
    with FlopCounterMode(display=False) as counter:
        model(**training_inputs(config, head, 1, length, "meta")).loss.backward()
    if getattr(config, "is_decoder", True) is False:  # an encoder attends to all positions
        return counter.get_total_flops()
    by_operation = counter.get_flop_counts()["Global"].items()
    attention = sum(n for op, n in by_operation if "bmm" in str(op) or "attention" in str(op))
    return counter.get_total_flops() - attention * (length - 1) // (2 * length)


def training_config(architecture, vocab_size: int | None, head: str, batch: int, length: int):
    """Return the configuration for a training step: fused attention, and an ID for padding."""
    config = configuration(architecture, vocab_size)
    if head == "none":
        raise ValueError("the head 'none' has no loss to train on: use 'causal-lm' or 'masked-lm'")
    positive("batch", batch)
    limit = getattr(config, "max_position_embeddings", length)
    if positive("length", length) > limit:
        raise ValueError(
            f"length={length:,} exceeds the {limit:,} positions of {config.model_type}: use fewer"
        )
    if hasattr(config, "attention_probs_dropout_prob"):
        config.attention_probs_dropout_prob = 0.0
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0  # needed to classify a batch of sequences
    return config


def training_inputs(config, head: str, batch: int, length: int, device) -> dict[str, torch.Tensor]:
    """Draw a batch of random token IDs and labels."""
    ids = torch.randint(config.vocab_size, (batch, length), device=device)
    classes = torch.randint(config.num_labels, (batch,), device=device)
    return {"input_ids": ids, "labels": classes if head == "text-classification" else ids}
