"""What a vocabulary costs: published parameter counts, and the memory model against measurement."""

import math
import os
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import tokhelpers as th
from benchmarks import steps
from tokhelpers.models import costs, memory
from tokhelpers.models.architectures import configuration, new_model


# --- parameters ----------------------------------------------------------------------------------
def test_parameters_of_the_thesis_runs_are_those_of_table_9():
    published = th.notebook.load_published("thesis_table_09").set_index(
        ["extension", "model", "head"]
    )
    runs = steps.thesis_runs(th.notebook.load_published("thesis_table_06"))
    assert runs.groupby(["model", "stage"]).extension.nunique().eq(10).all()
    runs = runs.drop_duplicates(["extension", "model", "head"]).set_index(published.index.names)
    assert len(runs) == len(published)
    for run in runs.itertuples():
        count = costs.parameter_count(run.architecture, run.vocab_size, run.Index[-1])
        assert count == published.parameters[run.Index]


def test_a_configuration_counts_as_its_name_does_and_stays_as_it_was():
    config = configuration("small-llama", 500, tie_word_embeddings=False)
    untied = costs.parameter_count(config, 1_000, "causal-lm")
    assert untied == costs.parameter_count("small-llama", 1_000, "causal-lm") + 1_000 * 192
    assert config.vocab_size == 500


def test_names_and_heads_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="'small' does not name one architecture: use small-bert,"):
        costs.parameter_count("small", 1_000, "causal-lm")
    for name, head in (("bert", "causal-lm"), ("llama", "masked-lm")):
        with pytest.raises(ValueError, match=f"{name} has no head '{head}': try another"):
            costs.parameter_count(f"small-{name}", 1_000, head)


# --- memory --------------------------------------------------------------------------------------
def allocated(name, size, head, batch, length, dtype):
    """Bytes that the library's own allocator gave out at most in a step on a CPU."""
    config = costs.training_config(name, size, head, batch, length)
    model = new_model(config, head=head).to(getattr(torch, dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    inputs = costs.training_inputs(config, head, batch, length, "cpu")

    def step():
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    with torch.random.fork_rng():
        step()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as log:
            step()
    events = [e for e in log.profiler.kineto_results.events() if e.name() == "[memory]"]
    changes = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    held = [*model.parameters(), *model.buffers()]
    held += [value for state in optimizer.state.values() for value in state.values()]
    return sum(t.nbytes for t in held) + np.cumsum(changes).max()


UNTIED = configuration("small-llama", 1_000, tie_word_embeddings=False)
LATER = [
    ("small-bert", 64_000, "masked-lm", 1, 16, "float32"),  # at the gradients of the tied table
    ("small-llama", 8_000, "causal-lm", 4, 128, "float32"),
    ("small-llama", 64_000, "causal-lm", 1, 16, "bfloat16"),
    ("small-llama", 64_000, "text-classification", 1, 8, "float32"),
]
CASES = [
    ("small-bert", 8_000, "masked-lm", 4, 128, "float32"),  # the peak is at the logits
    ("small-bert", 8_000, "text-classification", 4, 128, "float32"),  # at the activations
    ("small-llama", 8_000, "causal-lm", 4, 128, "bfloat16"),
    (UNTIED, 64_000, "causal-lm", 1, 16, "float32"),
    *(pytest.param(case, marks=pytest.mark.long) for case in LATER),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case[1:])))
def test_modelled_memory_is_what_the_allocator_gives_out(case):
    name, size, head, batch, length, dtype = case
    bill = memory.training_memory(name, size, head=head, batch=batch, length=length, dtype=dtype)
    # on processors with instructions for bfloat16 its matrix products take a workspace of 35 kB
    rel = 3e-4 if dtype == "bfloat16" else 1e-4
    assert bill.total == pytest.approx(allocated(*case), rel=rel)
    assert bill.total == bill[memory.KINDS].sum()


