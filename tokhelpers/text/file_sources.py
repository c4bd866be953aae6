"""Files as sources: which there are at a place, and their documents, whole or in parts."""

import glob
import os
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from . import readers
from .readers import PACKED, UTF_8, open_strings, row_groups
from .sources import PATHS, Source, source


class Part(NamedTuple):
    """Some files; or of one file, the documents that begin at `start` or later and before `end`.

    Both are in bytes, for Parquet files in row groups.
    """

    files: tuple[Path, ...]
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        others = f" and {len(self.files) - 1:,} more" if len(self.files) > 1 else ""
        inside = "" if self.end is None else f", from {self.start:,} to {self.end:,}"
        return f"{self.files[0]}{others}{inside}"


class Files(Source):
    """A file, the matches of a glob, or what a folder holds; PATH stands in the corpus' name.

    `read` gives the documents of a file that begin at `start` or later and before `end`.
    """

    endings: tuple[str, ...] = ("",)  # of the files that count in a folder

    @property
    def place(self) -> str:
        """The path, glob or folder."""
        return self.rest

    def files(self) -> list[Path]:
        """The files, sorted, at least one."""
        return files_at(self.kind, self.place, self.endings)

    def ranges(self, file: Path, size: int) -> list[tuple[int, int]]:
        """From where to where to read a file, to read about `size` bytes of it."""
        length = file.stat().st_size
        return [(at, min(at + size, length)) for at in range(0, length, size)]

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        files = self.files()
        if not any(file.stat().st_size for file in files):
            what = "the file is" if len(files) == 1 else f"all {len(files)} files are"
            raise ValueError(f"{self.name}: {what} empty")
        return "unknown (local file)", self.rest

    def documents(self, reading) -> Iterator[str]:
        files, start, end = reading.part or Part(tuple(self.files()))
        for file in files:
            yield from self.read(file, reading, start, end)

    def parts(self, reading, size: int) -> Iterator[Part]:
        """Parts in the order of the files; small files together.

        A document is never cut: it belongs to the part that it begins in. Packed files, and those in
        another encoding than UTF-8, stay whole.
        """
        together, held = [], 0
        for file in self.files():
            length = file.stat().st_size
            if together and held + length > size:
                yield Part(tuple(together))
                together, held = [], 0
            if length <= size or file.suffix in PACKED or reading.encoding != UTF_8:
                together.append(file)
                held += length
            else:
                yield from (Part((file,), *ends) for ends in self.ranges(file, size))
        if together:
            yield Part(tuple(together))


@source("text:PATH")
class TextFiles(Files):
    """Lines, without their ends."""

    encoded = True

    def read(self, file: Path, reading, start: int, end: int | None) -> Iterator[str]:
        return readers.read_lines(file, reading.errors, start, end, reading.encoding)


@source("jsonl:PATH")
class JsonLines(Files):
    """The field `column` of each line's object."""

    endings, encoded = PATHS["jsonl"], True

    def read(self, file: Path, reading, start: int, end: int | None) -> Iterator[str]:
        options = reading.column, reading.errors, start, end, reading.encoding
        return readers.json_lines(file, *options)


@source("parquet:PATH")
class ParquetFiles(Files):
    """The rows of `column`; parts are row groups."""

    endings = PATHS["parquet"]

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        found = super().provenance(split, column)
        open_strings(self.files()[0], column)
        return found

    def read(self, file: Path, reading, start: int, end: int | None) -> Iterator[str]:
        open_tokenizer, columns = open_strings(file, reading.column), [reading.column]
        rows = readers.parquet_rows(file, open_tokenizer, columns, reading.errors, start, end)
        return (text for _, text in rows)

    def ranges(self, file: Path, size: int) -> list[tuple[int, int]]:
        return row_groups(file, size)


@source("python-source")
class PythonSource(Files):
    """The .py files of the packages that are installed with this Python, each a document."""

    endings = (".py",)

    @property
    def place(self) -> str:
        return sysconfig.get_path("purelib")

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        return "each package's own", "the .py files of the packages installed with this Python"

    def read(self, file: Path, reading, start: int, end: int | None) -> Iterator[str]:
        return iter([readers.python_source(file, reading.errors)])

    def ranges(self, file: Path, size: int) -> list[tuple[int, None]]:
        return [(0, None)]


def files_at(kind: str, place: str, endings: tuple[str, ...] = ("",)) -> list[Path]:
    """The file, the matches of a glob, or what a folder holds; sorted, at least one.

    A file to which several paths lead is there once: symlinks may go in circles.
    """
    path = Path(os.path.expanduser(place))
    if path.is_file():
        return [path]
    if path.is_dir():
        if files := _walk(path, endings):
            return _once(files)
        wanted = ", ".join(f"*{ending}" for ending in endings)
        raise ValueError(f"{kind}:{place}: the folder has no file like {wanted}")
    if path.exists():
        raise OSError(f"{kind}:{place}: a pipe or a device is read once only: write it to a file")
    files = {Path(match) for match in glob.glob(str(path), recursive=True)}
    files = _once(file for file in files if file.is_file())
    if not files:
        raise FileNotFoundError(f"{kind}:{place}: no file or folder has or matches that path")
    return files


def _once(files: Iterable[Path]) -> list[Path]:
    """The files in order, each by the shortest of the paths that lead to it."""
    shortest_last = sorted(files, key=lambda file: (len(file.parts), file), reverse=True)
    return sorted({os.path.realpath(file): file for file in shortest_last}.values())


def _walk(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Files below a folder whose names have one of the endings, hidden ones left out."""
    found = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(path, n) for n in names if n.endswith(endings) and not n.startswith(".")]
    return sorted(file for file in found if file.is_file())
