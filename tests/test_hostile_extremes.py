"""Single extremes: a character ten thousand times, one endless line, archives that unfold, depth."""

import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pyarrow as pa
import pytest
from hostile import peak
from hostile_files import PACK
from hostile_text import (
    NAMES,
    TARGETS,
    count_and_encode,
    encoder,
    refuse_lone_surrogates,
    train_and_continue,
)
from pyarrow import parquet
from strategies import one_fast

import tokhelpers as th
from tokhelpers.text import readers

CHARACTERS = " \u0301a0\n\r\t\0'/#ä漢한😀\u200d\u200f\ufeff\ufffd\u0378▁Ġ"


@pytest.mark.parametrize("character", one_fast(*CHARACTERS), ids=ascii)
def test_ten_thousand_of_a_character(character):
    text = 10_000 * character
    given = {count_and_encode: (text, 5), train_and_continue: ([text],)}
    for _, holds, *more in TARGETS.values():
        if holds is not refuse_lone_surrogates:
            holds(*given.get(holds, (text,)), *more)
    for name in NAMES:
        with warnings.catch_warnings(action="ignore"):
            try:
                assert th.evaluate(encoder(name), [text]).chars == 10_000
            except ValueError as error:  # where normalization or cutting leaves nothing
                assert "no text in its 1 documents" in str(error)


def documents(kind: str, file) -> list[str]:
    """All of a file's, of both splits."""
    corpus = th.load_corpus(f"{kind}:{file}")
    return list(corpus.content.documents())


# --- sizes ----------------------------------------------------------------------------------------
def measured(job, *args) -> tuple:
    before = peak()
    return job(*args), peak() - before


def in_a_process(job, *args) -> tuple:
    """What a job gives, and by how many MB the memory of a process grew in which nothing else ran."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, job, *args).result()


def count_lines(file) -> dict[str, int]:
    lines = readers.read_lines(file, "text", "strict")
    return dict(th.count_pretokens(lines, encoder("byte-level")))


@pytest.mark.long
def test_a_line_of_a_hundred_megabytes(tmp_path):
    """It is one document, counted right, in memory that is a small multiple of its size."""
    sentence, times = " the cats sat on 12 mats,", 4_000_000
    (tmp_path / "line.txt").write_text(times * sentence)
    counts, grown = in_a_process(count_lines, tmp_path / "line.txt")
    one = th.count_pretokens([sentence], encoder("byte-level"))
    assert counts == {word: times * n for word, n in one.items()}
    assert grown < 1500  # 15 bytes a byte


def refuse(kind: str, file) -> str:
    readers.MAX_BYTES = 30_000_000
    with pytest.raises(ValueError) as told:
        list(th.load_corpus(f"{kind}:{file}"))
    return str(told.value)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["text", "jsonl"])
@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_small_archive_of_an_endless_line(kind, ending, tmp_path):
    """Ten GB of zeros in one line: it is read up to the limit, which is named, and no further."""
    file = tmp_path / f"bomb{ending}"
    file.write_bytes(1000 * PACK[ending](bytes(10_000_000)))
    assert file.stat().st_size < 20_000_000
    told, grown = in_a_process(refuse, kind, file)
    limit = "the line at byte 0 has more than 30,000,000 bytes"
    assert told.startswith(f"{file}: {limit}: divide it")
    assert grown < 300


def test_the_limit_of_a_line(tmp_path, monkeypatch):
    """It is noticed when the next block is read."""
    monkeypatch.setattr(readers, "MAX_BYTES", 10)
    monkeypatch.setattr(readers, "BLOCK", 3)
    file = tmp_path / "a.txt"
    file.write_text("1234567890\n12345678é")  # ten bytes each
    assert documents("text", file) == ["1234567890", "12345678é"]
    file.write_text("12345\n1234567890123\n")
    with pytest.raises(ValueError, match=r"a\.txt: the line at byte 6 has more than 10"):
        documents("text", file)


# --- depth ----------------------------------------------------------------------------------------
DEEP = {"lists": "[" * 100_000, "objects": '{"a":' * 100_000, "whole": "[" * 9999 + "]" * 9999}


@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP)
def test_deep_json(deep, tmp_path):
    file = tmp_path / "tokenizer.json"
    settings = json.loads(encoder("byte-level").to_str()) | {"normalizer": "DEEP"}
    for content in (deep, json.dumps(settings).replace('"DEEP"', deep)):
        file.write_text(content)
        with pytest.raises(ValueError, match=r"tokenizer\.json cannot be read as a tokenizer: "):
            th.load_tokenizer(file)
    lines = tmp_path / "a.jsonl"
    lines.write_text(f'{{"text": "fine"}}\n{{"text": {deep}}}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl:2: "):
        documents("jsonl", lines)
    rows = pa.table({"pretoken": ["a"], "count": [1]})
    counts = tmp_path / "counts.parquet"
    parquet.write_table(rows.replace_schema_metadata({"tokhelpers.counts": deep}), counts)
    with pytest.raises(ValueError, match=r"counts\.parquet: damaged file of counts"):
        th.load_counts(counts)


# --- marks and line ends --------------------------------------------------------------------------
def test_a_byte_order_mark_and_crlf_are_no_text(tmp_path):
    lines = tmp_path / "a.jsonl"
    lines.write_bytes(b'\xef\xbb\xbf{"text": "a\\u0000"}\r\n')
    assert documents("jsonl", lines) == ["a\0"]  # NUL is a character like others
    file = tmp_path / "a.json"
    file.write_text(encoder("byte-level").to_str(), "utf-8-sig")
    assert th.load_tokenizer(file).to_str() == encoder("byte-level").to_str()


# --- what once got through ------------------------------------------------------------------------
def test_a_damaged_cache_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_CACHE", str(tmp_path))
    expected = th.load_tokenizer("mistral-v1").to_str()
    [cached] = tmp_path.glob("mistral-v1-*.json")
    whole = cached.read_bytes()
    for damage in (b"", bytes(1000), whole[:-100], whole.replace(b'"</s>":2', b'"</s>":3')):
        cached.write_bytes(damage)
        assert th.load_tokenizer("mistral-v1").to_str() == expected
        assert cached.read_bytes() == whole


def test_a_line_of_spaces_does_not_go_through_the_librarys_normalizer(mistral):
    """It would take 9 GB for 100 million of them."""
    began = time.process_time()
    with pytest.raises(
        ValueError, match="100,000,000 characters without a space .* split the text into lines"
    ):
        th.count_pretokens([" " * 100_000_000], mistral)
    assert time.process_time() - began < 20
