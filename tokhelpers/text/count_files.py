"""Files of counts: pre-tokens that were counted here, and words that were counted elsewhere.

A file of ours is Parquet with the columns `pretoken` and `count`, and describes the text that was
counted. In the files that workers write, a pre-token may stand several times; one DuckDB query adds
its counts up, and writes to the disk what does not fit into memory.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from ..tokenizer.checks import SURROGATE, positive
from ..tokenizer.files import write_whole
from . import readers
from .file_sources import files_at
from .pretokens import Pretokens
from .readers import open_file, open_strings, read_batches

SCHEMA = pa.schema([("pretoken", pa.string()), ("count", pa.int64())])
SIZES = ("chars", "bytes", "spaced_words", "documents")
DESCRIPTION, CHECKSUM = b"tokhelpers.counts", b"crc32"  # keys of what a file says of its text
ROWS = 1 << 17  # in a row group
LEAST_MEMORY = 1 << 26  # with less than 64 MB the query does not run (measured)


def save_counts(counts: Pretokens, path: str | Path) -> None:
    """Save pre-token counts as a Parquet file with the columns `pretoken` and `count`.

    The rules that cut the text and the sizes of the text are kept in it. The file is written whole
    or not at all. Raises TypeError for anything but `Pretokens`.

    >>> save_counts({"a": 1}, "counts.parquet")
    Traceback (most recent call last):
    TypeError: Pretokens are saved, as count_pretokens gives them, not dict
    """
    if not isinstance(counts, Pretokens):
        name = type(counts).__name__
        raise TypeError(f"Pretokens are saved, as count_pretokens gives them, not {name}")
    rows = pa.table([counts.strings, counts.counts], schema=SCHEMA)
    write_counts(
        Path(path), [rows], [getattr(counts, name) for name in SIZES], counts.pretokenizer_config
    )


def load_counts(
    path: str | Path, *, min_count: int = 1, errors: str = "strict"
) -> Pretokens | dict[str, int]:
    """Load counts from files: ours as `Pretokens`, those from elsewhere as a mapping word -> count.

    Every trainer, extension and measure takes either in place of a corpus. ``path`` is a file, a
    glob, or a folder, as Spark and Hadoop write one. Files from elsewhere are Parquet with the
    columns `word` and `count`, or lines of a word, a tab and a count (.gz and .xz, too); a word may
    come several times. Each word is then a document of its own: write words with the space before
    them where the text has one, but without it for tokenizers that put ``▁`` before a text.
    ``min_count`` leaves out what is rarer, after adding up. ``errors`` is as for `load_corpus`.

    Raises FileNotFoundError when nothing is there, ValueError for what is no such file, naming the
    place in it, and for a ``min_count`` above every count.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "counts.tsv")
    ...     _ = file.write_text(" the\\t5\\n of\\t3\\n the\\t1\\n", "utf-8")
    ...     load_counts(file)
    {' the': 6, ' of': 3}
    """
    positive("min_count", min_count)
    readers.check_errors(errors)
    path = Path(os.path.expanduser(path))
    ours = path / "counts.parquet" if path.is_dir() else path
    named = ours.suffix == ".parquet" and ours.is_file()
    if named and (as_encoder := describe_counts(ours)):
        return _our_counts(ours, as_encoder, min_count)
    words = Counter()
    for file in files_at("counts", str(path)):
        if file.name.startswith("_") or not file.stat().st_size:
            continue  # a folder may have such files, but no counts in them
        read = _rows if file.suffix == ".parquet" else _lines
        for word, count in read(file, errors):
            words[word] += count
    if not words:
        raise ValueError(f"{path}: there are no counts in it")
    if sum(words.values()) >= 1 << 63:
        raise ValueError(f"{path}: the counts add up to more than 64 bits hold")
    kept = {word: count for word, count in words.items() if count >= min_count}
    if not kept:
        raise ValueError(
            f"{path}: no word occurs {min_count:,} times, the most frequent {max(words.values()):,} "
            "times: give a smaller min_count"
        )
    return kept


# --- added up ------------------------------------------------------------------------------------
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
    place = None if SURROGATE.search(str(folder)) else folder  # of which DuckDB cannot be told
    with TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as spilled:
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


def _rows_of(files: Iterable[Path], failed: list[Exception]) -> Iterator[pa.RecordBatch]:
    """The rows of files; what fails is kept in ``failed``, since DuckDB makes another error of it."""
    try:
        for file in files:
            yield from _read_counts(file)
    except Exception as error:
        failed.append(error)
        raise


# --- our own files -------------------------------------------------------------------------------
def write_counts(
    file: Path, rows: Iterable[pa.RecordBatch | pa.Table], sizes: Sequence[int], rules: str
) -> None:
    """Write counts as one file, whole or not at all, with the `SIZES` of the text and its rules.

    ``sizes`` are looked at when all rows are written. Row groups are of one size, however the rows
    come, and pages have checksums: equal rows make equal files. Raises OSError as `write_whole` does.
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
            as_encoder = dict(zip(SIZES, map(int, sizes), strict=True)) | {"rules": rules}
            text = json.dumps(as_encoder).encode()
            # the checksums of pages do not cover what a file says of itself
            writer.add_key_value_metadata({DESCRIPTION: text, CHECKSUM: str(crc32(text))})

    write_whole(file, write)
    pa.default_memory_pool().release_unused()  # a worker may wait long for its next task


