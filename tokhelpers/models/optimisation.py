"""The training loop: one for all tasks, resumed from its last checkpoint, stopped by a bad loss."""

import copy
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pandas as pd
import torch
import transformers

from ..tokenizer.checks import positive
from .batches import NO_LABEL, Task, check_ids, collated
from .checkpoints import Checkpoint, fingerprint, shapes

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
    peak_of_one = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    return _schedule(peak_of_one, steps, warmup, floor).lr_lambdas[0](step)


def _schedule(optimiser, steps: int, warmup: float, floor: float, done: int = -1):
    """Set the rate for the step after ``done``, and at each call of its ``step`` for the next."""
    rising = max(1, math.ceil(round(warmup * steps, 9)))
    return transformers.get_cosine_with_min_lr_schedule_with_warmup(
        optimiser, rising, steps, last_epoch=done, min_lr_rate=floor
    )


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
    evaluate: Callable | None = None,
    evaluate_every: int | None = None,
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
    ``torch.set_num_threads(1)`` can be many times faster: threads wait for each other.

    The history has one row per step: step, learning_rate, loss (in nats), items (labels), and what
    ``evaluate(model)``, a number or a dict of them, gives before the first step, every
    ``evaluate_every`` steps, and after the last. ``history.attrs["seconds"]`` is the time that
    all of this took, the time before a resume included.

    With a ``folder``, weights and AdamW's state are saved there every ``save_every`` steps and at
    the end, whole or not at all. A run that finds a checkpoint goes on from it; on the same machine
    its result is bit by bit that of a run that never stopped. Raises ValueError for a checkpoint of
    another run, for ids outside the embedding table, and for numbers below 1; FloatingPointError,
    with the step and the examples, for a loss or gradients that are not finite.

    Source: thesis, section 5.2: AdamW with betas 0.9 and 0.999, epsilon 1e-8, no weight decay.
    Purason et al. 2025, Table 9, has 0.9, 0.95 and a weight decay of 0.1.
    """
    began = time.perf_counter()
    sizes = {"batch_size": batch_size, "epochs": epochs, "save_every": save_every}
    optional = {"micro_batch": micro_batch, "steps": steps, "evaluate_every": evaluate_every}
    _check(task, learning_rate, sizes | {k: v for k, v in optional.items() if v is not None})
    steps = steps or epochs * math.ceil(task.size / batch_size)
    settings = {
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "steps": steps,
        "weight_decay": weight_decay,
        "betas": list(betas),
        "warmup": warmup,
        "floor": floor,
        "seed": seed,
        "examples": f"{task.size} {task.mark}",
        "parameters": shapes(model),
        "weights to start from": "any" if inplace or folder is None else fingerprint(model),
    }
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    half = _half(dtype, device)
    settings["dtype"] = "bfloat16" if half else "float32"
    trained, mode = (model if inplace else copy.deepcopy(model)).to(device), model.training
    optimiser = _adamw(trained, learning_rate, weight_decay, betas)
    checkpoint = Checkpoint(folder, settings, trained, optimiser)
    history, spent = checkpoint.resumed()
    began -= spent
    done = history[-1]["step"] if history else 0
    schedule = _schedule(optimiser, steps, warmup, floor, done)
    numbers = _numbers(task.size, batch_size, seed, done)
    if evaluate and not history:
        start = {"step": 0, "learning_rate": 0.0, "loss": math.nan, "items": 0}
        history.append(start | _evaluation(trained, evaluate))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            for step in range(done + 1, steps + 1):
                some = next(numbers)
                row = _step(trained, task, optimiser, some, micro_batch, seed, step, half=half)
                schedule.step()
                if evaluate and _due(step, steps, evaluate_every):
                    row |= _evaluation(trained, evaluate)
                history.append(row)
                if folder is not None and _due(step, steps, save_every):
                    checkpoint.save(history, time.perf_counter() - began)
        finally:
            trained.train(mode).zero_grad(set_to_none=True)
    table = pd.DataFrame(history)
    table.attrs["seconds"] = time.perf_counter() - began
    return trained, table


def _half(dtype: str | None, device: torch.device) -> bool:
    """Whether to compute in bfloat16; without hardware for it torch would emulate it slowly."""
    if dtype not in (None, "float32", "bfloat16"):
        raise ValueError(
            f"dtype is {dtype!r}: use float32, bfloat16, or None for what the device has"
        )
    if dtype is None:
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return dtype == "bfloat16"


def _check(task: Task, learning_rate: float, sizes: dict) -> None:
    for name, size in sizes.items():
        positive(name, size)
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise ValueError(f"learning_rate={learning_rate!r}: give a number above 0")
    if not task.size:
        raise ValueError("there is no example to learn from: give more text")


def _due(step: int, steps: int, every: int | None) -> bool:
    return step == steps or (every is not None and step % every == 0)


def _adamw(model, learning_rate: float, weight_decay: float, betas) -> torch.optim.AdamW:
    learned = [p for p in model.parameters() if p.requires_grad]
    group = {"params": learned, "initial_lr": learning_rate}  # what a resumed schedule starts from
    options = {"betas": tuple(betas), "eps": 1e-8, "weight_decay": weight_decay}
    return torch.optim.AdamW([group], lr=learning_rate, fused=True, **options)


def _numbers(size: int, batch_size: int, seed: int, done: int) -> Iterator[np.ndarray]:
    """Yield the numbers of each batch's examples, beginning after the step ``done``."""
    a_pass = math.ceil(size / batch_size)
    epoch, start = divmod(done, a_pass)
    while True:
        order = np.random.default_rng([seed, 0, epoch]).permutation(size)
        for k in range(start, a_pass):
            yield order[k * batch_size : (k + 1) * batch_size]
        epoch, start = epoch + 1, 0


