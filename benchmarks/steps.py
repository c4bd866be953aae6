"""What a training step really takes: time and memory, measured in a process of its own.

    python benchmarks/steps.py thesis     # time and memory of the thesis' models: half an hour
    python benchmarks/steps.py smollm2    # seconds per byte of SmolLM2-135M: call it until it is whole
    python benchmarks/steps.py memory     # modelled, not measured, peaks of the thesis' trainings

The tables are kept in ``data/measured`` (``training_costs``, ``smollm2_steps``, ``peak_memory``);
notebook 15 shows them. One thread computes. What was predicted before the second was measured:

    With 4,000 medical tokens added, a step of SmolLM2 takes 3 to 5 % longer at 128 tokens per step
    and 1 to 3 % at 2,048. A byte takes 4 to 6 % less time at 128 tokens, and 6 to 8 % less at 2,048:
    at either length the shorter text saves more than the rows cost.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.measuring import forget_peak, peak_megabytes, timed
from tokhelpers.models.architectures import configuration, dtype_of, new_model
from tokhelpers.models.costs import training_config, training_inputs
from tokhelpers.models.memory import training_memory
from tokhelpers.notebook.records import load_published, processor, record_measured

BATCHES = {"BERT": (32, 64, 128, 256, 512)}  # texts per step in `memory`
MEASURED = ("seconds", "processor_seconds", "memory")
KB = 1_024_000  # bytes in what `measuring` calls a MB: the kernel counts in 1,024 bytes
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
    """
    config = training_config(architecture, vocab_size, head, batch, length)
    how = {"steps": steps, "device": device, "dtype": dtype_of(dtype)}
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
    before = torch.cuda.memory_allocated(device) if device else KB * forget_peak()
    try:
        times = _train(config, head, batch, length, **how)
    except torch.OutOfMemoryError:
        return [dict.fromkeys(MEASURED, float("nan"))]
    peak = torch.cuda.max_memory_allocated(device) if device else KB * peak_megabytes()
    return [dict(zip(MEASURED, [*both, peak - before], strict=True)) for both in times]


def _train(config, head, batch, length, *, steps, device, dtype) -> list[tuple[float, float]]:
    """Seconds of each training step after the first, by the clock and of the processor."""
    model = new_model(config, head=head, device=device).to(dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    inputs = training_inputs(config, head, batch, length, device)
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


def thesis_runs(sizes: pd.DataFrame) -> pd.DataFrame:
    """List the trainings whose costs the thesis shows: three models, ten tokenizers, two stages.

    ``sizes`` is the published ``thesis_table_06``. Columns: model, extension, stage ("pretraining",
    "fine-tuning"), architecture, head, length (the largest input, in tokens), added (tokens) and
    vocab_size. Source: thesis, Table 6 and section 5.1.
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
    return pd.concat(rows, ignore_index=True)


# --- seconds per byte of the real model -----------------------------------------------------------
ADDED = 4_000  # medical tokens
ROUND, PAIRS = (128, 2_048), 60  # tokens per step of each pair, in turn; pairs in all
MOST = 1_100  # seconds after which no pair is begun: called again, it goes on
KEPT = Path(__file__).parents[1] / "runs" / "smollm2_steps.csv"


def thesis() -> pd.DataFrame:
    """Measure a step of each of the thesis' models with each tokenizer: 128 tokens, float32."""
    runs = thesis_runs(load_published("thesis_table_06")).query("stage == 'pretraining'")
    return measure_runs(runs, [1], length=128, steps=5, repeats=2)


def smollm2() -> pd.DataFrame:
    """Measure steps of SmolLM2-135M without added tokens and with them, in turn.

    Both models are in one process and take a step each, the first of a pair in turn, so that other
    work on the machine slows both alike. A step reads held-out definitions as one stream. One row
    per step; ``bytes_per_token`` is that of all definitions, so that a step's own text does not
    count.
    """
    import tokhelpers as th

    old, began = th.load_tokenizer("smollm2-135m"), time.perf_counter()
    learned = th.continue_bpe(old, th.load_corpus("hpo", chars=3_000_000), ADDED)
    new, model = th.extend(old, learned), th.load_model("smollm2-135m")
    arms = {"none": (old, model), "extended": (new, th.transfer_embeddings(model, old, new))}
    held_out = list(th.load_corpus("hpo", split="test"))
    steps = {arm: _reading(*of, held_out) for arm, of in arms.items()}
    density = {arm: float(th.evaluate(of[0], held_out).bytes_per_token) for arm, of in arms.items()}
    rows = pd.read_csv(KEPT).to_dict("records") if KEPT.exists() else []
    KEPT.parent.mkdir(exist_ok=True)
    for step in steps.values():
        step(max(ROUND))  # to warm up
    for pair in range(len(rows) // 2, PAIRS):
        if time.perf_counter() - began > MOST:
            break
        turn, place = divmod(pair, len(ROUND))
        length = ROUND[place]
        for arm in sorted(steps, reverse=(turn + place) % 2 == 0):
            row = {"length": length, "pair": pair, "arm": arm, **steps[arm](length)}
            rows.append({**row, "bytes_per_token": density[arm]})
        print(rows[-2:], flush=True)
        pd.DataFrame(rows).to_csv(KEPT, index=False)
    return pd.DataFrame(rows)


def _reading(tokenizer, model, texts: list[str]):
    """What takes a training step on the next so many tokens of a text, and says what it took."""
    ids = torch.tensor([i for encoding in tokenizer.encode_batch(texts) for i in encoding.ids])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    place = count()

    def work(length: int) -> None:
        start = next(place) * length % (len(ids) - length)
        some = ids[None, start : start + length]
        model(input_ids=some, labels=some).loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    model.train()
    return lambda length: {k.replace(" ", "_"): v for k, v in timed(partial(work, length)).items()}


def memory() -> pd.DataFrame:
    """Model the peaks of the thesis' trainings, with no token and with most tokens added.

    The batches are ours, since the thesis shows its own as bars without numbers. ``gib`` is the
    total of ``training_memory`` in bfloat16, with texts of the full length.
    """
    runs, rows, peak = thesis_runs(load_published("thesis_table_06")), [], cache(training_memory)
    for (model, stage), trainings in runs.groupby(["model", "stage"], sort=False):
        for run in (trainings.iloc[0], trainings.iloc[-1]):  # they are sorted by added tokens
            for batch in BATCHES.get(model, (2, 4, 8, 16, 32)):
                asked = {"head": run["head"], "batch": batch, "length": int(run.length)}
                gib = peak(run.architecture, int(run.vocab_size), **asked).total / 2**30
                row = {"stage": stage, "model": model, "added": run.added, "batch": batch}
                rows.append(row | {"gib": gib})
    return pd.DataFrame(rows)


TABLES = {"thesis": (thesis, "training_costs"), "smollm2": (smollm2, "smollm2_steps")}
TABLES["memory"] = (memory, "peak_memory")


def main(which: str) -> None:
    """Measure one of the tables with one thread, and keep it."""
    torch.set_num_threads(1)
    make, name = TABLES[which]
    began, command = time.perf_counter(), f"python benchmarks/steps.py {which}"
    table = make()
    record_measured(table, name, command=command, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
