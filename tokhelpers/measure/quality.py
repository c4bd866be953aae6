"""How well a tokenizer does: compression, fertility, Rényi efficiency, unused and unreachable tokens."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..adapt.adaptbpe import AdaptBPE
from ..adapt.extension import Extension
from ..adapt.methods import extended_by_sizes
from ..text.corpora import Documents
from ..text.counting import counted
from ..text.pretokens import Pretokens
from ..tokenizer.library import Library, described, opened
from ..tokenizer.parts import (
    BYTE_TOKENS,
    Encoder,
    Parts,
    build_tokenizer,
    parts_with_skipping,
    read_parts,
)
from ..tokenizer.pretokenization import token_text
from ..tokenizer.segmentation import merges_of, segment, symbols_of, token_counts
from ..tokenizer.token_bytes import code_points, ends_inside, is_whole, raw_tokens


def unreachable(tokenizer: Tokenizer | Parts, tokens: Iterable[str] | None = None) -> list[str]:
    """List the tokens that no sequence of merges produces: the Self-Tokenization Test.

    Each token string is given to the model alone, without normalizer and pre-tokenizer, merge
    skipping off; a token that does not come back whole is unreachable by merges. Tries all
    ordinary tokens (special, added and byte-fallback tokens such as ``<0x0A>`` are left out), or
    ``tokens`` only. Returns the unreachable ones in order of their ids. Raises ValueError for
    tokens that are not in the vocabulary.

    Source: Purason et al. 2025, section 3.3.

    >>> from tokenizers import Tokenizer, models
    >>> unreachable(Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "ba": 3}, [("a", "b")])))
    ['ba']
    """
    parts = read_parts(tokenizer)
    if tokens is None:
        left_out = parts.added.keys() | (BYTE_TOKENS if parts.byte_fallback else ())
        tokens = [t for t in parts.vocab if t not in left_out]
    tokens = list(tokens)
    unknown = [token for token in tokens if token not in parts.vocab]
    if unknown:
        raise ValueError(
            f"{len(unknown):,} tokens are not in this tokenizer, first {unknown[0]!a:.60}: give token "
            "strings of its vocabulary, such as 'Ġcat' for a space and cat"
        )
    whole = whole_words(parts, symbols_of(tokens, parts))
    missed = (tokens[i] for i in np.flatnonzero(~whole))
    return sorted(missed, key=parts.vocab.__getitem__)


def whole_words(parts: Parts, start: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Say of each word, given by ``symbols_of``, whether merges make it one token."""
    _, offsets = segment(*start, merges_of(parts))
    return np.diff(offsets) == 1


def evaluate(
    tokenizer: Tokenizer | Parts | AdaptBPE,
    corpus: Iterable[str] | Pretokens,
    *,
    added: Sequence[str] = (),
) -> pd.Series:
    """Measure a tokenizer, or an AdaptBPE encoder, on a corpus.

    ``corpus`` iterates over documents (or maps them to counts), or is counts by this tokenizer's
    rules; ``added`` are token strings whose use is asked for. Special tokens in the text count as
    plain text, and none are put around it. Returns ``bytes_per_token`` and ``chars_per_token`` (of
    the text as given, in UTF-8), ``tokens_per_word`` (words stand between white space),
    ``renyi_efficiency`` (power 2.5, over the tokens produced), ``partial_tokens`` (share of the
    tokens that hold part of a character), ``split_characters`` (share of the text's characters cut
    across tokens), ``unused_added`` (share of ``added`` never produced), ``tokens``, ``words``,
    ``chars`` and ``bytes``; a share of nothing is NaN. Raises ValueError for an empty corpus, and for
    counts where the tokenizer has added tokens that are not special: they cut raw text; and for text
    with characters that the tokenizer drops, as it has no token for them.

    Source: Purason et al. 2025, sections 4.1 and 5; Zouhar et al. 2023 for the efficiency. Fewer
    tokens do not make a better model (Schmidt et al. 2024), and the efficiency can be raised at
    will (Cognetta et al. 2024).

    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> evaluate(tokenizer, ["bat bat"], added=["ba"])[["bytes_per_token", "unused_added"]].tolist()
    [1.4, 0.0]
    """
    encoder = tokenizer if isinstance(tokenizer, AdaptBPE) else None
    tokenizer = encoder.parts if encoder else opened(tokenizer)
    corpus = measurable(corpus, tokenizer)
    words = counted(corpus, tokenizer)
    if isinstance(tokenizer, Parts):
        _check_dropped(tokenizer, words)
    if corpus is not words:
        counts = _counts_in_text(encoder or tokenizer, corpus, words.rules)
    else:
        counts = encoder.token_counts(words) if encoder else token_counts(tokenizer, words)
    partial = _partial(tokenizer, np.flatnonzero(counts).tolist())
    return _measures(words, counts, _ids_of(tokenizer, added), partial)