def _step(model, task, optimiser, numbers, micro_batch, seed, step, *, half=False) -> dict:
    """Make one step of the optimiser; returns its row of the history."""
    _seed(next(model.parameters()).device, seed, step)
    rows = _rows(model, task, numbers, np.random.default_rng([seed, 1, step]))
    items = _labels(rows)
    if not items:
        raise ValueError(f"the batch of step {step} has no token to predict: give longer texts")
    parts = _parts(rows, micro_batch, _places(model))
    losses = _gradients(model, task.loss, [[rows[i] for i in part] for part in parts], items, half)
    _check_finite(losses, model, [numbers[part].tolist() for part in parts], step)
    rate = optimiser.param_groups[0]["lr"]
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return {"step": step, "learning_rate": rate, "loss": losses.sum().item(), "items": items}


def _seed(device: torch.device, seed: int, step: int) -> None:
    number = int(np.random.SeedSequence([seed, step]).generate_state(1)[0])
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(number)


def _rows(model, task: Task, numbers: Iterable[int], rng: np.random.Generator) -> list[dict]:
    rows = [task.row(int(number), rng) for number in numbers]
    for key in rows[0]:
        if key.endswith("ids"):
            check_ids(model, [row[key] for row in rows], numbers)
    return rows


def _labels(rows: list[dict]) -> int:
    return sum(int(np.sum(np.asarray(row["labels"]) != NO_LABEL)) for row in rows)


def _by_length(rows: list[dict]) -> list[int]:
    return sorted(range(len(rows)), key=lambda i: len(rows[i]["ids"]))


def _places(model) -> int:
    """How many ids to take at once, so that their scores stay within bounds."""
    return min(PLACES, max(1, SCORES // model.get_input_embeddings().num_embeddings))


def _parts(rows: list[dict], micro_batch: int | None, places: int) -> list[list[int]]:
    """The places of the rows of each part: rows of like lengths, which need less padding."""
    order = _by_length(rows)
    size = micro_batch or max(1, places // len(rows[order[-1]]["ids"]))
    return [order[i : i + size] for i in range(0, len(order), size)]


def _gradients(model, loss: Callable, parts, items: int, half: bool) -> torch.Tensor:
    """Sum up the gradients of all parts; returns the parts' shares of the loss."""
    model.train()
    losses = []
    for rows in parts:
        share = _apply(loss, model, rows, half) / items
        share.backward()
        losses.append(share.detach())
    return torch.stack(losses).cpu().double()


def _apply(function: Callable, model, rows: list[dict], half: bool = False) -> torch.Tensor:
    """``function(model, batch)`` of rows, in bfloat16 where asked for."""
    device = next(model.parameters()).device
    batch = {key: value.to(device) for key, value in collated(rows).items()}
    with torch.autocast(device.type, torch.bfloat16, enabled=half):
        return function(model, batch)


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


def _evaluation(model, evaluate: Callable) -> dict[str, float]:
    found = evaluate(model.eval())
    found = found if hasattr(found, "items") else {"evaluation": found}
    return {str(name): float(value) for name, value in found.items()}


def total_loss(
    model, task: Task, numbers: Iterable[int] | None = None, *, seed: int = 42
) -> tuple[float, int]:
    """Return the sum of the losses of a task's examples, without training, and their labels' number.

    ``numbers`` are the examples (None: all); masks are drawn from the seed. See ``evaluated``.
    """
    numbers = range(task.size) if numbers is None else numbers
    rows = _rows(model, task, numbers, np.random.default_rng([seed, 2]))
    losses = [loss.item() for _, loss in evaluated(model, rows, task.loss)]
    return math.fsum(losses), _labels(rows)


@torch.no_grad()
def evaluated(model, rows: list[dict], function: Callable) -> list[tuple[list[int], torch.Tensor]]:
    """Apply ``function(model, batch)`` to rows, sorted by length, as many as fit at a time.

    Returns pairs: places in ``rows``, and the result for these. Dropout is off; the model stays on
    its device, and computes in its own type.
    """
    places = _places(model)
    check_ids(model, [row["ids"] for row in rows])
    parts = [[]]
    for i in _by_length(rows):
        if parts[-1] and (len(parts[-1]) + 1) * len(rows[i]["ids"]) > places:
            parts.append([])
        parts[-1].append(i)
    mode = model.training
    model.eval()
    try:
        return [(part, _apply(function, model, [rows[i] for i in part])) for part in parts]
    finally:
        model.train(mode)
