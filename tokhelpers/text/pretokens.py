"""Pre-tokens of a text and their counts, on which every training and measurement works.

The tokenizer's own normalizer and pre-tokenizer decide what a pre-token is. Where that is proven to
give the same counts, text is first split at single spaces between words, so that only unique words
have to be pre-tokenized (tests/text/test_pretokens.py tries every code point).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
import pyarrow as pa
from pyarrow import compute

from ..tokenizer.pretokenization import Pretokenizer, pretokenizer
from ..tokenizer.token_bytes import bytes_of, strings_of_bytes
from .chunks import Batch, Block, Counts, count_chunks
from .documents import wrong_document

BATCH_BYTES = 1 << 22  # of documents that are counted together


@dataclass(frozen=True, eq=False, repr=False)
class Pretokens(Mapping):
    """Unique pre-tokens of a text and how often each occurs: a mapping pre-token -> count.

    ``strings`` (an Arrow array) and ``words`` (a list) are the pre-tokens in the form that the model
    receives (``Ġword``), ``counts`` is an int64 array parallel to them. ``chars``, ``bytes`` (UTF-8),
    ``spaced_words`` (separated by white space) and ``documents`` are sizes of the original text,
    before normalisation. ``pretokenizer_config`` is the normalizer and pre-tokenizer, as JSON.
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
    def _indices(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __getitem__(self, word: str) -> int:
        return int(self.counts[self._indices[word]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.strings)

    def at_least(self, min_count: int) -> "Pretokens":
        """Keep the pre-tokens that occur at least ``min_count`` times; ValueError if there is none."""
        is_kept = self.counts >= min_count
        if not is_kept.any():
            raise ValueError(
                f"no pre-token occurs {min_count:,} times: give a smaller min_count"
                if min_count > 1
                else f"the corpus has no text in its {self.documents:,} documents: nothing to count"
            )
        if is_kept.all():
            return self
        return replace(self, strings=self.strings.filter(is_kept), counts=self.counts[is_kept])

    def __repr__(self) -> str:
        return f"Pretokens({len(self):,} unique, {self.counts.sum():,} in all)"


# --- from chunks to pre-tokens ---------------------------------------------------------------------
def _pretokens_of(chunks: pa.Array, counts: np.ndarray, splitter: Pretokenizer) -> tuple:
    """Pre-tokens of unique chunks and their counts; only chunks that may have several are split."""
    is_pretoken, pieces = splitter.are_single(chunks), Counter()
    others = chunks.filter(~is_pretoken).to_pylist()
    for chunk, n in zip(others, counts[~is_pretoken].tolist(), strict=True):
        for piece in splitter.split(chunk):
            pieces[piece] += n
    words = chunks.filter(is_pretoken)
    if splitter.prefix:
        prefix, end = (pa.scalar(text, chunks.type) for text in (splitter.prefix, ""))
        words = compute.binary_join_element_wise(prefix, words, end)
    words, counts = _with_pieces(words, counts[is_pretoken], pieces)
    return strings_of_bytes(*bytes_of(words)) if splitter.pattern else words, counts


def _with_pieces(words: pa.Array, counts: np.ndarray, pieces: Counter) -> tuple:
    """Add up pre-tokens that are chunks and the pieces of other chunks."""
    in_both = compute.is_in(words, pa.array(list(pieces), words.type))
    in_both = in_both.to_numpy(zero_copy_only=False)
    for word, n in zip(words.filter(in_both).to_pylist(), counts[in_both].tolist(), strict=True):
        pieces[word] += n
    words = pa.concat_arrays([words.filter(~in_both), pa.array(list(pieces), words.type)])
    numbers = np.fromiter(pieces.values(), np.int64, len(pieces))
    return words, np.concatenate([counts[~in_both], numbers])


# --- from documents to counts ------------------------------------------------------------------------
def count_units(batches: Iterable[Batch | Block], pretokenizer_config: str) -> Counts:
    """Count what `pretokens_of_units` turns into pre-tokens: chunks, or the library's pre-tokens.

    The result does not depend on how the documents are batched.
    """
    splitter = pretokenizer(pretokenizer_config)
    if splitter.at_spaces:
        return count_chunks(batches, **splitter.chunk_options)
    counts, sizes = Counter(), np.zeros(4, int)
    for batch in batches:
        batch = batch.opened()
        raw = batch.text.tobytes()
        for begin, end, n in zip(*(column.tolist() for column in batch[1:]), strict=True):
            text = raw[begin:end].decode()
            for piece in splitter.split(text):
                counts[piece] += n
            sizes += n * np.array([len(text), end - begin, len(text.split()), 1])
    counts.pop("", None)
    units = pa.array(list(counts), pa.large_string())
    return Counts(units, np.fromiter(counts.values(), np.int64, len(counts)), sizes)


def pretokens_of_units(units: pa.Array, counts: np.ndarray, pretokenizer_config: str) -> tuple:
    """Turn unique units and their counts into unique pre-tokens and their counts."""
    splitter = pretokenizer(pretokenizer_config)
    return _pretokens_of(units, counts, splitter) if splitter.at_spaces else (units, counts)


def batches_of(documents: Iterable[tuple[str, int]]) -> Iterator[Batch]:
    """Encode weighted documents as UTF-8, about `BATCH_BYTES` at a time.

    Raises ValueError for a missing value and for a lone surrogate, TypeError for other objects.
    """
    documents, texts, weights, size, n = iter(documents), [], [], 0, 0
    while group := list(islice(documents, 100)):
        try:
            encoded = [text.encode() for text, _ in group]
        except AttributeError:
            items = enumerate((text for text, _ in group), n)
            raise next(wrong_document(t, i) for i, t in items if not isinstance(t, str)) from None
        except UnicodeEncodeError as error:
            number = f"U+{ord(error.object[error.start]):04X}"
            raise ValueError(
                f"the text contains the lone surrogate {number}; fix its decoding, or replace it"
            ) from None
        texts += encoded
        weights += [n for _, n in group]
        size += sum(map(len, encoded))
        n += len(group)
        if size > BATCH_BYTES:
            yield _joined(texts, weights)
            texts, weights, size = [], [], 0
    if texts:
        yield _joined(texts, weights)


def _joined(texts: list[bytes], weights: list[int]) -> Batch:
    text = np.frombuffer(b"".join(texts) or b"\0", np.uint8)  # an empty buffer is refused
    offsets = np.cumsum([0, *map(len, texts)])
    return Batch(text, offsets[:-1], offsets[1:], np.array(weights, np.int64))
