"""Readers: files of every kind, Python source, memory, and every error."""

import csv
import json
import random
import re
import sys
import tempfile
import tracemalloc
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from hostile_files import PACK
from hypothesis import given, strategies as st
from pyarrow import parquet
from strategies import LINES, examples, failure, one_fast, write_lines

import tokhelpers as th
from tokhelpers import load_corpus
from tokhelpers.text import packaged_texts, readers

BOM = b"\xef\xbb\xbf"
each_ending = pytest.mark.parametrize("ending", PACK)


def read(name, column="text", **options):
    """All documents of a local corpus, both splits and blank ones."""
    corpus = load_corpus(name, column=column, **options)
    return list(corpus.content.documents())


# --- local files ----------------------------------------------------------------------------------
@each_ending
def test_text_lines(tmp_path, ending):
    path = tmp_path / f"a.txt{ending}"
    lines = [*LINES, "", " \t ", "ä 漢 👩‍🚀", "line\u2028separator\x0b\x85 inside", " spaces kept "]
    text = "\r\n".join(lines[:99]) + "\r\n" + "\n".join(lines[99:])
    path.write_bytes(PACK[ending](BOM + text.encode()))
    assert read(f"text:{path}") == lines


def test_folder_and_glob_in_sorted_order(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ["b.txt", "a.txt", "sub/c.txt", ".hidden", ".git/d.txt"]:
        write_lines(tmp_path / name, [name])
    (tmp_path / "empty.txt").touch()
    assert read(f"text:{tmp_path}") == ["a.txt", "b.txt", "sub/c.txt"]
    assert read(f"text:{tmp_path}/*.txt") == ["a.txt", "b.txt"]
    assert read(f"text:{tmp_path}/**/*.txt") == ["a.txt", "b.txt", "sub/c.txt"]
    path = write_lines(tmp_path / "a[1].txt", LINES)  # a file's own name comes before the glob
    assert read(f"text:{path}") == LINES


@examples(50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_jsonl_csv_and_parquet_give_any_text_back(documents):
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps({"body": doc}, ensure_ascii=i % 2) for i, doc in enumerate(documents)]
        path = write_lines(Path(folder, "a.jsonl"), lines)
        assert read(f"jsonl:{path}", "body") == documents
        with open(Path(folder, "a.csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("id", "body"), *enumerate(documents)])
        # universal newlines in fields, and no line that is an empty field alone
        assert read(f"csv:{folder}", "body") == [text.replace("\r\n", "\n") for text in documents]
        parquet.write_table(pa.table({"body": documents}), Path(folder, "a.parquet"))
        assert read(f"parquet:{folder}", "body") == documents


@pytest.mark.parametrize("string", [pa.string(), pa.large_string()], ids=str)
def test_parquet_string_types_and_row_groups(tmp_path, string):
    column = pa.array(LINES, string)
    parquet.write_table(pa.table({"t": column}), tmp_path / "a.parquet", row_group_size=7)
    parquet.write_table(pa.table({"t": column.dictionary_encode()}), tmp_path / "b.parquet")
    assert read(f"parquet:{tmp_path}", "t") == LINES * 2


@pytest.mark.parametrize(
    ("kind", "ending", "most"),
    one_fast(("text", ".gz", 4e6), ("parquet", "", 8e6)),
)
def test_memory_stays_flat(tmp_path, monkeypatch, kind, ending, most):
    """Of Python and Arrow together, while twelve million characters are read."""
    monkeypatch.setattr(readers, "BLOCK", 1 << 18)
    rng, path = random.Random(0), tmp_path / f"a.{kind}{ending}"
    texts = [f"{i} " + "".join(rng.choices("abcde ", k=1000)) for i in range(15_000)]
    if kind == "parquet":
        parquet.write_table(pa.table({"text": texts}), path)
    else:
        path.write_bytes(PACK[ending]("\n".join(texts).encode()))
    corpus, pool = load_corpus(f"{kind}:{path}"), pa.default_memory_pool()
    next(iter(corpus))  # imports and lists that are loaded once
    tracemalloc.start()
    try:
        before, arrow, characters = pool.bytes_allocated(), 0, 0
        for text in corpus:
            characters += len(text)
            arrow = max(arrow, pool.bytes_allocated() - before)
        assert characters > 12_000_000 and arrow + tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


# --- errors ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["text", "jsonl", "csv", "parquet"])
def test_missing_and_empty_files_fail_when_loading(tmp_path, kind):
    for place, error, part in [
        (tmp_path / "none.txt", FileNotFoundError, "no file or folder"),
        (tmp_path / "*.none", FileNotFoundError, "no file or folder"),
        (tmp_path, ValueError, "the folder has no file like *"),
    ]:
        with pytest.raises(error, match=re.escape(f"{kind}:{place}: {part}")):
            load_corpus(f"{kind}:{place}")
    (tmp_path / f"empty.{kind}").touch()
    with pytest.raises(ValueError, match="the file is empty"):
        load_corpus(f"{kind}:{tmp_path}")
    (tmp_path / "a.gz").write_bytes(PACK[".gz"](b""))
    assert "it has no text" in failure(f"text:{tmp_path}/a.gz")


@each_ending
@pytest.mark.parametrize("good", [b"", BOM + b"a", BOM + "first ä\nsecond ".encode()])
def test_invalid_utf8_in_text(tmp_path, ending, good):
    path = tmp_path / f"a{ending}"
    path.write_bytes(PACK[ending](good + b"\xff\xff\nthird\n"))
    message = f"{path}: invalid UTF-8 at byte {len(good)}; errors='replace' reads it as U+FFFD"
    assert failure(f"text:{path}") == message
    text = good.removeprefix(BOM).decode() + "\ufffd\ufffd\nthird"
    assert read(f"text:{path}", errors="replace") == text.split("\n")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "UTF-16-LE", "cp1252"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_other_encodings(encoding, ending, tmp_path):
    lines = ["Käse für", "", "zwei Löffel"]
    path = tmp_path / f"a{ending}"
    path.write_bytes(PACK[ending]("\r\n".join(lines).encode(encoding)))
    assert read(f"text:{path}", encoding=encoding) == lines
    asked = "utf-16" if encoding.lower().startswith("utf-16") else "latin-1"
    assert f"{path}" in failure(f"text:{path}") and f"give encoding='{asked}'" in failure(
        f"text:{path}"
    )
    path = tmp_path / f"a.jsonl{ending}"
    path.write_bytes(
        PACK[ending](json.dumps({"text": lines[0]}, ensure_ascii=False).encode(encoding))
    )
    assert read(f"jsonl:{path}", encoding=encoding) == lines[:1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (PACK[".gz"](b"a text"), "is compressed by gzip: give it a name that ends in .gz"),
        (PACK[".xz"](b"a text"), "is compressed by xz: give it a name that ends in .xz"),
        (b"PK\x03\x04zip", "is a zip archive: unpack it"),
    ],
    ids=["gzip", "xz", "zip"],  # gzip writes the second at which it packs
)
def test_packed_files_without_their_ending(content, said, tmp_path):
    (tmp_path / "a.txt").write_bytes(content)
    for errors in ("strict", "replace"):
        with pytest.raises(ValueError, match=f"a.txt {said}"):
            list(load_corpus(f"text:{tmp_path}/a.txt", errors=errors))


def test_encodings_that_cannot_be(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("Käse".encode("latin-1"))
    assert "not UTF-16" in failure(f"text:{path}", encoding="utf-16")
    assert "encoding='utf-99' is unknown" in failure(f"text:{path}", encoding="utf-99")
    assert "is for text:, jsonl: and csv: files" in failure("hpo", encoding="latin-1")


def test_an_array_in_jsonl(tmp_path):
    for content in ('[{"text": "a"}]', '[\n{"text": "a"}\n]'):
        (tmp_path / "a.jsonl").write_text(content)
        assert "one object per line" in failure(f"jsonl:{tmp_path}/a.jsonl")


def test_invalid_utf8_and_surrogates_in_jsonl_and_parquet(tmp_path):
    path = tmp_path / "a.jsonl"
    pair, lone = rb'{"text": "\ud83d\ude80"}', rb'{"text": "a\udc00b"}'
    path.write_bytes(pair + b'\n{"text": "\xc3"}\n' + lone)
    assert f"{path}: invalid UTF-8 at byte {len(pair) + 11};" in failure(f"jsonl:{path}")
    assert read(f"jsonl:{path}", errors="replace") == ["🚀", "\ufffd", "a\ufffdb"]
    path = tmp_path / "a.parquet"
    bad = pa.array([b"good", b"ab\xff"]).view(pa.string())
    parquet.write_table(pa.table({"text": bad}), path)
    message = failure(f"parquet:{path}")
    assert f"{path}, row 2, column 'text': invalid UTF-8 at byte 2;" in message
    assert read(f"parquet:{path}", errors="replace") == ["good", "ab\ufffd"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not valid JSON"),
        ('"a"', "one object per line is needed, not str"),
        ('{"body": "a", "id": 1}', "there is no field 'text'; there is body, id"),
        ("{}", "there is no field 'text'; there is -"),
        ('{"text": null}', "'text' must be a string, not NoneType"),
        (
            r'{"text": "a\ud800b"}',
            r"'text' contains the lone surrogate \ud800; errors='replace' reads",
        ),
    ],
)
def test_bad_json_lines_name_file_and_line(tmp_path, line, told):
    path = write_lines(tmp_path / "a.jsonl", ['{"text": "fine"}', "", line])
    assert failure(f"jsonl:{path}").startswith(f"{path}:3: {told}")


def test_values_keep_their_type_in_later_batches_of_jsonl(tmp_path):
    """`datasets` 5.2 reads 5 as "5" there, and a column of dates as dates."""
    lines = ['{"text": "2026-01-01"}'] * 3 + ['{"text": 5}']
    assert failure(f"jsonl:{write_lines(tmp_path / 'a.jsonl', lines)}").endswith(
        "a.jsonl:4: 'text' must be a string, not int"
    )
    assert read(f"jsonl:{write_lines(tmp_path / 'a.jsonl', lines[:3])}") == ["2026-01-01"] * 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("id,body\n1,a\n", "there is no one column 'text'; there is ['id', 'body']"),
        ("text,text\n1,a\n", "there is no one column 'text'"),
        (
            "id,text\n1,fine\n2,a,b\n",
            "a.csv:3: the row has 3 fields, the header 2: quote its commas",
        ),
        ("a,text\n1,2,3\n4,5,6\n", "a.csv:2: the row has 3 fields"),  # pandas would take 3 and 6
        ("id,text\n1,fine\n2\n", "a.csv:3: the row has 1 fields"),
        ('id,text\n1,fine\n2,"cut o\n', "a.csv:3: not valid CSV (unexpected end of data)"),
        ('text\n"a" b\n', "a.csv:2: not valid CSV"),
    ],
)
def test_bad_csv_names_file_and_line(tmp_path, rows, message):
    (tmp_path / "a.csv").write_text(rows)
    assert message in failure(f"csv:{tmp_path}/a.csv")


