"""Where the project's files stand, and how files and folders are written."""

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

PLACE = Path(__file__).parents[2]
# A longer line or tokenizer file is refused: a small compressed file can expand without end.
MAX_BYTES = 1 << 30
# The checkout. Where only the package is installed, a folder above the working directory serves if it
# has the tables, as the student edition of the notebooks does; otherwise there is none.
_CANDIDATES = (PLACE, Path.cwd(), *Path.cwd().parents)
CHECKOUT = next((place for place in _CANDIDATES if (place / "data" / "paper").is_dir()), None)


def destination(path: str | os.PathLike) -> Path:
    """Resolve a path to the place that is written: follow symlinks and expand ``~``."""
    try:
        resolved = Path(os.path.realpath(os.path.expanduser(path)))
        os.fsencode(resolved)
    except ValueError:
        raise ValueError(
            f"{os.fspath(path)!r} contains a character that file names cannot have: choose another name"
        ) from None
    if resolved.is_symlink():
        raise OSError(f"{path} is a symlink that points to itself: choose another name")
    return resolved


def read_whole(file: Path) -> bytes:
    """Read a regular file of at most ``MAX_BYTES``."""
    if file.exists() and not file.is_file():
        raise OSError(f"{file} is a pipe, a device or a folder: give a file")
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(
            f"{file} has more than {MAX_BYTES:,} bytes: too large for a tokenizer file"
        )
    return file.read_bytes()


def reason(error: Exception) -> str:
    """Summarise an error of the Hub's client in one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line for line in lines if line and not re.match(r"\d{3} Client Error", line)]
    return next(iter(causes), type(error).__name__).rstrip(".")


# --- files ---------------------------------------------------------------------------------------
def write_whole(path: str | os.PathLike, content: bytes | Callable[[Path], None]) -> None:
    """Write one file as ``write_all`` writes several."""
    write_all({path: content})


def write_all(contents: Mapping[str | os.PathLike, bytes | Callable[[Path], None]]) -> None:
    """Write several files, each completely or not at all, and none before all drafts are written.

    The content of a file is bytes, or a function that writes them to the path it is given. A symlink
    is followed. Raises OSError, naming the file, if it is not a regular file, its folder does not
    exist, or it cannot be written, for example because the disk is full.
    """
    drafts, file, draft = {}, None, None
    try:
        for path, content in contents.items():
            file = destination(path)
            if file.exists() and not file.is_file():
                kind = "a folder" if file.is_dir() else "a pipe or a device"
                raise FileExistsError(f"{file} is {kind}: give the name of a file")
            if not file.parent.is_dir():
                raise FileNotFoundError(f"cannot write {file}: there is no folder {file.parent}")
            draft = drafts[file] = _draft_of(file)
            content(draft) if callable(content) else draft.write_bytes(content)
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


def _draft_of(place: Path, ending: str = "tmp") -> Path:
    """A hidden name beside the destination, different in each call."""
    return place.parent / f".{place.name[:50]}.{uuid4().hex}.{ending}"


# --- folders -------------------------------------------------------------------------------------
@contextmanager
def writing_folder(
    folder: Path, replaced: Collection[str] = (), *, overwrite: bool = False
) -> Iterator[Path]:
    """Yield a draft folder, which becomes ``folder`` once everything in it has been written.

    A folder that holds files is refused unless ``overwrite`` is set. The draft then starts with these
    files, as hard links, except for the names in ``replaced``; at the end the old folder is moved
    aside, the draft takes its name, and the old folder is deleted. If the process is killed between
    these steps, the old folder is left beside it as ``.NAME.*.old``. Raises OSError, in one sentence,
    for a folder that exists or cannot be written.
    """
    check_folder(folder, overwrite=overwrite)
    draft, old = _draft_of(folder), _draft_of(folder, "old")
    parents = [parent for parent in folder.parents if not parent.exists()]  # the nearest first
    try:
        if folder.exists():
            _copy_links(folder, draft, replaced)
        else:
            draft.mkdir(parents=True)
        yield draft
        if folder.exists():
            os.rename(folder, old)
        os.rename(draft, folder)
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if old.exists() and not folder.exists():
            os.rename(old, folder)
        for parent in parents:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
        if isinstance(error, OSError):
            raise OSError(f"cannot save to {folder}: {_cause(error)}") from error
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_folder(folder: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Raise OSError for a file, and for a folder that holds files unless it is to be overwritten."""
    folder = destination(folder)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file: give the name of a folder")
    if folder.exists() and not overwrite and any(folder.iterdir()):
        raise FileExistsError(
            f"{folder} exists and is not empty: choose another name, or pass overwrite=True"
        )


def _copy_links(folder: Path, draft: Path, replaced: Collection[str]) -> None:
    """Copy a folder as hard links, without the entries that are replaced."""

    def without(place, entries):
        return set(replaced).intersection(entries) if Path(place) == folder else set()

    shutil.copytree(folder, draft, symlinks=True, copy_function=os.link, ignore=without)


def _cause(error: OSError) -> str:
    if isinstance(error, shutil.Error):  # of copytree: a list of failures
        source, _, cause = error.args[0][0]
        return f"{Path(source).name} cannot be carried over ({cause})"
    return error.strerror or str(error)
