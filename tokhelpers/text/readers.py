"""How documents (`str`) are read from one local file.

Text is UTF-8 unless another encoding is named, and a byte order mark at the start of a file is
dropped. What cannot be read is a ValueError that names the file and the place in it;
`errors="replace"` reads invalid UTF-8 and lone surrogates as U+FFFD instead.
"""

import codecs
import gzip
import io
import json
import lzma
import os
import re
import tokenize
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from ..tokenizer.checks import SURROGATE
from ..tokenizer.files import MAX_BYTES

BOM = "\ufeff"
PACKED = {".gz": gzip.open, ".xz": lzma.open}
UTF_8 = "utf-8"
ROWS, ROWS_BYTES = 1024, 1 << 24  # read at a time: as many rows as fit into both
UTF_16 = "is UTF-16: give encoding='utf-16'"
BEGINNINGS = {  # of files that are no UTF-8 text, and what to do with each
    b"\x1f\x8b": "is packed by gzip: give it a name that ends in .gz",
    b"\xfd7zXZ": "is packed by xz: give it a name that ends in .xz",
    b"PK\x03\x04": "is a zip archive: unpack it",
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
}


def check_errors(errors: str) -> None:
    """Raise ValueError for another value than "strict" and "replace"."""
    if errors not in ("strict", "replace"):
        raise ValueError(f"errors must be 'strict' or 'replace', not {errors!r}")


def check_encoding(encoding: str, encoded: bool) -> str:
    """Return the usual name of an encoding; ValueError for an unknown one, and where it plays no part."""
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, TypeError):
        raise ValueError(
            f"encoding={encoding!r} is unknown: give one such as 'utf-8', 'utf-16' or 'latin-1'"
        ) from None
    if name != UTF_8 and not encoded:
        raise ValueError(f"encoding={encoding!r} is for text: and jsonl: files: leave it out here")
    return name


def decode(data: bytes, where, offset: int, errors: str, encoding: str = "utf-8") -> str:
    """Bytes as text; ValueError, naming the place, for those that are none."""
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        around = data[max(0, error.start - 1) : error.start + 2]
        latin = 0xC0 <= data[error.start] < 0xFF and re.search(rb"[A-Za-z]", around)
        raise ValueError(
            f"{where}: invalid {encoding.upper()} at byte {offset + error.start}; "
            + ("if it is Latin-1, give encoding='latin-1'; " if latin else "")
            + "errors='replace' reads it as U+FFFD"
        ) from None


def _check_beginning(file: Path, beginning: bytes) -> None:
    """Refuse a file that begins as no UTF-8 text does, and say what it is."""
    found = [what for magic, what in BEGINNINGS.items() if beginning.startswith(magic)]
    if len(beginning) >= 8 and not any(beginning[1:8:2]) and all(beginning[0:8:2]):
        found.append(UTF_16)
    if found:
        raise ValueError(f"{file} {found[0]}")


def _recoded_lines(file: Path, errors: str, encoding: str) -> Iterator[str]:
    """The lines of a whole file in another encoding than UTF-8."""
    with io.TextIOWrapper(
        PACKED.get(file.suffix, open)(file, "rb"), encoding, errors, "\n"
    ) as lines:
        try:
            for line in iter(partial(lines.readline, MAX_BYTES), ""):
                yield line.removeprefix(BOM).removesuffix("\n").removesuffix("\r")
        except UnicodeError as error:
            raise ValueError(
                f"{file} is not {encoding.upper()} ({error}): give its encoding"
            ) from None


def read_lines(
    file: Path, errors: str, start: int = 0, end: int | None = None, encoding: str = UTF_8
) -> Iterator[str]:
    """Lines that begin at byte `start` or later and before `end`, without their ends."""
    opener = PACKED.get(file.suffix, open)
    offset = 0
    try:
        if encoding != UTF_8:
            yield from _recoded_lines(file, errors, encoding)
            return
        # The buffer spares gzip and lzma a slow call for each line.
        with io.BufferedReader(opener(file, "rb"), 1 << 18) as lines:
            if not start:
                _check_beginning(file, lines.peek(8)[:8])
            if start:  # a line that begins before this part belongs to the one before
                offset = lines.seek(start - 1)
                while piece := lines.readline(1 << 20):
                    offset += len(piece)
                    if piece.endswith(b"\n"):
                        break
            for line in iter(partial(lines.readline, MAX_BYTES + 1), b""):
                if end is not None and offset >= end:
                    return
                if len(line) > MAX_BYTES:
                    raise ValueError(
                        f"{file}: the line that begins at byte {offset} has more than {MAX_BYTES:,} "
                        "bytes: cut it into documents, each a line"
                    )
                text = decode(line, file, offset, errors)
                yield (
                    (text if offset else text.removeprefix(BOM))
                    .removesuffix("\n")
                    .removesuffix("\r")
                )
                offset += len(line)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{file}: damaged or cut off {file.suffix} file ({error})") from None


