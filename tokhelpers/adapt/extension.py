"""Choose the tokens to add to a tokenizer, by continued training or from a second one, and add them."""

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from tokenizers import Tokenizer

from ..common.checks import positive
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.library_encoder import as_encoder
from ..tokenizer.pretokenization import pretokenizer, splits_text
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import completions
from ..train.merges import learn_tokens
from .methods import extended_by_sizes, tokens_of
from .unigram_extension import extended_unigram


@dataclass(frozen=True, repr=False)
class Extension:
    """Tokens to add to a tokenizer, in order, and the merges that produce them.

    ``tokens`` are token strings (``Ġword``). ``merges`` are pairs of tokens in learned order and
    ``frequencies`` their counts when they were learned; both are empty for a plain list of tokens.
    ``continued`` says that the merges continue the tokenizer's own: the first k tokens then need
    exactly the merges up to the k-th token's. The first ``characters`` tokens are single
    characters, which need no merges.

    >>> Extension(tokens=["infor", "mation"])
    Extension(2 tokens, 0 merges)
    """

    tokens: Sequence[str]
    merges: Sequence[tuple[str, str]] = ()
    frequencies: Sequence[int] = ()
    continued: bool = False
    characters: int = 0

    @classmethod
    def from_words(cls, words: Iterable[str], tokenizer: Tokenizer) -> "Extension":
        """Make an extension that turns each of these words, after a space, into one token.

        ``words`` are plain words (``Ärztekammer``), which are written as the tokenizer writes them.
        BPE also gets the merges that lead to them, and the intermediate tokens that these need. Warns
        of words that cannot be one token, as the normalizer or pre-tokenizer splits them. Raises
        TypeError for a single string, ValueError if none of the words is new.

        >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
        >>> Extension.from_words(["bat", "batty"], base).tokens
        ['Ġbat', 'ty', 'Ġbatty']
        """
        return extension_of_words(words, TokenizerSpec.from_tokenizer(tokenizer, wordpiece=True))

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

    The corpus (documents, or counts by this tokenizer's rules) is segmented by the tokenizer,
    without merge skipping, and the most frequent pair is merged until there are ``n_tokens`` new
    tokens. Merges that produce an existing token are learned as well, but not counted.
    ``max_token_length`` is in characters of the token string. A tokenizer of characters without a
    pre-tokenizer or with ``Metaspace`` (Llama-2, Mistral v1) follows SentencePiece's rules: the
    text is NFKC-normalised; new characters come first, up to a coverage of 99.995 % of the text; a
    merged token has at most 16 characters, a single script, and no digit next to anything.
    Text is split at the tokenizer's added tokens, which are never learned again.

    Warns, and returns fewer tokens, when the text yields fewer. Raises ValueError for a negative
    ``n_tokens``, a ``min_frequency`` or ``max_token_length`` below 1, non-integers, and counts
    made by other rules. Source: Purason et al. 2025, section 3.1.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> continue_bpe(base, ["bat bat bat"], 1).merges
    [('Ġba', 't')]
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    words = count_pretokens(corpus, tokenizer)
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


def extension_of_words(words: Iterable[str], spec: TokenizerSpec) -> Extension:
    """Make an extension of plain words; see ``Extension.from_words``."""
    if isinstance(words, str):
        raise TypeError(f"words is one string, {words!r:.40}: give a list of words")
    words = list(dict.fromkeys(word.strip() for word in words))
    space = "" if spec.pretokenizer.split("a") != ["a"] else " "
    pieces = list(spec.pretokenize([space + word for word in words]))
    strings = {of[0]: w for w, of in zip(words, pieces, strict=True) if len(of) == 1}
    new = [s for s in strings if isinstance(s, str) and s and s not in spec.all_ids]
    if len(strings) < len(words):
        several = [w for w, of in zip(words, pieces, strict=True) if len(of) != 1]
        warnings.warn(
            f"{len(several):,} of the {len(words):,} words, first {several[0]!r}, cannot be one token, "
            "as the pre-tokenizer splits them: they are left out",
            stacklevel=3,
        )
    if not new:
        raise ValueError(f"none of the {len(words):,} words is a new token: give other words")
    if spec.wordpiece:
        return Extension(new)
    longest = max(map(len, new))
    counts = count_pretokens({space + strings[s]: 1 for s in new}, spec)
    tokens, merges, frequencies, characters = learn_tokens(
        counts, spec, sum(map(len, new)), max_token_length=longest
    )
    return Extension(tokens, merges, frequencies, continued=True, characters=characters)


def naive_extension(
    tokenizer: Tokenizer,
    supplement: Tokenizer,
    n_tokens: int | None = None,
    *,
    method: str = "naive",
) -> Extension:
    """Take the tokens of a separately trained tokenizer that the vocabulary lacks.

    ``supplement`` is a tokenizer of the same family (byte-level BPE, SentencePiece BPE, WordPiece).
    The extension is meant for ``extend(how="append")``. ``method`` is

    - ``naive``: tokens in order of the supplement's IDs, with all of its merges (Purason et al.
      2025, section 3.1);
    - ``thesis``: new characters first, then the tokens that the supplement's merges produce, in
      merge order (thesis, section 4.3). In byte-level BPE a token has the supplement's first merge
      for it (Algorithm 9), in SentencePiece BPE every split into two tokens that exist by then
      (Algorithm 8). WordPiece has no merges: its tokens are in order of their IDs (Algorithm 7).

    Raises ValueError for an unknown ``method``, a supplement of another family, a negative
    ``n_tokens``, or one above the number of new tokens.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> supplement = th.train_byte_level_bpe(["cat bat cat"], vocab_size=259)
    >>> naive_extension(base, supplement).tokens
    ['at', 'cat', 'bat']
    >>> naive_extension(base, supplement, method="thesis").merges
    [('a', 't'), ('c', 'at'), ('b', 'at')]
    """
    if method not in ("naive", "thesis"):
        raise ValueError(f"method={method!r}: use naive or thesis")
    old, new = (TokenizerSpec.from_tokenizer(t, wordpiece=True) for t in (tokenizer, supplement))
    if _family(old) != _family(new):
        raise ValueError(
            f"the supplement is of another family: it is {_family(new)}, the tokenizer is "
            f"{_family(old)}; train it with the tokenizer's own model and pre-tokenizer"
        )
    tokens, merges = sorted(new.vocab, key=new.vocab.get), new.pairs()
    if method == "thesis" and not old.wordpiece:
        tokens, merges = _thesis_order(tokens, merges, old)
    excluded = old.all_ids.keys() | new.added.keys()
    tokens = [token for token in tokens if token not in excluded]
    if n_tokens is not None and positive("n_tokens", n_tokens, 0) > len(tokens):
        raise ValueError(
            f"asked for {n_tokens:,} tokens; the supplement has {len(tokens):,} that the vocabulary "
            "lacks: ask for at most these, or train a larger one"
        )
    return Extension(tokens[:n_tokens], merges)


def _thesis_order(
    tokens: list[str], merges: list[tuple[str, str]], old: TokenizerSpec
) -> tuple[list[str], list[tuple[str, str]]]:
    """New tokens and their merges by the thesis' Algorithms 8 and 9, from a supplement's."""
    characters = [token for token in tokens if len(token) == 1 and token not in old.vocab]
    new_tokens, new_merges, vocab = characters, [], {*old.vocab, *characters}
    for left, right in merges:
        token = left + right
        if token in vocab:
            continue
        if old.byte_level:
            new_merges.append((left, right))
        else:
            splits = ((token[:k], token[k:]) for k in range(1, len(token)))
            new_merges += (pair for pair in splits if vocab.issuperset(pair))
        vocab.add(token)
        new_tokens.append(token)
    return new_tokens, new_merges


def _family(spec: TokenizerSpec) -> str:
    if spec.wordpiece:
        return f"WordPiece with {spec.prefix!r}"
    return "byte-level BPE" if spec.byte_level else "BPE of characters (SentencePiece style)"


def extend(
    tokenizer: Tokenizer,
    extension: Extension,
    n_tokens: int | None = None,
    *,
    how: str = "append",
    corpus: Iterable[str] | Pretokens | None = None,
    supplement: Tokenizer | None = None,
    alpha: float = 0.5,
) -> Tokenizer:
    """Add the first ``n_tokens`` tokens of an extension (default: all) to a copy of a tokenizer.

    Old IDs stay; new IDs follow the largest in use. ``how`` is

    - ``append``: the extension's merges, if their parts and result are in the vocabulary, follow
      the old ones; an extension without merges is treated as by ``regenerate``;
    - ``regenerate``: every split of a new token into two tokens becomes a merge; these follow the
      old ones, in order of the new tokens, longer left part first (the paper's "regen");
    - ``prepend``: the merges of ``append`` precede the old ones; a merge in both moves forward;
    - ``add_tokens``: no merges; the library splits raw text at the tokens, inside words as well
      (its byte-level decoder misreads accented letters without a space before them).

    WordPiece has no merges and takes ``append`` only. Unigram takes ``append``, too; there the new
    pieces need scores, either from a ``corpus`` (documents or counts: by EM over all segmentations,
    with the old scores fixed, so that text without a new piece is segmented as before) or from a
    ``supplement`` (a Unigram tokenizer that has all of them: old and new pieces get the logarithm of
    ``alpha * exp(score there) + (1 - alpha) * exp(score here)``).

    A ``TokenizerSpec`` gives a ``TokenizerSpec`` at a fraction of the cost. Warns of tokens that the
    normalizer or pre-tokenizer breaks up in every text, whose bytes are not UTF-8, of a plain list those
    that no merges lead to, and with ``add_tokens`` those that cannot be added tokens, such as ``ė``, the
    string of a byte (none for a ``TokenizerSpec``). Raises ValueError for more tokens than there are,
    tokens that the vocabulary has already, duplicates, strings that cannot be tokens, an added token
    (``single_word``) whose place in the vocabulary would change old segmentations, an unknown ``how``,
    and for Unigram unless one of ``corpus`` and ``supplement`` is given; TypeError for anything but an
    ``Extension``.

    Source: Purason et al. 2025, section 3.1 and Appendix F; Unigram: Kudo 2018, section 3.2, and the
    interpolation of google/sentencepiece issue 822.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> extend(base, Extension(tokens=["bat"])).encode("bat bag").tokens
    ['bat', 'Ġba', 'g']
    >>> base = th.train_unigram(["hug pug hugs"] * 3, vocab_size=11, byte_fallback=False)
    >>> extend(base, Extension(["▁gush"]), corpus=["gush gush"]).encode("gush").tokens
    ['▁gush']
    """
    if (encoder := as_encoder(tokenizer)).kind == "Unigram":
        tokens = tokens_of(encoder, extension, [n_tokens], how)
        return extended_unigram(tokenizer, tokens, corpus, supplement, alpha)
    if corpus is not None or supplement is not None:
        raise ValueError("corpus and supplement give scores to Unigram's pieces: leave them out")
    spec = TokenizerSpec.from_tokenizer(tokenizer, wordpiece=True)
    extended = next(extended_by_sizes(spec, extension, [n_tokens], how=how))
    result = extended.to_type_of(tokenizer)
    tokens = [] if result is extended else list(extension.tokens[:n_tokens])
    for reason, dead in dead_tokens(spec, extended, tokens, extension, how).items():
        if dead:
            warnings.warn(
                f"{len(dead):,} of the {len(tokens):,} new tokens, first {dead[0]!r}, can never be "
                f"produced: {reason} (they take up IDs now)",
                stacklevel=2,
            )
    return result


def dead_tokens(
    spec: TokenizerSpec, extended: TokenizerSpec, tokens: list[str], extension: Extension, how: str
) -> dict[str, list[str]]:
    """List new tokens that no text can produce, by the reason and what to do about it.

    That merges do not lead to a token is expected of the naive method, and reported of plain lists only.
    """
    if how == "add_tokens":
        others = [t for t in spec.only_take_ids(tokens) if spec.text_of(t) is not None]
        return {"their text is the string of another token; leave them out": others}
    raw = zip(tokens, spec.raw(tokens) if spec.byte_level else [b""] * len(tokens), strict=True)
    broken = [t for t, of_token in raw if len(of_token) > 1 and completions(of_token) is None]
    split, unmerged = always_split(spec, tokens), []
    if not (extension.merges or spec.wordpiece or spec.merge_skipping):
        reached = extended.are_reached(tokens)
        unmerged = [t for t, is_reached in zip(tokens, reached, strict=True) if not is_reached]
    return {
        "their bytes are not UTF-8; make them of words with Extension.from_words": broken,
        "the normalizer changes them or the pre-tokenizer splits them in every text; leave them "
        "out": split,
        "no merges lead to them; make the extension with continue_bpe or Extension.from_words": [
            t for t in unmerged if t not in {*broken, *split}
        ],
    }


def always_split(spec: TokenizerSpec, tokens: Iterable[str]) -> list[str]:
    """List the tokens that the normalizer or pre-tokenizer changes or splits in every text.

    Each token's text is pre-tokenized alone, without its leading space, after a space, and next to a
    letter on either side. Tokens with an incomplete UTF-8 sequence are not tested.
    """
    cores = [token.removeprefix(spec.prefix) for token in tokens]
    texts = {core: text for core in cores if (text := spec.text_of(core)) is not None}
    contexts = [(t, t.removeprefix(" "), " " + t, "a" + t, t + "a") for t in texts.values()]
    pretokens = pretokenizer(json.dumps(spec.pipeline))(list(chain.from_iterable(contexts)))
    # without a pre-tokenizer, merges cross pre-token boundaries
    separator = "\0" if splits_text(spec.pipeline["pre_tokenizer"]) else ""
    split = set()
    for core, of_core in zip(texts, contexts, strict=True):
        pieces = list(islice(pretokens, len(of_core)))
        if not any(core in separator.join(of_text) for of_text in pieces):
            split.add(core)
    return [token for token, core in zip(tokens, cores, strict=True) if core in split]
