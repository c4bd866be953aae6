"""Tokenizers that are not parsed but asked through the library, and what is asked of any tokenizer."""

import json
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from tokenizers import AddedToken, Tokenizer

from ..common.checks import WORD_MARKERS, check_ids
from .encoder import Encoder
from .spec import PIPELINE, TokenizerSpec, backend_of


class LibraryEncoder(Encoder):
    """Any tokenizer, asked through the library: WordPiece, Unigram, BPE with word markers."""

    def __init__(self, backend: Tokenizer):
        self.backend_tokenizer, self.kind = backend, type(backend.model).__name__
        self.find_special = not backend.encode_special_tokens

    @property
    def has_word_markers(self) -> bool:
        model = self.backend_tokenizer.model
        return any(getattr(model, marker, None) for marker in WORD_MARKERS)

    @cached_property
    def pipeline(self) -> dict[str, dict | None]:
        steps = {step: getattr(self.backend_tokenizer, step) for step in PIPELINE}
        return {k: None if v is None else json.loads(v.__getstate__()) for k, v in steps.items()}

    @cached_property
    def vocab(self) -> dict[str, int]:
        return self.backend_tokenizer.get_vocab(with_added_tokens=False)

    @cached_property
    def added_tokens(self) -> dict[int, AddedToken]:
        return self.backend_tokenizer.get_added_tokens_decoder()

    @cached_property
    def byte_fallback(self) -> bool:
        model = self.backend_tokenizer.model
        if self.kind == "Unigram":  # which has it in its JSON only
            return bool(json.loads(model.__getstate__())["byte_fallback"])
        return bool(getattr(model, "byte_fallback", False))

    @cached_property
    def next_id(self) -> int:
        """The smallest ID above all in use; ValueError for impossible IDs."""
        check_ids(self.all_ids)
        return 1 + max(self.all_ids.values(), default=-1)

    @property
    def fuses_unknown(self) -> bool:
        return bool(getattr(self.backend_tokenizer.model, "fuse_unk", False))

    def ids_batch(self, texts: Iterable[str], cache=None) -> list[list[int]]:
        if self.has_word_markers and self.backend_tokenizer.model.unk_token is None:
            return super().ids_batch(texts, cache)  # refuses characters that would be dropped
        encode = without_truncation(self).encode_batch_fast
        return [encoding.ids for encoding in encode(list(texts), add_special_tokens=False)]

    def segment(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        tokenize = without_truncation(self).model.tokenize
        tokens_of_words = [tokenize(word) for word in words]
        if self.has_word_markers:  # BPE without an unknown token drops what it has no token for
            for word, tokens in zip(words, tokens_of_words, strict=True):
                if sum(b - a for a, b in (token.offsets for token in tokens)) < len(word.encode()):
                    raise ValueError(
                        f"this tokenizer has no token for some characters of {word!r:.40} and would drop "
                        "them: remove such text"
                    )
        ids = np.fromiter((token.id for tokens in tokens_of_words for token in tokens), np.int32)
        return ids, np.cumsum([0, *map(len, tokens_of_words)])


def as_encoder(tokenizer) -> Encoder:
    """Wrap a tokenizer without parsing it: for its vocabulary, its pre-tokenization, its backend.

    Takes what ``TokenizerSpec.from_tokenizer`` takes, of any model; TypeError for anything else.
    """
    if isinstance(tokenizer, TokenizerSpec) and tokenizer.wordpiece:  # which has no merges to apply
        return LibraryEncoder(tokenizer.backend_tokenizer)
    return tokenizer if isinstance(tokenizer, Encoder) else LibraryEncoder(backend_of(tokenizer))


def open_tokenizer(tokenizer) -> Encoder:
    """Parse a BPE tokenizer, and wrap any other, among them BPE that marks words in its tokens."""
    encoder = as_encoder(tokenizer)
    if encoder.kind == "BPE" and not encoder.has_word_markers:
        return TokenizerSpec.from_tokenizer(encoder)
    return encoder


def without_truncation(tokenizer) -> Tokenizer:
    """Return the library's tokenizer, or a copy of it without truncation, padding and dropout."""
    inner = as_encoder(tokenizer).backend_tokenizer
    dropout = getattr(inner.model, "dropout", None)
    if inner.truncation is None and inner.padding is None and not dropout:
        return inner
    copy = Tokenizer.from_str(inner.to_str())
    copy.encode_special_tokens = inner.encode_special_tokens  # the one setting that is not written
    copy.no_truncation()
    copy.no_padding()
    if dropout:
        copy.model.dropout = None
    return copy


def with_merge_skipping(tokenizer: Tokenizer, enabled: bool) -> Tokenizer:
    """Copy a tokenizer with merge skipping switched on or off.

    With merge skipping (the library's ``ignore_merges``), a pre-token in the vocabulary becomes that
    token at once, whether merges lead to it or not. Source: Purason et al. 2025, Appendix E.

    >>> from tokenizers import Tokenizer, models
    >>> plain = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, []))
    >>> with_merge_skipping(plain, True).encode("ab").tokens, plain.encode("ab").tokens
    (['ab'], ['a', 'b'])
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    return spec.with_skipping(enabled).to_type_of(tokenizer)


def pretokenizer_config_of(tokenizer: Tokenizer | Encoder) -> str:
    """Return the normalizer and pre-tokenizer of a tokenizer as JSON, and its ordinary added tokens.

    The library splits raw text at these. Text of a tokenizer without pre-tokenizer (SentencePiece
    style) is split before the space symbol. Raises ValueError if tokens of the vocabulary cross such
    a split.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> tokenizer = Tokenizer(models.BPE())
    >>> tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> pretokenizer_config_of(tokenizer)
    '{"normalizer": null, "pre_tokenizer": {"type": "Whitespace"}}'
    """
    return as_encoder(tokenizer).pretokenizer_config


def count_tokens(tokenizer: Tokenizer | Encoder, words) -> np.ndarray:
    """Count how often each ID is produced on counted pre-tokens: an int64 array indexed by ID.

    ``words`` are ``Pretokens`` counted with this tokenizer's pre-tokenizer. The model is BPE, WordPiece
    or Unigram; merge skipping is as the tokenizer has it. Added tokens are not searched for in the text.
    Raises TypeError for anything but ``Pretokens``, and ValueError for characters that a BPE tokenizer
    would drop because it has no token for them.

    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> counts = count_tokens(tokenizer, th.count_pretokens(["bat"], tokenizer))
    >>> int(counts[tokenizer.token_to_id("ba")]), int(counts.sum())
    (1, 2)
    """
    if not hasattr(words, "counts"):
        raise TypeError(
            f"counted pre-tokens are needed, got {type(words).__name__}: count a text with "
            "count_pretokens(corpus, tokenizer)"
        )
    return open_tokenizer(tokenizer).count_tokens(words)
