"""The training loop: schedule, accumulation, resuming, bad losses, and what it leaves alone."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from tokhelpers.models import optimisation
from tokhelpers.models.architectures import new_model
from tokhelpers.models.batches import NO_LABEL, Task, collated
from tokhelpers.models.finetuning import causal_task, lm_loss
from tokhelpers.models.optimisation import CHECKPOINT, learning_rate_schedule, optimise, total_loss

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 64, "num_key_value_heads": 2}
RUN = {"learning_rate": 0.01, "batch_size": 4, "device": "cpu"}

pytestmark = pytest.mark.usefixtures("one_thread")


def a_model(name, head="causal-lm", vocab_size=50, **settings):
    return new_model(name, vocab_size, head, **SMALL, **settings)


@pytest.fixture
def llama_model():
    return a_model("small-llama")


@pytest.fixture
def bert_model():
    """With dropout, and with a head tied to the embeddings."""
    return a_model("small-bert", "masked-lm")


@pytest.fixture
def rows():
    """Eleven rows of different lengths."""
    rng = np.random.default_rng(0)
    return [rng.integers(1, 50, n) for n in (9, 3, 14, 5, 2, 8, 20, 11, 4, 6, 7)]


@pytest.fixture
def drawn(rows):
    """A task whose labels are drawn."""

    def draw(example, rng):
        ids = example["ids"]
        return {"ids": ids, "labels": np.where(rng.random(len(ids)) < 0.5, 3, NO_LABEL)}

    return Task([{"ids": ids} for ids in rows], lm_loss, draw)


def same(one, other) -> bool:
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


# --- the schedule --------------------------------------------------------------------------------
def test_schedule_by_hand():
    # 700 steps: 7 rise; behind them 693, of which a third is 231, where the cosine of 60 degrees is 1/2
    found = [learning_rate_schedule(step, 700) for step in (0, 1, 7, 7 + 231, 700)]
    assert found == pytest.approx([0, 1 / 7, 1, 0.01 + 0.99 * 0.75, 0.01])
    assert learning_rate_schedule(1, 1) == 1
    other = [learning_rate_schedule(s, 10, warmup=0.2, floor=0) for s in (1, 2, 6, 10)]
    assert other == pytest.approx([0.5, 1, 0.5, 0], abs=1e-12)
    with pytest.raises(ValueError, match="give one from 0 to 10"):
        learning_rate_schedule(11, 10)


# --- one step ------------------------------------------------------------------------------------
@pytest.mark.parametrize("micro_batch", [1, 3, None])
def test_accumulation_equals_one_batch(llama_model, rows, micro_batch):
    """The reference is one pass over all rows with the library's own loss."""
    batch = collated([{"ids": r, "labels": r} for r in rows])
    batch["labels"][batch["mask"] == 0] = NO_LABEL
    ids = {"input_ids": batch["ids"], "attention_mask": batch["mask"]}
    loss = llama_model(**ids, labels=batch["labels"]).loss
    loss.backward()
    expected = {name: (p - p.grad).detach() for name, p in llama_model.named_parameters()}
    llama_model.zero_grad()
    sgd = torch.optim.SGD(llama_model.parameters(), lr=1.0)
    row = optimisation._step(llama_model, causal_task(rows), sgd, np.arange(11), micro_batch, 0, 1)
    assert row == {"loss": pytest.approx(loss.item(), rel=1e-5), "items": sum(map(len, rows)) - 11}
    for name, p in llama_model.named_parameters():
        assert torch.allclose(p, expected[name], atol=3e-7), name


def test_steps_are_adamws_at_the_rates_of_the_schedule(llama_model, rows):
    task, how = causal_task([rows[0]]), {"betas": (0.9, 0.95), "weight_decay": 0.1}
    found, history = optimise(llama_model, task, steps=3, warmup=0.5, **how, **RUN)
    rates = [0.01 * learning_rate_schedule(step, 3, warmup=0.5) for step in (1, 2, 3)]
    assert history.learning_rate.tolist() == rates and history.step.tolist() == [1, 2, 3]
    twin = torch.optim.AdamW(llama_model.parameters(), fused=True, **how)
    for rate in rates:
        twin.param_groups[0]["lr"] = rate
        batch = collated([task.row(0, None)])
        (lm_loss(llama_model, batch) / batch["labels"].numel()).backward()
        twin.step()
        twin.zero_grad()
    assert torch.allclose(found.lm_head.weight, llama_model.lm_head.weight, atol=1e-6)


