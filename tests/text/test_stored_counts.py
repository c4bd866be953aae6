"""Counts of real text in data/texts: format, licences, and that they count as the raw lines do."""

import csv
import lzma
import random
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from strategies import loaded

import tokhelpers as th
from tokhelpers.text import stored_counts
from tokhelpers.text.stored_counts import (
    LISTS,
    TEXTS,
    WITHOUT_SPACES,
    mixture,
    provenance,
    read_counts,
    shuffled_lines,
    stored_texts,
    training_sources,
)
from tokhelpers.tokenizer.files import CHECKOUT

PLACE = CHECKOUT / "data" / "texts"
ROWS = stored_texts().astype(str).to_dict("records")
PACKAGED = ["llama-3", "qwen", "mistral-nemo", "mistral-v1"]
# one language per script and per shape of word
VARIED = ["ekk_Latn", "arb_Arab", "hin_Deva", "kor_Hang", "vie_Latn", "kat_Geor", "ell_Grek"]


@pytest.fixture(scope="module")
def tools():
    """The script that made the counts; it is no part of the package."""
    import importlib.util

    file = CHECKOUT / "tools" / "make_texts.py"
    spec = importlib.util.spec_from_file_location("make_texts", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- what is there -------------------------------------------------------------------------------
def test_flores_is_there_in_the_languages_of_table_12_and_english():
    paper = set(th.published("paper_table_12").language)
    here = {row["language"] for row in ROWS if row["name"].startswith("flores:")}
    assert here == (paper | {"eng_Latn"}) - set(WITHOUT_SPACES)
    assert {row["language"] for row in ROWS} == here
    assert all(row["lines"] == "1012" for row in ROWS if row["name"].startswith("flores:"))


def test_each_text_has_a_file_a_source_and_a_licence_that_allows_this():
    allowed = re.compile(r"CC0 1\.0|CC BY-SA 4\.0|CC BY 2\.0 FR")
    for row in ROWS:
        assert allowed.match(row["licence"]), row["name"]
        assert re.search(r"@[0-9a-f]{12}, \S", row["source"]), row["name"]
        assert provenance(row["name"]) == (row["licence"], row["source"])
    files = {f.relative_to(PLACE).as_posix() for f in PLACE.rglob("*.xz")}
    assert files == {f"{row['name'].replace(':', '/')}.tsv.xz" for row in ROWS}
    assert len({(row["name"], row["split"]) for row in ROWS}) == len(ROWS)
    assert sum(f.stat().st_size for f in PLACE.rglob("*") if f.is_file()) <= 20_000_000
    written = (PLACE / "README.md").read_text()
    for kind in (*TEXTS, *LISTS):
        assert f"`{kind}:" in written, kind


@pytest.mark.long
@pytest.mark.parametrize("kind", [*TEXTS, *LISTS])
def test_the_files_are_tables_in_order_that_add_up_to_their_rows(kind):
    splits = ["train", "test"] if kind == "ntrex" else ["all"]
    rows = {(row["name"], row["split"]): row for row in ROWS if row["name"].startswith(f"{kind}:")}
    for name in dict.fromkeys(name for name, _ in rows):
        text = lzma.decompress((PLACE / f"{name.replace(':', '/')}.tsv.xz").read_bytes()).decode()
        header, *lines = (line.split("\t") for line in text.split("\n")[:-1])
        assert header == ["chunk", *(splits if kind == "ntrex" else ["count"])]
        chunks = [line[0] for line in lines]
        assert all(a < b for a, b in pairwise(chunks)), "sorted by code points, each once"
        # between two spaces stands no sentence
        assert not re.search(r"(?m)\S +\S+ +\S", "\n".join(chunks)), name
        assert max(map(len, chunks)) <= 46, name
        for column, split in enumerate(splits, 1):
            found = [(line[0], int(line[column])) for line in lines]
            sizes = {
                "unique": sum(n > 0 for _, n in found),
                "chunks": sum(n for _, n in found),
                "chars": sum(len(chunk) * n for chunk, n in found),
                "bytes": sum(len(chunk.encode()) * n for chunk, n in found),
                # each line has one chunk without a space before it, a list has none
                "lines": sum(n for chunk, n in found if chunk[0] != " "),
            }
            assert {size: int(rows[name, split][size]) for size in sizes} == sizes, (name, split)


# --- they count as the raw text does -------------------------------------------------------------
def check_totals(name, languages):
    """The numbers of ``data/measured`` come from the raw lines and the library's own encoder."""
    tokenizer = loaded(name)
    kept = th.measured("flores_tokens").set_index(["tokenizer", "language"])
    for language in languages:
        found = th.evaluate(tokenizer, th.load_corpus(f"flores:{language}"))
        for measure in ("tokens", "chars", "bytes"):
            assert found[measure] == kept[measure][name, language], language


def test_tokens_of_flores_are_those_of_its_raw_lines():
    check_totals("mistral-v1", VARIED)


@pytest.mark.long
@pytest.mark.parametrize("name", [*PACKAGED, "gpt-4", "gpt-4o", "llama-4"])
def test_tokens_of_flores_are_those_of_its_raw_lines_in_every_language(name):
    names = [row["name"] for row in ROWS if row["name"].startswith("flores:")]
    assert len(names) == 66
    check_totals(name, [n.partition(":")[2] for n in names])


def test_token_totals_are_kept_of_all_languages_those_without_spaces_too():
    kept = th.measured("flores_tokens")
    languages = {*th.published("paper_table_12").language, "eng_Latn"}
    for _, rows in kept.groupby("tokenizer"):
        assert set(rows.language) == languages and len(rows) == len(languages)
    assert {*PACKAGED, "gpt-4", "gpt-4o", "llama-4", "gpt-2"} <= set(kept.tokenizer)
    assert kept.groupby("language")[["lines", "chars", "bytes"]].nunique().eq(1).all(axis=None)


def raw(shared_data, name, split="train"):
    """The raw lines behind a stored text of FLORES or NTREX."""
    kind, _, code = name.partition(":")
    folder = {"flores": "flores200"}.get(kind, kind)
    with lzma.open(shared_data / folder / f"{code}.txt.xz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    if kind == "ntrex":
        return lines[:-400] if split == "train" else lines[-400:]
    return lines


# --- how they were made --------------------------------------------------------------------------
SIGNS = st.sampled_from([*"ab,.'ã好 １ʼ", " ", " ", "\u00a0", "\u3000", "▁", "a\u0301", "\u200b"])
LINES = st.lists(st.lists(SIGNS).map("".join).map(str.strip).filter(bool), min_size=1)


@given(LINES)
def test_any_line_has_the_pretokens_of_its_chunks(tools, lines):
    assert all("".join(tools.BETWEEN.split(line)) == line for line in lines)
    counts = tools.counts_of(lines)
    for name in ("llama-3", "qwen"):
        tokenizer = loaded(name)
        whole, parts = th.count_pretokens(lines, tokenizer), th.count_pretokens(counts, tokenizer)
        assert dict(whole) == dict(parts)
        assert (whole.chars, whole.bytes) == (parts.chars, parts.bytes)


def test_the_same_counts_give_the_same_bytes_in_any_order(tools):
    words = [" ja", "See", " õun,", " 好", " ja."]
    packed = {
        tools.packed({"count": Counter(dict.fromkeys(words[i:] + words[:i], 2))}) for i in range(5)
    }
    assert len(packed) == 1
    assert lzma.decompress(packed.pop()).decode().splitlines()[:2] == ["chunk\tcount", " ja\t2"]
    with pytest.raises(ValueError, match="clean the raw text"):
        tools.packed({"count": Counter({"a\tb": 1})})


@pytest.mark.long
def test_the_script_makes_the_stored_counts_again(tools, shared_data):
    for name in ("flores:ekk_Latn", "ntrex:kaz"):
        splits = ("train", "test") if name.startswith("ntrex") else ("train",)
        for split in splits:
            counts = tools.counts_of(raw(shared_data, name, split))
            assert counts == read_counts(name, split)


# --- reading -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("flores:est_Latn", "there is flores:ekk_Latn"),
        ("flores:et", "there is flores:ekk_Latn"),
        ("ntrex:kaz_Cyrl", "there is ntrex:kaz"),
        ("opensubtitles:xx", "of 18; data/texts/texts.csv has them all"),
        ("flores:", "of 66; data/texts/texts.csv"),
        ("flores:tha_Thai", "written without spaces"),
        ("training:et", "there is training:ekk_Latn"),
        ("training:ory_Orya", "no text is called training:ory_Orya: there is training:urd_Arab"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name, near):
    for ask in (provenance, th.load_corpus):
        with pytest.raises(ValueError, match=re.escape(near)):
            ask(name)


def test_what_is_kept_as_counts_has_no_test_split_but_ntrex_and_flores():
    for name in ("opensubtitles:et", "training:ekk_Latn"):
        for ask in (provenance, th.load_corpus):
            with pytest.raises(
                ValueError, match=f"{name} is kept as counts and has no split 'test'"
            ):
                ask(name, split="test")
    flores = th.load_corpus("flores:ekk_Latn", split="test")
    assert flores.counts == read_counts("flores:ekk_Latn")
    train, test = (th.load_corpus("ntrex:est", split=split).counts for split in ("train", "test"))
    assert sum(n for c, n in train.items() if c[0] != " ") == 1_597
    assert sum(n for c, n in test.items() if c[0] != " ") == 400


def test_a_missing_checkout_and_a_damaged_file_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(stored_counts, "CHECKOUT", None)
    with pytest.raises(FileNotFoundError, match="clone the project"):
        read_counts("flores:ekk_Latn")
    monkeypatch.setattr(stored_counts, "CHECKOUT", tmp_path)
    (tmp_path / "data" / "texts" / "flores").mkdir(parents=True)
    for name, size in {"texts.csv": None, "flores/ekk_Latn.tsv.xz": -100}.items():
        (tmp_path / "data" / "texts" / name).write_bytes((PLACE / name).read_bytes()[:size])
    with pytest.raises(ValueError, match=r"ekk_Latn.tsv.xz is damaged"):
        read_counts("flores:ekk_Latn")


def test_shuffled_lines_hold_the_same_chunks_and_as_many_lines(llama):
    counts = read_counts("flores:ekk_Latn")
    lines = list(shuffled_lines(counts, "0"))
    assert len(lines) == 1_012 and lines == list(shuffled_lines(counts, "0"))
    assert lines != list(shuffled_lines(counts, "1"))
    assert dict(th.count_pretokens(lines, llama)) == dict(th.count_pretokens(counts, llama))


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 99), min_size=1), min_size=2)
)
def test_each_source_of_a_mixture_weighs_the_same(sources):
    mixed = mixture(sources)
    assert abs(sum(mixed.values()) - len(sources) * 10**9) <= 6 * len(sources)
    random.Random(0).shuffle(sources)
    assert mixture(sources) == mixed
    in_order = sorted(mixed.items(), key=lambda item: (-item[1], item[0]))
    for most in (0, 1, 3, 9, None):
        assert list(mixture(sources, most).items()) == in_order[:most]


