"""Named corpora: medical texts, word counts, Python source, files, data sets of the hub.

A corpus reads its source again each time it is iterated over, and skips blank documents. The split
of a document is `test` if the blake2b digest of its UTF-8 text is a multiple of ten, otherwise
`train`: it does not depend on the document's position, and equal texts are in the same split.
"""

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, repeat, starmap
from pathlib import PurePath

import numpy as np

from ..common.checks import whole_number
from ..common.extras import requires
from .chunks import Batch, Block, batch_of_lines
from .documents import ChunkCounts, Content, digest, weighted_documents
from .packaged_texts import packaged_text, python_source
from .readers import (
    UTF_8,
    check_encoding,
    check_errors,
    files_at,
    read_blocks,
    read_csv,
    read_json_lines,
    read_lines,
)
from .shipped_counts import flores_of, stored_list, stored_text, training_text, wordfreq_list
from .table_files import hub_corpus, read_parquet

SAMPLE_CHARS = 10_000_000  # of a word list, whose sample would be endless
READERS = {"text": read_lines, "jsonl": read_json_lines, "csv": read_csv, "parquet": read_parquet}
PACKED = ("", ".gz", ".xz")
ENDINGS = {kind: tuple(f".{kind}{end}" for end in PACKED) for kind in ("jsonl", "csv")}
ENDINGS |= {"text": ("",), "parquet": (".parquet",)}


@dataclass(frozen=True, repr=False)
class Corpus:
    """The documents of one split of a named source; `load_corpus` makes it.

    Iterating yields documents (str); it raises ValueError if there is none. Where the source is
    counts instead of text, ``counts`` has them, and iterating yields each chunk (a word with the
    space before it, if there is one) as often as it occurs.
    """

    name: str
    split: str
    chars: int | None
    options: dict
    content: Content

    def __repr__(self) -> str:
        return f"Corpus({self.name!r}, split={self.split!r}, chars={self.chars})"

    @property
    def licence(self) -> str:
        return self.content.licence

    @property
    def source(self) -> str:
        return self.content.source

    def __iter__(self) -> Iterator[str]:
        if self.counts is not None:
            yield from chain.from_iterable(starmap(repeat, self.counts.items()))
            return
        left = self.chars or (SAMPLE_CHARS if self.content.is_endless else math.inf)
        is_divided = self.content.is_divided and self.split != "all"
        n = others = 0
        for document in self.content.documents():
            if not document or document.isspace():
                continue
            if is_divided and self.split != _split_of(document):
                others += 1
                continue
            n += 1
            yield document[:left] if len(document) > left else document
            left -= len(document)
            if left <= 0:
                return
        if not n:
            reason = "it has no text"
            if others:
                reason = f"all its {others} documents are in the other split: supply more documents"
                reason += " (one per line)"
            raise ValueError(f"{self.name} has no document in the split {self.split!r}: {reason}")

    def batches(self) -> Iterator[Block] | None:
        """Read text files in blocks, without a Python string for each line; None for other corpora."""
        is_text = self.chars is None and self.content.blocks is not None
        return (Block(text, self._batch_of) for text in self.content.blocks()) if is_text else None

    def _batch_of(self, block: bytes) -> Batch:
        """The lines of a block that are in this split."""
        text, *columns = batch_of_lines(block)
        if self.split != "all":
            ranges = zip(*(column.tolist() for column in columns[:2]), strict=True)
            is_here = [_split_of(block[begin:end]) == self.split for begin, end in ranges]
            columns = (column[np.array(is_here, bool)] for column in columns)
        return Batch(text, *columns)

    @cached_property
    def counts(self) -> ChunkCounts | None:
        """Chunks and how often each occurs, if the source is counts and not text; else None.

        Those of wordfreq are words with a space before each, and their occurrences per 10^9 words
        without those that round to 0; those of `data/texts` are what was counted. Only a whole
        corpus has them: ``chars=None``, and for wordfreq also ``split="train"``.

        >>> load_corpus("wordfreq:en").counts[" the"]
        53703180
        """
        is_utf8 = self.chars is None and self.content.counts is not None
        return ChunkCounts(self.content.counts()) if is_utf8 else None

    def held_out(self, chars: int | None = None) -> "Corpus":
        """Open the text on which to evaluate what was trained on this corpus.

        It is the split "test" of the same source. For a word list, which would repeat the training
        words, and for a text kept as counts without that split, it is FLORES in the same language.
        ``chars`` is as for `load_corpus`. Raises ValueError for a corpus that is evaluation data
        itself, and for a language without a FLORES text.

        >>> load_corpus("wordfreq:fi").held_out(), load_corpus("hpo").held_out(chars=200)
        (Corpus('flores:fin_Latn', split='test', chars=None), Corpus('hpo', split='test', chars=200))
        """
        if self.split != "train" or self.content.is_evaluation:
            raise ValueError(
                f"{self!r} is evaluation data: train on another corpus, or name another one to "
                "evaluate on"
            )
        name = self.content.evaluation or flores_of(self.name)
        if name is None:
            raise ValueError(
                f"{self.name} has no text to evaluate on: FLORES in its language is not in data/texts"
            )
        options = self.options if name == self.name else {"seed": self.options["seed"]}
        return load_corpus(name, split="test", chars=chars, **options)


