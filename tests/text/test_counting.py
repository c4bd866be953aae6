"""Counting any corpus: in memory, by a Dask bag, and through files in a folder, with one result."""

import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import dask
import dask.bag as db
import datasets
import pandas as pd
import pyarrow as pa
import pytest
from hostile_files import everything
from hostile_text import encoder
from hypothesis import given, strategies as st
from pyarrow import parquet
from strategies import examples
from tokenizers import Tokenizer, models, pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import chunks, count_files, counting, pretokens, readers


@pytest.fixture(scope="module")
def texts():
    """Real text of two scripts, empty and odd lines."""
    texts = [
        text
        for code in ("fi", "ru")
        for split, chars in (("train", 270_000), ("test", 30_000))
        for text in th.load_corpus(f"wordfreq:{code}", chars=chars, split=split)
    ]
    texts += ["", " ", "It's  e\u0301 \u1c89 x", "\x1c\u3000", ""]
    random.Random(3).shuffle(texts)
    return texts


@pytest.fixture(scope="module")
def folder(texts, tmp_path_factory):
    """A large, a small and a middling file of these, with both kinds of line ends."""
    folder = tmp_path_factory.mktemp("texts")
    for name, part in {"a": texts[:1000], "b": texts[1000:1050], "c": texts[1050:]}.items():
        lines = (text + ("\r\n" if i % 2 else "\n") for i, text in enumerate(part))
        (folder / f"{name}.txt").write_bytes("".join(lines).encode())
    return folder


@pytest.fixture(scope="module")
def expected(texts, llama):
    """The counts of the lines that are not blank, in their order."""
    return everything_in_order(th.count_pretokens([t for t in texts if t.strip()], llama))


def everything_in_order(counts):
    return list(counts.items()), everything(counts)[1:]


# --- what a corpus may be ---------------------------------------------------------------------------
CORPORA = {
    "tuple": tuple,
    "generator": iter,
    "Series": pd.Series,
    "Series of objects": partial(pd.Series, dtype=object, index=[7, 7, 1]),
    "column of a Dataset": lambda texts: datasets.Dataset.from_dict({"text": texts})["text"],
    "column of a stream": lambda texts: datasets.Dataset.from_dict(
        {"text": texts}
    ).to_iterable_dataset()["text"],
    "mapping": Counter,
    "counts in a Series, of a document twice": lambda texts: pd.Series(1, index=texts),
    "value counts": lambda texts: pd.Series(texts).value_counts(sort=False),
    "Dask bag": lambda texts: db.from_sequence(texts, npartitions=2),
    "counts": lambda texts: th.count_pretokens(texts, encoder("byte-level")),
}


@pytest.mark.parametrize("make", CORPORA.values(), ids=CORPORA)
def test_any_iterable_of_strings_is_a_corpus(make):
    texts, tokenizer = ["a cat", "cats and dogs", "a cat"], encoder("byte-level")
    counted, expected = (th.count_pretokens(c, tokenizer) for c in (make(texts), texts))
    assert everything_in_order(counted) == everything_in_order(expected)
    learned = [th.continue_bpe(tokenizer, corpus, 2).tokens for corpus in (make(texts), texts)]
    assert learned[0] == learned[1]
    with dask.config.set(scheduler="sync"):
        measured = [th.evaluate(tokenizer, corpus) for corpus in (make(texts), texts)]
    assert measured[0].equals(measured[1])


def test_a_path_is_its_text_file(tmp_path, llama):
    (tmp_path / "a.txt").write_text("".join(f"line {i}\n" for i in range(50)))
    corpus = th.load_corpus(f"text:{tmp_path / 'a.txt'}")
    counted, expected = (th.count_pretokens(c, llama) for c in (tmp_path / "a.txt", corpus))
    assert everything_in_order(counted) == everything_in_order(expected)
    assert th.measure.count_words(tmp_path / "a.txt") == th.measure.count_words(corpus)


