"""Take a tokenizer apart into vocabulary, merges and settings, and put one together again.

Whatever changes a tokenizer reads its parts, computes new ones and builds; the old stays as it is.
"""

import gc
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from tokenizers import AddedToken, Tokenizer, models

from .checks import MARKS, check_ids, check_marks

OPTIONS = (*MARKS, "ignore_merges", "dropout", "unk_token", "fuse_unk", "byte_fallback")  # of BPE
STEPS = ("normalizer", "pre_tokenizer")  # what decides a tokenizer's pre-tokens
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]  # SentencePiece's, for byte fallback


class Encoder:
    """What functions work on: ``Parts``, or a ``Library`` for what is not taken apart.

    Each has ``steps`` (normalizer and pre-tokenizer, as ``tokenizer.json`` holds them), ``vocab``,
    ``tokens``, ``added`` (ids of added tokens), ``next_id``, ``byte_fallback``, and ``cuts_text``
    (whether added tokens that are not special cut raw text).
    """

    @cached_property
    def byte_level(self) -> bool:
        """Whether a token string has one character of the byte alphabet per byte."""
        return "ByteLevel" in repr(self.steps)


@dataclass(frozen=True, eq=False)
class Parts(Encoder):
    """A BPE or WordPiece tokenizer taken apart.

    ``vocab`` maps a token string to its id; ``merges`` is an int32 array with one row per merge, in
    order of priority: id of the left part, of the right part, of the result (no rows in WordPiece);
    ``settings`` is everything else that ``tokenizer.json`` holds.
    """

    settings: dict
    vocab: dict[str, int]
    merges: np.ndarray

    @cached_property
    def tokens(self) -> dict[int, str]:
        """The token string of each id."""
        return {i: token for token, i in self.vocab.items()}

    @cached_property
    def alphabet(self) -> dict[str, int]:
        """The tokens of one character."""
        return {token: i for token, i in self.vocab.items() if len(token) == 1}

    @property
    def merge_skipping(self) -> bool:
        """Whether a pre-token that is in the vocabulary is taken whole, without merging."""
        return bool(self.settings["model"].get("ignore_merges"))

    @property
    def wordpiece(self) -> bool:
        """Whether the model is WordPiece, which takes the longest match and has no merges."""
        return self.settings["model"]["type"] == "WordPiece"

    @property
    def steps(self) -> dict[str, dict | None]:
        return {step: self.settings[step] for step in STEPS}

    @property
    def byte_fallback(self) -> bool:
        """Whether characters that the vocabulary lacks become byte tokens."""
        return bool(self.settings["model"].get("byte_fallback"))

    @property
    def prefix(self) -> str:
        """What WordPiece writes before a token inside a word; empty in BPE."""
        return self.settings["model"].get("continuing_subword_prefix") or ""

    @property
    def cuts_text(self) -> bool:
        return len(self.special) < len(self.settings["added_tokens"])

    @cached_property
    def special(self) -> set[str]:
        """Contents of the special tokens."""
        return {t["content"] for t in self.settings["added_tokens"] if t["special"]}

    @cached_property
    def added(self) -> dict[str, int]:
        """The added tokens, special ones among them, and their ids."""
        return {token["content"]: token["id"] for token in self.settings["added_tokens"]}

    @cached_property
    def apart(self) -> set[str]:
        """Tokens that no merge uses or builds: added ones, the unknown token, bytes."""
        unknown = {self.settings["model"].get("unk_token")} - {None}
        return unknown.union(self.added, BYTE_TOKENS)

    @cached_property
    def next_id(self) -> int:
        """The smallest id above all that are in use, added tokens included."""
        return 1 + max(chain(self.vocab.values(), self.added.values()), default=-1)

    def pairs(self) -> list[tuple[str, str]]:
        """The merges as pairs of tokens."""
        left, right = (map(self.tokens.__getitem__, self.merges[:, i].tolist()) for i in (0, 1))
        return list(zip(left, right, strict=True))