def documents_of(
    corpus: Iterable[str], pretokenizer_config: str | None = None
) -> Iterator[tuple[str, int]]:
    """Yield the documents of any corpus, each with how often it occurs, as `weighted_documents`."""
    return weighted_documents(opened_corpus(corpus), pretokenizer_config)


def opened_corpus(corpus):
    """Open the text file that a ``Path`` stands for; any other corpus is returned."""
    return load_corpus(f"text:{corpus}") if isinstance(corpus, PurePath) else corpus


def _split_of(document: str | bytes) -> str:
    return "train" if digest(document) % 10 else "test"


def file_corpus(name: str, *, column: str, errors: str, encoding: str, **_) -> Content:
    """Open `text:PATH`, `jsonl:PATH`, `csv:PATH` or `parquet:PATH`."""
    kind, _, place = name.partition(":")
    files = files_at(kind, place, ENDINGS[kind])
    if not any(isinstance(file, str) or file.stat().st_size for file in files):
        subject = "the file is" if len(files) == 1 else f"all {len(files)} files are"
        raise ValueError(f"{name}: {subject} empty")
    blocks = partial(_blocks, place, errors, encoding) if kind == "text" else None
    documents = partial(_documents, kind, place, column, errors, encoding)
    return Content("unknown (local file)", place, documents, name, blocks=blocks)


def _documents(kind: str, place: str, *options: str) -> Iterator[str]:
    for file in files_at(kind, place, ENDINGS[kind]):
        yield from READERS[kind](file, *options)


def _blocks(place: str, errors: str, encoding: str) -> Iterator[bytes]:
    for file in files_at("text", place):
        yield from read_blocks(file, errors, encoding)


SOURCES = {  # the form of the name: the function that opens it
    "hpo": packaged_text,
    "hpo-names": packaged_text,
    "icd-10-cm": packaged_text,
    "wordfreq:LANG": wordfreq_list,
    "flores:CODE": stored_text,
    "ntrex:CODE": stored_text,
    "commonvoice:CODE": stored_text,
    "tatoeba:CODE": stored_text,
    "opensubtitles:CODE": stored_list,
    "wikipedia:CODE": stored_list,
    "training:CODE": training_text,
    "python-source": python_source,
    "text:PATH": file_corpus,
    "jsonl:PATH": file_corpus,
    "csv:PATH": file_corpus,
    "parquet:PATH": file_corpus,
    "hf:ID[@CONFIG][@REVISION][#SPLIT]": hub_corpus,
}
FORMS = {form.partition(":")[0]: form for form in SOURCES}


