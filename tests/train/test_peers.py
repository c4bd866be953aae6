"""Independent trainers, written in Rust, learn the same merges; skipped where they are not installed."""

import json

import pytest
from strategies import loaded

import tokhelpers as th

LANGUAGES = ["fi", "ru", "ar"]


@pytest.fixture(scope="module")
def lines():
    texts = [*th.load_corpus("hpo", chars=200_000)]
    for language in LANGUAGES:
        texts += th.load_corpus(f"wordfreq:{language}", chars=100_000)
    return [" ".join(text.split()) for text in texts]


def merges_of(tokenizer):
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def test_from_scratch_the_merges_are_those_of_gigabpe(tmp_path, lines):
    gigabpe = pytest.importorskip("gigabpe")
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(lines), "utf-8")
    ours = th.train_byte_level_bpe(th.load_corpus(f"text:{file}", split="all"), vocab_size=2_256)
    options = {"vocab_size": 2_256, "pretokenizer": "bytelevel"}
    _, merges = gigabpe.train_bpe(
        [str(file)], **options
    )  # it has no tokens for bytes that are missing
    assert list(map(tuple, merges))[:2_000] == merges_of(ours)


@pytest.mark.parametrize("name", ["a new one", "smollm2-135m"])
def test_continued_the_merges_are_those_of_bpe_continue(lines, name):
    """With merge skipping, bpe-continue takes a word that is a token whole, and we learn from its parts."""
    peer = pytest.importorskip("bpe_continue")
    small = th.train_byte_level_bpe(lines[::3], vocab_size=1_000)
    base = small if name == "a new one" else loaded(name)
    ours = th.continue_bpe(base, lines, 1_000)
    options = {"vocab_size": base.get_vocab_size() + 1_000, "show_progress": False}
    theirs = merges_of(peer.continue_training(base, texts=lines, **options))
    assert theirs[len(merges_of(base)) :] == ours.merges
