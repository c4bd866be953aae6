"""Counts of real text that lie in ``data/texts``: read by name, each with its licence and source.

The text itself is not there. What is kept of it are its chunks and how often each occurs. A chunk
is what stands between two spaces, with its punctuation and with the space before it: ``Koer
haugub, koer`` has the chunks ``"Koer"``, ``" haugub,"``, ``" koer"``. The first chunk of a line has
no space before it, as in the line. No pre-tokenizer that cuts text at spaces sees a difference
between the chunks one by one and the line, so the pre-tokens of a text can be counted from its
chunks, for every such tokenizer, and so can characters, bytes and words.
"""

import difflib
import lzma
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ..tokenizer.files import CHECKOUT
from .sources import ChunkCounts, Source, source

TEXTS = ("flores", "ntrex", "commonvoice", "tatoeba")  # counts of lines of text
LISTS = ("opensubtitles", "wikipedia")  # counts of words
WITHOUT_SPACES = ("cmn_Hani", "jpn_Jpan", "khm_Khmr", "mya_Mymr", "tha_Thai")
MIXED = 10**9  # what the counts of each source of a mixture add up to


@source("commonvoice:CODE", "tatoeba:CODE")
class StoredText(Source):
    """Lines of running text, of which the chunks are kept."""

    divided, tells_nearest = False, True

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        return provenance(self.name, split)

    def documents(self, reading) -> Iterator[str]:
        """As many lines as the text has, made of its chunks."""
        return shuffled_lines(self.counts(reading.split), f"{self.name} {reading.seed}")

    def counts(self, split: str) -> dict[str, int]:
        return read_counts(self.name, split)

    def held_out(self) -> str | None:
        return flores_of(self.name)


@source("ntrex:CODE")
class Ntrex(StoredText):
    """NTREX, whose last lines are a split "test" of its own."""

    def held_out(self) -> str | None:
        return self.name


@source("flores:CODE")
class Flores(StoredText):
    """FLORES, the paper's text to measure on."""

    to_measure = True


# --- what is there -------------------------------------------------------------------------------
def stored_texts() -> pd.DataFrame:
    """List the texts in ``data/texts``: one row per text and split, as ``texts.csv`` there has it.

    The columns are ``name``, ``split`` (``all``, or for NTREX ``train`` and ``test``), ``language``
    (the code of Table 12 of Purason et al. 2025, or ``eng_Latn``), ``lines`` (0 for a list of words),
    ``left_out`` (lines that stand in a text to measure on, too), ``chunks``, ``unique`` chunks,
    ``chars``, ``bytes``, ``licence``, ``source``. Raises FileNotFoundError without a checkout.

    >>> texts = stored_texts()
    >>> texts.name[texts.language == "kaz_Cyrl"].unique().tolist()
    ['flores:kaz_Cyrl', 'ntrex:kaz', 'opensubtitles:kk']
    """
    return pd.read_csv(_folder() / "texts.csv")


def training_sources(language: str) -> list[str]:
    """Name the sources whose mixture is the training text of a language, by ``chosen.csv``.

    ``language`` is a code of Table 12, or ``eng_Latn``. Raises ValueError for a language without a
    training text, naming the nearest ones.

    >>> training_sources("kaz_Cyrl")
    ['ntrex:kaz']
    """
    chosen = _chosen()
    if language not in chosen:
        raise ValueError(_unknown("training", language))
    return chosen[language].split(" + ")


def training_languages() -> list[str]:
    """List the paper's languages that have a text to learn from, English apart, in order of codes.

    >>> len(training_languages()), training_languages()[0]
    (63, 'afr_Latn')
    """
    return sorted(_chosen().keys() - {"eng_Latn"})


def flores_of(name: str) -> str | None:
    """Name the FLORES text in the language of a stored text or of a list of words, or None."""
    tried = pd.read_csv(_folder() / "chosen.csv")
    return next((f"flores:{language}" for language in tried.language[tried.sources == name]), None)


def provenance(name: str, split: str = "train") -> tuple[str, str]:
    """Licence and source of a text; ValueError for an unknown name and a split that it has not."""
    texts = stored_texts()
    rows = texts[texts.name == name].set_index("split")
    kind, _, code = name.partition(":")
    if rows.empty:
        raise ValueError(_unknown(kind, code))
    if split == "test" and kind != "flores" and "test" not in rows.index:
        raise no_test(name)
    return tuple(rows.loc["all" if "all" in rows.index else split, ["licence", "source"]])


def no_test(name: str) -> ValueError:
    """The error for a text without the split "test"."""
    return ValueError(
        f"{name} is kept as counts and has no split 'test': learn from it, and measure on another "
        "text, such as flores:CODE"
    )


