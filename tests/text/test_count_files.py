"""Counts in files: saved and loaded, taken from elsewhere, and in place of text everywhere."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hostile_files import everything
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
def test_counts_of_other_programs_are_loaded_with_pandas(tmp_path, llama):
    """The message says so, and what it asks for counts as our own."""
    table, lines = tmp_path / "a.parquet", tmp_path / "a.tsv"
    parquet.write_table(pa.table({"word": [" the", " of"], "count": [5, 3]}), table)
    with pytest.raises(
        ValueError, match=r"a\.parquet was not saved by save_counts: load it with pand"
    ):
        th.load_counts(table)
    lines.write_text(" the\t5\n of\t2\n of\t1\n")
    with pytest.raises(ValueError, match=r"a\.tsv: not a Parquet file"):
        th.load_counts(lines)
    expected = everything(th.count_pretokens({" the": 5, " of": 3}, llama))
    for counts in (
        pd.read_parquet(table).set_index("word")["count"],
        pd.read_csv(lines, sep="\t", header=None, index_col=0)[1],
    ):
        assert everything(th.count_pretokens(counts, llama)) == expected


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
