"""Counting apart: the same counts by any workers, in any shards, whatever goes wrong on the way."""

import gzip
import hashlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyarrow import parquet
from strategies import examples, one_fast
from tokenizers import Tokenizer, models, pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import count_files, counting
from tokhelpers.text.corpora import Corpus


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    return tokenizer


@pytest.fixture(scope="module")
def texts():
    """Real text of two scripts, empty and odd lines."""
    finnish = list(th.load_corpus("wordfreq:fi", chars=300_000))
    russian = list(th.load_corpus("wordfreq:ru", chars=300_000))
    both = [*finnish, *russian, "", " ", "It's  e\u0301 \u1c89 x", "\u2028"]
    random.Random(3).shuffle(both)
    return both


@pytest.fixture(scope="module")
def corpus(texts, tmp_path_factory):
    """The texts in three files, a large, a small and a middling one; some lines end in CR LF."""
    folder = tmp_path_factory.mktemp("texts")
    for name, some in {"a": texts[:1000], "b": texts[1000:1050], "c": texts[1050:]}.items():
        with open(folder / f"{name}.txt", "w", encoding="utf-8", newline="") as file:
            for i, text in enumerate(some):
                file.write(text.replace("\u2028", "") + ("\r\n" if i % 2 else "\n"))
    return th.load_corpus(f"text:{folder}")


@pytest.fixture(scope="module")
def expected(corpus, tokenizer):
    return digest(th.count_pretokens(corpus, tokenizer))


def digest(counted) -> str:
    """A hash of all counts and of the sizes of the text."""
    sizes = (counted.chars, counted.bytes, counted.spaced_words, counted.documents)
    text = json.dumps([sorted(counted.items()), sizes, counted.rules])
    return hashlib.sha256(text.encode()).hexdigest()


def pool(workers):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def dask():
    from dask.distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        yield client


# --- the same counts ------------------------------------------------------------------------------
@pytest.mark.parametrize("workers", one_fast(2, 7))
def test_any_number_of_workers_counts_the_same(corpus, tokenizer, expected, workers):
    with pool(workers) as executor:
        counted = th.count_pretokens(corpus, tokenizer, executor=executor, shard_bytes=100_000)
    assert digest(counted) == expected


@pytest.mark.long
def test_dask_counts_the_same(corpus, tokenizer, expected, texts, dask):
    executor = dask.get_executor()
    counted = th.count_pretokens(corpus, tokenizer, executor=executor, shard_bytes=100_000)
    assert digest(counted) == expected
    in_memory = th.count_pretokens(texts, tokenizer, executor=executor)
    assert digest(in_memory) == digest(th.count_pretokens(texts, tokenizer))


@pytest.mark.parametrize(("size", "memory"), [(50_000, 1), (1 << 30, 1 << 20), (1 << 30, 1)])
def test_any_shards_and_any_memory_count_the_same(corpus, tokenizer, expected, size, memory):
    counted = th.count_pretokens(corpus, tokenizer, memory=memory, shard_bytes=size)
    assert digest(counted) == expected


def test_equal_texts_make_equal_files(corpus, tokenizer, tmp_path, monkeypatch):
    """In row groups of one size, however the rows come, and in any order of the shards."""
    monkeypatch.setattr(count_files, "ROWS", 5_000)
    files, parts = [], Corpus.parts
    for size in (100_000, 1 << 26):
        th.count_pretokens(corpus, tokenizer, folder=tmp_path / str(size), shard_bytes=size)
        files.append((tmp_path / str(size) / "counts.parquet").read_bytes())
        monkeypatch.setattr(Corpus, "parts", lambda *a: reversed(list(parts(*a))))
    assert files[0] == files[1]
    about = parquet.read_metadata(tmp_path / "100000" / "counts.parquet")
    sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
    assert len(sizes) > 2 and set(sizes[:-1]) == {5_000} and sum(sizes) == about.num_rows


