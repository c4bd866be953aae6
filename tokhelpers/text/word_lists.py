"""Lists of words with their frequencies: as counts, or as documents whose words are drawn by them."""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from itertools import chain, islice

import numpy as np

from .sources import Source, digest, source, source_of
from .stored_counts import (
    StoredText,
    flores_of,
    mixture,
    no_test,
    training_sources,
)

WORDS = 50  # in a document that is drawn


class WordList(Source):
    """A source that has no running text: its documents are drawn from its counts."""

    endless = True

    def frequencies(self) -> tuple[list[str], np.ndarray]:
        """The words, and how often each occurs (uint64)."""
        words = defaultdict(int)
        for chunk, count in self.counts("train").items():
            words[chunk.removeprefix(" ")] += count
        return list(words), np.fromiter(words.values(), np.uint64)

    def documents(self, reading) -> Iterator[str]:
        """Documents of 50 words, each drawn independently by its count, without end."""
        words, cumulative = _word_table(self.name)
        # The bit generator's raw stream is the one numpy promises to keep from version to version.
        # Its 64 bits modulo about 10^9 favour no word by more than 1 in 10^10.
        bits = np.random.PCG64(digest(f"{self.name.removeprefix('wordfreq:')} {reading.seed}"))
        while True:
            draws = bits.random_raw(WORDS * 1000) % cumulative[-1]
            drawn = np.searchsorted(cumulative, draws, side="right").tolist()
            for start in range(0, len(drawn), WORDS):
                yield " ".join([words[i] for i in drawn[start : start + WORDS]])

    def held_out(self) -> str | None:
        """FLORES in the same language: the list itself would give the learned words again."""
        return flores_of(self.name)


@source("wordfreq:LANG")
class Wordfreq(WordList):
    """The largest list of a language in the package wordfreq."""

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        from wordfreq import available_languages

        if self.rest not in (known := sorted(available_languages("best"))):
            raise ValueError(f"wordfreq has no list for {self.rest!r}: it has {', '.join(known)}")
        licence = "CC BY-SA 4.0 (the data; the wordfreq code: Apache-2.0)"
        return (
            licence,
            f"word list {self.rest} in the package wordfreq {metadata.version('wordfreq')}",
        )

    def counts(self, split: str) -> dict[str, int] | None:
        """Words with a space before them, by 10^9 words; those that round to 0 are left out."""
        if split == "test":  # a sample has this split, the list has none
            return None
        words, counts = self.frequencies()
        return dict(zip([f" {word}" for word in words], counts.tolist(), strict=True))

    def frequencies(self) -> tuple[list[str], np.ndarray]:
        import wordfreq

        # words of one frequency, of the next lower one, and so on
        steps = wordfreq.get_frequency_list(self.rest, "best")
        if hasattr(wordfreq.get_frequency_list, "cache_clear"):
            wordfreq.get_frequency_list.cache_clear()  # it keeps every list: many gigabytes
        shares = [round(1e9 * wordfreq.cB_to_freq(-step)) for step in range(len(steps))]
        counts = np.repeat(np.array(shares, np.uint64), [len(words) for words in steps])
        counts = counts[counts > 0]
        return list(islice(chain.from_iterable(steps), len(counts))), counts


@source("opensubtitles:CODE", "wikipedia:CODE")
class StoredList(WordList, StoredText):
    """A list of words in `data/texts`."""


@source("training:CODE")
class Training(WordList):
    """The text from which a language is learned: one source or several, of equal weight."""

    divided, tells_nearest = False, True

    @property
    def sources(self) -> list[Source]:
        return [source_of(name) for name in training_sources(self.rest)]

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        mixed = self.sources
        if split == "test":
            raise no_test(self.name)
        licences = dict.fromkeys(some.provenance(split, column)[0] for some in mixed)
        names = " and ".join(some.name for some in mixed)
        return "; ".join(licences), f"{names}, by data/texts/chosen.csv"

    def counts(self, split: str) -> dict[str, int]:
        return mixture(some.counts(split) for some in self.sources)

    def held_out(self) -> str | None:
        return f"flores:{self.rest}"


@lru_cache(maxsize=2)
def _word_table(name: str) -> tuple[list[str], np.ndarray]:
    """The words of a list, and their counts added up: making it takes as long as a short sample."""
    words, counts = source_of(name).frequencies()
    return words, np.cumsum(counts)
