"""Parquet files from anywhere: opened, and read some rows at a time, in bounded memory.

Damaged ones are a ValueError that names the file.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

ROWS, ROWS_BYTES = 1024, 1 << 24  # read at a time: as many rows as fit into both


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