def _folder() -> Path:
    if CHECKOUT is None:
        raise FileNotFoundError(
            "counts of real text stand in data/texts of a checkout of tokhelpers, and here only the "
            "package is installed: clone the project and install it with pip install -e ."
        )
    return CHECKOUT / "data" / "texts"


def _chosen() -> dict[str, str]:
    """The sources of each language's training text, joined by " + "."""
    tried = pd.read_csv(_folder() / "chosen.csv")
    chosen = tried[tried.chosen == "yes"]
    return dict(zip(chosen.language, chosen.sources, strict=True))


def _unknown(kind: str, code: str) -> str:
    """What to say of a name that no stored text has: the nearest ones."""
    if code in WITHOUT_SPACES:
        return (
            f"{kind}:{code} is not there: the language is written without spaces, so a count would be "
            "of whole sentences; tokens of its FLORES text stand in th.notebook.load_measured('flores_tokens')"
        )
    texts = stored_texts()
    own = texts.name.str.partition(":")[2]  # other sources have other codes for a language
    meant = set(texts.language[own.isin([code, code.partition("_")[0]]) | (texts.language == code)])
    if kind == "training":
        names = {language: language for language in _chosen()}
    else:
        ours = texts.name.str.startswith(f"{kind}:")
        names = dict(zip(own[ours], texts.language[ours], strict=True))
    same = [name for name, language in names.items() if language in meant]
    near = difflib.get_close_matches(code, sorted(names), n=4, cutoff=0.4)
    nearest = dict.fromkeys([*same, *near] or sorted(names)[:4])
    found = ", ".join(f"{kind}:{name}" for name in nearest)
    more = f"of {len(names)}; data/texts/texts.csv has them all"
    return f"no text is called {kind}:{code}: there is {found} {more}"


# --- the counts ----------------------------------------------------------------------------------
def read_counts(name: str, split: str = "train") -> dict[str, int]:
    """Read the chunks of a stored text and how often each occurs, the most frequent first.

    Of NTREX, ``train`` is the first 1,597 lines, ``test`` the last 400; FLORES is the same as both.
    """
    provenance(name, split)
    file = _folder() / f"{name.replace(':', '/')}.tsv.xz"
    try:
        header, *rows = lzma.decompress(file.read_bytes()).decode().splitlines()
    except lzma.LZMAError:
        raise ValueError(f"{file} is damaged: take it from the repository again") from None
    column = header.split("\t").index(split) if split in header.split("\t") else 1
    fields = (row.split("\t") for row in rows)
    found = ((row[0], int(row[column])) for row in fields)
    return dict(most_frequent({chunk: n for chunk, n in found if n}))


def mixture(sources: Iterable[Mapping[str, int]], most: int | None = None) -> ChunkCounts:
    """Mix the counts of several corpora with equal weight; those of one stay as they are.

    The counts of each source, a corpus' ``counts`` or a mixture, are scaled to 10^9 in all and
    rounded, then added up. What comes back, the most frequent first, is learned from as a corpus is.
    ``most``: keep only so many of the most frequent chunks.

    >>> mixture([{" a": 3, " b": 1}, {" b": 5}])
    {' b': 1250000000, ' a': 750000000}
    """
    sources = list(sources)
    if len(sources) == 1:
        return ChunkCounts(sources[0]) if most is None else most_frequent(sources[0], most)
    mixed = {}
    for counts in sources:
        total = sum(counts.values())
        # whole numbers throughout, so that no machine rounds otherwise
        scaled = {n: (2 * n * MIXED + total) // (2 * total) for n in set(counts.values())}
        for chunk, n in counts.items():
            mixed[chunk] = mixed.get(chunk, 0) + scaled[n]
    return most_frequent({chunk: n for chunk, n in mixed.items() if n}, most)


def most_frequent(counts: Mapping[str, int], most: int | None = None) -> ChunkCounts:
    """Keep the most frequent chunks, in this order, equal ones in order of text; None keeps all."""
    often = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ChunkCounts(often[:most])


def shuffled_lines(counts: Mapping[str, int], key: str) -> Iterator[str]:
    """Put a text's chunks together in random order, seeded by ``key``: as many lines, the same chunks.

    The lines make no sense, but what is counted on them is what is counted on the text.
    """
    chunks = np.repeat(np.array(list(counts), object), list(counts.values()))
    # the bit generator's raw stream is the one numpy promises to keep from version to version
    order = np.argsort(np.random.PCG64(list(key.encode())).random_raw(len(chunks)), kind="stable")
    first = [chunk for chunk in chunks[order] if chunk[0] != " "]
    later = [chunk for chunk in chunks[order] if chunk[0] == " "]
    ends = [len(later) * (i + 1) // len(first) for i in range(len(first))]
    for chunk, start, end in zip(first, [0, *ends], ends, strict=False):
        yield chunk + "".join(later[start:end])
