"""Read tables: the columns of Parquet files, and data sets of the Hugging Face Hub as a stream."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import fsspec
import pyarrow as pa
from pyarrow import parquet

from ..common.extras import requires
from ..common.files import reason
from .documents import Content
from .readers import decode, field_of

ROWS, ROWS_BYTES = 1 << 10, 1 << 24  # of a Parquet file in memory at a time: the fewer of the two


# --- Parquet files -----------------------------------------------------------------------------------
@contextmanager
def opened_parquet(file: Path | str) -> Iterator[parquet.ParquetFile]:
    """Open a Parquet file at a path or URL; ValueError for any other file, and for a damaged one."""
    # the name of a local file need not be UTF-8
    opener = (
        (lambda: pa.OSFile(os.fsencode(file))) if isinstance(file, Path) else fsspec.open(file).open
    )
    try:
        with opener() as source:
            # the defaults would read ahead as much as the whole file
            options = {"pre_buffer": False, "buffer_size": 1 << 20}
            options["page_checksum_verification"] = True
            table = parquet.ParquetFile(source, **options)
            _ = table.schema_arrow  # its names may not be UTF-8
            yield table
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        if getattr(error, "errno", None):  # of the operating system: no such file, no permission
            raise
        raise ValueError(f"{file}: not a Parquet file, or damaged ({reason(error)})") from None


def parquet_rows(
    file: Path | str, columns: list[str], most: int = ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield some columns, at most so many rows at a time; ValueError for a damaged file."""
    with opened_parquet(file) as table:
        missing = table.metadata.num_rows
        size = sum(table.metadata.row_group(i).total_byte_size for i in range(table.num_row_groups))
        n = max(1, min(most, ROWS_BYTES * missing // max(1, size)))
        for rows in table.iter_batches(n, columns=columns, use_threads=False):
            missing -= len(rows)
            yield rows
        if missing:
            raise ValueError(f"{file}: damaged Parquet file (it has other rows than it describes)")


def read_parquet(file: Path | str, column: str, errors: str, encoding: str = "") -> Iterator[str]:
    """Yield the strings of a column of a Parquet file; ``encoding`` is ignored.

    Raises ValueError, naming the file, for a damaged file, a missing column and one that does not
    hold strings; for a missing value and invalid UTF-8 it names the row as well.
    """
    with opened_parquet(file) as table:
        check_strings(file, table, column)
    number = 0
    for rows in parquet_rows(file, [column]):
        # as bytes: not all Parquet writers check that strings are UTF-8
        for value in rows[column].cast(pa.large_binary()).to_pylist():
            number += 1
            where = f"{file}, row {number}, column {column!r}"
            if value is None:
                raise ValueError(f"{where}: missing value (null); a string is needed")
            yield decode(value, where, 0, errors)


def check_strings(file: Path | str, table: parquet.ParquetFile, column: str) -> None:
    """Raise ValueError for a Parquet file without this column, or with other values in it."""
    schema = table.schema_arrow
    if column not in schema.names:
        raise ValueError(f"{file}: there is no column {column!r}; there is {schema.names}")
    kind = schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if kind not in (pa.string(), pa.large_string()):
        raise ValueError(f"{file}: the column {column!r} must hold strings, not {kind}")


# --- data sets of the hub --------------------------------------------------------------------------
def _library(name: str):
    """Import `datasets` when it is first needed: that takes a second."""
    with requires("data"):
        import datasets
    # From version 4 on, no code that comes with a data set is ever run.
    if int(datasets.__version__.partition(".")[0]) < 4:
        raise ImportError(f"{name} needs datasets 4 or later: pip install -U 'tokhelpers[data]'")
    return datasets


def hub_corpus(name: str, *, column: str, errors: str, **_) -> Content:
    """Open `hf:ID[@CONFIG][@REVISION][#SPLIT]`."""
    place = name.removeprefix("hf:")
    address = f"https://huggingface.co/datasets/{hub_dataset(place)[0]}"
    documents = partial(read_hub, place, column, errors)
    return Content(f"see the data set's card, {address}", address, documents, name)


def hub_dataset(name: str) -> tuple[str, str | None, dict[str, str]]:
    """Return ID, configuration, and the options split and revision, without using the network."""
    part = r"[A-Za-z0-9][\w.-]*"
    match = re.fullmatch(
        rf"({part}(?:/{part})?)(?:@([^@#]+)|@(?=@))?(?:@([^@#]+))?(?:#([^@#]+))?", name
    )
    if match is None:
        raise ValueError(
            f"hf:{name}: write hf:OWNER/NAME, hf:OWNER/NAME@CONFIG#SPLIT, hf:OWNER/NAME@@REVISION "
            "or the like"
        )
    dataset, config, revision, split = match.groups()
    if os.path.exists(dataset):
        raise ValueError(f"hf:{name}: the local path {dataset!r} would be read instead")
    _library(f"hf:{name}")
    options = {"split": split or "train"} | ({"revision": revision} if revision else {})
    return dataset, config, options


def read_hub(name: str, column: str, errors: str) -> Iterator[str]:
    """Yield the field ``column`` of each row of a data set on the hub, as a stream."""
    for number, row in enumerate(hub_rows(name), 1):
        try:
            text = field_of(row, column, errors)
        except ValueError as error:
            raise ValueError(f"{name}, row {number}: {error}") from None
        yield text


def hub_rows(name: str) -> Iterator[dict]:
    """Yield the rows of a data set on the hub; ValueError or OSError in one sentence if it fails."""
    dataset, config, options = hub_dataset(name)
    datasets = _library(f"hf:{name}")
    # The hub's client has asked six times when it gives up; 20 such rounds would take half an hour.
    datasets.config.STREAMING_READ_MAX_RETRIES = datasets.config.STREAMING_OPEN_MAX_RETRIES = 1
    verbosity = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # its errors are raised, too
    try:
        yield from datasets.load_dataset(dataset, config, streaming=True, **options)
    except Exception as error:  # of the client, the transport or the file format
        kind = ValueError if isinstance(error, ValueError) else OSError
        raise kind(
            f"hf:{name} cannot be read from the hub: {reason(error)}. Check the name and the "
            "connection, log in if it is gated (hf auth login), or give a local copy as jsonl:PATH "
            "or parquet:PATH"
        ) from None
    finally:
        datasets.logging.set_verbosity(verbosity)
