"""Single extremes: a character ten thousand times, one endless line, archives that unfold, depth."""

import gzip
import json
import lzma
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from hostile_files import LINES
from hostile_text import (
    NAMES,
    adapt,
    count_and_encode,
    encode_in_sentencepiece,
    encode_in_tiktoken,
    encoder,
    train_and_continue,
)
from pyarrow import parquet

import tokhelpers as th
from tokhelpers.text import readers

CHARACTERS = {
    "a letter": "a", "a digit": "0", "a space": " ", "a newline": "\n", "CR": "\r", "a tab": "\t",
    "NUL": "\0", "an apostrophe": "'", "a slash": "/", "#": "#", "an umlaut": "ä", "CJK": "漢",
    "a Hangul syllable": "한", "a combining mark": "\u0301", "an emoji": "😀", "ZWJ": "\u200d",
    "a right-to-left mark": "\u200f", "BOM": "\ufeff", "U+FFFD": "\ufffd", "unassigned": "\u0378",
    "the space symbol": "▁", "the byte-level space": "Ġ",
}  # fmt: skip
FAST = {"a space", "a combining mark"}


@pytest.mark.parametrize(
    "character",
    [
        pytest.param(character, id=name, marks=() if name in FAST else pytest.mark.long)
        for name, character in CHARACTERS.items()
    ],
)
def test_ten_thousand_of_a_character(character):
    text = 10_000 * character
    for name in NAMES:
        count_and_encode(text, 5, name)
        with warnings.catch_warnings(action="ignore"):
            try:
                assert th.evaluate(encoder(name), [text]).chars == 10_000
            except ValueError as error:  # where normalization or cutting leaves nothing
                assert "no text in its 1 documents" in str(error)
    adapt(text)
    encode_in_tiktoken(text, "byte-level")
    encode_in_tiktoken(text, "llama-3")
    encode_in_sentencepiece(text)
    train_and_continue([text])


def in_a_process(program: str, *arguments, mended="") -> list[str]:
    """What a program prints, and by how many MB its memory grew after it had been warmed up."""
    program = (
        "import sys; import tokhelpers as th; from tokhelpers.text import readers\n"
        f"from hostile import peak\n{mended}\n{program}\nprint(peak() - before)"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, env=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def documents(kind: str, file) -> list[str]:
    """All of a file's, of both splits."""
    return list(readers.read_files(kind, str(file), "text", "strict"))


# --- sizes ----------------------------------------------------------------------------------------
@pytest.mark.long
def test_a_line_of_a_hundred_megabytes(tmp_path):
    """It is one document, counted right, in memory that is a small multiple of its size."""
    tokenizer, sentence = encoder("byte-level"), "the cats sat on 12 mats, "
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    times = 100_000_000 // len(sentence)
    (tmp_path / "line.txt").write_text(times * sentence)
    program = (
        "tokenizer = th.load_tokenizer(sys.argv[1])\n"
        "th.count_pretokens(['a text'], tokenizer)\n"
        "before = peak()\n"
        "lines = readers.read_files('text', sys.argv[2], 'text', 'strict')\n"
        "print(sorted(th.count_pretokens(lines, tokenizer).items()))"
    )
    told, grown = in_a_process(program, tmp_path / "tokenizer.json", tmp_path / "line.txt")
    few, more = (th.count_pretokens([n * sentence], tokenizer) for n in (1, 2))
    expected = {
        word: few.get(word, 0) + (times - 1) * (n - few.get(word, 0)) for word, n in more.items()
    }
    assert told == f"{sorted(expected.items())}"
    assert int(grown) < 1500  # 15 bytes a byte


@pytest.mark.long
@pytest.mark.parametrize("kind", ["text", "jsonl", "counts"])
@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_small_archive_of_an_endless_line(kind, ending, tmp_path):
    """Ten GB of zeros in one line: it is read up to the limit, which is named, and no further."""
    pack = {".gz": gzip.compress, ".xz": lzma.compress}[ending]
    file = tmp_path / f"bomb{ending}"
    file.write_bytes(1000 * pack(bytes(10_000_000)))
    assert file.stat().st_size < 20_000_000
    program = (
        "before = peak()\n"
        "kind, file = sys.argv[1:]\n"
        "try: th.load_counts(file) if kind == 'counts' else list(th.load_corpus(f'{kind}:{file}'))\n"
        "except ValueError as error: print(error)"
    )
    told, grown = in_a_process(program, kind, file, mended="readers.MAX_BYTES = 30_000_000")
    limit = "the line that begins at byte 0 has more than 30,000,000 bytes"
    assert told.startswith(f"{file}: {limit}: cut it")
    assert int(grown) < 300


def test_the_limit_of_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_BYTES", 10)
    file = tmp_path / "a.txt"
    file.write_text("123456789\n12345678é")  # with its end, ten bytes each
    assert documents("text", file) == ["123456789", "12345678é"]
    file.write_text("12345\n1234567890\n")
    with pytest.raises(
        ValueError, match=r"a\.txt: the line that begins at byte 6 has more than 10"
    ):
        documents("text", file)


@pytest.mark.long
def test_a_small_table_of_long_strings(tmp_path):
    """A hundred thousand rows that share one long string: a few at a time are in memory."""
    strings = pa.array([5_000_000 * "ab"])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), strings)
    file = tmp_path / "bomb.parquet"
    parquet.write_table(pa.table({"text": column}), file, compression="zstd")
    assert file.stat().st_size < 10_000
    program = (
        "from itertools import islice\n"
        "before = peak()\n"
        "rows = readers.read_files('parquet', sys.argv[1], 'text', 'strict')\n"
        "print(sum(map(len, islice(rows, 40))))"
    )
    told, grown = in_a_process(program, file)
    assert told == "400000000"
    assert int(grown) < 1500


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
    with pytest.raises(ValueError, match=r"counts\.parquet: a damaged file of counts"):
        th.load_counts(counts)


