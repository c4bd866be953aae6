"""Batches, continual pretraining, classification, and four-option questions."""

import choices
import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from choices import answer_questions, finetune_choices, finetune_classes, states
from hypothesis import given, strategies as st
from strategies import one_fast
from tokenizers import Tokenizer, models, processors

import tokhelpers as th
from tokhelpers.models import (
    Question,
    answer_accuracy,
    blocks,
    collated,
    encode_texts,
    finetuning,
    format_question,
    loss_per_byte,
    new_model,
    pretrain,
)
from tokhelpers.models.architectures import head_of
from tokhelpers.models.batches import NO_LABEL, around, sequence_length, sequences

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 64, "max_position_embeddings": 64}
TEXTS = ["the cat sat on the mat", "a bat ate the rat", "the hat is on the cat", "rats at bats"]
SPECIAL = ["<end>", "[MASK]"]
RUN = {"learning_rate": 0.01, "batch_size": 8, "device": "cpu", "separator": "<end>"}
CLASSES = "text-classification"


@pytest.fixture(scope="module")
def tokenizer():
    return th.train_byte_level_bpe(TEXTS, vocab_size=275, special_tokens=SPECIAL)


def small(head="causal-lm", vocab_size=280, **settings):
    name = "small-bert" if head == "masked-lm" else settings.pop("name", "small-llama")
    # so narrow a BERT that starts from 0.02 cannot tell texts apart for hundreds of steps
    more = {"num_key_value_heads": 2} if name == "small-llama" else {"initializer_range": 0.1}
    return new_model(name, vocab_size, head, **{**SMALL, **more, **settings})


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
    adapted = th.adapt_bpe(tokenizer, ["Ġbats"])
    assert encode_texts(adapted, TEXTS) == [adapted.ids(text) for text in TEXTS] != plain
    with pytest.raises(TypeError, match="texts is one string, 'the cat': put it in a list"):
        encode_texts(tokenizer, "the cat")
    with pytest.raises(ValueError, match="there is no text"):
        encode_texts(tokenizer, [])


def test_what_stands_around_a_text(tokenizer):
    end, mask = map(tokenizer.token_to_id, SPECIAL)
    assert around(tokenizer, "[MASK]") == ([mask], [mask])
    assert around(tokenizer, 5) == ([5], [5])
    with pytest.raises(ValueError, match=r"give separator= .*<end>, \[MASK\]"):
        around(tokenizer)
    with pytest.raises(ValueError, match="no token '<pad>'"):
        around(tokenizer, "<pad>")
    assert around(framed_by(tokenizer, "[MASK] <end> $A <end>")) == ([mask, end], [end])
    one = th.train_byte_level_bpe(["a"], vocab_size=257, special_tokens=["<end>"])
    assert around(one) == ([one.token_to_id("<end>")],) * 2
    with pytest.raises(ValueError, match="it has none"):
        around(th.train_byte_level_bpe(["a"], vocab_size=256))


@given(
    st.lists(st.lists(st.integers(1, 9), max_size=12), min_size=1, max_size=6), st.integers(1, 10)
)
def test_every_token_is_predicted_once(documents, length):
    stream = [0]
    for document in documents:
        stream += [*document, 0]
    causal = blocks(documents, length, 0)
    assert np.concatenate([block[1:] for block in causal]).tolist() == stream[1:]
    assert all(a[-1] == b[0] for a, b in zip(causal, causal[1:], strict=False))
    assert all(len(block) == length + 1 for block in causal[:-1])
    masked = blocks(documents, length, 0, causal=False)
    assert np.concatenate(masked).tolist() == stream
    assert all(len(block) == length for block in masked[:-1])


def test_sequences_keep_what_stands_around_them():
    with pytest.warns(
        UserWarning, match="2 ids, 40% of all, stand beyond length=4 and are cut off"
    ):
        found = sequences([[1, 2, 3, 4], [5]], 4, [8], [9])
    assert [row.tolist() for row in found] == [[8, 1, 2, 9], [8, 5, 9]]
    with pytest.raises(ValueError, match="length=2 is filled by the ids around a text"):
        sequences([[1]], 2, [8], [9])


def test_masks_are_shared_out_as_they_should():
    words = {"<a>": 0, "[MASK]": 1, **{str(i): i for i in range(2, 1_000)}}
    tokenizer = Tokenizer(models.WordLevel(words))
    tokenizer.add_special_tokens(["<a>", "[MASK]"])
    rows = [np.tile(np.arange(1_000), 40), np.array([0, 5, 0]), np.array([0, 0])]
    given = small("masked-lm", vocab_size=1_000), tokenizer, rows
    tasks = finetuning.masked_task(*given), finetuning.masked_task(*given, all_masked=True)
    row, hidden = (task.row(0, np.random.default_rng(0)) for task in tasks)
    chosen, special = row["labels"] != NO_LABEL, rows[0] < 2
    assert chosen.sum() == round(0.15 * (~special).sum()) and not (chosen & special).any()
    assert (row["labels"][chosen] == rows[0][chosen]).all()
    assert (row["ids"][~chosen] == rows[0][~chosen]).all()
    new, old = row["ids"][chosen], rows[0][chosen]
    assert (new == 1).mean() == pytest.approx(0.8, abs=0.02) and not (new == 0).any()
    assert ((new != 1) & (new != old)).mean() == pytest.approx(0.1, abs=0.02)
    assert (hidden["ids"][hidden["labels"] != NO_LABEL] == 1).all()
    found = [tasks[0].row(i, np.random.default_rng(0))["labels"].tolist() for i in (1, 2)]
    assert found == [[NO_LABEL, 5, NO_LABEL], [NO_LABEL] * 2]