@pytest.mark.parametrize(
    ("corpus", "columns"),
    [
        (datasets.Dataset.from_dict({"id": [1], "body": ["a"]}), r"Dataset .*\['id', 'body'\]"),
        (pd.DataFrame({"id": [1], "body": ["a"]}), r"DataFrame .*\['id', 'body'\]"),
        (
            datasets.DatasetDict(train=datasets.Dataset.from_dict({"a": ["b"]})),
            r"splits.*\['train'\]",
        ),
    ],
)
def test_a_table_is_refused_and_its_columns_are_named(corpus, columns, llama):
    for use in (th.count_pretokens, th.evaluate):
        arguments = (corpus, llama) if use is th.count_pretokens else (llama, corpus)
        with pytest.raises(TypeError, match=columns):
            use(*arguments)


def test_dask_is_imported_for_bags_only():
    code = "import sys, tokhelpers as th; t = th.load_tokenizer('llama-3')\n"
    code += "th.count_pretokens(['a'], t); print({'dask', 'datasets', 'duckdb'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# --- text files -----------------------------------------------------------------------------------
@pytest.mark.parametrize("split", ["all", "train", "test"])
@pytest.mark.parametrize(("block", "threads"), [(1 << 22, 2), (1000, 1), (7, 3)])
def test_blocks_and_threads_do_not_change_counts(folder, llama, monkeypatch, split, block, threads):
    """The counts are those of the lines, one by one."""
    monkeypatch.setattr(readers, "BLOCK", block)
    monkeypatch.setattr(chunks, "THREADS", threads)
    corpus = th.load_corpus(f"text:{folder}", split=split)
    counted, expected = (th.count_pretokens(c, llama) for c in (corpus, list(corpus)))
    assert everything_in_order(counted) == everything_in_order(expected)


LINES = st.lists(
    st.lists(
        st.sampled_from([*"aé漢Я١7 ,.-('", "\t", "\x85", "\r", "e\u0301", "▁", "🎉", " x2"])
    ).map("".join)
)


@pytest.mark.parametrize("kind", ["byte-level", "wordpiece"])
@given(
    lines=LINES,
    ends=st.lists(st.sampled_from(["\n", "\r\n"]), min_size=1, max_size=3),
    start=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    has_end=st.booleans(),
    bad=st.none() | st.integers(0, 200),
    block=st.integers(1, 64),
    threads=st.integers(1, 4),
    split=st.sampled_from(["all", "train", "test"]),
)
@examples(60)
def test_any_file_is_counted_as_its_lines(
    tmp_path_factory, kind, lines, ends, start, has_end, bad, block, threads, split
):
    """Byte order mark, line ends, blank lines, lines longer than a block; and the same errors."""
    content = "".join(line + ends[i % len(ends)] for i, line in enumerate(lines)).encode()
    content = start + (content if has_end else content.rstrip(b"\r\n"))
    if bad is not None:
        content = content[:bad] + b"\xff" + content[bad:]
    file = tmp_path_factory.mktemp("any") / "a.txt"
    file.write_bytes(content)
    if not content:
        return
    corpus, outcomes = th.load_corpus(f"text:{file}", split=split), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "BLOCK", block)
        patch.setattr(chunks, "THREADS", threads)
        for documents in (corpus, map(str, corpus)):  # in blocks of bytes, and as strings
            try:
                outcomes.append(everything_in_order(th.count_pretokens(documents, encoder(kind))))
            except ValueError as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_all_of_a_folder_of_text(folder, llama, expected):
    counted = th.count_pretokens(th.load_corpus(f"text:{folder}", split="all"), llama)
    assert everything_in_order(counted) == expected


