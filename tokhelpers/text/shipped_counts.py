"""Counts in place of text: real text in ``data/texts``, and the word lists of `wordfreq`.

``data/texts`` does not contain the text itself, but its chunks and how often each occurs. A chunk
is what stands between two spaces, with its punctuation and the space before it: ``Koer haugub,
koer`` has the chunks ``"Koer"``, ``" haugub,"``, ``" koer"``. The first chunk of a line has no space
before it. A pre-tokenizer that splits text at spaces treats the chunks one by one as it treats the
line, so pre-tokens, characters, bytes and words can be counted from the chunks.
"""

import difflib
import lzma
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from importlib import metadata
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pandas as pd

from ..common.files import CHECKOUT
from .documents import ChunkCounts, Content, digest

TEXTS = ("flores", "ntrex", "commonvoice", "tatoeba")  # counts of lines of text
LISTS = ("opensubtitles", "wikipedia")  # counts of words
WITHOUT_SPACES = ("cmn_Hani", "jpn_Jpan", "khm_Khmr", "mya_Mymr", "tha_Thai")
MIXED = 10**9  # what the counts of each source of a mixture add up to
WORDS = 50  # in a document that is drawn from a word list


# --- corpora by name -------------------------------------------------------------------------------
def stored_text(name: str, *, split: str, seed: int, **_) -> Content:
    """Open lines of running text of which ``data/texts`` keeps the chunks."""
    kind = name.partition(":")[0]
    licence, source = provenance(name, split)
    return Content(
        licence,
        source,
        documents=partial(_lines_of, name, split, seed),
        counts=partial(read_counts, name, split),
        evaluation=name if kind == "ntrex" else None,
        is_divided=False,
        is_evaluation=kind == "flores",
    )


def stored_list(name: str, *, split: str, seed: int, **_) -> Content:
    """Open a list of words in ``data/texts``."""
    licence, source = provenance(name, split)
    return _word_list(name, seed, licence, source, is_divided=False)


def training_text(name: str, *, split: str, seed: int, **_) -> Content:
    """Open the training text of a language: one source, or several mixed with equal weight."""
    language = name.removeprefix("training:")
    names = training_sources(language)
    if split == "test":
        raise no_test(name)
    kinds = {True: wordfreq_list, False: stored_text}
    contents = [kinds[n.startswith("wordfreq:")](n, split=split, seed=seed) for n in names]
    licence = "; ".join(dict.fromkeys(content.licence for content in contents))
    source = f"{' and '.join(names)}, by data/texts/chosen.csv"
    options = {"evaluation": f"flores:{language}", "is_divided": False}
    return _word_list(name, seed, licence, source, **options)


def wordfreq_list(name: str, *, split: str, seed: int, **_) -> Content:
    """Open the largest word list of a language in the package `wordfreq`."""
    from wordfreq import available_languages

    language = name.removeprefix("wordfreq:")
    if language not in (languages := sorted(available_languages("best"))):
        raise ValueError(f"wordfreq has no list for {language!r}: it has {', '.join(languages)}")
    licence = "CC BY-SA 4.0 (the data; the wordfreq code: Apache-2.0)"
    source = f"word list {language} in the package wordfreq {metadata.version('wordfreq')}"
    content = _word_list(name, seed, licence, source)
    # a sample has a split "test", the list has none
    return content._replace(counts=None) if split == "test" else content


def _word_list(name: str, seed: int, licence: str, source: str, **options) -> Content:
    """A source without running text: its documents are drawn from its counts."""
    documents, counts = partial(_drawn_documents, name, seed), partial(_counts, name)
    return Content(licence, source, documents, counts=counts, is_endless=True, **options)


# --- what is there -------------------------------------------------------------------------------
def stored_texts() -> pd.DataFrame:
    """List the texts in ``data/texts``: one row per text and split, as ``texts.csv`` there has it.

    The columns are ``name``, ``split`` (``all``, or for NTREX ``train`` and ``test``), ``language``
    (the code of Table 12 of Purason et al. 2025, or ``eng_Latn``), ``lines`` (0 for a list of words),
    ``left_out`` (lines that are also in an evaluation text), ``chunks``, ``unique`` chunks,
    ``chars``, ``bytes``, ``licence``, ``source``. Raises FileNotFoundError without a checkout.

    >>> texts = stored_texts()
    >>> texts.name[texts.language == "kaz_Cyrl"].unique().tolist()
    ['flores:kaz_Cyrl', 'ntrex:kaz', 'opensubtitles:kk']
    """
    return pd.read_csv(_folder() / "texts.csv")