# --- marks and line ends --------------------------------------------------------------------------
def test_marks_and_line_ends_are_no_text(tmp_path):
    """A byte order mark and CRLF are no text; NUL is a character like others."""
    lines = ["first, é", "a\0b", "", "\ufeff inside", *LINES]
    for mark, end in [("", "\n"), ("\ufeff", "\r\n")]:
        (tmp_path / "a.txt").write_bytes((mark + end.join(lines)).encode())
        assert documents("text", tmp_path / "a.txt") == lines
        for size in (1, 7, 1000):
            parts = th.load_corpus(f"text:{tmp_path}/a.txt").parts(size)
            assert {text for part in parts for text in part} <= set(lines)
        (tmp_path / "a.tsv").write_bytes(f"{mark}word\t2{end}\0\t1{end}".encode())
        assert th.load_counts(tmp_path / "a.tsv") == {"word": 2, "\0": 1}
        (tmp_path / "a.jsonl").write_bytes(f'{mark}{{"text": "a\\u0000"}}{end}'.encode())
        assert documents("jsonl", tmp_path / "a.jsonl") == ["a\0"]
        (tmp_path / "a.json").write_text(mark + encoder("byte-level").to_str(), "utf-8")
        assert th.load_tokenizer(tmp_path / "a.json").to_str() == encoder("byte-level").to_str()
    (tmp_path / "a.txt").write_text("text", "utf-16")
    with pytest.raises(ValueError, match=r"a\.txt: invalid UTF-8 at byte 0"):
        documents("text", tmp_path / "a.txt")


# --- what once got through ------------------------------------------------------------------------
def test_tokens_that_can_be_none_are_named():
    with pytest.raises(ValueError, match=r"the special token '<\\ud800>' holds a lone surrogate"):
        th.train_wordpiece(["a bat"], vocab_size=30, special_tokens=["<\ud800>"])
    with pytest.raises(ValueError, match="1 of the added tokens are not in this tokenizer"):
        th.evaluate(encoder("byte-level"), ["a bat"], added=["漢"])  # in no byte-level form


def test_a_count_of_many_digits(tmp_path):
    (tmp_path / "a.tsv").write_text(f"fine\t1\nword\t{5000 * '1'}\n")
    with pytest.raises(ValueError, match=r"a\.tsv:2: a word, a tab and a whole number are needed"):
        th.load_counts(tmp_path / "a.tsv")


def test_a_damaged_cache_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_CACHE", str(tmp_path))
    expected = th.load_tokenizer("mistral-v1").to_str()
    [cached] = tmp_path.glob("mistral-v1-*.json")
    for damage in (b"", bytes(1000), expected.encode()[:-100]):
        cached.write_bytes(damage)
        assert th.load_tokenizer("mistral-v1").to_str() == expected
        assert cached.read_text("utf-8") == expected
