"""The training loop: schedule, accumulation, resuming, bad losses, and what it leaves alone."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open

from tokhelpers.models import checkpoints, optimisation
from tokhelpers.models.architectures import new_model
from tokhelpers.models.batches import NO_LABEL, Task, blocks, collated, masking
from tokhelpers.models.finetuning import causal_task, lm_loss
from tokhelpers.models.optimisation import learning_rate_schedule, optimise, total_loss

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
RUN = {"learning_rate": 0.01, "batch_size": 4, "device": "cpu"}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def llama_model():
    return new_model("small-llama", 50, num_key_value_heads=2, **SMALL)


@pytest.fixture
def bert_model():
    """With dropout, and with a head tied to the embeddings."""
    return new_model("small-bert", 50, "masked-lm", **SMALL)


@pytest.fixture
def rows():
    """Eleven rows of different lengths."""
    rng = np.random.default_rng(0)
    return [rng.integers(1, 50, n) for n in (9, 3, 14, 5, 2, 8, 20, 11, 4, 6, 7)]


@pytest.fixture
def masked(rows):
    hide = masking(1, [0], 50)
    return Task(len(rows), lambda i, rng: hide(rows[i], rng), lm_loss, "masked")


def weights(model) -> dict:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one, other) -> bool:
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


# --- the schedule --------------------------------------------------------------------------------
def test_schedule_by_hand():
    # 700 steps: 7 rise; behind them 693, of which a third is 231, where the cosine of 60 degrees is 1/2
    found = [learning_rate_schedule(step, 700) for step in (0, 1, 7, 7 + 231, 700)]
    assert found == pytest.approx([0, 1 / 7, 1, 0.01 + 0.99 * 0.75, 0.01])
    assert learning_rate_schedule(1, 1) == 1
    assert [
        learning_rate_schedule(s, 10, warmup=0.2, floor=0) for s in (1, 2, 6, 10)
    ] == pytest.approx([0.5, 1, 0.5, 0], abs=1e-12)


@pytest.mark.parametrize("step", [-1, 11])
def test_schedule_refuses_other_steps(step):
    with pytest.raises(ValueError, match="give one from 0 to 10"):
        learning_rate_schedule(step, 10)


def test_the_rate_follows_the_schedule(llama_model, rows):
    _, history = optimise(llama_model, causal_task(rows), steps=5, **RUN)
    assert history.learning_rate.tolist() == [
        0.01 * learning_rate_schedule(s, 5) for s in range(1, 6)
    ]
    assert history.step.tolist() == [1, 2, 3, 4, 5]


# --- one step ------------------------------------------------------------------------------------
def gradients(model, task, numbers, micro_batch) -> dict:
    """What SGD with the rate 1 subtracts."""
    before = weights(model)
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    row = optimisation._step(model, task, sgd, numbers, micro_batch, 0, 1)
    return {k: before[k] - v for k, v in weights(model).items()}, row


@pytest.mark.parametrize("micro_batch", [1, 2, 3, 11, None])
def test_accumulation_equals_one_batch(rows, micro_batch):
    """The reference is one pass over all rows with the library's own loss."""
    model = new_model("small-llama", 50, num_key_value_heads=2, **SMALL)
    batch = collated([{"ids": r, "labels": r} for r in rows])
    batch["labels"][batch["mask"] == 0] = NO_LABEL
    loss = model(input_ids=batch["ids"], attention_mask=batch["mask"], labels=batch["labels"]).loss
    loss.backward()
    expected = {n: p.grad.clone() for n, p in model.named_parameters()}
    model.zero_grad()
    found, row = gradients(model, causal_task(rows), np.arange(11), micro_batch)
    assert row["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert row["items"] == sum(map(len, rows)) - 11
    for name, gradient in expected.items():
        # weights of about 1 hold a difference to about 1e-7
        assert torch.allclose(found[name], gradient, rtol=1e-3, atol=3e-7), name


# --- resuming ------------------------------------------------------------------------------------
def test_a_killed_run_goes_on_bit_by_bit(bert_model, masked, tmp_path, monkeypatch):
    options = {"epochs": 3, "save_every": 3, "evaluate_every": 2, **RUN}
    options["evaluate"] = lambda model: total_loss(model, masked)[0]
    whole, history = optimise(bert_model, masked, **options)
    step, calls = optimisation._step, []

    def killed(*given, half):
        calls.append(given[-1])
        if len(calls) == 5:
            raise KeyboardInterrupt
        return step(*given, half=half)

    monkeypatch.setattr(optimisation, "_step", killed)
    with pytest.raises(KeyboardInterrupt):
        optimise(bert_model, masked, folder=tmp_path, **options)
    resumed, again = optimise(bert_model, masked, folder=tmp_path, **options)
    assert calls == [1, 2, 3, 4, 5, 4, 5, 6, 7, 8, 9]
    assert same(whole, resumed) and not same(whole, bert_model)
    pd.testing.assert_frame_equal(history, again, check_exact=True)
    with safe_open(tmp_path / checkpoints.CHECKPOINT, "pt") as saved:
        spent = json.loads(saved.metadata()["seconds"])
    embeddings, output = resumed.get_input_embeddings(), resumed.get_output_embeddings()
    assert embeddings.weight is output.weight
    calls.clear()
    finished, _ = optimise(bert_model, masked, folder=tmp_path, **options)
    assert not calls and same(finished, whole)
    _, last = optimise(bert_model, masked, folder=tmp_path, **options)
    assert last.attrs["seconds"] > spent > 0  # what was spent before a resume counts


@pytest.mark.parametrize(
    "change, name",
    [
        ({"seed": 1}, "seed"),
        ({"steps": 9}, "steps"),
        ({"learning_rate": 0.02}, "learning_rate"),
        ({"batch_size": 5}, "batch_size"),
        ({"betas": (0.9, 0.95)}, "betas"),
        ({"dtype": "bfloat16"}, "dtype"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(llama_model, rows, tmp_path, change, name):
    task = causal_task(rows)
    options = {"steps": 2, "folder": tmp_path, **RUN}
    optimise(llama_model, task, **options)
    with pytest.raises(ValueError, match=f"checkpoint of another run: there {name} is"):
        optimise(llama_model, task, **{**options, **change})


def test_a_checkpoint_of_other_examples_or_weights_is_refused(llama_model, rows, tmp_path):
    options = {"steps": 2, "folder": tmp_path, **RUN}
    optimise(llama_model, causal_task(rows), **options)
    with pytest.raises(ValueError, match="there examples is"):
        optimise(llama_model, causal_task(rows[::-1]), **options)
    other = new_model("small-llama", 50, num_key_value_heads=2, seed=1, **SMALL)
    with pytest.raises(ValueError, match="there weights to start from is"):
        optimise(other, causal_task(rows), **options)
    wider = new_model("small-llama", 51, num_key_value_heads=2, **SMALL)
    with pytest.raises(ValueError, match="there parameters is"):
        optimise(wider, causal_task(rows), **options)


def test_a_kill_while_saving_leaves_the_last_checkpoint(llama_model, rows, tmp_path, monkeypatch):
    task, options = causal_task(rows), {"steps": 4, "save_every": 2, **RUN}
    save, calls = checkpoints.save_file, []

    def half(tensors, draft, metadata):
        calls.append(draft)
        if len(calls) == 2:
            draft.write_bytes(b"half")
            raise KeyboardInterrupt
        save(tensors, draft, metadata=metadata)

    monkeypatch.setattr(checkpoints, "save_file", half)
    with pytest.raises(KeyboardInterrupt):
        optimise(llama_model, task, folder=tmp_path, **options)
    assert [file.name for file in tmp_path.iterdir()] == [checkpoints.CHECKPOINT]
    resumed, history = optimise(llama_model, task, folder=tmp_path, **options)
    assert len(history) == 4 and same(resumed, optimise(llama_model, task, **options)[0])


def test_a_file_that_is_no_checkpoint_is_refused(llama_model, rows, tmp_path):
    (tmp_path / checkpoints.CHECKPOINT).write_bytes(b"nothing of the sort")
    with pytest.raises(ValueError, match="no checkpoint that can be read"):
        optimise(llama_model, causal_task(rows), folder=tmp_path, **RUN)


# --- what goes wrong -----------------------------------------------------------------------------
def test_a_loss_that_is_not_finite_names_the_batch(llama_model, rows, tmp_path):
    def loss(model, batch):
        return lm_loss(model, batch) * (math.nan if (batch["ids"] == 49).any() else 1)

    rows = [np.where(row == 49, 48, row) for row in rows]
    rows[6][3] = 49
    task = causal_task(rows)._replace(loss=loss)

    def last_batch(seed):
        numbers = optimisation._numbers(11, 4, seed, done=2)
        return next(numbers).tolist()

    seed = next(s for s in range(100) if 6 in last_batch(s))
    options = {"folder": tmp_path, "save_every": 1, "seed": seed, **RUN}
    with pytest.raises(FloatingPointError, match="at step 3, in the batch of the examples 6:"):
        optimise(llama_model, task, micro_batch=1, **options)
    with pytest.raises(FloatingPointError) as found:
        optimise(llama_model, task, **options)
    named = re.search("examples ([0-9, ]+):", str(found.value))[1]
    assert sorted(map(int, named.split(", "))) == sorted(last_batch(seed))
    with safe_open(tmp_path / checkpoints.CHECKPOINT, "pt") as saved:
        history = json.loads(saved.metadata()["history"])
        tensors = [saved.get_tensor(name) for name in saved.keys()]  # noqa: SIM118
    assert [row["step"] for row in history] == [1, 2]
    assert all(torch.isfinite(tensor).all() for tensor in tensors)


def test_gradients_that_are_not_finite_stop_it(llama_model, rows):
    def loss(model, batch):
        return lm_loss(model, batch) + (model.get_input_embeddings().weight.sum() * 0).sqrt()

    with pytest.raises(FloatingPointError, match="gradients are not finite at step 1"):
        optimise(llama_model, causal_task(rows)._replace(loss=loss), **RUN)


def test_ids_outside_the_table_are_named_before_any_pass(llama_model, rows):
    rows[4] = np.array([3, 50])
    rows[9] = np.array([51, 2, 3])
    task = causal_task(rows)._replace(loss=lambda model, batch: pytest.fail("a pass was made"))
    with pytest.raises(ValueError, match="example [49] has the id 5[01], .* has 50 rows, 0 to 49"):
        optimise(llama_model, task, **{**RUN, "batch_size": 11})
    with pytest.raises(ValueError, match="example 1 has the id -2"):
        total_loss(llama_model, causal_task([np.array([1, 2]), np.array([-2, 1])]))


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"batch_size": 0}, "batch_size must be .*: give"),
        ({"micro_batch": 1.5}, "micro_batch must be .*: give"),
        ({"epochs": 0}, "epochs must be .*: give"),
        ({"steps": -1}, "steps must be .*: give"),
        ({"save_every": 0}, "save_every must be .*: give"),
        ({"evaluate_every": 0}, "evaluate_every must be .*: give"),
        ({"learning_rate": 0}, "learning_rate=0: give a number above 0"),
        ({"learning_rate": math.nan}, "learning_rate=nan: give a number above 0"),
        ({"learning_rate": math.inf}, "learning_rate=inf: give a number above 0"),
        ({"dtype": "half"}, "dtype is 'half': use float32, bfloat16, or None"),
    ],
    ids=str,
)
def test_settings_that_are_refused(llama_model, rows, wrong, message):
    with pytest.raises(ValueError, match=message):
        optimise(llama_model, causal_task(rows), **{**RUN, **wrong})