def training_sources(language: str) -> list[str]:
    """Return the names of the sources that are mixed to the training text of a language.

    ``language`` is a code of Table 12, or ``eng_Latn``; the choice is that of ``chosen.csv``. Raises
    ValueError for a language without a training text, naming the nearest ones.

    >>> training_sources("kaz_Cyrl")
    ['ntrex:kaz']
    """
    chosen = _chosen()
    if language not in chosen:
        raise ValueError(_unknown("training", language))
    return chosen[language].split(" + ")


def training_languages() -> list[str]:
    """List the paper's languages that have a training text, except English, in order of codes.

    >>> len(training_languages()), training_languages()[0]
    (63, 'afr_Latn')
    """
    return sorted(_chosen().keys() - {"eng_Latn"})


def flores_of(name: str) -> str | None:
    """Return the name of the FLORES text in the language of a stored text or word list, or None."""
    tried = pd.read_csv(_folder() / "chosen.csv")
    return next((f"flores:{language}" for language in tried.language[tried.sources == name]), None)


def provenance(name: str, split: str = "train") -> tuple[str, str]:
    """Return licence and source of a text; ValueError for an unknown name and a missing split."""
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
        f"{name} is kept as counts and has no split 'test': evaluate on another text, such as "
        "flores:CODE"
    )


def _folder() -> Path:
    if CHECKOUT is None:
        raise FileNotFoundError(
            "counts of real text are in data/texts of a checkout of tokhelpers, and only the package is "
            "installed here: clone the project and install it with pip install -e ."
        )
    return CHECKOUT / "data" / "texts"


def _chosen() -> dict[str, str]:
    """The sources of each language's training text, joined by " + "."""
    tried = pd.read_csv(_folder() / "chosen.csv")
    chosen = tried[tried.chosen == "yes"]
    return dict(zip(chosen.language, chosen.sources, strict=True))


def _unknown(kind: str, code: str) -> str:
    """The message for a name that no stored text has, with the nearest names."""
    if code in WITHOUT_SPACES:
        return (
            f"there is no {kind}:{code}: the language is written without spaces, so its chunks would be "
            "whole sentences; th.notebook.load_measured('flores_tokens') has the tokens of its FLORES text"
        )
    texts = stored_texts()
    codes = texts.name.str.partition(":")[2]  # other sources have other codes for a language
    is_meant = codes.isin([code, code.partition("_")[0]]) | (texts.language == code)
    languages = set(texts.language[is_meant])
    if kind == "training":
        names = {language: language for language in _chosen()}
    else:
        of_kind = texts.name.str.startswith(f"{kind}:")
        names = dict(zip(codes[of_kind], texts.language[of_kind], strict=True))
    same = [name for name, language in names.items() if language in languages]
    near = difflib.get_close_matches(code, sorted(names), n=4, cutoff=0.4)
    nearest = dict.fromkeys([*same, *near] or sorted(names)[:4])
    listed = ", ".join(f"{kind}:{name}" for name in nearest)
    more = f"of {len(names)}; data/texts/texts.csv has them all"
    return f"no text is called {kind}:{code}: there is {listed} {more}"


# --- the counts ----------------------------------------------------------------------------------
def read_counts(name: str, split: str = "train") -> dict[str, int]:
    """Read the chunks of a stored text and how often each occurs, the most frequent first.

    Of NTREX, ``train`` is the first 1,597 lines and ``test`` the last 400; FLORES is the same text
    under both names. Raises ValueError for an unknown name or split and for a damaged file.
    """
    provenance(name, split)
    file = _folder() / f"{name.replace(':', '/')}.tsv.xz"
    try:
        header, *rows = lzma.decompress(file.read_bytes()).decode().splitlines()
    except lzma.LZMAError:
        raise ValueError(f"{file} is damaged: restore it from the repository") from None
    names = header.split("\t")
    column = names.index(split) if split in names else 1
    fields = (row.split("\t") for row in rows)
    counts = ((field[0], int(field[column])) for field in fields)
    return dict(most_frequent({chunk: n for chunk, n in counts if n}))


