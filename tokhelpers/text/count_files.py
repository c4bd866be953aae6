"""Counts as files: pre-tokens that were counted here, and words that were counted elsewhere."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import compute

from ..tokenizer.checks import positive
from . import merging, parquet_files, readers
from .pretokens import Pretokens


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
    described = {name: getattr(counts, name) for name in (*merging.SIZES, "rules")}
    rows = pa.table([counts.strings, counts.counts], schema=merging.SCHEMA)
    merging.write_counts(Path(path), [rows], lambda: described)


def load_counts(
    path: str | Path, *, min_count: int = 1, errors: str = "strict"
) -> Pretokens | dict[str, int]:
    """Load counts from files: ours as `Pretokens`, those from elsewhere as a mapping word -> count.

    Every trainer, extension and measure takes either in place of a corpus. ``path`` is a file, a
    glob, or a folder, as Spark and Hadoop write one. Files from elsewhere are Parquet with the
    columns `word` and `count`, or lines of a word, a tab and a count (.gz and .xz, too); a word may
    come several times. Each word is then a document of its own: write words with the space before
    them where the text has one, but without it for tokenizers that put ``▁`` before a text.
    ``min_count`` leaves out what is rarer, after adding up. ``errors``:
    "strict", or "replace" to read invalid UTF-8 as U+FFFD.

    Raises FileNotFoundError when nothing is there, ValueError for what is no such file, naming the
    place in it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "counts.tsv")
    ...     _ = file.write_text(" the\\t5\\n of\\t3\\n the\\t1\\n", "utf-8")
    ...     load_counts(file)
    {' the': 6, ' of': 3}
    """
    positive("min_count", min_count)
    if errors not in ("strict", "replace"):
        raise ValueError(f"errors must be 'strict' or 'replace', not {errors!r}")
    path = Path(os.path.expanduser(path))
    ours = path / "counts.parquet" if path.is_dir() else path
    named = ours.suffix == ".parquet" and ours.is_file()
    if named and (described := merging.describe_counts(ours)):
        return _our_counts(ours, described, min_count)
    words = Counter()
    for file in _files(path):
        read = _rows if file.suffix == ".parquet" else _lines
        for word, count in read(file, errors):
            words[word] += count
    if not words:
        raise ValueError(f"{path}: there are no counts in it")
    if sum(words.values()) >= 1 << 63:
        raise ValueError(f"{path}: the counts add up to more than 64 bits hold")
    return {word: count for word, count in words.items() if count >= min_count}


def frequent(counts: Pretokens, min_count: int) -> Pretokens:
    """Pre-tokens that occur so often; ValueError when there are none."""
    kept = counts.counts >= min_count
    if not kept.any():
        raise ValueError(
            f"no pre-token occurs {min_count:,} times: give a smaller min_count"
            if min_count > 1
            else f"the corpus has no text in its {counts.documents:,} documents: nothing to count"
        )
    if kept.all():
        return counts
    return replace(counts, strings=counts.strings.filter(kept), counts=counts.counts[kept])


def _our_counts(file: Path, described: dict, min_count: int) -> Pretokens:
    words, counts = [pa.array([], pa.large_string())], [np.zeros(0, np.int64)]
    try:
        for rows in merging.read_counts(file):
            if min_count > 1:
                rows = rows.filter(compute.field("count") >= min_count)
            words.append(rows["pretoken"].cast(pa.large_string()))
            words[-1].validate(full=True)  # is it UTF-8?
            counts.append(rows["count"].to_numpy())
    except pa.ArrowInvalid:
        raise merging.damaged(file) from None
    words, counts = pa.concat_arrays(words), np.concatenate(counts)
    if counts.min(initial=1) < 1 or compute.count_distinct(words).as_py() < len(words):
        raise merging.damaged(file)
    return frequent(Pretokens(words, counts, **described), min_count)


def _files(path: Path) -> list[Path]:
    """Files of counts: in a folder none that is hidden, empty, or begins with an underscore."""
    found = readers.files_at("counts", str(path))
    return [f for f in found if not f.name.startswith("_") and f.stat().st_size]


def _rows(file: Path, errors: str) -> Iterator[tuple[str, int]]:
    """Words and counts of a Parquet file from elsewhere."""
    opened, number = parquet_files.open_strings(file, "word"), 0
    schema = opened.schema_arrow
    if "count" not in schema.names or not pa.types.is_integer(schema.field("count").type):
        there = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise ValueError(f"{file}: a column 'count' of whole numbers is needed; there is {there}")
    columns, groups = ["word", "count"], range(opened.num_row_groups)
    for batch in parquet_files.read_columns(file, opened, columns, groups):
        raw = batch["word"].cast(pa.large_binary()).to_pylist()
        for word, count in zip(raw, batch["count"].to_pylist(), strict=True):
            number += 1
            if word is not None:
                word = readers.decode(word, f"{file}, row {number}", 0, errors)
            if word is None or count is None or count < 0:
                raise ValueError(f"{file}, row {number}: {word!r} has the count {count!r}")
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
