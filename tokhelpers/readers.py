"""How documents (`str`) are read from local files, installed Python source and the hub.

Text is UTF-8, and a byte order mark at the start of a file is dropped. What cannot be read is a
ValueError that names the file and the place in it; `errors="replace"` reads invalid UTF-8 and
lone surrogates as U+FFFD instead.
"""

import glob
import gzip
import io
import json
import lzma
import os
import re
import sysconfig
import tokenize
import zlib
from collections.abc import Iterator
from pathlib import Path

ENDINGS = {
    "text": ("",),
    "jsonl": (".jsonl", ".jsonl.gz", ".jsonl.xz"),
    "parquet": (".parquet",),
}
BOM = b"\xef\xbb\xbf"
SURROGATE = re.compile("[\ud800-\udfff]")


def check_files(kind: str, place: str, column: str) -> None:
    """Raise what can be known about the files at a place without reading them through."""
    files = _files(kind, place)
    if not any(file.stat().st_size for file in files):
        what = "the file is" if len(files) == 1 else f"all {len(files)} files are"
        raise ValueError(f"{kind}:{place}: {what} empty")
    if kind == "parquet":
        _open_parquet(files[0], column)


def read_files(kind: str, place: str, column: str, errors: str) -> Iterator[str]:
    """Documents of the files at a place: lines, or the strings in a field or column."""
    for file in _files(kind, place):
        if kind == "text":
            yield from _lines(file, errors)
        elif kind == "jsonl":
            yield from _json_lines(file, column, errors)
        else:
            yield from _parquet_rows(file, column, errors)


def _files(kind: str, place: str) -> list[Path]:
    """The file, the matches of a glob, or what a folder holds; sorted, at least one."""
    path = Path(place).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        if files := _walk(path, ENDINGS[kind]):
            return files
        wanted = ", ".join(f"*{ending}" for ending in ENDINGS[kind])
        raise ValueError(f"{kind}:{place}: the folder has no file like {wanted}")
    files = {Path(match) for match in glob.glob(str(path), recursive=True)}
    files = sorted(file for file in files if file.is_file())
    if not files:
        raise FileNotFoundError(f"{kind}:{place}: no file or folder has or matches that path")
    return files


def _walk(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Files below a folder whose names have one of the endings, hidden ones left out."""
    found = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(path, n) for n in names if n.endswith(endings) and not n.startswith(".")]
    return sorted(file for file in found if file.is_file())


def _decode(data: bytes, where, offset: int, errors: str, encoding: str = "utf-8") -> str:
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where}: invalid {encoding.upper()} at byte {offset + error.start}; "
            "errors='replace' reads it as U+FFFD"
        ) from None


def _lines(file: Path, errors: str) -> Iterator[str]:
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(file.suffix, open)
    offset = 0
    try:
        # The buffer spares gzip and lzma a slow call for each line.
        with io.BufferedReader(opener(file, "rb"), 1 << 18) as lines:
            for line in lines:
                data = line if offset else line.removeprefix(BOM)
                text = _decode(data, file, offset + len(line) - len(data), errors)
                offset += len(line)
                yield text.removesuffix("\n").removesuffix("\r")
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{file}: damaged or cut off {file.suffix} file ({error})") from None


def _json_lines(file: Path, column: str, errors: str) -> Iterator[str]:
    for number, line in enumerate(_lines(file, errors), 1):
        if not line or line.isspace():
            continue
        where = f"{file}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where}: not valid JSON ({error})") from None
        yield _field(row, column, where, errors)


def _field(row, column: str, where: str, errors: str) -> str:
    """The text in a row's field, refused when it is none."""
    if not isinstance(row, dict):
        raise ValueError(f"{where}: an object is needed, not {type(row).__name__}")
    if column not in row:
        raise ValueError(f"{where}: there is no field {column!r}; there is {', '.join(row) or '-'}")
    value = row[column]
    if not isinstance(value, str):
        raise ValueError(f"{where}: {column!r} must be a string, not {type(value).__name__}")
    if errors == "replace":
        return SURROGATE.sub("\ufffd", value)
    if lone := SURROGATE.search(value):
        raise ValueError(
            f"{where}: {column!r} has the lone surrogate \\u{ord(lone[0]):04x}, which is no text; "
            "errors='replace' reads it as U+FFFD"
        )
    return value


def _open_parquet(file: Path, column: str):
    import pyarrow as pa
    from pyarrow import parquet

    try:
        # The defaults would read ahead as much as the whole file.
        opened = parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    except pa.ArrowException as error:
        raise ValueError(f"{file}: not a Parquet file ({error})") from None
    schema = opened.schema_arrow
    if column not in schema.names:
        raise ValueError(f"{file}: there is no column {column!r}; there is {schema.names}")
    kind = schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ValueError(f"{file}: the column {column!r} must hold strings, not {kind}")
    return opened


def _parquet_rows(file: Path, column: str, errors: str) -> Iterator[str]:
    import pyarrow as pa

    number = 0
    opened = _open_parquet(file, column)
    for batch in opened.iter_batches(1024, columns=[column], use_threads=False):
        # As bytes: Parquet writers do not all check that strings are UTF-8.
        for value in batch.column(0).cast(pa.large_binary()).to_pylist():
            number += 1
            where = f"{file}, row {number}, column {column!r}"
            if value is None:
                raise ValueError(f"{where}: a string is needed, not null")
            yield _decode(value, where, 0, errors)


def read_python(errors: str) -> Iterator[str]:
    """Python files in site-packages, by relative path, with \\n line ends."""
    roots = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    files = [(f.relative_to(root).parts, f) for root in roots for f in _walk(Path(root), (".py",))]
    if not files:
        raise ValueError(f"python-source: there is no .py file in {', '.join(sorted(roots))}")
    for _, file in sorted(files):
        whole = file.read_bytes()
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(whole).readline)
        except SyntaxError:  # no such encoding, or a first line that is not UTF-8
            encoding = "utf-8"
        data = whole.removeprefix(BOM)
        offset = len(whole) - len(data)
        text = _decode(data, file, offset, errors, encoding.removesuffix("-sig"))
        yield text.replace("\r\n", "\n").replace("\r", "\n")


def hub_dataset(name: str) -> tuple[str, str | None, str]:
    """ID, configuration and split in `ID[@CONFIG][#SPLIT]`, after checks without the network."""
    part = r"[A-Za-z0-9][\w.-]*"
    match = re.fullmatch(rf"({part}(?:/{part})?)(?:@([^@#]+))?(?:#([^@#]+))?", name)
    if match is None:
        raise ValueError(f"hf:{name}: write hf:OWNER/NAME, hf:OWNER/NAME@CONFIG#SPLIT or the like")
    dataset, config, split = match.groups()
    if os.path.exists(dataset):
        raise ValueError(f"hf:{name}: the local path {dataset!r} would be read in its place")
    try:
        from datasets import __version__ as version
    except ImportError:
        version = "0"
    # From version 4 on, no code that comes with a data set is ever run.
    if int(version.partition(".")[0]) < 4:
        raise ImportError(f"hf:{name} needs datasets 4 or later: pip install 'tokhelpers[hub]'")
    return dataset, config, split or "train"


def read_hub(name: str, column: str, errors: str) -> Iterator[str]:
    """The field `column` of each row of a hub data set, streamed."""
    dataset, config, split = hub_dataset(name)
    from datasets import load_dataset

    rows = load_dataset(dataset, config, split=split, streaming=True)
    for number, row in enumerate(rows, 1):
        yield _field(row, column, f"{name}, row {number}", errors)
