"""Counts that do not fit into memory: sorted runs in Parquet files, and their merge.

A run holds the counts of some text, its pre-tokens in the order of their code points, in sixteen
partitions by a hash of the pre-token. A partition of all runs can be merged without the others,
with a few rows of each run in memory.
"""

import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ..tokenizer.files import write_whole
from . import parquet_files

PARTITIONS = 16
SCHEMA = pa.schema([("pretoken", pa.string()), ("count", pa.int64())])
ROWS = 1 << 17  # in a row group of the merged counts
ROW_BYTES = 200  # a row of a run, while it is merged (measured)
AT_ONCE = 64  # runs merged at once
DESCRIPTION = "tokhelpers.text.count_files"


def write_runs(file: Path, portions: Iterable[tuple[Mapping[str, int], np.ndarray]]) -> None:
    """Write portions of counts as runs of one file, which appears when it is whole.

    A portion is a mapping pre-token -> count, and the characters, bytes, words and documents that
    it was counted from. A run's row groups are its partitions.
    """

    def write(draft: Path) -> None:
        total = np.zeros(4, np.int64)
        with _writer(draft, SCHEMA) as writer:
            for counts, sizes in portions:
                total += sizes
                for rows in _partitions(counts):
                    writer.write_table(rows, row_group_size=len(rows) or 1)
            writer.add_key_value_metadata(_sealed("sizes", json.dumps(total.tolist())))

    write_whole(file, write)


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


def _partitions(counts: Mapping[str, int]) -> Iterator[pa.Table]:
    """The counts in partitions, each in the order of its pre-tokens' code points."""
    of = np.fromiter((crc32(word.encode()) % PARTITIONS for word in counts), np.uint8, len(counts))
    numbers = np.fromiter(counts.values(), np.int64, len(counts))
    rows = pa.table([pa.array(list(counts), pa.string()), numbers], schema=SCHEMA)
    for partition in range(PARTITIONS):
        yield rows.take(np.flatnonzero(of == partition)).sort_by("pretoken")


def sizes_of(file: Path) -> np.ndarray:
    """Characters, bytes, words and documents behind a file of runs."""
    try:
        return np.array(described(open_runs(file).metadata.metadata, "sizes"), np.int64)
    except ValueError:
        raise _damaged(file) from None


def _damaged(file: Path) -> ValueError:
    return ValueError(f"{file}: a damaged file of runs: delete it, and its text is counted again")


def merge_partition(files: list[Path], partition: int, folder: Path, memory: int) -> Path:
    """Add up one partition of all runs in the files; returns a new file in the folder.

    ``memory`` bounds the bytes of rows held at a time. At most 64 runs are read at once; where
    there are more, some are merged before.
    """
    sources = []
    for file in files:
        groups = open_runs(file).num_row_groups
        sources += [(file, group) for group in range(partition, groups, PARTITIONS)]
    merged = []
    while len(sources) > AT_ONCE:
        merged.append(_merged_file(sources[:AT_ONCE], folder, memory))
        sources = [*sources[AT_ONCE:], (merged[-1], None)]
    result = _merged_file(sources, folder, memory)
    for file in merged:
        file.unlink()
    return result


def _merged_file(sources: list[tuple[Path, int | None]], folder: Path, memory: int) -> Path:
    file = folder / f"{uuid4().hex}.parquet"
    rows = max(1000, memory // max(1, len(sources)) // ROW_BYTES)

    def write(draft: Path) -> None:
        with ExitStack() as stack, _writer(draft, SCHEMA) as writer:
            opened = {file: stack.enter_context(open_runs(file)) for file, _ in sources}
            streams = [batches(file, opened[file], group, rows) for file, group in sources]
            for table in _merge(streams):
                writer.write_table(table)

    write_whole(file, write)
    return file


def _merge(streams: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.Table]:
    """The counts of sorted streams added up, in order, with one batch of each in memory.

    What is not above the smallest last pre-token of these can be added up: no stream has more of it
    to come.
    """
    heads = [next(stream, None) for stream in streams]
    while any(heads):
        bound = min(head["pretoken"][-1].as_py() for head in heads if head)
        ready = []
        for i, head in enumerate(heads):
            n = bisect_right(head["pretoken"], bound, key=_text) if head else 0
            if n:
                ready.append(head[:n])
                heads[i] = head[n:] if n < len(head) else next(streams[i], None)
        grouped = pa.Table.from_batches(ready).group_by("pretoken", use_threads=False)
        added = grouped.aggregate([("count", "sum")]).sort_by("pretoken")
        yield added.select(["pretoken", "count_sum"]).rename_columns(SCHEMA.names)


def _text(value: pa.Scalar) -> str:
    return value.as_py()


def give_back() -> None:
    """Give the memory that Arrow holds for later back: a worker may wait long for its next task."""
    pa.default_memory_pool().release_unused()


def open_runs(file: Path) -> parquet.ParquetFile:
    """A file of counts, of which no more is read than is asked for."""
    return parquet_files.open_file(file, 1 << 16)


def batches(
    file: Path, opened: parquet.ParquetFile, group: int | None = None, rows: int = ROWS
) -> Iterator[pa.RecordBatch]:
    """The rows of an open file of counts, or of one of its row groups, some at a time."""
    groups = range(opened.num_row_groups) if group is None else [group]
    try:
        for batch in parquet_files.read_batches(file, opened, rows, row_groups=groups):
            if len(batch):
                yield batch
    except ValueError:
        raise _damaged(file) from None


def tables(files: Iterable[Path]) -> Iterator[pa.Table]:
    """The rows of files of counts, one after the other, some at a time."""
    for file in files:
        with open_runs(file) as opened:
            yield from (pa.Table.from_batches([batch]) for batch in batches(file, opened))


def write_counts(file: Path, tables: Iterable[pa.Table], text: str) -> None:
    """Write counts as one file, whole or not at all, with a description (JSON) of their text.

    Its row groups are of one size, however the rows come: equal rows make equal files.
    """

    def write(draft: Path) -> None:
        schema = SCHEMA.with_metadata(_sealed(DESCRIPTION, text))
        with _writer(draft, schema) as writer:
            held = SCHEMA.empty_table()
            for table in tables:
                held = pa.concat_tables([held, table])
                while len(held) >= ROWS:
                    writer.write_table(held[:ROWS].cast(schema))
                    held = held[ROWS:]
            writer.write_table(held.cast(schema))

    write_whole(file, write)
