"""Text into unique pre-tokens and their counts: everything after works on these.

The tokenizer's own normalizer and pre-tokenizer decide what a pre-token is. Two faster code paths
give the same counts where this is proven (tests/text/test_pretokens.py goes through every code
point): text is cut at single spaces between words first, so that only unique words are looked at;
and the patterns in ``PATTERNS`` run in the ``regex`` module.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
import pyarrow as pa
from pyarrow import compute

from ..tokenizer.checks import SURROGATE
from ..tokenizer.pretokenization import LINES, pretokenizer
from ..tokenizer.token_bytes import bytes_of, strings_of_bytes
from .chunks import count_chunks

PRETOKEN_BYTES = 250  # what a pre-token and its count take in a mapping (measured)


@dataclass(frozen=True, eq=False, repr=False)
class Pretokens(Mapping):
    """Unique pre-tokens of a text and how often each occurs: a mapping pre-token -> count.

    ``strings`` (an Arrow array) and ``words`` (a list) are the pre-tokens as the model gets them
    (``Ġword``), ``counts`` an int64 array beside them. ``chars``, ``bytes`` (UTF-8),
    ``spaced_words`` (separated by white space) and ``documents`` measure the text as it was given,
    before normalisation. ``pretokenizer_config`` is the normalizer and pre-tokenizer that were applied.
    """

    strings: pa.Array
    counts: np.ndarray
    chars: int
    bytes: int
    spaced_words: int
    documents: int
    pretokenizer_config: str

    @cached_property
    def words(self) -> list[str]:
        return self.strings.to_pylist()

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __getitem__(self, word: str) -> int:
        return int(self.counts[self._places[word]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.strings)

    def at_least(self, min_count: int) -> "Pretokens":
        """Those that occur so often, of the same text; ValueError when there are none."""
        kept = self.counts >= min_count
        if not kept.any():
            raise ValueError(
                f"no pre-token occurs {min_count:,} times: give a smaller min_count"
                if min_count > 1
                else f"the corpus has no text in its {self.documents:,} documents: nothing to count"
            )
        if kept.all():
            return self
        return replace(self, strings=self.strings.filter(kept), counts=self.counts[kept])

    def __repr__(self) -> str:
        return f"Pretokens({len(self):,} unique, {self.counts.sum():,} in all)"


# --- from chunks to pre-tokens ---------------------------------------------------------------------
def _pretoken_counts(chunks: pa.Array, counts: np.ndarray, rules: str) -> tuple:
    """Pre-token counts of unique chunks: only those not known to be one pre-token are split."""
    splitter = pretokenizer(rules)
    single, pieces = splitter.are_single(chunks), Counter()
    others = chunks.filter(~single).to_pylist()
    for chunk, n in zip(others, counts[~single].tolist(), strict=True):
        for piece in splitter.split(chunk):
            pieces[piece] += n
    plain = chunks.filter(single)
    if splitter.prefix:
        prefix, end = (pa.scalar(text, chunks.type) for text in (splitter.prefix, ""))
        plain = compute.binary_join_element_wise(prefix, plain, end)
    words, counts = _with_pieces(plain, counts[single], pieces)
    return strings_of_bytes(*bytes_of(words)) if splitter.pattern else words, counts


def _with_pieces(whole: pa.Array, counts: np.ndarray, pieces: Counter) -> tuple:
    """Pre-tokens that are whole chunks, and the pieces of other chunks, added up."""
    both = compute.is_in(whole, pa.array(list(pieces), whole.type)).to_numpy(zero_copy_only=False)
    for word, n in zip(whole.filter(both).to_pylist(), counts[both].tolist(), strict=True):
        pieces[word] += n
    words = pa.concat_arrays([whole.filter(~both), pa.array(list(pieces), whole.type)])
    numbers = np.fromiter(pieces.values(), np.int64, len(pieces))
    return words, np.concatenate([counts[~both], numbers])


def tally(
    weighted: Iterable[tuple[str, int]], rules: str, *, first: int = 1, memory: int | None = None
) -> Iterator[tuple[pa.Array, np.ndarray, np.ndarray]]:
    """Count the pre-tokens of (document, how often), in portions of about `memory` bytes.

    Each portion is the pre-tokens, their counts, and the characters, bytes, words and documents
    they were made from (int64). ``first`` is the number of the first document, for messages.
    """
    pattern = pretokenizer(rules).pattern
    if not pretokenizer(rules).at_spaces:
        for counts, sizes in _library_counts(weighted, rules, first, memory):
            words = pa.array(list(counts), pa.large_string())
            yield words, np.fromiter(counts.values(), np.int64, len(counts)), sizes
        return
    options = {"spaces": pattern is not None, "lines": pattern in LINES, "memory": memory}
    for chunks, counts, sizes in count_chunks(_in_bytes(weighted, first), **options):
        words, counts = _pretoken_counts(chunks, counts, rules)
        del chunks
        pa.default_memory_pool().release_unused()
        yield words, counts, sizes


def _in_bytes(weighted, first: int, size: int = 1 << 20):
    """Documents as UTF-8 with how often each counts, in batches of about `size` bytes."""
    documents, texts, times, filled = iter(weighted), [], [], 0
    while some := list(islice(documents, 100)):
        try:
            encoded = [text.encode() for text, _ in some]
        except (AttributeError, UnicodeEncodeError):
            raise _complaint(some, first) from None
        texts += encoded
        times += [n for _, n in some]
        filled += sum(map(len, encoded))
        first += len(some)
        if filled > size:
            yield texts, times
            texts, times, filled = [], [], 0
    yield texts, times


def _complaint(some, first: int) -> Exception:
    """What is wrong with the first document that cannot be encoded."""
    for number, (text, _) in enumerate(some, first):
        if not isinstance(text, str):
            return TypeError(f"document {number} is {type(text).__name__}, not str")
        if surrogate := SURROGATE.search(text):
            break
    return ValueError(
        f"the text holds a lone surrogate ({surrogate[0]!a}), which no encoding can write: "
        "decode it properly, or replace it"
    )


def _library_counts(weighted, rules: str, first: int, memory: int | None):
    """The slow code path: the library normalises and cuts each document."""
    cut, counts, sizes = pretokenizer(rules).split, Counter(), np.zeros(4, np.int64)
    for number, (text, times) in enumerate(weighted, first):
        [raw], _ = next(_in_bytes([(text, times)], number))
        for piece in cut(text):
            counts[piece] += times
        counts.pop("", None)
        sizes += times * np.array([len(text), len(raw), len(text.split()), 1])
        if memory is not None and len(counts) * PRETOKEN_BYTES > memory:
            yield counts, sizes
            counts, sizes = Counter(), np.zeros(4, np.int64)
    yield counts, sizes
