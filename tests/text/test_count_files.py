"""Counts in files: saved and loaded, taken from elsewhere, and in place of text everywhere."""

import gzip
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer, models, pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import count_files


@pytest.fixture(scope="module")
def counted(llama):
    return th.count_pretokens(th.load_corpus("hpo", chars=200_000), llama)


def test_saved_counts_load_as_they_were(counted, tmp_path):
    file = tmp_path / "hpo.parquet"
    th.save_counts(counted, file)
    loaded = th.load_counts(file)
    assert dict(loaded) == dict(counted) and loaded.counts.dtype == np.int64
    for name in ("chars", "bytes", "spaced_words", "documents", "rules"):
        assert getattr(loaded, name) == getattr(counted, name)
    frequent = th.load_counts(file, min_count=10)
    assert dict(frequent) == {word: n for word, n in counted.items() if n >= 10}
    assert frequent.documents == counted.documents
    with pytest.raises(ValueError, match="no pre-token occurs 9,999,999 times"):
        th.load_counts(file, min_count=9_999_999)
    table = pd.read_parquet(file)  # any other reader sees a table
    assert table.columns.tolist() == ["pretoken", "count"] and len(table) == len(counted)
    file.rename(tmp_path / "counts.parquet")  # as it is called in the folder of a count
    assert dict(th.load_counts(tmp_path)) == dict(counted)


def test_any_words_survive(tmp_path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.Whitespace()
    odd = ["a\u0301", "\x00", "\u2028x", "😀", "\ufeff", "word\x7f"]
    counted = th.count_pretokens(dict(zip(odd, range(1, 7), strict=True)), tokenizer)
    th.save_counts(counted, tmp_path / "odd.parquet")
    assert dict(th.load_counts(tmp_path / "odd.parquet")) == dict(counted)


# --- from elsewhere ---------------------------------------------------------------------------------
def test_a_folder_as_spark_and_hadoop_write_it(tmp_path):
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-00000.crc").write_bytes(b"\xff\x00")
    (tmp_path / "part-00000").write_text(" the\t5\n of\t3\nwith\ttab\t1\n", "utf-8")
    with gzip.open(tmp_path / "part-00001.gz", "wt", encoding="utf-8") as file:
        file.write("word\tcount\n the\t2\n été\t4\n\t1\n")
    table = pa.table({"count": pa.array([1, 2], pa.int32()), "word": [" the", "x"], "more": [0, 0]})
    parquet.write_table(table, tmp_path / "part-00002.snappy.parquet")
    words = th.load_counts(tmp_path)
    assert words == {" the": 8, " of": 3, "with\ttab": 1, " été": 4, "": 1, "x": 2}
    assert th.load_counts(tmp_path, min_count=4) == {" the": 8, " été": 4}
    assert th.load_counts(tmp_path / "part-*1.gz") == {" the": 2, " été": 4, "": 1}


@pytest.mark.parametrize(
    "line",
    [
        "word 5",
        "word\t-5",
        "word\t5.0",
        "word\t٣",
        "word\t",
        "word\tcount",  # is a header in the first line only
        "x" * 1000,
    ],
)
def test_a_line_that_is_no_count_is_named(tmp_path, line):
    file = tmp_path / "counts.tsv"
    file.write_text(f"fine\t1\n{line}\n", "utf-8")
    needed = "a word, a tab and a whole number are needed, not"
    with pytest.raises(ValueError, match=re.escape(f"{file}:2: {needed} {line!r:.60}") + "$"):
        th.load_counts(file)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", None, "no file or folder has or matches that path"),
        ("a.parquet", b"PAR1 and no more", "not a Parquet file"),
        ("a.tsv", b"fine\t1\n\xff\t2\n", "invalid UTF-8 at byte 7;"),
        ("a.gz", gzip.compress(b"a\t1\n" * 1000, mtime=0)[:20], "damaged or cut off"),
        ("a.tsv", b"", "there are no counts"),
        ("a.tsv", f"a\t{2**62}\nb\t{2**62}\n".encode(), "the counts add up to more than 64"),
    ],
)
def test_files_that_hold_no_counts(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=f"{tmp_path / name}: {message}"):
        th.load_counts(tmp_path / name)


