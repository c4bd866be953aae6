"""Read documents from one file: lines of text, JSON lines or CSV, packed or not, local or remote.

Text is UTF-8 unless another encoding is named; a byte order mark at the start of a file is dropped.
Content that cannot be read raises a ValueError that names the file and the byte or line;
`errors="replace"` reads invalid UTF-8 and lone surrogates as U+FFFD instead.
"""

import codecs
import csv
import glob
import io
import json
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
from fsspec.compression import compr
from fsspec.core import get_compression, url_to_fs

from ..common.checks import SURROGATE
from ..common.files import MAX_BYTES

BLOCK = 1 << 20  # bytes read at a time
BOM = "\ufeff"
UTF_8 = "utf-8"
ARCHIVE_ERRORS = (EOFError, zlib.error, lzma.LZMAError, OSError)
UTF_16 = "is UTF-16: give encoding='utf-16'"
SIGNATURES = {  # how files begin that are not UTF-8 text, and what to do with each
    b"\x1f\x8b": "is compressed by gzip: give it a name that ends in .gz",
    b"\xfd7zXZ": "is compressed by xz: give it a name that ends in .xz",
    b"PK\x03\x04": "is a zip archive: unpack it",
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
}


# --- which files ---------------------------------------------------------------------------------
def files_at(kind: str, place: str, endings: tuple[str, ...] = ("",)) -> list[Path | str]:
    """List a file, the matches of a glob, or the files below a folder; sorted, at least one.

    ``place`` is a path, or the URL of remote storage such as ``s3://bucket/*.gz``, which fsspec
    resolves. A local file that several paths lead to is listed once. Raises FileNotFoundError if
    nothing is there, ValueError for a folder without a file that has one of the ``endings``.
    """
    if "://" in place:
        system, path = url_to_fs(place)
        matches = system.find(path) if system.isdir(path) else system.glob(path)
        files = sorted(system.unstrip_protocol(m) for m in matches if m.endswith(endings))
    else:
        path = Path(os.path.expanduser(place))
        if path.is_file():
            return [path]
        if path.is_dir():
            if files := _walk(path, endings):
                return _each_once(files)
            wanted = ", ".join(f"*{ending}" for ending in endings)
            raise ValueError(f"{kind}:{place}: the folder has no file like {wanted}")
        if path.exists():
            raise OSError(
                f"{kind}:{place}: a pipe or device can be read only once; save it to a file"
            )
        matches = {Path(match) for match in glob.glob(str(path), recursive=True)}
        files = _each_once(file for file in matches if file.is_file())
    if not files:
        raise FileNotFoundError(f"{kind}:{place}: no file or folder has or matches that path")
    return files


def _each_once(files: Iterable[Path]) -> list[Path]:
    """The files in order, each by the shortest of the paths that lead to it."""
    shortest_last = sorted(files, key=lambda file: (len(file.parts), file), reverse=True)
    return sorted({os.path.realpath(file): file for file in shortest_last}.values())