@pytest.mark.parametrize("split", ["all", "train"])
@pytest.mark.parametrize("kind", ["byte-level", "wordpiece"])
def test_text_in_another_encoding_and_invalid_text(tmp_path, split, kind):
    text = "".join(f"Käse {i} für zwei\n" for i in range(40))
    (tmp_path / "utf-8").write_text(text, "utf-8")
    (tmp_path / "utf-16").write_text(text, "utf-16")
    (tmp_path / "bad").write_bytes(text.encode() + b"\xff\n")
    one, other = (
        th.load_corpus(f"text:{tmp_path}/{name}", split=split, encoding=name)
        for name in ("utf-8", "utf-16")
    )
    assert dict(th.count_pretokens(one, encoder(kind))) == dict(
        th.count_pretokens(other, encoder(kind))
    )
    bad = f"text:{tmp_path}/bad"
    with pytest.raises(ValueError, match=f"bad: invalid UTF-8 at byte {len(text.encode())};"):
        th.count_pretokens(th.load_corpus(bad, split=split), encoder(kind))
    replaced = th.load_corpus(bad, split=split, errors="replace")
    assert dict(th.count_pretokens(replaced, encoder(kind))) == dict(
        th.count_pretokens(list(replaced), encoder(kind))
    )


def test_a_file_without_text_of_the_split(tmp_path, llama):
    (tmp_path / "a").write_text(" \n\r\n")
    for split in ("all", "train"):
        with pytest.raises(ValueError, match=f"no document in the split '{split}': it has no text"):
            th.count_pretokens(th.load_corpus(f"text:{tmp_path}/a", split=split), llama)


# --- a Dask bag -----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["llama-3", "wordpiece", "metaspace"])
@pytest.mark.parametrize("partitions", [1, 2, 7, 40])
def test_a_bag_is_counted_as_on_one_machine(texts, name, partitions, llama):
    """In the same order, whatever its partitions are, with a pattern, words and the library."""
    tokenizer = llama if name == "llama-3" else encoder("wordpiece")
    if name == "metaspace":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre.Metaspace()
    bag = db.from_sequence(texts[:300], npartitions=partitions)
    with dask.config.set(scheduler="threads"):
        counted = th.count_pretokens(bag, tokenizer, min_count=2)
    expected = th.count_pretokens(texts[:300], tokenizer, min_count=2)
    assert everything_in_order(counted) == everything_in_order(expected)


def test_a_bag_reads_files_in_blocks(folder, llama, expected):
    lines = db.read_text(f"{folder}/*.txt", blocksize=50_000, encoding="utf-8")
    lines = lines.map(lambda line: line.rstrip("\r\n")).filter(str.strip)
    with dask.config.set(scheduler="threads"):
        assert lines.npartitions > 10
        assert everything_in_order(th.count_pretokens(lines, llama)) == expected


def test_a_bag_that_cannot_be_counted(llama, tmp_path):
    with dask.config.set(scheduler="sync"):
        for documents, error, message in (
            (["a", None], ValueError, "missing value at index 1"),
            (["", ""], ValueError, "no text in its 2 documents"),
            ([b"a"], TypeError, "the document at index 0 must be a string, not bytes"),
        ):
            with pytest.raises(error, match=message):
                th.count_pretokens(db.from_sequence(documents, npartitions=1), llama)
    with pytest.raises(ValueError, match="a Dask bag is counted without folder="):
        th.count_pretokens(db.from_sequence(["a"]), llama, folder=tmp_path / "counts")


def killed_once(marker: str, text: str) -> str:
    """A document; the first worker that comes to the one called "fatal" dies."""
    if text == "fatal" and not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return text


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_a_killed_worker_of_a_cluster_changes_nothing(texts, llama, tmp_path):
    from dask.distributed import Client, LocalCluster

    texts = [*texts[:500], "fatal", *texts[500:1000]]
    marker = tmp_path / "killed"
    bag = db.from_sequence(texts, npartitions=8).map(partial(killed_once, str(marker)))
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "silence_logs": 50,
    }
    with LocalCluster(**options) as cluster, Client(cluster):
        counted = th.count_pretokens(bag, llama)
    assert marker.exists()
    assert everything_in_order(counted) == everything_in_order(th.count_pretokens(texts, llama))


