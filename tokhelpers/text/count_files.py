"""Files of counts: Parquet with the columns `pretoken` and `count`, which describe the text counted.

In the parts that `count_pretokens` writes into a folder, a pre-token may occur several times; DuckDB
sorts them, on disk where they do not fit into memory, and equal neighbours are added up.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from ..common.checks import SURROGATE, positive
from ..common.extras import requires
from ..common.files import reason, write_whole
from .pretokens import Pretokens
from .table_files import opened_parquet, parquet_rows

SCHEMA = pa.schema([("pretoken", pa.string()), ("count", pa.int64())])
SIZES = ("chars", "bytes", "spaced_words", "documents")
DESCRIPTION, CHECKSUM = b"tokhelpers.counts", b"crc32"  # keys of what a file says of its text
ROWS = 1 << 17  # in a row group
MEMORY = 1 << 28  # bytes that the query may use; with less than 64 MB it does not run (measured)


def save_counts(counts: Pretokens, path: str | Path) -> None:
    """Save pre-token counts as a Parquet file with the columns `pretoken` and `count`.

    The pretokenizer config and the sizes of the text are saved as well. The file is written whole
    or not at all. Raises TypeError for anything but `Pretokens`.

    >>> save_counts({"a": 1}, "counts.parquet")
    Traceback (most recent call last):
    TypeError: counts must be Pretokens, as count_pretokens returns them, not dict
    """
    if not isinstance(counts, Pretokens):
        kind = type(counts).__name__
        raise TypeError(f"counts must be Pretokens, as count_pretokens returns them, not {kind}")
    rows = pa.table([counts.strings, counts.counts], schema=SCHEMA)
    sizes = [getattr(counts, name) for name in SIZES]
    write_counts(Path(path), [rows], sizes, counts.pretokenizer_config)


def load_counts(path: str | Path, *, min_count: int = 1) -> Pretokens:
    """Load counts from a file of `save_counts`, or from a folder of `count_pretokens`.

    Every trainer, extension and measure takes them in place of a corpus. ``min_count`` leaves out
    rarer pre-tokens. Counts of other programs are loaded with pandas: a Series of counts whose index
    is the words is a corpus, too.

    Raises FileNotFoundError if nothing is at ``path``, ValueError for any other content and for a
    ``min_count`` above every count.

    >>> load_counts("words.tsv")
    Traceback (most recent call last):
    FileNotFoundError: there is no file words.tsv
    """
    positive("min_count", min_count)
    file = Path(os.path.expanduser(path))
    file = file / "counts.parquet" if file.is_dir() else file
    if not file.is_file():
        if file.exists():
            raise OSError(f"{file} is a pipe or device: save the counts to a file")
        raise FileNotFoundError(f"there is no file {file}")
    description = describe_counts(file)
    if description is None:
        raise ValueError(
            f"{file} was not saved by save_counts: load it with pandas, and pass a Series of counts "
            "whose index is the words"
        )
    return _our_counts(file, description, min_count)


# --- the merge -----------------------------------------------------------------------------------
def merge_counts(files: Iterable[Path], folder: Path) -> Iterator[pa.RecordBatch]:
    """Add up the counts in files and yield them in the order of their pre-tokens' bytes.

    What exceeds `MEMORY` goes into a temporary folder in ``folder``. Raises ValueError for a sum that
    exceeds 64 bits, OSError for a file that cannot be read and if the disk is full.
    """
    with requires("data"):
        import duckdb
    # GROUP BY would need memory for all pre-tokens at once: 256 MB were too little for 80 million
    query = "SELECT pretoken, count FROM counts ORDER BY pretoken"  # by bytes, as code points
    batches = chain.from_iterable(parquet_rows(file, SCHEMA.names, ROWS) for file in files)
    rows = pa.RecordBatchReader.from_batches(SCHEMA, batches)
    place = None if SURROGATE.search(str(folder)) else folder  # DuckDB needs a name in UTF-8
    with TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as temporary:
        settings = {
            "memory_limit": f"{MEMORY >> 10}KiB",
            "temp_directory": temporary,
            "threads": max(1, min(MEMORY >> 26, os.cpu_count() or 1)),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(config=settings) as database:
            database.execute("SET enable_progress_bar = false")
            database.register("counts", rows)
            try:
                yield from _add_neighbours(database.sql(query).to_arrow_reader(ROWS))
            except OverflowError as error:
                raise ValueError(f"cannot add up the counts in {folder}: {error}") from None
            except duckdb.Error as error:
                message = reason(error).partition(" Detail: ")[0]  # of a traceback
                raise OSError(f"cannot add up the counts in {folder}: {message}") from None


def _add_neighbours(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the counts of equal pre-tokens in sorted rows."""
    words, counts = pa.array([], pa.string()), np.zeros(0, np.int64)
    for batch in batches:
        words = pa.concat_arrays([words, batch["pretoken"]])
        counts = np.concatenate([counts, batch["count"].to_numpy()])
        is_new = compute.not_equal(words[1:], words[:-1]).to_numpy(zero_copy_only=False)
        first = np.concatenate([[0], 1 + np.flatnonzero(is_new)])
        words, counts = words.take(pa.array(first)), _sums(counts, first)
        # the last pre-token may go on in the next batch
        yield pa.record_batch([words[:-1], counts[:-1]], schema=SCHEMA)
        words, counts = words[-1:], counts[-1:]
    yield pa.record_batch([words, counts], schema=SCHEMA)


