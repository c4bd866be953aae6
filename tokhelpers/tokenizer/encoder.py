"""What all functions of the package work on: a tokenizer with its vocabulary and settings at hand."""

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from os.path import commonprefix

import numpy as np
from tokenizers import Tokenizer

from .pretokenization import (
    BEFORE_META,
    UNKNOWN_MODEL,
    Pretokenizer,
    pretokenizer,
    pretokenizer_only,
    splits_text,
)
from .segmentation import sum_by_id
from .token_bytes import BYTE_TOKENS, byte_of, raw_bytes

FLAGS = ("content", "single_word", "lstrip", "rstrip", "normalized")  # of an added token
BATCH = 1_000  # texts that are pre-tokenized at a time


class Encoder:
    """A tokenizer in one of three forms: ``TokenizerSpec``, ``LibraryEncoder`` or ``AdaptBPE``.

    Each has ``kind`` (of model), ``pipeline`` (normalizer and pre-tokenizer, as in ``tokenizer.json``),
    ``vocab``, ``added_tokens`` (by ID, special ones included), ``next_id``, ``byte_fallback``,
    ``find_special`` (whether special tokens are found in text), ``backend_tokenizer`` (the library's),
    and ``segment``, which returns the IDs of pre-tokens (int32, flat) and their offsets (int64, one more
    than pre-tokens).
    """

    has_word_markers = False  # whether tokens say where in a word they stand, as in some BPE
    fuses_unknown = False  # whether a run of unknown characters is one unknown token
    spec = None  # the ``TokenizerSpec`` whose merges it applies, if it applies merges

    # --- vocabulary
    @cached_property
    def tokens(self) -> dict[int, str]:
        """The token string of each ID."""
        return {i: token for token, i in self.vocab.items()}

    @cached_property
    def added(self) -> dict[str, int]:
        """The added tokens, special ones included, and their IDs."""
        return {token.content: i for i, token in self.added_tokens.items()}

    @cached_property
    def all_ids(self) -> dict[str, int]:
        """The ID of each token string, added tokens included."""
        return self.vocab | self.added

    @cached_property
    def all_tokens(self) -> dict[int, str]:
        """The token string of each ID, added tokens included."""
        return {i: token for token, i in self.all_ids.items()}

    @cached_property
    def special(self) -> set[str]:
        """Contents of the special tokens."""
        return {token.content for token in self.added_tokens.values() if token.special}

    @property
    def splits_at_added(self) -> bool:
        """Whether there are added tokens that are not special: raw text is split at them."""
        return len(self.special) < len(self.added_tokens)

    @cached_property
    def ordinary(self) -> dict[int, str]:
        """The token string of each ID, in order of IDs, without special and added tokens."""
        return {i: t for i, t in sorted(self.tokens.items()) if i not in self.added_tokens}

    # --- what token strings stand for
    @cached_property
    def byte_level(self) -> bool:
        """Whether a token string has one character of the byte alphabet per byte."""
        return "ByteLevel" in repr(self.pipeline)

    def raw(self, tokens: Iterable[str]) -> list[bytes]:
        """Return the bytes that token strings stand for, comparable between families of tokenizers.

        Byte-level tokenizers write one character per byte. In others ``▁`` is a space, and with byte
        fallback a token such as ``<0xE4>`` is one byte. Characters outside the byte alphabet, as in
        special tokens, stand for themselves.
        """
        if self.byte_level:
            return raw_bytes(tokens)
        byte = {t: bytes([i]) for i, t in enumerate(BYTE_TOKENS)} if self.byte_fallback else {}
        return [byte.get(token) or token.replace("▁", " ").encode() for token in tokens]

    def text_of(self, token: str) -> str | None:
        """Return the text that a token string stands for, or None if its bytes are not valid UTF-8."""
        if not self.byte_level:
            return token.replace("▁", " ")
        try:
            return bytes(map(byte_of().__getitem__, token)).decode()
        except (KeyError, UnicodeDecodeError):
            return None

    # --- pre-tokenization
    @cached_property
    def pretokenizer_config(self) -> str:
        """What decides the pre-tokens of a text, as JSON; see ``pretokenizer_config_of``."""
        if not splits_text(self.pipeline["pre_tokenizer"]):
            inside = (token for token in self.vocab if token.rfind("▁") > 0)  # few: much faster
            crossing = list(filter(BEFORE_META.search, inside))
            if crossing or "▁" not in json.dumps(self.pipeline, ensure_ascii=False):
                raise ValueError(
                    "the tokenizer has no pre-tokenizer, so every document would be one word"
                    + (f", and tokens such as {crossing[0]!r} cross spaces" if crossing else "")
                    + ": give it a pre-tokenizer"
                )
            if self.fuses_unknown and "▁" not in self.vocab:
                raise ValueError(
                    "the tokenizer has no pre-tokenizer and no token '▁', so that unknown tokens fuse "
                    "across words: add '▁' to its vocabulary, or give it a pre-tokenizer"
                )
        added = sorted((t for t in self.added_tokens.values() if not t.special), key=str)
        tokens = {"added_tokens": [{f: getattr(t, f) for f in FLAGS} for t in added]}
        return json.dumps(self.pipeline | (tokens if added else {}), ensure_ascii=False)

    @property
    def pretokenizer(self) -> Pretokenizer:
        return pretokenizer(self.pretokenizer_config)

    def pretokenize(self, texts: list[str]) -> Iterator[list[str | int]]:
        """Yield for each text its pre-tokens (str) and the added tokens found in it (IDs)."""
        if self.pretokenizer.pattern and not self._may_hold_added(texts):
            return self.pretokenizer(texts)
        return (
            self._pieces(encoding)
            for k in range(0, len(texts), BATCH)
            for encoding in self._added_finder.encode_batch(texts[k : k + BATCH])
        )

    def _may_hold_added(self, texts: list[str]) -> bool:
        """Whether an added token occurs in texts, before or after they are normalised."""
        text = "\n".join(texts)
        normalizer = self._added_finder.normalizer
        normalise = normalizer.normalize_str if normalizer and not text.isascii() else None
        normalised = normalise(text) if normalise else text
        prefix = commonprefix([*self.added])
        if all(map(str.isascii, self.added)) and prefix not in text and prefix not in normalised:
            return False  # most have one, such as "<|", and there may be hundreds
        return any(
            token in text or (normalise and (token in normalised or normalise(token) in normalised))
            for token in self.added
        )

    @cached_property
    def _added_finder(self) -> Tokenizer:
        """The library's tokenizer without its model: its rules for added tokens hold.

        These are white space beside them, whole words, and normalisation.
        """
        finder = pretokenizer_only(self.pretokenizer_config, UNKNOWN_MODEL)
        finder.add_tokens(list(self.added_tokens.values()))
        finder.encode_special_tokens = not self.find_special
        return finder

    @cached_property
    def _id_by_finder(self) -> dict[int, int]:
        return {self._added_finder.token_to_id(content): i for content, i in self.added.items()}

    def _pieces(self, encoding) -> list[str | int]:
        pieces = encoding.tokens
        if any(encoding.ids):
            ids = zip(encoding.ids, pieces, strict=True)
            pieces = [self._id_by_finder.get(i, word) for i, word in ids]
        if splits_text(self.pipeline["pre_tokenizer"]):
            return pieces
        words = (BEFORE_META.split(p) if isinstance(p, str) else [p] for p in pieces)
        return list(chain.from_iterable(words))

    # --- encoding
    def not_merged_because(self, pretoken: str) -> str | None:
        """Say why a pre-token is not merged step by step; None if it is."""
        return self.kind

    def ids_and_overflow(self, text: str) -> tuple[list[int], bool]:
        """Return the IDs that the library gives for a text, without padding, and whether it truncates."""
        encoding = self.backend_tokenizer.encode(text, add_special_tokens=False)
        masked = zip(encoding.ids, encoding.attention_mask, strict=True)
        return [i for i, mask in masked if mask], bool(encoding.overflowing)

    def ids_batch(self, texts: Iterable[str], cache: dict | None = None) -> list[list[int]]:
        """Encode texts: added tokens are found in them, and none are put around them.

        ``cache`` keeps the IDs of pre-tokens from call to call.
        """
        cache, texts, ids = {} if cache is None else cache, iter(texts), []
        while batch := list(islice(texts, BATCH)):
            pieces_of_texts = list(self.pretokenize(batch))
            new = dict.fromkeys(p for pieces in pieces_of_texts for p in pieces if p not in cache)
            cache.update((i, (i,)) for i in new if isinstance(i, int))  # added tokens
            words = [word for word in new if isinstance(word, str)]
            flat, ends = (array.tolist() for array in self.segment(words))
            for word, start, end in zip(words, ends, ends[1:], strict=False):
                cache[word] = tuple(flat[start:end])
            ids += [list(chain.from_iterable(map(cache.get, pieces))) for pieces in pieces_of_texts]
        return ids

    def count_tokens(self, words) -> np.ndarray:
        """Count how often each ID is produced on counted pre-tokens: an int64 array indexed by ID."""
        ids, offsets = self.segment(words.words)
        return sum_by_id(ids, np.repeat(words.counts, np.diff(offsets)), self.next_id)
