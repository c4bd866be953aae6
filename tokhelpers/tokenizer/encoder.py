"""What every function inside works on: a tokenizer that was opened."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, islice

import numpy as np

from .pretokenization import BEFORE_META, UNKNOWN, cuts_text, shell
from .segmentation import sum_by_id
from .token_bytes import BYTE_TOKENS, byte_of, raw_bytes

BATCH = 1_000  # texts that are cut at a time


class Encoder:
    """A tokenizer, opened: ``TokenizerSpec`` (BPE), a ``Library`` for other models, or ``AdaptBPE``.

    Each has ``kind`` (of model), ``steps`` (normalizer and pre-tokenizer, as ``tokenizer.json`` holds
    them), ``vocab``, ``added_tokens`` (by id, special ones among them), ``next_id``,
    ``byte_fallback``, ``find_special`` (whether special tokens are found in text),
    ``backend_tokenizer`` (the library's), and ``segment``, which returns the ids of pre-tokens, flat
    (int32), and offsets (int64, one more than pre-tokens).
    """

    marked = False  # whether tokens say where in a word they stand, as in some BPE
    spec = None  # the ``TokenizerSpec`` whose merges it applies, if it applies merges

    def taken_apart(self) -> "Encoder":
        return self

    @cached_property
    def tokens(self) -> dict[int, str]:
        """The token string of each id."""
        return {i: token for token, i in self.vocab.items()}

    @cached_property
    def added(self) -> dict[str, int]:
        """The added tokens, special ones among them, and their ids."""
        return {token.content: i for i, token in self.added_tokens.items()}

    @cached_property
    def all_ids(self) -> dict[str, int]:
        """The id of each token string, added tokens among them."""
        return self.vocab | self.added

    @cached_property
    def all_tokens(self) -> dict[int, str]:
        """The token string of each id, added tokens among them."""
        return {i: token for token, i in self.all_ids.items()}

    @cached_property
    def special(self) -> set[str]:
        """Contents of the special tokens."""
        return {token.content for token in self.added_tokens.values() if token.special}

    @property
    def cuts_text(self) -> bool:
        """Whether there are added tokens that are not special: they cut raw text."""
        return len(self.special) < len(self.added_tokens)

    @cached_property
    def byte_level(self) -> bool:
        """Whether a token string has one character of the byte alphabet per byte."""
        return "ByteLevel" in repr(self.steps)

    @cached_property
    def rules(self) -> str:
        """What decides pre-tokens, as JSON; see ``pretokenizer_config_of``."""
        if not cuts_text(self.steps["pre_tokenizer"]):
            inside = (token for token in self.vocab if token.rfind("▁") > 0)  # few: much faster
            crossing = list(filter(BEFORE_META.search, inside))
            if crossing or "▁" not in json.dumps(self.steps, ensure_ascii=False):
                raise ValueError(
                    "the tokenizer has no pre-tokenizer, so every document would be one word"
                    + (f", and tokens such as {crossing[0]!r} cross spaces" if crossing else "")
                    + ": give it a pre-tokenizer"
                )
        return json.dumps(self.steps, ensure_ascii=False)

    @cached_property
    def ordinary(self) -> dict[int, str]:
        """The token string of each id, in order of ids, without special and added tokens."""
        return {i: t for i, t in sorted(self.tokens.items()) if i not in self.added_tokens}

    def raw(self, tokens: Iterable[str]) -> list[bytes]:
        """The bytes that token strings stand for, so that different families can be compared.

        A byte-level tokenizer writes one character per byte. In others ``▁`` is a space, and where the
        model falls back to bytes a token such as ``<0xE4>`` is one. Characters outside the byte
        alphabet, as in special tokens, stand for themselves.
        """
        if self.byte_level:
            return raw_bytes(tokens)
        byte = {t: bytes([i]) for i, t in enumerate(BYTE_TOKENS)} if self.byte_fallback else {}
        return [byte.get(token) or token.replace("▁", " ").encode() for token in tokens]

    def text_of(self, token: str) -> str | None:
        """The text that a token string stands for, or None if its bytes are no whole characters."""
        if not self.byte_level:
            return token.replace("▁", " ")
        try:
            return bytes(map(byte_of().__getitem__, token)).decode()
        except (KeyError, UnicodeDecodeError):
            return None

    @cached_property
    def cut(self) -> Callable[[list[str]], Iterator[list[str | int]]]:
        """A function that cuts texts into pre-tokens (str) and added tokens found in them (ids).

        The library does it all, so that its rules for added tokens hold: white space beside them,
        whole words, normalisation.
        """
        inner = shell(self.rules, UNKNOWN)
        inner.add_tokens(list(self.added_tokens.values()))
        inner.encode_special_tokens = not self.find_special
        id_of = {inner.token_to_id(content): i for content, i in self.added.items()}
        whole = not cuts_text(self.steps["pre_tokenizer"])

        def pieces_of(found) -> list[str | int]:
            pieces = found.tokens
            if any(found.ids):
                pieces = [id_of.get(i, word) for i, word in zip(found.ids, pieces, strict=True)]
            if not whole:
                return pieces
            words = (BEFORE_META.split(p) if isinstance(p, str) else [p] for p in pieces)
            return list(chain.from_iterable(words))

        def cut(texts: list[str]) -> Iterator[list[str | int]]:
            for k in range(0, len(texts), BATCH):
                yield from map(pieces_of, inner.encode_batch(texts[k : k + BATCH]))

        return cut

    def not_by_steps(self, pretoken: str) -> str | None:
        """Say why a pre-token is not merged step by step; None where it is."""
        return self.kind

    def ids_and_rest(self, text: str) -> tuple[list[int], bool]:
        """The ids of a text as the library gives them, without padding, and whether it cuts some off."""
        found = self.backend_tokenizer.encode(text, add_special_tokens=False)
        real = zip(found.ids, found.attention_mask, strict=True)
        return [i for i, mask in real if mask], bool(found.overflowing)

    def ids_batch(self, texts: Iterable[str], known: dict | None = None) -> list[list[int]]:
        """The ids of each of many texts, whole; added tokens are found in them, none put around them.

        ``known`` remembers the ids of pre-tokens from call to call.
        """
        known, texts, ids = {} if known is None else known, iter(texts), []
        while some := list(islice(texts, BATCH)):
            cut = list(self.cut(some))
            new = dict.fromkeys(piece for pieces in cut for piece in pieces if piece not in known)
            known.update((i, (i,)) for i in new if isinstance(i, int))  # added tokens
            words = [word for word in new if isinstance(word, str)]
            flat, ends = (array.tolist() for array in self.segment(words))
            for word, start, end in zip(words, ends, ends[1:], strict=False):
                known[word] = tuple(flat[start:end])
            ids += [list(chain.from_iterable(map(known.__getitem__, pieces))) for pieces in cut]
        return ids

    def count_tokens(self, words) -> np.ndarray:
        """Count how often each id is produced on counted pre-tokens: an int64 array indexed by id."""
        ids, offsets = self.segment(words.words)
        return sum_by_id(ids, np.repeat(words.counts, np.diff(offsets)), self.next_id)