# --- language modelling --------------------------------------------------------------------------
@pytest.mark.parametrize("head", ["causal-lm", "masked-lm"])
@pytest.mark.parametrize("packed", one_fast(True, False))
def test_pretraining_learns(tokenizer, head, packed):
    model, read = small(head), (tokenizer, TEXTS)
    options = {"length": 16, "epochs": 12, "packed": packed, **RUN}
    trained, history = pretrain(model, tokenizer, TEXTS * 10, **options)
    first, last = history.loss.iloc[:3].mean(), history.loss.iloc[-3:].mean()
    assert first > 4 and last < first - 1.5
    before, after = (loss_per_byte(m, *read, separator="<end>") for m in (model, trained))
    assert after < 0.7 * before


def test_bad_input_for_pretraining(tokenizer):
    for other in ("none", CLASSES):
        with pytest.raises(ValueError, match="no head for this task: .* with AutoModelForCausalLM"):
            pretrain(small(other), tokenizer, TEXTS, **RUN)
    with pytest.raises(ValueError, match="length=65: the model has 64 positions"):
        pretrain(small(), tokenizer, TEXTS, length=65, **RUN)
    with pytest.raises(ValueError, match="example 0 has the id 274, and .* has 270 rows, 0 to 269"):
        pretrain(small(vocab_size=270), tokenizer, ["a bat", " ate the rat" * 20], **RUN)
    plain = th.train_byte_level_bpe(TEXTS, vocab_size=270, special_tokens=["<end>"])
    with pytest.raises(ValueError, match="'mask' in its name, and this tokenizer has 0: give"):
        pretrain(small("masked-lm"), plain, TEXTS, **RUN)
    with pytest.raises(TypeError, match="no_such_option"):
        pretrain(small(), tokenizer, TEXTS, no_such_option=1, **RUN)


def test_loss_per_byte_by_the_library(tokenizer):
    model = small().eval()
    end, total = tokenizer.token_to_id("<end>"), 0.0
    for ids in encode_texts(tokenizer, TEXTS):
        row = torch.tensor([[end, *ids]])
        with torch.no_grad():
            total += model(input_ids=row, labels=row).loss.item() * len(ids)
    found = loss_per_byte(model, tokenizer, TEXTS, separator="<end>")
    assert found == pytest.approx(total / sum(map(len, TEXTS)), rel=1e-5)
    with pytest.raises(ValueError, match="all empty"):
        loss_per_byte(model, tokenizer, [""], separator="<end>")


# --- classification ------------------------------------------------------------------------------
def test_labels_that_are_no_classes_are_refused(tokenizer):
    for labels, message in (
        ([0, 1, 3, 0], "the label 3 is no class of this model: it has 0 to 2"),
        ([0, 1], "4 texts and 2 labels: give one label per text"),
        ([0.5, 1, 1, 1], "the label 0.5"),
    ):
        with pytest.raises(ValueError, match=message):
            finetune_classes(small(CLASSES, num_labels=3), tokenizer, TEXTS, labels, **RUN)


# --- questions -----------------------------------------------------------------------------------
QUESTIONS = [
    Question("cat?", ("the cat", "a bat", "rats", "mats"), 0, "one", "it sat"),
    Question("bat?", ("the cat", "rats", "mats", "a bat"), 3, "one"),
    Question("rat?", ("the cat", "rats", "mats", "a bat"), 1, "two", "rats at bats"),
    Question("mat?", ("hats", "rats", "mats", "a bat"), 2, "two"),
]
RIGHT = ["A) the cat", "D) a bat", "B) rats", "C) mats"]
LONG = {"max_position_embeddings": 512}


@pytest.mark.parametrize("explanation", [True, False])
def test_the_reason_is_learned_where_it_is_asked_for(tokenizer, monkeypatch, explanation):
    texts = []
    monkeypatch.setattr(choices, "pretrain", lambda _, __, given, **how: texts.extend(given))
    finetune_choices(small(**LONG), tokenizer, QUESTIONS, explanation=explanation, **RUN)
    ends = [text.partition("**Answer**\n")[2] for text in texts]
    reasons = [" it sat", "", " rats at bats", ""] if explanation else [""] * 4
    assert ends == [f"{x}.{y}" for x, y in zip(RIGHT, reasons, strict=True)]


def test_classifiers_learn_to_answer(tokenizer):
    model = small(CLASSES, name="small-bert", num_labels=4, **LONG)
    trained, _ = finetune_choices(model, tokenizer, QUESTIONS, epochs=60, **RUN)
    answers = answer_questions(trained, tokenizer, QUESTIONS, separator="<end>")
    assert answers.right.mean() >= 0.75


