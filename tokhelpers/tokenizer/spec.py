"""A BPE tokenizer taken apart into vocabulary, merges and settings, and put together again.

Whatever changes a tokenizer computes new parts of its parts; the old stay as they are.
"""

import gc
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import itemgetter

import numpy as np
from tokenizers import AddedToken, Tokenizer, models

from .checks import check_marks
from .encoder import Encoder
from .segmentation import MergeTable, initial_ids, initial_ids_of_pieces, merge_table, segment
from .token_bytes import BYTE_TOKENS

STEPS = ("normalizer", "pre_tokenizer")  # what decides a tokenizer's pre-tokens


def _option(name: str, otherwise=None) -> property:
    """What the settings of the model say under this name."""
    return property(lambda spec: spec.settings["model"].get(name) or otherwise)


@dataclass(frozen=True, eq=False)
class TokenizerSpec(Encoder):
    """A BPE or WordPiece tokenizer taken apart.

    ``vocab`` maps a token string to its id; ``merges`` is an int32 array with one row per merge, in
    order of priority: id of the left part, of the right part, of the result (no rows in WordPiece);
    ``settings`` is everything else that ``tokenizer.json`` holds. ``find_special`` says whether
    special tokens are found in text, which it does not hold.
    """

    settings: dict
    vocab: dict[str, int]
    merges: np.ndarray
    find_special: bool = True

    @classmethod
    def from_tokenizer(cls, tokenizer, *, wordpiece: bool = False) -> "TokenizerSpec":
        """Parse a tokenizer; see ``TokenizerSpec.from_tokenizer``."""
        from .library import read_parts

        return read_parts(tokenizer, wordpiece=wordpiece)

    # --- what the settings say
    kind = _option("type")
    merge_skipping = _option("ignore_merges", False)  # a token of the vocabulary is taken whole
    byte_fallback = _option("byte_fallback", False)  # characters without a token become byte tokens
    unk_token = _option("unk_token")
    fuse_unk = _option("fuse_unk", False)  # a run of unknown characters is one unknown token
    prefix = _option("continuing_subword_prefix", "")  # of WordPiece's tokens inside a word
    dropout = _option("dropout")  # the share of merges that are left out at random

    @property
    def spec(self) -> "TokenizerSpec":
        return self

    @property
    def wordpiece(self) -> bool:
        """Whether the model is WordPiece, which takes the longest match and has no merges."""
        return self.kind == "WordPiece"

    @property
    def steps(self) -> dict[str, dict | None]:
        return {step: self.settings[step] for step in STEPS}

    @property
    def unk(self) -> int | None:
        """The id of the unknown token, if there is one."""
        return self.vocab.get(self.unk_token)

    @cached_property
    def added_tokens(self) -> dict[int, AddedToken]:
        by_id = sorted((t["id"], t) for t in self.settings["added_tokens"])
        return {i: AddedToken(**{k: v for k, v in t.items() if k != "id"}) for i, t in by_id}

    # --- what vocabulary and merges make of text
    @cached_property
    def alphabet(self) -> dict[str, int]:
        """The tokens of one character."""
        return {token: i for token, i in self.vocab.items() if len(token) == 1}

    @cached_property
    def unmerged(self) -> set[str]:
        """Tokens that no merge uses or builds: added ones, the unknown token, bytes."""
        return ({self.unk_token} - {None}).union(self.added, BYTE_TOKENS)

    @cached_property
    def written_vocab(self) -> dict[str, int]:
        """The vocabulary, in order of ids, with the added tokens that lie below its largest id."""
        top = max(self.vocab.values(), default=-1)
        below = {token: i for token, i in self.added.items() if i < top}
        if below.keys() <= self.vocab.keys():
            return self.vocab
        return dict(sorted((self.vocab | below).items(), key=itemgetter(1)))

    @cached_property
    def next_id(self) -> int:
        """The smallest id above all that are in use, added tokens included."""
        return 1 + max(chain(self.vocab.values(), self.added_tokens), default=-1)

    @cached_property
    def merge_table(self) -> MergeTable:
        """The merges, indexed by their pair."""
        return merge_table(self.merges)

    def pairs(self) -> list[tuple[str, str]]:
        """The merges as pairs of tokens."""
        names = np.empty(self.next_id, object)
        names[list(self.vocab.values())] = list(self.vocab)
        return list(zip(*names[self.merges[:, :2].T].tolist(), strict=True))

    def segment(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        if not self.merge_skipping:
            return segment(*initial_ids(words, self), self.merge_table)
        known = self.vocab
        return segment(
            *initial_ids_of_pieces([known.get(w, w) for w in words], self), self.merge_table
        )

    def not_by_steps(self, pretoken: str) -> str | None:
        return "merge skipping" if self.merge_skipping and pretoken in self.vocab else None

    def whole(self, tokens: list[str]) -> np.ndarray:
        """Whether merges make each of these token strings one token."""
        return self.sizes_of(tokens) == 1

    def sizes_of(self, tokens: list[str]) -> np.ndarray:
        """How many tokens merges make of each token string alone."""
        return np.diff(segment(*initial_ids(tokens, self, dropping=True), self.merge_table)[1])

    @cached_property
    def backend_tokenizer(self) -> Tokenizer:
        return build_tokenizer(self)

    # --- copies
    def with_(self, **changes) -> "TokenizerSpec":
        """Copy parts with other settings, vocabulary or merges."""
        return replace(self, **changes)

    def with_skipping(self, enabled: bool) -> "TokenizerSpec":
        """Copy parts with merge skipping switched on or off."""
        model = {**self.settings["model"], "ignore_merges": bool(enabled)}
        return self.with_(settings={**self.settings, "model": model})

    def with_tokens(self, tokens: Iterable[str]) -> "TokenizerSpec":
        """Copy parts with tokens after the largest id in use, and no merges to them."""
        new = {token: i for i, token in enumerate(tokens, self.next_id)}
        return self.with_(vocab=self.vocab | new)

    def with_added(self, tokens: Iterable[str]) -> "TokenizerSpec":
        """Copy parts with tokens as the library's added tokens, which cut raw text.

        One whose bytes are no whole characters cannot stand in a text, and only takes its id.
        """
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
        added, held = list(self.settings["added_tokens"]), {}
        for i, token in enumerate(tokens, self.next_id):
            if (content := self.text_of(token)) is None:
                held[token] = i
            else:
                added.append({"id": i, "content": content, **flags})
        return self.with_(
            settings={**self.settings, "added_tokens": added}, vocab=self.vocab | held
        )

    def without(self, gone: Collection[str]) -> "TokenizerSpec":
        """Copy parts without some tokens and their merges; ids have no holes, wherever they stand."""
        kept = sorted({i for token, i in self.all_ids.items() if token not in gone})
        new_id = np.full(self.next_id, -1, np.int32)
        new_id[kept] = np.arange(len(kept))
        vocab = {token: int(new_id[i]) for token, i in self.vocab.items() if token not in gone}
        merges = new_id[self.merges]
        merges = merges[(merges >= 0).all(axis=1)]
        return self.with_(settings=_renumbered(self.settings, new_id), vocab=vocab, merges=merges)


def _renumbered(settings: dict, new_id: np.ndarray) -> dict:
    """Settings with ids written anew wherever they stand."""
    added = [{**token, "id": int(new_id[token["id"]])} for token in settings["added_tokens"]]
    padding = settings["padding"]
    if padding is not None:
        padding = {**padding, "pad_id": int(new_id[padding["pad_id"]])}
    post = _post_processor(settings["post_processor"], new_id)
    return {**settings, "added_tokens": added, "padding": padding, "post_processor": post}


def _post_processor(rule: dict | None, new_id: np.ndarray) -> dict | None:
    if rule is None:
        return None
    match rule["type"]:
        case "Sequence":
            return {**rule, "processors": [_post_processor(r, new_id) for r in rule["processors"]]}
        case "TemplateProcessing":
            special = {
                name: {**token, "ids": [int(new_id[i]) for i in token["ids"]]}
                for name, token in rule["special_tokens"].items()
            }
            return {**rule, "special_tokens": special}
        case "BertProcessing" | "RobertaProcessing":
            ends = {end: [rule[end][0], int(new_id[rule[end][1]])] for end in ("sep", "cls")}
            return {**rule, **ends}
    return rule


def parsed(
    serialised: str, merges: np.ndarray | None = None, *, find_special: bool = True
) -> TokenizerSpec:
    """Take a tokenizer apart that is given as the text of its ``tokenizer.json``.

    ``merges``: its merges as rows of ids, where they are not in the text.
    """
    collecting = gc.isenabled()
    gc.disable()  # a quarter of a million small lists: the collector would walk them repeatedly
    try:
        settings = json.loads(serialised)
        model = settings["model"]
        vocab, pairs = model.pop("vocab"), model.pop("merges", [])
        check_marks(model)
        table = merge_ids(vocab, pairs) if merges is None else merges
    finally:
        if collecting:
            gc.enable()
    return TokenizerSpec(settings, vocab, table, find_special)


def merge_ids(vocab: dict[str, int], merges: Sequence) -> np.ndarray:
    """Write merges, given as pairs of tokens, as rows of three ids: left, right, result.

    Raises ValueError, naming the first few, when a part or a result is not in the vocabulary.

    >>> merge_ids({"a": 0, "b": 1, "ab": 2}, [("a", "b")]).tolist()
    [[0, 1, 2]]
    """
    try:
        id_of = vocab.__getitem__
        spec = np.fromiter(map(id_of, chain.from_iterable(merges)), np.int32, 2 * len(merges))
        results = np.fromiter(map(id_of, map("".join, merges)), np.int32, len(merges))
    except KeyError:
        wrong = [(a, b) for a, b in merges if not {a, b, a + b} <= vocab.keys()]
        shown = ", ".join(f"{a!r} + {b!r}" for a, b in wrong[:3])
        raise ValueError(
            f"{len(wrong):,} merges name tokens that the vocabulary lacks, first {shown}: "
            "drop them or add their tokens"
        ) from None
    return np.column_stack([spec.reshape(-1, 2), results])


def build_tokenizer(spec: TokenizerSpec) -> Tokenizer:
    """Put a tokenizer together from its parts.

    Special and added tokens that lie below the largest id are written into the vocabulary as
    well: the library would number them anew otherwise. Raises ValueError when a token would get
    another id than it has in ``spec``.

    >>> from tokenizers import Tokenizer, models
    >>> old = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    >>> build_tokenizer(th.TokenizerSpec.from_tokenizer(old)).to_str() == old.to_str()
    True
    """
    settings, vocab = spec.settings, spec.written_vocab
    options = {k: v for k, v in settings["model"].items() if k != "type" and v is not None}
    # vocabulary and merges go in as objects: written as JSON and read again they take twice as long
    empty = {"type": "BPE", "vocab": {}, "merges": []}
    made = Tokenizer.from_str(json.dumps({**settings, "added_tokens": [], "model": empty}))
    if spec.wordpiece:
        made.model = models.WordPiece(vocab, **options)
    else:
        made.model = models.BPE(vocab, spec.pairs(), **options)
    made.add_tokens(list(spec.added_tokens.values()))
    made.encode_special_tokens = not spec.find_special
    if moved := [t for t, i in spec.added.items() if made.token_to_id(t) != i]:
        raise ValueError(
            f"{len(moved)} added tokens would change their id, first {moved[0]!r} ({spec.added[moved[0]]} "
            f"to {made.token_to_id(moved[0])}): ids must have no holes below them"
        )
    return made


def all_splits(spec: TokenizerSpec, tokens: Iterable[str]) -> np.ndarray:
    """List all splits of each of ``tokens`` into two ordinary tokens, as merges' rows.

    They come in order of ``tokens``, and of one token those with the longer left part first.
    """
    vocab, find = spec.vocab, spec.vocab.get
    found = (
        (left, right, vocab[token])
        for token in tokens
        for i in range(len(token) - 1, 0, -1)
        if (left := find(token[:i])) is not None and (right := find(token[i:])) is not None
    )
    rows = np.fromiter(chain.from_iterable(found), np.int32).reshape(-1, 3)
    special = [vocab[content] for content in spec.special if content in vocab]
    return rows[~np.isin(rows[:, :2], special).any(1)]
