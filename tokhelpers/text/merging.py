"""Counts that do not fit into memory: files of counts, and one query that adds them up.

A worker writes the counts of some text as a file with the columns `pretoken` and `count`, one row
group after the other. A pre-token may stand in several row groups and files; DuckDB adds its counts
up, and writes to the disk what does not fit into memory.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ..tokenizer.files import write_whole
from .parquet_files import open_file, read_batches

SCHEMA = pa.schema([("pretoken", pa.string()), ("count", pa.int64())])
ROWS = 1 << 17  # in a row group of the merged counts
LEAST_MEMORY = 1 << 26  # with less than 64 MB the query does not run (measured)
DESCRIPTION = "tokhelpers.text.count_files"


def merge_counts(files: Iterable[Path], folder: Path, memory: int) -> Iterator[pa.RecordBatch]:
    """Add up the counts in files, and give them out in the order of their pre-tokens' bytes.

    ``memory`` bounds the bytes that the query holds (64 MB at least); what exceeds it goes into a
    temporary folder in ``folder``. Raises ValueError for a damaged file, naming it, and for a sum
    that 64 bits do not hold, OSError when the disk is full.
    """
    import duckdb

    query = """
        SELECT pretoken, sum(count)::BIGINT AS count
        FROM runs
        GROUP BY pretoken
        ORDER BY pretoken  -- compared by bytes, which is the order of code points
    """
    memory, failed = max(memory, LEAST_MEMORY), []
    runs = pa.RecordBatchReader.from_batches(SCHEMA, _rows_of(files, failed))
    with TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as spilled:
        settings = {
            "memory_limit": f"{memory >> 10}KiB",
            "temp_directory": spilled,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "threads": min(memory // LEAST_MEMORY, os.cpu_count() or 1),
        }
        with duckdb.connect(config=settings) as database:
            database.execute("SET enable_progress_bar = false")
            database.register("runs", runs)
            try:
                yield from database.sql(query).to_arrow_reader(ROWS)
            except duckdb.Error as error:
                kind = ValueError if isinstance(error, duckdb.DataError) else OSError
                why = str(error).partition("\n")[0]
                told = kind(f"the counts in {folder} cannot be added up: {why}")
                raise next(iter(failed), told) from None


def _rows_of(files: Iterable[Path], failed: list[Exception]) -> Iterator[pa.RecordBatch]:
    """The rows of files; what fails is kept in ``failed``, since DuckDB makes another error of it."""
    try:
        for file in files:
            yield from _read_run(file)
    except Exception as error:
        failed.append(error)
        raise


def write_run(file: Path, portions: Iterable[tuple[Mapping[str, int], np.ndarray]]) -> None:
    """Write portions of counts as the row groups of one file, which appears when it is whole.

    A portion is a mapping pre-token -> count, and the characters, bytes, words and documents that
    it was counted from.
    """

    def write(draft: Path) -> None:
        total = np.zeros(4, np.int64)
        with _writer(draft, SCHEMA) as writer:
            for counts, sizes in portions:
                total += sizes
                if counts:
                    rows = pa.table([list(counts), list(counts.values())], schema=SCHEMA)
                    writer.write_table(rows, len(rows))
            writer.add_key_value_metadata(_sealed("sizes", json.dumps(total.tolist())))

    write_whole(file, write)
    pa.default_memory_pool().release_unused()  # a worker may wait long for its next task


@contextmanager
def _writer(draft: Path, schema: pa.Schema) -> Iterator[parquet.ParquetWriter]:
    """A Parquet file to write, with a checksum for each page; its name need not be UTF-8."""
    options = {"use_dictionary": False, "write_page_checksum": True}
    with (
        pa.OSFile(os.fsencode(draft), "wb") as file,
        parquet.ParquetWriter(file, schema, **options) as writer,
    ):
        yield writer


def _sealed(name: str, text: str) -> dict[str, str]:
    """What a file says of itself, with a checksum: that of the pages does not cover it."""
    return {name: text, "crc32": str(crc32(text.encode()))}


def described(metadata: dict[bytes, bytes] | None, name: str):
    """What a file says of itself under a name, in JSON; ValueError when that is damaged."""
    try:
        text = metadata[name.encode()]
        if int(metadata.get(b"crc32", crc32(text))) == crc32(text):
            return json.loads(text)
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    raise ValueError(name)  # who asks names the file


def _read_run(file: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a file of counts, some at a time; ValueError for a damaged one."""
    try:
        with open_file(file, 1 << 16) as opened:
            if not opened.schema_arrow.equals(SCHEMA):
                raise ValueError("other columns")
            yield from read_batches(file, opened, ROWS)
    except ValueError:
        raise _damaged(file) from None


def sizes_of(file: Path) -> np.ndarray:
    """Characters, bytes, words and documents behind a file of counts (int64)."""
    try:
        with open_file(file) as opened:
            return np.array(described(opened.metadata.metadata, "sizes"), np.int64)
    except ValueError:
        raise _damaged(file) from None


def _damaged(file: Path) -> ValueError:
    return ValueError(f"{file}: a damaged file of runs: delete it, and its text is counted again")


def write_counts(file: Path, batches: Iterable[pa.RecordBatch | pa.Table], text: str) -> None:
    """Write counts as one file, whole or not at all, with a description (JSON) of their text.

    Its row groups are of one size, however the rows come: equal rows make equal files.
    """

    def write(draft: Path) -> None:
        schema = SCHEMA.with_metadata(_sealed(DESCRIPTION, text))
        with _writer(draft, schema) as writer:
            held = SCHEMA.empty_table()
            for rows in batches:
                held = pa.concat_tables([held, pa.table(rows.columns, schema=SCHEMA)])
                while len(held) >= ROWS:
                    writer.write_table(held[:ROWS].cast(schema))
                    held = held[ROWS:]
            writer.write_table(held.cast(schema))

    write_whole(file, write)
