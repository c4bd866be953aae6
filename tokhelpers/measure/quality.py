"""How well a tokenizer does: compression, fertility, Rényi efficiency, unused and unreachable tokens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..adapt.extension import Extension
from ..adapt.methods import extended_by_sizes
from ..adapt.selection import count_words, spaced
from ..text.corpora import documents_of
from ..text.counting import ensure_counts
from ..text.pretokens import Pretokens
from ..tokenizer.encoder import Encoder
from ..tokenizer.library import described, opened
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import BYTE_TOKENS, ends_inside, is_whole

POWER = 2.5  # of the Rényi efficiency


def unreachable_tokens(
    tokenizer: Tokenizer | TokenizerSpec, tokens: Iterable[str] | None = None
) -> list[str]:
    """List the tokens that no sequence of merges produces: the Self-Tokenization Test.

    Each token string is given to the model alone, without normalizer and pre-tokenizer, merge
    skipping off; a token that does not come back whole is unreachable by merges. Tries all
    ordinary tokens (special, added and byte-fallback tokens such as ``<0x0A>`` are left out), or
    ``tokens`` only. Returns the unreachable ones in order of their ids. Raises ValueError for
    tokens that are not in the vocabulary.

    Source: Purason et al. 2025, section 3.3.

    >>> from tokenizers import Tokenizer, models
    >>> unreachable_tokens(Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "ba": 3}, [("a", "b")])))
    ['ba']
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    if tokens is None:
        left_out = spec.added.keys() | (BYTE_TOKENS if spec.byte_fallback else ())
        tokens = [t for t in spec.vocab if t not in left_out]
    tokens = list(tokens)
    unknown = [token for token in tokens if token not in spec.vocab]
    if unknown:
        raise ValueError(
            f"{len(unknown):,} tokens are not in this tokenizer, first {unknown[0]!a:.60}: give token "
            "strings of its vocabulary, such as 'Ġcat' for a space and cat"
        )
    missed = (tokens[i] for i in np.flatnonzero(~spec.whole(tokens)))
    return sorted(missed, key=spec.vocab.__getitem__)


