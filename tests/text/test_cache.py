"""Counts of named corpora that are kept: the same counts, found by what decides them, never in the way."""

from dataclasses import replace

import pytest
from hostile_files import everything

import tokhelpers as th
from tokhelpers.text import counting


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for counts, switched on."""
    monkeypatch.setenv("TOKHELPERS_COUNT_CACHE", "1")
    monkeypatch.setenv("TOKHELPERS_CACHE", str(tmp_path))
    return tmp_path / "counts"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hpo", {}),
        pytest.param("wordfreq:fi", {"chars": 1_100_000, "seed": 4}, marks=pytest.mark.long),
    ],
)
def test_a_corpus_is_counted_once(folder, llama, name, options, monkeypatch):
    first = th.count_pretokens(th.load_corpus(name, **options), llama)
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(counting, "tally", None)  # from here on nothing can be counted
    corpus = th.load_corpus(name, **options)
    assert everything(th.count_pretokens(corpus, llama)) == everything(first)
    some = th.count_pretokens(corpus, llama, min_count=9)
    assert dict(some) == {word: n for word, n in first.items() if n >= 9}
    monkeypatch.setenv("TOKHELPERS_COUNT_CACHE", "0")
    with pytest.raises(TypeError):
        th.count_pretokens(corpus, llama)


def test_whatever_decides_the_counts_is_part_of_the_name(llama, monkeypatch):
    corpus, rules = th.load_corpus("wordfreq:fi"), counting.cutting_rules(llama)
    values = {"name": "wordfreq:sv", "chars": 9, "split": "test", "seed": 1, "source": "fi, 99"}
    others = [replace(corpus, **{field: value}) for field, value in values.items()]
    keys = [counting._key(some, rules) for some in (corpus, *others)]
    keys.append(counting._key(corpus, "{}"))
    monkeypatch.setattr(counting, "_code", lambda: ["another program"])
    keys.append(counting._key(corpus, rules))
    assert len(set(keys)) == len(keys) == 8


def test_damaged_counts_are_counted_again(folder, llama):
    corpus = th.load_corpus("hpo")
    first = th.count_pretokens(corpus, llama)
    [file] = folder.iterdir()
    whole = file.read_bytes()
    for damage in (b"", whole[:500] + bytes(500) + whole[1000:]):
        file.write_bytes(damage)
        assert everything(th.count_pretokens(corpus, llama)) == everything(first)
        assert file.read_bytes() == whole


def test_what_is_small_or_may_change_is_not_kept(folder, llama, tmp_path, monkeypatch):
    file = tmp_path / "a.txt"
    file.write_text("some text\n" * 110_000)
    small, local = th.load_corpus("hpo", chars=100_000), th.load_corpus(f"text:{file}")
    for corpus in (small, local, ["some text"] * 110_000, {"some text": 10**9}):
        assert th.count_pretokens(corpus, llama)
    monkeypatch.setattr(counting, "CHECKOUT", None)  # only the package is installed
    assert th.count_pretokens(th.load_corpus("hpo"), llama)
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_to_is_passed_over(folder, llama):
    folder.write_text("a file in its place")
    assert th.count_pretokens(th.load_corpus("hpo"), llama)
    assert folder.read_text() == "a file in its place"
