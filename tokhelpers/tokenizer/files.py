"""Where the project's files stand; files and folders that are written whole or not at all."""

import ctypes
import errno
import glob
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

PLACE = Path(__file__).parents[2]
# A line, or a tokenizer's file, of more bytes is refused: a small packed file may hold an endless one.
MAX_BYTES = 1 << 30
# The checkout. Where only the package is installed, a folder above the working folder will do that
# holds the tables, such as the students' version of the notebooks; without one there is none.
_ABOVE = (PLACE, Path.cwd(), *Path.cwd().parents)
CHECKOUT = next((place for place in _ABOVE if (place / "data" / "paper").is_dir()), None)


def destination(path: str | os.PathLike) -> Path:
    """Resolve a name to the place where it is written: symlinks are followed, ``~`` is expanded."""
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
    """Wait until a file's content, or the list of a folder's entries, is on the disk.

    Windows and some network file systems cannot sync folders: there it does nothing for one.
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


def read_whole(file: Path) -> bytes:
    """Return the bytes of a regular file, of ``MAX_BYTES`` at most."""
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


# --- files ---------------------------------------------------------------------------------------
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
            if file.exists() and not file.is_file():
                what = "a folder" if file.is_dir() else "a pipe or a device"
                raise FileExistsError(f"{file} is {what}: give the name of a file")
            if not file.parent.is_dir():
                raise FileNotFoundError(f"cannot write {file}: there is no folder {file.parent}")
            draft = drafts[file] = _draft_of(file)
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


def _draft_of(place: Path) -> Path:
    """A hidden name beside the place, another for each process that writes there."""
    return place.parent / f"{_hidden(place)}.{uuid4().hex}.tmp"


def _hidden(place: Path) -> str:
    return f".{place.name[:50]}"


# --- folders -------------------------------------------------------------------------------------
@contextmanager
def replacing(folder: Path, names: Collection[str]) -> Iterator[Path]:
    """Give a draft to write into, which takes the folder's place in one step when all is written.

    What the folder holds besides ``names`` is in the draft from the start, as hard links. Killed at
    any point, the folder is the old one or the new one; a hidden ``.NAME.*.tmp`` may stay beside it
    until the next call. What others write into the folder meanwhile is kept. Raises OSError, in one
    sentence, for what is no folder, may not be written, cannot be swapped (a mount point, the working
    directory, a file system or an operating system that cannot do it), and when the disk is full.
    """
    folder = destination(folder)
    there, draft = folder.exists(), _draft_of(folder)
    check_folder(folder)
    made = [parent for parent in folder.parents if not parent.exists()]  # the nearest first
    held = []
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_drafts(folder)
        draft.mkdir()
        held += [_hold(path) for path in (draft, folder) if path.exists()]
        if there:
            _carry_over(folder, draft, names)
        yield draft
        # the swap must not be on the disk before what it swaps in; what stays is there already
        for path in [draft, *draft.rglob("*")]:
            if path.is_dir() or path.relative_to(draft).parts[0] in names:
                sync(path)
        _swap(draft, folder) if there else os.rename(draft, folder)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        _let_go(*held)
        for parent in made:
            with suppress(OSError):  # somebody else uses it by now
                parent.rmdir()
        if isinstance(error, OSError):
            raise OSError(f"cannot save to {folder}, left as it was: {_why(error)}") from error
        raise
    sync(folder.parent)
    if there:
        # what was swapped out may be another call's folder, put there after the first hold, and a
        # third call may be clearing it already
        held.append(_hold(draft))
        with suppress(FileNotFoundError):
            _discard(draft, folder, names)
    _let_go(*held)


def check_folder(folder: str | os.PathLike) -> None:
    """Raise OSError for what is no folder and what should not or cannot be replaced."""
    folder = destination(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FileExistsError(f"{folder} is a file: give the name of a folder")
    if folder.is_mount():
        raise OSError(f"{folder} is a mount point, which cannot be swapped: save to a folder in it")
    # root may write everywhere
    if not os.access(folder, os.W_OK) or not folder.stat().st_mode & 0o222:
        raise PermissionError(f"{folder} is read-only: make it writable, or save to another folder")
    if Path.cwd().is_relative_to(folder):
        raise OSError(f"{folder} is or holds the working directory: save to a folder in it")


def _carry_over(folder: Path, draft: Path, names: Collection[str]) -> None:
    """Make the draft with what stays: hard links to files, copies of folders and of symlinks."""

    def without(place, entries):
        return set(names) & set(entries) if Path(place) == folder else set()

    options = {"symlinks": True, "copy_function": os.link, "dirs_exist_ok": True}
    shutil.copytree(folder, draft, **options, ignore=without)


def _hold(folder: Path, *, alone: bool = False) -> int | None:
    """Lock a folder, with others or alone, until the process ends or closes what is returned.

    None where others have locked it otherwise, and where there are no such locks (Windows).
    """
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        return descriptor
    except (AttributeError, OSError):
        _let_go(descriptor)
        return None


def _let_go(*held: int | None) -> None:
    for descriptor in held:
        if descriptor is not None:
            os.close(descriptor)


def _remove_drafts(folder: Path) -> None:
    """Remove the drafts of calls that were killed: those that nobody holds."""
    for draft in folder.parent.glob(f"{glob.escape(_hidden(folder))}.{'[0-9a-f]' * 32}.tmp"):
        if draft.is_dir() and (held := _hold(draft, alone=True)) is not None:
            shutil.rmtree(draft, ignore_errors=True)
            _let_go(held)


def _swap(draft: Path, folder: Path) -> None:
    """Exchange two folders in one step of the file system."""
    exchange, here = 2, -100  # RENAME_EXCHANGE (macOS: RENAME_SWAP); AT_FDCWD
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
        advice = (
            "two folders cannot be swapped here in one step: save to one that does not exist yet"
        )
        raise OSError(code, f"{os.strerror(code)} ({advice})")


def _why(error: OSError) -> str:
    if isinstance(error, shutil.Error):  # from copytree: a list of what failed
        source, _, why = error.args[0][0]
        return f"{Path(source).name} cannot be carried over ({why})"
    return error.strerror or str(error)


def _discard(old: Path, folder: Path, names: Collection[str]) -> None:
    """Delete the folder that was replaced; what came into it meanwhile goes to the new one."""
    for file in [path for path in old.rglob("*") if path.is_symlink() or not path.is_dir()]:
        inside = file.relative_to(old)
        new = folder / inside
        carried = new.is_symlink() or (new.exists() and file.samefile(new))
        if inside.parts[0] not in names and not carried:
            new.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, new)
    shutil.rmtree(old, ignore_errors=True)
