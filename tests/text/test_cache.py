"""Counts of named corpora that are kept: the same counts, found by what decides them, never in the way."""

from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import cache, counting


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for counts, switched on."""
    monkeypatch.setenv("TOKHELPERS_COUNT_CACHE", "1")
    monkeypatch.setenv("TOKHELPERS_CACHE", str(tmp_path))
    return tmp_path / "counts"


@pytest.fixture
def tallied(monkeypatch):
    """Notes each corpus that is really counted."""
    counted, real = [], counting.tally
    monkeypatch.setattr(counting, "tally", lambda *given: counted.append(1) or real(*given))
    return counted


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    return tokenizer


def everything(counts):
    sizes = (counts.chars, counts.bytes, counts.spaced_words, counts.documents, counts.rules)
    return list(counts.items()), sizes


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hpo", {}),
        pytest.param("icd-10-cm", {"split": "test", "chars": 600_000}, marks=pytest.mark.long),
        pytest.param("wordfreq:is", {}, marks=pytest.mark.long),
        pytest.param("wordfreq:fi", {"chars": 1_100_000, "seed": 4}, marks=pytest.mark.long),
    ],
)
def test_a_corpus_is_counted_once(folder, tallied, tokenizer, name, options, monkeypatch):
    monkeypatch.setattr(cache, "LEAST_BYTES", 500_000)
    corpus = th.load_corpus(name, **options)
    first = th.count_pretokens(corpus, tokenizer)
    assert len(list(folder.iterdir())) == len(tallied) == 1
    again = th.count_pretokens(th.load_corpus(name, **options), tokenizer)
    some = th.count_pretokens(corpus, tokenizer, min_count=9)
    assert len(tallied) == 1 and everything(again) == everything(first)
    assert dict(some) == {word: n for word, n in first.items() if n >= 9}
    monkeypatch.setenv("TOKHELPERS_COUNT_CACHE", "0")
    assert everything(th.count_pretokens(corpus, tokenizer)) == everything(first)
    assert len(tallied) == 2


def test_whatever_decides_the_counts_is_part_of_the_name(tokenizer, monkeypatch):
    corpus, rules = th.load_corpus("wordfreq:fi"), counting.cutting_rules(tokenizer)
    values = {"name": "wordfreq:sv", "chars": 9, "split": "test", "seed": 1, "source": "fi, 99"}
    others = [replace(corpus, **{field: value}) for field, value in values.items()]
    keys = [cache._key(some, rules) for some in (corpus, *others)]
    keys.append(cache._key(corpus, "{}"))
    monkeypatch.setattr(cache, "_code", lambda: ["another program"])
    keys.append(cache._key(corpus, rules))
    assert len(set(keys)) == len(keys) == 8


def test_damaged_counts_are_counted_again(folder, tallied, tokenizer):
    corpus = th.load_corpus("hpo")
    first = th.count_pretokens(corpus, tokenizer)
    [file] = folder.iterdir()
    whole = file.read_bytes()
    for damage in (b"", whole[:-100], whole[:500] + bytes(500) + whole[1000:]):
        file.write_bytes(damage)
        assert everything(th.count_pretokens(corpus, tokenizer)) == everything(first)
        assert file.read_bytes() == whole
    assert len(tallied) == 4


def test_a_folder_that_cannot_be_written_to_is_passed_over(folder, tallied, tokenizer):
    folder.write_text("a file in its place")
    corpus = th.load_corpus("hpo")
    assert th.count_pretokens(corpus, tokenizer) and th.count_pretokens(corpus, tokenizer)
    assert len(tallied) == 2 and folder.read_text() == "a file in its place"


def test_what_is_small_or_may_change_is_not_kept(folder, tokenizer, tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    file.write_text("some text\n" * 110_000)
    small, local = th.load_corpus("hpo", chars=100_000), th.load_corpus(f"text:{file}")
    for corpus in (small, local, ["some text"] * 110_000, {"some text": 10**9}):
        assert th.count_pretokens(corpus, tokenizer)
    monkeypatch.setattr(cache, "CHECKOUT", None)  # only the package is installed
    assert th.count_pretokens(th.load_corpus("hpo"), tokenizer)
    assert not folder.exists()