def read_parts(tokenizer: Tokenizer | Parts, *, wordpiece: bool = False) -> Parts:
    """Take a BPE tokenizer apart, or with ``wordpiece`` a WordPiece one.

    Takes a ``tokenizers.Tokenizer``, a ``transformers`` tokenizer that wraps one, or parts already
    read, which it returns. A tokenizer is read once, and again after it was changed. Raises TypeError
    for anything else, ValueError for another model, for BPE that marks the ends or the insides of words
    in its tokens, for merges that name tokens outside the vocabulary, for two tokens with one id, and
    for ids far beyond the number of tokens.

    >>> from tokenizers import Tokenizer, models
    >>> parts = read_parts(Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])))
    >>> parts.merges.tolist(), parts.pairs()
    ([[0, 1, 2]], [('a', 'b')])
    """
    parts = tokenizer if isinstance(tokenizer, Parts) else taken_apart(backend_of(tokenizer))
    kind = parts.settings["model"]["type"]
    if kind != "BPE" and not (wordpiece and parts.wordpiece):
        raise ValueError(
            f"a BPE{' or WordPiece' * wordpiece} tokenizer is needed, this one's model is {kind}; "
            "Llama-3, Qwen and Mistral are BPE"
        )
    return parts


# --- a tokenizer is read once -----------------------------------------------------------------------
_READ = WeakKeyDictionary()  # what was found in a tokenizer, as long as that exists
_LOCK = Lock()


def taken_apart(backend: Tokenizer, serialised: str | None = None) -> Parts:
    """Return the parts of a tokenizer, which are remembered until it is changed or no longer used.

    ``serialised`` is its ``tokenizer.json``, where that is known already. Raises ValueError as
    ``read_parts`` does.
    """
    state = _state(backend)
    before, model, parts = _READ.get(backend, (None, None, None))
    if before != state or not _is_model_of(model, backend):
        # first: the library writes one of several tokens with one id, and remembers each hole below an id
        check_ids(backend.get_vocab())
        parts = _parsed(serialised or backend.to_str())
        _READ[backend] = state, backend.model, parts
    return parts


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
        [step and step.__getstate__() for step in steps],
        (backend.truncation, backend.padding, added, size, type(model)),
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


def _parsed(serialised: str) -> Parts:
    """Take a tokenizer apart that is given as the text of its ``tokenizer.json``."""
    collecting = gc.isenabled()
    gc.disable()  # a quarter of a million small lists: the collector would walk them repeatedly
    try:
        settings = json.loads(serialised)
        model = settings["model"]
        vocab, merges = model.pop("vocab"), model.pop("merges", [])
        check_marks(model)
        table = merge_ids(vocab, merges)
    finally:
        if collecting:
            gc.enable()
    return Parts(settings, vocab, table)


