"""The thesis' stages: sequences, masks, going on after a kill, classes, and four-option questions."""

import json

import checkpoints
import choices
import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from batches import collate, label_logits
from choices import answer_questions, finetune_choices, finetune_classes, states
from questions import Question
from stages import masking, pretrain_on_sequences, sequences
from tokenizers import Tokenizer, models

import tokhelpers as th
from tokhelpers.models import new_model
from tokhelpers.models.architectures import head_of
from tokhelpers.models.losses import IGNORED, sequence_length

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 64, "max_position_embeddings": 64}
TEXTS = ["the cat sat on the mat", "a bat ate the rat", "the hat is on the cat", "rats at bats"]
SPECIAL = ["<end>", "[MASK]"]
RUN = {"learning_rate": 0.01, "batch_size": 8, "separator": "<end>"}
CLASSES = "text-classification"


@pytest.fixture(scope="module")
def tokenizer():
    return th.train_byte_level_bpe(TEXTS, vocab_size=275, special_tokens=SPECIAL)


def small(head="causal-lm", vocab_size=280, **settings):
    name = "small-bert" if head == "masked-lm" else settings.pop("name", "small-llama")
    # so narrow a BERT that starts from 0.02 cannot tell texts apart for hundreds of steps
    more = {"num_key_value_heads": 2} if name == "small-llama" else {"initializer_range": 0.1}
    return new_model(name, vocab_size, head, **{**SMALL, **more, **settings})


# --- sequences and masks -------------------------------------------------------------------------
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
    hide = masking(small("masked-lm", vocab_size=1_000), tokenizer)
    row = hide({"ids": rows[0]}, np.random.default_rng(0))
    chosen, special = row["labels"] != IGNORED, rows[0] < 2
    assert chosen.sum() == round(0.15 * (~special).sum()) and not (chosen & special).any()
    assert (row["labels"][chosen] == rows[0][chosen]).all()
    assert (row["ids"][~chosen] == rows[0][~chosen]).all()
    new, old = row["ids"][chosen], rows[0][chosen]
    assert (new == 1).mean() == pytest.approx(0.8, abs=0.02) and not (new == 0).any()
    assert ((new != 1) & (new != old)).mean() == pytest.approx(0.1, abs=0.02)
    found = [hide({"ids": r}, np.random.default_rng(0))["labels"].tolist() for r in rows[1:]]
    assert found == [[IGNORED, 5, IGNORED], [IGNORED] * 2]


# --- training ------------------------------------------------------------------------------------
@pytest.mark.parametrize("head", ["causal-lm", "masked-lm"])
def test_pretraining_on_sequences_learns(tokenizer, head):
    _, history = pretrain_on_sequences(small(head), tokenizer, TEXTS * 10, epochs=12, **RUN)
    first, last = history.loss.iloc[:3].mean(), history.loss.iloc[-3:].mean()
    assert first > 4 and last < first - 1.5


def test_a_run_killed_while_it_saves_goes_on_bit_by_bit(tokenizer, tmp_path, monkeypatch):
    """With masks, which are drawn, with dropout, and with a head tied to the embeddings."""
    model, file = small("masked-lm"), tmp_path / "text.safetensors"
    given = (model, tokenizer, TEXTS * 3)
    options = {**RUN, "epochs": 4, "batch_size": 4, "every": 3}
    whole, history = pretrain_on_sequences(*given, **options)
    save, runs = checkpoints.save_file, []

    def killed(tensors, draft, metadata):
        runs.append(json.loads(metadata["run"])["history"])
        if len(runs) == 2:
            draft.write_bytes(b"half")
            raise KeyboardInterrupt
        save(tensors, draft, metadata=metadata)

    monkeypatch.setattr(checkpoints, "save_file", killed)
    with pytest.raises(KeyboardInterrupt):
        pretrain_on_sequences(*given, file=file, **options)
    assert [found.name for found in tmp_path.iterdir()] == [file.name]
    for _ in range(2):  # the second finds that all is done
        resumed, again = pretrain_on_sequences(*given, file=file, **options)
        pd.testing.assert_frame_equal(
            history.drop(columns="seconds"), again.drop(columns="seconds"), check_exact=True
        )
        one, other = whole.state_dict(), resumed.state_dict()
        assert all(torch.equal(one[name], other[name]) for name in one)
        assert resumed.get_input_embeddings().weight is resumed.get_output_embeddings().weight
    assert [len(run) for run in runs] == [3, 6, 6, 9, 12] and again.seconds.gt(0).all()


def test_a_damaged_checkpoint_is_refused(tokenizer, tmp_path):
    file = tmp_path / "text.safetensors"
    file.write_bytes(b"nothing of the sort")
    with pytest.raises(ValueError, match="no checkpoint that can be read"):
        pretrain_on_sequences(small(), tokenizer, TEXTS, file=file, **RUN)


def test_a_masked_model_needs_a_mask():
    plain = th.train_byte_level_bpe(TEXTS, vocab_size=270, special_tokens=["<end>"])
    with pytest.raises(ValueError, match="'mask' in its name, and this tokenizer has 0: give"):
        pretrain_on_sequences(small("masked-lm"), plain, TEXTS, **RUN)


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
    monkeypatch.setattr(
        choices, "pretrain_on_sequences", lambda _, __, given, **how: texts.extend(given)
    )
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
        prompt = choices.prompted(question)
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


def test_accuracy_by_subject():
    answers = pd.DataFrame({"subject": list("aaaab"), "right": [True] * 3 + [False] * 2})
    shares = {"micro": 0.6, "macro": 0.375, "a": 0.75, "b": 0}
    assert choices.answer_accuracy(answers).to_dict() == shares


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
    labelled = [{"ids": r, "labels": np.where(r % 2, r, IGNORED)} for r in rows]
    batch = collate(labelled)
    head = "causal-lm" if causal else "masked-lm"
    model = new_model(config, head=head).eval()
    classifier = new_model(config, head=CLASSES).eval()
    assert head_of(model, head) == head
    assert sequence_length(model) == (63 if family == "roberta" else 64)
    with torch.no_grad():
        whole = model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits
        found = label_logits(model, batch)
        assert torch.allclose(found, whole[batch["labels"] != IGNORED], atol=1e-5)
        pooled, logits = states(classifier, batch["ids"], batch["mask"])
        for i, row in enumerate(map(torch.from_numpy, rows)):
            alone = {"input_ids": row[None], "attention_mask": torch.ones_like(row[None])}
            state = classifier.base_model(**alone).last_hidden_state[0, -1 if causal else 0]
            wanted = classifier.score(state) if causal else classifier(**alone).logits[0]
            assert torch.allclose(pooled[i], state, atol=1e-5)
            assert torch.allclose(logits[i], wanted, atol=1e-5)