def _check_dropped(parts: Parts, words: Pretokens) -> None:
    """Refuse a text of which the tokenizer would drop characters: they would count as compressed."""
    model = parts.settings["model"]
    if model.get("unk_token") is not None or model.get("byte_fallback"):
        return
    there = np.flatnonzero(np.bincount(code_points(words.strings)[0]))
    dropped = [chr(code) for code in there.tolist() if chr(code) not in parts.alphabet]
    if dropped:
        word = next(word for word in words.words if dropped[0] in word)
        raise ValueError(
            f"this tokenizer has no token for {len(dropped)} of the text's characters and would drop "
            f"them, {dropped[0]!r} in {word!r:.40} the first: leave such text out"
        )


def measurable(
    corpus: Iterable[str] | Pretokens, tokenizer: Tokenizer | Parts
) -> Iterable[str] | Pretokens:
    """Count a text, if ``evaluate`` can do with counts, so that it is counted once for many calls.

    Where the tokenizer has added tokens that are not special, which cut raw text, the documents are
    returned, in a list if they could be read only once. Raises ValueError for counts then.

    >>> base = th.train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> measurable(["bat"], base)
    Pretokens(1 unique, 1 in all)
    """
    if not described(tokenizer).cuts_text:
        return counted(corpus, tokenizer)
    if isinstance(corpus, Pretokens):
        raise ValueError(
            "this tokenizer has added tokens, which cut raw text: give documents, not counts"
        )
    return list(corpus) if isinstance(corpus, Iterator) else corpus


def _partial(encoder: Encoder, ids: Iterable[int]) -> dict[int, bool]:
    """Which tokens hold part of a character, and whether one begins in them and is cut."""
    name = encoder.tokens.get
    raw = zip(ids, raw_tokens([name(i, "") for i in ids], encoder), strict=True)
    return {i: ends_inside(token) for i, token in raw if not is_whole(token)}


@lru_cache(maxsize=5)  # as many as `read_parts` remembers
def _partial_in(parts: Parts) -> dict[int, bool]:
    return _partial(parts, parts.tokens)


def _measures(words: Pretokens, counts, added: Sequence[int], partial: Mapping[int, bool]):
    """What ``evaluate`` returns, from the counts of a text's tokens; ``added`` are ids."""
    # a character that is cut across tokens begins in one of them, so these tokens are counted
    begun = [i for i, begins in partial.items() if begins]
    total = int(counts.sum())

    def share(number: int, of: int) -> float:
        return number / of if of else float("nan")

    return pd.Series(
        {
            "bytes_per_token": share(words.bytes, total),
            "chars_per_token": share(words.chars, total),
            "tokens_per_word": share(total, words.spaced_words),
            "renyi_efficiency": renyi_efficiency(counts),
            "partial_tokens": share(int(counts[list(partial)].sum()), total),
            "split_characters": share(int(counts[begun].sum()), words.chars),
            "unused_added": share(int((counts[added] == 0).sum()), len(added)),
            "tokens": total,
            "words": words.spaced_words,
            "chars": words.chars,
            "bytes": words.bytes,
        }
    )


def _counts_in_text(encoder: Encoder | AdaptBPE, corpus, rules: str) -> np.ndarray:
    """Count tokens by encoding whole documents, as is needed when added tokens cut raw text."""
    texts, times = zip(*Documents(corpus, rules), strict=True)
    size = getattr(encoder, "parts", encoder).next_id
    if isinstance(encoder, Parts):
        encoder = Library(build_tokenizer(encoder))
    counts = np.zeros(size, np.int64)
    for some, n in zip(encoder.ids_batch(texts), times, strict=True):
        np.add.at(counts, some, n)
    return counts


def _ids_of(encoder: Encoder, tokens: Sequence[str]) -> list[int]:
    """Ids of tokens, whether they stand in the vocabulary or among the added tokens."""
    known, vocab = encoder.added, encoder.vocab
    ids = [vocab[t] if t in vocab else known.get(token_text(encoder, t)) for t in tokens]
    if None in ids:
        missing = [t for i, t in zip(ids, tokens, strict=True) if i is None]
        raise ValueError(
            f"{len(missing):,} of the added tokens are not in this tokenizer, first {missing[0]!r}: "
            "give the tokens with which it was extended"
        )
    return ids