def backend_of(tokenizer) -> Tokenizer:
    """Return the ``tokenizers.Tokenizer`` that this is or, in ``transformers``, wraps.

    Raises TypeError for anything else.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise TypeError(
            f"a tokenizer is needed, got {type(tokenizer).__name__}: "
            "load one with load_tokenizer, or give a tokenizers.Tokenizer"
        )
    return backend


def merge_ids(vocab: dict[str, int], merges: Sequence) -> np.ndarray:
    """Write merges, given as pairs of tokens, as rows of three ids: left, right, result.

    Raises ValueError, naming the first few, when a part or a result is not in the vocabulary.

    >>> merge_ids({"a": 0, "b": 1, "ab": 2}, [("a", "b")]).tolist()
    [[0, 1, 2]]
    """
    try:
        id_of = vocab.__getitem__
        parts = np.fromiter(map(id_of, chain.from_iterable(merges)), np.int32, 2 * len(merges))
        results = np.fromiter(map(id_of, map("".join, merges)), np.int32, len(merges))
    except KeyError:
        wrong = [(a, b) for a, b in merges if not {a, b, a + b} <= vocab.keys()]
        shown = ", ".join(f"{a!r} + {b!r}" for a, b in wrong[:3])
        raise ValueError(
            f"{len(wrong):,} merges name tokens that the vocabulary lacks, first {shown}: "
            "drop them or add their tokens"
        ) from None
    return np.column_stack([parts.reshape(-1, 2), results])


def build_tokenizer(parts: Parts) -> Tokenizer:
    """Put a tokenizer together from its parts.

    Special and added tokens that lie below the largest id are written into the vocabulary as
    well: the library would number them anew otherwise. Raises ValueError when a token would get
    another id than it has in ``parts``.

    >>> from tokenizers import Tokenizer, models
    >>> old = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    >>> build_tokenizer(read_parts(old)).to_str() == old.to_str()
    True
    """
    settings = parts.settings
    top = max(parts.vocab.values(), default=-1)
    vocab = parts.vocab | {content: i for content, i in parts.added.items() if i < top}
    options = {k: v for k, v in settings["model"].items() if k != "type" and v is not None}
    # vocabulary and merges go in as objects: written as JSON and read again they take twice as long
    empty = {"type": "BPE", "vocab": {}, "merges": []}
    made = Tokenizer.from_str(json.dumps({**settings, "added_tokens": [], "model": empty}))
    if parts.wordpiece:
        made.model = models.WordPiece(vocab, **options)
    else:
        made.model = models.BPE(vocab, parts.pairs(), **options)
    in_order = sorted(settings["added_tokens"], key=itemgetter("id"))
    made.add_tokens([AddedToken(**{k: v for k, v in t.items() if k != "id"}) for t in in_order])
    if moved := [t for t, i in parts.added.items() if made.token_to_id(t) != i]:
        raise ValueError(
            f"{len(moved)} added tokens would change their id, first {moved[0]!r} ({parts.added[moved[0]]} "
            f"to {made.token_to_id(moved[0])}): ids must have no holes below them"
        )
    return made


def with_merge_skipping(tokenizer: Tokenizer, enabled: bool) -> Tokenizer:
    """Copy a tokenizer with merge skipping switched on or off.

    With merge skipping a pre-token that stands in the vocabulary becomes that token at once,
    whether merges lead to it or not (the library's ``ignore_merges``). Paper, Appendix E.

    >>> from tokenizers import Tokenizer, models
    >>> plain = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, []))
    >>> with_merge_skipping(plain, True).encode("ab").tokens, plain.encode("ab").tokens
    (['ab'], ['a', 'b'])
    """
    return build_tokenizer(parts_with_skipping(read_parts(tokenizer), enabled))


merge_skipping = with_merge_skipping  # another name for it


def parts_with_skipping(parts: Parts, enabled: bool) -> Parts:
    """Copy parts with merge skipping switched on or off, as ``with_merge_skipping`` does."""
    model = {**parts.settings["model"], "ignore_merges": bool(enabled)}
    switched = Parts({**parts.settings, "model": model}, parts.vocab, parts.merges)
    return _knowing(switched, parts, "alphabet", "tokens", "next_id", "merge_table")


def parts_with_tokens(parts: Parts, tokens: Iterable[str]) -> Parts:
    """Copy parts with tokens after the largest id in use, and no merges to them."""
    ids = {token: i for i, token in enumerate(tokens, parts.next_id)}
    wider = Parts(parts.settings, parts.vocab | ids, parts.merges)
    characters = {token: i for token, i in ids.items() if len(token) == 1}
    known = {"alphabet": parts.alphabet | characters, "next_id": parts.next_id + len(ids)}
    vars(wider).update(known, tokens=parts.tokens | {i: token for token, i in ids.items()})
    return _knowing(wider, parts, "merge_table")


def parts_with_merges(parts: Parts, merges: np.ndarray) -> Parts:
    """Copy parts with other merges, given as rows of ids."""
    changed = Parts(parts.settings, parts.vocab, merges)
    return _knowing(changed, parts, "alphabet", "tokens", "next_id")


def _knowing(made: Parts, old: Parts, *names: str) -> Parts:
    """New parts that need not find out again what was found out about the old and holds for them."""
    vars(made).update({name: of for name, of in vars(old).items() if name in names})
    return made


def all_splits(parts, vocab, tokens) -> np.ndarray:
    """List all splits of each of ``tokens`` into two ordinary tokens of ``vocab``, as merges' rows.

    They come in order of ``tokens``, and of one token those with the longer left part first.
    """
    find = vocab.get
    found = (
        (left, right, vocab[token])
        for token in tokens
        for i in range(len(token) - 1, 0, -1)
        if (left := find(token[:i])) is not None and (right := find(token[i:])) is not None
    )
    rows = np.fromiter(chain.from_iterable(found), np.int32).reshape(-1, 3)
    special = [vocab[content] for content in parts.special if content in vocab]
    return rows[~np.isin(rows[:, :2], special).any(1)]
