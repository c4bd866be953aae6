"""Places that are hard to read from or write to: names, symlinks, pipes, full disks."""

import os
import resource
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from hostile_files import LINES, table
from hostile_text import encoder, small_model, words
from strategies import content

import tokhelpers as th
from tokhelpers.common import files

LATIN = os.fsdecode(b"caf\xe9")  # a name that is not UTF-8
NAMES = ["with spaces", "ä 👩‍🚀", "new\nline", "~x", "-x", "*", "[a]", LATIN, 200 * "y"]
FOLDER = tempfile.TemporaryDirectory()


@cache
def model() -> Path:
    """A SentencePiece model, for the function that writes one like it."""
    path = Path(FOLDER.name) / "small.model"
    path.write_bytes(small_model())
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(do, kinds, *named) -> None:
    """The call fails with one sentence, which has all of these words in it."""
    with pytest.raises(kinds) as caught:
        do()
    message = str(caught.value)
    assert "\n" not in message and all(str(word) in message for word in named), message


# --- what is written ------------------------------------------------------------------------------
@cache
def counts(large: bool):
    return th.count_pretokens(words()[: 40 if large else 1], encoder("byte-level"))


def save_counts(path, large=False):
    th.save_counts(counts(large), path)


def save_sentencepiece(path, large=False):
    made = th.load_tokenizer(model())
    if large:
        made = th.extend(made, th.continue_bpe(made, words(), 50))
    th.save_sentencepiece(made, path, model=model())


def save_pretrained(path, large=False):
    th.save_pretrained(encoder("wordpiece" if large else "byte-level"), path, overwrite=True)


def count(path, large=False):
    """A folder is for the counts of one text."""
    if large and os.path.isdir(path):
        path = Path(path, "large")
    th.count_pretokens(words()[: 40 if large else 1], encoder("byte-level"), folder=path)


TO_A_FILE = [save_counts, save_sentencepiece]
name_of = pytest.mark.parametrize("name", NAMES, ids=ascii)
every_writer = pytest.mark.parametrize("write", [*TO_A_FILE, save_pretrained, count])


