"""The training loop: one for all tasks, resumed from its last checkpoint, stopped by a bad loss."""

import copy
import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors
import torch
import transformers
from safetensors.torch import save, save_file

from ..tokenizer.checks import positive
from ..tokenizer.files import write_whole
from .architectures import dtype_of
from .batches import NO_LABEL, Task, check_ids, collated

CHECKPOINT = "checkpoint.safetensors"  # weights, AdamW's state, and the run as metadata
PLACES = 8_192  # ids, with padding, that go through a model at once, at most
SCORES = 2**28  # scores over the vocabulary that these have at most: 1 GiB in float32


def learning_rate_schedule(
    step: int, steps: int, *, warmup: float = 0.01, floor: float = 0.01
) -> float:
    """Return the share of the peak learning rate at a step, counted from 1 to ``steps``.

    It is the library's schedule: linear from 0 to 1 over the first ``warmup`` of the steps (one at
    least), then half a cosine down to ``floor``, which the last step has. Raises ValueError for a
    step outside 0 to ``steps``.

    Source: thesis, section 5.2.2.

    >>> [round(learning_rate_schedule(step, 200), 4) for step in (1, 2, 101, 200)]
    [0.5, 1.0, 0.505, 0.01]
    """
    if not 0 <= step <= steps:
        raise ValueError(f"step {step} of {steps}: give one from 0 to {steps}")
    rising = max(1, math.ceil(round(warmup * steps, 9)))
    peak_of_one = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = transformers.get_cosine_with_min_lr_schedule_with_warmup(
        peak_of_one, rising, steps, min_lr_rate=floor
    )
    return schedule.lr_lambdas[0](step)