def renyi_efficiency(counts: np.ndarray, power: float = 2.5) -> float:
    """Compute the Rényi efficiency of a token distribution.

    That is its Rényi entropy over the entropy of a uniform distribution: with the shares p of the
    n tokens that occur, log(sum(p ** power)) / (1 - power) / log(n). 1 is uniform. ``counts`` is
    an array of how often each token occurs; the result is NaN where fewer than two do.

    Source: Zouhar et al. 2023; Purason et al. 2025 use power 2.5.

    >>> round(renyi_efficiency(np.array([1, 1, 0, 1, 1])), 12)
    1.0
    """
    seen = np.sort(counts[counts > 0])
    if len(seen) < 2:
        return float("nan")
    shares = seen / seen.sum()
    return float(np.log(np.sum(shares**power)) / (1 - power) / np.log(len(seen)))


def evaluate_sizes(
    tokenizer: Tokenizer | Parts,
    methods: Mapping[str, tuple[Extension, str]],
    sizes: Sequence[int],
    test: Iterable[str] | Pretokens,
    *,
    skipping: Sequence[bool] = (),
) -> pd.DataFrame:
    """Measure several extensions of a tokenizer at several sizes, without building each one.

    ``methods`` maps a name to an extension and the ``how`` of ``extend``; ``test`` is a text
    or counts of it, as for ``evaluate``.
    Returns one row per name and size: ``method`` (the name), ``added`` (tokens), what ``evaluate``
    measures, and ``unreachable_added`` (how many of the added tokens no merges produce). With
    ``skipping`` there is one row for each, with merge skipping switched so, and said in the column
    ``merge_skipping``.

    >>> base = th.train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> methods = {"list": (Extension(tokens=["bat", "ag"]), "append")}
    >>> table = evaluate_sizes(base, methods, [0, 2], th.count_pretokens(["bag bat"], base))
    >>> table[["method", "added", "unreachable_added"]].values.tolist()
    [['list', 0, 0], ['list', 2, 0]]
    """
    base = read_parts(tokenizer)
    test = list(test) if isinstance(test, Iterator) else test
    texts = test, counted(test, base)
    by_method = [
        _rows_of(base, method, extension, how, sizes, texts, skipping)
        for method, (extension, how) in methods.items()
    ]
    return pd.DataFrame(chain.from_iterable(chain.from_iterable(zip(*by_method, strict=True))))


def _rows_of(base: Parts, method, extension, how, sizes, texts, skipping) -> Iterator[list[dict]]:
    """The rows of one method, size by size; the texts are the one to measure on and its counts."""
    test, words = texts
    extended = extended_by_sizes(base, extension, sizes, how=how)
    added = extension.tokens[: max(sizes, default=0)]
    begun, tokens = (_begun(base, strings, how) for strings in (words.strings, added))
    for size, new in zip(sizes, extended, strict=True):
        ids = _ids_of(new, added[:size])
        symbols, offsets = tokens(new)
        missed = int((~whole_words(new, (symbols, offsets[: size + 1]))).sum())
        rows = []
        for switch in skipping or [new.merge_skipping]:
            switched = parts_with_skipping(new, switch)
            if new.cuts_text:
                measures = evaluate(switched, test, added=added[:size])
            else:
                counts = token_counts(switched, words, start=begun(new))
                used = base.next_id + np.flatnonzero(counts[base.next_id :])
                partial = _partial_in(base) | _partial(new, used.tolist())
                measures = _measures(words, counts, ids, partial)
            row = {"method": method, "added": size, **measures, "unreachable_added": missed}
            rows.append(row | {"merge_skipping": switch} if skipping else row)
        yield rows


def _begun(base: Parts, words: Sequence[str], how: str) -> Callable[[Parts], tuple]:
    """A function that gives words, flat, from which a longer tokenizer's merges may begin.

    Where its merges are those of `base`, then others, words can begin as `base` leaves them, found
    once as long as no character joins the alphabet.
    """
    known = {}

    def of(longer: Parts) -> tuple[np.ndarray, np.ndarray]:
        if how == "prepend":
            return symbols_of(words, longer)
        size = len(longer.alphabet)
        if size not in known:
            known[size] = segment(*symbols_of(words, longer), merges_of(base))
        return known[size]

    return of
