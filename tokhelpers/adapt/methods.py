"""How tokens are wired into a tokenizer's vocabulary and merges: the ways of ``extend``, on parts."""

import numpy as np

from ..tokenizer.parts import Parts, all_splits, merge_ids
from ..tokenizer.pretokenization import token_text
from ..tokenizer.segmentation import segment, symbols_of
from ..tokenizer.token_bytes import byte_of, token_strings

WAYS = ("append", "regenerate", "prepend", "scaffold", "add_tokens")


def extend_parts(
    parts: Parts, extension, n_tokens: int | None = None, *, how: str = "append"
) -> Parts:
    """What ``extend`` does, on parts: much cheaper where many sizes are only measured."""
    if how not in WAYS:
        raise ValueError(f"how={how!r}: use one of {', '.join(WAYS)}")
    if parts.wordpiece and how != "append":
        raise ValueError(
            f"how={how!r} is a matter of merges, and WordPiece, which takes the longest match, has "
            "none: use how='append'"
        )
    if parts.wordpiece and extension.merges:
        raise ValueError(
            "the extension has merges, so its tokens come from a BPE tokenizer; a WordPiece one "
            "needs the tokens of a WordPiece supplement"
        )
    tokens, new = _taken(parts, extension, n_tokens), None
    if how == "add_tokens":
        return _with_added(parts, tokens)
    if how == "scaffold":
        tokens, new = _scaffolded(parts, tokens)
    vocab = parts.vocab | {token: i for i, token in enumerate(tokens, parts.next_id)}
    if parts.wordpiece:
        new = []
    elif how == "regenerate" or (new is None and not extension.merges):
        new = all_splits(parts, vocab, tokens)
    elif new is None:
        new = _own_merges(extension, vocab, tokens)
    rows = merge_ids(vocab, new)
    if how == "prepend":
        merges = np.concatenate([rows, parts.merges[~_among(parts.merges, rows)]])
    else:
        merges = np.concatenate([parts.merges, rows[~_among(rows, parts.merges)]])
    return Parts(parts.settings, vocab, merges)


def _taken(parts, extension, n_tokens) -> list[str]:
    """The first tokens of an extension, checked."""
    if n_tokens is not None and not 0 <= n_tokens <= len(extension.tokens):
        raise ValueError(
            f"asked for {n_tokens:,} new tokens; the extension has {len(extension.tokens):,}: ask for "
            "at most these, or learn more"
        )
    tokens = list(extension.tokens[:n_tokens])
    known = [t for t in tokens if t in parts.vocab or t in parts.special]
    if known:
        raise ValueError(
            f"{len(known):,} of the {len(tokens):,} tokens are in the vocabulary already, first "
            f"{known[0]!r}: leave them out"
        )
    if len(set(tokens)) < len(tokens):
        twice = next(t for t in tokens if tokens.count(t) > 1)
        raise ValueError(f"the token {twice!r} is given more than once: give it once")
    if "" in tokens:
        raise ValueError("one of the tokens is empty: an empty token cannot be added, leave it out")
    alphabet = byte_of().keys()
    odd = [t for t in tokens if not alphabet >= set(t)] if parts.byte_level else []
    if odd:
        raise ValueError(
            f"the token {odd[0]!r} is not in the form in which this tokenizer stores tokens: write "
            f"it as {token_strings(odd[:1])[0]!r}"
        )
    return tokens


def _own_merges(extension, vocab, tokens) -> list[tuple[str, str]]:
    """The extension's merges that the first tokens need, each once."""
    if not extension.continued:
        usable = (m for m in extension.merges if {*m, m[0] + m[1]} <= vocab.keys())
        return list(dict.fromkeys(usable))
    if len(tokens) == len(extension.tokens):
        return list(dict.fromkeys(extension.merges))  # those into old tokens at the end as well
    missing, needed = set(tokens[extension.characters :]), []
    for merge in extension.merges:
        if not missing:
            break
        needed.append(merge)
        missing.discard(merge[0] + merge[1])
    return list(dict.fromkeys(needed))  # a pair can come about again after it was merged


def _scaffolded(parts: Parts, tokens: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens with those that lead to them, and merges from left to right over their old tokens."""
    single = [token for token in tokens if len(token) == 1]  # no merges lead to a character
    letters = {token: i for i, token in enumerate(single, parts.next_id)}
    wider = Parts(parts.settings, parts.vocab | letters, parts.merges)
    ids, offsets = segment(*symbols_of(tokens, wider), wider.merges)
    made, merges, name = dict.fromkeys(letters), {}, wider.tokens
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


def _among(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which merges are, as pairs, among others."""
    keys, known = (r[:, 0].astype(np.int64) << 32 | r[:, 1] for r in (rows, others))
    known = np.append(np.sort(known), -1)
    return known[np.searchsorted(known[:-1], keys)] == keys


def _with_added(parts: Parts, tokens: list[str]) -> Parts:
    """Tokens as the library's added tokens; one that is no whole text can only hold its id."""
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
