"""AdaptBPE: an encoder that matches added tokens in each pre-token before it applies merges."""

from collections.abc import Iterable
from itertools import chain

import numpy as np
from tokenizers import Tokenizer

from ..tokenizer.encoder import Encoder
from ..tokenizer.segmentation import initial_ids_of_pieces, segment
from ..tokenizer.spec import TokenizerSpec
from .extension import Extension, extend
from .methods import checked_tokens

CACHE_SIZE = 1_000_000  # pre-tokens; a fuller cache is emptied before the next batch


class AdaptBPE(Encoder):
    """Encode text by the longest matches of added tokens first, and by merges between the matches.

    In each pre-token the longest match is taken (the leftmost of several equally long ones), then
    the longest in the remaining text, and so on. The text between matches is segmented by the merges of
    ``extend(how="regenerate")``, without merge skipping. ``tokenizer`` is any BPE tokenizer.
    ``added_tokens`` (token strings such as ``Ġword``, or an ``Extension``) get the next free IDs in
    this order; a token of the vocabulary keeps its ID and is matched as well. Attributes:
    ``matched`` (the added tokens), ``tokenizer`` and ``spec`` (the extended tokenizer, whose
    IDs these are). Raises TypeError for non-strings; ValueError for duplicates, for strings that
    cannot be tokens of this tokenizer, and for its special and added tokens.

    Source: Balde et al. 2024, Algorithm 1.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> base.encode("abat bat").tokens, AdaptBPE(base, ["abat"]).encode("abat bat")
    (['a', 'ba', 't', 'Ġba', 't'], ['abat', 'Ġba', 't'])
    """

    kind = "AdaptBPE"

    def __init__(
        self, tokenizer: Tokenizer | TokenizerSpec, added_tokens: Iterable[str] | Extension
    ):
        base = TokenizerSpec.from_tokenizer(tokenizer)
        self.matched = checked_tokens(base, getattr(added_tokens, "tokens", added_tokens))
        for token in self.matched:
            if token in base.added:
                raise ValueError(
                    f"the token {token!r} is a special or added token of this tokenizer: leave it out"
                )
            if " " in token:
                raise ValueError(
                    f"{token!r} cannot be a token of this tokenizer, which writes a space as ▁: "
                    f"write it as {token.replace(' ', '▁')!r}"
                )
        new = [token for token in self.matched if token not in base.vocab]
        self.spec = spec = extend(base, Extension(new), how="regenerate")
        self.pipeline, self.vocab, self.next_id = spec.pipeline, spec.vocab, spec.next_id
        self.added_tokens, self.byte_fallback = spec.added_tokens, spec.byte_fallback
        self.find_special = spec.find_special
        _ = self.pretokenizer_config  # raises ValueError now if text cannot be pre-tokenized
        self._ids = {token: spec.vocab[token] for token in self.matched}
        self._cache = {}  # pre-token -> IDs; replaced, not cleared, as other threads may read it

    def __repr__(self) -> str:
        return f"AdaptBPE({len(self.matched):,} added tokens)"

    @property
    def tokenizer(self) -> Tokenizer:
        """The extended tokenizer; it has the same IDs, but encodes by merges alone."""
        return self.spec.backend_tokenizer

    backend_tokenizer = tokenizer

    def encode(self, text: str) -> list[str]:
        """Encode a text as token strings; see ``ids``."""
        return [self.all_tokens[i] for i in self.ids(text)]

    def ids(self, text: str) -> list[int]:
        """Encode a text as token IDs, without truncation, padding or template.

        Special and added tokens of the tokenizer are matched in raw text, as its own encoder does.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"a text is a string, got {type(text).__name__}: see ids_batch for many"
            )
        return self.ids_batch([text])[0]

    def ids_and_overflow(self, text: str) -> tuple[list[int], bool]:
        return self.ids(text), False

    def ids_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Encode many texts as token IDs, faster than one by one."""
        if isinstance(texts, str):
            raise TypeError("texts is one string: put it in a list, or use ids")
        if len(self._cache) > CACHE_SIZE:
            self._cache = {}
        return super().ids_batch(texts, self._cache)

    def segment(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Segment pre-tokens: returns IDs (int32, flat) and offsets (int64, one more than words)."""
        lengths = sorted({len(token) for token in self._ids}, reverse=True)
        pieces = [_split_at_matches(word, self._ids, lengths) for word in words]
        symbols, ends = initial_ids_of_pieces(list(chain.from_iterable(pieces)), self.spec)
        offsets = ends[np.cumsum([0, *map(len, pieces)])]
        return segment(symbols, offsets, self.spec.merge_table)


# --- the longest matches --------------------------------------------------------------------------
def _split_at_matches(word: str, ids: dict[str, int], lengths: list[int]) -> list[str | int]:
    """Split a word into the IDs of its matches and the text between; ``lengths`` are descending."""
    pieces = [word]
    for n in lengths:
        if not ids.keys().isdisjoint([word[i : i + n] for i in range(len(word) - n + 1)]):
            split = (_split_at_length(p, ids, n) if isinstance(p, str) else [p] for p in pieces)
            pieces = list(chain.from_iterable(split))
    return pieces


def _split_at_length(text: str, ids: dict[str, int], n: int) -> list[str | int]:
    """Split a text at its matches of ``n`` characters, from left to right."""
    pieces, begin, i = [], 0, 0
    while i <= len(text) - n:
        token = text[i : i + n]
        if token in ids:
            pieces += [text[begin:i], ids[token]]
            begin = i = i + n
        else:
            i += 1
    return [*pieces, text[begin:]]
