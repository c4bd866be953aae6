"""Files and folders that are written whole or not at all, and what is said where none can be."""

import errno
import io
import os
import re
import sys
from itertools import count

import numpy as np
import pytest
from strategies import content

import tokhelpers as th
from tokhelpers.common import checks, files
from tokhelpers.common.checks import positive, whole_number


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    (tmp_path / "folder" / "weights").write_bytes(b"weights")
    (tmp_path / "folder" / "a.txt").write_bytes(b"as it was")
    return tmp_path / "folder"


# --- folders -------------------------------------------------------------------------------------
def test_a_folder_takes_its_place_when_all_is_written(folder):
    weights = folder / "weights"
    inode = weights.stat().st_ino
    with files.writing_folder(folder, {"a.txt"}, overwrite=True) as draft:
        assert not (draft / "a.txt").exists() and (draft / "inside").is_dir()
        (draft / "a.txt").write_bytes(b"new")
        assert (folder / "a.txt").read_bytes() == b"as it was"
    assert (folder / "a.txt").read_bytes() == b"new" and weights.stat().st_ino == inode
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left")])
def test_what_is_interrupted_changes_nothing(error, folder):
    before = content(folder.parent)
    for place in (folder, folder.parent / "above" / "new"):
        with (
            pytest.raises((KeyboardInterrupt, OSError)),
            files.writing_folder(place, {"a.txt"}, overwrite=True) as draft,
        ):
            (draft / "a.txt").write_bytes(b"new")
            raise error
    assert content(folder.parent) == before
    assert not (folder.parent / "above").exists()


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_name(folder, monkeypatch):
    rename, calls = os.rename, count(1)

    def second_fails(source, target):
        if next(calls) == 2:
            raise PermissionError(errno.EACCES, "Permission denied")
        rename(source, target)

    monkeypatch.setattr(os, "rename", second_fails)
    before = content(folder.parent)
    with (
        pytest.raises(OSError, match=f"cannot save to {folder}: Permission denied"),
        files.writing_folder(folder, overwrite=True) as draft,
    ):
        (draft / "b.txt").write_bytes(b"new")
    assert content(folder.parent) == before


def test_folders_that_are_not_overwritten(folder):
    for place, options, match in [
        (folder / "weights", {"overwrite": True}, "weights is a file: give the name of a folder"),
        (folder, {}, "folder exists and is not empty: choose another name, or pass overwrite=True"),
    ]:
        with (
            pytest.raises(FileExistsError, match=match),
            files.writing_folder(place, **options),
        ):
            pass


# --- numbers -------------------------------------------------------------------------------------
def test_whole_and_positive_numbers():
    assert whole_number("seed", np.int64(-3)) == -3 and positive("size", np.uint8(1)) == 1
    for wrong in (1.5, "1", None, True, np.bool_(True)):
        with pytest.raises(ValueError, match="size must be a whole number, not .*: give one"):
            positive("size", wrong)
    with pytest.raises(ValueError, match="size must be at least 1, not 0"):
        positive("size", 0)


def test_progress_is_shown_in_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(checks, "DELAY", 0)
    monkeypatch.setattr(sys, "stderr", terminal)
    th.reachability(th.train_byte_level_bpe(["low lower"], vocab_size=258))
    assert {"counting", "trying every token", "learning tokens"} <= set(
        re.findall(r"counting|trying every token|learning tokens", terminal.getvalue())
    )
    terminal.isatty = lambda: False
    before = terminal.getvalue()
    th.train_byte_level_bpe(["low lower"], vocab_size=258)
    assert terminal.getvalue() == before