# --- training texts ------------------------------------------------------------------------------
def test_each_language_but_two_has_one_training_text():
    with open(PLACE / "chosen.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    chosen = [row for row in rows if row["chosen"] == "yes"]
    languages = {row["language"] for row in ROWS}
    # nothing is at hand in which Moroccan Arabic or Odia could be learned
    assert [row["language"] for row in chosen] == sorted(languages - {"ary_Arab", "ory_Orya"})
    names = {row["name"] for row in ROWS}
    for row in chosen:
        sources = training_sources(row["language"])
        assert all(name in names or name.startswith("wordfreq:") for name in sources)
        assert not any(name.startswith("flores") for name in sources)
        tried = [r for r in rows if r["language"] == row["language"]]
        assert float(row["ratio_development"]) == max(float(r["ratio_development"]) for r in tried)


@pytest.mark.long
def test_a_choice_comes_again(tools):
    with open(PLACE / "chosen.csv", newline="", encoding="utf-8") as file:
        kept = [row for row in csv.DictReader(file) if row["language"] == "kaz_Cyrl"]
    fresh = tools.choose("kaz_Cyrl", "ntrex:kaz")
    assert [{key: str(value) for key, value in row.items()} for row in fresh] == kept


# --- through load_corpus -------------------------------------------------------------------------
def test_a_corpus_has_the_counts_and_iterates_over_the_same_chunks(llama):
    corpus = th.load_corpus("flores:ekk_Latn")
    assert list(corpus.counts)[:2] == [" ja", " on"] and corpus.counts["See"] == 22
    assert list(corpus.counts.values()) == sorted(corpus.counts.values(), reverse=True)
    assert corpus.licence.startswith("CC BY-SA 4.0") and "est_Latn.devtest" in corpus.source
    chunks = list(corpus)
    assert len(chunks) == sum(corpus.counts.values()) and set(chunks) == set(corpus.counts)
    assert dict(th.count_pretokens(chunks, llama)) == dict(th.count_pretokens(corpus, llama))


def test_part_of_a_text_is_lines_and_part_of_a_list_is_words():
    assert sum(map(len, th.load_corpus("ntrex:kaz", chars=3_000))) == 3_000
    drawn = th.load_corpus("opensubtitles:et", chars=3_000)
    known = {chunk[1:] for chunk in read_counts("opensubtitles:et")}
    words = " ".join(drawn).split()
    assert drawn.counts is None and len(words) > 400 and known.issuperset(words[:-1])
    assert list(drawn) == list(th.load_corpus("opensubtitles:et", chars=3_000))
    assert list(drawn) != list(th.load_corpus("opensubtitles:et", chars=3_000, seed=1))


@pytest.mark.long
def test_a_training_text_is_its_sources_mixed():
    corpus = th.load_corpus("training:ekk_Latn")
    sources = training_sources("ekk_Latn")
    assert len(sources) > 1
    assert corpus.counts == mixture(th.load_corpus(name).counts for name in sources)
    assert all(name in corpus.source for name in sources)
    with_wordfreq = th.load_corpus("training:fin_Latn")
    assert "wordfreq:fi" in with_wordfreq.source and "wordfreq" in with_wordfreq.licence