def test_csv_keeps_what_looks_like_a_missing_value(tmp_path):
    rows = 'id,text\n1,NA\n2,"null, ""or"" none\nof two"\n\n3,\n4,007\n5,' + 200_000 * "x" + "\n"
    (tmp_path / "a.csv.gz").write_bytes(PACK[".gz"](BOM + rows.encode()))
    documents = ["NA", 'null, "or" none\nof two', "", "007", 200_000 * "x"]
    assert read(f"csv:{tmp_path}") == documents


def test_bad_parquet(tmp_path):
    path = write_lines(tmp_path / "a.parquet", LINES)
    assert "a.parquet: not a Parquet file, or damaged (" in failure(f"parquet:{path}")
    table = pa.table({"n": [1, 2], "text": ["a", None], "list": [["a"], []]})
    parquet.write_table(table, path)
    assert failure(f"parquet:{path}", column="body") == (
        f"{path}: there is no column 'body'; there is ['n', 'text', 'list']"
    )
    for column in ("n", "list"):
        message = failure(f"parquet:{path}", column=column)
        assert message.startswith(f"{path}: the column '{column}' must hold strings, not ")
    message = f"{path}, row 2, column 'text': missing value (null); a string is needed"
    assert failure(f"parquet:{path}") == message
    parquet.write_table(pa.table({"text": LINES}), path, write_page_checksum=True)
    content = path.read_bytes()
    for damage in (content[:-30], content[30:], content[:4] + bytes(20) + content[24:]):
        path.write_bytes(damage)
        assert failure(f"parquet:{path}").startswith(f"{path}: not a Parquet file, or damaged (")


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        ImportError, match=r"datasets is not installed: pip install 'tokhelpers\[data\]'"
    ):
        load_corpus("hf:owner/name")
    assert list(load_corpus("hpo", chars=5))  # others do without


