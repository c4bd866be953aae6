"""The thesis' experiment: every arm in every family, and the full-size command with small stand-ins."""

from types import SimpleNamespace

import pandas as pd
import pytest
import torch
import transformers
from tokenizers import processors
from typer.testing import CliRunner

import tokhelpers as th
from tokhelpers.models.architectures import configuration, new_model
from tokhelpers.models.experiments import as_classifier, two_stages
from tokhelpers.models.questions import Question
from tools import thesis
from tools.thesis import ARMS, MODELS, app, extended_by

GENERAL = ["the house stands on a hill and the river runs below it", "we walk home in the rain"] * 8
MEDICAL = ["chronic hepatitis with fibrosis of the liver", "acute nephritis without fever"] * 12
TERMS = ["hepatitis", "nephritis", "gastritis", "fibrosis", "arthritis"] * 12
SMALL = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL |= {"num_key_value_heads": 2, "intermediate_size": 16}
OPTIONS = ("hepatitis", "nephritis", "gastritis", "arthritis")
QUESTIONS = [
    Question(f"Which of these harms the {organ}?", OPTIONS, place, organ, "It ends in itis.")
    for place, organ in enumerate(("liver", "kidney", "stomach", "joint"))
]


def base(family: str):
    if family == "byte-level":
        return th.train_byte_level_bpe(GENERAL, vocab_size=300, special_tokens=["<|endoftext|>"])
    if family == "sentencepiece":
        return th.train_sentencepiece_bpe(GENERAL, vocab_size=320, special_tokens=["<s>"])
    special = ["[CLS]", "[SEP]", "[MASK]"]
    made = th.train_wordpiece([*GENERAL, *MEDICAL], vocab_size=60, special_tokens=special)
    ends = [(name, made.token_to_id(name)) for name in special[:2]]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, ends)
    return made


@pytest.mark.parametrize("family", ["byte-level", "sentencepiece", "wordpiece"])
@pytest.mark.parametrize("arm", ARMS)
def test_each_arm_in_each_family(family, arm):
    old = base(family)
    if family == "wordpiece" and arm == "continued":
        with pytest.raises(ValueError, match="a BPE tokenizer is needed"):
            extended_by(arm, old, MEDICAL, TERMS, 5)
        return
    new = extended_by(arm, old, MEDICAL, TERMS, 5)
    assert new.get_vocab_size() == old.get_vocab_size() + (0 if arm == "none" else 5)
    before, after = (len(t.encode(MEDICAL[0], add_special_tokens=False).ids) for t in (old, new))
    assert (after == before) if arm == "none" else (after < before)


def test_the_supplement_is_trained_on_what_the_arm_says():
    old = base("byte-level")
    only_terms = set(extended_by("crawled", old, MEDICAL, ["zzzz"] * 20, 1).get_vocab())
    assert only_terms - set(old.get_vocab()) == {"zz"}
    only_texts = set(extended_by("auto", old, ["qqqq"] * 20, TERMS, 1).get_vocab())
    assert only_texts - set(old.get_vocab()) == {"qq"}


def test_an_unknown_arm():
    with pytest.raises(ValueError, match="no arm is called 'best': use none, auto, crawled, cont"):
        extended_by("best", base("byte-level"), MEDICAL, TERMS, 5)


