"""Notebook 20 with other tokenizers and texts in its first cell."""

import json
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from test_project import ROOT, code
from transformers import AutoTokenizer

import tokhelpers as th

pytestmark = pytest.mark.long
NOTEBOOK = ROOT / "notebooks" / "20_bring_your_own.ipynb"


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> Path:
    """A folder with what a reader might bring."""
    folder = tmp_path_factory.mktemp("mine")
    split = {"train": 120_000, "test": 15_000}
    lines = [line for s, n in split.items() for line in th.load_corpus("hpo", chars=n, split=s)]
    (folder / "reports.txt").write_text("\n".join(lines), encoding="utf-8")
    objects = (json.dumps({"body": line, "id": i}) for i, line in enumerate(lines))
    (folder / "reports.jsonl").write_text("\n".join(objects), encoding="utf-8")
    (folder / "short.txt").write_text("\n".join(lines[:20] + lines[-5:-1]), encoding="utf-8")
    (folder / "few.txt").write_text("\n".join(lines[:4]), encoding="utf-8")
    (folder / "apart.txt").write_text("\n".join(lines[-80:]), encoding="utf-8")
    english = th.load_corpus("wordfreq:en", chars=200_000)
    th.train_byte_level_bpe(english, vocab_size=1_200).save(str(folder / "bytes.json"))
    wordpiece = th.train_wordpiece(english, vocab_size=1_200, min_frequency=0)
    wordpiece.save(str(folder / "wordpiece.json"))
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs the notebook's cells with settings and returns its variables."""
    monkeypatch.setenv("TOKHELPERS_FIGURES", str(tmp_path / "figures"))
    monkeypatch.setenv("TOKHELPERS_PROFILE", "quick")

    def run(**settings):
        first, *others = code(NOTEBOOK)
        names = {"get_ipython": MagicMock()}
        exec(first["source"], names)
        assert settings.keys() <= names.keys()
        names |= {"MODEL": "small-llama", "FOLDER": tmp_path / "own"} | settings
        for cell in others:
            if "raises-exception" not in cell["metadata"].get("tags", []):
                exec(cell["source"], names)
        return names

    return run


def size_of_saved(folder, mine):
    """The size of the tokenizer in the folder, which gives the whole text back, letter for letter."""
    loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for line in (mine / "reports.txt").read_text(encoding="utf-8").splitlines():
        assert loaded.decode(loaded.encode(line, add_special_tokens=False)) == line
    return len(loaded)


@pytest.mark.filterwarnings("default")
def test_a_text_file_and_a_sentencepiece_tokenizer(run, mine, tmp_path):
    made = run(TOKENIZER="mistral-v1", TEXT=f"{mine}/reports.txt")
    table, n = made["compared"], made["N"]
    assert n > 0
    assert table.loc["continued", "more unreachable"] == 0
    assert table.loc["append", "more unreachable"] > 0
    assert table["gain %"].min() > 0
    assert table.loc["exchange", "more ids"] == 0 and table.loc["continued", "more ids"] == n
    assert size_of_saved(tmp_path / "own", mine) == 32_000 + n
    card = (tmp_path / "own" / "README.md").read_text(encoding="utf-8")
    assert "mistral-v1: BPE, 32,000 tokens" in card and "reports.txt" in card
    assert f"th.extend(base, continued, {n}, how='append')" in card
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"20_sizes.csv", "20_sizes.svg"}


@pytest.mark.filterwarnings("default")
def test_json_lines_a_tokenizer_file_and_a_fixed_size(run, mine, tmp_path):
    files = {"TOKENIZER": f"{mine}/bytes.json", "TEXT": f"{mine}/reports.jsonl"}
    several = {"GENERAL": ["ntrex:eng", "hpo-names"], "HELD_OUT": f"{mine}/apart.txt"}
    made = run(**files, **several, COLUMN="body", TOKENS=300, METHOD="exchange")
    table = made["compared"]
    assert {"general %", "ntrex:eng %", "hpo-names %"} < set(table.columns)
    assert set(made["held"]) < set((mine / "apart.txt").read_text("utf-8").splitlines())
    assert made["base"].get_vocab_size() == 1_200 and made["N"] == 300
    assert table.loc["exchange", ["more ids", "against exchange %", "±"]].tolist() == [0, 0, 0]
    assert table.loc["continued", "against exchange %"] > 0  # the base has little to spare
    assert size_of_saved(tmp_path / "own", mine) == 1_200


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TEXT", "short.txt", "short.txt is too short to hold anything out: 4 of the 10 documents"),
        ("TOKENIZER", "wordpiece.json", "a BPE tokenizer is needed, this one's model is WordPiece"),
        ("MODEL", "gpt9", "gpt9"),
        ("LIKE", "nowhere", "LIKE is 'nowhere': it has no tokenizer_config.json"),
        ("METHOD", "AdaptBPE", "METHOD is 'AdaptBPE': a tokenizer.json can hold one of contin"),
        (
            "CHARACTERS",
            "z-a",
            "CHARACTERS is 'z-a': this is no list of characters (bad character range",
        ),
        ("CHARACTERS", r"\p{Latin", r"after \p comes a name in braces"),
        ("TOKENS", 0, "TOKENS is 0: give a whole number from 1 on, or None"),
        ("TOKENS", 2.5, "TOKENS is 2.5: give a whole number from 1 on, or None"),
        ("MIN_FREQUENCY", 0, "MIN_FREQUENCY is 0: give a whole number from 1 on"),
        ("FOLDER", "reports.txt/own", "reports.txt/own': nothing can be written to reports.txt"),
        ("HELD_OUT", "reports.txt", "reports.txt': TEXT is trained on; name another text"),
        ("HELD_OUT", "few.txt", "few.txt is too short to hold anything out: 4 of the 10 documents"),
        ("GENERAL", [], "GENERAL is []: name one text at least"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_computed(
    run, mine, monkeypatch, name, value, message
):
    monkeypatch.setattr(th, "recommend_size", None)
    settings = {"TOKENIZER": "mistral-v1", "TEXT": f"{mine}/reports.txt"}
    named_file = isinstance(value, str) and "." in value
    value = str(mine / value) if named_file else value
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        run(**settings | {name: value})
    assert message in str(error.value) and "\n" not in str(error.value)
