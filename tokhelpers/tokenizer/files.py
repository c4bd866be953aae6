"""Where the project's files stand, and files that are written whole or not at all."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

PLACE = Path(__file__).parents[2]
# A line, or a tokenizer's file, of more bytes is refused: a small packed file may hold an endless one.
MAX_BYTES = 1 << 30
# The checkout. Where only the package is installed, a folder above the working folder will do that
# holds the tables, such as the students' version of the notebooks; without one there is none.
_ABOVE = (PLACE, Path.cwd(), *Path.cwd().parents)
CHECKOUT = next((place for place in _ABOVE if (place / "data" / "paper").is_dir()), None)


def destination(path: str | os.PathLike) -> Path:
    """Resolve the name of a file or folder to the place where it is written.

    Symlinks are followed and ``~`` is expanded. Raises ValueError for what cannot be a name,
    OSError for symlinks that lead in a circle.

    >>> destination("/no folder/../new").as_posix()
    '/new'
    """
    try:
        found = Path(os.path.realpath(os.path.expanduser(path)))
        os.fsencode(found)
    except ValueError:
        raise ValueError(
            f"{os.fspath(path)!r} has a character that no file name may have: give another name"
        ) from None
    if found.is_symlink():
        raise OSError(f"{path} is a symlink that leads back to itself: give another name")
    return found


def sync(path: Path) -> None:
    """Wait until the content of a file, or the list of a folder's entries, is on the disk.

    Raises OSError for a file where that fails. Windows and some network file systems cannot sync
    folders: there the function does nothing for one.
    """
    if not path.is_dir():
        with open(path, "r+b") as file:
            os.fsync(file.fileno())
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_whole(path: str | os.PathLike, content: bytes | Callable[[Path], None]) -> None:
    """Write one file as ``write_all`` writes several."""
    write_all({path: content})


def write_all(contents: Mapping[str | os.PathLike, bytes | Callable[[Path], None]]) -> None:
    """Write several files, each whole or not at all, and none before all are on the disk.

    A file's content is bytes or a function that writes them to the path that it is given. Where a
    symlink stands, the file that it names is written. Raises OSError, naming the file, for what is
    no regular file, has no folder, or cannot be written, as when the disk is full.
    """
    drafts, file, draft = {}, None, None
    try:
        for path, content in contents.items():
            file = destination(path)
            _check(file)
            # other processes may write the same file at the same time: each draft has its own name
            draft = drafts[file] = file.with_name(f"{file.name[:50]}.{uuid4().hex}.tmp")
            content(draft) if callable(content) else draft.write_bytes(content)
            sync(draft)
        for file, draft in drafts.items():
            os.replace(draft, file)
    except OSError as error:
        # an error about another file comes from what was read while writing
        if error.errno is None or error.filename not in (None, str(file), str(draft)):
            raise
        raise OSError(f"cannot write {file}: {os.strerror(error.errno)}") from error
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
    for folder in {file.parent for file in drafts}:
        sync(folder)


def _check(file: Path) -> None:
    """Refuse a place without a folder, and what a file must not replace."""
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder: give the name of a file")
    if file.exists() and not file.is_file():
        raise FileExistsError(f"{file} is a pipe or a device: give the name of a file")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"cannot write {file}: there is no folder {file.parent}")


def read_whole(file: Path) -> bytes:
    """Return the bytes of a regular file.

    Raises OSError for a pipe, a device or a folder, ValueError for more than ``MAX_BYTES``.
    """
    if file.exists() and not file.is_file():
        raise OSError(f"{file} is a pipe, a device or a folder: give a file")
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"{file} has more than {MAX_BYTES:,} bytes: it cannot be such a file")
    return file.read_bytes()


def reason(error: Exception) -> str:
    """Return what an error of the hub's client says, in one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not re.match(r"\d{3} Client Error", line)]
    return next(iter(told), type(error).__name__).rstrip(".")
