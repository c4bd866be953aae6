"""Files of counts, and one query that adds up those that do not fit into memory together.

A file has the columns `pretoken` and `count`, and describes the text that was counted. In the files
that workers write, a pre-token may stand several times; DuckDB adds its counts up, and writes to the
disk what does not fit into memory.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pyarrow as pa
from pyarrow import parquet

from ..tokenizer.files import write_whole
from .parquet_files import open_file, read_batches

SCHEMA = pa.schema([("pretoken", pa.string()), ("count", pa.int64())])
SIZES = ("chars", "bytes", "spaced_words", "documents")
ROWS = 1 << 17  # in a row group
LEAST_MEMORY = 1 << 26  # with less than 64 MB the query does not run (measured)
DESCRIPTION = b"tokhelpers.counts"


def merge_counts(files: Iterable[Path], folder: Path, memory: int) -> Iterator[pa.RecordBatch]:
    """Add up the counts in files, and give them out in the order of their pre-tokens' bytes.

    ``memory`` bounds the bytes that the query holds (64 MB at least); what exceeds it goes into a
    temporary folder in ``folder``. Raises ValueError for a damaged file, naming it, and for a sum
    that 64 bits do not hold, OSError when the disk is full.
    """
    import duckdb

    query = """
        SELECT pretoken, sum(count)::BIGINT AS count
        FROM counts
        GROUP BY pretoken
        ORDER BY pretoken  -- compared by bytes, which is the order of code points
    """
    memory, failed = max(memory, LEAST_MEMORY), []
    rows = pa.RecordBatchReader.from_batches(SCHEMA, _rows_of(files, failed))
    with TemporaryDirectory(dir=_nameable(folder), ignore_cleanup_errors=True) as spilled:
        settings = {
            "memory_limit": f"{memory >> 10}KiB",
            "temp_directory": spilled,
            "threads": min(memory // LEAST_MEMORY, os.cpu_count() or 1),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(config=settings) as database:
            database.execute("SET enable_progress_bar = false")
            database.register("counts", rows)
            try:
                yield from database.sql(query).to_arrow_reader(ROWS)
            except duckdb.Error as error:
                kind = ValueError if isinstance(error, duckdb.DataError) else OSError
                why = str(error).partition("\n")[0]
                told = kind(f"the counts in {folder} cannot be added up: {why}")
                raise next(iter(failed), told) from None


def _nameable(folder: Path) -> Path | None:
    """The folder; None, the system's temporary one, if DuckDB cannot be told the folder's name."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        return None
    return folder


def _rows_of(files: Iterable[Path], failed: list[Exception]) -> Iterator[pa.RecordBatch]:
    """The rows of files; what fails is kept in ``failed``, since DuckDB makes another error of it."""
    try:
        for file in files:
            yield from read_counts(file)
    except Exception as error:
        failed.append(error)
        raise


def write_counts(
    file: Path, rows: Iterable[pa.RecordBatch | pa.Table], describe: Callable[[], dict]
) -> None:
    """Write counts as one file, whole or not at all.

    ``describe`` is asked when all rows are written, and gives the `SIZES` of the text and the
    ``rules`` that cut it. Row groups are of one size, however the rows come, and pages have
    checksums: equal rows make equal files. Raises OSError as `write_whole` does.
    """
    options = {"use_dictionary": False, "write_page_checksum": True}

    def write(draft: Path) -> None:
        with (
            pa.OSFile(os.fsencode(draft), "wb") as target,  # a name need not be UTF-8
            parquet.ParquetWriter(target, SCHEMA, **options) as writer,
        ):
            held = SCHEMA.empty_table()
            for some in rows:
                held = pa.concat_tables([held, pa.table(some.columns, schema=SCHEMA)])
                while len(held) >= ROWS:
                    writer.write_table(held[:ROWS])
                    held = held[ROWS:]
            writer.write_table(held)
            text = json.dumps(describe()).encode()
            # the checksums of pages do not cover what a file says of itself
            writer.add_key_value_metadata({DESCRIPTION: text, "crc32": str(crc32(text))})

    write_whole(file, write)
    pa.default_memory_pool().release_unused()  # a worker may wait long for its next task


def describe_counts(file: Path) -> dict | None:
    """What our own file of counts says of its text; None for a Parquet file from elsewhere.

    Raises ValueError for a damaged file, FileNotFoundError where there is none.
    """
    with open_file(file) as opened:
        schema, metadata = opened.schema_arrow, opened.metadata.metadata or {}
    if DESCRIPTION not in metadata:
        return None
    text = metadata[DESCRIPTION]
    try:
        described = json.loads(text)
        fits = described.keys() == {*SIZES, "rules"} and isinstance(described["rules"], str)
        fits &= all(isinstance(described[name], int) and described[name] >= 0 for name in SIZES)
        if (
            fits
            and int(metadata.get(b"crc32", crc32(text))) == crc32(text)
            and schema.equals(SCHEMA)
        ):
            return described
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise damaged(file)


def read_counts(file: Path) -> Iterator[pa.RecordBatch]:
    """The rows of our own file of counts, some at a time; ValueError for damaged ones."""
    with open_file(file, 1 << 16) as opened:
        for rows in read_batches(file, opened, ROWS):
            if any(column.null_count for column in rows.columns):
                raise damaged(file)
            yield rows


def damaged(file: Path) -> ValueError:
    """The error for a file of counts that is not as it was written."""
    return ValueError(f"{file}: a damaged file of counts: delete it, and count the text again")
