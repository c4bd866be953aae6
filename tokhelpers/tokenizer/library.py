"""A tokenizer opened: taken apart where that is possible, else asked through the library."""

import json
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from tokenizers import Tokenizer, models

from .checks import MARKS, check_ids
from .parts import STEPS, Encoder, Parts, backend_of, taken_apart


def undisturbed(tokenizer) -> Tokenizer:
    """Return a tokenizer that takes texts whole and gives the same tokens each time.

    That is the ``tokenizers.Tokenizer`` inside, or where that cuts texts off, pads them or leaves
    merges out at random (dropout), a copy that does not.

    >>> tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    >>> tokenizer.enable_truncation(1)
    >>> undisturbed(tokenizer).encode("aa").tokens
    ['a', 'a']
    """
    inner = backend_of(tokenizer)
    dropout = getattr(inner.model, "dropout", None)
    if inner.truncation is None and inner.padding is None and not dropout:
        return inner
    copy = Tokenizer.from_str(inner.to_str())
    copy.encode_special_tokens = inner.encode_special_tokens  # the only thing that is not written
    copy.no_truncation()
    copy.no_padding()
    if dropout:
        copy.model.dropout = None
    return copy


class Library(Encoder):
    """A tokenizer that is asked through the library: WordPiece, Unigram, BPE with marks of words."""

    def __init__(self, backend: Tokenizer):
        self.backend = backend

    @cached_property
    def steps(self) -> dict[str, dict | None]:
        found = {step: getattr(self.backend, step) for step in STEPS}
        return {k: None if v is None else json.loads(v.__getstate__()) for k, v in found.items()}

    @cached_property
    def vocab(self) -> dict[str, int]:
        return self.backend.get_vocab(with_added_tokens=False)

    @cached_property
    def tokens(self) -> dict[int, str]:
        return {i: token for token, i in self.vocab.items()}

    @property
    def added(self) -> dict[str, int]:
        return {token.content: i for i, token in self.backend.get_added_tokens_decoder().items()}

    @property
    def byte_fallback(self) -> bool:
        return bool(getattr(self.backend.model, "byte_fallback", False))

    @property
    def cuts_text(self) -> bool:
        return not all(t.special for t in self.backend.get_added_tokens_decoder().values())

    @cached_property
    def next_id(self) -> int:
        """The smallest id above all, holes included; ValueError for ids that cannot be."""
        ids = self.backend.get_vocab()
        check_ids(ids)
        return 1 + max(ids.values(), default=-1)

    def ids_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text, whole; special tokens are found in it, and none put around it."""
        whole = undisturbed(self.backend)
        found = whole.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def token_counts(self, words) -> np.ndarray:
        """Count how often each id is produced on counted pre-tokens, one after the other."""
        tokenize, counts = self.backend.model.tokenize, np.zeros(self.next_id, np.int64)
        for word, n in zip(words.words, words.counts.tolist(), strict=True):
            for token in tokenize(word):
                counts[token.id] += n
        return counts


def described(tokenizer) -> Encoder:
    """Return what tells of a tokenizer's vocabulary and steps: nothing is taken apart for that.

    Raises TypeError for anything but a tokenizer.

    >>> described(Tokenizer(models.BPE({"a": 0, "b": 1}, []))).vocab
    {'a': 0, 'b': 1}
    """
    return tokenizer if isinstance(tokenizer, Encoder) else Library(backend_of(tokenizer))


def opened(tokenizer) -> Encoder:
    """Return the parts of a BPE tokenizer, which are read once, and of any other a ``Library``.

    BPE that marks the ends or the insides of words in its tokens is such another one. What is opened
    already comes back as it is. Raises TypeError for anything but a tokenizer.

    >>> isinstance(opened(Tokenizer(models.BPE({"a": 0, "b": 1}, []))), Parts)
    True
    """
    found = described(tokenizer)
    if isinstance(found, Parts):
        return found
    model = found.backend.model
    marked = any(getattr(model, mark, None) for mark in MARKS)
    return taken_apart(found.backend) if isinstance(model, models.BPE) and not marked else found
