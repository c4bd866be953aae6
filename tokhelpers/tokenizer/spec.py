"""A BPE or WordPiece tokenizer parsed into vocabulary, merges and settings, and built again.

Whatever changes a tokenizer makes a new specification of it; the old one stays as it is.
"""

import gc
import hashlib
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import itemgetter
from weakref import WeakKeyDictionary

import numpy as np
from tokenizers import AddedToken, Tokenizer, models

from ..common.checks import check_ids, check_word_markers
from .encoder import Encoder
from .merge_rows import merge_ids
from .renumbering import renumbered
from .segmentation import MergeTable, initial_ids, initial_ids_of_pieces, merge_table, segment
from .token_bytes import BYTE_TOKENS

PIPELINE = ("normalizer", "pre_tokenizer")  # what decides a tokenizer's pre-tokens
_NAMED = {}  # packaged tokenizers that were given by name; no function changes its argument
_PARSED = WeakKeyDictionary()  # tokenizer: digest of its JSON, and its specification


def _option(name: str, default=None) -> property:
    """An entry of the model's settings."""
    return property(lambda spec: spec.settings["model"].get(name) or default)


@dataclass(frozen=True, eq=False)
class TokenizerSpec(Encoder):
    """A BPE or WordPiece tokenizer, parsed: every function that takes a tokenizer takes one of these.

    ``vocab`` maps token strings to IDs; ``merges`` is an int32 array with one row per merge, in order
    of rank: the IDs of the left part, the right part and the result (no rows for WordPiece);
    ``settings`` is the rest of ``tokenizer.json``. ``find_special`` says whether special tokens are
    found in text, which ``tokenizer.json`` does not hold.

    Functions that return a tokenizer return a specification if they are given one, at a fraction of
    the time: parse a tokenizer once where it is measured, extended or pruned many times.
    """

    settings: dict
    vocab: dict[str, int]
    merges: np.ndarray
    find_special: bool = True

    @classmethod
    def from_tokenizer(cls, tokenizer, *, wordpiece: bool = False) -> "TokenizerSpec":
        """Parse a BPE tokenizer, or a WordPiece one as well if ``wordpiece`` is set.

        ``tokenizer`` is a ``tokenizers.Tokenizer``, a ``transformers`` tokenizer that wraps one, a name
        or a path as for ``load_tokenizer``, or a specification, which is returned. A tokenizer is
        parsed once, and again after it has changed. Raises TypeError for anything else; ValueError for
        another model, for BPE that marks the ends or the insides of words in its tokens, for merges
        that name tokens outside the vocabulary, for two tokens with one ID, and for IDs far beyond the
        number of tokens.

        >>> from tokenizers import Tokenizer, models
        >>> spec = TokenizerSpec.from_tokenizer(
        ...     Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])))
        >>> spec.merges.tolist(), spec.pairs()
        ([[0, 1, 2]], [('a', 'b')])
        """
        is_encoder = isinstance(tokenizer, Encoder)
        kind = tokenizer.kind if is_encoder else type(backend_of(tokenizer).model).__name__
        if kind not in ("BPE", "WordPiece")[: 1 + wordpiece]:
            raise ValueError(
                f"a BPE{' or WordPiece' * wordpiece} tokenizer is needed, this one's model is {kind}; "
                "Llama-3, Qwen and Mistral are BPE"
            )
        return tokenizer if isinstance(tokenizer, cls) else _parse(backend_of(tokenizer))

    def to_tokenizer(self) -> Tokenizer:
        """Build the library's tokenizer.

        Special and added tokens below the largest ID are written into the vocabulary as well: the
        library would renumber them otherwise. Raises ValueError if a token would get another ID.

        >>> from tokenizers import Tokenizer, models
        >>> old = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
        >>> TokenizerSpec.from_tokenizer(old).to_tokenizer().to_str() == old.to_str()
        True
        """
        options = {k: v for k, v in self.settings["model"].items() if k != "type" and v is not None}
        # vocabulary and merges are passed as objects: writing and parsing them as JSON takes twice as long
        empty = {"type": "BPE", "vocab": {}, "merges": []}
        built = Tokenizer.from_str(
            json.dumps({**self.settings, "added_tokens": [], "model": empty})
        )
        if self.wordpiece:
            built.model = models.WordPiece(self.written_vocab, **options)
        else:
            built.model = models.BPE(self.written_vocab, self.pairs(), **options)
        built.add_tokens(list(self.added_tokens.values()))
        built.encode_special_tokens = not self.find_special
        if moved := [t for t, i in self.added.items() if built.token_to_id(t) != i]:
            token, old, new = moved[0], self.added[moved[0]], built.token_to_id(moved[0])
            raise ValueError(
                f"{len(moved)} added tokens would change their id, first {token!r} ({old} to {new}): ids "
                "must have no holes below them"
            )
        return built

    def to_type_of(self, tokenizer) -> "Tokenizer | TokenizerSpec":
        """Return this specification if ``tokenizer`` is one, else build the tokenizer."""
        return self if isinstance(tokenizer, Encoder) else self.to_tokenizer()

    # --- settings
    kind = _option("type")
    merge_skipping = _option("ignore_merges", False)  # a pre-token in the vocabulary is one token
    byte_fallback = _option("byte_fallback", False)  # characters without a token become byte tokens
    unk_token = _option("unk_token")
    fuses_unknown = _option("fuse_unk", False)  # a run of unknown characters is one unknown token
    prefix = _option("continuing_subword_prefix", "")  # of WordPiece's tokens inside a word
    dropout = _option("dropout")  # the share of merges that are skipped at random

    @property
    def spec(self) -> "TokenizerSpec":
        return self

    @property
    def wordpiece(self) -> bool:
        """Whether the model is WordPiece, which takes the longest match and has no merges."""
        return self.kind == "WordPiece"

    @property
    def pipeline(self) -> dict[str, dict | None]:
        return {step: self.settings[step] for step in PIPELINE}

    @property
    def unk(self) -> int | None:
        """The ID of the unknown token, or None."""
        return self.vocab.get(self.unk_token)

    @cached_property
    def added_tokens(self) -> dict[int, AddedToken]:
        by_id = sorted((t["id"], t) for t in self.settings["added_tokens"])
        return {i: AddedToken(**{k: v for k, v in t.items() if k != "id"}) for i, t in by_id}

    # --- vocabulary and merges
    @cached_property
    def alphabet(self) -> dict[str, int]:
        """The tokens of one character."""
        return {token: i for token, i in self.vocab.items() if len(token) == 1}

    @cached_property
    def unmerged(self) -> set[str]:
        """Tokens that no merge uses or produces: added ones, the unknown token, byte tokens."""
        return ({self.unk_token} - {None}).union(self.added, BYTE_TOKENS)

    @cached_property
    def not_learned(self) -> set[str]:
        """Tokens that training neither produces nor merges.

        These are added tokens outside the vocabulary, which no text brings to the model, and for a
        model of characters also special ones, the unknown token and byte tokens.
        """
        added = self.added.keys() - self.vocab.keys()
        if self.byte_level:
            return added
        return added.union({self.unk_token} - {None}, self.special, BYTE_TOKENS)

    @cached_property
    def written_vocab(self) -> dict[str, int]:
        """The vocabulary in order of IDs, with the added tokens below its largest ID."""
        largest = max(self.vocab.values(), default=-1)
        below = {token: i for token, i in self.added.items() if i < largest}
        if below.keys() <= self.vocab.keys():
            return self.vocab
        return dict(sorted((self.vocab | below).items(), key=itemgetter(1)))

    @cached_property
    def next_id(self) -> int:
        """The smallest ID above all in use, added tokens included."""
        return 1 + max(chain(self.vocab.values(), self.added_tokens), default=-1)

    @cached_property
    def merge_table(self) -> MergeTable:
        """The merges, indexed by pair."""
        return merge_table(self.merges)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the merges as pairs of token strings."""
        names = np.empty(self.next_id, object)
        names[list(self.vocab.values())] = list(self.vocab)
        return list(zip(*names[self.merges[:, :2].T].tolist(), strict=True))

    def segment(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        if not self.merge_skipping:
            return segment(*initial_ids(words, self), self.merge_table)
        pieces = [self.vocab.get(word, word) for word in words]
        return segment(*initial_ids_of_pieces(pieces, self), self.merge_table)

    def not_merged_because(self, pretoken: str) -> str | None:
        return "merge skipping" if self.merge_skipping and pretoken in self.vocab else None

    def are_reached(self, tokens: list[str]) -> np.ndarray:
        """Say which token strings the merges, applied to them alone, turn into that very token."""
        start = initial_ids(tokens, self, dropping=True)
        ids, offsets = segment(*start, self.merge_table)
        single = np.flatnonzero(np.diff(offsets) == 1)
        reached = np.zeros(len(tokens), bool)
        reached[single] = ids[offsets[single]] == [self.vocab.get(tokens[i], -1) for i in single]
        return reached

    def token_lengths(self, tokens: list[str]) -> np.ndarray:
        """Count the tokens into which the merges turn each token string alone."""
        return np.diff(segment(*initial_ids(tokens, self, dropping=True), self.merge_table)[1])

    @cached_property
    def backend_tokenizer(self) -> Tokenizer:
        return self.to_tokenizer()

    # --- copies
    def with_(self, **changes) -> "TokenizerSpec":
        """Copy the specification with other settings, vocabulary or merges."""
        return replace(self, **changes)

    def with_skipping(self, enabled: bool) -> "TokenizerSpec":
        """Copy the specification with merge skipping switched on or off."""
        model = {**self.settings["model"], "ignore_merges": bool(enabled)}
        return self.with_(settings={**self.settings, "model": model})

    def with_tokens(self, tokens: Iterable[str]) -> "TokenizerSpec":
        """Copy the specification with tokens after the largest ID in use, without merges to them."""
        new = {token: i for i, token in enumerate(tokens, self.next_id)}
        return self.with_(vocab=self.vocab | new)

    def with_added(self, tokens: Iterable[str]) -> "TokenizerSpec":
        """Copy the specification with tokens as added tokens, at which the library splits raw text.

        Some tokens only take their IDs, as no text contains them or they cannot be written: those whose
        bytes are not valid UTF-8, and those whose text is the string of another token, as ``ė`` is the
        string of a byte's token. See ``only_take_ids``.
        """
        tokens = list(tokens)
        without_text = set(self.only_take_ids(tokens))
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
        added, others = list(self.settings["added_tokens"]), {}
        for i, token in enumerate(tokens, self.next_id):
            if token in without_text:
                others[token] = i
            else:
                added.append({"id": i, "content": self.text_of(token), **flags})
        return self.with_(
            settings={**self.settings, "added_tokens": added}, vocab=self.vocab | others
        )

    def only_take_ids(self, tokens: list[str]) -> list[str]:
        """List the tokens of which ``with_added`` makes no added tokens.

        >>> spec = TokenizerSpec.from_tokenizer(th.train_byte_level_bpe(["a"], vocab_size=256))
        >>> spec.only_take_ids(["Ä", "ÄĹ", "ba"])  # a byte, ė, and a word
        ['Ä', 'ÄĹ']
        """
        contents, strings = {}, self.all_ids.keys() | set(tokens)
        for token in tokens:
            content = self.text_of(token)
            if content is not None and (content == token or content not in strings):
                contents.setdefault(content, token)
        return [t for t in tokens if contents.get(self.text_of(t)) != t]

    def without(self, pruned: Collection[str]) -> "TokenizerSpec":
        """Copy the specification without some tokens and their merges, and renumber all IDs in it."""
        kept = sorted({i for token, i in self.all_ids.items() if token not in pruned})
        new_id = np.full(self.next_id, -1, np.int32)
        new_id[kept] = np.arange(len(kept))
        vocab = {token: int(new_id[i]) for token, i in self.vocab.items() if token not in pruned}
        merges = new_id[self.merges]
        merges = merges[(merges >= 0).all(axis=1)]
        return self.with_(settings=renumbered(self.settings, new_id), vocab=vocab, merges=merges)


# --- parsing ---------------------------------------------------------------------------------------
def backend_of(tokenizer) -> Tokenizer:
    """Return the ``tokenizers.Tokenizer`` that this is, wraps, names, or whose path it is.

    Raises TypeError for anything else, and for names and paths what ``load_tokenizer`` raises.
    """
    if isinstance(tokenizer, str | os.PathLike):
        return _loaded(tokenizer)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise TypeError(
            f"a tokenizer is needed, got {type(tokenizer).__name__}: "
            "load one with load_tokenizer, or give its name, its path or a tokenizers.Tokenizer"
        )
    return backend


def _loaded(name: str | os.PathLike) -> Tokenizer:
    from .vendors import NAMES, load_tokenizer  # which parses what it loads

    if name not in NAMES:  # a file can change
        return load_tokenizer(name)
    if name not in _NAMED:
        _NAMED[name] = load_tokenizer(name)
    return _NAMED[name]


def _parse(backend: Tokenizer) -> TokenizerSpec:
    """Parse a tokenizer, or return what was parsed of it if it has not changed since."""
    serialised, find_special = backend.to_str(), not backend.encode_special_tokens
    digest = json_digest(serialised)
    known_digest, spec = _PARSED.get(backend, (None, None))
    if digest != known_digest or spec.find_special != find_special:
        check_ids(backend.get_vocab())  # of several tokens with one ID the JSON has only one
        spec = parse_json(serialised, find_special=find_special)
        _PARSED[backend] = digest, spec
    return spec


def json_digest(serialised: str) -> bytes:
    """Compute the 16-byte digest by which a tokenizer's JSON is recognised as unchanged."""
    return hashlib.blake2b(serialised.encode(), digest_size=16).digest()


def remember(backend: Tokenizer, digest: bytes, spec: TokenizerSpec) -> None:
    """Keep the specification of a tokenizer whose JSON has this digest, so that it is not parsed."""
    _PARSED[backend] = digest, spec


def parse_json(
    serialised: str, merges: np.ndarray | None = None, *, find_special: bool = True
) -> TokenizerSpec:
    """Parse the text of a ``tokenizer.json``; ``merges`` are its merges as rows of IDs if it lacks them."""
    collecting = gc.isenabled()
    gc.disable()  # a quarter of a million small lists: the collector would walk them repeatedly
    try:
        settings = json.loads(serialised)
        model = settings["model"]
        vocab, pairs = model.pop("vocab"), model.pop("merges", [])
        check_word_markers(model)
        rows = merge_ids(vocab, pairs) if merges is None else merges
    finally:
        if collecting:
            gc.enable()
    return TokenizerSpec(settings, vocab, rows, find_special)
