"""The thesis' experiment: every arm in every family, and the full-size command with small stand-ins."""

import json

import pandas as pd
import pytest
import torch
from questions import Question
from strategies import one_fast
from tokenizers import processors
from typer.testing import CliRunner

import tokhelpers as th
from tokhelpers.models.architectures import new_model
from tools import thesis
from tools.thesis import MODELS, app, extended_by

pytestmark = pytest.mark.usefixtures("one_thread")
GENERAL = ["the house stands on a hill and the river runs below it", "we walk home in the rain"] * 8
MEDICAL = ["chronic hepatitis with fibrosis of the liver", "acute nephritis without fever"] * 12
TERMS = ["hepatitis", "nephritis", "gastritis", "fibrosis", "arthritis"] * 12
SMALL = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 16, "num_key_value_heads": 2}
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
def test_the_thesis_method_in_each_family(family):
    old = base(family)
    new, fewer = (extended_by("auto", old, MEDICAL, TERMS, n) for n in (5, 13))
    sizes = [t.get_vocab_size() for t in (old, fewer, new)]
    before, after = (len(t.encode(MEDICAL[0], add_special_tokens=False).ids) for t in (old, new))
    assert sizes[0] <= sizes[1] <= sizes[2] > sizes[0] and after < before
    assert extended_by("none", old, [], [], 5) is extended_by("untrained", old, [], [], 5) is old


def test_the_supplement_is_trained_on_what_the_arm_says():
    """Terms for crawled, the first half of the texts for the others; each token often enough."""
    old = base("byte-level")
    only_terms = set(extended_by("crawled", old, MEDICAL, ["zzzz"] * 20, 30).get_vocab())
    assert only_terms - set(old.get_vocab()) == {"zz"}
    texts = ["qqqq"] * 20 + ["vvvv"] * 20
    for arm in ("auto", "continued"):
        only_texts = set(extended_by(arm, old, texts, TERMS, 30).get_vocab())
        assert only_texts - set(old.get_vocab()) == {"qq"}


@pytest.mark.parametrize("tied", [True, False])
def test_new_rows_start_as_in_table_8(tied):
    """Embeddings by the old rows' mean and covariance; an untied head by a fixed deviation."""
    old = base("byte-level")
    new = extended_by("auto", old, MEDICAL, TERMS, 2)
    n, rows = new.get_vocab_size() - old.get_vocab_size(), old.get_vocab_size()
    model = new_model("small-llama", rows, tie_word_embeddings=tied, **SMALL | {"hidden_size": 64})
    made = thesis.with_new_rows(model, old, new, 1 / 24, 7)
    normal = th.transfer_embeddings(model, old, new, init="normal", seed=7)
    embeddings = (m.get_input_embeddings().weight for m in (made, normal))
    assert torch.equal(*embeddings) and n > 20
    head = made.get_output_embeddings().weight
    assert (head is made.get_input_embeddings().weight) == tied
    if not tied:
        assert torch.equal(head[:rows], model.get_output_embeddings().weight)
        assert head[rows:].std().item() == pytest.approx(1 / 24, rel=0.1)


def test_a_shared_embedding_is_the_head(tmp_path):
    """MobileLLM's configuration says so in its own word, and its file has no head."""
    made = new_model("small-llama", 300, **SMALL)
    made.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["tie_word_embeddings"]
    setup = MODELS["mobilellm-125m"]._replace(hub_id=tmp_path, commit=None)

    def load(shared):
        (tmp_path / "config.json").write_text(json.dumps(config | {"share_embedding": shared}))
        return th.models.load_model(tmp_path, setup.kind, config=thesis.configured(setup))

    found = load(True)
    assert found.get_output_embeddings().weight is found.get_input_embeddings().weight
    with pytest.raises(ValueError, match=r"1 missing \(lm_head.weight\): load it with"):
        load(False)