def test_a_folder_without_counts_and_words_that_are_not_utf_8(tmp_path):
    with pytest.raises(ValueError, match=f"counts:{tmp_path}: the folder has no file"):
        th.load_counts(tmp_path)
    (tmp_path / "a.tsv").write_bytes(b"fine\t1\n\xff\t2\n")
    assert th.load_counts(tmp_path, errors="replace") == {"fine": 1, "\ufffd": 2}
    with pytest.raises(ValueError, match="errors must be 'strict' or 'replace', not 'ignore'"):
        th.load_counts(tmp_path, errors="ignore")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"token": ["a"], "count": [1]}, "no column 'word'; there is .'token', 'count'"),
        ({"word": ["a"], "count": [1.0]}, "'count' of whole numbers is needed; there is word"),
        ({"word": [1], "count": [1]}, "the column 'word' must hold strings, not int64"),
        ({"word": ["a", None], "count": [1, 1]}, "row 2, .*: a string is needed, not null"),
        ({"word": ["a", "b"], "count": [1, None]}, "row 2, .*: 'b' has the count None"),
        ({"word": ["a"], "count": [-1]}, "row 1, .*: 'a' has the count -1"),
    ],
)
def test_a_table_that_holds_no_counts(tmp_path, columns, message):
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=rf"a\.parquet.*{message}"):
        th.load_counts(tmp_path / "a.parquet")


OFFSETS = np.array([0, 1, 2], np.int32)
NO_UTF_8 = pa.Array.from_buffers(pa.string(), 2, [None, *map(pa.py_buffer, (OFFSETS, b"a\xff"))])


@pytest.mark.parametrize(
    ("words", "counts"),
    [(["a", "a"], [1, 2]), (["a", None], [1, 2]), (["a", "b"], [1, -2]), (["a", "b"], [1, None]),
     (NO_UTF_8, [1, 2])],
)  # fmt: skip
def test_rows_that_cannot_be_in_our_counts(tmp_path, words, counts):
    rows = pa.table([words, counts], schema=count_files.SCHEMA)
    count_files.write_counts(tmp_path / "a.parquet", [rows], [1, 1, 1, 1], "{}")
    with pytest.raises(ValueError, match=r"a\.parquet: a damaged file of counts"):
        th.load_counts(tmp_path / "a.parquet")


@pytest.mark.parametrize("described", ["not JSON", "[]", '{"chars": -1}'])
def test_what_our_counts_cannot_say_of_themselves(tmp_path, described):
    table = pa.table({"pretoken": ["a"], "count": [1]})
    table = table.replace_schema_metadata({"tokhelpers.counts": described})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: a damaged file of counts"):
        th.load_counts(tmp_path / "a.parquet")


# --- in place of text -------------------------------------------------------------------------------
WORDS = {
    " low": 50,
    " lower": 20,
    " newest": 60,
    " qxhyperchylomikron": 9,
    " widest": 30,
    " lot": 4,
}
TRAINERS = {
    th.train_byte_level_bpe: {"vocab_size": 270},
    th.train_sentencepiece_bpe: {"vocab_size": 280},
    th.train_wordpiece: {"vocab_size": 30},
    th.train_unigram: {"vocab_size": 290},
}


@pytest.fixture
def words(tmp_path):
    file = tmp_path / "words.tsv"
    file.write_text("".join(f"{word}\t{n}\n" for word, n in WORDS.items()), "utf-8")
    return th.load_counts(file)


@pytest.mark.parametrize("train", TRAINERS, ids=lambda train: train.__name__)
def test_trainers_take_counts_for_text(train, words, tmp_path):
    text = [word for word, n in WORDS.items() for _ in range(n)]
    expected = train(text, **TRAINERS[train])
    assert train(words, **TRAINERS[train]).to_str() == expected.to_str()
    counted = th.count_pretokens(words, expected)
    th.save_counts(counted, tmp_path / "counts.parquet")
    loaded = th.load_counts(tmp_path / "counts.parquet")
    assert train(loaded, **TRAINERS[train]).to_str() == expected.to_str()


def test_extensions_orders_and_measures_take_counts_for_text(words, llama):
    text = [word for word, n in WORDS.items() for _ in range(n)]
    pretokens = th.count_pretokens(words, llama)
    learned = [th.continue_bpe(llama, some, 3) for some in (text, words, pretokens)]
    assert learned[0].tokens == learned[1].tokens == learned[2].tokens
    orders = [th.pruning_order(llama, some, by="leaf-frequency")[:50] for some in (text, pretokens)]
    assert orders[0] == orders[1]
    rows = [th.evaluate(llama, some) for some in (text, words)]
    pd.testing.assert_series_equal(*rows)
