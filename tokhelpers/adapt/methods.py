"""The methods of ``extend``: how vocabulary and merges change when tokens are added."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ..common.checks import whole_number
from ..tokenizer.encoder import Encoder
from ..tokenizer.merge_rows import all_splits, merge_ids
from ..tokenizer.pretokenization import pretokenizer
from ..tokenizer.segmentation import NO_MERGE, MergeTable, merge_table, ranks_of
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import byte_of, token_strings

METHODS = ("append", "regenerate", "prepend", "add_tokens")


def extended_by_sizes(
    spec: TokenizerSpec, extension, sizes: Sequence[int | None], *, how: str = "append"
) -> Iterator[TokenizerSpec]:
    """Return an iterator over a tokenizer extended by each of several numbers of tokens.

    Tokens are checked, and their splits found, once for all sizes. Raises as ``extend`` does.
    """
    tokens = tokens_of(spec, extension, sizes, how)
    if tokens and how != "add_tokens":
        _check_added_tokens(spec)
    add = _method(spec, extension, tokens, how)
    return (add(tokens[: len(extension.tokens) if n is None else n]) for n in sizes)


def _method(
    spec: TokenizerSpec, extension, all_tokens: list[str], how: str
) -> Callable[[list[str]], TokenizerSpec]:
    """Make a function that adds the first few of ``all_tokens`` to a tokenizer by this method."""
    if how == "add_tokens":
        return spec.with_added
    if spec.wordpiece:
        return spec.with_tokens
    splits = None
    if how == "regenerate" or not extension.merges:
        splits = all_splits(spec.with_tokens(all_tokens), all_tokens)

    def add(tokens: list[str]) -> TokenizerSpec:
        extended = spec.with_tokens(tokens)
        if splits is not None:
            merges = splits[splits.max(axis=1) < extended.next_id]
        else:
            merges = merge_ids(extended.vocab, _merges_for(tokens, extension, spec))
        return _with_merges(spec, extended, merges, how)

    return add


def _with_merges(
    spec: TokenizerSpec, extended: TokenizerSpec, merges: np.ndarray, how: str
) -> TokenizerSpec:
    """Put new merges before (``prepend``) or after the old ones; a merge in both stays once, first."""
    if how == "prepend":
        both = [merges, _without(spec.merges, merge_table(merges))]
    else:
        both = [spec.merges, _without(merges, spec.merge_table)]
    return extended.with_(merges=np.concatenate(both))


def _check_method(encoder: Encoder, extension, how: str) -> None:
    """Raise ValueError or TypeError for an unknown method, a non-extension, and merges for other models."""
    if how not in METHODS:
        raise ValueError(f"how={how!r}: use one of {', '.join(METHODS)}")
    if not hasattr(extension, "merges"):
        raise TypeError(
            f"an Extension is needed, got {type(extension).__name__}: make one of a list of tokens "
            "with Extension(tokens=[...])"
        )
    if encoder.kind != "BPE" and (how != "append" or extension.merges):
        raise ValueError(
            f"{encoder.kind} has no merges, got how={how!r} and {len(extension.merges):,} merges: use "
            f"how='append' and the tokens of a {encoder.kind} supplement"
        )


def tokens_of(encoder: Encoder, extension, sizes: Sequence[int | None], how: str) -> list[str]:
    """Check the arguments of ``extend``, and return the tokens that the largest of the sizes needs."""
    _check_method(encoder, extension, how)
    available = len(extension.tokens)
    numbers = [available if n is None else whole_number("n_tokens", n) for n in sizes]
    if wrong := [n for n in numbers if not 0 <= n <= available]:
        raise ValueError(
            f"asked for {wrong[0]:,} new tokens; the extension has {available:,}: ask for at most "
            "these, or learn more"
        )
    tokens = checked_tokens(encoder, extension.tokens[: max(numbers, default=0)])
    if existing := [t for t in tokens if t in encoder.all_ids]:
        raise ValueError(
            f"{len(existing):,} of the {len(tokens):,} tokens are in the vocabulary already, first "
            f"{existing[0]!r}: leave them out"
        )
    return tokens


def _check_added_tokens(spec: TokenizerSpec) -> None:
    """Raise ValueError if the model would produce an added token once it is in its vocabulary.

    There it must be when tokens with larger IDs follow, or the library would renumber it. The model
    sees it where the text is not split at it: inside a longer word, or before text is lowercased.
    """
    whole_pretokens = spec.wordpiece or spec.merge_skipping
    for token in spec.added_tokens.values():
        content = token.content
        if content in spec.vocab or not (whole_pretokens or len(content) == 1):
            continue
        lowercased = not token.normalized and content != content.upper()
        texts = [content] * token.single_word + [content.upper()] * lowercased
        pieces = pretokenizer(json.dumps(spec.pipeline))(texts)
        if any(content in piece for of_text in pieces for piece in of_text):
            flag = "single_word" if token.single_word else "normalized=False"
            raise ValueError(
                f"the added token {content!r} ({flag}) would have to be in the model's vocabulary, as "
                "tokens with larger IDs follow, and old text that contains it would be segmented "
                "differently: build the tokenizer without it, extend that, and add it last"
            )


def checked_tokens(spec: TokenizerSpec, tokens: Iterable[str]) -> list[str]:
    """Return tokens as a list; raise TypeError or ValueError for duplicates and impossible tokens."""
    if isinstance(tokens, str):
        raise TypeError(f"the tokens are one string, {tokens!r:.40}: give a list of tokens")
    alphabet = byte_of().keys()
    tokens = list(tokens)
    for token, n in Counter(tokens).items():
        if not isinstance(token, str):
            raise TypeError(f"the token {token!r} is {type(token).__name__}, not str: give strings")
        if token == "":
            raise ValueError("one of the tokens is '', an empty token: leave it out")
        if n > 1:
            raise ValueError(f"the token {token!r} is given more than once: give it once")
        if spec.byte_level and not alphabet >= set(token):
            raise ValueError(
                f"{token!r} cannot be a token of this tokenizer, which writes bytes as characters: "
                f"write it as {token_strings([token])[0]!r}"
            )
    return tokens


def _merges_for(tokens: list[str], extension, spec: TokenizerSpec) -> list[tuple[str, str]]:
    """The extension's merges that its first tokens need, without duplicates."""
    if not extension.continued:
        vocab = spec.vocab.keys() | set(tokens)
        return [m for m in dict.fromkeys(extension.merges) if {*m, m[0] + m[1]} <= vocab]
    if len(tokens) == len(extension.tokens):
        return list(dict.fromkeys(extension.merges))  # also those that follow the last token's
    missing, needed = set(tokens[extension.characters :]), {}
    for merge in extension.merges:
        if not missing:
            break
        needed[merge] = None  # a pair can recur after it was merged
        missing.discard(merge[0] + merge[1])
    return list(needed)


def _without(merges: np.ndarray, excluded: MergeTable) -> np.ndarray:
    """The merges whose pairs are not among the excluded ones."""
    return merges[ranks_of(merges, excluded) == NO_MERGE]
