"""The training loop: one for all tasks, resumed from its last checkpoint, stopped by a bad loss."""

import copy
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors
import torch
from safetensors.torch import save_file

from ..tokenizer.files import write_whole
from .batches import NO_LABEL, Task, check_ids, collated, positive

CHECKPOINT = "checkpoint.safetensors"
PLACES = 8_192  # ids, with padding, that go through a model at once


def learning_rate_schedule(
    step: int, steps: int, *, warmup: float = 0.01, floor: float = 0.01
) -> float:
    """The share of the peak learning rate at a step, counted from 1 to ``steps``.

    Linear from 0 to 1 over the first ``warmup`` of the steps (one at least), then a half cosine down
    to ``floor``, which the last step has. Raises ValueError for a step outside 0 to ``steps``.

    Source: thesis, section 5.2.2.

    >>> [round(learning_rate_schedule(step, 200), 4) for step in (1, 2, 101, 200)]
    [0.5, 1.0, 0.505, 0.01]
    """
    if not 0 <= step <= steps:
        raise ValueError(f"step {step} of {steps}: give one from 0 to {steps}")
    rising = max(1, math.ceil(round(warmup * steps, 9)))
    if step <= rising:
        return step / rising
    fallen = (step - rising) / (steps - rising)
    return floor + (1 - floor) * (1 + math.cos(math.pi * fallen)) / 2


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
    """Train a model with AdamW on a task: returns the trained model and the history of its steps.

    A step's loss is the mean over the labels of ``batch_size`` examples. Gradients are summed over
    parts of ``micro_batch`` examples (None: so many that a part has about 8,192 ids), which changes
    memory and rounding, not the result; dropout alone is drawn anew with other parts. ``steps``
    overrules ``epochs``. The order of examples is drawn from the seed and the epoch; dropout and
    masks from the seed and the step. On CUDA, the default where there is one, bfloat16 is used for
    computing where the device has it; weights keep their type. The model that came in stays as it
    was unless ``inplace``. Where other programs use the cores too, ``torch.set_num_threads(1)`` can
    be many times faster: threads wait for each other.

    The history has a row a step: step, learning_rate, loss (in nats), items (labels), and what
    ``evaluate(model)``, a number or a dict of them, gives before the first step, every
    ``evaluate_every`` steps, and after the last.

    With a ``folder``, weights and AdamW's state are saved there every ``save_every`` steps and at
    the end, whole or not at all, and a run that finds a checkpoint goes on from it: on the same
    machine bit by bit as if it had never stopped. Raises ValueError for a checkpoint of another run,
    for ids outside the embedding table, and for numbers below 1; FloatingPointError, with the step
    and the examples, for a loss or gradients that are not finite.

    Source: thesis, section 5.2: AdamW with betas 0.9 and 0.999, epsilon 1e-8, no weight decay.

    >>> from tokhelpers.models.batches import blocks
    >>> from tokhelpers.models.finetuning import causal_task
    >>> from tokhelpers.models.architectures import new_model
    >>> small = new_model("small-llama", 10, hidden_size=6, num_hidden_layers=1)
    >>> task = causal_task(blocks([[1, 2, 3] * 20], 8, 0))
    >>> _, history = optimise(small, task, learning_rate=0.01, batch_size=4, epochs=10, device="cpu")
    >>> len(history), bool(history.loss.iloc[-1] < history.loss.iloc[0])
    (20, True)
    """
    optional = {"micro_batch": micro_batch, "steps": steps, "evaluate_every": evaluate_every}
    positive(batch_size=batch_size, epochs=epochs, save_every=save_every)
    positive(**{name: size for name, size in optional.items() if size is not None})
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise ValueError(f"learning_rate={learning_rate!r}: give a number above 0")
    if not task.size:
        raise ValueError("there is no example to learn from: give more text")
    steps = steps or epochs * math.ceil(task.size / batch_size)
    settings = {
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "steps": steps,
        "weight_decay": weight_decay,
        "warmup": warmup,
        "floor": floor,
        "seed": seed,
        "examples": f"{task.size} {task.mark}",
        "parameters": _shapes(model),
        "weights to start from": "any" if inplace or folder is None else _fingerprint(model),
    }
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    file = None if folder is None else Path(folder) / CHECKPOINT
    trained, mode = (model if inplace else copy.deepcopy(model)).to(device), model.training
    optimiser = _adamw(trained, learning_rate, weight_decay)
    history = _resumed(file, settings, trained, optimiser) if file and file.exists() else []
    if evaluate and not history:
        start = {"step": 0, "learning_rate": 0.0, "loss": math.nan, "items": 0}
        history.append(start | _evaluation(trained, evaluate))
    done = history[-1]["step"] if history else 0
    numbers = _numbers(task.size, batch_size, seed, done)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            for step in range(done + 1, steps + 1):
                rate = learning_rate * learning_rate_schedule(
                    step, steps, warmup=warmup, floor=floor
                )
                row = _step(trained, task, optimiser, next(numbers), rate, micro_batch, seed, step)
                if evaluate and (step == steps or (evaluate_every and step % evaluate_every == 0)):
                    row |= _evaluation(trained, evaluate)
                history.append(row)
                if file and (step == steps or step % save_every == 0):
                    _save(file, settings, trained, optimiser, history)
        finally:
            trained.train(mode).zero_grad(set_to_none=True)
    return trained, pd.DataFrame(history)


def _adamw(model, learning_rate: float, weight_decay: float) -> torch.optim.AdamW:
    learned = [p for p in model.parameters() if p.requires_grad]
    options = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": weight_decay}
    return torch.optim.AdamW(learned, lr=learning_rate, fused=True, **options)


