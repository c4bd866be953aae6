"""Named text sources: medical texts, word counts, Python source, local files, hub data sets.

A corpus reads its source anew each time it is iterated over. A document with nothing but white
space is no document. The split is `test` when the blake2b digest of the document's UTF-8 text is
a multiple of ten, otherwise `train`: its position plays no part, and equal texts share a split.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat, starmap
from numbers import Integral

from ..tokenizer.checks import whole_number
from ..tokenizer.pretokenization import pretokenizer
from . import file_sources, hub, packaged_texts, readers, stored_counts, word_lists  # noqa: F401
from .sources import ChunkCounts, Source, digest, source_of

SAMPLE_CHARS = 10_000_000  # a sample of words has no end of its own


@dataclass(frozen=True, repr=False)
class Corpus:
    """Documents of one split of a source, with where they come from; made by `load_corpus`.

    Iterating gives `str` documents; it raises ValueError when there is not one, unless this is a
    `part` of a corpus. Where the source is not text but counts, `counts` has them, and iterating
    gives each chunk (a word with the space before it where there is one) as often as it counts.
    """

    name: str
    licence: str
    source: str
    split: str
    seed: int
    chars: int | None
    column: str
    errors: str
    part: file_sources.Part | None = None
    encoding: str = readers.UTF_8

    def __repr__(self) -> str:
        part = "" if self.part is None else f", part={str(self.part)!r}"
        return f"Corpus({self.name!r}, split={self.split!r}, chars={self.chars}{part})"

    def __iter__(self) -> Iterator[str]:
        if self.counts is not None:
            yield from chain.from_iterable(starmap(repeat, self.counts.items()))
            return
        left = self.chars or (SAMPLE_CHARS if self.origin.endless else math.inf)
        here = others = 0
        for document in self.origin.documents(self):
            if not document or document.isspace():
                continue
            if self.origin.divided and self.split not in ("all", _split(document)):
                others += 1
                continue
            here += 1
            yield document[:left] if len(document) > left else document
            left -= len(document)
            if left <= 0:
                return
        if not here and self.part is None:
            why = "it has no text"
            if others:
                why = f"its {others} all belong to the other split: bring more (a line of a text is one)"
            raise ValueError(f"{self.name} has no document in the split {self.split!r}: {why}")

    @cached_property
    def origin(self) -> Source:
        """What the name stands for."""
        return source_of(self.name)

    def parts(self, size: int = 1 << 26) -> Iterator["Corpus"] | None:
        """This corpus in parts of about `size` bytes of its files, each a corpus of its own.

        A document belongs to one part. None where it cannot be read in parts: text that comes from
        no file, files read as far as `chars` only.
        """
        if self.chars is not None or self.part:
            return None
        parts = self.origin.parts(self, size)
        return None if parts is None else (replace(self, part=part) for part in parts)

    @cached_property
    def counts(self) -> ChunkCounts | None:
        """Chunks and how often each occurs, where the source is counts, not text; else None.

        Those of wordfreq are words, each with a space before it, and their occurrences per 10^9
        words, those that round to 0 left out; those of `data/texts` are what was counted. A corpus
        has them when it is asked for whole: `chars=None`, and of wordfreq also `split="train"`.

        >>> load_corpus("wordfreq:en").counts[" the"]
        53703180
        """
        counts = None if self.chars is not None else self.origin.counts(self.split)
        return None if counts is None else ChunkCounts(counts)

    def held_out(self, chars: int | None = None) -> "Corpus":
        """Open the text on which to measure what was learned from this corpus.

        It is the split "test" of the same source. For a list of words, which would give the learned
        words again, and for a text kept as counts without that split, it is FLORES in the same
        language. `chars` is as for `load_corpus`. Raises ValueError for a corpus that is such a text
        itself, or whose language has no FLORES text here.

        >>> load_corpus("wordfreq:fi").held_out(), load_corpus("hpo").held_out(chars=200)
        (Corpus('flores:fin_Latn', split='test', chars=None), Corpus('hpo', split='test', chars=200))
        """
        if self.split != "train" or self.origin.to_measure:
            raise ValueError(
                f"{self!r} is what would be measured on: learn from another text, or name another "
                "one to measure on"
            )
        name = self.origin.held_out()
        if name is None:
            raise ValueError(
                f"{self.name} has no text to measure on: FLORES in its language is not in data/texts"
            )
        if name == self.name:
            return replace(self, split="test", chars=chars)
        return load_corpus(name, split="test", chars=chars, seed=self.seed)


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
    """Open a text source by name.

    | name | documents | order |
    |---|---|---|
    | `hpo` | definitions and comments of the Human Phenotype Ontology | shuffled |
    | `hpo-names` | names and synonyms of its terms | shuffled |
    | `icd-10-cm` | descriptions of ICD-10-CM: chapters, blocks and codes | shuffled |
    | `wordfreq:LANG` | the words of wordfreq's largest list, as often as they count | by frequency |
    | `flores:CODE`, `ntrex:CODE`, `commonvoice:CODE`, `tatoeba:CODE` | the chunks of a text | by frequency |
    | `opensubtitles:CODE`, `wikipedia:CODE`, `training:CODE` | the words of a list | by frequency |
    | these with `chars` | lines of the text's chunks, or 50 words drawn from the list | drawn |
    | `python-source` | .py files of the installed packages | path in site-packages |
    | `text:PATH` | lines, without their ends | as in the file |
    | `jsonl:PATH` | the field `column` of each line's object | as in the file |
    | `parquet:PATH` | the rows of `column` | as in the file |
    | `hf:ID[@CONFIG][@REVISION][#SPLIT]` | `column` of a hub data set, streamed | the hub's |

    PATH is a file, a glob, or a folder: all regular files in it and below, hidden ones left out
    (of kind jsonl those that end in .jsonl, .jsonl.gz, .jsonl.xz; of parquet in .parquet), in sorted
    order, each once. text and jsonl also read .gz and .xz; lines end in \\n or \\r\\n, and one of
    more than 1 GiB is refused. SPLIT is the hub's own (default train), which the two splits here
    divide. REVISION is a commit, which stays what it is, a tag or a branch.

    `chars`: the corpus ends after that many characters of its split, the last document cut to
    fit. None: all there is. `split`: "train", "test" with about a tenth of the documents, or "all"
    with both; what is not divided is then as in "train". wordfreq's lists have no test split: with
    `split="test"` a sample of 10,000,000 characters is drawn. Of the texts that `data/texts` keeps
    as counts NTREX alone has a "test"; FLORES is the same text under both names. `seed`: the shuffle
    and the draw. `errors`: "strict", or "replace" to read invalid UTF-8 and lone surrogates as
    U+FFFD. `encoding`: of text and jsonl files, such as
    "utf-16" or "latin-1".

    Raises ValueError for a bad argument and for content that cannot be read (naming the file and
    the byte, line or row), FileNotFoundError when nothing is at PATH, OSError when the hub cannot be
    read, ImportError when a package is missing. The content is checked while iterating.

    >>> corpus = load_corpus("hpo", chars=200)
    >>> corpus, sum(map(len, corpus))
    (Corpus('hpo', split='train', chars=200), 200)
    """
    if split not in ("train", "test", "all"):
        raise ValueError(f"split must be 'train', 'test' or 'all', not {split!r}")
    readers.check_errors(errors)
    if chars is not None and (chars := whole_number("chars", chars)) < 1:
        raise ValueError(f"chars must be at least 1, or None for all, not {chars}")
    found = source_of(name)
    if split == "all" and not found.divided:
        split = "train"
    licence, source = found.provenance(split, column)
    encoding = readers.check_encoding(encoding, found.encoded)
    options = {"chars": chars, "column": column, "errors": errors, "encoding": encoding}
    return Corpus(name, licence, source, split, whole_number("seed", seed), **options)


class Documents:
    """The documents of a corpus, each with how often it occurs: iterates over pairs.

    Where `ChunkCounts` meet rules that put ``▁`` before a text, a chunk comes without its leading
    space, of which there would be two; ``left_out`` counts these spaces.
    """

    def __init__(self, corpus: Iterable[str], rules: str | None = None):
        self.corpus, self.pretokenizer_config, self.left_out = corpus, rules, 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        corpus = self.corpus
        counts = corpus if isinstance(corpus, Mapping) else getattr(corpus, "counts", None)
        if counts is None:
            return zip(corpus, repeat(1))
        if self.pretokenizer_config is None or not isinstance(counts, ChunkCounts):
            return _checked(counts)
        puts_space = "".join(pretokenizer(self.pretokenizer_config).split("a")).startswith("▁")
        return self._without_space(counts) if puts_space else _checked(counts)

    def _without_space(self, counts: ChunkCounts) -> Iterator[tuple[str, int]]:
        for chunk, n in _checked(counts):
            self.left_out += n * chunk.startswith(" ")
            yield chunk.removeprefix(" "), n


def _checked(counts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The documents that occur; refuses counts that are none, and more than can be counted exactly."""
    total = 0
    for document, n in counts.items():
        if not isinstance(n, int | Integral) or n < 0:  # an int is known at once
            raise ValueError(
                f"the document {document!r:.40} has the count {n!r}: give whole numbers"
            )
        total += int(n) * (1 + len(document) if isinstance(document, str) else 1)
        if total > 1 << 52:
            raise ValueError(
                f"the documents up to {document!r:.40} stand for more than 2^52 characters, beyond "
                "which counts are not exact: divide the counts"
            )
        if n:
            yield document, int(n)


def _split(document: str) -> str:
    return "train" if digest(document) % 10 else "test"