@pytest.mark.parametrize("memory", one_fast(300, 1, 10**6))
@given(
    documents=st.dictionaries(
        st.text(st.sampled_from("ab \n'") | st.characters(exclude_categories=["Cs"])),
        st.integers(1, 2**40),
    )
)
@examples(30)
def test_runs_of_random_documents(tokenizer, memory, documents):
    if not any(documents):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "BATCH_DOCUMENTS", 3)
        patch.setattr(counting, "BATCH_CHARS", 20)
        counted = th.count_pretokens(documents, tokenizer, memory=memory)
    assert digest(counted) == digest(th.count_pretokens(documents, tokenizer))


def test_the_slow_code_path_is_bounded_too(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=True)  # not proven
    expected = digest(th.count_pretokens(texts[:100], tokenizer))
    assert digest(th.count_pretokens(texts[:100], tokenizer, memory=100_000)) == expected


def test_rare_pretokens_are_cut_after_the_merge(tokenizer, tmp_path):
    """Once in each of seven shards is seven times."""
    file = tmp_path / "text.txt"
    file.write_text("".join(f"common{i} once\n" for i in range(7)))
    corpus = th.load_corpus(f"text:{file}", split="train")
    n = sum(1 for _ in corpus)
    for how in ({}, {"memory": 1, "shard_bytes": 5}):
        counted = th.count_pretokens(corpus, tokenizer, min_count=n, **how)
        assert dict(counted) == {"common": n, "Ġonce": n} and counted.documents == n
        with pytest.raises(ValueError, match="no pre-token occurs 99 times: give a smaller min_c"):
            th.count_pretokens(corpus, tokenizer, min_count=99, **how)


# --- parts of files -------------------------------------------------------------------------------
@given(
    lines=st.lists(st.sampled_from(["", "a", "é" * 5, "long " * 9, "\r", "x\r", "\ufeff"])),
    size=st.integers(1, 60),
    last=st.booleans(),
)
def test_parts_hold_each_line_once(lines, size, last, tmp_path_factory):
    file = tmp_path_factory.mktemp("lines") / "text"
    file.write_bytes(b"\xef\xbb\xbf" + "\n".join(lines).encode() + b"a\n" * last)
    whole = [th.load_corpus(f"text:{file}", split=split) for split in ("train", "test")]
    for corpus in whole:
        found = [text for part in corpus.parts(size) for text in part]
        try:
            assert found == list(corpus)
        except ValueError:
            assert found == []  # of this split there is nothing


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_parts_of_json_lines_parquet_and_packed_files(size, tmp_path):
    texts = [f"text {i} é" * (i % 5) or "x" for i in range(300)]
    lines = [json.dumps({"text": text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[:50]).encode()))
    parquet.write_table(pa.table({"text": texts}), tmp_path / "c.parquet", row_group_size=20)
    for kind in ("jsonl", "parquet"):
        corpus = th.load_corpus(f"{kind}:{tmp_path}")
        parts = list(corpus.parts(size))
        assert [text for part in parts for text in part] == list(corpus)
        assert (len(parts) > 5) == (size <= 100)


