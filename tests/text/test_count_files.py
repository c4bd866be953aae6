"""Counts in files: saved and loaded, taken from elsewhere, and in place of text everywhere."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hostile_files import PACK, everything
from pyarrow import parquet
from tokenizers import Tokenizer, models, pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import count_files


def test_saved_counts_load_as_they_were(tmp_path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.Whitespace()
    odd = ["a\u0301", "\x00", "\u2028x", "😀", "\ufeff", "word\x7f"]
    counted = th.count_pretokens([*odd, *th.load_corpus("hpo", chars=200_000)], tokenizer)
    file = tmp_path / "hpo.parquet"
    th.save_counts(counted, file)
    loaded = th.load_counts(file)
    assert everything(loaded) == everything(counted) and loaded.counts.dtype == np.int64
    frequent = th.load_counts(file, min_count=10)
    assert dict(frequent) == {word: n for word, n in counted.items() if n >= 10}
    assert frequent.documents == counted.documents
    with pytest.raises(ValueError, match="no pre-token occurs 9,999,999 times"):
        th.load_counts(file, min_count=9_999_999)
    table = pd.read_parquet(file)  # any other reader sees a table
    assert table.columns.tolist() == ["pretoken", "count"] and len(table) == len(counted)
    file.rename(tmp_path / "counts.parquet")  # as it is called in the folder of a count
    assert dict(th.load_counts(tmp_path)) == dict(counted)


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
    with pytest.raises(ValueError, match=r"a\.parquet: damaged file of counts"):
        th.load_counts(tmp_path / "a.parquet")


# --- from elsewhere -------------------------------------------------------------------------------
def test_a_folder_as_spark_and_hadoop_write_it(tmp_path):
    with pytest.raises(ValueError, match=f"counts:{tmp_path}: the folder has no file"):
        th.load_counts(tmp_path)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-00000.crc").write_bytes(b"\xff\x00")
    (tmp_path / "part-00000").write_text(" the\t5\n of\t3\nwith\ttab\t1\n", "utf-8")
    packed = PACK[".gz"]("word\tcount\n the\t2\n été\t4\n\t1\n".encode())
    (tmp_path / "part-00001.gz").write_bytes(packed)
    table = pa.table({"count": pa.array([1, 2], pa.int32()), "word": [" the", "x"], "more": [0, 0]})
    parquet.write_table(table, tmp_path / "part-00002.snappy.parquet")
    words = th.load_counts(tmp_path)
    assert words == {" the": 8, " of": 3, "with\ttab": 1, " été": 4, "": 1, "x": 2}
    assert th.load_counts(tmp_path, min_count=4) == {" the": 8, " été": 4}
    with pytest.raises(ValueError, match="no word occurs 9 times, the most frequent 8 times"):
        th.load_counts(tmp_path, min_count=9)
    assert th.load_counts(tmp_path / "part-*1.gz") == {" the": 2, " été": 4, "": 1}


@pytest.mark.parametrize(
    "line",
    ["word 5", "word\t-5", "word\t5.0", "word\t٣", "word\t", "x" * 1000,
     "word\tcount"],  # is a header in the first line only
)  # fmt: skip
def test_a_line_that_is_no_count_is_named(tmp_path, line):
    file = tmp_path / "counts.tsv"
    file.write_text(f"fine\t1\n{line}\n", "utf-8")
    needed = "a word, a tab and a whole number are needed, not"
    with pytest.raises(ValueError, match=re.escape(f"{file}:2: {needed} {line!r:.60}") + "$"):
        th.load_counts(file)


def test_lines_that_hold_no_counts(tmp_path):
    file = tmp_path / "a.tsv"
    for content, message in {
        b"fine\t1\n\xff\t2\n": "invalid UTF-8 at byte 7;",
        b"": "there are no counts",
        f"a\t{2**62}\nb\t{2**62}\n".encode(): "the sum of the counts exceeds 64 bits",
    }.items():
        file.write_bytes(content)
        with pytest.raises(ValueError, match=f"{file}: {message}"):
            th.load_counts(file)
    file.write_bytes(b"fine\t1\n\xff\t2\n")
    assert th.load_counts(file, errors="replace") == {"fine": 1, "\ufffd": 2}
    with pytest.raises(ValueError, match="errors must be 'strict' or 'replace', not 'ignore'"):
        th.load_counts(file, errors="ignore")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"token": ["a"], "count": [1]},
            "no column 'word'; there is .'token', 'count'",
        ),
        (
            {"word": ["a"], "count": [1.0]},
            "'count' of whole numbers is needed; there is word",
        ),
        ({"word": ["a", "b"], "count": [1, None]}, "row 2: 'b' has the count None"),
        ({"word": ["a"], "count": [-1]}, "row 1: 'a' has the count -1"),
    ],
)
def test_a_table_that_holds_no_counts(tmp_path, columns, message):
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=rf"a\.parquet.*{message}"):
        th.load_counts(tmp_path / "a.parquet")


# --- in place of text -----------------------------------------------------------------------------
WORDS = {
    " low": 50,
    " lower": 20,
    " newest": 60,
    " qxhyperchylomikron": 9,
    " widest": 30,
    " lot": 4,
}
TEXT = [word for word, n in WORDS.items() for _ in range(n)]
TRAINERS = {
    th.train_byte_level_bpe: {"vocab_size": 270},
    th.train_sentencepiece_bpe: {"vocab_size": 280},
    th.train_wordpiece: {"vocab_size": 30},
    th.train_unigram: {"vocab_size": 290},
}


@pytest.mark.parametrize("train", TRAINERS, ids=lambda train: train.__name__)
def test_trainers_take_counts_for_text(train):
    expected = train(TEXT, **TRAINERS[train])
    for counts in (WORDS, th.count_pretokens(WORDS, expected)):
        assert train(counts, **TRAINERS[train]).to_str() == expected.to_str()


def test_extensions_orders_and_measures_take_counts_for_text(llama):
    pretokens = th.count_pretokens(WORDS, llama)
    learned = [th.continue_bpe(llama, some, 3) for some in (TEXT, WORDS, pretokens)]
    assert learned[0].tokens == learned[1].tokens == learned[2].tokens
    orders = [th.pruning_order(llama, some, by="leaf-frequency")[:50] for some in (TEXT, pretokens)]
    assert orders[0] == orders[1]
    rows = [th.evaluate(llama, some) for some in (TEXT, WORDS)]
    pd.testing.assert_series_equal(*rows)
