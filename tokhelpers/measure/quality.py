"""Evaluate a tokenizer: compression, fertility, Rényi efficiency, unused and unreachable tokens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..adapt.extension import Extension
from ..adapt.methods import extended_by_sizes
from ..text.corpora import documents_of
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.encoder import Encoder
from ..tokenizer.library_encoder import as_encoder, open_tokenizer
from ..tokenizer.pretokenization import pretokenizer_only
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import BYTE_TOKENS, ends_inside, is_utf8
from .words import count_words, spaced

POWER = 2.5  # of the Rényi efficiency


def unreachable_tokens(
    tokenizer: Tokenizer | TokenizerSpec, tokens: Iterable[str] | None = None
) -> list[str]:
    """List the tokens that are unreachable by merges: the Self-Tokenization Test.

    Others can be never produced by text all the same, as their text is always split: see
    ``reachability``.

    Each token string is given to the model alone, without normalizer, pre-tokenizer and merge
    skipping; a token that is not encoded as itself is unreachable. By default all ordinary tokens
    are tested (no special, added, unknown or byte-fallback tokens such as ``<0x0A>``), else ``tokens``.
    Returns the unreachable ones in order of their IDs. Raises ValueError for tokens that are not in
    the vocabulary.

    Source: Purason et al. 2025, section 3.3.

    >>> from tokenizers import Tokenizer, models
    >>> unreachable_tokens(Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "ba": 3}, [("a", "b")])))
    ['ba']
    """
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    if tokens is None:
        excluded = {*spec.added, spec.unk_token, *(BYTE_TOKENS if spec.byte_fallback else ())}
        tokens = [t for t in spec.vocab if t not in excluded]
    tokens = list(tokens)
    if missing := [token for token in tokens if token not in spec.vocab]:
        raise ValueError(
            f"{len(missing):,} tokens are not in this tokenizer, first {missing[0]!a:.60}: give token "
            "strings of its vocabulary, such as 'Ġcat' for a space and cat"
        )
    unreachable = (tokens[i] for i in np.flatnonzero(~spec.are_reached(tokens)))
    return sorted(unreachable, key=spec.vocab.__getitem__)


def evaluate(
    tokenizer: Tokenizer | Encoder,
    corpus: Iterable[str] | Pretokens,
    *,
    added: Sequence[str] = (),
) -> pd.Series:
    """Evaluate a tokenizer, or an ``AdaptBPE`` encoder, on a corpus.

    ``corpus`` is documents (or a mapping of documents to counts), or counts by this tokenizer's
    rules. Special tokens in the text count as plain text, and none are added. Returns a Series:

    - ``bytes_per_token``, ``chars_per_token``: of the original text, in UTF-8;
    - ``tokens_per_word``: fertility; words are separated by white space;
    - ``renyi_efficiency``: of the token distribution, power 2.5;
    - ``partial_tokens``: the share of tokens with an incomplete UTF-8 sequence;
    - ``split_characters``: the share of characters whose bytes are in several tokens;
    - ``unused_added``: the share of ``added`` (token strings) that does not occur;
    - ``tokens``, ``words``, ``chars``, ``bytes``: totals. A share of nothing is NaN.

    Raises ValueError for an empty corpus; for counts if the tokenizer has added tokens that are not
    special, as these split raw text; and for characters that the tokenizer would drop.

    Source: Purason et al. 2025, sections 4.1 and 5; Zouhar et al. 2023 for the efficiency. Fewer
    tokens do not make a better model (Schmidt et al. 2024), and the efficiency can be raised at
    will (Cognetta et al. 2024).

    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> evaluate(tokenizer, ["bat bat"], added=["ba"])[["bytes_per_token", "unused_added"]].tolist()
    [1.4, 0.0]
    """
    encoder = open_tokenizer(tokenizer)
    corpus = measurable(corpus, encoder)
    if encoder.splits_at_added:  # which are text as well: it may consist of them
        words = count_pretokens(corpus, pretokenizer_only(encoder.pretokenizer_config))
        counts = _counts_in_text(encoder, corpus, words.pretokenizer_config)
    else:
        words = count_pretokens(corpus, encoder)
        counts = encoder.count_tokens(words)
    return _measures(words, counts, _ids_of(encoder, added), encoder)


def measurable(
    corpus: Iterable[str] | Pretokens, tokenizer: Tokenizer | Encoder
) -> Iterable[str] | Pretokens:
    """Prepare a corpus for many calls of ``evaluate``: count it once, if counts suffice.

    If the tokenizer has added tokens that are not special, which split raw text, the documents are
    returned, an iterator as a list; for counts, ValueError is raised then.

    >>> base = th.train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> measurable(["bat"], base)
    Pretokens(1 unique, 1 in all)
    """
    if not as_encoder(tokenizer).splits_at_added:
        return count_pretokens(corpus, tokenizer)
    if isinstance(corpus, Pretokens):
        raise ValueError(
            "this tokenizer has added tokens, which split raw text: give documents, not counts"
        )
    return list(corpus) if isinstance(corpus, Iterator) else corpus


def _measures(words: Pretokens, counts, added: Sequence[int], encoder: Encoder) -> pd.Series:
    """What ``evaluate`` returns, from a text's token counts (by ID) and the IDs of added tokens."""
    total, used = int(counts.sum()), np.flatnonzero(counts).tolist()
    raw = zip(used, encoder.raw([encoder.tokens.get(i, "") for i in used]), strict=True)
    partial = {i: token for i, token in raw if not is_utf8(token)}
    # a character that is split across tokens starts in exactly one of them
    unfinished = [i for i, token in partial.items() if ends_inside(token)]

    def share(number: int, of: int) -> float:
        return number / of if of else float("nan")

    return pd.Series(
        {
            "bytes_per_token": share(words.bytes, total),
            "chars_per_token": share(words.chars, total),
            "tokens_per_word": share(total, words.spaced_words),
            "renyi_efficiency": renyi_efficiency(counts),
            "partial_tokens": share(int(counts[list(partial)].sum()), total),
            "split_characters": share(int(counts[unfinished].sum()), words.chars),
            "unused_added": share(int((counts[added] == 0).sum()), len(added)),
            "tokens": total,
            "words": words.spaced_words,
            "chars": words.chars,
            "bytes": words.bytes,
        }
    )


