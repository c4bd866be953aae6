"""Which tokens to add to a tokenizer: learned on top of its own, or those of a second tokenizer."""

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from ..text.counting import ensure_counts
from ..text.pretokens import Pretokens
from ..tokenizer.checks import positive
from ..tokenizer.library import as_given
from ..tokenizer.pretokenization import cuts_text, library_cutter
from ..tokenizer.spec import TokenizerSpec
from ..train.merges import learn_tokens
from .methods import extended_by_sizes


@dataclass(frozen=True, repr=False)
class Extension:
    """Tokens to add, in order, and the merges that lead to them.

    ``tokens`` are token strings (``Ġword``). ``merges`` are pairs of tokens in learned order, and
    ``frequencies`` the count of each when it was learned; both are empty for a plain list of tokens.
    ``continued`` says that the merges were learned on top of the tokenizer's own: then the first k
    tokens need the merges up to the k-th token's, and no others. The first ``characters`` tokens are
    single characters, which need no merges.

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
) -> Extension:
    """Learn new tokens by continuing a BPE tokenizer's training on more text.

    Pairs are counted in the text as the tokenizer segments it now, merge skipping off; each merge
    adds the most frequent pair. ``n_tokens`` counts new tokens: a merge into a token that is in the
    vocabulary already comes on top. ``corpus`` iterates over documents or is counts by this
    tokenizer's rules. ``max_token_length`` is in characters of the token string. A tokenizer of
    characters with no pre-tokenizer or with ``Metaspace`` keeps to SentencePiece's rules, as Llama-2
    and Mistral v1 do: the text is NFKC-normalised, new characters come first, until all but one in
    20,000 characters of the text are tokens, and a token has 16 characters at most, of one script,
    and no digit beside anything. Warns, and returns fewer tokens, when the text yields fewer. Raises
    ValueError for a negative ``n_tokens``, a ``min_frequency`` or ``max_token_length`` below 1, what is
    no whole number, and counts made by other rules.

    Source: Purason et al. 2025, section 3.1.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> continue_bpe(base, ["bat bat bat"], 1).merges
    [('Ġba', 't')]
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    words = ensure_counts(corpus, tokenizer)
    n_tokens = positive("n_tokens", n_tokens, 0)
    positive("min_frequency", min_frequency)
    if max_token_length is not None:
        positive("max_token_length", max_token_length)
    tokens, merges, frequencies, characters = learn_tokens(
        words, spec, n_tokens, min_frequency=min_frequency, max_token_length=max_token_length
    )
    if len(tokens) < n_tokens:
        lower = "lower min_frequency or " if min_frequency > 1 else ""
        warnings.warn(
            f"asked for {n_tokens:,} new tokens; this text yields {len(tokens):,} at "
            f"min_frequency={min_frequency}: {lower}bring more text",
            stacklevel=2,
        )
    return Extension(tokens, merges, frequencies, continued=True, characters=characters)


def naive_extension(
    tokenizer: Tokenizer, supplement: Tokenizer, n_tokens: int | None = None
) -> Extension:
    """Take the tokens of a separately trained tokenizer that the vocabulary lacks, in its order.

    ``supplement`` is a tokenizer of the same family (byte-level BPE, SentencePiece BPE, WordPiece).
    The extension has all its merges, for ``extend(how="append")``. Raises ValueError for a negative
    ``n_tokens``, for one that is larger than what the supplement can give, and for a supplement of
    another family.

    Source: Purason et al. 2025, section 3.1 (the naive approach); thesis, Algorithm 7 (WordPiece).

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> naive_extension(base, th.train_byte_level_bpe(["cat bat cat"], vocab_size=259)).tokens
    ['at', 'cat', 'bat']
    """
    old, new = _of_one_family(tokenizer, supplement)
    by_id = sorted(new.vocab, key=new.vocab.get)
    return _first_new(by_id, old, new, n_tokens, new.pairs())


def thesis_extension(
    tokenizer: Tokenizer, supplement: Tokenizer, n_tokens: int | None = None
) -> Extension:
    """Take the tokens and merges of a separately trained tokenizer as the thesis does.

    New characters come first, then the tokens of the supplement's merges, in their order. For
    ``extend(how="append")``, each token brings merges: in byte-level BPE the supplement's first
    merge for it (Algorithm 9); in SentencePiece BPE every split into two tokens that are known
    by then (Algorithm 8). WordPiece has no merges, and its tokens come in order of their ids
    (Algorithm 7). Raises ValueError as ``naive_extension``.

    Source: thesis, section 4.3, Algorithms 7-9.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> thesis_extension(base, th.train_byte_level_bpe(["cat bat cat"], vocab_size=259)).merges
    [('a', 't'), ('c', 'at'), ('b', 'at')]
    """
    old, new = _of_one_family(tokenizer, supplement)
    if old.wordpiece:
        return naive_extension(old, new, n_tokens)
    by_id, merges = sorted(new.vocab, key=new.vocab.get), []
    added = {token: None for token in by_id if len(token) == 1 and token not in old.vocab}
    known = old.vocab.keys() | added.keys()
    for left, right in new.pairs():
        token = left + right
        if token in known:
            continue
        if old.byte_level:
            merges.append((left, right))
        else:
            pairs = ((token[:k], token[k:]) for k in range(1, len(token)))
            merges += (pair for pair in pairs if known.issuperset(pair))
        known.add(token)
        added[token] = None
    return _first_new(added, old, new, n_tokens, merges)


