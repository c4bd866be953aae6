"""Training a model on text: one loop for whatever is learned, and causal models on packed text."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pandas as pd
import torch
import transformers
from batches import batch_indices, batch_of, next_token_example, sequence_losses

from tokhelpers.models.architectures import head_of
from tokhelpers.models.losses import (
    IGNORED,
    bos_eos_ids,
    check_ids,
    encode_texts,
    sequence_length,
)
from tokhelpers.tokenizer.checks import positive

WARMUP = FLOOR = 0.01  # share of the steps in which the rate rises; share of it at the end


def pretrain(
    model,
    tokenizer,
    texts: Iterable[str],
    *,
    length: int | None = None,
    separator: str | int | None = None,
    **options,
):
    """Continue the pretraining of a causal model on texts; return it and the history of its steps.

    The texts are one stream, with a ``separator`` between them (default: what the tokenizer's
    post-processor puts behind or before a text, or its only special token), in blocks of ``length``
    ids (default: the model's positions, 2,048 at most). Nothing is left out, and the texts of a
    block see each other. Further ``options`` are ``optimise``'s: learning_rate, batch_size, epochs,
    steps, seed, device and inplace. Raises ValueError for a model that is not causal, ids outside
    its table, a length above its positions, and no text.

    Source: thesis, section 5.2, where each text is a sequence of its own.

    >>> tokenizer = th.train_byte_level_bpe(["bat"], vocab_size=258, special_tokens=["<end>"])
    >>> small = th.new_model("small-llama", 258, hidden_size=6)
    >>> trained, history = pretrain(small, tokenizer, ["bat"] * 50, learning_rate=0.02, length=8,
    ...     batch_size=4, device="cpu")
    >>> history.columns.tolist(), int(history["items"].sum())  # 50 texts of 2 ids, 50 separators
    (['step', 'learning_rate', 'loss', 'items'], 150)
    """
    head_of(model, "causal-lm")
    length = sequence_length(model, length)
    documents = encode_texts(tokenizer, texts)
    before, after = bos_eos_ids(tokenizer, separator)
    rows = blocks(documents, length, (after or before)[-1])
    return optimise(model, [next_token_example(row) for row in rows], lm_loss, **options)


def blocks(documents: Iterable[Sequence[int]], length: int, separator: int) -> list[np.ndarray]:
    """Cut documents, lists of ids, into blocks: one stream with a separator around each document.

    A block has ``length`` + 1 ids and shares one with its neighbour, so that each id but the first
    of the stream is predicted once. The last may be shorter; nothing is left out.
    """
    positive("length", length)
    ids = chain([separator], *((*document, separator) for document in documents))
    stream = np.fromiter(ids, np.int64)
    return [stream[i : i + length + 1] for i in range(0, len(stream) - 1, length)]


def optimise(
    model,
    examples: list[dict],
    loss: Callable[[torch.nn.Module, dict], torch.Tensor],
    *,
    learning_rate: float,
    batch_size: int = 512,
    epochs: int = 1,
    steps: int | None = None,
    seed: int = 42,
    device: str | torch.device | None = None,
    inplace: bool = False,
):
    """Train a model with AdamW on examples; return the trained model and the history of its steps.

    An example has ``ids``, and ``labels``: one number, or one per place (``IGNORED``: none).
    ``loss`` is the sum over the labels of a batch (``collate``). ``steps`` overrules ``epochs``.
    The order of examples is drawn from the seed and the epoch, dropout from the seed and the step.
    The default device is CUDA where there is one. The model that came in stays as it was unless
    ``inplace``. Where other programs use the cores too, ``torch.set_num_threads(1)`` can be many
    times faster.
    """
    for name, number in {"batch_size": batch_size, "epochs": epochs, "steps": steps}.items():
        if number is not None:
            positive(name, number)
    if not examples:
        raise ValueError("there is no example to learn from: give more text")
    check_ids(model, (example["ids"] for example in examples))
    steps = steps or epochs * math.ceil(len(examples) / batch_size)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    trained = (model if inplace else copy.deepcopy(model)).to(device)

    def batch(step: int) -> list[dict]:
        return [examples[i] for i in drawn(len(examples), batch_size, seed, step)]

    how = {"learning_rate": learning_rate, "steps": steps, "seed": seed}
    history = list(training_steps(trained, adamw(trained), loss, batch, **how))
    return trained, pd.DataFrame(history)


def adamw(model) -> torch.optim.AdamW:
    """Make the optimiser of what a model learns: AdamW without weight decay.

    Source: thesis, section 5.2: betas 0.9 and 0.999, epsilon 1e-8.
    """
    learned = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(learned, weight_decay=0.0, fused=True)


def drawn(size: int, batch_size: int, seed: int, step: int) -> np.ndarray:
    """Draw the numbers of the examples of a step, which is counted from 1."""
    epoch, place = divmod(step - 1, math.ceil(size / batch_size))
    order = np.random.default_rng([seed, 0, epoch]).permutation(size)
    return order[place * batch_size :][:batch_size]


def training_steps(
    model,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[torch.nn.Module, dict], torch.Tensor],
    batch: Callable[[int], list[dict]],
    *,
    learning_rate: float,
    steps: int,
    seed: int,
    done: int = 0,
) -> Iterator[dict]:
    """Train a model in place; yield after each step its number, rate, mean loss (nats) and labels.

    ``batch(step)`` are the examples of a step, which is counted from 1; ``done`` steps have been
    made before. A batch goes through the model in parts of about 8,192 ids, fewer where the
    vocabulary is large; that changes rounding and dropout, not the result. Source: thesis, section
    5.2.2.
    """
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise ValueError(f"learning_rate={learning_rate!r}: give a number above 0")
    mode = model.training
    try:
        for step in range(done + 1, steps + 1):
            rate = learning_rate * _share_of_rate(step, steps)
            optimiser.param_groups[0]["lr"] = rate
            with torch.random.fork_rng(range(torch.cuda.device_count())):
                torch.manual_seed(int(np.random.SeedSequence([seed, step]).generate_state(1)[0]))
                found = _step(model, optimiser, loss, batch(step), step)
            yield {"step": step, "learning_rate": rate, **found}
    finally:
        model.train(mode).zero_grad(set_to_none=True)


def _share_of_rate(step: int, steps: int) -> float:
    """The share of the peak rate at a step: the library's schedule."""
    rising = max(1, math.ceil(round(WARMUP * steps, 9)))
    peak_of_one = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = transformers.get_cosine_with_min_lr_schedule_with_warmup(
        peak_of_one, rising, steps, min_lr_rate=FLOOR
    )
    return schedule.lr_lambdas[0](step)


def _step(model, optimiser, loss, rows: list[dict], step: int) -> dict:
    """Make one step of the optimiser; returns its loss and the number of labels."""
    items = sum(int(np.sum(np.asarray(row["labels"]) != IGNORED)) for row in rows)
    if not items:
        raise ValueError(f"the batch of step {step} has no token to predict: give longer texts")
    model.train()
    losses = []
    for part in batch_indices(model, rows):
        share = loss(model, batch_of(model, rows, part)) / items
        share.backward()
        losses.append(share.detach())
    losses = torch.stack(losses).double().cpu()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    for what, found in (
        ("loss is", losses.sum()),
        ("gradients are", torch.nn.utils.get_total_norm(gradients)),
    ):
        if not found.isfinite():
            raise FloatingPointError(
                f"the {what} not finite at step {step}: lower learning_rate, or look at the texts"
            )
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return {"loss": losses.sum().item(), "items": items}


def lm_loss(model, batch: dict) -> torch.Tensor:
    """Compute the sum of the losses of a batch's labels, in nats."""
    return sequence_losses(model, batch).sum()