def test_a_fresh_head_stands_on_the_same_body():
    model = small("masked-lm")
    body, fresh = (m.base_model.state_dict() for m in (model, choices.as_classifier(model, 4)))
    assert all(torch.equal(fresh[name], body[name]) for name in body)


def test_the_letter_is_chosen_by_the_next_token(tokenizer):
    model = small(**LONG).eval()
    answers = answer_questions(model, tokenizer, QUESTIONS, separator="<end>")
    letters = [tokenizer.token_to_id(letter) for letter in "ABCD"]
    for question, chosen in zip(QUESTIONS, answers.chosen, strict=True):
        prompt = format_question(question, answer_line=True)
        ids = [tokenizer.token_to_id("<end>"), *tokenizer.encode(prompt).ids]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        assert logits[letters].argmax() == chosen
    model.get_output_embeddings().weight.data.zero_()
    alike = answer_questions(model, tokenizer, QUESTIONS, separator="<end>")
    assert alike.tied.all() and alike.chosen.eq(0).all() and not answers.tied.any()


def test_scores_are_of_float32(tokenizer):
    """Letters whose rows differ too little for bfloat16 are told apart."""
    half, letters = small(**LONG).bfloat16(), [tokenizer.token_to_id(x) for x in "ABCD"]
    rows = half.get_output_embeddings().weight.data
    rows[letters] = rows[letters[:1]]
    rows[letters, 0] = (torch.arange(4) / 4096).bfloat16()
    answers = answer_questions(half, tokenizer, QUESTIONS, separator="<end>")
    assert not answers.tied.any() and half.dtype == torch.bfloat16


def test_letters_that_share_a_token_are_refused():
    tokenizer = th.train_wordpiece(["a b"], vocab_size=3, special_tokens=["[UNK]"])
    with pytest.raises(ValueError, match="does not tell the letters A, B, C and D apart: give"):
        answer_questions(small(**LONG), tokenizer, QUESTIONS, separator="[UNK]")


def test_long_questions_lose_their_start(tokenizer):
    model = small(**LONG)
    padded = [Question("why " * 300 + q.question, q.options, q.answer) for q in QUESTIONS]
    tails = answer_questions(model, tokenizer, padded, separator="<end>", length=40)
    same = answer_questions(model, tokenizer, QUESTIONS, separator="<end>", length=40)
    assert tails.chosen.tolist() == same.chosen.tolist()


@pytest.mark.parametrize("use", [answer_questions, finetune_choices])
def test_heads_that_are_not_for_this_are_refused(tokenizer, use):
    with pytest.raises(ValueError, match="no head for this task"):
        use(small("masked-lm"), tokenizer, QUESTIONS)
    with pytest.raises(ValueError, match="num_labels=4"):
        use(small(CLASSES, num_labels=3), tokenizer, QUESTIONS)


def test_accuracy_by_subject_and_of_nothing():
    answers = pd.DataFrame({"subject": list("aaaab"), "right": [True] * 3 + [False] * 2})
    assert answer_accuracy(answers, by_subject=True).to_dict() == {"a": 0.75, "b": 0}
    with pytest.raises(ValueError, match="no answers: give the table of one question at least"):
        answer_accuracy(answers[:0])


@pytest.mark.parametrize("family", ["llama", "bert", "gpt2", "roberta", "modernbert"])
def test_heads_positions_and_pooling_in_each_family(family):
    """Padding changes nothing, even where a text ends in the id that pads."""
    causal = family in ("llama", "gpt2")
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    sizes = {**SMALL, "vocab_size": 50, "num_labels": 3, **ids}
    if family == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, **sizes}
    if family == "modernbert":
        sizes |= {"cls_token_id": 1, "sep_token_id": 2}
    config = transformers.AutoConfig.for_model(family, **sizes)
    rows = [np.arange(5, 14), np.arange(20, 26), np.array([3, 0, 0])]
    labelled = [{"ids": r, "labels": np.where(r % 2, r, NO_LABEL)} for r in rows]
    batch = collated(labelled)
    head = "causal-lm" if causal else "masked-lm"
    model = new_model(config, head=head).eval()
    classifier = new_model(config, head=CLASSES).eval()
    assert head_of(model, head) == head
    assert sequence_length(model) == (63 if family == "roberta" else 64)
    with torch.no_grad():
        whole = model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits
        found = finetuning.label_logits(model, batch)
        assert torch.allclose(found, whole[batch["labels"] != NO_LABEL], atol=1e-5)
        pooled, logits = states(classifier, batch["ids"], batch["mask"])
        for i, row in enumerate(map(torch.from_numpy, rows)):
            alone = {"input_ids": row[None], "attention_mask": torch.ones_like(row[None])}
            state = classifier.base_model(**alone).last_hidden_state[0, -1 if causal else 0]
            wanted = classifier.score(state) if causal else classifier(**alone).logits[0]
            assert torch.allclose(pooled[i], state, atol=1e-5)
            assert torch.allclose(logits[i], wanted, atol=1e-5)