def test_places_in_a_part_are_places_in_the_file(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n' * 20 + '{"text": 1}')
    (tmp_path / "b.text").write_bytes(b"fine\n" * 20 + b"\xff\n")
    table = pa.table({"text": ["a"] * 9 + [None]})
    parquet.write_table(table, tmp_path / "c.parquet", row_group_size=2)
    for name, size, message in (
        ("a.jsonl", 50, r"a\.jsonl:21: 'text' must be a string, not int"),
        ("b.text", 50, r"b\.text: invalid UTF-8 at byte 100;"),
        ("c.parquet", 1, r"c\.parquet, row 10, column 'text': a string is needed"),
    ):
        corpus = th.load_corpus(f"{name.partition('.')[2]}:{tmp_path / name}")
        with pytest.raises(ValueError, match=message):
            [list(part) for part in corpus.parts(size)]


def test_a_corpus_that_is_in_no_file_has_no_parts(tmp_path):
    (tmp_path / "a").write_text("some text")
    assert th.load_corpus("wordfreq:fi").parts() is None
    assert th.load_corpus(f"text:{tmp_path}", chars=5).parts() is None
    assert "part=" in repr(next(th.load_corpus("python-source").parts(1000)))


# --- what goes wrong on the way -----------------------------------------------------------------------
class Deadly(Executor):
    """Gives its work to others, and before the third task kills one of these."""

    def __init__(self, others, kill):
        self.others, self.kill, self.tasks = others, kill, 0

    def submit(self, *call):
        self.tasks += 1
        if self.tasks == 3:
            self.kill()
        return self.others.submit(*call)


def kill_one_of(executor):
    with pytest.raises(BrokenExecutor, match="terminated abruptly"):
        executor.submit(signal.raise_signal, signal.SIGKILL).result()


@pytest.mark.parametrize("when", one_fast("at the third shard", "before"))
def test_a_killed_worker_of_a_pool_changes_nothing(corpus, tokenizer, expected, tmp_path, when):
    with pool(2) as executor:
        deadly = Deadly(executor, lambda: kill_one_of(executor))
        if when == "before":
            kill_one_of(executor)
        with pytest.warns(UserWarning, match="a worker died.*is done in this process") as told:
            counted = th.count_pretokens(
                corpus, tokenizer, executor=deadly, folder=tmp_path, shard_bytes=20_000
            )
    assert len(told) == 1 and told[0].filename == __file__
    assert digest(counted) == expected
    assert [f.name for f in tmp_path.iterdir() if f.suffix != ".parquet"] == []


@pytest.mark.long
def test_a_killed_worker_of_dask_changes_nothing(corpus, tokenizer, expected, tmp_path, dask):
    pid = next(iter(dask.run(os.getpid).values()))
    deadly = Deadly(dask.get_executor(), lambda: os.kill(pid, signal.SIGKILL))
    counted = th.count_pretokens(
        corpus, tokenizer, executor=deadly, folder=tmp_path, shard_bytes=20_000
    )
    assert digest(counted) == expected


class Failing(Executor):
    """Does its work at once; tasks whose arguments hold a name fail, some times."""

    def __init__(self, name, times, error):
        self.name, self.times, self.error, self.tried = name, times, error, 0

    def submit(self, task, *arguments):
        future = Future()
        if self.name in str(arguments[0]) and self.tried < self.times:
            self.tried += 1
            future.set_exception(self.error)
        else:
            future.set_result(task(*arguments))
        return future


def test_a_shard_is_tried_three_times(corpus, tokenizer, expected, tmp_path):
    twice = Failing("b.txt", 2, OSError("the disk is gone"))
    counted = th.count_pretokens(corpus, tokenizer, executor=twice, shard_bytes=19_999)
    assert digest(counted) == expected and twice.tried == 2
    always = Failing("b.txt, from 0 to", 99, OSError("the disk is gone"))
    message = r"b\.txt.* failed 3 times, with OSError: the disk is gone"
    with pytest.raises(RuntimeError, match=message):
        th.count_pretokens(corpus, tokenizer, executor=always, folder=tmp_path, shard_bytes=19_999)
    assert always.tried == 3
    assert not (tmp_path / "counts.parquet").exists()


def test_a_merge_that_fails_leaves_the_shards_and_no_result(
    corpus, tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(count_files, "LEAST_MEMORY", 1 << 10)
    message = f"the counts in {tmp_path} cannot be added up: Out of Memory"
    with pytest.raises(OSError, match=message):
        th.count_pretokens(corpus, tokenizer, folder=tmp_path, memory=1 << 12)
    left = list(tmp_path.iterdir())
    assert left and all(f.suffix == ".parquet" and f.name != "counts.parquet" for f in left)


@pytest.mark.parametrize("damage", ["in a page", "cut off", "its sizes", "other columns"])
def test_a_damaged_run_is_named(corpus, tokenizer, tmp_path, damage):
    th.count_pretokens(corpus, tokenizer, folder=tmp_path)
    [file] = [f for f in tmp_path.iterdir() if f.name != "counts.parquet"]
    whole = file.read_bytes()
    if damage == "other columns":
        parquet.write_table(pa.table({"count": [1], "pretoken": ["a"]}), file)
    else:
        at = whole.rindex(b'"documents": ') + 13  # in what the file says of its text
        damaged = {
            "in a page": whole[:1000] + bytes(1000) + whole[2000:],
            "cut off": whole[:-9],
            "its sizes": whole[:at] + b"9" + whole[at + 1 :],
        }
        file.write_bytes(damaged[damage])
    message = rf"{file}: (a damaged file of counts: delete it, and|damaged Parquet|not a Parquet)"
    with pytest.raises(ValueError, match=message):
        th.count_pretokens(corpus, tokenizer, folder=tmp_path)


@pytest.mark.parametrize("where", ["here", "worker"])
def test_text_that_cannot_be_read_is_named_at_once(tokenizer, tmp_path, where):
    (tmp_path / "bad.txt").write_bytes(b"fine\n" * 100 + b"\xff\n")
    corpus = th.load_corpus(f"text:{tmp_path}/bad.txt")
    message = r"bad\.txt: invalid UTF-8 at byte 500; errors='replace'"
    with ThreadPoolExecutor(2) as threads, pytest.raises(ValueError, match=message):
        executor = threads if where == "worker" else None
        th.count_pretokens(corpus, tokenizer, executor=executor, memory=1000)


def test_a_folder_that_a_worker_does_not_see(tokenizer, tmp_path):
    class Elsewhere(Executor):
        """A worker on another machine."""

        def submit(self, task, shard, rules, folder, *more):
            future = Future()
            try:
                future.set_result(task(shard, rules, folder / "not mounted", *more))
            except OSError as error:
                future.set_exception(error)
            return future

    with pytest.raises(RuntimeError, match="sees no folder .*give folder=, a folder that all"):
        th.count_pretokens(["a"], tokenizer, executor=Elsewhere())


KILLED = """
import os, signal, sys
import tokhelpers as th
from concurrent.futures import ThreadPoolExecutor

class Deadly(ThreadPoolExecutor):
    def submit(self, task, shard, *more):
        if "c.txt" in str(shard):
            os.kill(os.getpid(), signal.SIGKILL)
        future = super().submit(task, shard, *more)
        future.result()
        return future

corpus, tokenizer = th.load_corpus(sys.argv[1]), th.load_tokenizer(sys.argv[2])
th.count_pretokens(corpus, tokenizer, executor=Deadly(1), folder=sys.argv[3], shard_bytes=50_000)
"""


@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_run_that_is_cut_off_leaves_finished_shards_and_no_result(
    corpus, tokenizer, expected, tmp_path, how
):
    folder = tmp_path / "counts"
    if how == "killed":
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        given = [corpus.name, tmp_path / "tokenizer.json", folder]
        child = subprocess.run([sys.executable, "-c", KILLED, *given])
        assert child.returncode == -signal.SIGKILL
    else:
        stop = Failing("c.txt", 1, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            th.count_pretokens(corpus, tokenizer, executor=stop, folder=folder, shard_bytes=50_000)
    left = {f.name: f.stat().st_mtime_ns for f in folder.iterdir()}
    assert left and "counts.parquet" not in left
    assert all(count_files.describe_counts(folder / name)["documents"] for name in left)
    counted = th.count_pretokens(corpus, tokenizer, folder=folder, shard_bytes=50_000)
    assert digest(counted) == expected
    assert {name: (folder / name).stat().st_mtime_ns for name in left} == left


def test_a_second_run_counts_only_what_is_new(tokenizer, tmp_path):
    texts, folder = tmp_path / "texts", tmp_path / "counts"
    texts.mkdir()
    for name in "ab":
        (texts / name).write_text(f"{name} file\n" * 50)
    corpus = th.load_corpus(f"text:{texts}")
    th.count_pretokens(corpus, tokenizer, folder=folder, shard_bytes=100)
    before = {f.name: f.stat().st_mtime_ns for f in folder.iterdir()}
    (texts / "b").write_text("another file\n" * 50)
    counted = th.count_pretokens(corpus, tokenizer, folder=folder, shard_bytes=100)
    after = {f.name: f.stat().st_mtime_ns for f in folder.iterdir()}
    made = [name for name, when in after.items() if before.get(name) != when]
    assert dict(counted) == dict(th.count_pretokens(corpus, tokenizer))
    assert len(made) == 1 + len([p for p in corpus.parts(100) if p.part.files[0].name == "b"])


def test_documents_in_memory_are_known_by_their_text_and_the_rules(tokenizer, tmp_path):
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre.Whitespace()
    for rules, expected in ((tokenizer, {"a": 1, "Ġb": 1}), (words, {"a": 1, "b": 1})) * 2:
        assert dict(th.count_pretokens(["a b"], rules, folder=tmp_path)) == expected
    assert len(list(tmp_path.iterdir())) == 3  # with counts.parquet


@pytest.mark.parametrize("name", ["memory", "shard_bytes", "min_count"])
def test_sizes_workers_and_folders_that_are_none(tokenizer, tmp_path, name):
    for value in (0, 1.5):
        with pytest.raises(ValueError, match=f"{name} must be (a whole number|at least 1), not"):
            th.count_pretokens(["a"], tokenizer, **{name: value})
    with pytest.raises(TypeError, match="executor=2 cannot run.* such as ProcessPoolExecutor"):
        th.count_pretokens(["a"], tokenizer, executor=2)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match=str(tmp_path / "file")):
        th.count_pretokens(["a"], tokenizer, folder=tmp_path / "file")


# --- the merge ----------------------------------------------------------------------------------------
def written(file, *portions):
    """A file of counts, with rows as they come."""
    rows = (pa.table([list(c), list(c.values())], schema=count_files.SCHEMA) for c in portions)
    count_files.write_counts(file, rows, [1, 1, 1, 1], "{}")
    return file


def merged(files, folder, memory=1):
    rows = pa.Table.from_batches(
        count_files.merge_counts(files, folder, memory), count_files.SCHEMA
    )
    return rows["pretoken"].to_pylist(), rows["count"].to_pylist()


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.integers(1, 9)), min_size=1),
    st.sampled_from([1, 1 << 28]),
)
@examples(50)
def test_merged_counts_are_in_order_and_add_up(tmp_path_factory, portions, memory):
    """In the order of their bytes; NUL and what is no character yet are text like any other."""
    folder = tmp_path_factory.mktemp("files")
    files = [written(folder / "a.parquet", *portions), written(folder / "b.parquet", portions[0])]
    words, numbers = merged(files, folder, memory)
    total = sum(map(Counter, [*portions, portions[0]]), Counter())
    assert dict(zip(words, numbers, strict=True)) == total
    assert words == sorted(total, key=str.encode)
    assert len(list(folder.iterdir())) == 2  # what was spilled is gone