def _numbers(size: int, batch_size: int, seed: int, done: int) -> Iterator[np.ndarray]:
    """The numbers of each batch's examples, from behind the step ``done`` on."""
    a_pass = math.ceil(size / batch_size)
    epoch, start = divmod(done, a_pass)
    while True:
        order = np.random.default_rng([seed, 0, epoch]).permutation(size)
        for k in range(start, a_pass):
            yield order[k * batch_size : (k + 1) * batch_size]
        epoch, start = epoch + 1, 0


def _step(model, task, optimiser, numbers, rate, micro_batch, seed, step) -> dict:
    """One step of the optimiser, as a row of the history."""
    device = next(model.parameters()).device
    _seed(device, seed, step)
    rng = np.random.default_rng([seed, 1, step])
    rows = _rows(model, task, numbers, rng)
    items = _labels(rows)
    if not items:
        raise ValueError(f"the batch of step {step} has no token to predict: give longer texts")
    order = sorted(
        range(len(rows)), key=lambda i: len(rows[i]["ids"])
    )  # like lengths, less padding
    size = micro_batch or max(1, PLACES // len(rows[order[-1]]["ids"]))
    parts = [order[i : i + size] for i in range(0, len(order), size)]
    model.train()
    losses = []
    for part in parts:
        loss = _apply(task.loss, model, [rows[i] for i in part]) / items
        loss.backward()
        losses.append(loss.detach())
    losses = torch.stack(losses).cpu().double()
    _check_finite(losses, model, [numbers[part].tolist() for part in parts], step)
    for group in optimiser.param_groups:
        group["lr"] = rate
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


def _apply(function: Callable, model, rows: list[dict]) -> torch.Tensor:
    """``function(model, batch)`` of rows; computed in bfloat16 on a GPU that has it."""
    device = next(model.parameters()).device
    batch = {key: value.to(device) for key, value in collated(rows).items()}
    half = device.type == "cuda" and torch.cuda.is_bf16_supported()
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
    model, task: Task, numbers: Iterable[int] | None = None, *, seed: int = 42, places: int = PLACES
) -> tuple[float, int]:
    """The sum of the losses of a task's examples, without training, and the number of labels.

    ``numbers`` are the examples (None: all); masks are drawn from the seed. See ``evaluated``.
    """
    numbers = range(task.size) if numbers is None else numbers
    rows = _rows(model, task, numbers, np.random.default_rng([seed, 2]))
    losses = [loss.item() for _, loss in evaluated(model, rows, task.loss, places)]
    return math.fsum(losses), _labels(rows)


@torch.no_grad()
def evaluated(
    model, rows: list[dict], function: Callable, places: int = PLACES
) -> list[tuple[list[int], torch.Tensor]]:
    """What ``function(model, batch)`` gives for rows, sorted by length, ``places`` ids at a time.

    Returns pairs: places in ``rows``, and the result for these. Dropout is off; the model stays on
    its device.
    """
    check_ids(model, [row["ids"] for row in rows])
    part, parts = [], []
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i]["ids"])):
        if part and (len(part) + 1) * len(rows[i]["ids"]) > places:
            parts.append(part)
            part = []
        part.append(i)
    parts.append(part)
    mode = model.training
    model.eval()
    try:
        return [(part, _apply(function, model, [rows[i] for i in part])) for part in parts]
    finally:
        model.train(mode)


# --- checkpoints ----------------------------------------------------------------------------------
def _save(file: Path, settings: dict, model, optimiser, history: list[dict]) -> None:
    """Weights and AdamW's state in one file, settings and history in its metadata."""
    tensors = {f"weights {name}": tensor for name, tensor in _held(model)}
    for name, p in model.named_parameters():
        for key, value in optimiser.state.get(p, {}).items():
            tensors[f"{key} {name}"] = value
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    about = {"settings": json.dumps(settings), "history": json.dumps(history)}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, lambda draft: save_file(tensors, draft, metadata=about))


def _held(model) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, tied ones once, and buffers."""
    yield from model.named_parameters()
    yield from model.named_buffers()


@torch.no_grad()
def _resumed(file: Path, settings: dict, model, optimiser) -> list[dict]:
    """Take weights and AdamW's state from a checkpoint; returns its history."""
    try:
        checkpoint = safetensors.safe_open(file, "pt")
    except safetensors.SafetensorError as error:
        raise ValueError(f"{file} is no checkpoint that can be read: remove it") from error
    with checkpoint as saved:
        about = saved.metadata() or {}
        _check_same(file, json.loads(about.get("settings", "{}")), settings)
        names = set(saved.keys())
        for name, tensor in _held(model):
            tensor.copy_(saved.get_tensor(f"weights {name}"))
        for name, p in model.named_parameters():
            state = {key: f"{key} {name}" for key in ("step", "exp_avg", "exp_avg_sq")}
            if names.issuperset(state.values()):
                read = {key: saved.get_tensor(stored) for key, stored in state.items()}
                optimiser.state[p] = {k: v.clone().to(p.device) for k, v in read.items()}
        return json.loads(about["history"])


def _check_same(file: Path, before: dict, now: dict) -> None:
    for name in now:
        if before.get(name) != now[name]:
            raise ValueError(
                f"{file} is the checkpoint of another run: there {name} is {before.get(name)}, here "
                f"{now[name]}; give the same again, or another folder"
            )


def _shapes(model) -> str:
    described = [f"{n} {tuple(p.shape)} {p.dtype} {p.requires_grad}" for n, p in _held(model)]
    mark = hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]
    return f"{sum(p.numel() for p in model.parameters())} {mark}"


def _fingerprint(model) -> str:
    found = hashlib.sha256()
    for _, tensor in _held(model):
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found.update(raw.numpy())
    return found.hexdigest()[:16]
