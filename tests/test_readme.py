"""What the README tells to type works on a small text, and its tables are those of data/."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tokhelpers as th
from tools import readme

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with `my_texts`: a few thousand lines in two files."""
    (tmp_path / "my_texts").mkdir()
    for split in ("train", "test"):
        lines = th.load_corpus("hpo", chars=800_000, split=split)
        (tmp_path / "my_texts" / f"{split}.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.long
def test_commands(place):
    [commands] = [block for block in blocks("") if "-m tokhelpers" in block]
    for command in commands.splitlines():
        python, *arguments = shlex.split(command)
        assert python == ".venv/bin/python"
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
        assert done.returncode in (0, 1) and done.stdout, done.stderr
    same = th.load_tokenizer(str(place / "same-size"))
    assert same.get_vocab_size() == th.load_tokenizer("llama-3").get_vocab_size()


@pytest.mark.long
@pytest.mark.filterwarnings("default::UserWarning")  # so little text yields fewer tokens
def test_code(place):
    [code] = blocks("python")
    names = {}
    exec(code, names)
    assert names["longer"].get_vocab_size() == 49_152 + 1_000
    assert len(names["model"].get_input_embeddings().weight) == 49_152 + 1_000
    assert (place / "longer" / "tokenizer.json").is_file()


# --- its tables ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["README.md", pytest.param("CONTRIBUTING.md", marks=pytest.mark.long)]
)
def test_the_tables_are_those_of_data(name):
    """CONTRIBUTING's has the number of cases in it, for which all tests are collected."""
    text = (Path(__file__).parents[1] / name).read_text(encoding="utf-8")
    assert readme.filled(text, readme.FILES[name]) == text, "make readme writes it anew"
