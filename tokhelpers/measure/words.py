"""How many tokens a tokenizer makes of words.

A word is a run of letters, marks and digits, as in ``adapt.count_words``.
"""

from collections.abc import Iterable

import numpy as np
from tokenizers import Tokenizer

from ..adapt.selection import count_words, spaced
from ..tokenizer.encoder import Encoder
from ..tokenizer.library import opened


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
