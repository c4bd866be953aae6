"""Training steps on a GPU against added tokens, and the package's own checks there.

Where torch sees a device, this measures steps with random weights in bfloat16: the thesis' three
models, their batches and both stages (Figures 3 to 9), and Llama-3.2-1B's shape with up to 64,000
added tokens. Each point has ten steps, and the whole is measured twice, in another order each time;
the memory model stands beside. Then training and transfer are compared with the CPU's. Tables go to
``data/measured`` (``accelerator_steps``, ``_slopes``, ``_checks``), with the device's name. Without a
device it says so and changes nothing. It runs from a plain checkout, with the torch and transformers
that are there.

    python benchmarks/accelerator.py [--device cuda] [--steps 10] [--repeats 2] [--only steps|checks]

``--small`` takes models of a million parameters, to try the whole out: with ``--device cpu`` it
needs no GPU.
"""

import argparse
import sys
import time
import types
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(1, str(Path(__file__).parents[1] / "tools"))
try:
    import lazy_loader  # noqa: F401
except ImportError:  # modules are imported by their names below, so its names need not be there

    def _missing(name):
        raise AttributeError(name)

    shim = types.ModuleType("lazy_loader")
    shim.attach_stub = lambda *_: (_missing, list, [])
    sys.modules["lazy_loader"] = shim

from benchmarks.steps import measure_runs, thesis_runs
from tokhelpers.models.architectures import new_model
from tokhelpers.notebook.records import load_published, record_measured

EXTENSIONS = ("none", "Auto-50000", "Auto-10000", "Crawled-1")
BATCHES = {"BERT": [32, 128, 512], "MobileLLM": [2, 8, 32], "SmolLM2": [2, 8, 32]}
LLAMA = {"architecture": "llama-3.2-1b", "head": "causal-lm", "length": 2_048}
ADDED = (0, 4_000, 16_000, 64_000)


def points(small: bool) -> list[tuple[pd.DataFrame, list[int]]]:
    """List what is measured: runs, and the batches of each of these."""
    if small:
        run = {"model": "small-llama", "stage": "pretraining", "architecture": "small-llama"}
        run |= {"extension": "none", "head": "causal-lm", "length": 64}
        sizes = [{**run, "added": n, "vocab_size": 1_000 + n} for n in (0, 4_000)]
        return [(pd.DataFrame(sizes), [1])]
    runs = thesis_runs(load_published("thesis_table_06"))
    runs = runs[runs.extension.isin(EXTENSIONS)]
    llama = [{**LLAMA, "added": n, "vocab_size": 128_256 + n} for n in ADDED]
    llama = pd.DataFrame(llama).assign(model="Llama-3.2-1B", stage="pretraining", extension="-")
    return [*((some, BATCHES[model]) for model, some in runs.groupby("model")), (llama, [1, 4])]


def slopes(table: pd.DataFrame) -> pd.DataFrame:
    """Fit a line through all steps of a model, stage and batch, with a 95 % interval.

    ``percent_per_token`` is the slope of the seconds in percent of the line's start, ``half`` half of
    its interval, by the normal distribution; ``modelled`` and ``load_measured`` are bytes of memory per
    added token.
    """
    rows = []
    for key, some in table.dropna(subset="seconds").groupby(["model", "stage", "batch"]):
        x, y = some.added - some.added.mean(), some.seconds
        if not (spread := (x**2).sum()):
            continue
        slope = (x * y).sum() / spread
        start = y.mean() - slope * some.added.mean()
        rest = y - y.mean() - slope * x
        error = (rest.pow(2).sum() / max(1, len(y) - 2) / spread) ** 0.5
        row = dict(zip(["model", "stage", "batch"], key, strict=True))
        row |= {"steps": len(y), "percent_per_token": 100 * slope / start}
        row["half"] = 196 * error / start
        for name, column in (("measured", "memory"), ("modelled", "modelled")):
            row[name] = (x * some[column]).sum() / spread
        rows.append({**row, "device": some.device.iloc[0]})
    return pd.DataFrame(rows)


def checks(device: str) -> pd.DataFrame:
    """Compare a small model's training and transfer on the device and the CPU."""
    from batches import next_token_example
    from learning import lm_loss, optimise
    from tokenizers import Tokenizer, models, pre_tokenizers

    from tokhelpers.models.transfer import transfer_embeddings

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(letters)}
    old = Tokenizer(models.BPE(vocab, []))
    new = Tokenizer(models.BPE({**vocab, "at": 256}, [("a", "t")]))
    for tokenizer in (old, new):
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    draw = torch.Generator().manual_seed(0)
    rows = [
        next_token_example(torch.randint(256, (n,), generator=draw).numpy()) for n in range(8, 40)
    ]
    small, how = new_model("small-llama", 256, hidden_size=48), {"batch_size": 8, "steps": 12}
    losses = [
        optimise(small, rows, lm_loss, learning_rate=1e-3, device=d, **how)[1].loss.to_numpy()
        for d in (device, "cpu")
    ]
    made = [transfer_embeddings(small.to(d), old, new) for d in (device, "cpu")]
    tables = [m.get_input_embeddings().weight.detach().cpu() for m in made]
    different = {
        "losses: device, CPU": abs(losses[0] - losses[1]).max(),
        "rows after transfer: device, CPU": (tables[0] - tables[1]).abs().max().item(),
    }
    table = pd.Series(different).rename_axis("what").rename("largest_difference").reset_index()
    name = "cpu" if device == "cpu" else torch.cuda.get_device_name(device)
    return table.assign(agrees=table.largest_difference < 1e-3, device=name)


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and keep it; return 1 where a check fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", choices=["steps", "checks"])
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.device is None:
        print("torch sees no accelerator here: nothing is measured, and nothing is changed")
        return 0
    began, options = time.perf_counter(), {"command": "python benchmarks/accelerator.py"}

    def keep(table, name):
        record_measured(table, name, seconds=time.perf_counter() - began, **options)
        print(table.to_string(index=False))

    if asked.only != "steps":
        found = checks(asked.device)
        keep(found, "accelerator_checks")
        if not found.agrees.all():
            return 1
    if asked.only != "checks":
        dtype = "float32" if asked.device == "cpu" else "bfloat16"
        how = {"steps": asked.steps, "repeats": asked.repeats, "device": asked.device}
        tables = [measure_runs(*point, dtype=dtype, **how) for point in points(asked.small)]
        table = pd.concat(tables, ignore_index=True)
        keep(slopes(table), "accelerator_slopes")
        record_measured(table, "accelerator_steps", seconds=time.perf_counter() - began, **options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
