"""Files that are written whole or not at all, and what is said of places where none can be."""

import errno
import os

import numpy as np
import pytest

import tokhelpers as th
from tokhelpers.tokenizer import files
from tokhelpers.tokenizer.checks import positive, whole_number
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


def test_everything_is_on_the_disk_before_the_first_file_is_replaced(place, monkeypatch):
    """A power cut after the first replacement must not find a file without its content."""
    steps = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(descriptor):
        steps.append(("sync", os.fstat(descriptor).st_ino))
        real_sync(descriptor)

    def replace(draft, file):
        steps.append(("replace", os.stat(draft).st_ino))
        real_replace(draft, file)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    write_all({place / "a.txt": b"new", place / "b.txt": lambda draft: draft.write_bytes(b"too")})
    written = [(place / name).stat().st_ino for name in ("a.txt", "b.txt")]
    expected = [(step, inode) for step in ("sync", "replace") for inode in written]
    assert steps == [*expected, ("sync", place.stat().st_ino)]
    assert (place / "a.txt").read_bytes() == b"new" and (place / "b.txt").read_bytes() == b"too"


def test_a_folder_that_cannot_be_synced_does_no_harm(place, monkeypatch):
    real = os.fsync

    def no_folders(descriptor):
        if os.path.isdir(f"/dev/fd/{descriptor}"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", no_folders)
    write_all({place / "a.txt": b"new"})
    assert (place / "a.txt").read_bytes() == b"new"


# --- numbers -------------------------------------------------------------------------------------
def test_whole_and_positive_numbers():
    assert whole_number("seed", np.int64(-3)) == -3 and positive("size", np.uint8(1)) == 1
    for wrong in (1.5, "1", None, True, np.bool_(True)):
        with pytest.raises(ValueError, match="size must be a whole number, not .*: give one"):
            positive("size", wrong)
    with pytest.raises(ValueError, match="size must be at least 1, not 0: give a whole number"):
        positive("size", 0)


# --- read ----------------------------------------------------------------------------------------
def test_pipes_and_devices_are_not_read(place, monkeypatch):
    with pytest.raises(OSError, match="a pipe or a device is read once only: write it to a file"):
        th.load_corpus(f"text:{place}/pipe.json")
    with pytest.raises(OSError, match=r"pipe\.json is a pipe, a device or a folder: give a file"):
        th.load_tokenizer(place / "pipe.json")
    monkeypatch.setattr(files, "MAX_BYTES", 8)
    with pytest.raises(ValueError, match="more than 8 bytes: it cannot be such a file"):
        files.read_whole(place / "a.txt")
