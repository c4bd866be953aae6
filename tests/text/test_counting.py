"""Counting apart: the same counts by any workers, in any shards, whatever goes wrong on the way."""

import multiprocessing
import random
import re
import signal
from collections import Counter
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor

import pyarrow as pa
import pytest
from hostile_files import everything
from hostile_text import encoder
from hypothesis import given, strategies as st
from pyarrow import parquet
from strategies import examples
from tokenizers import Tokenizer, models, pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import count_files, shards
from tokhelpers.text.corpora import Corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Real text of two scripts, empty and odd lines; a large, a small and a middling file."""
    texts = [
        text for code in ("fi", "ru") for text in th.load_corpus(f"wordfreq:{code}", chars=300_000)
    ]
    texts += ["", " ", "It's  e\u0301 \u1c89 x", ""]
    random.Random(3).shuffle(texts)
    folder = tmp_path_factory.mktemp("texts")
    for name, some in {"a": texts[:1000], "b": texts[1000:1050], "c": texts[1050:]}.items():
        lines = (text + ("\r\n" if i % 2 else "\n") for i, text in enumerate(some))
        (folder / f"{name}.txt").write_bytes("".join(lines).encode())
    return th.load_corpus(f"text:{folder}")


@pytest.fixture(scope="module")
def expected(corpus, llama):
    return digest(th.count_pretokens(corpus, llama))


def digest(counted) -> int:
    """A hash of all counts, of the sizes of the text and of the rules."""
    counts, *about = everything(counted)
    return hash((frozenset(counts.items()), *about))


def pool(workers):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


# --- the same counts ------------------------------------------------------------------------------
def test_several_workers_count_the_same(corpus, llama, expected):
    with pool(2) as executor:
        counted = th.count_pretokens(corpus, llama, executor=executor, shard_bytes=100_000)
    assert digest(counted) == expected


@pytest.mark.parametrize(("size", "memory"), [(50_000, 1), (1 << 30, 1 << 20), (1 << 30, 1)])
def test_any_shards_and_any_memory_count_the_same(corpus, llama, expected, size, memory):
    counted = th.count_pretokens(corpus, llama, memory=memory, shard_bytes=size)
    assert digest(counted) == expected


def test_equal_texts_make_equal_files(corpus, llama, tmp_path, monkeypatch):
    """In row groups of one size, however the rows come, and in any order of the shards."""
    monkeypatch.setattr(count_files, "ROWS", 5_000)
    files, parts = [], Corpus.parts
    for size in (100_000, 1 << 26):
        th.count_pretokens(corpus, llama, folder=tmp_path / str(size), shard_bytes=size)
        files.append((tmp_path / str(size) / "counts.parquet").read_bytes())
        monkeypatch.setattr(Corpus, "parts", lambda *a: reversed(list(parts(*a))))
    assert files[0] == files[1]
    about = parquet.read_metadata(tmp_path / "100000" / "counts.parquet")
    sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
    assert len(sizes) > 2 and set(sizes[:-1]) == {5_000} and sum(sizes) == about.num_rows


@pytest.mark.parametrize("cut", [pre.ByteLevel(add_prefix_space=False), pre.Metaspace()])
@given(
    st.dictionaries(
        st.text(st.sampled_from("ab \n'") | st.characters(exclude_categories=["Cs"])),
        st.integers(1, 2**40),
    ).filter(any),
    st.sampled_from([1, 300, 10**6]),
)
@examples(30)
def test_random_documents_in_batches(cut, documents, memory):
    """Which a proven pattern cuts, or the library."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = cut
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "BATCH_DOCUMENTS", 3)
        patch.setattr(shards, "BATCH_CHARS", 20)
        counted = th.count_pretokens(documents, tokenizer, memory=memory)
    assert digest(counted) == digest(th.count_pretokens(documents, tokenizer))


def test_rare_pretokens_are_cut_after_the_merge(llama, tmp_path):
    """Once in each of seven shards is seven times."""
    file = tmp_path / "text.txt"
    file.write_text("".join(f"common{i} once\n" for i in range(7)))
    corpus = th.load_corpus(f"text:{file}", split="train")
    n = sum(1 for _ in corpus)
    for how in ({}, {"memory": 1, "shard_bytes": 5}):
        counted = th.count_pretokens(corpus, llama, min_count=n, **how)
        assert dict(counted) == {"common": n, "Ġonce": n} and counted.documents == n
        with pytest.raises(ValueError, match="no pre-token occurs 99 times: give a smaller min_c"):
            th.count_pretokens(corpus, llama, min_count=99, **how)


