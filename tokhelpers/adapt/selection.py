"""Which tokens a domain needs, by the fragment score: AVocaDo's growth and MEDVOC's search.

A word is a run of letters, marks and digits. It is tokenized as inside a sentence: alone, with a
space before it. Balde et al. 2024 say "word" and "unigram" and leave open what these are. With this
choice, words are the same for every tokenizer, punctuation belongs to none, and the parts of a
hyphenated word count one by one.
"""

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import product

import pandas as pd
import regex
from tokenizers import Tokenizer

from ..text.corpora import documents_of
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.encoder import Encoder
from ..tokenizer.pretokenization import library_cutter
from ..tokenizer.segmentation import initial_ids
from ..tokenizer.spec import TokenizerSpec
from ..train.merges import learn_vocabulary
from .adaptbpe import adapt_bpe
from .extension import Extension
from .methods import extended_by_sizes

find_words = regex.compile(r"[\p{L}\p{M}\p{N}\u200c\u200d]+").findall  # and joiners, as in Persian


def count_words(corpus: Iterable[str]) -> dict[str, int]:
    """Count the words of a corpus, in order of their first occurrence.

    ``corpus`` iterates over documents, or maps them to counts. Raises TypeError for one string and
    for counted pre-tokens, ValueError for a corpus without words.

    >>> count_words(["Beta-blockers, beta 2"])
    {'Beta': 1, 'blockers': 1, 'beta': 1, '2': 1}
    """
    if isinstance(corpus, str):
        raise TypeError("a corpus is an iterable of documents, got one string: put it in a list")
    if isinstance(corpus, Pretokens):
        raise TypeError("these are counts of pre-tokens, which are no words: give the documents")
    words = Counter()
    for document, n in documents_of(corpus):
        for word in find_words(document):
            words[word] += n
    if not words:
        raise ValueError("the corpus has no words, that is no letters or digits: bring more text")
    return dict(words)


def spaced(words: Iterable[str], encoder: Encoder) -> list[str]:
    """Put a space before each word, unless the tokenizer itself puts one there."""
    space = " " if library_cutter(encoder.rules)("a") == ["a"] else ""
    return [space + word for word in words]


# --- searching for the tokens to add -------------------------------------------------------------
def _pretokens(words: dict[str, int], spec: TokenizerSpec) -> Pretokens:
    """The pre-tokens of words, each with one space before it; a document is a word."""
    return count_pretokens(dict(zip(spaced(words, spec), words.values(), strict=True)), spec)


def _score(encoder: Encoder, words: Pretokens) -> float:
    """The fragment score of words, by their pre-tokens."""
    return float(encoder.count_tokens(words).sum() / words.documents)


def _learned(words: Pretokens, spec: TokenizerSpec, n_tokens: int) -> Extension:
    """The first tokens that the vocabulary lacks of a BPE vocabulary trained on words alone."""
    tokens, merges, frequencies = learn_vocabulary(
        *initial_ids(words.strings, spec),
        words.counts,
        spec.vocab,
        n_tokens,
        valid=lambda token: "<" not in token,  # of byte tokens, <0x41>; no word holds it
    )
    learned = _beginning(Extension(tokens, merges, frequencies), len(tokens))
    return replace(learned, continued=True)


def _beginning(extension: Extension, n: int) -> Extension:
    """The first tokens of a learned extension, and the merges up to the last of them."""
    tokens = list(extension.tokens[:n])
    made = {}
    for i, (left, right) in enumerate(extension.merges):
        made.setdefault(left + right, i)
    last = max((made[token] + 1 for token in tokens), default=0)
    return Extension(tokens, extension.merges[:last], extension.frequencies[:last])


def _split_words(words: dict[str, int], encoder: Encoder, most: int) -> dict[str, int]:
    """The words that the tokenizer splits into more than ``most`` tokens, and their counts."""
    ids = encoder.ids_batch(spaced(words, encoder))
    return {word: n for (word, n), k in zip(words.items(), ids, strict=True) if len(k) > most}