@pytest.mark.parametrize("dtype", [None, "float32", "bfloat16"])
def test_the_body_computes_in_the_type_and_weights_keep_theirs(llama_model, rows, dtype):
    seen = set()

    def loss(model, batch):
        logits = model(input_ids=batch["ids"]).logits
        seen.add(str(logits.dtype))
        return lm_loss(model, batch)

    task = causal_task(rows)._replace(loss=loss)
    trained, _ = optimise(llama_model, task, dtype=dtype, **RUN)
    assert seen == {f"torch.{dtype or 'float32'}"}  # by default that of the CPU
    assert trained.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    alone, _ = optimise(llama_model, causal_task(rows), dtype="float32", **RUN)
    assert same(trained, alone) == (dtype != "bfloat16")


@pytest.mark.parametrize("hardware", [True, False])
def test_the_default_type_is_the_one_that_the_device_has(monkeypatch, hardware):
    asked = {}
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **x: asked.update(x) or hardware)
    assert optimisation._half(None, torch.device("cuda")) == hardware
    assert asked == {"including_emulation": False}


# --- resuming ------------------------------------------------------------------------------------
def test_a_run_killed_while_it_saves_goes_on_bit_by_bit(bert_model, drawn, tmp_path, monkeypatch):
    options = {"epochs": 3, "save_every": 3, **RUN}
    whole, history = optimise(bert_model, drawn, **options)
    save, runs = optimisation.save_file, []

    def killed(tensors, draft, metadata):
        runs.append(json.loads(metadata["run"]))
        if len(runs) == 2:
            draft.write_bytes(b"half")
            raise KeyboardInterrupt
        save(tensors, draft, metadata=metadata)

    monkeypatch.setattr(optimisation, "save_file", killed)
    with pytest.raises(KeyboardInterrupt):
        optimise(bert_model, drawn, folder=tmp_path, **options)
    assert [file.name for file in tmp_path.iterdir()] == [CHECKPOINT]
    resumed, again = optimise(bert_model, drawn, folder=tmp_path, **options)
    assert same(whole, resumed) and not same(whole, bert_model)
    pd.testing.assert_frame_equal(history, again, check_exact=True)
    embeddings, output = resumed.get_input_embeddings(), resumed.get_output_embeddings()
    assert embeddings.weight is output.weight
    finished, last = optimise(bert_model, drawn, folder=tmp_path, **options)
    assert [len(run["history"]) for run in runs] == [3, 6, 6, 9] and same(finished, whole)
    assert last.attrs["seconds"] > runs[-1]["seconds"] > 0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seed": 1}, "seed"),
        ({"steps": 9}, "steps"),
        ({"learning_rate": 0.02}, "learning_rate"),
        ({"batch_size": 5}, "batch_size"),
        ({"betas": (0.9, 0.95)}, "betas"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"rows": slice(None, None, -1)}, "examples"),
        ({"model": {"seed": 1}}, "model"),
        ({"model": {"vocab_size": 51}}, "model"),
    ],
    ids=str,
)
def test_a_checkpoint_of_another_run_is_refused(llama_model, rows, tmp_path, change, name):
    options = {"steps": 1, "folder": tmp_path, **RUN}
    optimise(llama_model, causal_task(rows), **options)
    other = a_model("small-llama", **change.pop("model", {}))
    task = causal_task(rows[change.pop("rows", slice(None))])
    with pytest.raises(ValueError, match=f"checkpoint of another run: there {name} is"):
        optimise(other, task, **{**options, **change})


def test_a_damaged_checkpoint_is_refused(llama_model, rows, tmp_path):
    (tmp_path / CHECKPOINT).write_bytes(b"nothing of the sort")
    with pytest.raises(ValueError, match="no checkpoint that can be read"):
        optimise(llama_model, causal_task(rows), folder=tmp_path, **RUN)


