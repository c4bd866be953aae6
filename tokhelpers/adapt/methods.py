"""The methods of ``extend``: how new tokens enter a tokenizer's vocabulary and merges, on parts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..tokenizer.checks import whole_number
from ..tokenizer.parts import (
    Parts,
    all_splits,
    merge_ids,
    parts_with_merges,
    parts_with_tokens,
)
from ..tokenizer.pretokenization import token_text
from ..tokenizer.segmentation import (
    NO_MERGE,
    MergeTable,
    merge_table,
    merges_of,
    ranks_of,
    segment,
    symbols_of,
)
from ..tokenizer.token_bytes import byte_of, token_strings

METHODS = ("append", "regenerate", "prepend", "scaffold", "add_tokens")


def extend_parts(
    parts: Parts, extension, n_tokens: int | None = None, *, how: str = "append"
) -> Parts:
    """Extend parts, as ``extend`` extends a tokenizer: much cheaper for measuring.

    >>> from tokenizers import Tokenizer, models
    >>> parts = th.read_parts(Tokenizer(models.BPE({"a": 0, "b": 1}, [])))
    >>> extend_parts(parts, th.Extension(tokens=["ab"])).pairs()
    [('a', 'b')]
    """
    return next(extended_by_sizes(parts, extension, [n_tokens], how=how))


def extended_by_sizes(
    parts: Parts, extension, sizes: Sequence[int | None], *, how: str = "append"
) -> Iterator[Parts]:
    """Yield what ``extend_parts`` returns, for each of several numbers of tokens.

    Checks and splits of tokens, which are the same at all of them, are made once.
    """
    _check_method(parts, extension, how)
    tokens = _first_tokens(parts, extension, sizes)
    splits, own = None, bool(extension.merges) or parts.wordpiece
    if how == "regenerate" or (how in ("append", "prepend") and not own):
        splits = all_splits(parts, parts_with_tokens(parts, tokens).vocab, tokens)
    return (_extended(parts, extension, tokens[:n], how, splits) for n in sizes)


def _extended(parts: Parts, extension, tokens: list[str], how: str, splits) -> Parts:
    """Parts with these tokens, checked; ``splits`` are those of at least these, if they are merges."""
    if how == "add_tokens":
        return _with_added(parts, tokens)
    if how == "scaffold":
        tokens, new = _scaffolded(parts, tokens)
    wider = parts_with_tokens(parts, tokens)
    if parts.wordpiece:
        return wider
    if splits is not None:
        rows = splits[splits.max(axis=1) < wider.next_id]
    else:
        new = new if how == "scaffold" else _own_merges(extension, wider.vocab, tokens)
        rows = merge_ids(wider.vocab, new)
    if how == "prepend":
        first, last = rows, _without(parts.merges, merge_table(rows))
    else:
        first, last = parts.merges, _without(rows, merges_of(parts))
    return parts_with_merges(wider, np.concatenate([first, last]))


def _check_method(parts: Parts, extension, how: str) -> None:
    """Refuse an unknown method, what is no extension, and what does not fit WordPiece."""
    if how not in METHODS:
        raise ValueError(f"how={how!r}: use one of {', '.join(METHODS)}")
    if not hasattr(extension, "merges"):
        raise TypeError(
            f"an Extension is needed, got {type(extension).__name__}: make one of a list of tokens "
            "with Extension(tokens=[...])"
        )
    if parts.wordpiece and how != "append":
        raise ValueError(
            f"how={how!r} decides where merges go, and WordPiece, which takes the longest match, has "
            "none: use how='append'"
        )
    if parts.wordpiece and extension.merges:
        raise ValueError(
            "the extension has merges, so its tokens come from a BPE tokenizer; a WordPiece one "
            "needs the tokens of a WordPiece supplement"
        )


def _first_tokens(parts, extension, sizes) -> list[str]:
    """The first tokens of an extension, as many as the largest size asks for, checked."""
    there = len(extension.tokens)
    numbers = [there if n is None else whole_number("n_tokens", n) for n in sizes]
    wrong = [n for n in numbers if not 0 <= n <= there]
    if wrong:
        raise ValueError(
            f"asked for {wrong[0]:,} new tokens; the extension has {there:,}: ask for at most these, "
            "or learn more"
        )
    tokens = checked_tokens(parts, extension.tokens[: max(numbers, default=0)])
    known = [t for t in tokens if t in parts.vocab or t in parts.special]
    if known:
        raise ValueError(
            f"{len(known):,} of the {len(tokens):,} tokens are in the vocabulary already, first "
            f"{known[0]!r}: leave them out"
        )
    return tokens


def checked_tokens(parts: Parts, tokens: Iterable[str]) -> list[str]:
    """Return tokens as a list, if they can be tokens of this tokenizer, and each is given once.

    Raises TypeError for one string and for what is no string, ValueError for an empty token, one
    that is given twice, and one that is no token string of a byte-level tokenizer.
    """
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
        if parts.byte_level and not alphabet >= set(token):
            raise ValueError(
                f"the token {token!r} is no token string of this tokenizer, which writes bytes as "
                f"characters: write it as {token_strings([token])[0]!r}"
            )
    return tokens


def _own_merges(extension, vocab, tokens) -> list[tuple[str, str]]:
    """The extension's merges that the first tokens need, each once."""
    if not extension.continued:
        usable = (m for m in extension.merges if {*m, m[0] + m[1]} <= vocab.keys())
        return list(dict.fromkeys(usable))
    if len(tokens) == len(extension.tokens):
        return list(dict.fromkeys(extension.merges))  # with those into old tokens at the end
    missing, needed = set(tokens[extension.characters :]), []
    for merge in extension.merges:
        if not missing:
            break
        needed.append(merge)
        missing.discard(merge[0] + merge[1])
    return list(dict.fromkeys(needed))  # a pair can appear again after it was merged


def _scaffolded(parts: Parts, tokens: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The tokens and those that lead to them, and merges from left to right over their old tokens."""
    single = [token for token in tokens if len(token) == 1]  # no merges lead to a character
    wider = parts_with_tokens(parts, single)
    ids, offsets = segment(*symbols_of(tokens, wider), merges_of(wider))
    made, merges, name = dict.fromkeys(single), {}, wider.tokens
    for token, start, end in zip(tokens, offsets, offsets[1:], strict=False):
        left, *others = [name[i] for i in ids[start:end].tolist()] or [""]
        for right in others:
            merges[left, right] = None
            left += right
            if left not in parts.vocab:
                made[left] = None
        if left != token:
            raise ValueError(
                f"the token {token!r} has characters that the vocabulary lacks, so no merges lead "
                "to it: add these characters as tokens as well"
            )
        made[token] = None
    return list(made), list(merges)


def _without(rows: np.ndarray, merges: MergeTable) -> np.ndarray:
    """The rows whose pairs are not among merges."""
    return rows[ranks_of(rows, merges) == NO_MERGE]


def _with_added(parts: Parts, tokens: list[str]) -> Parts:
    """Tokens as the library's added tokens.

    One whose bytes are no whole characters cannot stand in a text, and only takes its id.
    """
    settings, vocab = dict(parts.settings), dict(parts.vocab)
    added = list(settings["added_tokens"])
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    for i, token in enumerate(tokens, parts.next_id):
        content = token_text(parts, token)
        if content is None:
            vocab[token] = i
        else:
            added.append({"id": i, "content": content, **flags})
    settings["added_tokens"] = added
    return Parts(settings, vocab, parts.merges)
