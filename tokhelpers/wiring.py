"""How tokens are wired into a tokenizer's vocabulary and merges: the ways of ``extend``, on parts."""

import json
from collections.abc import Iterable

import numpy as np

from .byte_forms import byte_of, to_bytes_form
from .pretokens import cuts_text, library_cutter
from .segmentation import segment, symbols_of
from .surgery import Parts, merge_ids

WAYS = ("append", "regenerate", "prepend", "scaffold", "add_tokens")


def extended(parts: Parts, extension, n_tokens: int | None = None, *, how: str = "append") -> Parts:
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
            f"it as {to_bytes_form(odd[:1])[0]!r}"
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


def all_splits(parts, vocab, tokens) -> list[tuple[str, str]]:
    """All splits of each of the tokens into two, in order of the tokens, longer left part first."""
    from transformers.convert_slow_tokenizer import generate_merges

    ordinary = {token: i for token, i in vocab.items() if token not in parts.special}
    return generate_merges(ordinary, {token: -i for i, token in enumerate(tokens)})


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
        content = stored_text(parts, token)
        if content is None:
            vocab[token] = i
        else:
            added.append({"id": i, "content": content, **flags})
    settings["added_tokens"] = added
    return Parts(settings, vocab, parts.merges)


def stored_text(parts: Parts, token: str) -> str | None:
    """The text that a stored token stands for; None where it is not bytes of whole characters."""
    if not parts.byte_level:
        return token.replace("▁", " ")
    try:
        return bytes(map(byte_of().__getitem__, token)).decode()
    except (KeyError, UnicodeDecodeError):
        return None


def always_split(parts: Parts, tokens: Iterable[str]) -> list[str]:
    """Tokens that no pre-token holds: the normalizer changes them, or the pre-tokenizer cuts them.

    Each token's text is cut alone, behind a space, and beside a letter on either side. Tokens that
    hold part of a character are not looked at.

    >>> from tokhelpers.training import train_byte_level_bpe
    >>> from tokhelpers.surgery import read
    >>> always_split(read(train_byte_level_bpe(["cat"], vocab_size=257)), ["catĠ", "Ġcat", "cat"])
    ['catĠ']
    """
    rules = {rule: parts.settings[rule] for rule in ("normalizer", "pre_tokenizer")}
    cut = library_cutter(json.dumps(rules))
    between = "\0" if cuts_text(rules["pre_tokenizer"]) else ""  # without one, merges cross spaces
    contexts = (("", ""), (" ", ""), ("a", ""), ("", "a"))
    prefix = parts.settings["model"].get("continuing_subword_prefix") or ""

    def split(token: str) -> bool:
        stored = token.removeprefix(prefix)
        text = stored_text(parts, stored)
        return text is not None and not any(
            stored in between.join(cut(before + text + behind)) for before, behind in contexts
        )

    return [token for token in tokens if split(token)]