@pytest.mark.parametrize(
    "family, architecture", [("byte-level", "small-llama"), ("wordpiece", "small-bert")]
)
def test_two_stages(family, architecture):
    old = base(family)
    new = extended_by("auto", old, MEDICAL, TERMS, 5)
    task = "causal-lm" if architecture == "small-llama" else "masked-lm"
    small = {k: v for k, v in SMALL.items() if "key" not in k or "llama" in architecture}
    model = new_model(architecture, old.get_vocab_size(), task, **small)
    before = [p.clone() for p in model.parameters()]
    state = torch.get_rng_state()
    options = {"learning_rate": 1e-3, "batch_size": 8, "epochs": 2, "length": 256, "device": "cpu"}
    stages = [
        two_stages(
            model,
            old,
            new,
            MEDICAL,
            GENERAL,
            QUESTIONS,
            QUESTIONS,
            pretraining=options,
            choices=options,
        )
        for _ in range(2)
    ]
    row, again = (pd.Series(stage).drop("seconds") for stage in stages)
    assert row.equals(again)
    assert row.tokens == new.get_vocab_size() and row.loss_per_byte > 0
    assert {"liver", "kidney", "stomach", "joint"} <= set(row.index)
    assert row.micro == row.macro == row[["liver", "kidney", "stomach", "joint"]].mean()
    rows = new.get_vocab_size() - old.get_vocab_size()
    if task == "causal-lm":
        assert row.parameters == sum(p.numel() for p in model.parameters()) + rows * 12
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_classifier_keeps_the_body():
    model = new_model("small-bert", 60, "masked-lm")
    made = as_classifier(model, 4)
    body = dict(made.base_model.named_parameters())
    for name, parameter in model.base_model.named_parameters():
        assert torch.equal(body[name], parameter)
    assert made.classifier.weight.shape == (4, 192)


@pytest.fixture
def no_hub(monkeypatch, tmp_path):
    """Small stand-ins for everything that comes from the hub; what was asked for is kept."""
    asked = []
    smollm, bert = ("@".join(MODELS[name][:2]) for name in ("smollm2-135m", "bert-base-cased"))
    tokenizers = {smollm: base("byte-level"), bert: base("wordpiece")}

    def load_corpus(name, *, chars=None, split="train", column="text"):
        asked.append((name, split, chars, column))
        return TERMS if name == "hpo-names" else MEDICAL

    def load_questions(name, split=None, *, faulty="raise"):
        asked.append((name, split, faulty))
        return QUESTIONS

    def from_pretrained(architecture, head):
        small = {k: v for k, v in SMALL.items() if "key" not in k or "llama" in architecture}
        place = smollm if "llama" in architecture else bert
        rows = tokenizers[place].get_vocab_size()

        def made(name, *, revision, use_safetensors):
            assert f"{name}@{revision}" == place and use_safetensors
            return new_model(architecture, rows, head, **small)

        return made

    monkeypatch.setattr(thesis, "load_corpus", load_corpus)
    monkeypatch.setattr(thesis, "load_questions", load_questions)
    monkeypatch.setattr(thesis, "load_tokenizer", tokenizers.__getitem__)
    for auto, architecture, head in (
        (transformers.LlamaForCausalLM, "small-llama", "causal-lm"),
        (transformers.AutoModelForMaskedLM, "small-bert", "masked-lm"),
    ):
        monkeypatch.setattr(auto, "from_pretrained", from_pretrained(architecture, head))
    small = SimpleNamespace(max_position_embeddings=200)
    monkeypatch.setattr(thesis, "configuration", lambda name: configuration(name) and small)
    monkeypatch.setenv("TOKHELPERS_MEASURED", str(tmp_path / "measured"))
    monkeypatch.chdir(tmp_path)
    return asked


@pytest.mark.parametrize(
    "model, arm", [("smollm2-135m", "continued"), ("bert-base-cased", "crawled")]
)
def test_the_command(no_hub, tmp_path, model, arm):
    told = CliRunner().invoke(app, [model, arm, "--tokens", "3", "--chars", "1000"])
    assert told.exit_code == 0, told.output
    table = pd.read_csv(tmp_path / "measured" / f"thesis_{model}_{arm}_3.csv")
    assert table.added[0] == 3 and {"MedQA", "MedMCQA", "MMLU anatomy"} <= set(table.columns)
    assert (thesis.PUBMED, "train", 1000, "content") in no_hub
    assert ("medmcqa", "train", "skip") in no_hub and ("mmlu:anatomy", None, "skip") in no_hub
    assert len(list((tmp_path / "runs" / model).rglob("checkpoint.safetensors"))) == 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["gpt-2", "none"], "no model is called 'gpt-2': use bert-base-cased"),
        (["bert-base-cased", "continued"], "bert-base-cased has no arm 'continued'"),
        (["smollm2-135m", "best"], "smollm2-135m has no arm 'best'"),
    ],
)
def test_mistakes_on_the_command_line(no_hub, arguments, message):
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 2 and message in told.output
