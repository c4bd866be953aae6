"""Checkpoints of a training: one file with weights, the optimiser's state, settings and history."""

import hashlib
import json
import os
from pathlib import Path

import safetensors
import torch
from safetensors.torch import save_file

from ..tokenizer.files import write_whole

CHECKPOINT = "checkpoint.safetensors"


def save_checkpoint(
    folder: str | os.PathLike, model, optimiser, settings: dict, history: list[dict], seconds: float
) -> None:
    """Write the checkpoint, whole or not at all; settings, history and time are its metadata."""
    tensors = {f"weights {name}": tensor for name, tensor in _tensors(model).items()}
    for name, p in model.named_parameters():
        for key, value in optimiser.state.get(p, {}).items():  # AdamW's step and averages
            tensors[f"{key} {name}"] = value
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    run = json.dumps({"settings": settings, "history": history, "seconds": seconds})
    file = Path(folder, CHECKPOINT)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, lambda draft: save_file(tensors, draft, metadata={"run": run}))


@torch.no_grad()
def resume(
    folder: str | os.PathLike | None, model, optimiser, settings: dict
) -> tuple[list[dict], float]:
    """Take over a folder's checkpoint; return its history and seconds, [] and 0.0 where is none.

    Raises ValueError for a file that cannot be read, or of a training with other settings.
    """
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
    held = _tensors(model)
    for key in saved.keys():  # noqa: SIM118 -- the file is no mapping
        kind, _, name = key.partition(" ")
        tensor = saved.get_tensor(key)
        if kind == "weights":
            held[name].copy_(tensor)
        else:
            optimiser.state[held[name]][kind] = tensor.clone().to(held[name].device)
    return run["history"], run["seconds"]


def _tensors(model) -> dict[str, torch.Tensor]:
    """Parameters, tied ones once, and buffers."""
    return dict([*model.named_parameters(), *model.named_buffers()])


def fingerprint(model) -> str:
    """Return a mark of a model's tensors: names, shapes, types, whether they learn, and values."""
    found = hashlib.sha256()
    for name, tensor in _tensors(model).items():
        described = f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}"
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found.update(described.encode() + raw.numpy())
    return found.hexdigest()[:16]