def optimise(
    model,
    task: Task,
    *,
    learning_rate: float,
    batch_size: int = 512,
    micro_batch: int | None = None,
    epochs: int = 1,
    steps: int | None = None,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    dtype: str | None = None,
    warmup: float = 0.01,
    floor: float = 0.01,
    seed: int = 42,
    folder: str | os.PathLike | None = None,
    save_every: int = 100,
    device: str | torch.device | None = None,
    inplace: bool = False,
):
    """Train a model with AdamW on a task; return the trained model and the history of its steps.

    A step's loss is the mean over the labels of ``batch_size`` examples. Gradients are summed over
    parts of ``micro_batch`` examples (None: as many as have about 8,192 ids, or fewer where the
    vocabulary is so large that their scores would take more than 1 GiB); that changes rounding and
    dropout, not the result. ``steps`` overrules ``epochs``. The order of examples is drawn from the
    seed and the epoch; dropout and masks from the seed and the step. The rate follows
    ``learning_rate_schedule``. The default device is CUDA where there is one. ``dtype`` is what the
    body computes in, "float32" or "bfloat16" (None: bfloat16 on a GPU that has it in hardware, else
    float32); weights, gradients and AdamW's averages keep the model's type. The model that came in
    stays as it was unless ``inplace``. Where other programs use the cores too,
    ``torch.set_num_threads(1)`` can be many times faster.

    The history has one row per step: step, learning_rate, loss (in nats) and items (labels);
    ``history.attrs["seconds"]`` is the time that all took, the time before a resume included. With a
    ``folder``, weights and AdamW's state are saved there every ``save_every`` steps and at the end,
    whole or not at all. A run that finds a checkpoint goes on from it; on the same machine its
    result is bit by bit that of a run that never stopped. Raises ValueError for a checkpoint of
    another run, ids outside the model's table, and numbers below 1; FloatingPointError, with the
    step and the examples, for a loss or gradients that are not finite.

    Source: thesis, section 5.2: AdamW with betas 0.9 and 0.999, epsilon 1e-8, no weight decay.
    Purason et al. 2025, Table 9, has 0.9, 0.95 and a weight decay of 0.1.
    """
    began = time.perf_counter()
    sizes = {"batch_size": batch_size, "epochs": epochs, "save_every": save_every}
    _check(task, learning_rate, sizes | {"micro_batch": micro_batch, "steps": steps})
    check_ids(model, (example["ids"] for example in task.examples))
    steps = steps or epochs * math.ceil(task.size / batch_size)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    half = _half(dtype, device)
    task = task._replace(loss=torch.autocast(device.type, torch.bfloat16, enabled=half)(task.loss))
    settings = {
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "steps": steps,
        "weight_decay": weight_decay,
        "betas": list(betas),
        "dtype": "bfloat16" if half else "float32",
        "warmup": warmup,
        "floor": floor,
        "seed": seed,
        "examples": folder and task.mark(),
        "model": folder and hashlib.sha256(save(_tensors(model))).hexdigest()[:16],
        "learned": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }
    trained, mode = (model if inplace else copy.deepcopy(model)).to(device), model.training
    learned = [p for p in trained.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(
        learned, learning_rate, tuple(betas), weight_decay=weight_decay, fused=True
    )
    history, spent = _resume(folder, trained, optimiser, settings)
    began -= spent
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        try:
            for step in range(len(history) + 1, steps + 1):
                rate = learning_rate * learning_rate_schedule(
                    step, steps, warmup=warmup, floor=floor
                )
                optimiser.param_groups[0]["lr"] = rate
                numbers = _numbers(task.size, batch_size, seed, step)
                row = _step(trained, task, optimiser, numbers, micro_batch, seed, step)
                history.append({"step": step, "learning_rate": rate, **row})
                if folder is not None and (step == steps or step % save_every == 0):
                    spent = time.perf_counter() - began
                    run = {"settings": settings, "history": history, "seconds": spent}
                    _save(folder, trained, optimiser, run)
        finally:
            trained.train(mode).zero_grad(set_to_none=True)
    table = pd.DataFrame(history)
    table.attrs["seconds"] = time.perf_counter() - began
    return trained, table


def _half(dtype: str | None, device: torch.device) -> bool:
    """Whether to compute in bfloat16; without hardware for it torch would emulate it slowly."""
    if dtype is None:
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return dtype_of(dtype) is torch.bfloat16


def _check(task: Task, learning_rate: float, sizes: dict) -> None:
    for name, size in sizes.items():
        if size is not None:
            positive(name, size)
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise ValueError(f"learning_rate={learning_rate!r}: give a number above 0")
    if not task.size:
        raise ValueError("there is no example to learn from: give more text")


@torch.no_grad()
def _resume(folder, model, optimiser, settings: dict) -> tuple[list[dict], float]:
    """Take over a folder's checkpoint; returns its history and seconds, [] and 0.0 without one."""
    if folder is None or not (file := Path(folder, CHECKPOINT)).exists():
        return [], 0.0
    try:
        saved = safetensors.safe_open(file, "pt")
    except safetensors.SafetensorError as error:
        raise ValueError(f"{file} is no checkpoint that can be read: remove it") from error
    run = json.loads((saved.metadata() or {}).get("run", '{"settings": {}}'))
    for name, value in settings.items():
        if (before := run["settings"].get(name)) != value:
            raise ValueError(
                f"{file} is the checkpoint of another run: there {name} is {before}, here {value}; "
                "give the same again, or another folder"
            )
    held = dict([*model.named_parameters(), *model.named_buffers()])
    for key in saved.keys():  # noqa: SIM118 -- the file is no mapping
        kind, _, name = key.partition(" ")
        tensor = saved.get_tensor(key)
        if kind == "weights":
            held[name].copy_(tensor)
        else:
            optimiser.state[held[name]][kind] = tensor.clone().to(held[name].device)
    return run["history"], run["seconds"]


def _save(folder, model, optimiser, run: dict) -> None:
    tensors = {f"weights {name}": tensor for name, tensor in _tensors(model).items()}
    for name, p in model.named_parameters():
        for key, value in optimiser.state.get(p, {}).items():  # AdamW's step and averages
            tensors[f"{key} {name}"] = value.contiguous()
    file = Path(folder, CHECKPOINT)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, lambda draft: save_file(tensors, draft, metadata={"run": json.dumps(run)}))


