"""Files and folders that are written whole or not at all, and what is said where none can be."""

import errno
import io
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tokhelpers as th
from tokhelpers.tokenizer import checks, files
from tokhelpers.tokenizer.checks import positive, whole_number


@pytest.fixture
def steps(monkeypatch):
    """What is synced and what takes a place, in order: names of functions and inodes."""
    told = []

    def watch(module, name):
        real = getattr(module, name)

        def call(what, *others):
            told.append((name, os.stat(what).st_ino))
            real(what, *others)

        monkeypatch.setattr(module, name, call)

    for module, name in ((os, "fsync"), (os, "replace"), (files, "_swap")):
        watch(module, name)
    return told


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    (tmp_path / "folder" / "weights").write_bytes(b"weights")
    (tmp_path / "folder" / "a.txt").write_bytes(b"as it was")
    return tmp_path / "folder"


def save(folder):
    with files.replacing(folder, {"a.txt"}) as draft:
        (draft / "a.txt").write_bytes(b"new")


def inodes(*paths):
    return [path.stat().st_ino for path in paths]


# --- a power cut ---------------------------------------------------------------------------------
def test_files_are_on_the_disk_before_the_first_is_replaced(tmp_path, steps):
    one, other = tmp_path / "a.txt", tmp_path / "b.txt"
    one.write_bytes(b"as it was")
    files.write_all({one: b"new", other: lambda draft: draft.write_bytes(b"too")})
    expected = [(step, inode) for step in ("fsync", "replace") for inode in inodes(one, other)]
    assert steps == [*expected, ("fsync", tmp_path.stat().st_ino)]
    assert one.read_bytes() == b"new" and other.read_bytes() == b"too"


def test_a_folder_is_on_the_disk_before_it_is_swapped(folder, steps):
    save(folder)
    new, above = inodes(folder, folder.parent)
    written = inodes(folder, folder / "a.txt", folder / "inside")
    assert sorted(steps[:-2]) == sorted(("fsync", inode) for inode in written)
    assert steps[-2:] == [("_swap", new), ("fsync", above)]


# --- folders -------------------------------------------------------------------------------------
def test_what_comes_into_a_folder_meanwhile_stays(folder):
    with files.replacing(folder, {"a.txt"}) as draft:
        (draft / "a.txt").write_bytes(b"new")
        (folder / "checkpoint-7").mkdir()
        (folder / "checkpoint-7" / "weights").write_bytes(b"seventh")
        (folder / "more").write_bytes(b"other weights")
        (folder / "more").replace(folder / "weights")
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert found == {"a.txt": b"new", "weights": b"other weights"}
    assert (folder / "checkpoint-7" / "weights").read_bytes() == b"seventh"
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("there", [True, False])
def test_what_a_killed_save_left_behind_goes_with_the_next(folder, there):
    """But not what another one is writing at this moment, nor a folder with a name of its own."""
    place = folder if there else folder.parent / "new"
    code = "import os, sys\nfrom tokhelpers.tokenizer.files import replacing\n"
    code += "with replacing(sys.argv[1], ['a.txt']): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code, place]).returncode == -9
    (left,) = place.parent.glob(f".{place.name}.*.tmp")
    own = place.parent / f".{place.name}.own.tmp"
    own.mkdir()
    with files.replacing(place, ()):
        assert not left.exists()
        (under_way,) = set(place.parent.glob(f".{place.name}.*.tmp")) - {own}
        if there:
            save(place)
        assert under_way.is_dir() and own.is_dir()


def test_what_is_interrupted_leaves_no_folder(tmp_path):
    with pytest.raises(KeyboardInterrupt), files.replacing(tmp_path / "above" / "new", ()):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_folders_that_cannot_be_replaced(folder, monkeypatch):
    before = sorted(folder.parent.rglob("*"))
    monkeypatch.chdir(folder / "inside")
    for place, error, said in [
        ("../weights", FileExistsError, "weights is a file: give the name of a folder"),
        ("..", OSError, "folder is or holds the working directory: save to a folder in it"),
        ("/", OSError, "/ is a mount point, which cannot be swapped: save to a folder in it"),
    ]:
        with pytest.raises(error, match=said):
            save(place)
    folder.chmod(0o555)
    with pytest.raises(PermissionError, match="folder is read-only: make it writable, or save to"):
        save(folder)
    assert sorted(folder.parent.rglob("*")) == before


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, None])
def test_a_file_system_that_cannot_swap(code, folder, monkeypatch):
    """It says so, or the operating system has no such call."""
    libc = SimpleNamespace()
    if code:
        libc.renameat2 = lambda *args: files.ctypes.set_errno(code) or -1
    monkeypatch.setattr(files.ctypes, "CDLL", lambda *args, **options: libc)
    said = r"\(two folders cannot be swapped here in one step: save to one that does not exist yet"
    with pytest.raises(OSError, match=f"cannot save to {folder}, left as it was: .*{said}"):
        save(folder)
    assert (folder / "a.txt").read_bytes() == b"as it was"
    assert list(folder.parent.iterdir()) == [folder]
    save(folder.parent / "new")  # needs no swap
    assert (folder.parent / "new" / "a.txt").read_bytes() == b"new"


def test_the_call_on_macos(folder, monkeypatch):
    """There renamex_np swaps; here Linux's call stands behind its name."""
    real, calls = files.ctypes.CDLL(None, use_errno=True), []

    def swap(one, other, flags):
        calls.append(flags)
        return real.renameat2(-100, one, -100, other, flags)

    libc = SimpleNamespace(renamex_np=swap)
    monkeypatch.setattr(files.ctypes, "CDLL", lambda *args, **options: libc)
    save(folder)
    assert calls == [2] and (folder / "a.txt").read_bytes() == b"new"


# --- numbers -------------------------------------------------------------------------------------
def test_whole_and_positive_numbers():
    assert whole_number("seed", np.int64(-3)) == -3 and positive("size", np.uint8(1)) == 1
    for wrong in (1.5, "1", None, True, np.bool_(True)):
        with pytest.raises(ValueError, match="size must be a whole number, not .*: give one"):
            positive("size", wrong)
    with pytest.raises(ValueError, match="size must be at least 1, not 0: give a whole number"):
        positive("size", 0)


def test_progress_is_shown_in_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(checks, "DELAY", 0)
    monkeypatch.setattr(sys, "stderr", terminal)
    th.reachability(th.train_byte_level_bpe(["low lower"], vocab_size=258))
    assert "trying every token" in terminal.getvalue() and "learning tokens" in terminal.getvalue()
    terminal.isatty = lambda: False
    before = terminal.getvalue()
    th.train_byte_level_bpe(["low lower"], vocab_size=258)
    assert terminal.getvalue() == before
