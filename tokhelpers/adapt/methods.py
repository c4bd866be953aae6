"""The methods of ``extend``: how new tokens enter a tokenizer's vocabulary and merges."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ..tokenizer.checks import whole_number
from ..tokenizer.segmentation import (
    NO_MERGE,
    MergeTable,
    merge_table,
    ranks_of,
)
from ..tokenizer.spec import TokenizerSpec, all_splits, merge_ids
from ..tokenizer.token_bytes import byte_of, token_strings

METHODS = ("append", "regenerate", "prepend", "add_tokens")


def extended_by_sizes(
    spec: TokenizerSpec, extension, sizes: Sequence[int | None], *, how: str = "append"
) -> Iterator[TokenizerSpec]:
    """Yield the parts that ``extend`` returns, for each of several numbers of tokens.

    Checks and splits of tokens, which are the same at all of them, are made once.
    """
    _check_method(spec, extension, how)
    tokens = _tokens_of(spec, extension, sizes)
    add = _method(spec, extension, tokens, how)
    return (add(tokens[: len(extension.tokens) if n is None else n]) for n in sizes)


def _method(
    spec: TokenizerSpec, extension, most: list[str], how: str
) -> Callable[[list[str]], TokenizerSpec]:
    """A function that adds tokens, the first of ``most``, by this method."""
    if how == "add_tokens":
        return spec.with_added
    if spec.wordpiece:
        return spec.with_tokens
    splits = None
    if how == "regenerate" or not extension.merges:
        splits = all_splits(spec.with_tokens(most), most)

    def add(tokens: list[str]) -> TokenizerSpec:
        wider = spec.with_tokens(tokens)
        if splits is not None:
            return _with_merges(spec, wider, splits[splits.max(axis=1) < wider.next_id], how)
        rows = merge_ids(wider.vocab, _own_merges(extension, spec, tokens))
        return _with_merges(spec, wider, rows, how)

    return add


def _with_merges(
    spec: TokenizerSpec, wider: TokenizerSpec, rows: np.ndarray, how: str
) -> TokenizerSpec:
    """Wider parts with merges before or behind the old ones; of equals the first."""
    if how == "prepend":
        merges = [rows, _without(spec.merges, merge_table(rows))]
    else:
        merges = [spec.merges, _without(rows, spec.merge_table)]
    return wider.with_(merges=np.concatenate(merges))


def _check_method(spec: TokenizerSpec, extension, how: str) -> None:
    """Refuse an unknown method, what is no extension, and what does not fit WordPiece."""
    if how not in METHODS:
        raise ValueError(f"how={how!r}: use one of {', '.join(METHODS)}")
    if not hasattr(extension, "merges"):
        raise TypeError(
            f"an Extension is needed, got {type(extension).__name__}: make one of a list of tokens "
            "with Extension(tokens=[...])"
        )
    if spec.wordpiece and (how != "append" or extension.merges):
        raise ValueError(
            "WordPiece, which takes the longest match, has no merges: use how='append' and the tokens "
            f"of a WordPiece supplement, not how={how!r} and {len(extension.merges):,} merges"
        )


def _tokens_of(spec, extension, sizes) -> list[str]:
    """The first tokens of an extension, as many as the largest size asks for, checked."""
    there = len(extension.tokens)
    numbers = [there if n is None else whole_number("n_tokens", n) for n in sizes]
    wrong = [n for n in numbers if not 0 <= n <= there]
    if wrong:
        raise ValueError(
            f"asked for {wrong[0]:,} new tokens; the extension has {there:,}: ask for at most these, "
            "or learn more"
        )
    tokens = checked_tokens(spec, extension.tokens[: max(numbers, default=0)])
    known = [t for t in tokens if t in spec.vocab or t in spec.special]
    if known:
        raise ValueError(
            f"{len(known):,} of the {len(tokens):,} tokens are in the vocabulary already, first "
            f"{known[0]!r}: leave them out"
        )
    return tokens


def checked_tokens(spec: TokenizerSpec, tokens: Iterable[str]) -> list[str]:
    """Return tokens as a list, if they can be tokens of this tokenizer, and each is given once."""
    if isinstance(tokens, str):
        raise TypeError(f"the tokens are one string, {tokens!r:.40}: give a list of tokens")
    alphabet = byte_of().keys()
    times = Counter(tokens := list(tokens))
    for token, n in times.items():
        if not isinstance(token, str):
            raise TypeError(f"the token {token!r} is {type(token).__name__}, not str: give strings")
        if token == "":
            raise ValueError("one of the tokens is '', an empty token: leave it out")
        if n > 1:
            raise ValueError(f"the token {token!r} is given more than once: give it once")
        if spec.byte_level and not alphabet >= set(token):
            raise ValueError(
                f"the token {token!r} is no token string of this tokenizer, which writes bytes as "
                f"characters: write it as {token_strings([token])[0]!r}"
            )
    return tokens


def _own_merges(extension, spec: TokenizerSpec, tokens: list[str]) -> list[tuple[str, str]]:
    """The extension's merges that the first tokens need, each once."""
    if not extension.continued:
        known = spec.vocab.keys() | set(tokens)
        return [m for m in dict.fromkeys(extension.merges) if {*m, m[0] + m[1]} <= known]
    if len(tokens) == len(extension.tokens):
        return list(dict.fromkeys(extension.merges))  # with those into old tokens at the end
    missing, needed = set(tokens[extension.characters :]), {}
    for merge in extension.merges:
        if not missing:
            break
        needed[merge] = None  # a pair can appear again after it was merged
        missing.discard(merge[0] + merge[1])
    return list(needed)


def _without(rows: np.ndarray, merges: MergeTable) -> np.ndarray:
    """The rows whose pairs are not among merges."""
    return rows[ranks_of(rows, merges) == NO_MERGE]