# --- parts of files -------------------------------------------------------------------------------
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
        assert len(list(corpus.parts(size))) > 2
        with pytest.raises(ValueError, match=message):
            [list(part) for part in corpus.parts(size)]


def test_a_corpus_that_is_in_no_file_has_no_parts(tmp_path):
    (tmp_path / "a").write_text("some text")
    assert th.load_corpus("wordfreq:fi").parts() is None
    assert th.load_corpus(f"text:{tmp_path}", chars=5).parts() is None
    assert "part=" in repr(next(th.load_corpus("python-source").parts(1000)))


# --- what goes wrong on the way -------------------------------------------------------------------
class Deadly(Executor):
    """Gives its work to the workers of another, and kills one of these before the third task."""

    def __init__(self, others):
        self.others, self.tasks = others, 0

    def submit(self, *call):
        self.tasks += 1
        if self.tasks == 3:
            with pytest.raises(BrokenExecutor, match="terminated abruptly"):
                self.others.submit(signal.raise_signal, signal.SIGKILL).result()
        return self.others.submit(*call)


def test_a_killed_worker_of_a_pool_changes_nothing(corpus, llama, expected, tmp_path):
    how = {"folder": tmp_path, "shard_bytes": 20_000}
    with (
        pool(2) as executor,
        pytest.warns(UserWarning, match="a worker died.*is done in this process") as told,
    ):
        counted = th.count_pretokens(corpus, llama, executor=Deadly(executor), **how)
    assert len(told) == 1 and told[0].filename == __file__
    assert digest(counted) == expected
    assert [f.name for f in tmp_path.iterdir() if f.suffix != ".parquet"] == []


class AtOnce(Executor):
    """Does its work at once, by a function that may do it otherwise."""

    def __init__(self, work):
        self.work = work

    def submit(self, *call):
        future = Future()
        try:
            future.set_result(self.work(*call))
        except BaseException as error:
            future.set_exception(error)
        return future


def failing(name, times, error):
    """An executor that fails so often at a shard of that name."""
    left = [error] * times

    def work(task, shard, *more):
        if left and name in str(shard):
            raise left.pop()
        return task(shard, *more)

    return AtOnce(work)


def test_a_shard_is_tried_three_times(corpus, llama, expected, tmp_path):
    def run(times):
        bad_disk = failing("b.txt, from 0 to", times, OSError("the disk is gone"))
        how = {"folder": tmp_path, "shard_bytes": 19_999}
        return th.count_pretokens(corpus, llama, executor=bad_disk, **how)

    message = r"b\.txt.* failed 3 times, with OSError: the disk is gone"
    with pytest.raises(RuntimeError, match=message):
        run(3)
    assert not (tmp_path / "counts.parquet").exists()
    assert digest(run(2)) == expected


@pytest.mark.parametrize("damage", ["a page", "its sizes", "its columns"])
def test_a_damaged_run_is_named(corpus, llama, tmp_path, damage):
    th.count_pretokens(corpus, llama, folder=tmp_path)
    [file] = [f for f in tmp_path.iterdir() if f.name != "counts.parquet"]
    if damage == "a page":
        file.write_bytes(file.read_bytes()[:1000] + bytes(1000) + file.read_bytes()[2000:])
    elif damage == "its sizes":  # in what the file says of its text
        file.write_bytes(re.sub(rb'("documents": )\d', rb"\g<1>9", file.read_bytes()))
    else:
        parquet.write_table(pa.table({"count": [1], "pretoken": ["a"]}), file)
    with pytest.raises(
        ValueError, match=f"{file}: (a damaged file of counts: delete|damaged Parq)"
    ):
        th.count_pretokens(corpus, llama, folder=tmp_path)