@pytest.mark.parametrize(
    "rows, message", [([], "no example to learn from"), ([np.array([1])], "no token to predict")]
)
def test_examples_that_teach_nothing_are_refused(llama_model, rows, message):
    with pytest.raises(ValueError, match=message):
        optimise(llama_model, causal_task(rows), **RUN)


# --- what is left alone --------------------------------------------------------------------------
def test_two_runs_are_equal_and_leave_all_else_alone(bert_model, masked):
    before, state = weights(bert_model), torch.get_rng_state()
    bert_model.eval()
    one, history = optimise(bert_model, masked, epochs=2, **RUN)
    torch.manual_seed(7)
    two, again = optimise(bert_model, masked, epochs=2, **RUN)
    assert torch.equal(torch.get_rng_state(), torch.manual_seed(7).get_state())
    torch.set_rng_state(state)
    assert same(one, two) and history.equals(again)
    assert all(torch.equal(before[k], v) for k, v in bert_model.state_dict().items())
    assert not bert_model.training and not one.training
    assert all(p.grad is None for p in one.parameters())
    other, _ = optimise(bert_model, masked, epochs=2, seed=1, **RUN)
    assert not same(one, other)


def test_inplace_changes_the_model_that_came_in(llama_model, rows):
    before = weights(llama_model)
    copy, _ = optimise(llama_model, causal_task(rows), **RUN)
    trained, _ = optimise(llama_model, causal_task(rows), inplace=True, **RUN)
    assert trained is llama_model and same(trained, copy)
    assert not torch.equal(before["lm_head.weight"], llama_model.lm_head.weight)


