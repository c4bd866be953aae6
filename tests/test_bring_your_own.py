"""Notebook 20 with other tokenizers and texts in its first cell."""

import json
from pathlib import Path
from unittest.mock import MagicMock

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient
from test_project import code
from transformers import AutoTokenizer

import tokhelpers as th

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "20_bring_your_own.ipynb"
TOLD = "print(compared.to_json(), base.get_vocab_size(), N, sep='\\n')"


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> Path:
    """A folder with what a reader might bring."""
    folder = tmp_path_factory.mktemp("mine")
    splits = (
        th.load_corpus("hpo", chars=120_000),
        th.load_corpus("hpo", chars=15_000, split="test"),
    )
    lines = [line for split in splits for line in split]
    (folder / "reports.txt").write_text("\n".join(lines), encoding="utf-8")
    objects = (json.dumps({"body": line, "id": i}) for i, line in enumerate(lines))
    (folder / "reports.jsonl").write_text("\n".join(objects), encoding="utf-8")
    (folder / "short.txt").write_text("\n".join(lines[:20] + lines[-5:-1]), encoding="utf-8")
    english = th.load_corpus("wordfreq:en", chars=200_000)
    th.train_byte_level_bpe(english, vocab_size=1_200).save(str(folder / "bytes.json"))
    th.train_wordpiece(english, vocab_size=1_200).save(str(folder / "wordpiece.json"))
    return folder


@pytest.fixture
def run(mine, tmp_path, monkeypatch):
    """A function that runs the notebook with settings and returns table, folder, base's size, N."""
    monkeypatch.setenv("TOKHELPERS_FIGURES", str(tmp_path / "figures"))
    monkeypatch.setenv("TOKHELPERS_PROFILE", "quick")
    folder = tmp_path / "own"

    def run(**settings):
        settings = {"MODEL": "small-llama", "FOLDER": str(folder)} | settings
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        assert all(f"\n{name} = " in f"\n{first.source}" for name in settings)
        first.source += "".join(f"\n{name} = {value!r}" for name, value in settings.items())
        notebook.cells.append(nbformat.v4.new_code_cell(TOLD))
        where = {"metadata": {"path": str(NOTEBOOK.parent)}}
        quiet = ["--log-level=ERROR"]
        NotebookClient(notebook, timeout=1800, extra_arguments=quiet, resources=where).execute()
        table, *numbers = notebook.cells[-1].outputs[0].text.splitlines()
        return pd.DataFrame(json.loads(table)), folder, *map(int, numbers)

    return run


def size_of_saved(folder, mine):
    """The size of the tokenizer in the folder, which gives the whole text back, letter for letter."""
    loaded = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for line in (mine / "reports.txt").read_text(encoding="utf-8").splitlines():
        assert loaded.decode(loaded.encode(line, add_special_tokens=False)) == line
    return len(loaded)


@pytest.mark.long
def test_a_text_file_and_a_sentencepiece_tokenizer(run, mine, tmp_path):
    table, folder, size, n = run(TOKENIZER="mistral-v1", TEXT=str(mine / "reports.txt"))
    assert size == 32_000 and n > 0
    assert table.loc["continued", "more unreachable"] == 0
    assert table.loc["append", "more unreachable"] > 0
    assert table["gain %"].drop("as it was").min() > 0
    assert table.loc["exchange", "more ids"] == 0 and table.loc["continued", "more ids"] == n
    assert size_of_saved(folder, mine) == size + n
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "mistral-v1: BPE, 32,000 tokens" in card and "reports.txt" in card
    assert f"th.extend(base, continued, {n}, how='append')" in card
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        f"20_{topic}.{kind}" for topic in ("sizes", "ways") for kind in ("csv", "svg")
    }


@pytest.mark.long
def test_json_lines_a_tokenizer_file_and_a_fixed_size(run, mine):
    files = {"TOKENIZER": str(mine / "bytes.json"), "TEXT": str(mine / "reports.jsonl")}
    table, folder, size, n = run(**files, COLUMN="body", TOKENS=300, METHOD="exchange")
    assert (size, n) == (1_200, 300)
    assert table.loc["exchange", ["more ids", "against exchange %", "±"]].tolist() == [0, 0, 0]
    assert table.loc["continued", "against exchange %"] > 0  # the base has little to spare
    assert size_of_saved(folder, mine) == size


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TEXT", "short.txt", "short.txt is too short to hold anything out: 4 of the 10 documents"),
        ("TOKENIZER", "wordpiece.json", "a BPE tokenizer is needed, this one's model is WordPiece"),
        ("METHOD", "AdaptBPE", "METHOD is 'AdaptBPE': a tokenizer.json can hold one of contin"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_computed(mine, name, value, message):
    settings = {"TOKENIZER": "mistral-v1", "TEXT": "reports.txt"} | {name: value}
    first, *others = [cell["source"] for cell in code(NOTEBOOK)]
    inside = {"get_ipython": MagicMock()}
    exec(first, inside)
    inside |= {name: str(mine / v) if "." in v else v for name, v in settings.items()}
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        for source in others:
            assert "recommend_size" not in source
            exec(source, inside)
    assert message in str(error.value) and "\n" not in str(error.value)
