"""Training on text: batches, the loop, its schedule, bad losses, and what it leaves alone."""

import math

import learning
import numpy as np
import pytest
import torch
import transformers
from batches import collate, next_token_example
from hypothesis import given, strategies as st
from learning import adamw, blocks, drawn, lm_loss, optimise, pretrain, training_steps
from tokenizers import processors

import tokhelpers as th
from tokhelpers.models import encode_texts, loss_per_byte, losses, new_model
from tokhelpers.models.losses import IGNORED, bos_eos_ids

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 64}
RUN = {"learning_rate": 0.01, "batch_size": 4, "device": "cpu"}
TEXTS = ["the cat sat on the mat", "a bat ate the rat", "the hat is on the cat", "rats at bats"]
SPECIAL = ["<end>", "[MASK]"]

pytestmark = pytest.mark.usefixtures("one_thread")


def small(vocab_size=50, head="causal-lm", **settings):
    return new_model("small-llama", vocab_size, head, **{**SMALL, **settings})


@pytest.fixture
def model():
    return small()


@pytest.fixture
def with_dropout():
    """With a head tied to the embeddings, too."""
    return small(attention_dropout=0.2)


@pytest.fixture
def rows():
    """Eleven rows of different lengths."""
    rng = np.random.default_rng(0)
    return [rng.integers(1, 50, n) for n in (9, 3, 14, 5, 2, 8, 20, 11, 4, 6, 7)]


@pytest.fixture
def examples(rows):
    return list(map(next_token_example, rows))


@pytest.fixture(scope="module")
def tokenizer():
    return th.train_byte_level_bpe(TEXTS, vocab_size=275, special_tokens=SPECIAL)


def same(one, other) -> bool:
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def framed_by(tokenizer, template: str):
    """The same tokenizer, which puts special tokens around a text."""
    found = tokenizer.from_str(tokenizer.to_str())
    special = [(name, found.token_to_id(name)) for name in SPECIAL]
    found.post_processor = processors.TemplateProcessing(template, special_tokens=special)
    return found


# --- batches -------------------------------------------------------------------------------------
def test_encode_puts_and_cuts_nothing(tokenizer):
    plain = [tokenizer.encode(text).ids for text in TEXTS]
    dressed = framed_by(tokenizer, "<end> $A <end>")
    dressed.enable_truncation(4)
    dressed.enable_padding(length=30)
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=dressed)
    for same in (tokenizer, dressed, wrapped):
        assert encode_texts(same, iter(TEXTS)) == plain
    assert dressed.truncation and dressed.padding
    adapted = th.AdaptBPE(tokenizer, ["Ġbats"])
    assert encode_texts(adapted, TEXTS) == [adapted.ids(text) for text in TEXTS] != plain
    with pytest.raises(TypeError, match="texts is a single string, 'the cat': pass a list"):
        encode_texts(tokenizer, "the cat")
    with pytest.raises(ValueError, match="texts is empty"):
        encode_texts(tokenizer, [])


def test_what_stands_around_a_text(tokenizer):
    end, mask = map(tokenizer.token_to_id, SPECIAL)
    assert bos_eos_ids(tokenizer, "[MASK]") == ([mask], [mask])
    assert bos_eos_ids(tokenizer, 5) == ([5], [5])
    with pytest.raises(ValueError, match=r"pass separator=.*<end>, \[MASK\]"):
        bos_eos_ids(tokenizer)
    with pytest.raises(ValueError, match="no token '<pad>'"):
        bos_eos_ids(tokenizer, "<pad>")
    assert bos_eos_ids(framed_by(tokenizer, "[MASK] <end> $A <end>")) == ([mask, end], [end])
    one = th.train_byte_level_bpe(["a"], vocab_size=257, special_tokens=["<end>"])
    assert bos_eos_ids(one) == ([one.token_to_id("<end>")],) * 2
    with pytest.raises(ValueError, match="it has none"):
        bos_eos_ids(th.train_byte_level_bpe(["a"], vocab_size=256))


