"""Folders that are replaced whole or not at all."""

import ctypes
import errno
import os
import shutil
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from .files import destination, sync

NO_SWAP = {errno.ENOSYS, errno.EINVAL, errno.EXDEV, errno.ENOTSUP, errno.EBUSY}


@contextmanager
def replacing(folder: Path, names: Collection[str]) -> Iterator[Path]:
    """Give a draft to write into, which takes the folder's place in one step when all is written.

    What the folder holds besides ``names`` is in the draft from the start, as hard links. Killed at
    any point, the folder is the old one or the new one; a hidden folder ``.NAME.*.tmp`` may stay
    beside it, which can be deleted. What others write into the folder meanwhile is never deleted.

    Raises OSError, in one sentence, for what is no folder, may not be written, cannot be swapped
    (a mount point, the working directory, a file system or an operating system that cannot do it),
    and when the disk is full.
    """
    folder = destination(folder)
    draft = folder.with_name(f".{folder.name[:50]}.{uuid4().hex}.tmp") if folder.name else folder
    _check(folder)
    there = folder.is_dir()
    made = [parent for parent in folder.parents if not parent.exists()]  # the nearest first
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _fill(draft, folder, names) if there else draft.mkdir()
        yield draft
        _sync_written(draft, names)
        _swap(draft, folder) if there else os.rename(draft, folder)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        for parent in made:
            with suppress(OSError):  # somebody else uses it by now
                parent.rmdir()
        if isinstance(error, OSError):
            raise OSError(f"cannot save to {folder}, left as it was: {_why(error)}") from error
        raise
    sync(folder.parent)
    if there:
        _discard(draft, folder, names)


def _sync_written(draft: Path, names: Collection[str]) -> None:
    """Bring a draft to the disk: the swap must not be there before what it swaps in.

    What the draft has as hard links is on the disk already.
    """
    for place, _, files in os.walk(draft):
        for file in (Path(place, name) for name in files):
            if file.relative_to(draft).parts[0] in names:
                sync(file)
        sync(Path(place))


def _check(folder: Path) -> None:
    """Refuse what is no folder and what should not or cannot be replaced."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file: give the name of a folder")
    if folder.is_mount():
        raise OSError(f"{folder} is a mount point, which cannot be swapped: save to a folder in it")
    # root may write everywhere, yet a folder without any write permission is meant to stay
    if not os.access(folder, os.W_OK) or not folder.stat().st_mode & 0o222:
        raise PermissionError(f"{folder} is read-only: make it writable, or save to another folder")
    if Path.cwd().is_relative_to(folder):
        raise OSError(
            f"{folder} is the working directory or holds it, and would be swapped for a new folder: "
            "save to a folder in it, or from outside"
        )


def _fill(draft: Path, folder: Path, names: Collection[str]) -> None:
    """Make the draft with what stays: hard links to files, copies of folders and of symlinks."""

    def without(place, entries):
        return set(names) & set(entries) if Path(place) == folder else set()

    shutil.copytree(folder, draft, symlinks=True, copy_function=os.link, ignore=without)
    for place, _, _ in os.walk(draft):
        with suppress(OSError, AttributeError):  # not everybody may give a folder away
            owner = os.stat(folder / os.path.relpath(place, draft))
            os.chown(place, owner.st_uid, owner.st_gid)


def _swap(draft: Path, folder: Path) -> None:
    """Exchange two folders in one step of the file system."""
    exchange = 2  # Linux's RENAME_EXCHANGE and macOS's RENAME_SWAP
    here = -100  # AT_FDCWD: paths are as seen from the working directory
    one, other = os.fsencode(draft), os.fsencode(folder)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "renameat2"):
            failed = libc.renameat2(here, one, here, other, exchange)
        else:
            failed = libc.renamex_np(one, other, exchange)
    except (AttributeError, TypeError):  # neither Linux nor macOS
        failed = ctypes.set_errno(errno.ENOSYS) or True
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, f"{os.strerror(code)} (two folders cannot be swapped here in one step)")


def _why(error: OSError) -> str:
    if isinstance(error, shutil.Error):  # from copytree: a list of what failed
        source, _, reason = error.args[0][0]
        return f"{Path(source).name} cannot be carried over ({reason})"
    advice = " (or save to a folder that does not exist yet)" * (error.errno in NO_SWAP)
    return f"{error.strerror or error}{advice}"


def _discard(old: Path, folder: Path, names: Collection[str]) -> None:
    """Delete the folder that was replaced, unless it holds what came into it meanwhile."""
    strays = []
    for place, _, files in os.walk(old):
        for file in (Path(place, name) for name in files):
            inside = file.relative_to(old)
            if inside.parts[0] not in names and not _same(file, folder / inside):
                strays.append(inside)
    if not strays:
        shutil.rmtree(old, ignore_errors=True)
        return
    warnings.warn(
        f"{len(strays):,} files, first {strays[0]}, came into {folder} while it was replaced: they "
        f"are in {old}, take them from there",
        stacklevel=5,
    )


def _same(one: Path, other: Path) -> bool:
    if one.is_symlink():
        return other.is_symlink() and os.readlink(one) == os.readlink(other)
    return other.exists() and one.samefile(other)