def test_sums_are_exact_to_64_bits_and_no_further(tmp_path):
    file, large = tmp_path / "a.parquet", {"a": 2**62, "b": 2**53}
    written(file, large, {"a": 2**62 - 1, "b": 1})
    assert merged([file], tmp_path) == (["a", "b"], [2**63 - 1, 2**53 + 1])
    written(file, large, large)
    with pytest.raises(ValueError, match="cannot be added up: .*INT128 .*out of range"):
        merged([file], tmp_path)


def test_a_merge_goes_to_the_disk_and_says_nothing(tmp_path, capfd):
    """Of 300,000 words of 200 letters, which are more than the 64 MB that it may take."""
    files, spilled, merged = [], 0, []
    for i in range(3):
        counts = {f"{number:0200}": 1 for number in range(50_000 * i, 50_000 * i + 200_000)}
        files.append(written(tmp_path / f"{i}.parquet", counts))
    for batch in count_files.merge_counts(files, tmp_path, 1):
        merged.append((batch["pretoken"][0].as_py(), batch["count"].to_numpy().sum()))
        spilled = max(spilled, sum(f.stat().st_size for f in tmp_path.rglob("*.tmp")))
    assert spilled > 1_000_000
    assert sum(n for _, n in merged) == 600_000 and merged == sorted(merged)
    assert sorted(tmp_path.iterdir()) == files
    assert capfd.readouterr() == ("", "")  # no progress bar