def test_a_folder_that_cannot_be_used(llama, tmp_path):
    def elsewhere(task, shard, rules, folder, memory):
        return task(shard, rules, folder / "not mounted", memory)

    with pytest.raises(RuntimeError, match="sees no folder .*give folder=, a folder that all"):
        th.count_pretokens(["a"], llama, executor=AtOnce(elsewhere))
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match=str(tmp_path / "file")):
        th.count_pretokens(["a"], llama, folder=tmp_path / "file")


def test_a_second_run_counts_only_what_is_not_there(llama, tmp_path):
    """After an interruption, and after a file has changed."""
    texts, folder = tmp_path / "texts", tmp_path / "counts"
    texts.mkdir()
    for name in "abc":
        (texts / name).write_text(f"{name} file\n" * 50)
    corpus = th.load_corpus(f"text:{texts}")

    def run(executor=None):
        how = {"executor": executor, "folder": folder, "shard_bytes": 100}
        assert dict(th.count_pretokens(corpus, llama, **how)) == dict(
            th.count_pretokens(corpus, llama)
        )

    def written():
        return {f.name: f.stat().st_mtime_ns for f in folder.iterdir() if f.suffix == ".parquet"}

    with pytest.raises(KeyboardInterrupt):
        run(failing(f"{texts}/c", 1, KeyboardInterrupt()))
    left = written()
    assert left and "counts.parquet" not in left
    drafts = [folder / f".{next(iter(left))}.1.tmp", folder / ".others.parquet.1.tmp"]
    for draft in drafts:  # of a worker that was killed, and of somebody else
        draft.touch()
    run()
    assert [draft.exists() for draft in drafts] == [False, True]
    before = written()
    assert before.items() > left.items()
    (texts / "b").write_text("c file\n" * 50)  # of the same size
    run()
    made = written().items() - before.items()
    assert len(made) == 1 + len([p for p in corpus.parts(100) if p.part.files[0].name == "b"])


def test_documents_in_memory_are_known_by_their_text_and_the_rules(llama, tmp_path):
    for rules, expected in (
        (llama, {"a": 1, "Ġb": 1}),
        (encoder("wordpiece"), {"a": 1, "b": 1}),
    ) * 2:
        assert dict(th.count_pretokens(["a b"], rules, folder=tmp_path)) == expected
    assert len(list(tmp_path.iterdir())) == 3  # with counts.parquet


# --- the merge ------------------------------------------------------------------------------------
def written(file, *portions):
    """A file of counts, with rows as they come."""
    rows = (pa.table([list(c), list(c.values())], schema=count_files.SCHEMA) for c in portions)
    count_files.write_counts(file, rows, [1, 1, 1, 1], "{}")
    return file


def merged(files, folder, memory=1):
    batches = count_files.merge_counts(files, folder, memory)
    rows = pa.Table.from_batches(batches, count_files.SCHEMA)
    return dict(zip(rows["pretoken"].to_pylist(), rows["count"].to_pylist(), strict=True))


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.integers(1, 9)), min_size=1),
    st.sampled_from([1, 1 << 28]),
)
@examples(50)
def test_merged_counts_are_in_order_and_add_up(tmp_path_factory, portions, memory):
    """In the order of their bytes; NUL and what is no character yet are text like any other."""
    folder = tmp_path_factory.mktemp("files")
    files = [written(folder / "a.parquet", *portions), written(folder / "b.parquet", portions[0])]
    counts = merged(files, folder, memory)
    assert counts == sum(map(Counter, [*portions, portions[0]]), Counter())
    assert list(counts) == sorted(counts, key=str.encode)
    assert len(list(folder.iterdir())) == 2  # what was spilled is gone


def test_sums_are_exact_to_64_bits_and_no_further(tmp_path, monkeypatch):
    file, large = tmp_path / "a.parquet", {"a": 2**62, "b": 2**53}
    written(file, large, {"a": 2**62 - 1, "b": 1})
    assert merged([file], tmp_path) == {"a": 2**63 - 1, "b": 2**53 + 1}
    written(file, large, large)
    with pytest.raises(ValueError, match="cannot be added up: .*INT128 .*out of range"):
        merged([file], tmp_path)
    monkeypatch.setattr(count_files, "LEAST_MEMORY", 1 << 10)
    with pytest.raises(
        OSError, match=f"the counts in {tmp_path} cannot be added up: Out of Memory"
    ):
        merged([file], tmp_path, memory=1 << 12)


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