@pytest.mark.parametrize("name, setup", MODELS.items())
def test_models_have_the_published_sizes(name, setup, monkeypatch):
    head = "masked-lm" if name.startswith("bert") else "causal-lm"
    monkeypatch.setattr(thesis, "configured", lambda setup: None)
    whole, smaller = (new_model(name, n, head=head, device="meta") for n in (None, 20_000))
    monkeypatch.setattr(th.models, "load_model", lambda *_, **__: whole)
    assert thesis.loaded(setup, torch.float32) is whole
    monkeypatch.setattr(th.models, "load_model", lambda *_, **__: smaller)
    with pytest.raises(ValueError, match="and Table 9 says .*: the file is another model's"):
        thesis.loaded(setup, torch.float32)


@pytest.fixture
def no_hub(monkeypatch, tmp_path):
    """Small stand-ins for everything that comes from the hub; what was asked for is kept."""
    asked = []

    def stand_in(module, name, answer):
        def function(*given, **how):
            asked.append((name, *given, *how.values()))
            return answer(*given)

        monkeypatch.setattr(module, name, function)

    def tokenizer(place):
        return base("wordpiece" if "bert" in place else "byte-level")

    def model(setup, dtype):
        kind = ("small-bert", "masked-lm") if setup.name == "BERT" else ("small-llama", "causal-lm")
        rows = tokenizer(setup.hub_id).get_vocab_size()
        return new_model(kind[0], rows, kind[1], **SMALL).to(dtype)

    stand_in(th, "load_tokenizer", tokenizer)
    stand_in(th, "load_corpus", lambda name: TERMS if name == "hpo-names" else MEDICAL)
    stand_in(thesis, "load_questions", lambda *_: QUESTIONS)
    stand_in(thesis, "loaded", model)
    short = {name: setup._replace(length=200) for name, setup in MODELS.items()}
    monkeypatch.setattr(thesis, "MODELS", short)
    monkeypatch.setenv("TOKHELPERS_MEASURED", str(tmp_path / "measured"))
    monkeypatch.chdir(tmp_path)
    return asked


@pytest.mark.parametrize(
    "model, arm",
    one_fast(
        ("bert-base-cased", "crawled"), ("smollm2-135m", "continued"), ("smollm2-135m", "untrained")
    ),
)
def test_the_command(no_hub, tmp_path, model, arm):
    asked = ["--threshold", "5", "--words", "100", "--dtype", "float32", "--seed", "42"]
    told = CliRunner().invoke(app, [model, arm, *asked, "--seed", "43"])
    assert told.exit_code == 0, told.output
    table = pd.read_csv(tmp_path / "measured" / f"thesis_{model}_{arm}_5.csv")
    assert table.seed.tolist() == [42, 43] and table.threshold.eq(5).all()
    assert {"tied", "MedQA", "MedMCQA", "MMLU anatomy"} <= set(table.columns)
    setup, trained = thesis.MODELS[model], arm != "untrained"
    assert ("load_tokenizer", f"{setup.hub_id}@{setup.commit}") in no_hub
    assert ("loaded", setup, torch.float32) in no_hub
    assert ("load_questions", "mmlu:anatomy", "skip") in no_hub
    assert (("load_questions", "medmcqa", "train", "skip") in no_hub) == trained
    assert (("load_corpus", thesis.PUBMED, 700, "content") in no_hub) == trained
    found = list((tmp_path / "runs" / model).rglob("*.safetensors"))
    assert len(found) == (4 if trained else 0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["gpt-2", "none"], "no model is called 'gpt-2': use bert-base-cased"),
        (["bert-base-cased", "continued"], "bert-base-cased has no arm 'continued'"),
        (["smollm2-135m", "none", "--dtype", "float16"], "dtype is 'float16': use bfloat16"),
        pytest.param(
            ["smollm2-135m", "none"],
            "no device here has bfloat16 in hardware: say --dtype float32",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="a device has it"),
        ),
    ],
)
def test_mistakes_on_the_command_line(no_hub, arguments, message):
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 2 and message in told.output