def mixture(sources: Iterable[Mapping[str, int]], most: int | None = None) -> ChunkCounts:
    """Mix the counts of several corpora with equal weight; those of a single one stay unchanged.

    The counts of each source, the ``counts`` of a corpus or a mixture, are scaled to 10^9 in all,
    rounded and added up. The result, the most frequent chunks first, is a corpus. ``most``: keep
    only so many of the most frequent chunks.

    >>> mixture([{" a": 3, " b": 1}, {" b": 5}])
    {' b': 1250000000, ' a': 750000000}
    """
    sources = list(sources)
    if len(sources) == 1:
        return ChunkCounts(sources[0]) if most is None else most_frequent(sources[0], most)
    mixed = {}
    for counts in sources:
        total = sum(counts.values())
        # integers throughout, so that no machine rounds differently
        scaled = {n: (2 * n * MIXED + total) // (2 * total) for n in set(counts.values())}
        for chunk, n in counts.items():
            mixed[chunk] = mixed.get(chunk, 0) + scaled[n]
    return most_frequent({chunk: n for chunk, n in mixed.items() if n}, most)


def most_frequent(counts: Mapping[str, int], most: int | None = None) -> ChunkCounts:
    """Keep the ``most`` most frequent chunks, or all, in this order; ties in order of the text."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ChunkCounts(ordered[:most])


def _counts(name: str) -> Mapping[str, int]:
    """The counts of a word list or of a training text."""
    kind, _, rest = name.partition(":")
    if kind == "training":
        return mixture(_counts(source) for source in training_sources(rest))
    if kind != "wordfreq":
        return read_counts(name)
    words, counts = _frequencies(name)
    return dict(zip([f" {word}" for word in words], counts.tolist(), strict=True))


def _frequencies(name: str) -> tuple[list[str], np.ndarray]:
    """Words and their frequencies (uint64; of wordfreq per 10^9 words, without those that round to 0)."""
    kind, _, language = name.partition(":")
    if kind != "wordfreq":
        words = defaultdict(int)
        for chunk, n in _counts(name).items():
            words[chunk.removeprefix(" ")] += n
        return list(words), np.fromiter(words.values(), np.uint64)
    import wordfreq

    # words of one frequency, of the next lower one, and so on
    steps = wordfreq.get_frequency_list(language, "best")
    if hasattr(wordfreq.get_frequency_list, "cache_clear"):
        wordfreq.get_frequency_list.cache_clear()  # it keeps every list: many gigabytes
    shares = [round(1e9 * wordfreq.cB_to_freq(-step)) for step in range(len(steps))]
    counts = np.repeat(np.array(shares, np.uint64), [len(words) for words in steps])
    counts = counts[counts > 0]
    return list(islice(chain.from_iterable(steps), len(counts))), counts


# --- documents made from counts ----------------------------------------------------------------------
def _drawn_documents(name: str, seed: int) -> Iterator[str]:
    """Documents of 50 words, each word drawn independently by its frequency, without end."""
    words, cumulative = _word_table(name)
    # The bit generator's raw stream is the one numpy promises to keep from version to version.
    # Its 64 bits modulo about 10^9 favour no word by more than 1 in 10^10.
    bits = np.random.PCG64(digest(f"{name.removeprefix('wordfreq:')} {seed}"))
    while True:
        draws = bits.random_raw(WORDS * 1000) % cumulative[-1]
        drawn = np.searchsorted(cumulative, draws, side="right").tolist()
        for start in range(0, len(drawn), WORDS):
            yield " ".join([words[i] for i in drawn[start : start + WORDS]])


@lru_cache(maxsize=2)
def _word_table(name: str) -> tuple[list[str], np.ndarray]:
    """Words and their cumulative frequencies; computing them takes as long as a short sample."""
    words, counts = _frequencies(name)
    return words, np.cumsum(counts)


def _lines_of(name: str, split: str, seed: int) -> Iterator[str]:
    return shuffled_lines(read_counts(name, split), f"{name} {seed}")


def shuffled_lines(counts: Mapping[str, int], key: str) -> Iterator[str]:
    """Join a text's chunks in random order, seeded by ``key``, into as many lines as the text has.

    The lines make no sense, but their counts are those of the text.
    """
    chunks = np.repeat(np.array(list(counts), object), list(counts.values()))
    # the bit generator's raw stream is the one numpy promises to keep from version to version
    order = np.argsort(np.random.PCG64(list(key.encode())).random_raw(len(chunks)), kind="stable")
    first = [chunk for chunk in chunks[order] if chunk[0] != " "]
    later = [chunk for chunk in chunks[order] if chunk[0] == " "]
    ends = [len(later) * (i + 1) // len(first) for i in range(len(first))]
    for chunk, start, end in zip(first, [0, *ends], ends, strict=False):
        yield chunk + "".join(later[start:end])
