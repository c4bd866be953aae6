"""A tokenizer is opened once: taken apart where that is possible, else asked through the library."""

import json
from collections.abc import Callable, Iterable
from functools import cached_property
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from tokenizers import AddedToken, Tokenizer

from .checks import MARKS, check_ids
from .encoder import Encoder
from .spec import STEPS, TokenizerSpec, build_tokenizer, parsed

OPTIONS = (*MARKS, "ignore_merges", "dropout", "unk_token", "fuse_unk", "byte_fallback")  # of BPE


def without_truncation(tokenizer) -> Tokenizer:
    """Return the ``tokenizers.Tokenizer`` inside, or a copy that takes texts whole and leaves no merge out.

    It is a copy where truncation, padding or dropout (merges left out at random) are switched on.
    """
    inner = described(tokenizer).backend_tokenizer
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
        self.backend_tokenizer, self.kind = backend, type(backend.model).__name__
        self.find_special = not backend.encode_special_tokens

    @property
    def marked(self) -> bool:
        """Whether tokens say where in a word they stand."""
        return any(getattr(self.backend_tokenizer.model, mark, None) for mark in MARKS)

    @cached_property
    def steps(self) -> dict[str, dict | None]:
        found = {step: getattr(self.backend_tokenizer, step) for step in STEPS}
        return {k: None if v is None else json.loads(v.__getstate__()) for k, v in found.items()}

    @cached_property
    def vocab(self) -> dict[str, int]:
        return self.backend_tokenizer.get_vocab(with_added_tokens=False)

    @cached_property
    def added_tokens(self) -> dict[int, AddedToken]:
        return self.backend_tokenizer.get_added_tokens_decoder()

    @property
    def byte_fallback(self) -> bool:
        return bool(getattr(self.backend_tokenizer.model, "byte_fallback", False))

    @cached_property
    def next_id(self) -> int:
        """The smallest id above all, holes included; ValueError for ids that cannot be."""
        check_ids(self.all_ids)
        return 1 + max(self.all_ids.values(), default=-1)

    def ids_batch(self, texts: Iterable[str], known=None) -> list[list[int]]:
        if self.marked and self.backend_tokenizer.model.unk_token is None:
            return super().ids_batch(texts, known)  # refuses characters that would be dropped
        encode = without_truncation(self).encode_batch_fast
        return [found.ids for found in encode(list(texts), add_special_tokens=False)]

    def segment(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        tokenize = without_truncation(self).model.tokenize
        found = [tokenize(word) for word in words]
        if self.marked:  # BPE without an unknown token leaves out what it has no token for
            for word, tokens in zip(words, found, strict=True):
                if sum(b - a for a, b in (token.offsets for token in tokens)) < len(word.encode()):
                    raise ValueError(
                        f"this tokenizer has no token for some characters of {word!r:.40} and would drop "
                        "them: leave such text out"
                    )
        ids = np.fromiter((token.id for some in found for token in some), np.int32)
        return ids, np.cumsum([0, *map(len, found)])

    def remember(self, read: Callable[[], TokenizerSpec]) -> None:
        """Remember a function by which it is taken apart when that is asked, as long as it stays as it is."""
        backend = self.backend_tokenizer
        _READ[backend] = _state(backend), backend.model, read

    def taken_apart(self) -> TokenizerSpec:
        """Return its parts, which are remembered until it is changed or no longer used.

        Raises ValueError as ``read_parts`` does.
        """
        backend, state = self.backend_tokenizer, _state(self.backend_tokenizer)
        before, model, read = _READ.get(backend, (None, None, None))
        if before != state or not _is_model_of(model, backend):
            read = self._read
        spec = read()
        _READ[backend] = state, backend.model, spec.taken_apart
        return spec

    def _read(self) -> TokenizerSpec:
        # first: the library writes one of several tokens with one id, and remembers holes
        check_ids(self.backend_tokenizer.get_vocab())
        return parsed(self.backend_tokenizer.to_str(), find_special=self.find_special)


# --- opening -------------------------------------------------------------------------------------
def described(tokenizer) -> Encoder:
    """Return what tells of a tokenizer's vocabulary and steps: nothing is taken apart for that.

    Takes what ``read_parts`` does. Raises TypeError for anything else.
    """
    if isinstance(tokenizer, Encoder):
        return tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise TypeError(
            f"a tokenizer is needed, got {type(tokenizer).__name__}: "
            "load one with load_tokenizer, or give a tokenizers.Tokenizer"
        )
    return Library(backend)


def opened(tokenizer) -> Encoder:
    """Return the parts of a BPE tokenizer, which are read once, and of any other a ``Library``.

    BPE that marks the ends or the insides of words in its tokens is such another one.
    """
    found = described(tokenizer)
    return found.taken_apart() if found.kind == "BPE" and not found.marked else found


def read_parts(tokenizer: Tokenizer | TokenizerSpec, *, wordpiece: bool = False) -> TokenizerSpec:
    """Take a BPE tokenizer apart, or with ``wordpiece`` a WordPiece one.

    Takes a ``tokenizers.Tokenizer``, a ``transformers`` tokenizer that wraps one, or parts already
    read, which it returns. A tokenizer is read once, and again after it was changed. Raises TypeError
    for anything else, ValueError for another model, for BPE that marks the ends or the insides of words
    in its tokens, for merges that name tokens outside the vocabulary, for two tokens with one id, and
    for ids far beyond the number of tokens.

    >>> from tokenizers import Tokenizer, models
    >>> spec = read_parts(Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])))
    >>> spec.merges.tolist(), spec.pairs()
    ([[0, 1, 2]], [('a', 'b')])
    """
    found = described(tokenizer)
    if (kind := found.kind) not in ("BPE", "WordPiece")[: 1 + wordpiece]:
        raise ValueError(
            f"a BPE{' or WordPiece' * wordpiece} tokenizer is needed, this one's model is {kind}; "
            "Llama-3, Qwen and Mistral are BPE"
        )
    return found.taken_apart()


def as_given(tokenizer, made: TokenizerSpec) -> Tokenizer | TokenizerSpec:
    """Return what was made of a tokenizer put together, or as parts where parts were given."""
    return made if isinstance(tokenizer, Encoder) else put_together(made)


def put_together(spec: TokenizerSpec) -> Tokenizer:
    """Put a tokenizer together from its parts, which need not be read from it then."""
    built = build_tokenizer(spec)
    Library(built).remember(lambda: spec.with_(vocab=spec.written_vocab))
    return built


def with_merge_skipping(tokenizer: Tokenizer, enabled: bool) -> Tokenizer:
    """Copy a tokenizer, or its parts, with merge skipping switched on or off.

    With merge skipping a pre-token that stands in the vocabulary becomes that token at once,
    whether merges lead to it or not (the library's ``ignore_merges``). Paper, Appendix E.

    >>> from tokenizers import Tokenizer, models
    >>> plain = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, []))
    >>> with_merge_skipping(plain, True).encode("ab").tokens, plain.encode("ab").tokens
    (['ab'], ['a', 'b'])
    """
    return as_given(tokenizer, read_parts(tokenizer).with_skipping(enabled))


# --- what is asked of any tokenizer ---------------------------------------------------------------
def pretokenizer_config_of(tokenizer: Tokenizer | Encoder) -> str:
    """Return what decides a tokenizer's pre-tokens: its normalizer and pre-tokenizer, as JSON.

    By the rules of a tokenizer without pre-tokenizer, text is cut before the space symbol. Raises
    ValueError when that would cut through tokens of the vocabulary.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> tokenizer = Tokenizer(models.BPE())
    >>> tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> pretokenizer_config_of(tokenizer)
    '{"normalizer": null, "pre_tokenizer": {"type": "Whitespace"}}'
    """
    return described(tokenizer).rules


def count_tokens(tokenizer: Tokenizer | Encoder, words) -> np.ndarray:
    """Count how often each id is produced on counted pre-tokens: an int64 array indexed by id.

    ``words`` are ``Pretokens``, counted by the tokenizer's rules. The model is BPE, WordPiece or
    Unigram; merge skipping is as the tokenizer has it. Added tokens are not searched for in the
    text. Raises TypeError for anything but ``Pretokens``, ValueError for characters that a BPE
    tokenizer would drop, as it has no token for them.

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
    return opened(tokenizer).count_tokens(words)


# --- a tokenizer is read once -----------------------------------------------------------------------
_READ = WeakKeyDictionary()  # what was found in a tokenizer, as long as that exists
_LOCK = Lock()


def _state(backend: Tokenizer) -> tuple:
    """All that can be changed in a tokenizer, of its vocabulary a sample: a fraction of a millisecond.

    The sample tells whether the model was trained anew, in its place.
    """
    steps = (backend.normalizer, backend.pre_tokenizer, backend.post_processor, backend.decoder)
    added = [(i, repr(token)) for i, token in backend.get_added_tokens_decoder().items()]
    size = backend.get_vocab_size(with_added_tokens=False)
    sample = [*range(0, size, 1 + size // 256), *range(max(0, size - 64), size)]
    model = backend.model
    return (
        [None if step is None else step.__getstate__() for step in steps],  # an empty one is false
        (backend.truncation, backend.padding, added, size, backend.encode_special_tokens),
        repr(model.__class__),
        [getattr(model, option, None) for option in OPTIONS],
        [backend.id_to_token(i) for i in sample],
    )


def _is_model_of(model, backend: Tokenizer) -> bool:
    """Whether this is the very model of a tokenizer: each time the library gives another object for it.

    But what is changed in one such object is changed in all. So the dropout is switched from none to
    0, which is the same, or for a moment to the nearest smaller number. Only BPE has one.
    """
    if not hasattr(model, "dropout"):
        return False
    with _LOCK:
        old = model.dropout
        try:
            model.dropout = float(np.nextafter(np.float32(old), np.float32(0))) if old else 0.0
            if old == 0.0:
                model.dropout = None
            return model.dropout == backend.model.dropout != old
        finally:
            model.dropout = old