def _walk(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Regular files below a folder with one of the endings, without hidden ones and saved tokenizers."""
    files = []
    for path, folders, names in os.walk(folder):
        if "tokenizer.json" in names and Path(path) != folder:  # a saved tokenizer is no text
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(path, n) for n in names if n.endswith(endings) and not n.startswith(".")]
    return [file for file in files if file.is_file()]


# --- lines of text ---------------------------------------------------------------------------------
def decode(data: bytes, where, offset: int, errors: str, encoding: str = UTF_8) -> str:
    """Decode bytes; the ValueError for invalid ones names the place, ``offset`` bytes added."""
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        nearby = data[max(0, error.start - 1) : error.start + 2]
        is_latin = 0xC0 <= data[error.start] < 0xFF and re.search(rb"[A-Za-z]", nearby)
        raise ValueError(
            f"{where}: invalid {encoding.upper()} at byte {offset + error.start}; "
            + ("if it is Latin-1, give encoding='latin-1'; " if is_latin else "")
            + "errors='replace' reads it as U+FFFD"
        ) from None


def read_blocks(file: Path | str, errors: str, encoding: str = UTF_8) -> Iterator[bytes]:
    """Yield the lines of a file as valid UTF-8, about `BLOCK` bytes of whole lines at a time.

    Raises ValueError for a damaged archive, text in another encoding, and a line that is too long.
    """
    offset = 0
    with _opened(file) as stream:
        for block in _whole_lines(_pieces(stream, file, errors, encoding), file):
            if is_first := not offset:
                _check_signature(file, block)
            text = block if _is_utf8(block) else decode(block, file, offset, errors).encode()
            offset += len(block)
            if text := text.removeprefix(BOM.encode()) if is_first else text:
                yield text


def _is_utf8(data: bytes) -> bool:
    """Say whether bytes are valid UTF-8, three times as fast as by decoding them."""
    buffers = pa.py_buffer(np.array([0, len(data)])), pa.py_buffer(data)
    try:
        pa.LargeStringArray.from_buffers(1, *buffers).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


@contextmanager
def _opened(file: Path | str) -> Iterator:
    """The decompressed content of a local file or a URL, by the ending of its name."""
    with ExitStack() as stack:
        # fsspec would read "::" and "://" in the name of a local file as a chain of URLs
        opener = open if isinstance(file, Path) else fsspec.open
        stream = stack.enter_context(opener(file, "rb"))
        packed = get_compression(str(file), "infer")
        if packed == "zip":  # of several files in it only one would be read
            raise ValueError(f"{file} is a zip archive: unpack it")
        if packed:
            stream = stack.enter_context(compr[packed](stream, mode="rb"))
        yield stream


def _pieces(stream, file, errors: str, encoding: str) -> Iterator[bytes]:
    """The content of a stream in pieces, as UTF-8 if it has another encoding."""
    try:
        if encoding == UTF_8:
            yield from iter(partial(stream.read, BLOCK), b"")
            return
        with io.TextIOWrapper(stream, encoding, errors, newline="\n") as text:
            while piece := text.read(BLOCK):
                yield piece.encode()
    except UnicodeError as error:
        raise ValueError(f"{file} is not {encoding.upper()} ({error}): give its encoding") from None
    except ARCHIVE_ERRORS as error:
        if getattr(error, "errno", None):  # an error of the operating system
            raise
        raise ValueError(f"{file}: damaged or truncated archive ({error})") from None


def _whole_lines(pieces: Iterable[bytes], file) -> Iterator[bytes]:
    """The same content, divided behind newlines only."""
    pending, size, offset = [], 0, 0
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end:
            yield b"".join([*pending, piece[:end]])
            offset, pending, size = offset + size + end, [], 0
        pending.append(piece[end:])
        size += len(piece) - end
        if size > MAX_BYTES:
            raise ValueError(
                f"{file}: the line at byte {offset} has more than {MAX_BYTES:,} bytes: divide it "
                "into documents, one per line"
            )
    if size:
        yield b"".join(pending)


def _check_signature(file, beginning: bytes) -> None:
    """Raise ValueError for a file that is compressed or UTF-16."""
    reasons = [reason for start, reason in SIGNATURES.items() if beginning.startswith(start)]
    first = beginning[:8]
    if len(first) == 8 and not any(first[1::2]) and all(first[::2]):
        reasons.append(UTF_16)
    if reasons:
        raise ValueError(f"{file} {reasons[0]}")


def read_lines(file, column: str, errors: str, encoding: str = UTF_8) -> Iterator[str]:
    """Yield the lines of a file without their ends; ``column`` is ignored."""
    for block in read_blocks(file, errors, encoding):
        lines = block.decode().split("\n")
        if not lines[-1]:  # behind the last newline
            lines.pop()
        for line in lines:
            yield line.removesuffix("\r")


# --- a field of each row -----------------------------------------------------------------------------
def read_json_lines(file, column: str, errors: str, encoding: str = UTF_8) -> Iterator[str]:
    """Yield the field ``column`` of the JSON object on each line."""
    for number, line in enumerate(read_lines(file, column, errors, encoding), 1):
        if line and not line.isspace():
            try:
                text = field_of(_parsed(line), column, errors)
            except ValueError as error:
                raise ValueError(f"{file}:{number}: {error}") from None
            yield text


def _parsed(line: str):
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        if line.lstrip().startswith("["):
            raise ValueError("an array begins here: write one object per line") from None
        raise ValueError(f"not valid JSON ({error})") from None


def field_of(row, column: str, errors: str) -> str:
    """Return the text in the field of a row; ValueError if there is none."""
    if not isinstance(row, dict):
        raise ValueError(f"one object per line is needed, not {type(row).__name__}")
    if column not in row:
        raise ValueError(f"there is no field {column!r}; there is {', '.join(row) or '-'}")
    value = row[column]
    if not isinstance(value, str):
        raise ValueError(f"{column!r} must be a string, not {type(value).__name__}")
    if errors == "replace":
        return SURROGATE.sub("\ufffd", value)
    if lone := SURROGATE.search(value):
        raise ValueError(
            f"{column!r} contains the lone surrogate \\u{ord(lone[0]):04x}; "
            "errors='replace' reads it as U+FFFD"
        )
    return value


def read_csv(file, column: str, errors: str, encoding: str = UTF_8) -> Iterator[str]:
    """Yield the field ``column`` of each row below the header; a field may contain newlines.

    Raises ValueError for rows that do not have as many fields as the header: pandas and datasets
    shift or truncate them.
    """
    csv.field_size_limit(MAX_BYTES)  # of the process; the default refuses fields above 128 kB
    lines = (f"{line}\n" for line in read_lines(file, column, errors, encoding))
    rows = csv.reader(lines, strict=True)
    try:
        header = next(rows, [])
        if header.count(column) != 1:
            raise ValueError(f"{file}: there is no one column {column!r}; there is {header}")
        for row in rows:
            if row and len(row) != len(header):
                fields = f"{len(row)} fields, the header {len(header)}"
                raise ValueError(f"{file}:{rows.line_num}: the row has {fields}: quote its commas")
            if row:
                yield row[header.index(column)]
    except csv.Error as error:
        raise ValueError(f"{file}:{rows.line_num}: not valid CSV ({error})") from None


# --- arguments ---------------------------------------------------------------------------------------
def check_errors(errors: str) -> None:
    """Raise ValueError for any value but "strict" and "replace"."""
    if errors not in ("strict", "replace"):
        raise ValueError(f"errors must be 'strict' or 'replace', not {errors!r}")


def check_encoding(encoding: str) -> str:
    """Return the standard name of an encoding; ValueError for an unknown one."""
    try:
        return codecs.lookup(encoding).name
    except (LookupError, TypeError):
        raise ValueError(
            f"encoding={encoding!r} is unknown: give one such as 'utf-8', 'utf-16' or 'latin-1'"
        ) from None