def load_corpus(
    name: str,
    *,
    chars: int | None = None,
    split: str = "train",
    seed: int = 0,
    column: str = "text",
    errors: str = "strict",
    encoding: str = "utf-8",
) -> Corpus:
    """Open a corpus by name.

    | name | documents | order |
    |---|---|---|
    | `hpo` | definitions and comments of the Human Phenotype Ontology | shuffled |
    | `hpo-names` | names and synonyms of its terms | shuffled |
    | `icd-10-cm` | descriptions of ICD-10-CM: chapters, blocks and codes | shuffled |
    | `wordfreq:LANG` | the words of wordfreq's largest list, as often as they occur | by frequency |
    | `flores:CODE`, `ntrex:CODE`, `commonvoice:CODE`, `tatoeba:CODE` | the chunks of a text | by frequency |
    | `opensubtitles:CODE`, `wikipedia:CODE`, `training:CODE` | the words of a list | by frequency |
    | these with `chars` | lines made of the text's chunks, or 50 words drawn from the list | drawn |
    | `python-source` | .py files of the installed packages | path in site-packages |
    | `text:PATH` | lines, without their ends | as in the file |
    | `jsonl:PATH` | the field `column` of the object on each line | as in the file |
    | `csv:PATH`, `parquet:PATH` | the rows of `column` | as in the file |
    | `hf:ID[@CONFIG][@REVISION][#SPLIT]` | `column` of a hub data set, streamed | the hub's |

    PATH is a file, a glob, a folder (all regular files below it, without hidden ones and folders that
    hold a tokenizer.json; of the kinds jsonl, csv and parquet those with that ending) or a URL such as
    `s3://bucket/*.gz`; files are in sorted order. Files that end in .gz, .xz or .bz2 are decompressed.
    Lines end in \\n or \\r\\n; one of more than 1 GiB is refused. SPLIT is the hub's own (default train),
    which is then divided here. REVISION is a commit, a tag or a branch.

    `chars`: end after that many characters of the split, the last document truncated; None: all.
    `split`: "train", "test" (about a tenth of the documents) or "all"; what is not divided has only
    "train". wordfreq's lists have no test split: `split="test"` draws a sample of 10,000,000
    characters. Of the texts kept as counts only NTREX has a "test"; FLORES is the same text under
    both names. `seed`: of the shuffle and the draw. `errors`: "strict", or "replace" to read invalid
    UTF-8 and lone surrogates as U+FFFD. `encoding`: of text, jsonl and csv files.

    Raises ValueError for a bad argument and for content that cannot be read (naming the file and
    the byte, line or row), FileNotFoundError if nothing is at PATH, OSError if the hub cannot be
    read, ImportError if a package is missing. The content is checked while iterating.

    >>> corpus = load_corpus("hpo", chars=200)
    >>> corpus, sum(map(len, corpus))
    (Corpus('hpo', split='train', chars=200), 200)
    """
    if split not in ("train", "test", "all"):
        raise ValueError(f"split must be 'train', 'test' or 'all', not {split!r}")
    check_errors(errors)
    if chars is not None and (chars := whole_number("chars", chars)) < 1:
        raise ValueError(f"chars must be at least 1, or None for all, not {chars}")
    form = _form_of(name)
    encoding = check_encoding(encoding)
    if encoding != UTF_8 and form not in ("text:PATH", "jsonl:PATH", "csv:PATH"):
        raise ValueError(f"encoding={encoding!r} is for text:, jsonl: and csv: files: leave it out")
    options = {"seed": whole_number("seed", seed), "column": column, "errors": errors}
    options["encoding"] = encoding
    with requires("data"):
        content = SOURCES[form](name, split="train" if split == "all" else split, **options)
    if split == "all" and not content.is_divided:
        split = "train"
    return Corpus(name, split, chars, options, content)


def _form_of(name: str) -> str:
    """The form in `SOURCES` that a name has; ValueError for any other name."""
    kind, colon, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    form = FORMS.get(kind, "")
    # without a code, the message for an unknown code lists some that exist
    if form and bool(colon) == (":" in form) and (rest or not colon or form.endswith(":CODE")):
        return form
    if os.path.exists(str(name)):
        kind = next(
            (kind for kind in ("jsonl", "csv", "parquet") if str(name).endswith(ENDINGS[kind])),
            "text",
        )
        raise ValueError(f"{name!r} is a path, not the name of a corpus: write {kind}:{name}")
    raise ValueError(f"no corpus is called {name!r}: give one of {', '.join(SOURCES)}")