def describe_counts(file: Path) -> dict | None:
    """What our own file of counts says of its text; None for a Parquet file from elsewhere.

    Raises ValueError for a damaged file, FileNotFoundError where there is none.
    """
    with open_file(file) as open_tokenizer:
        schema, metadata = open_tokenizer.schema_arrow, open_tokenizer.metadata.metadata or {}
    if DESCRIPTION not in metadata:
        return None
    text = metadata[DESCRIPTION]
    if metadata.get(CHECKSUM) != str(crc32(text)).encode() or not schema.equals(SCHEMA):
        raise _damaged(file)
    return json.loads(text)


def total_sizes(files: Iterable[Path]) -> np.ndarray:
    """The `SIZES` of the texts behind our own files of counts, added up."""
    total = np.zeros(len(SIZES), np.int64)
    for file in files:
        as_encoder = describe_counts(file)
        if as_encoder is None:
            raise _damaged(file)
        total += [as_encoder[name] for name in SIZES]
    return total


def _read_counts(file: Path) -> Iterator[pa.RecordBatch]:
    """The rows of our own file of counts, some at a time; ValueError for damaged ones."""
    with open_file(file, 1 << 16) as open_tokenizer:
        for rows in read_batches(file, open_tokenizer, ROWS):
            if any(column.null_count for column in rows.columns):
                raise _damaged(file)
            yield rows


def _damaged(file: Path) -> ValueError:
    """The error for a file of counts that is not as it was written."""
    return ValueError(f"{file}: a damaged file of counts: delete it, and count the text again")


def _our_counts(file: Path, as_encoder: dict, min_count: int) -> Pretokens:
    words, counts = [pa.array([], pa.large_string())], [np.zeros(0, np.int64)]
    try:
        for rows in _read_counts(file):
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
    return Pretokens(words, counts, **as_encoder).at_least(min_count)


# --- from elsewhere ------------------------------------------------------------------------------
def _rows(file: Path, errors: str) -> Iterator[tuple[str, int]]:
    """Words and counts of a Parquet file from elsewhere."""
    open_tokenizer = open_strings(file, "word")
    schema = open_tokenizer.schema_arrow
    if "count" not in schema.names or not pa.types.is_integer(schema.field("count").type):
        there = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise ValueError(f"{file}: a column 'count' of whole numbers is needed; there is {there}")
    for where, word, count in readers.parquet_rows(file, open_tokenizer, ["word", "count"], errors):
        if count is None or count < 0:
            raise ValueError(f"{where}: {word!r} has the count {count!r}")
        yield word, count


def _lines(file: Path, errors: str) -> Iterator[tuple[str, int]]:
    """Words and counts of a file with a tab between them; a first line `word<TAB>count` is a header."""
    for number, line in enumerate(readers.read_lines(file, errors), 1):
        word, tab, count = line.rpartition("\t")
        if number == 1 and (word, count) == ("word", "count"):
            continue
        if not tab or not (count.isascii() and count.isdecimal() and len(count) < 20):
            raise ValueError(
                f"{file}:{number}: a word, a tab and a whole number are needed, not {line!r:.60}"
            )
        yield word, int(count)
