"""What a training step really takes: time and memory, measured in a process of its own."""

import platform
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import torch

from ..tokenizer.checks import positive
from .architectures import configuration, dtype_of, new_model
from .costs import inputs_for, trainable, training_memory

MEASURED = ("seconds", "processor_seconds", "memory")
# thesis, section 5.1: what each model is trained on, and how many tokens of input at most
STAGES = [
    ("BERT", "bert-base-cased", "pretraining", "masked-lm", 512),
    ("BERT", "bert-base-cased", "fine-tuning", "text-classification", 512),
    ("MobileLLM", "mobilellm-125m", "pretraining", "causal-lm", 2_048),
    ("MobileLLM", "mobilellm-125m", "fine-tuning", "causal-lm", 2_048),
    ("SmolLM2", "smollm2-135m", "pretraining", "causal-lm", 2_048),
    ("SmolLM2", "smollm2-135m", "fine-tuning", "causal-lm", 2_048),
]


def measure_step(
    architecture,
    vocab_size: int,
    *,
    head: str,
    batch: int,
    length: int,
    steps: int = 3,
    device: str = "cpu",
    dtype: str = "float32",
) -> pd.DataFrame:
    """Measure time and memory of training steps: forward, backward and a fused AdamW.

    The model has fresh weights, the ids are random, and the steps run in a new process, after one to
    warm up; ``dtype``, of weights, gradients and averages, is "bfloat16" or "float32". Returns one
    row per step: ``seconds`` by the clock and ``processor_seconds`` of all threads; ``memory``, the
    same in each row, is the peak in bytes: on the device "cuda" what the allocator gave out, on
    "cpu" resident memory above what the process had before the model was built. Where a GPU's
    memory does not suffice, there is one row, and all three are NaN.

    Raises ValueError as ``training_memory`` does, and RuntimeError where the process was killed,
    most likely for its memory.

    >>> measure_step("small-bert", 500, head="none", batch=1, length=16)
    Traceback (most recent call last):
    ValueError: the head 'none' has no loss to train on: use 'causal-lm' or 'masked-lm'
    """
    config = trainable(architecture, vocab_size, head, batch, length)
    how = {"steps": positive("steps", steps), "device": device, "dtype": dtype_of(dtype)}
    threads = torch.get_num_threads()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            found = pool.submit(_measure, threads, config, head, batch, length, how).result()
        except BrokenProcessPool:
            raise RuntimeError(
                f"the process was killed at batch={batch}, length={length:,}, most likely for its "
                "memory: ask for less"
            ) from None
    what = {"vocab_size": config.vocab_size, "head": head, "batch": batch, "length": length}
    name = processor() if device == "cpu" else torch.cuda.get_device_name(device)
    what |= {"dtype": dtype, "device": name, "threads": threads}
    return pd.DataFrame([{**what, **row} for row in found])


def _measure(threads, config, head, batch, length, how: dict) -> list[dict]:
    """The rows that ``measure_step`` returns, from this process, which is to be a fresh one."""
    torch.set_num_threads(threads)
    small = configuration("small-llama" if config.model_type == "llama" else "small-bert", 100)
    small.pad_token_id = 0
    _train(small, head, 1, 8, **{**how, "steps": 1})  # loads what is loaded at the first use
    device = None if how["device"] == "cpu" else how["device"]
    if device:
        torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device) if device else _resident()
    try:
        times = _train(config, head, batch, length, **how)
    except torch.OutOfMemoryError:
        return [dict.fromkeys(MEASURED, float("nan"))]
    peak = torch.cuda.max_memory_allocated(device) if device else _resident(peak=True)
    return [dict(zip(MEASURED, [*both, peak - before], strict=True)) for both in times]


def _train(config, head, batch, length, *, steps, device, dtype) -> list[tuple[float, float]]:
    """Seconds of each training step after the first, by the clock and of the processor."""
    model = new_model(config, head=head, device=device).to(dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    inputs = inputs_for(config, head, batch, length, device)
    times = []
    for _ in range(1 + steps):
        began = time.perf_counter(), time.process_time()
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device != "cpu":
            torch.cuda.synchronize(device)
        times.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return times[1:]


def _resident(peak: bool = False) -> int:
    """This process's resident bytes, now or at most (psutil knows no peak); now starts it afresh."""
    status = Path("/proc/self/status")
    if not status.exists():  # elsewhere only the peak is known
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most
    if not peak:
        Path("/proc/self/clear_refs").write_text("5")
    field = "VmHWM" if peak else "VmRSS"
    return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", status.read_text())[1])


def thesis_runs(sizes: pd.DataFrame) -> pd.DataFrame:
    """List the trainings whose costs the thesis shows: three models, ten tokenizers, two stages.

    ``sizes`` is the published ``thesis_table_06``. Columns: model, extension, stage ("pretraining",
    "fine-tuning"), architecture, head, length (the largest input, in tokens), added (tokens) and
    vocab_size. Source: thesis, Table 6 and section 5.1.

    >>> len(thesis_runs(th.published("thesis_table_06")))
    60
    """
    sizes = sizes.rename(columns={"added_tokens": "added"})
    sizes["added"] = sizes.added.fillna(0).astype(int)
    base = sizes[sizes.added == 0].set_index("model").vocabulary_tokens
    # not the printed size, which has a slip
    sizes["vocab_size"] = sizes.model.map(base) + sizes.added
    columns = ["model", "architecture", "stage", "head", "length"]
    runs = sizes.merge(pd.DataFrame(STAGES, columns=columns))
    order = ["model", "extension", "stage", "architecture", "head", "length", "added", "vocab_size"]
    return runs[order].sort_values(["model", "stage", "added"], ignore_index=True)


def measure_runs(
    runs: pd.DataFrame, batches, *, length: int | None = None, repeats: int = 1, **how
) -> pd.DataFrame:
    """Measure runs such as those of ``thesis_runs``, each at some batch sizes, smallest first.

    All are measured ``repeats`` times, each time in another order, so that a machine that grows
    slower does not favour what stands first. ``length`` takes the place of longer inputs; ``how`` are
    the options of ``measure_step``. Returns one row per step: the run, what ``measure_step`` found,
    ``repeat``, and ``modelled``, the total of ``training_memory`` in bytes.

    >>> measure_runs(thesis_runs(th.published("thesis_table_06")), batches=[]).empty
    True
    """
    rows = []
    for repeat in range(repeats):
        for run in runs.sample(frac=1, random_state=repeat).to_dict("records"):
            asked = {"head": run["head"], "length": min(length or run["length"], run["length"])}
            size, found = (run["architecture"], run["vocab_size"]), None
            for batch in sorted(batches):
                if found is None or found.memory.notna().all():
                    found = measure_step(*size, **asked, batch=batch, **how)
                bill = training_memory(*size, **asked, batch=batch, dtype=found["dtype"][0])
                more = {"batch": batch, "repeat": repeat, "modelled": bill.total}
                rows.append(found.assign(**{**run, "length": asked["length"], **more}))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def processor() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", info.read_text() if info.exists() else "")
    return found[1] if found else platform.processor() or platform.machine()
