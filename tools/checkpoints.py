"""The state of a training, kept in one file, from which it goes on after a kill."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tokhelpers.common.files import write_whole


def keep(file: Path, model, optimiser: torch.optim.Optimizer, run: dict) -> None:
    """Write weights, buffers, the optimiser's averages and what the run has to say, whole or not."""
    tensors = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        tensors[f"weight {name}"] = tensor.detach().contiguous()
        for key, value in optimiser.state.get(tensor, {}).items():
            if isinstance(value, torch.Tensor):
                tensors[f"{key} {name}"] = value.contiguous()
    metadata = {"run": json.dumps(run)}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, lambda draft: save_file(tensors, draft, metadata=metadata))


@torch.no_grad()
def take_up(file: Path, model, optimiser: torch.optim.Optimizer) -> dict:
    """Take over a kept state; return what the run had to say, {} where nothing was kept."""
    if not file.exists():
        return {}
    try:
        saved = safe_open(file, "pt")
    except SafetensorError as error:
        raise ValueError(f"{file} is no checkpoint that can be read: remove it") from error
    held = dict([*model.named_parameters(), *model.named_buffers()])
    for key in saved.keys():  # noqa: SIM118 -- the file is no mapping
        kind, _, name = key.partition(" ")
        tensor = saved.get_tensor(key)
        if kind == "weight":
            held[name].copy_(tensor)
        else:
            optimiser.state[held[name]][kind] = tensor.clone().to(held[name].device)
    return json.loads(saved.metadata()["run"])