@given(
    st.lists(st.lists(st.integers(1, 9), max_size=12), min_size=1, max_size=6), st.integers(1, 10)
)
def test_every_token_is_predicted_once(documents, length):
    stream = [0]
    for document in documents:
        stream += [*document, 0]
    found = blocks(documents, length, 0)
    assert np.concatenate([block[1:] for block in found]).tolist() == stream[1:]
    assert all(a[-1] == b[0] for a, b in zip(found, found[1:], strict=False))
    assert all(len(block) == length + 1 for block in found[:-1])


# --- the loop ------------------------------------------------------------------------------------
def test_schedule_by_hand(model, examples):
    """700 steps: 7 rise; behind them 693, of which a third is 231, where the cosine's share is 3/4."""
    found = [learning._share_of_rate(step, 700) for step in (0, 1, 7, 7 + 231, 700)]
    assert found == pytest.approx([0, 1 / 7, 1, 0.01 + 0.99 * 0.75, 0.01])
    assert learning._share_of_rate(1, 1) == 1


@pytest.mark.parametrize("places", [20, 60, 8_192])
def test_accumulation_equals_one_batch(model, rows, examples, places, monkeypatch):
    """The reference is one pass over all rows with the library's own loss."""
    batch = collate([{"ids": r, "labels": r} for r in rows])
    batch["labels"][batch["mask"] == 0] = IGNORED
    ids = {"input_ids": batch["ids"], "attention_mask": batch["mask"]}
    loss = model(**ids, labels=batch["labels"]).loss
    loss.backward()
    expected = {name: (p - p.grad).detach() for name, p in model.named_parameters()}
    model.zero_grad()
    monkeypatch.setattr(losses, "MAX_POSITIONS", places)
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    how = {"learning_rate": 1.0, "steps": 1, "seed": 0}
    (row,) = training_steps(model, sgd, lm_loss, lambda step: examples, **how)
    assert row["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert row["items"] == sum(map(len, rows)) - 11
    for name, p in model.named_parameters():
        assert torch.allclose(p, expected[name], atol=3e-7), name


def test_steps_are_adamws_at_the_rates_of_the_schedule(model, examples):
    found, history = optimise(model, examples[:1], lm_loss, steps=3, **RUN)
    rates = [0.01 * learning._share_of_rate(step, 3) for step in (1, 2, 3)]
    assert history.learning_rate.tolist() == rates and history.step.tolist() == [1, 2, 3]
    twin = torch.optim.AdamW(model.parameters(), weight_decay=0.0, fused=True)
    for rate in rates:
        twin.param_groups[0]["lr"] = rate
        batch = collate(examples[:1])
        (lm_loss(model, batch) / batch["labels"].numel()).backward()
        twin.step()
        twin.zero_grad()
    assert torch.allclose(found.lm_head.weight, model.lm_head.weight, atol=1e-6)


def test_each_epoch_reads_every_example_once():
    epochs = [[drawn(11, 4, 7, 3 * e + step).tolist() for step in (1, 2, 3)] for e in (0, 1)]
    assert all(sorted(sum(epoch, [])) == list(range(11)) for epoch in epochs)
    assert epochs[0] != epochs[1] and drawn(11, 4, 8, 1).tolist() != epochs[0][0]


def test_what_does_not_learn_stays(model, examples):
    """Of a model with frozen parts only the others are the optimiser's."""
    model.requires_grad_(False)
    learned = model.model.norm.weight.requires_grad_(True)
    trained, _ = optimise(model, examples, lm_loss, **RUN)
    moved = [n for n, p in trained.named_parameters() if not torch.equal(p, model.get_parameter(n))]
    assert moved == ["model.norm.weight"] and adamw(model).param_groups[0]["params"] == [learned]


# --- what goes wrong -----------------------------------------------------------------------------
def test_a_loss_that_is_not_finite_stops_it(model, examples):
    def loss(model, batch):
        return lm_loss(model, batch) * (math.nan if (batch["ids"] == 49).any() else 1)

    examples = [{**row, "ids": np.where(row["ids"] == 49, 48, row["ids"])} for row in examples]
    examples[6]["ids"][3] = 49
    step = next(step for step in (1, 2, 3) if 6 in drawn(11, 4, 42, step))
    with pytest.raises(FloatingPointError, match=f"loss is not finite at step {step}: lower"):
        optimise(model, examples, loss, **RUN)


def test_gradients_that_are_not_finite_stop_it(model, examples):
    def loss(model, batch):
        return lm_loss(model, batch) + (model.get_input_embeddings().weight.sum() * 0).sqrt()

    with pytest.raises(FloatingPointError, match="gradients are not finite at step 1"):
        optimise(model, examples, loss, **RUN)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"batch_size": 0}, "batch_size must be .*: give"),
        ({"steps": 1.5}, "steps must be .*: give"),
        ({"learning_rate": 0}, "learning_rate=0: give a number above 0"),
        ({"learning_rate": math.nan}, "learning_rate=nan: give a number above 0"),
        ({"rows": []}, "no example to learn from"),
        ({"rows": [np.array([1])]}, "no token to predict"),
    ],
    ids=str,
)
def test_settings_and_examples_that_are_refused(model, rows, wrong, message):
    options = {"rows": rows, **RUN, **wrong}
    with pytest.raises(ValueError, match=message):
        optimise(model, list(map(next_token_example, options.pop("rows"))), lm_loss, **options)


