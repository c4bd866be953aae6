"""Counts of real text in data/texts: format, licences, and that they count as the raw lines do."""

import csv
import random
import re

import make_texts
import pytest
from hypothesis import given, strategies as st
from strategies import loaded

import tokhelpers as th
from tokhelpers.common.files import CHECKOUT
from tokhelpers.text import shipped_counts
from tokhelpers.text.shipped_counts import (
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

PLACE = CHECKOUT / "data" / "texts"
ROWS = stored_texts().to_dict("records")
FLORES = [row["language"] for row in ROWS if row["name"].startswith("flores:")]
REAL = ["llama-3", "qwen", "mistral-nemo", "mistral-v1", "gpt-4", "gpt-4o", "llama-4"]
# one language per script and per shape of word
VARIED = ["ekk_Latn", "arb_Arab", "hin_Deva", "kor_Hang", "vie_Latn", "kat_Geor", "ell_Grek"]


# --- what is there --------------------------------------------------------------------------------
def test_flores_is_there_in_the_languages_of_table_12_and_english():
    paper = set(th.notebook.load_published("paper_table_12").language)
    assert set(FLORES) == (paper | {"eng_Latn"}) - set(WITHOUT_SPACES) and len(FLORES) == 66
    assert {row["language"] for row in ROWS} == set(FLORES)
    assert all(row["lines"] == 1012 for row in ROWS if row["name"].startswith("flores:"))


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
    assert all(f"`{kind}:" in written for kind in (*TEXTS, *LISTS))


@pytest.mark.long
def test_the_counts_add_up_to_their_rows_and_hold_no_sentence():
    for row in ROWS:
        counts = read_counts(row["name"], row["split"])
        assert not re.search(r"(?m)\S +\S+ +\S", "\n".join(counts)), row
        assert max(map(len, counts)) <= 46, row
        sizes = {
            "unique": len(counts),
            "chunks": sum(counts.values()),
            "chars": sum(len(chunk) * n for chunk, n in counts.items()),
            "bytes": sum(len(chunk.encode()) * n for chunk, n in counts.items()),
            # each line has one chunk without a space before it, a list has none
            "lines": sum(n for chunk, n in counts.items() if chunk[0] != " "),
        }
        assert sizes == {size: row[size] for size in sizes}, row


# --- they count as the raw text does --------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "languages"),
    [("mistral-v1", VARIED), *(pytest.param(n, FLORES, marks=pytest.mark.long) for n in REAL)],
)
def test_tokens_of_flores_are_those_of_its_raw_lines(name, languages):
    """The numbers of ``data/measured`` come from the raw lines and the library's own encoder."""
    kept = th.notebook.load_measured("flores_tokens").set_index(["tokenizer", "language"])
    for language in languages:
        found = th.evaluate(loaded(name), th.load_corpus(f"flores:{language}"))
        for measure in ("tokens", "chars", "bytes"):
            assert found[measure] == kept[measure][name, language], language


def test_token_totals_are_kept_of_all_languages_those_without_spaces_too():
    kept = th.notebook.load_measured("flores_tokens")
    for _, rows in kept.groupby("tokenizer"):
        assert sorted(rows.language) == sorted({*FLORES, *WITHOUT_SPACES})
    assert {*REAL, "gpt-2"} <= set(kept.tokenizer)
    assert kept.groupby("language")[["lines", "chars", "bytes"]].nunique().eq(1).all(axis=None)


# --- how they were made ---------------------------------------------------------------------------
SIGNS = st.sampled_from([*"ab,.'ã好 １ʼ", " ", " ", "\u00a0", "\u3000", "▁", "a\u0301", "\u200b"])
LINES = st.lists(st.lists(SIGNS).map("".join).map(str.strip).filter(bool), min_size=1)


