"""Stream the texts of Parquet files and of data sets on the Hugging Face Hub, by `datasets`."""

import glob
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pyarrow.dataset import ParquetFragmentScanOptions
from pyarrow.parquet import read_metadata

from ..tokenizer.files import reason
from .documents import Content
from .readers import decode, field_of

ROWS = 1024  # of a Parquet file in memory at a time


def _library(name: str):
    """Import `datasets` when it is first needed: that takes a second."""
    try:
        import datasets
    except ImportError:
        raise ImportError(
            f"{name} needs the package datasets: pip install 'tokhelpers[data]'"
        ) from None
    # From version 4 on, no code that comes with a data set is ever run.
    if int(datasets.__version__.partition(".")[0]) < 4:
        raise ImportError(f"{name} needs datasets 4 or later: pip install -U 'tokhelpers[data]'")
    return datasets


def _rows(name: str, *arguments, **options) -> Iterator[dict]:
    """The rows of a data set, as a stream; `datasets` logs nothing meanwhile."""
    datasets = _library(name)
    verbosity = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        yield from datasets.load_dataset(*arguments, streaming=True, **options)
    finally:
        datasets.logging.set_verbosity(verbosity)


# --- Parquet files -----------------------------------------------------------------------------------
def read_parquet(file: Path | str, column: str, errors: str, encoding: str = "") -> Iterator[str]:
    """Yield the strings of a column of a Parquet file; ``encoding`` is ignored.

    Raises ValueError, naming the file, for a damaged file, a missing column and one that does not
    hold strings; for a missing value and invalid UTF-8 it names the row as well.
    """
    for number, value in enumerate(_parquet_values(file, column), 1):
        where = f"{file}, row {number}, column {column!r}"
        if value is None:
            raise ValueError(f"{where}: missing value (null); a string is needed")
        yield decode(value, where, 0, errors)


def _parquet_values(file: Path | str, column: str) -> Iterator[bytes | None]:
    """The values of a column as bytes: not all Parquet writers check that strings are UTF-8."""
    datasets = _library(f"parquet:{file}")
    is_local, n = isinstance(file, Path), 0
    options = {
        "data_files": glob.escape(os.path.realpath(file) if is_local else file),
        "columns": [column],
        "features": datasets.Features({column: datasets.Value("binary")}),
        "batch_size": ROWS,
        "fragment_scan_options": ParquetFragmentScanOptions(page_checksum_verification=True),
    }
    try:
        for row in _rows(f"parquet:{file}", "parquet", split="train", **options):
            n += 1
            yield row[column]
        # a name that datasets resolves to nothing would be an empty file
        if is_local and n != (rows := read_metadata(file).num_rows):
            raise ValueError(f"it has {n:,} of {rows:,} rows")
    except Exception as error:  # of pyarrow, pandas or datasets: there are many
        if getattr(error, "errno", None):  # an error of the operating system
            raise
        raise ValueError(
            f"{file}: cannot read strings from the column {column!r}: {reason(error)}; the Parquet file "
            "must be intact and have this column"
        ) from None


# --- data sets of the hub --------------------------------------------------------------------------
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
    retries = _library(f"hf:{name}").config
    # The hub's client has asked six times when it gives up; 20 such rounds would take half an hour.
    retries.STREAMING_READ_MAX_RETRIES = retries.STREAMING_OPEN_MAX_RETRIES = 1
    try:
        yield from _rows(f"hf:{name}", dataset, config, **options)
    except Exception as error:  # of the client, the transport or the file format
        kind = ValueError if isinstance(error, ValueError) else OSError
        raise kind(
            f"hf:{name} cannot be read from the hub: {reason(error)}. Check the name and the "
            "connection, log in if it is gated (hf auth login), or give a local copy as jsonl:PATH "
            "or parquet:PATH"
        ) from None
