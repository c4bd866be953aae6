"""Files that are written whole or not at all, and what is said of places where none can be."""

import os

import numpy as np
import pytest

from tokhelpers.tokenizer.checks import positive, whole_number
from tokhelpers.tokenizer.files import write_all


def test_everything_is_on_the_disk_before_the_first_file_is_replaced(tmp_path, monkeypatch):
    """A power cut after the first replacement must not find a file without its content."""
    (tmp_path / "a.txt").write_bytes(b"as it was")
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
    write_all(
        {tmp_path / "a.txt": b"new", tmp_path / "b.txt": lambda draft: draft.write_bytes(b"too")}
    )
    written = [(tmp_path / name).stat().st_ino for name in ("a.txt", "b.txt")]
    expected = [(step, inode) for step in ("sync", "replace") for inode in written]
    assert steps == [*expected, ("sync", tmp_path.stat().st_ino)]
    assert (tmp_path / "a.txt").read_bytes() == b"new" and (
        tmp_path / "b.txt"
    ).read_bytes() == b"too"


# --- numbers -------------------------------------------------------------------------------------
def test_whole_and_positive_numbers():
    assert whole_number("seed", np.int64(-3)) == -3 and positive("size", np.uint8(1)) == 1
    for wrong in (1.5, "1", None, True, np.bool_(True)):
        with pytest.raises(ValueError, match="size must be a whole number, not .*: give one"):
            positive("size", wrong)
    with pytest.raises(ValueError, match="size must be at least 1, not 0: give a whole number"):
        positive("size", 0)