def _counts_in_text(encoder: Encoder, corpus, rules: str) -> np.ndarray:
    """Count tokens by encoding whole documents, as added tokens that split raw text require."""
    texts, times = zip(*documents_of(corpus, rules), strict=True)
    counts = np.zeros(encoder.next_id, np.int64)
    for ids, n in zip(encoder.ids_batch(texts), times, strict=True):
        np.add.at(counts, ids, n)
    return counts


def _ids_of(encoder: Encoder, tokens: Sequence[str]) -> list[int]:
    """The IDs of token strings, in the vocabulary or among the added tokens."""
    added, vocab = encoder.added, encoder.vocab
    ids = [vocab[t] if t in vocab else added.get(encoder.text_of(t)) for t in tokens]
    if None in ids:
        missing = [t for i, t in zip(ids, tokens, strict=True) if i is None]
        raise ValueError(
            f"{len(missing):,} of the added tokens are not in this tokenizer, first {missing[0]!r}: "
            "give the tokens that it was extended by"
        )
    return ids


def renyi_efficiency(counts: np.ndarray) -> float:
    """Compute the Rényi efficiency of a token distribution.

    It is the Rényi entropy of order 2.5 over the entropy of a uniform distribution: with the shares
    p of the n tokens that occur, log(sum(p ** 2.5)) / (1 - 2.5) / log(n). A uniform distribution has
    1. ``counts`` is an array of token counts; NaN if fewer than two tokens occur.

    Source: Zouhar et al. 2023; the order is that of Purason et al. 2025.

    >>> round(renyi_efficiency(np.array([1, 1, 0, 1, 1])), 12)
    1.0
    """
    positive = np.sort(counts[counts > 0])
    if len(positive) < 2:
        return float("nan")
    shares = positive / positive.sum()
    return float(np.log(np.sum(shares**POWER)) / (1 - POWER) / np.log(len(positive)))


