"""Count the words of a corpus, the unit of the fragment score.

A word is a run of letters, marks and digits, tokenized with a space before it, as inside a sentence.
Thus words are the same for every tokenizer, punctuation belongs to none, and the parts of a
hyphenated word are counted separately. Balde et al. 2024 do not define the words of their score.
"""

from collections import Counter
from collections.abc import Iterable

import regex

from ..text.corpora import documents_of
from ..text.pretokens import Pretokens
from ..tokenizer.encoder import Encoder

find_words = regex.compile(r"[\p{L}\p{M}\p{N}\u200c\u200d]+").findall  # with joiners, for Persian


def count_words(corpus: Iterable[str]) -> dict[str, int]:
    """Count the words of a corpus, in order of first occurrence.

    ``corpus`` iterates over documents, or maps them to counts. Raises TypeError for a single string
    and for counted pre-tokens, ValueError for a corpus without words.

    >>> count_words(["Beta-blockers, beta 2"])
    {'Beta': 1, 'blockers': 1, 'beta': 1, '2': 1}
    """
    if isinstance(corpus, str):
        raise TypeError("corpus is a single string: pass an iterable of documents")
    if isinstance(corpus, Pretokens):
        raise TypeError("corpus holds counts of pre-tokens, which are not words: pass documents")
    counts = Counter()
    for document, n in documents_of(corpus):
        for word in find_words(document):
            counts[word] += n
    if not counts:
        raise ValueError("corpus has no words (letters or digits): supply more text")
    return dict(counts)


def spaced(words: Iterable[str], encoder: Encoder) -> list[str]:
    """Put a space before each word, unless the tokenizer adds one itself."""
    space = " " if encoder.pretokenizer.split("a") == ["a"] else ""
    return [space + word for word in words]