def evaluate(
    tokenizer: Tokenizer | Encoder,
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
    encoder = opened(tokenizer)
    corpus = measurable(corpus, encoder)
    words = ensure_counts(corpus, encoder)
    if encoder.cuts_text:
        counts = _counts_in_text(encoder, corpus, words.pretokenizer_config)
    else:
        counts = encoder.count_tokens(words)
    return _measures(words, counts, _ids_of(encoder, added), encoder)


def measurable(
    corpus: Iterable[str] | Pretokens, tokenizer: Tokenizer | Encoder
) -> Iterable[str] | Pretokens:
    """Count a text, if ``evaluate`` can do with counts, so that it is counted once for many calls.

    Where the tokenizer has added tokens that are not special, which cut raw text, the documents are
    returned, in a list if they could be read only once. Raises ValueError for counts then.

    >>> base = th.train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> measurable(["bat"], base)
    Pretokens(1 unique, 1 in all)
    """
    if not described(tokenizer).cuts_text:
        return ensure_counts(corpus, tokenizer)
    if isinstance(corpus, Pretokens):
        raise ValueError(
            "this tokenizer has added tokens, which cut raw text: give documents, not counts"
        )
    return list(corpus) if isinstance(corpus, Iterator) else corpus


def _measures(words: Pretokens, counts, added: Sequence[int], encoder: Encoder) -> pd.Series:
    """What ``evaluate`` returns, from the counts of a text's tokens; ``added`` are ids."""
    total, used = int(counts.sum()), np.flatnonzero(counts).tolist()
    raw = zip(used, encoder.raw([encoder.tokens.get(i, "") for i in used]), strict=True)
    partial = {i: token for i, token in raw if not is_whole(token)}
    # a character that is cut across tokens begins in one of them, so these tokens are counted
    begun = [i for i, token in partial.items() if ends_inside(token)]

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


def _counts_in_text(encoder: Encoder, corpus, rules: str) -> np.ndarray:
    """Count tokens by encoding whole documents, as is needed when added tokens cut raw text."""
    texts, times = zip(*documents_of(corpus, rules), strict=True)
    counts = np.zeros(encoder.next_id, np.int64)
    for ids, n in zip(encoder.ids_batch(texts), times, strict=True):
        np.add.at(counts, ids, n)
    return counts


def _ids_of(encoder: Encoder, tokens: Sequence[str]) -> list[int]:
    """Ids of tokens, whether they stand in the vocabulary or among the added tokens."""
    known, vocab = encoder.added, encoder.vocab
    ids = [vocab[t] if t in vocab else known.get(encoder.text_of(t)) for t in tokens]
    if None in ids:
        missing = [t for i, t in zip(ids, tokens, strict=True) if i is None]
        raise ValueError(
            f"{len(missing):,} of the added tokens are not in this tokenizer, first {missing[0]!r}: "
            "give the tokens with which it was extended"
        )
    return ids


def renyi_efficiency(counts: np.ndarray) -> float:
    """Compute the Rényi efficiency of a token distribution.

    That is its Rényi entropy over the entropy of a uniform distribution: with the shares p of the
    n tokens that occur, log(sum(p ** 2.5)) / (1 - 2.5) / log(n). 1 is uniform. ``counts`` is an
    array of how often each token occurs; the result is NaN where fewer than two do.

    Source: Zouhar et al. 2023; the power is that of Purason et al. 2025.

    >>> round(renyi_efficiency(np.array([1, 1, 0, 1, 1])), 12)
    1.0
    """
    seen = np.sort(counts[counts > 0])
    if len(seen) < 2:
        return float("nan")
    shares = seen / seen.sum()
    return float(np.log(np.sum(shares**POWER)) / (1 - POWER) / np.log(len(seen)))


def evaluate_sizes(
    tokenizer: Tokenizer | TokenizerSpec,
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
    base = TokenizerSpec.from_tokenizer(tokenizer)
    test = list(test) if isinstance(test, Iterator) else test
    words, rows = ensure_counts(test, base), []
    for method, added, longer in _extended(base, methods, sizes):
        missed = int((~longer.whole(added)).sum())
        for switch in skipping or [longer.merge_skipping]:
            encoder = longer.with_skipping(switch)
            measures = evaluate(encoder, test if encoder.cuts_text else words, added=added)
            rows.append({"method": method, "added": len(added), **measures})
            rows[-1] |= {"unreachable_added": missed, "merge_skipping": switch}
    table = pd.DataFrame(rows)
    return table if skipping else table.drop(columns="merge_skipping", errors="ignore")


def _extended(
    base: TokenizerSpec, methods, sizes
) -> Iterator[tuple[str, Sequence[str], TokenizerSpec]]:
    """The extended tokenizers, size by size, each with its method's name and its new tokens."""
    made = [extended_by_sizes(base, e, sizes, how=how) for e, how in methods.values()]
    for size, *several in zip(sizes, *made, strict=True):
        for (name, (extension, _)), longer in zip(methods.items(), several, strict=True):
            yield name, extension.tokens[:size], longer


# --- of words, which are runs of letters, marks and digits, as in adapt.count_words ---------------
def word_lengths(tokenizer: Tokenizer | Encoder, words: Iterable[str]) -> np.ndarray:
    """Count the tokens of each word, with one space before it: an int64 array in order of the words.

    Raises TypeError for anything but a tokenizer.

    >>> word_lengths(th.train_byte_level_bpe(["bag bat bat"], vocab_size=258), ["bat", "bag"])
    array([2, 2])
    """
    encoder = opened(tokenizer)
    return np.array(list(map(len, encoder.ids_batch(spaced(words, encoder)))), np.int64)


def fragment_score(tokenizer: Tokenizer | Encoder, corpus: Iterable[str]) -> float:
    """Compute the average number of tokens per word, each word counted as often as it occurs.

    ``tokenizer`` encodes as it is set (merge skipping, added tokens), or is an AdaptBPE encoder.
    ``corpus`` iterates over documents, or maps documents (or words) to counts. A word is a run of
    letters, marks and digits, tokenized with a space before it. Raises ValueError for a corpus
    without words.

    Source: Balde et al. 2024, section 1; Rust et al. 2021.

    >>> fragment_score(th.train_byte_level_bpe(["bag bat bat"], vocab_size=258), ["bat bag, bat"])
    2.0
    """
    words = count_words(corpus)
    return float(np.average(word_lengths(tokenizer, words), weights=list(words.values())))
