"""Which tokens to add to a BPE tokenizer, and how to wire them in."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from tokenizers import Tokenizer

from .merges import learn_tokens
from .pretokens import Pretokens, byte_alphabet, to_bytes_form
from .sentencepiece_models import PieceRules, default_rules, learn_pieces
from .surgery import Parts, build, merge_ids, read
from .training import counted

WAYS = ("append", "regenerate", "prepend", "add_tokens")


@dataclass(frozen=True, repr=False)
class Extension:
    """Tokens to add, in order, and the merges that lead to them.

    ``tokens`` are in the form in which the vocabulary stores them (``Ġword``). ``merges`` are pairs
    of tokens in learned order and ``frequencies`` the count of each at its turn; both are empty
    for a plain list of tokens. ``continued`` says that the merges were learned on top of the
    tokenizer's own: then the first k tokens need the merges up to the k-th token's, and no others.
    The first ``characters`` tokens are single characters, which need none.

    >>> Extension(tokens=["infor", "mation"])
    Extension(2 tokens, 0 merges)
    """

    tokens: Sequence[str]
    merges: Sequence[tuple[str, str]] = ()
    frequencies: Sequence[int] = ()
    continued: bool = False
    characters: int = 0

    def __repr__(self) -> str:
        return f"Extension({len(self.tokens):,} tokens, {len(self.merges):,} merges)"


def continue_bpe(
    tokenizer: Tokenizer,
    corpus: Iterable[str] | Pretokens,
    n_tokens: int,
    *,
    min_frequency: int = 1,
    max_token_length: int | None = None,
    rules: PieceRules | None = None,
) -> Extension:
    """Learn new tokens by continuing a BPE tokenizer's training on more text.

    Pairs are counted in the text as the tokenizer segments it now, merge skipping off; each merge
    adds the most frequent pair. ``n_tokens`` counts new tokens: a merge into a token that is in the
    vocabulary already (no merge led to it before) comes on top. ``corpus`` iterates over documents
    or is counts by this tokenizer's rules. ``max_token_length`` is in characters of the stored
    form. Warns, and returns what there is, when the text yields fewer tokens.

    ``rules`` are for tokenizers that are not byte-level: what a token may be, which characters are
    added first, whether the text is NFKC-normalised. By default SentencePiece's (those of Llama-2
    and Mistral v1; ``piece_rules`` reads them from a ``.model``) where the tokenizer has no
    pre-tokenizer or ``Metaspace``, and none where it has another. Byte and unknown tokens are never
    merged.

    Source: Purason et al. 2025, section 3.1.

    >>> from tokhelpers.training import train_byte_level_bpe
    >>> base = train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> continue_bpe(base, ["bat bat bat"], 1).merges
    [('Ġba', 't')]
    """
    parts = read(tokenizer)
    words = counted(corpus, tokenizer)
    if n_tokens < 0:
        raise ValueError(f"n_tokens={n_tokens}: ask for zero or more new tokens")
    if min_frequency < 1:
        raise ValueError(f"min_frequency={min_frequency}: a pair must occur at least once")
    if rules is not None and parts.byte_level:
        raise ValueError(
            "rules are for SentencePiece tokenizers, this one is byte-level: leave them out"
        )
    rules = rules or default_rules(parts)
    if rules is None:
        tokens, merges, frequencies = learn_tokens(
            words, parts, n_tokens, min_frequency=min_frequency, max_token_length=max_token_length
        )
        characters = 0
    else:
        if max_token_length is not None:
            rules = replace(rules, max_sentencepiece_length=max_token_length)
        tokens, merges, frequencies, characters = learn_pieces(
            words, parts, n_tokens, rules, min_frequency=min_frequency
        )
    if len(tokens) < n_tokens:
        warnings.warn(
            f"asked for {n_tokens:,} new tokens; this text yields {len(tokens):,} at "
            f"min_frequency={min_frequency}: lower min_frequency or bring more text",
            stacklevel=2,
        )
    return Extension(tokens, merges, frequencies, continued=True, characters=characters)


def naive_extension(
    tokenizer: Tokenizer, supplement: Tokenizer, n_tokens: int | None = None
) -> Extension:
    """Take the tokens of a separately trained tokenizer that the vocabulary lacks, in its order.

    ``supplement`` is a BPE tokenizer whose tokens are stored in the same form; all of its merges
    come along, for ``extend(how="append")``. Raises ValueError when it cannot give ``n_tokens``.

    Source: Purason et al. 2025, section 3.1 (the naive approach).

    >>> from tokhelpers.training import train_byte_level_bpe
    >>> base = train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> naive_extension(base, train_byte_level_bpe(["cat bat cat"], vocab_size=259)).tokens
    ['at', 'cat', 'bat']
    """
    old, new = read(tokenizer), read(supplement)
    if old.byte_level != new.byte_level:
        raise ValueError(
            "the supplement stores its tokens in another form (one is byte-level, the other is not): "
            "train it with the tokenizer's own pre-tokenizer"
        )
    known = old.vocab.keys() | old.special | new.special
    by_id = sorted(new.vocab, key=new.vocab.get)
    tokens = [token for token in by_id if token not in known]
    if n_tokens is not None and n_tokens > len(tokens):
        raise ValueError(
            f"asked for {n_tokens:,} tokens; the supplement has {len(tokens):,} that the vocabulary "
            "lacks: train a larger one"
        )
    return Extension(tokens[:n_tokens], new.pairs())


def extend(
    tokenizer: Tokenizer, extension: Extension, n_tokens: int | None = None, *, how: str = "append"
) -> Tokenizer:
    """Add the first ``n_tokens`` tokens of an extension (all by default) to a copy of a tokenizer.

    Old ids stay; new ids start after the largest in use. ``how`` wires the tokens in:

    - ``append``: the extension's merges after the old ones, those whose parts and result are in the
      vocabulary; an extension without merges has them regenerated;
    - ``regenerate``: every split of a new token into two tokens becomes a merge, after the old
      ones, in order of the new tokens, longer left part first (the paper's "regen");
    - ``prepend``: what ``append`` adds, but before the old ones; a merge both have moves up;
    - ``add_tokens``: no merges; text is cut at the tokens before anything else happens, inside
      words too (the library's added tokens: not special, matched in the raw text; its byte-level
      decoder misreads those that are accented letters without a space before them).

    Raises ValueError for more tokens than there are, for tokens the vocabulary has already, given
    twice or not in stored form, and for an unknown ``how``.

    Source: Purason et al. 2025, section 3.1 and Appendix F.

    >>> from tokhelpers.training import train_byte_level_bpe
    >>> base = train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> extend(base, Extension(tokens=["bat"])).encode("bat bag").tokens
    ['bat', 'Ġba', 'g']
    """
    return build(extended(read(tokenizer), extension, n_tokens, how=how))


def extended(
    parts: Parts, extension: Extension, n_tokens: int | None = None, *, how: str = "append"
) -> Parts:
    """What ``extend`` does, on parts: much cheaper where many sizes are only measured."""
    if how not in WAYS:
        raise ValueError(f"how={how!r}: use one of {', '.join(WAYS)}")
    tokens = _taken(parts, extension, n_tokens)
    vocab = {**parts.vocab, **{token: parts.next_id + i for i, token in enumerate(tokens)}}
    if how == "add_tokens":
        return _with_added(parts, tokens)
    if how == "regenerate" or not extension.merges:
        new = _regenerated(parts, vocab, tokens)
    else:
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
    if parts.byte_level:
        alphabet = set(byte_alphabet())
        odd = [t for t in tokens if not t or not alphabet.issuperset(t)]
        if odd:
            hint = to_bytes_form(odd[:1])[0]
            raise ValueError(
                f"the token {odd[0]!r} is not in the form in which this tokenizer stores tokens: "
                + (f"write it as {hint!r}" if hint else "an empty token cannot be added")
            )
    return tokens


def _own_merges(extension, vocab, tokens) -> list[tuple[str, str]]:
    """The extension's merges that the first tokens need, each once."""
    if not extension.continued:
        usable = (m for m in extension.merges if {*m, m[0] + m[1]} <= vocab.keys())
        return list(dict.fromkeys(usable))
    missing, needed = set(tokens[extension.characters :]), []
    for merge in extension.merges:
        if not missing:
            break
        needed.append(merge)
        missing.discard(merge[0] + merge[1])
    return list(dict.fromkeys(needed))  # a pair can come about again after it was merged


def _regenerated(parts, vocab, tokens) -> list[tuple[str, str]]:
    """All splits of each new token into two tokens, in order of the tokens, longer left part first."""
    from transformers.convert_slow_tokenizer import generate_merges

    ordinary = {token: i for token, i in vocab.items() if token not in parts.special}
    return generate_merges(ordinary, {token: -i for i, token in enumerate(tokens)})


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
        content = added_content(parts, token)
        if content is None:
            vocab[token] = i
        else:
            added.append({"id": i, "content": content, **flags})
    settings["added_tokens"] = added
    return Parts(settings, vocab, parts.merges)


def added_content(parts: Parts, token: str) -> str | None:
    """The text that a stored token stands for; None where its bytes are no whole characters."""
    if not parts.byte_level:
        return token.replace("▁", " ")
    try:
        return bytes(map(_byte_of().__getitem__, token)).decode()
    except UnicodeDecodeError:
        return None


@lru_cache
def _byte_of() -> dict[str, int]:
    return {character: byte for byte, character in enumerate(byte_alphabet())}