def test_each_kind_is_what_it_says():
    """Logits at the peak: log-probabilities and two gradients of them, in the dtype of the loss."""
    asked, scores = {"batch": 8, "length": 256}, 8 * 256 * 8_000
    bert = memory.training_memory("small-bert", 8_000, head="masked-lm", **asked)
    llama = memory.training_memory("small-llama", 8_000, head="causal-lm", **asked)
    assert bert.logits / scores == pytest.approx(3 * 2, rel=1e-3)  # stays in bfloat16
    assert llama.logits / scores == pytest.approx(3 * 4, rel=1e-3)  # goes to float32
    count = costs.parameter_count("small-bert", 8_000, "masked-lm")
    assert bert.adamw == 2 * 2 * count
    assert 0 <= bert.weights - 2 * count < 10_000  # buffers: the ids of positions
    sizes = (8_000, 16_000)
    asked |= {"head": "text-classification"}
    small, large = (memory.training_memory("small-bert", size, **asked) for size in sizes)
    assert small.logits == large.logits == 0 and small.activations == large.activations
    # at this batch the peak is before the table's gradient: weights and two states alone grow
    assert large.total - small.total == 3 * 2 * 8_000 * 192


def test_modelling_leaves_no_trace():
    state, config = torch.random.get_rng_state(), configuration("small-bert", 500)
    before = config.to_dict()
    memory.training_memory(config, 600, head="masked-lm", batch=1, length=8)
    assert config.to_dict() == before and torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"length": 513}, "length=513 exceeds the 512 positions of bert: use fewer"),
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"head": "none"}, "the head 'none' has no loss to train on"),
        ({"dtype": "float16"}, "dtype is 'float16': use bfloat16 or float32"),
    ],
)
@pytest.mark.parametrize("function", [memory.training_memory, steps.measure_step])
def test_bad_requests_are_refused(function, changed, message):
    with pytest.raises(ValueError, match=message):
        function("small-bert", 500, **{"head": "masked-lm", "batch": 1, "length": 8, **changed})


# --- measurement ---------------------------------------------------------------------------------
@pytest.mark.long
def test_measured_memory_is_somewhat_above_the_model(one_thread):
    """The machine gives out more than the tensors need: 0.85 to 0.88 in six runs on one thread."""
    run = {"architecture": "small-llama", "vocab_size": 8_000, "head": "causal-lm", "length": 512}
    step = steps.measure_runs(pd.DataFrame([run]), [8], length=256, steps=2)
    asked = {"head": "causal-lm", "batch": 8, "length": 256, "dtype": "float32"}
    assert step.modelled.eq(memory.training_memory("small-llama", 8_000, **asked).total).all()
    assert (step.modelled / step.memory).between(0.7, 1).all() and step.memory.nunique() == 1
    assert (step[["seconds", "processor_seconds"]] > 0).all(axis=None) and len(step) == 2
    assert step.threads.eq(1).all() and step.device.all() and step["dtype"].eq("float32").all()


@pytest.mark.long
def test_a_killed_process_is_told(monkeypatch):
    monkeypatch.setattr(steps, "_measure", _killed)
    with pytest.raises(RuntimeError, match="the process was killed at batch=1, length=8"):
        steps.measure_step("small-bert", 500, head="masked-lm", batch=1, length=8)


def _killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_does_not_fit_on_a_gpu_is_no_number(monkeypatch, one_thread):
    train = steps._train

    def on_a_full_gpu(config, head, batch, length, **how):
        if batch > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return train(config, head, batch, length, **how)

    monkeypatch.setattr(steps, "_train", on_a_full_gpu)
    how = {"steps": 1, "device": "cpu", "dtype": torch.float32}
    (found,) = steps._measure(1, configuration("small-bert", 500), "masked-lm", 2, 8, how)
    assert list(found) == list(steps.MEASURED) and all(map(math.isnan, found.values()))


def test_batches_beyond_one_that_did_not_fit_are_not_tried(monkeypatch):
    tried = []

    def step(name, size, *, batch, **_):
        tried.append(batch)
        memory = float("nan") if batch == 2 else 1.0
        return pd.DataFrame([{"batch": batch, "dtype": "float32", "memory": memory}])

    monkeypatch.setattr(steps, "measure_step", step)
    runs = steps.thesis_runs(th.notebook.load_published("thesis_table_06"))[:1].assign(
        architecture="small-bert"
    )
    table = steps.measure_runs(runs, [4, 1, 2], length=8, repeats=2)
    assert tried == [1, 2] * 2
    assert table.batch.tolist() == [1, 2, 4] * 2 and table.repeat.tolist() == [0] * 3 + [1] * 3
    assert table.memory.isna().tolist() == [False, True, True] * 2
