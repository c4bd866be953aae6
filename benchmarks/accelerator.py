"""Training steps on a GPU against added tokens.

Where torch sees a device, this measures steps with random weights in bfloat16: the thesis' three
models, their batches and both stages (Figures 3 to 9), and Llama-3.2-1B's shape with up to 64,000
added tokens. Each point has ten steps, and the whole is measured twice, in another order each time;
the memory model stands beside. Tables go to ``data/measured`` (``accelerator_steps``, ``_slopes``), with
the device's name. Without a device it says so and changes nothing.

    python benchmarks/accelerator.py [--device cuda] [--steps 10] [--repeats 2]

``--small`` takes models of a million parameters, to try the whole out: with ``--device cpu`` it
needs no GPU.
"""

import argparse
import sys
import time
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.steps import measure_runs, thesis_runs
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


def main(arguments: list[str] | None = None) -> None:
    """Measure steps on the device and record the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args(arguments)
    if arguments.device is None:
        print("torch sees no accelerator here: nothing is measured, and nothing is changed")
        return
    options = {"steps": arguments.steps, "repeats": arguments.repeats, "device": arguments.device}
    options["dtype"] = "float32" if arguments.device == "cpu" else "bfloat16"
    start = time.perf_counter()
    tables = [measure_runs(*point, **options) for point in points(arguments.small)]
    steps = pd.concat(tables, ignore_index=True)
    seconds, command = time.perf_counter() - start, "python benchmarks/accelerator.py"
    fitted = slopes(steps)
    record_measured(steps, "accelerator_steps", command=command, seconds=seconds)
    record_measured(fitted, "accelerator_slopes", command=command, seconds=seconds)
    print(fitted.to_string(index=False))


if __name__ == "__main__":
    main()
