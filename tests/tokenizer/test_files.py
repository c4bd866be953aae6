"""Files that are written whole or not at all, and what is said of places where none can be."""

import errno
import os

import pytest
from tokenizers import Tokenizer, models
from tokenizers import pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import readers
from tokhelpers.tokenizer.files import write_all


def inside(folder):
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


@pytest.fixture
def place(tmp_path):
    """A folder with a file and with what is none."""
    (tmp_path / "a.txt").write_bytes(b"as it was")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "circle").symlink_to("circle")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("folder", IsADirectoryError, "folder is a folder: give the name of a file"),
        ("pipe.json", FileExistsError, "pipe.json is a pipe or a device: give the name of a file"),
        ("none/b.txt", FileNotFoundError, "cannot write .*b.txt: there is no folder .*none$"),
        ("circle", OSError, "circle is a symlink that leads back to itself: give another name"),
        ("a\0b", ValueError, "a character that no file name may have: give another name"),
    ],
)
def test_where_no_file_can_be_nothing_is_written(place, name, kind, message):
    before = inside(place)
    with pytest.raises(kind, match=message):
        write_all({place / "a.txt": b"new", place / name: b"new"})
    assert inside(place) == before


def test_a_full_disk_leaves_the_files_as_they_were(place):
    before = inside(place)

    def full(draft):
        draft.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "any words", str(draft))

    with pytest.raises(OSError, match=r"^cannot write .*b\.txt: No space left on device$"):
        write_all({place / "a.txt": b"new", place / "b.txt": full})
    assert inside(place) == before


# --- read ----------------------------------------------------------------------------------------
def test_pipes_and_devices_are_not_read(place, monkeypatch):
    with pytest.raises(OSError, match="a pipe or a device is read once only: write it to a file"):
        th.load_corpus(f"text:{place}/pipe.json")
    with pytest.raises(OSError, match=r"pipe\.json is a pipe, a device or a folder: give a file"):
        th.load_tokenizer(place / "pipe.json")
    monkeypatch.setattr(readers, "MAX_BYTES", 8)
    with pytest.raises(ValueError, match="more than 8 bytes: it cannot be such a file"):
        readers.read_whole(place / "a.txt")


def test_damaged_counts_of_a_part_are_named(tmp_path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.Whitespace()
    counted = th.count_pretokens(["a b", "c"], tokenizer, folder=tmp_path)
    (tmp_path / "counts.parquet").unlink()
    (run,) = tmp_path.iterdir()
    whole = run.read_bytes()
    run.write_bytes(whole.replace(b"[4, 4, 3, 2]", b"[4, 4, 3, 3]"))
    with pytest.raises(
        ValueError, match="a damaged file of runs: delete it, and its text is count"
    ):
        th.count_pretokens(["a b", "c"], tokenizer, folder=tmp_path)
    run.unlink()
    assert th.count_pretokens(["a b", "c"], tokenizer, folder=tmp_path) == counted
