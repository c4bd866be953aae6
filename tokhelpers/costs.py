"""What a vocabulary costs in training: parameters, memory and time, modelled and measured."""

import copy
import operator
import re
import statistics
import sys
import time
import weakref
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .models import configuration, new_model
from .records import _processor, published

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
KINDS = ["weights", "gradients", "adamw", "activations", "logits"]
# thesis, section 5.1: what each model is trained on, and how many tokens of input at most
STAGES = [
    ("BERT", "bert-base-cased", "pretraining", "masked-lm", 512),
    ("BERT", "bert-base-cased", "fine-tuning", "text-classification", 512),
    ("MobileLLM", "mobilellm-125m", "pretraining", "causal-lm", 2_048),
    ("MobileLLM", "mobilellm-125m", "fine-tuning", "causal-lm", 2_048),
    ("SmolLM2", "smollm2-135m", "pretraining", "causal-lm", 2_048),
    ("SmolLM2", "smollm2-135m", "fine-tuning", "causal-lm", 2_048),
]


def parameter_count(architecture, vocab_size: int, head: str) -> int:
    """The number of a model's parameters, a tied head's counted once.

    ``architecture`` and ``head`` are as for ``models.new_model``; ``vocab_size`` counts rows of the
    embedding table and takes the place of a configuration's own. The model is built without memory.
    Text classification has two labels unless a configuration says otherwise. Raises ValueError for
    an unknown name, a head that the architecture does not have, and a size that is no positive
    integer. Thesis, Table 9.

    >>> parameter_count("SmolLM2-135M", 49_152, "causal-lm")
    134515008
    """
    model = new_model(_resized(architecture, vocab_size), head=head, device="meta")
    return sum(parameter.numel() for parameter in model.parameters())


def embedding_share(architecture, vocab_size: int, head: str) -> float:
    """The share of a model's parameters whose number grows with the vocabulary, from 0 to 1.

    These are the embedding table, the head's own table where it is not tied, and its bias. Arguments
    and errors are those of ``parameter_count``.

    >>> round(embedding_share("llama-3.2-1b", 128_256, "causal-lm"), 3)
    0.213
    """
    count = parameter_count(architecture, vocab_size, head)
    per_token = parameter_count(architecture, vocab_size + 1, head) - count
    return per_token * vocab_size / count


def training_memory(
    architecture, vocab_size: int, *, head: str, batch: int, length: int, dtype: str = "bfloat16"
) -> pd.Series:
    """Modelled memory of one training step, in bytes, at the moment when most of it is in use.

    The step is forward, backward and a fused AdamW on ``batch`` sequences of ``length`` tokens, with
    weights, gradients and AdamW's two averages in ``dtype`` ("bfloat16" or "float32"). It is run
    with tensors that have shapes and no memory; each is counted from when it is made until it is let
    go. "logits" is what lives between the language-model head and its gradient: scores over the
    vocabulary in ``dtype`` and, where the library's loss wants them, in float32. "activations" is
    the rest, temporary tensors among it; "total" is the sum.

    Not modelled: work space inside kernels, fragments and caches of the allocator, the libraries
    themselves. Attention weights have no dropout here, so that attention is fused and never writes
    its square matrix; other dropout masks are kept in ``dtype``, as on a CPU (a GPU keeps bytes).

    Raises ValueError as ``parameter_count`` does, and for a length beyond the model's positions, a
    head without a loss, or an unknown dtype.

    >>> bill = training_memory("small-llama", 1_000, head="causal-lm", batch=2, length=64)
    >>> float(bill.adamw / parameter_count("small-llama", 1_000, "causal-lm"))
    4.0
    """
    config = _trainable(architecture, vocab_size, head, batch, length)
    model = new_model(config, head=head, device="meta").to(_dtype(dtype)).train()
    ledger = _Ledger()
    with FakeTensorMode():
        tensors = {
            name: torch.empty(old.shape, dtype=old.dtype, requires_grad=old.requires_grad)
            for name, old in [*model.named_parameters(), *model.named_buffers()]
        }
        for tensor in tensors.values():
            ledger.add(tensor, "weights")
            if tensor.requires_grad:
                tensor.register_post_accumulate_grad_hook(
                    lambda tensor: ledger.add(tensor.grad, "gradients")
                )
        states = [torch.empty_like(t) for t in tensors.values() if t.requires_grad for _ in "mv"]
        for state in states:
            ledger.add(state, "adamw")
        inputs = _inputs(config, head, batch, length, "cpu")
        _watch_logits(model, ledger)
        with ledger:
            loss = torch.func.functional_call(model, tensors, kwargs=inputs).loss
            ledger.table = vocab_size * config.hidden_size
            loss.backward()
    bill = {kind: ledger.peak[kind] for kind in KINDS}
    return pd.Series({**bill, "total": sum(bill.values())}, name="bytes")