def json_lines(
    file: Path, column: str, errors: str, start: int, end: int | None, encoding: str
) -> Iterator[str]:
    """The field `column` of the objects on the lines that `read_lines` gives."""
    for number, line in enumerate(read_lines(file, errors, start, end, encoding), 1):
        if not line or line.isspace():
            continue
        try:
            text = field_of(_parsed(line), column, errors)
        except ValueError as error:
            before = sum(1 for _ in read_lines(file, "replace", end=start))
            raise ValueError(f"{file}:{before + number}: {error}") from None
        yield text


def _parsed(line: str):
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        if line.lstrip().startswith("["):
            raise ValueError("an array begins here: write one object per line") from None
        raise ValueError(f"not valid JSON ({error})") from None


def field_of(row, column: str, errors: str) -> str:
    """The text in a row's field, refused when it is none."""
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
            f"{column!r} has the lone surrogate \\u{ord(lone[0]):04x}, which is no text; "
            "errors='replace' reads it as U+FFFD"
        )
    return value


def python_source(file: Path, errors: str) -> str:
    """A Python file in its own encoding, with \\n line ends."""
    data = file.read_bytes()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:  # no such encoding, or a first line that is not UTF-8
        encoding = "utf-8"
    text = decode(data, file, 0, errors, encoding.removesuffix("-sig")).removeprefix(BOM)
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- Parquet files from anywhere: some rows at a time, in bounded memory -----------------------------
def open_file(file: Path, buffer_size: int = 1 << 20):
    """An open Parquet file, of which no more is read than is asked for; ValueError for any other."""
    options = {"pre_buffer": False, "page_checksum_verification": True}
    try:
        source = pa.OSFile(os.fsencode(file))  # a name need not be UTF-8
        # The defaults would read ahead as much as the whole file.
        opened = parquet.ParquetFile(source, buffer_size=buffer_size, **options)
        _ = opened.schema_arrow  # its names may be no UTF-8
        rows, groups = opened.metadata.num_rows, range(opened.num_row_groups)
        if rows != sum(opened.metadata.row_group(group).num_rows for group in groups):
            raise pa.ArrowInvalid("its row groups have other numbers of rows than it says")
        return opened
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        if getattr(error, "errno", None):  # the system's: no such file, no permission
            raise
        raise ValueError(f"{file}: not a Parquet file ({error})") from None


def open_strings(file: Path, column: str):
    """A Parquet file whose column holds strings; anything else is refused."""
    opened = open_file(file)
    schema = opened.schema_arrow
    if column not in schema.names:
        raise ValueError(f"{file}: there is no column {column!r}; there is {schema.names}")
    kind = schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ValueError(f"{file}: the column {column!r} must hold strings, not {kind}")
    return opened


def read_batches(file: Path, opened, rows: int, **options) -> Iterator:
    """The rows of a Parquet file, some at a time."""
    described = opened.metadata
    groups = options.get("row_groups", range(described.num_row_groups))
    missing = sum(described.row_group(group).num_rows for group in groups)
    try:
        for batch in opened.iter_batches(rows, use_threads=False, **options):
            missing -= len(batch)
            yield batch
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{file}: damaged Parquet file ({error})") from None
    if missing:
        raise ValueError(f"{file}: damaged Parquet file (it lacks rows that it describes)")


def read_columns(file: Path, opened, columns: list[str], groups: Iterable[int]) -> Iterator:
    """Columns of row groups, as many rows at a time as fit into memory by a group's description.

    What that says of single columns is not asked: damaged, it would end the process.
    """
    for group in groups:
        described = opened.metadata.row_group(group)
        size = max(1, described.total_byte_size)
        rows = min(ROWS, ROWS_BYTES * described.num_rows // size)
        # all rows may hold the same long string, which is stored once
        rows = max(1, min(rows, max(16, ROWS_BYTES // size)))
        yield from read_batches(file, opened, rows, row_groups=[group], columns=columns)


def row_groups(file: Path, size: int) -> list[tuple[int, int]]:
    """Ranges of row groups with about `size` bytes in the file."""
    groups = open_file(file).num_row_groups
    step = max(1, size * groups // max(1, file.stat().st_size))  # they are much alike in size
    return [(start, min(start + step, groups)) for start in range(0, groups, step)]


def parquet_rows(
    file: Path, opened, columns: list[str], errors: str, start: int = 0, end: int | None = None
) -> Iterator[tuple]:
    """The place of each row in row groups from `start` up to `end`, its text, its other columns."""
    number = sum(opened.metadata.row_group(group).num_rows for group in range(start))
    groups = range(start, opened.num_row_groups if end is None else end)
    for batch in read_columns(file, opened, columns, groups):
        # As bytes: Parquet writers do not all check that strings are UTF-8.
        raw = batch[columns[0]].cast(pa.large_binary()).to_pylist()
        others = (batch[column].to_pylist() for column in columns[1:])
        for value, *more in zip(raw, *others, strict=True):
            number += 1
            where = f"{file}, row {number}, column {columns[0]!r}"
            if value is None:
                raise ValueError(f"{where}: a string is needed, not null")
            yield where, decode(value, where, 0, errors), *more