# --- a folder -------------------------------------------------------------------------------------
@pytest.fixture
def small_parts(monkeypatch):
    """Parts of some documents, so that small texts have several."""
    monkeypatch.setattr(counting, "PART_BYTES", 20_000)
    monkeypatch.setattr(pretokens, "BATCH_BYTES", 5_000)
    monkeypatch.setattr(readers, "BLOCK", 5_000)


def parts_in(folder) -> dict[str, int]:
    """The parts in a folder, with the time when each was written."""
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("part-*.parquet")}


@pytest.mark.parametrize("as_text", [True, False])
def test_counts_through_a_folder_are_the_same(
    texts, folder, llama, tmp_path, expected, small_parts, as_text
):
    corpus = th.load_corpus(f"text:{folder}", split="all") if as_text else filter(str.strip, texts)
    counted = th.count_pretokens(corpus, llama, folder=tmp_path)
    assert dict(counted) == dict(expected[0]) and everything(counted)[1:] == expected[1]
    assert len(parts_in(tmp_path)) > 10
    assert dict(th.load_counts(tmp_path)) == dict(counted)
    assert list(counted) == sorted(counted, key=str.encode)  # in the order of their bytes


def test_equal_texts_make_equal_files(texts, llama, tmp_path, monkeypatch):
    """In row groups of one size, whatever the parts are."""
    monkeypatch.setattr(count_files, "ROWS", 5_000)
    for size in (20_000, 1 << 26):
        monkeypatch.setattr(counting, "PART_BYTES", size)
        monkeypatch.setattr(pretokens, "BATCH_BYTES", min(size, 1 << 22))
        th.count_pretokens(texts, llama, folder=tmp_path / str(size))
    one, other = (tmp_path / f"{size}" / "counts.parquet" for size in (20_000, 1 << 26))
    assert one.read_bytes() == other.read_bytes()
    about = parquet.read_metadata(one)
    sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
    assert len(sizes) > 2 and set(sizes[:-1]) == {5_000} and sum(sizes) == about.num_rows


@pytest.mark.parametrize("pre_tokenizer", [pre.ByteLevel(add_prefix_space=False), pre.Metaspace()])
@given(
    st.dictionaries(
        st.text(st.sampled_from("ab \n'") | st.characters(exclude_categories=["Cs"])),
        st.integers(1, 2**40),
    ).filter(any),
    st.sampled_from([1, 300, 10**6]),
)
@examples(20)
def test_random_documents_in_parts(tmp_path_factory, pre_tokenizer, documents, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "PART_BYTES", size)
        patch.setattr(pretokens, "BATCH_BYTES", size)
        counted = th.count_pretokens(documents, tokenizer, folder=tmp_path_factory.mktemp("counts"))
    assert everything(counted) == everything(th.count_pretokens(documents, tokenizer))


def test_chunks_with_a_space_through_a_folder(mistral, tmp_path):
    corpus = th.load_corpus("flores:ekk_Latn")
    counted = th.count_pretokens(corpus, mistral, folder=tmp_path)
    assert everything(counted) == everything(th.count_pretokens(corpus, mistral))


def test_rare_pretokens_are_dropped_after_the_merge(llama, tmp_path, monkeypatch):
    """Once in each of seven parts is seven times."""
    monkeypatch.setattr(counting, "PART_BYTES", 1)
    monkeypatch.setattr(pretokens, "BATCH_BYTES", 1)
    texts = [text for i in range(7) for text in [f"common{i} once", *[""] * 99]]
    for options in ({}, {"folder": tmp_path}):
        counted = th.count_pretokens(texts, llama, min_count=7, **options)
        assert dict(counted) == {"common": 7, "Ġonce": 7} and counted.documents == 700
        with pytest.raises(ValueError, match="no pre-token occurs 99 times: give a smaller min_c"):
            th.count_pretokens(texts, llama, min_count=99, **options)
    assert len(parts_in(tmp_path)) == 7


# --- what goes wrong on the way -------------------------------------------------------------------
def stops(texts, after, error):
    """Documents, of which those after so many cannot be had."""
    yield from texts[:after]
    raise error