class _Ledger(TorchDispatchMode):
    """The bytes that are alive, by kind, and what they were at the peak."""

    def __init__(self):
        super().__init__()
        self.now = "activations"  # the kind of what is made now
        self.table = None  # elements of the embedding table, once the backward pass has begun
        self.kinds, self.alive, self.peak = {}, Counter(), Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        backward = self.table is not None
        whole = False
        for tensor in filter(torch.is_tensor, tree_leaves(made)):
            # gradients of a tied table are whole before autograd hands over their sum
            whole = backward and tensor.dim() == 2 and tensor.numel() == self.table
            self.add(tensor, "gradients" if whole else self.now, new=True)
        # autograd adds gradients of activations in place, but not while somebody looks on
        in_place = backward and function is torch.ops.aten.add.Tensor and not whole
        if not in_place and self.alive.total() > self.peak.total():
            self.peak = self.alive.copy()
        return made

    def add(self, tensor, kind, new=False):
        """Enter a tensor's memory under a kind; memory known already changes its kind or stays."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self.kinds:
            weakref.finalize(storage, self.free, key, size).atexit = False
        elif new:
            return
        else:
            self.alive[self.kinds[key]] -= size
        self.kinds[key] = kind
        self.alive[kind] += size

    def free(self, key, size):
        self.alive[self.kinds.pop(key)] -= size


def _watch_logits(model, ledger) -> None:
    """Enter as logits what is made from the head on, until the gradient of the logits is there."""

    def begin(module, inputs):
        ledger.now = "logits"

    def end(module, inputs, logits):
        logits.register_hook(lambda gradient: setattr(ledger, "now", "activations"))

    head = model.get_output_embeddings()
    if head is not None:
        head.register_forward_pre_hook(begin)
        head.register_forward_hook(end)


def measure_step(
    architecture,
    vocab_size: int,
    *,
    head: str,
    batch: int,
    length: int,
    steps: int = 3,
    device: str | None = None,
    dtype: str | None = None,
    seed: int = 0,
) -> pd.Series:
    """Measured time and memory of a training step: forward, backward and a fused AdamW.

    Fresh weights and random ids, in a new process. "seconds" is the median of ``steps`` steps after
    one to warm up; "memory" is the peak in bytes: on CUDA what the allocator gave out, on a CPU
    resident memory above what the process had before the model was built. ``device`` is "cuda" or
    "cpu" (default: CUDA where there is one), ``dtype`` "bfloat16" or "float32" (default: bfloat16 on
    a GPU that has it, else float32). Where a GPU's memory does not suffice, both are NaN. "device",
    "dtype" and "threads" say what it was measured on. Attention is as in ``training_memory``.

    Raises ValueError as that does, and RuntimeError where the process was killed for its memory.

    >>> step = measure_step("small-bert", 500, head="masked-lm", batch=1, length=16, steps=1)
    >>> bool(step.seconds > 0)
    True
    """
    config = _trainable(architecture, vocab_size, head, batch, length)
    _positive(steps, "steps")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if dtype is None:
        half = device != "cpu" and torch.cuda.is_bf16_supported()
        dtype = "bfloat16" if half else "float32"
    _dtype(dtype)
    threads = torch.get_num_threads()
    name = _processor() if device == "cpu" else torch.cuda.get_device_name(device)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        run = pool.submit(
            _measure, threads, config, head, batch, length, steps, device, dtype, seed
        )
        try:
            seconds, memory = run.result()
        except BrokenProcessPool:
            asked = f"batch={batch}, length={length:,}"
            raise RuntimeError(
                f"the process was killed at {asked}, most likely for its memory: ask for less"
            ) from None
    what = {"vocab_size": config.vocab_size, "head": head, "batch": batch, "length": length}
    found = {"seconds": seconds, "memory": memory}
    return pd.Series({**what, "dtype": dtype, "device": name, "threads": threads, **found})


def _measure(threads, config, head, batch, length, steps, device, dtype, seed):
    """Seconds and bytes of training steps in this process, which is to be a fresh one."""
    torch.set_num_threads(threads)
    warm = {"batch": 1, "length": 8, "steps": 1, "device": device, "dtype": dtype, "seed": seed}
    small = configuration("small-llama" if config.model_type == "llama" else "small-bert", 100)
    small.pad_token_id = 0
    _train(small, head, **warm)  # loads what the libraries load when they are first used
    cuda = device != "cpu"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device) if cuda else _resident()
    try:
        seconds = _train(config, head, **{**warm, "batch": batch, "length": length, "steps": steps})
    except torch.OutOfMemoryError:
        return float("nan"), float("nan")
    peak = torch.cuda.max_memory_allocated(device) if cuda else _resident(peak=True)
    return statistics.median(seconds), peak - before


def _train(config, head, *, batch, length, steps, device, dtype, seed) -> list[float]:
    """Seconds of each training step after the first."""
    model = new_model(config, head=head, seed=seed, device=device).to(DTYPES[dtype]).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    torch.manual_seed(seed)
    inputs = _inputs(config, head, batch, length, device)
    seconds = []
    for _ in range(1 + steps):
        began = time.perf_counter()
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device != "cpu":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def _resident(peak: bool = False) -> int:
    """This process's resident bytes, now or at most; now also starts the peak afresh on Linux."""
    status = Path("/proc/self/status")
    if not status.exists():  # elsewhere only the peak is known
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if not peak:
        Path("/proc/self/clear_refs").write_text("5")
    field = "VmHWM" if peak else "VmRSS"
    return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", status.read_text())[1])