# --- remote storage ---------------------------------------------------------------------------------
def test_files_in_remote_storage_are_read_by_fsspec():
    storage = fsspec.filesystem("memory")
    files = {"/texts/b.txt.gz": "third\n", "/texts/a.txt": "first\nsecond"}
    for name, text in files.items():
        storage.pipe(name, PACK[name[-3:] if name.endswith("gz") else ""](text.encode()))
    for place in ("memory://texts", "memory://texts/*"):
        assert read(f"text:{place}") == ["first", "second", "third"]
    assert read("text:memory://texts/*.gz") == ["third"]
    storage.pipe("/texts/b.txt.gz", b"no archive")
    assert "b.txt.gz: damaged or truncated archive" in failure("text:memory://texts")
    storage.rm("/texts", recursive=True)
    with storage.open("/texts/a.parquet", "wb") as file:
        parquet.write_table(pa.table({"text": LINES}), file)
    assert read("parquet:memory://texts") == LINES
    storage.rm("/texts", recursive=True)
    with pytest.raises(FileNotFoundError, match="memory://texts: no file or folder"):
        load_corpus("text:memory://texts")


# --- blocks -------------------------------------------------------------------------------------------
@examples(50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(1, 50))
def test_blocks_join_to_the_text(lines, size):
    """Whatever their size, they end at newlines."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "BLOCK", size)
        text = "\n".join(["a", *lines]).encode()
        Path(folder, "a").write_bytes(text)
        blocks = list(readers.read_blocks(Path(folder, "a"), "strict"))
        assert b"".join(blocks) == text and all(block.endswith(b"\n") for block in blocks[:-1])
        assert list(readers.read_lines(Path(folder, "a"), "", "strict")) == [
            line.removesuffix("\r") for line in text.decode().removesuffix("\n").split("\n")
        ]


# --- Python source --------------------------------------------------------------------------------
@pytest.fixture
def site_packages(tmp_path, monkeypatch):
    monkeypatch.setattr(packaged_texts.sysconfig, "get_path", lambda _: str(tmp_path))
    return tmp_path


def test_python_files_in_their_own_encoding(site_packages):
    assert "the folder has no file like *.py" in failure("python-source")
    (site_packages / "b").mkdir()
    (site_packages / "b" / "z.py").write_bytes(b"# coding: latin-1\r\nx = '\xe4'\r\n")
    (site_packages / "a.py").write_bytes(BOM + "y = 'ö'\n".encode())
    (site_packages / "empty.py").write_bytes(b"")
    (site_packages / "b" / "data.txt").write_text("no source")
    (site_packages / "unknown.py").write_bytes("# coding: klingon\nx = 'ü'\n".encode())
    documents = read("python-source")
    latin, unknown = "# coding: latin-1\nx = 'ä'\n", "# coding: klingon\nx = 'ü'\n"
    assert documents == ["y = 'ö'\n", latin, "", unknown]


@pytest.mark.parametrize(
    ("data", "byte"),
    [(b"ok = 1\nok = 2\nx = '\xff'\n", 19), (BOM + b"#\n#\nx = '\xff'\n", 12)],
)
def test_python_file_that_cannot_be_decoded(site_packages, data, byte):
    (site_packages / "bad.py").write_bytes(data)
    message = failure("python-source")
    assert f"bad.py: invalid UTF-8 at byte {byte}; errors='replace' reads it as U+FFFD" in message
    (document,) = read("python-source", errors="replace")
    assert document.endswith("x = '\ufffd'\n")


def test_a_saved_tokenizer_in_a_folder_is_not_text(tmp_path):
    """What was extended from a corpus and saved into it is not read the next time."""
    (tmp_path / "a.txt").write_text("a cat\na dog\n")
    before = list(th.load_corpus(f"text:{tmp_path}", split="all"))
    tokenizer = th.train_byte_level_bpe(before, vocab_size=258)
    th.save_pretrained(tokenizer, tmp_path / "saved")
    (tmp_path / "saved" / "checkpoint").mkdir()
    (tmp_path / "saved" / "checkpoint" / "log.txt").write_text("no text\n")
    assert list(th.load_corpus(f"text:{tmp_path}", split="all")) == before == ["a cat", "a dog"]