def test_an_interrupted_count_goes_on(texts, llama, tmp_path, small_parts):
    """And counts only what is not there."""
    with pytest.raises(KeyboardInterrupt, match="^interrupted; run again to continue$"):
        th.count_pretokens(stops(texts, 600, KeyboardInterrupt()), llama, folder=tmp_path)
    left = parts_in(tmp_path)
    assert len(left) > 2 and not (tmp_path / "counts.parquet").exists()
    counted = th.count_pretokens(texts, llama, folder=tmp_path)
    assert everything(counted) == everything(th.count_pretokens(texts, llama))
    parts = parts_in(tmp_path)
    assert parts.items() > left.items()
    assert everything(th.count_pretokens(texts, llama, folder=tmp_path)) == everything(counted)
    assert parts_in(tmp_path) == parts  # nothing was counted again


def test_a_process_that_is_killed_leaves_whole_parts(texts, llama, tmp_path, small_parts):
    program = """
import os, sys, tokhelpers as th
from tokhelpers.text import counting, pretokens
counting.PART_BYTES, pretokens.BATCH_BYTES = 20_000, 5_000
write = counting.write_counts
def stop(file, *arguments, **options):
    if file.stem == "part-00002":
        os.kill(os.getpid(), 9)
    write(file, *arguments, **options)
counting.write_counts = stop
texts = open(sys.argv[1], encoding="utf-8").read().split("\\n")
th.count_pretokens(texts, th.load_tokenizer("llama-3"), folder=sys.argv[2])
"""
    texts = [text.replace("\r", "") for text in texts]
    (tmp_path / "text").write_text("\n".join(texts), "utf-8")
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "text", tmp_path / "counts"])
    assert done.returncode == -signal.SIGKILL
    left = parts_in(tmp_path / "counts")
    assert len(left) == 2
    counted = th.count_pretokens(texts, llama, folder=tmp_path / "counts")
    assert everything(counted) == everything(th.count_pretokens(texts, llama))
    assert parts_in(tmp_path / "counts").items() > left.items()


def test_a_folder_with_other_counts_is_refused(texts, llama, qwen, tmp_path, small_parts):
    th.count_pretokens(texts, llama, folder=tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    changed = [*texts[:600], "one more", *texts[600:]]
    for corpus, tokenizer in (
        (texts, qwen), (changed, llama), (texts[:600], llama), (texts[::-1], llama),
        (Counter(texts), llama), ([text + " " for text in texts], llama),
    ):  # fmt: skip
        message = (
            r"part-\d{5}\.parquet has counts of another corpus or tokenizer: give another folder"
        )
        with pytest.raises(ValueError, match=message):
            th.count_pretokens(corpus, tokenizer, folder=tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_the_same_bytes_divided_into_other_documents_are_another_corpus(llama, tmp_path):
    th.count_pretokens(["a cat", "sat"], llama, folder=tmp_path)
    for other in (["a catsat"], ["a ca", "tsat"], {"a cat": 2, "sat": 1}):
        with pytest.raises(ValueError, match="counts of another corpus"):
            th.count_pretokens(other, llama, folder=tmp_path)


@pytest.mark.parametrize("damage", ["a page", "its sizes", "its columns"])
def test_a_damaged_part_is_named(texts, llama, tmp_path, damage):
    th.count_pretokens(texts, llama, folder=tmp_path)
    file = tmp_path / "part-00000.parquet"
    if damage == "a page":
        file.write_bytes(file.read_bytes()[:1000] + bytes(1000) + file.read_bytes()[2000:])
    elif damage == "its sizes":  # in what the file says of its text
        file.write_bytes(re.sub(rb'("documents": )\d', rb"\g<1>9", file.read_bytes()))
    else:
        parquet.write_table(pa.table({"count": [1], "pretoken": ["a"]}), file)
    with pytest.raises(ValueError, match=f"{file}"):
        th.count_pretokens(texts, llama, folder=tmp_path)


def test_a_folder_that_cannot_be_used(llama, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match=str(tmp_path / "file")):
        th.count_pretokens(["a"], llama, folder=tmp_path / "file")


# --- the merge ------------------------------------------------------------------------------------
def written(file, *portions):
    """A file of counts, with rows as they come."""
    rows = (pa.table([list(c), list(c.values())], schema=count_files.SCHEMA) for c in portions)
    count_files.write_counts(file, rows, [1, 1, 1, 1], "{}")
    return file


def merged(files, folder):
    batches = count_files.merge_counts(files, folder)
    rows = pa.Table.from_batches(batches, count_files.SCHEMA)
    return dict(zip(rows["pretoken"].to_pylist(), rows["count"].to_pylist(), strict=True))


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.integers(1, 9)), min_size=1),
    st.sampled_from([1 << 26, 1 << 28]),
)
@examples(50)
def test_merged_counts_are_in_order_and_add_up(tmp_path_factory, portions, memory):
    """In the order of their bytes; NUL and what is no character yet are text like any other."""
    folder = tmp_path_factory.mktemp("files")
    files = [written(folder / "a.parquet", *portions), written(folder / "b.parquet", portions[0])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_files, "MEMORY", memory)
        counts = merged(files, folder)
    assert counts == sum(map(Counter, [*portions, portions[0]]), Counter())
    assert list(counts) == sorted(counts, key=str.encode)
    assert len(list(folder.iterdir())) == 2  # what was spilled is gone


