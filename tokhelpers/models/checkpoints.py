"""Checkpoints of a training: one file with weights, the optimiser's state, settings and history."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch
from safetensors.torch import save_file

from ..tokenizer.files import write_whole

CHECKPOINT = "checkpoint.safetensors"
STATE = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps for each parameter


@dataclass
class Checkpoint:
    """The checkpoint in a folder of a training with these settings; None stands for no folder."""

    folder: str | Path | None
    settings: dict
    model: torch.nn.Module
    optimiser: torch.optim.AdamW

    def save(self, history: list[dict], seconds: float) -> None:
        """Write the file whole or not at all; settings, history and time are its metadata."""
        file = Path(self.folder, CHECKPOINT)
        tensors = {f"weights {name}": tensor for name, tensor in _held(self.model)}
        for name, p in self.model.named_parameters():
            for key, value in self.optimiser.state.get(p, {}).items():
                tensors[f"{key} {name}"] = value
        tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        about = {"settings": self.settings, "history": history, "seconds": seconds}
        about = {name: json.dumps(value) for name, value in about.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, lambda draft: save_file(tensors, draft, metadata=about))

    def resumed(self) -> tuple[list[dict], float]:
        """Take over what the file has; return its history and seconds, [] and 0.0 without a file.

        Raises ValueError for a file that cannot be read, or of a training with other settings.
        """
        if self.folder is None or not (file := Path(self.folder, CHECKPOINT)).exists():
            return [], 0.0
        try:
            checkpoint = safetensors.safe_open(file, "pt")
        except safetensors.SafetensorError as error:
            raise ValueError(f"{file} is no checkpoint that can be read: remove it") from error
        with checkpoint as saved:
            about = saved.metadata() or {}
            _check_same(file, json.loads(about.get("settings", "{}")), self.settings)
            self._take(saved)
            return json.loads(about["history"]), json.loads(about.get("seconds", "0.0"))

    @torch.no_grad()
    def _take(self, saved) -> None:
        names = set(saved.keys())
        for name, tensor in _held(self.model):
            tensor.copy_(saved.get_tensor(f"weights {name}"))
        for name, p in self.model.named_parameters():
            if names.issuperset(f"{key} {name}" for key in STATE):
                read = {key: saved.get_tensor(f"{key} {name}") for key in STATE}
                self.optimiser.state[p] = {k: v.clone().to(p.device) for k, v in read.items()}


def _check_same(file: Path, before: dict, now: dict) -> None:
    for name in now:
        if before.get(name) != now[name]:
            raise ValueError(
                f"{file} is the checkpoint of another run: there {name} is {before.get(name)}, here "
                f"{now[name]}; give the same again, or another folder"
            )


def _held(model) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, tied ones once, and buffers."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def shapes(model) -> str:
    """Return a mark of a model's tensors: their names, shapes, types, and whether they learn."""
    described = [f"{n} {tuple(p.shape)} {p.dtype} {p.requires_grad}" for n, p in _held(model)]
    mark = hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]
    return f"{sum(p.numel() for p in model.parameters())} {mark}"


def fingerprint(model) -> str:
    """Return a mark of a model's weights."""
    found = hashlib.sha256()
    for _, tensor in _held(model):
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        found.update(raw.numpy())
    return found.hexdigest()[:16]