# --- what goes wrong -----------------------------------------------------------------------------
def test_a_loss_that_is_not_finite_names_the_batch(llama_model, rows, tmp_path):
    def loss(model, batch):
        return lm_loss(model, batch) * (math.nan if (batch["ids"] == 49).any() else 1)

    rows = [np.where(row == 49, 48, row) for row in rows]
    rows[6][3] = 49
    task = causal_task(rows)._replace(loss=loss)
    last_of = {seed: optimisation._numbers(11, 4, seed, 3).tolist() for seed in range(20)}
    seed = next(seed for seed, last in last_of.items() if 6 in last)
    options = {"folder": tmp_path, "save_every": 1, "seed": seed, **RUN}
    with pytest.raises(FloatingPointError, match="at step 3, in the batch of the examples 6:"):
        optimise(llama_model, task, micro_batch=1, **options)
    with pytest.raises(FloatingPointError) as found:
        optimise(llama_model, task, **options)
    named = re.search("at step 3, .* examples ([0-9, ]+):", str(found.value))[1]
    assert sorted(map(int, named.split(", "))) == sorted(last_of[seed])


def test_gradients_that_are_not_finite_stop_it(llama_model, rows):
    def loss(model, batch):
        return lm_loss(model, batch) + (model.get_input_embeddings().weight.sum() * 0).sqrt()

    with pytest.raises(FloatingPointError, match="gradients are not finite at step 1"):
        optimise(llama_model, causal_task(rows)._replace(loss=loss), **RUN)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"batch_size": 0}, "batch_size must be .*: give"),
        ({"micro_batch": 1.5}, "micro_batch must be .*: give"),
        ({"learning_rate": 0}, "learning_rate=0: give a number above 0"),
        ({"learning_rate": math.nan}, "learning_rate=nan: give a number above 0"),
        ({"dtype": "half"}, "dtype is 'half': use bfloat16 or float32"),
        ({"rows": []}, "no example to learn from"),
        ({"rows": [np.array([1])]}, "no token to predict"),
    ],
    ids=str,
)
def test_settings_and_examples_that_are_refused(llama_model, rows, wrong, message):
    options = {"rows": rows, **RUN, **wrong}
    with pytest.raises(ValueError, match=message):
        optimise(llama_model, causal_task(options.pop("rows")), **options)


# --- what is left alone --------------------------------------------------------------------------
def test_two_runs_are_equal_and_leave_all_else_alone(bert_model, drawn):
    before = {name: tensor.clone() for name, tensor in bert_model.state_dict().items()}
    bert_model.eval()
    one, history = optimise(bert_model, drawn, epochs=2, **RUN)
    state = torch.manual_seed(7).get_state()
    two, again = optimise(bert_model, drawn, epochs=2, **RUN)
    assert torch.equal(torch.get_rng_state(), state)
    assert same(one, two) and history.equals(again)
    assert all(torch.equal(before[k], v) for k, v in bert_model.state_dict().items())
    assert not bert_model.training and not one.training
    assert all(p.grad is None for p in one.parameters())
    other, _ = optimise(bert_model, drawn, epochs=2, seed=1, **RUN)
    assert not same(one, other)
    trained, _ = optimise(bert_model, drawn, epochs=2, inplace=True, **RUN)
    assert trained is bert_model and same(trained, one)


def test_total_loss_is_that_of_each_row_alone(llama_model, rows, monkeypatch):
    monkeypatch.setattr(optimisation, "PLACES", 40)
    total, items = total_loss(llama_model, causal_task(rows))
    alone = 0.0
    with torch.no_grad():
        for row in map(torch.from_numpy, rows):
            logits = llama_model.eval()(row[None, :-1]).logits[0]
            alone += F.cross_entropy(logits, row[1:], reduction="sum").item()
    assert items == sum(map(len, rows)) - len(rows)
    assert total == pytest.approx(alone, rel=1e-5)
    with pytest.raises(ValueError, match="example 1 has the id -2, .* has 50 rows, 0 to 49"):
        total_loss(llama_model, causal_task([np.array([1, 2]), np.array([-2, 1])]))