def test_frozen_weights_stay(llama_model, rows):
    llama_model.get_input_embeddings().weight.requires_grad_(False)
    trained, _ = optimise(llama_model, causal_task(rows), weight_decay=0.1, **RUN)
    assert torch.equal(trained.lm_head.weight, llama_model.lm_head.weight)
    assert not same(trained, llama_model)


def test_evaluations_stand_in_the_history(llama_model, rows):
    task = causal_task(rows)

    def evaluate(model):
        assert not model.training
        return {"total": total_loss(model, task)[0], "one": 1}

    options = {"steps": 5, "evaluate_every": 2, **RUN}
    trained, history = optimise(llama_model, task, evaluate=evaluate, **options)
    assert history.step[history.total.notna()].tolist() == [0, 2, 4, 5]
    assert history.total.iloc[0] == total_loss(llama_model, task)[0]
    assert history.total.iloc[-1] == total_loss(trained, task)[0] < history.total.iloc[0]
    assert same(trained, optimise(llama_model, task, **options)[0])


def test_the_second_beta_is_adamws(llama_model, rows):
    task, how = causal_task([rows[0]]), {"learning_rate": 0.01, "batch_size": 1, "steps": 2}
    found, _ = optimise(llama_model, task, device="cpu", betas=(0.9, 0.95), warmup=0, **how)
    twin = torch.optim.AdamW(
        llama_model.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0, fused=True
    )
    for step in (1, 2):
        twin.param_groups[0]["lr"] = 0.01 * learning_rate_schedule(step, 2, warmup=0)
        batch = {k: torch.as_tensor(v)[None] for k, v in task.row(0, None).items()}
        batch["mask"] = torch.ones_like(batch["ids"])
        (lm_loss(llama_model, batch) / batch["labels"].numel()).backward()
        twin.step()
        twin.zero_grad()
    assert torch.allclose(found.lm_head.weight, llama_model.lm_head.weight, atol=1e-6)


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


@pytest.mark.long
def test_a_small_text_is_learned(llama_model):
    task = causal_task(blocks([[1, 2, 3, 4, 5] * 40], 16, 0))
    _, history = optimise(llama_model, task, epochs=20, **RUN)
    assert history.loss.iloc[0] == pytest.approx(math.log(50), rel=0.05)
    assert history.loss.iloc[-1] < 0.3