def _sums(counts: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Sums of positive counts from each first one to the next; OverflowError above 64 bits."""
    sums = np.add.reduceat(counts.astype(np.uint64), first)
    # beyond 2^64 these begin again at 0; floats, which do not, are near enough to show it
    rounded = np.add.reduceat(counts.astype(float), first)
    if rounded.max() > 1.5 * 2**63 or sums.max() >= 2**63:
        raise OverflowError("a sum exceeds 64 bits")
    return sums.astype(np.int64)


# --- our own files -------------------------------------------------------------------------------
def write_counts(
    file: Path,
    rows: Iterable[pa.RecordBatch | pa.Table],
    sizes: Sequence[int],
    pretokenizer_config: str,
    **description: str,
) -> None:
    """Write counts to one file, whole or not at all, with the `SIZES` of the text and the config.

    Row groups have one size, however the rows come, and pages have checksums: equal rows make equal
    files. Raises OSError as `write_whole` does.
    """
    options = {"use_dictionary": False, "write_page_checksum": True}
    description |= dict(zip(SIZES, map(int, sizes), strict=True))
    text = json.dumps(description | {"pretokenizer_config": pretokenizer_config}).encode()

    def write(draft: Path) -> None:
        with (
            pa.OSFile(os.fsencode(draft), "wb") as target,  # a name need not be UTF-8
            parquet.ParquetWriter(target, SCHEMA, **options) as writer,
        ):
            pending = SCHEMA.empty_table()
            for batch in rows:
                pending = pa.concat_tables([pending, pa.table(batch.columns, schema=SCHEMA)])
                while len(pending) >= ROWS:
                    writer.write_table(pending[:ROWS])
                    pending = pending[ROWS:]
            writer.write_table(pending)
            # the checksums of pages do not cover the description
            writer.add_key_value_metadata({DESCRIPTION: text, CHECKSUM: str(crc32(text))})

    write_whole(file, write)


def describe_counts(file: Path) -> dict | None:
    """Return what our file of counts says of its text; None for a Parquet file of another program.

    Raises ValueError for a damaged file, FileNotFoundError if there is none.
    """
    with opened_parquet(file) as table:
        schema, metadata = table.schema_arrow, table.metadata.metadata or {}
    if DESCRIPTION not in metadata:
        return None
    text = metadata[DESCRIPTION]
    if metadata.get(CHECKSUM) != str(crc32(text)).encode() or not schema.equals(SCHEMA):
        raise _damaged(file)
    return json.loads(text)


def total_sizes(files: Iterable[Path]) -> np.ndarray:
    """Add up the `SIZES` of the texts behind our files of counts."""
    descriptions = map(describe_counts, files)
    return sum((np.array([of[name] for name in SIZES]) for of in descriptions), np.zeros(4, int))


def _damaged(file: Path) -> ValueError:
    return ValueError(f"{file}: damaged file of counts: delete it, and count the text again")


def _our_counts(file: Path, description: dict, min_count: int) -> Pretokens:
    words, counts = [pa.array([], pa.large_string())], [np.zeros(0, np.int64)]
    try:
        for rows in parquet_rows(file, SCHEMA.names, ROWS):
            if any(column.null_count for column in rows.columns):
                raise _damaged(file)
            if min_count > 1:
                rows = rows.filter(compute.field("count") >= min_count)
            words.append(rows["pretoken"].cast(pa.large_string()))
            words[-1].validate(full=True)  # is it UTF-8?
            counts.append(rows["count"].to_numpy())
    except pa.ArrowInvalid:
        raise _damaged(file) from None
    words, counts = pa.concat_arrays(words), np.concatenate(counts)
    if counts.min(initial=1) < 1 or compute.count_distinct(words).as_py() < len(words):
        raise _damaged(file)
    sizes = [description[name] for name in SIZES]
    return Pretokens(words, counts, *sizes, description["pretokenizer_config"]).at_least(min_count)