def test_sums_are_exact_to_64_bits_and_no_further(tmp_path, monkeypatch):
    file, large = tmp_path / "a.parquet", {"a": 2**62, "b": 2**53}
    written(file, large, {"a": 2**62 - 1, "b": 1})
    assert merged([file], tmp_path) == {"a": 2**63 - 1, "b": 2**53 + 1}
    written(file, *[large] * 4)  # 2^64 is 0 in 64 bits
    with pytest.raises(ValueError, match="cannot add up the counts in .*: a sum exceeds 64 bits"):
        merged([file], tmp_path)
    written(file, large, large)
    with pytest.raises(ValueError, match="cannot add up the counts in .*: a sum exceeds 64 bits"):
        merged([file], tmp_path)
    monkeypatch.setattr(count_files, "MEMORY", 1 << 12)
    with pytest.raises(OSError, match=f"cannot add up the counts in {tmp_path}: Out of Memory"):
        merged([file], tmp_path)


def test_a_merge_goes_to_the_disk_and_says_nothing(tmp_path, capfd, monkeypatch):
    """Of 300,000 words of 200 letters, which are more than the 64 MB that it may take."""
    monkeypatch.setattr(count_files, "MEMORY", 1 << 26)
    files, spilled, merged = [], 0, []
    for i in range(3):
        counts = {f"{number:0200}": 1 for number in range(50_000 * i, 50_000 * i + 200_000)}
        files.append(written(tmp_path / f"{i}.parquet", counts))
    for batch in count_files.merge_counts(files, tmp_path):
        merged.append((batch["pretoken"][0].as_py(), batch["count"].to_numpy().sum()))
        spilled = max(spilled, sum(f.stat().st_size for f in tmp_path.rglob("*.tmp")))
    assert spilled > 1_000_000
    assert sum(n for _, n in merged) == 600_000 and merged == sorted(merged)
    assert sorted(tmp_path.iterdir()) == files
    assert capfd.readouterr() == ("", "")  # no progress bar


def test_paths_and_functions_are_no_corpus(tmp_path):
    base = th.train_byte_level_bpe(["bat"], vocab_size=257)
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text("bat", encoding="utf-8")
    for paths in (files, [str(file) for file in files]):
        with pytest.raises(TypeError, match=r'a list of paths.*load_corpus\("text:PATH"\)'):
            th.count_pretokens(paths, base)
    with pytest.raises(TypeError, match=r"the corpus is a function: call it, tolist\(\)"):
        th.count_pretokens(pd.Series(["bat"]).tolist, base)
    assert len(th.count_pretokens([str(files[0]), "bat"], base)) > 1  # a text may look like a path