# --- disks that are full --------------------------------------------------------------------------
@contextmanager
def full_disk():
    """No file may grow beyond 1,000 bytes, as on a disk that has no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@every_writer
def test_a_full_disk(write, place):
    """Nothing is written, in part or beside; then, without the trouble, all is."""
    folder = place / "in"
    folder.mkdir()
    write(folder / "out")
    before = content(folder)
    with full_disk():
        refused(lambda: write(folder / "out", large=True), (OSError, RuntimeError), folder)
        assert content(folder) == before
    write(folder / "out", large=True)
    assert content(folder) != before
    assert not [name for name in content(folder) if ".tmp" in name]


def test_several_files_are_written_all_or_none(place):
    (place / "a").write_bytes(b"old")

    def stop(draft):
        draft.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_all({place / "a": b"new", place / "b": stop})
    assert content(place) == {"a": b"old"}


def test_an_error_of_what_is_read_is_not_laid_on_the_file_that_is_written(place):
    read = Path("b").read_bytes
    refused(lambda: files.write_whole("a", lambda draft: read()), FileNotFoundError, "'b'")
    assert content(place) == {}


# --- places to write to ---------------------------------------------------------------------------
@name_of
@every_writer
def test_odd_names_are_written(name, write, place):
    if write is save_pretrained and name == LATIN:  # transformers has no way to load it again
        refused(lambda: write(place / name), ValueError, "AutoTokenizer cannot load the folder")
        assert content(place) == {}
        return
    write(place / name)
    assert os.path.lexists(place / name) and not list(place.rglob("*.tmp"))


@every_writer
def test_dots_and_symlinks_are_followed(write, place):
    (place / "real").mkdir()
    (place / "link").symlink_to("real")
    (place / "to come").symlink_to("real/new")
    write("nowhere/../link/../one")
    write("link/two")
    for large in (False, True):  # the second time there is one
        write("to come", large)
    assert {path.name for path in place.iterdir()} == {"real", "link", "to come", "one"}
    assert {path.name for path in (place / "real").iterdir()} == {"two", "new"}
    assert os.readlink(place / "to come") == "real/new" and os.readlink(place / "link") == "real"


@every_writer
def test_places_that_cannot_be_written_to(write, place):
    os.mkfifo("pipe")
    (place / "circle").symlink_to("circle")
    (place / "file").write_bytes(b"mine")
    before = sorted(place.rglob("*"))
    for path, kind, *named in [
        ("circle", OSError, "circle is a symlink that points to itself"),
        ("pipe", OSError, "pipe"),
        ("/dev/full", OSError, "/dev/full"),
        ("file/in", OSError, "file/in"),
        ("/proc/none/in", OSError, "/proc/none"),
        ("/proc/in", OSError, "/proc/in"),
        (300 * "x", OSError, 300 * "x", "File name too long"),
        ("a\0b", ValueError, "'a\\x00b' contains a character that file names cannot have"),
        ("a\ud800", ValueError, "'a\\ud800' contains a character that file names cannot have"),
    ]:
        refused(lambda path=path: write(path, large=True), kind, *named)
    assert sorted(place.rglob("*")) == before
    assert Path("/dev/full").is_char_device() and (place / "pipe").is_fifo()
    if write in TO_A_FILE:
        (place / "in").mkdir()
        refused(lambda: write(place / "in"), OSError, "in is a folder: give the name of a f")


# --- places to read from --------------------------------------------------------------------------
READERS = {
    "text": lambda path: list(th.load_corpus(f"text:{path}", split="train")),
    "jsonl": lambda path: list(th.load_corpus(f"jsonl:{path}")),
    "csv": lambda path: list(th.load_corpus(f"csv:{path}")),
    "parquet": lambda path: list(th.load_corpus(f"parquet:{path}")),
    "counts": th.load_counts,
    "tokenizer": lambda path: th.load_tokenizer(path, "path"),
}
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@every_reader
def test_places_that_cannot_be_read(read, place):
    """Nothing waits for a pipe, and nothing reads a device without end."""
    os.mkfifo("pipe")
    (place / "circle").symlink_to("circle")
    (place / "dangling").symlink_to("nothing")
    (place / "to a pipe").symlink_to("pipe")
    (place / "empty").mkdir()
    for path in ("pipe", "to a pipe", "/dev/zero", "circle", "dangling", "empty", "~no one/x"):
        refused(lambda path=path: read(path), (OSError, ValueError), path)


@name_of
def test_odd_names_are_read(name, place):
    (place / name).mkdir()
    (place / name / f"{name}.txt").write_text("\n".join(LINES))
    (place / name / f"{name}.parquet").write_bytes(table())
    (place / name / f"{name}.json").write_text(encoder("byte-level").to_str())
    here = Path(name) / name  # from the working directory
    assert set(READERS["text"](f"{here}.txt")) <= set(LINES)
    assert READERS["parquet"](f"{here}.parquet") == READERS["text"](f"{here}.txt")
    assert READERS["parquet"](f"{name}/../{name}") == READERS["parquet"](f"{here}.parquet")
    assert th.load_tokenizer(f"{here}.json").to_str() == encoder("byte-level").to_str()


def test_symlinks_that_go_in_circles_bring_no_text_twice(place):
    (place / "in" / "deep").mkdir(parents=True)
    (place / "in" / "deep" / "a.txt").write_text("\n".join(LINES))
    expected = READERS["text"](place / "in" / "deep" / "a.txt")
    (place / "in" / "again").symlink_to("..")
    (place / "in" / "deep" / "up").symlink_to("../deep")
    (place / "in" / "latest.txt").symlink_to("deep/a.txt")
    for where in ("in", "in/**/*.txt", "**", "in/again/in"):
        assert READERS["text"](where) == expected, where


def test_a_cache_that_cannot_be_written_says_where_another_is_named(place, monkeypatch):
    """On a full disk, or where a file is."""
    (place / "file").write_bytes(b"mine")
    (place / "folder").mkdir()
    for name in ("folder", "file"):
        monkeypatch.setenv("TOKHELPERS_CACHE", str(place / name))
        with (
            full_disk(),
            pytest.warns(UserWarning, match="could not cache mistral-v1: .*; set TOKHELPERS_CACHE"),
        ):
            assert th.load_tokenizer("mistral-v1").get_vocab_size() == 32_000
    assert content(place) == {"file": b"mine"}