def _tensors(model) -> dict[str, torch.Tensor]:
    """Parameters, tied ones once, and buffers."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach().contiguous() for name, tensor in named}


def _numbers(size: int, batch_size: int, seed: int, step: int) -> np.ndarray:
    """The numbers of the examples of a step, which is counted from 1."""
    epoch, place = divmod(step - 1, math.ceil(size / batch_size))
    order = np.random.default_rng([seed, 0, epoch]).permutation(size)
    return order[place * batch_size :][:batch_size]


def _step(model, task, optimiser, numbers, micro_batch, seed, step) -> dict:
    """Make one step of the optimiser; returns its loss and the number of labels."""
    torch.manual_seed(int(np.random.SeedSequence([seed, step]).generate_state(1)[0]))
    rng = np.random.default_rng([seed, 1, step])
    rows = [task.row(int(number), rng) for number in numbers]
    items = _labels(rows)
    if not items:
        raise ValueError(f"the batch of step {step} has no token to predict: give longer texts")
    model.train()
    parts, losses = _parts(model, rows, micro_batch), []
    for part in parts:
        share = task.loss(model, _batch(model, rows, part)) / items
        share.backward()
        losses.append(share.detach())
    losses = torch.stack(losses).cpu().double()
    _check_finite(losses, model, [numbers[part].tolist() for part in parts], step)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return {"loss": losses.sum().item(), "items": items}


def _labels(rows: list[dict]) -> int:
    return sum(int(np.sum(np.asarray(row["labels"]) != NO_LABEL)) for row in rows)


def _parts(model, rows: list[dict], micro_batch: int | None = None) -> list[list[int]]:
    """The places of the rows of each part: rows of like lengths, which need less padding."""
    places = min(PLACES, SCORES // model.get_input_embeddings().num_embeddings)
    parts = [[]]
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i]["ids"])):
        most = micro_batch or places // max(1, len(rows[i]["ids"]))
        if parts[-1] and len(parts[-1]) >= most:
            parts.append([])
        parts[-1].append(i)
    return parts


def _batch(model, rows: list[dict], part: list[int]) -> dict[str, torch.Tensor]:
    batch = collated([rows[i] for i in part])
    return {key: value.to(model.device) for key, value in batch.items()}


def _check_finite(losses: torch.Tensor, model, numbers: list[list[int]], step: int) -> None:
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients).cpu()
    if not torch.isfinite(losses.sum() + norm):
        wrong = torch.nonzero(~torch.isfinite(losses)).flatten().tolist()
        names = numbers[wrong[0]] if wrong else sum(numbers, [])
        raise FloatingPointError(
            f"the {'loss is' if wrong else 'gradients are'} not finite at step {step}, in the batch "
            f"of the examples {', '.join(map(str, names))}: look at these, or lower learning_rate"
        )


def total_loss(model, task: Task, *, seed: int = 42) -> tuple[float, int]:
    """Return the sum of the losses of a task's examples, without training, and their labels' number.

    Masks are drawn from the seed. Raises ValueError for ids outside the model's table.
    """
    rng = np.random.default_rng([seed, 2])
    rows = [task.row(i, rng) for i in range(task.size)]
    _, losses = _evaluated(model, rows, task.loss)
    return math.fsum(loss.item() for loss in losses), _labels(rows)


def scores(model, rows: list[dict], function: Callable) -> np.ndarray:
    """Return what ``function(model, batch)`` gives for each row (rows, columns), float32.

    The model computes in its own type, on its device, without dropout. Raises ValueError for ids
    outside its table.
    """
    order, found = _evaluated(model, rows, function)
    return torch.cat(found).float().cpu().numpy()[np.argsort(order)]


@torch.no_grad()
def _evaluated(model, rows: list[dict], function: Callable) -> tuple[list[int], list[torch.Tensor]]:
    """The order of the rows, by length, and the results for as many at a time as fit."""
    check_ids(model, [row["ids"] for row in rows])
    parts, mode = _parts(model, rows), model.training
    model.eval()
    try:
        found = [function(model, _batch(model, rows, part)) for part in parts]
    finally:
        model.train(mode)
    return sum(parts, []), found