@given(LINES)
def test_any_line_has_the_pretokens_of_its_chunks(lines):
    assert all("".join(make_texts.BETWEEN.split(line)) == line for line in lines)
    counts = make_texts.counts_of(lines)
    for name in ("llama-3", "qwen"):
        tokenizer = loaded(name)
        whole, parts = th.count_pretokens(lines, tokenizer), th.count_pretokens(counts, tokenizer)
        assert dict(whole) == dict(parts)
        assert (whole.chars, whole.bytes) == (parts.chars, parts.bytes)


@pytest.mark.long
def test_the_script_makes_the_stored_counts_again(shared_data):
    lines = make_texts.lines_of(shared_data / "flores200" / "ekk_Latn.txt.xz")
    assert make_texts.counts_of(lines) == read_counts("flores:ekk_Latn")
    lines = make_texts.lines_of(shared_data / "ntrex" / "kaz.txt.xz")
    for split, part in {"train": lines[:-400], "test": lines[-400:]}.items():
        assert make_texts.counts_of(part) == read_counts("ntrex:kaz", split)


# --- reading --------------------------------------------------------------------------------------
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
    with pytest.raises(ValueError, match=re.escape(near)):
        th.load_corpus(name)


def test_what_is_kept_as_counts_has_no_test_split_but_ntrex_and_flores():
    for name in ("opensubtitles:et", "training:ekk_Latn"):
        with pytest.raises(ValueError, match=f"{name} is kept as counts and has no split 'test'"):
            th.load_corpus(name, split="test")
    flores = th.load_corpus("flores:ekk_Latn", split="test")
    assert flores.counts == read_counts("flores:ekk_Latn")
    for split, lines in {"train": 1_597, "test": 400}.items():
        counts = th.load_corpus("ntrex:est", split=split).counts
        assert sum(n for chunk, n in counts.items() if chunk[0] != " ") == lines


def test_a_missing_checkout_and_a_damaged_file_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped_counts, "CHECKOUT", None)
    with pytest.raises(FileNotFoundError, match="clone the project"):
        read_counts("flores:ekk_Latn")
    monkeypatch.setattr(shipped_counts, "CHECKOUT", tmp_path)
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


def test_part_of_a_text_is_lines_and_part_of_a_list_is_words():
    assert sum(map(len, th.load_corpus("ntrex:kaz", chars=3_000))) == 3_000
    drawn = th.load_corpus("opensubtitles:et", chars=3_000)
    known = {chunk[1:] for chunk in read_counts("opensubtitles:et")}
    words = " ".join(drawn).split()
    assert drawn.counts is None and len(words) > 400 and known.issuperset(words[:-1])


# --- training texts -------------------------------------------------------------------------------
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


def test_each_language_but_two_has_one_training_text():
    with open(PLACE / "chosen.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    chosen = [row for row in rows if row["chosen"] == "yes"]
    # nothing is at hand in which Moroccan Arabic or Odia could be learned
    assert [row["language"] for row in chosen] == sorted({*FLORES} - {"ary_Arab", "ory_Orya"})
    names = {row["name"] for row in ROWS}
    for row in chosen:
        sources = training_sources(row["language"])
        assert all(name in names or name.startswith("wordfreq:") for name in sources)
        assert not any(name.startswith("flores") for name in sources)
        tried = [r for r in rows if r["language"] == row["language"]]
        assert float(row["ratio_development"]) == max(float(r["ratio_development"]) for r in tried)


@pytest.mark.long
def test_a_choice_comes_again():
    with open(PLACE / "chosen.csv", newline="", encoding="utf-8") as file:
        kept = [row for row in csv.DictReader(file) if row["language"] == "kaz_Cyrl"]
    fresh = make_texts.choose("kaz_Cyrl", "ntrex:kaz")
    assert [{key: str(value) for key, value in row.items()} for row in fresh] == kept


@pytest.mark.long
def test_a_training_text_is_its_sources_mixed():
    corpus, sources = th.load_corpus("training:fin_Latn"), training_sources("fin_Latn")
    assert len(sources) > 1
    assert corpus.counts == mixture(th.load_corpus(name).counts for name in sources)
    assert all(name in corpus.source for name in sources)
    assert "wordfreq:fi" in sources and "wordfreq" in corpus.licence