def evaluate_sizes(
    tokenizer: Tokenizer | TokenizerSpec,
    methods: Mapping[str, tuple[Extension, str]],
    sizes: Sequence[int],
    test: Iterable[str] | Pretokens,
    *,
    skipping: Sequence[bool] = (),
) -> pd.DataFrame:
    """Evaluate several extensions of a tokenizer at several sizes, without building each one.

    ``methods`` maps a name to an extension and the ``how`` of ``extend``; ``test`` is a corpus or
    counts, as for ``evaluate``. Returns one row per name and size: ``method`` (the name), ``added``
    (tokens), the measures of ``evaluate``, and ``unreachable_added`` (the number of added tokens
    that merges do not produce). With ``skipping``, each row is repeated with merge skipping set to
    each of its values, in the column ``merge_skipping``.

    >>> base = th.train_byte_level_bpe(["bat bat bag"], vocab_size=257)
    >>> methods = {"list": (Extension(tokens=["bat", "ag"]), "append")}
    >>> table = evaluate_sizes(base, methods, [0, 2], th.count_pretokens(["bag bat"], base))
    >>> table[["method", "added", "unreachable_added"]].values.tolist()
    [['list', 0, 0], ['list', 2, 0]]
    """
    base = TokenizerSpec.from_tokenizer(tokenizer)
    test = list(test) if isinstance(test, Iterator) else test
    words, rows = count_pretokens(test, base), []
    extended = [extended_by_sizes(base, e, sizes, how=how) for e, how in methods.values()]
    for size, *specs in zip(sizes, *extended, strict=True):
        for (method, (extension, _)), spec in zip(methods.items(), specs, strict=True):
            added = extension.tokens[:size]
            unreachable = int((~spec.are_reached(added)).sum())
            for enabled in skipping or [spec.merge_skipping]:
                encoder = spec.with_skipping(enabled)
                measures = evaluate(
                    encoder, test if encoder.splits_at_added else words, added=added
                )
                rows.append({"method": method, "added": len(added), **measures})
                rows[-1] |= {"unreachable_added": unreachable, "merge_skipping": enabled}
    table = pd.DataFrame(rows)
    return table if skipping else table.drop(columns="merge_skipping", errors="ignore")


# --- per word: a run of letters, marks and digits, as in count_words -------------------------------
def word_lengths(tokenizer: Tokenizer | Encoder, words: Iterable[str]) -> np.ndarray:
    """Count the tokens of each word, preceded by a space; returns an int64 array.

    Raises TypeError for anything but a tokenizer.

    >>> word_lengths(th.train_byte_level_bpe(["bag bat bat"], vocab_size=258), ["bat", "bag"])
    array([2, 2])
    """
    encoder = open_tokenizer(tokenizer)
    return np.array(list(map(len, encoder.ids_batch(spaced(words, encoder)))), np.int64)


def fragment_score(tokenizer: Tokenizer | Encoder, corpus: Iterable[str]) -> float:
    """Compute the average number of tokens per word, over all occurrences of words.

    ``tokenizer`` may be an ``AdaptBPE`` encoder; merge skipping and added tokens are as it has them.
    ``corpus`` is documents, or a mapping of documents (or words) to counts. A word is a run of
    letters, marks and digits, tokenized after a space. Raises ValueError for a corpus without words.

    Source: Balde et al. 2024, section 1; Rust et al. 2021.

    >>> fragment_score(th.train_byte_level_bpe(["bag bat bat"], vocab_size=258), ["bat bag, bat"])
    2.0
    """
    words = count_words(corpus)
    return float(np.average(word_lengths(tokenizer, words), weights=list(words.values())))