# --- what is left alone --------------------------------------------------------------------------
def test_two_runs_are_equal_and_leave_all_else_alone(with_dropout, examples):
    model, given = with_dropout, (examples, lm_loss)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.eval()
    one, history = optimise(model, *given, epochs=2, **RUN)
    state = torch.manual_seed(7).get_state()
    two, again = optimise(model, *given, epochs=2, **RUN)
    assert torch.equal(torch.get_rng_state(), state)
    assert same(one, two) and history.equals(again)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert not model.training and not one.training
    assert all(p.grad is None for p in one.parameters())
    other, _ = optimise(model, *given, epochs=2, seed=1, **RUN)
    assert not same(one, other)
    trained, _ = optimise(model, *given, epochs=2, inplace=True, **RUN)
    assert trained is model and same(trained, one)


# --- text ----------------------------------------------------------------------------------------
def test_pretraining_learns(tokenizer):
    model, read = small(280), (tokenizer, TEXTS)
    options = {"length": 16, "epochs": 12, "separator": "<end>", **RUN, "batch_size": 8}
    trained, history = pretrain(model, tokenizer, TEXTS * 10, **options)
    first, last = history.loss.iloc[:3].mean(), history.loss.iloc[-3:].mean()
    assert first > 4 and last < first - 1.5
    before, after = (loss_per_byte(m, *read, separator="<end>") for m in (model, trained))
    assert after < 0.7 * before


def test_bad_input_for_pretraining(tokenizer):
    run = {**RUN, "separator": "<end>"}
    for head in ("none", "text-classification"):
        with pytest.raises(ValueError, match="no head for this task: .* with AutoModelForCausalLM"):
            pretrain(small(280, head), tokenizer, TEXTS, **run)
    with pytest.raises(ValueError, match="length=65 exceeds the model's 64 positions"):
        pretrain(small(280), tokenizer, TEXTS, length=65, **run)
    with pytest.raises(ValueError, match="example 0 has ID 274, but .* has 270 rows, 0 to 269"):
        pretrain(small(270), tokenizer, ["a bat", " ate the rat" * 20], **run)
    with pytest.raises(TypeError, match="no_such_option"):
        pretrain(small(280), tokenizer, TEXTS, no_such_option=1, **run)


@pytest.mark.parametrize("places", [40, 8_192])
def test_loss_per_byte_by_the_library(tokenizer, monkeypatch, places):
    monkeypatch.setattr(losses, "MAX_POSITIONS", places)
    model = small(280).eval()
    end, total = tokenizer.token_to_id("<end>"), 0.0
    for ids in encode_texts(tokenizer, TEXTS):
        row = torch.tensor([[end, *ids]])
        with torch.no_grad():
            total += model(input_ids=row, labels=row).loss.item() * len(ids)
    found = loss_per_byte(model, tokenizer, TEXTS, separator="<end>")
    assert found == pytest.approx(total / sum(map(len, TEXTS)), rel=1e-5)
    with pytest.raises(ValueError, match="all empty"):
        loss_per_byte(model, tokenizer, [""], separator="<end>")
    with pytest.raises(ValueError, match="example 0 has ID .* has 250 rows, 0 to 249"):
        loss_per_byte(small(250), tokenizer, TEXTS, separator="<end>")