def thesis_runs() -> pd.DataFrame:
    """The trainings whose costs the thesis shows: three models, ten tokenizers, two stages.

    Columns: model, extension, stage ("pretraining", "fine-tuning"), architecture, head, length (the
    largest input, in tokens), added (tokens) and vocab_size. Thesis, Table 6 and section 5.1.

    >>> len(thesis_runs())
    60
    """
    sizes = published("thesis_table_06").rename(columns={"added_tokens": "added"})
    sizes["added"] = sizes.added.fillna(0).astype(int)
    base = sizes[sizes.added == 0].set_index("model").vocabulary_tokens
    # not the printed size, which has a slip
    sizes["vocab_size"] = sizes.model.map(base) + sizes.added
    columns = ["model", "architecture", "stage", "head", "length"]
    runs = sizes.drop(columns="vocabulary_tokens").merge(pd.DataFrame(STAGES, columns=columns))
    order = ["model", "extension", "stage", "architecture", "head", "length", "added", "vocab_size"]
    return runs[order].sort_values(["model", "stage", "added"], ignore_index=True)


def measure_runs(runs: pd.DataFrame, batches, *, length: int | None = None, **how) -> pd.DataFrame:
    """Measure runs such as ``thesis_runs`` has, at each of some batch sizes, smallest first.

    ``length`` takes the place of longer inputs; ``how`` goes to ``measure_step``. One row for a run
    and batch, with all that ``measure_step`` returns and "modelled", the total of
    ``training_memory``, in bytes. Batches above one that a GPU could not hold are not tried: NaN.

    >>> runs = thesis_runs().query("added == 0").assign(architecture="small-bert")
    >>> int(measure_runs(runs[:1], [1], length=8, steps=1).modelled[0] > 0)
    1
    """
    rows = []
    for run in runs.to_dict("records"):
        asked = {"head": run["head"], "length": min(length or run["length"], run["length"])}
        size, found = (run["architecture"], run["vocab_size"]), None
        for batch in sorted(batches):
            if found is None or found.memory == found.memory:
                found = measure_step(*size, **asked, batch=batch, **how)
            bill = training_memory(*size, **asked, batch=batch, dtype=found["dtype"])
            rows.append({**run, **found, "batch": batch, "modelled": bill.total})
    return pd.DataFrame(rows)


def _resized(architecture, vocab_size):
    """The configuration of an architecture with another vocabulary; a given one is left as it is."""
    size = _positive(vocab_size, "vocab_size")
    if isinstance(architecture, str):
        return configuration(architecture, size)
    config = copy.deepcopy(architecture)
    config.vocab_size = size
    return config


def _trainable(architecture, vocab_size, head, batch, length):
    """The configuration for a training step, with fused attention and a padding id."""
    config = _resized(architecture, vocab_size)
    if head.strip().lower() == "none":
        raise ValueError("the head 'none' has no loss to train on: use a language model's, say")
    _positive(batch, "batch")
    limit = getattr(config, "max_position_embeddings", length)
    if _positive(length, "length") > limit:
        raise ValueError(
            f"{config.model_type} has {limit:,} positions here; got length={length:,}: use fewer"
        )
    if hasattr(config, "attention_probs_dropout_prob"):
        config.attention_probs_dropout_prob = 0.0
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0  # classification of several texts asks for one
    return config


def _inputs(config, head, batch, length, device):
    ids = torch.randint(config.vocab_size, (batch, length), device=device)
    classes = torch.randint(getattr(config, "num_labels", 2), (batch,), device=device)
    return {"input_ids": ids, "labels": classes if "class" in head.lower() else ids}


def _positive(value, what: str) -> int:
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{what} is {value!r}: give a positive integer")
    return number


def _dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise ValueError(f"dtype is {name!r}: use {' or '.join(DTYPES)}")
    return DTYPES[name]
