"""Counts in files: saved and loaded, taken from elsewhere, and in place of text everywhere."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer, models, pre_tokenizers as pre

import tokhelpers as th


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


def test_counts_that_were_kept_load_from_their_folder(llama, counted, tmp_path):
    th.count_pretokens(th.load_corpus("hpo", chars=200_000), llama, folder=tmp_path)
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
    ("line", "message"),
    [
        ("word", "a word, a tab and a whole number are needed, not 'word'"),
        ("word 5", "are needed, not 'word 5'"),
        ("word\t-5", "are needed"),
        ("word\t5.0", "are needed"),
        ("word\t٣", "are needed"),
        ("word\t", "are needed"),
        ("word\tcount", "are needed"),  # in the first line only
        ("x" * 1000, "not 'x{50,60}"),
    ],
)
def test_a_line_that_is_no_count_is_named(tmp_path, line, message):
    file = tmp_path / "counts.tsv"
    file.write_text(f"fine\t1\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match=rf"counts\.tsv:2: .*{message}"):
        th.load_counts(file)


def test_files_that_hold_no_counts(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder has or matches that path"):
        th.load_counts(tmp_path / "nothing.tsv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="counts:.*folder: the folder has no file"):
        th.load_counts(tmp_path / "folder")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"bad\.parquet: not a Parquet file"):
        th.load_counts(tmp_path / "bad.parquet")
    (tmp_path / "bad.tsv").write_bytes(b"fine\t1\n\xff\t2\n")
    with pytest.raises(ValueError, match=r"bad\.tsv: invalid UTF-8 at byte 7;"):
        th.load_counts(tmp_path / "bad.tsv")
    assert th.load_counts(tmp_path / "bad.tsv", errors="replace") == {"fine": 1, "\ufffd": 2}
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a\t1\n" * 1000)[:20])
    with pytest.raises(ValueError, match=r"cut\.gz: damaged or cut off"):
        th.load_counts(tmp_path / "cut.gz")
    (tmp_path / "empty.tsv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"empty\.tsv: there are no counts"):
        th.load_counts(tmp_path / "empty.tsv")
    (tmp_path / "large.tsv").write_text(f"a\t{2**62}\nb\t{2**62}\n")
    with pytest.raises(ValueError, match="add up to more than 64 bits hold"):
        th.load_counts(tmp_path / "large.tsv")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"token": ["a"], "count": [1]},
            r"there is no column 'word'; there is \['token', 'count'\]",
        ),
        (
            {"word": ["a"], "count": [1.0]},
            "a column 'count' of whole numbers is needed; there is word",
        ),
        ({"word": [1], "count": [1]}, "the column 'word' must hold strings, not int64"),
        ({"word": ["a", None], "count": [1, 1]}, ", row 2: None has the count 1"),
        ({"word": ["a"], "count": pa.array([None], pa.int64())}, "row 1: 'a' has the count None"),
        ({"word": ["a"], "count": [-1]}, "row 1: 'a' has the count -1"),
    ],
)
def test_a_table_that_holds_no_counts(tmp_path, columns, message):
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=rf"a\.parquet.*{message}"):
        th.load_counts(tmp_path / "a.parquet")


OFFSETS = np.array([0, 1, 2], np.int32)
NO_UTF_8 = pa.Array.from_buffers(pa.string(), 2, [None, *map(pa.py_buffer, (OFFSETS, b"a\xff"))])


@pytest.mark.parametrize(
    ("words", "counts", "described"),
    [
        (["a", "a"], [1, 2], "{}"),
        (["a", None], [1, 2], "{}"),
        (["a", "b"], [1, -2], "{}"),
        (["a", "b"], [1, None], "{}"),
        (["a", "b"], [1, 2], "not JSON"),
        (["a", "b"], [1, 2], "[]"),
        (["a", "b"], [1, 2], '{"chars": -1}'),
        (["a", "b"], [1, 2], '{"more": 1}'),
        ([1, 2], [1, 2], "{}"),
        (NO_UTF_8, [1, 2], "{}"),
    ],
)
def test_damaged_files_of_our_counts(tmp_path, words, counts, described):
    """What is said of the text, or what stands in the columns, cannot be."""
    right = {"chars": 1, "bytes": 1, "spaced_words": 1, "documents": 1, "rules": "{}"}
    if described.startswith("{"):
        described = json.dumps(right | json.loads(described))
    table = pa.table({"pretoken": words, "count": counts})
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
    " new": 25,
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
    orders = [
        th.pruning_order(llama, some, by="leaf-frequency")[:50] for some in (text, words, pretokens)
    ]
    assert orders[0] == orders[1] == orders[2]
    rows = [th.evaluate(llama, some) for some in (text, words)]
    pd.testing.assert_series_equal(*rows)