def _of_one_family(tokenizer, supplement) -> tuple[TokenizerSpec, TokenizerSpec]:
    """Both tokenizers taken apart, if they write tokens alike."""
    old, new = (TokenizerSpec.from_tokenizer(t, wordpiece=True) for t in (tokenizer, supplement))
    if _family(old) != _family(new):
        raise ValueError(
            f"the supplement is of another family: it is {_family(new)}, the tokenizer is "
            f"{_family(old)}; train it with the tokenizer's own model and pre-tokenizer"
        )
    return old, new


def _family(spec: TokenizerSpec) -> str:
    if spec.wordpiece:
        return f"WordPiece with {spec.prefix!r}"
    return "byte-level BPE" if spec.byte_level else "BPE of characters (SentencePiece style)"


def _first_new(
    tokens: Iterable[str], old: TokenizerSpec, new: TokenizerSpec, n_tokens, merges
) -> Extension:
    known = old.vocab.keys() | old.special | new.special
    tokens = [token for token in tokens if token not in known]
    if n_tokens is not None and positive("n_tokens", n_tokens, 0) > len(tokens):
        raise ValueError(
            f"asked for {n_tokens:,} tokens; the supplement has {len(tokens):,} that the vocabulary "
            "lacks: ask for at most these, or train a larger one"
        )
    return Extension(tokens[:n_tokens], merges)


def extend(
    tokenizer: Tokenizer, extension: Extension, n_tokens: int | None = None, *, how: str = "append"
) -> Tokenizer:
    """Add the first ``n_tokens`` tokens of an extension (all by default) to a copy of a tokenizer.

    Old ids stay; new ids start after the largest in use. ``how`` is the method:

    - ``append``: the extension's merges after the old ones, those whose parts and result are in the
      vocabulary; an extension without merges has them regenerated;
    - ``regenerate``: every split of a new token into two tokens becomes a merge, after the old
      ones, in order of the new tokens, longer left part first (the paper's "regen");
    - ``prepend``: what ``append`` adds, but before the old ones; a merge that both have moves up;
    - ``add_tokens``: no merges; the library cuts raw text at the tokens, inside words too (its
      byte-level decoder misreads those that are accented letters without a space before them).

    A WordPiece tokenizer, which has no merges, takes ``append``. Warns of tokens that the
    normalizer changes or the pre-tokenizer cuts in every text. Parts (``TokenizerSpec.from_tokenizer``) give parts, at
    a fraction of the cost, and no such warning. Raises ValueError for more tokens
    than there are, for tokens that the vocabulary has already, that are given twice or are no token
    strings, and for an unknown ``how``, TypeError for anything but an ``Extension``.

    Source: Purason et al. 2025, section 3.1 and Appendix F; section 2.1 for MEDVOC-LLM.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> extend(base, Extension(tokens=["bat"])).encode("bat bag").tokens
    ['bat', 'Ġba', 'g']
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer, wordpiece=True)
    new = next(extended_by_sizes(spec, extension, [n_tokens], how=how))
    made = as_given(tokenizer, new)
    tokens = [] if made is new or how == "add_tokens" else extension.tokens[:n_tokens]
    if split := always_split(spec, tokens):
        warnings.warn(
            f"{len(split):,} of the {len(tokens):,} new tokens, first {split[0]!r}, can never be "
            "produced: the normalizer changes them or the pre-tokenizer cuts them in every text; "
            "leave them out (they hold their ids now)",
            stacklevel=2,
        )
    return made


def always_split(spec: TokenizerSpec, tokens: Iterable[str]) -> list[str]:
    """List the tokens that no pre-token holds, as the normalizer or pre-tokenizer takes them apart.

    Each token's text is cut alone, after a space, and beside a letter on either side. Tokens that
    hold part of a character are not tried.
    """
    cut = library_cutter(json.dumps(spec.steps))
    # without a pre-tokenizer merges cross spaces
    between = "\0" if cuts_text(spec.steps["pre_tokenizer"]) else ""
    contexts = (("", ""), (" ", ""), ("a", ""), ("", "a"))

    def split(token: str) -> bool:
        inner = token.removeprefix(spec.prefix)
        text = spec.text_of(inner)
        return text is not None and not any(
            inner in between.join(cut(before + text + after)) for before, after in contexts
        )

    return [token for token in tokens if split(token)]