def avocado(
    tokenizer: Tokenizer,
    corpus: Iterable[str],
    *,
    threshold: float = 2.0,
    step: int = 100,
    max_tokens: int = 10_000,
    how: str = "append",
) -> tuple[Extension, pd.DataFrame]:
    """Add a domain's tokens until its hard words have few enough tokens, as AVocaDo does.

    The hard words are those that the tokenizer splits into more than two tokens. A BPE vocabulary is
    trained on them; the tokens that the tokenizer lacks are added, ``step`` at a time, while the
    fragment score of the hard words is above ``threshold``. ``how`` is the method by which they are
    added when the score is measured: ``append``, ``regenerate`` or ``prepend`` of ``extend``, or
    ``adapt`` for AdaptBPE. Returns the extension and a table with one row per step: ``added``,
    ``fragment_score``. Warns when ``max_tokens``, or all there are, do not reach the threshold.
    Raises ValueError for another ``how``, numbers below 1, and a corpus without words.

    Source: Balde et al. 2024, section 2, on Hong et al. 2021. They leave open the threshold, the
    step, whether a word weighs by its occurrences and how scores are measured: our choice.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> extension, table = avocado(base, ["a goat, a goat"], threshold=1, step=2)
    >>> extension.tokens, table.fragment_score.tolist()
    (['at', 'go', 'Ġgo', 'Ġgoat'], [5.0, 3.0, 1.0])
    """
    if how not in ("adapt", "append", "regenerate", "prepend"):
        raise ValueError(f"how={how!r}: use adapt, append, regenerate or prepend")
    if step < 1 or max_tokens < 1 or threshold < 1:
        raise ValueError(
            f"step={step}, max_tokens={max_tokens}, threshold={threshold}: give numbers from 1 on"
        )
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    hard = _split_words(count_words(corpus), spec, 2)
    if not hard:
        return Extension([]), pd.DataFrame({"added": [0], "fragment_score": [float("nan")]})
    words, rows = _pretokens(hard, spec), []
    candidates = _learned(words, spec, max_tokens)
    there = len(candidates.tokens)
    sizes = [min(n, there) for n in range(0, there + step, step)]
    if how == "adapt":
        encoders = (adapt_bpe(spec, candidates.tokens[:n]) for n in sizes)
    else:
        encoders = extended_by_sizes(spec, candidates, sizes, how=how)
    for n, encoder in zip(sizes, encoders, strict=False):
        score = _score(encoder, words)
        rows.append((n, score))
        if score <= threshold:
            break
    else:
        warnings.warn(
            f"the fragment score is {score:.2f} after all {n:,} tokens, above the threshold "
            f"{threshold}: raise max_tokens or the threshold",
            stacklevel=2,
        )
    return _beginning(candidates, n), pd.DataFrame(rows, columns=["added", "fragment_score"])


def medvoc(
    tokenizer: Tokenizer,
    corpus: Iterable[str],
    target: Iterable[str],
    *,
    sizes: Sequence[int] = (0, 1_000, 2_000, 4_000, 8_000),
    target_sizes: Sequence[int] = (0, 250, 500, 1_000, 2_000),
    terms: Collection[str] | None = None,
) -> tuple[Extension, pd.DataFrame]:
    """Choose how many tokens of a domain corpus and of the target's texts to add, as MEDVOC does.

    A BPE vocabulary is trained on the words of each text that the tokenizer splits; with ``terms``,
    on those among these (upper and lower case alike). For each pair of sizes the first tokens that
    the tokenizer lacks are joined, the target's first, and the fragment score of the target's words
    is measured, with the tokens appended. Of the pairs with the lowest score that with the fewest
    tokens is chosen. Returns the extension and a table with one row per pair: ``corpus_tokens``,
    ``target_tokens`` (fewer where the text yields fewer), ``added``, ``fragment_score``, ``chosen``.
    Raises ValueError for no or negative sizes, and for texts without words.

    Source: Balde et al. 2024, section 2, on Balde et al. 2024 (MEDVOC). They leave open the sizes,
    how the lists are joined, which text is scored (our choice) and which words are medical.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> extension, table = medvoc(base, ["a goat"], ["goat bag"], sizes=[0, 2], target_sizes=[0, 3])
    >>> table[["corpus_tokens", "target_tokens", "added"]].values.tolist()
    [[0, 0, 0], [0, 3, 3], [2, 0, 2], [2, 3, 4]]
    """
    if not sizes or not target_sizes or min(*sizes, *target_sizes) < 0:
        raise ValueError("sizes and target_sizes: give lists of numbers from 0 on")
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    wanted = None if terms is None else {term.casefold() for term in terms}
    learned = []
    for text, most in ((corpus, max(sizes)), (target, max(target_sizes))):
        words = count_words(text)
        split = _split_words(words, spec, 1)
        if wanted is not None:
            split = {word: n for word, n in split.items() if word.casefold() in wanted}
        found = _learned(_pretokens(split, spec), spec, most) if split else Extension([])
        learned.append(found)
    scored, rows, made = _pretokens(words, spec), [], []
    for size, target_size in product(sizes, target_sizes):
        own, wider = _beginning(learned[1], target_size), _beginning(learned[0], size)
        tokens = list(dict.fromkeys([*own.tokens, *wider.tokens]))
        made.append(Extension(tokens, list(dict.fromkeys([*own.merges, *wider.merges]))))
        [encoder] = extended_by_sizes(spec, made[-1], [None])
        rows.append((len(wider.tokens), len(own.tokens), len(tokens), _score(encoder, scored)))
    table = pd.DataFrame(
        rows, columns=["corpus_tokens", "target_tokens", "added", "fragment_score"]
    )
    best = table.sort_values(["fragment_score", "added"], kind="stable").index[0]
    return made[best], table.assign(chosen=table.index == best)
