"""Which words of a text cost most tokens."""

from collections.abc import Iterable

import pandas as pd
from tokenizers import Tokenizer

from ..common.checks import positive
from ..tokenizer.encoder import Encoder
from .quality import word_lengths
from .words import count_words


def costly_words(
    tokenizer: Tokenizer | Encoder,
    corpus: Iterable[str],
    n: int,
    other: Tokenizer | Encoder | None = None,
) -> pd.DataFrame:
    """List the ``n`` words on which a text spends most tokens beyond one each.

    ``corpus`` is documents, or a mapping of documents (or words) to counts. A word is a run of letters,
    marks and digits, tokenized after a space, as in ``fragment_score``. Returns one row per word:

    - ``word``; ``count``, its occurrences; ``tokens``, its tokens;
    - ``total``: tokens times occurrences; ``beyond_one``: what a token of its own would save, by which
      the rows are in descending order (ties: the more frequent word, then code points);
    - with an ``other`` tokenizer: ``tokens_after``, the word's tokens under it, and ``saved``, the
      decrease times occurrences.

    There are fewer rows if fewer words are split. Raises TypeError for anything but tokenizers, for a
    single string and for counted pre-tokens; ValueError for a negative ``n``, and a corpus without words.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> other = th.extend(base, th.Extension(tokens=["Ġbag"]))
    >>> costly_words(base, ["bag, bag, bat"], 2, other)
      word  count  tokens  total  beyond_one  tokens_after  saved
    0  bag      2       2      4           2             1      2
    1  bat      1       2      2           1             2      0
    """
    n, counts = positive("n", n, 0), count_words(corpus)
    table = pd.DataFrame({"word": list(counts), "count": list(counts.values())})
    table["tokens"] = word_lengths(tokenizer, table.word)
    table["total"] = table.tokens * table["count"]
    table["beyond_one"] = table.total - table["count"]
    table = table[table.tokens > 1]
    by = ["beyond_one", "count", "word"]
    table = table.sort_values(by, ascending=[False, False, True], ignore_index=True).head(n)
    if other is not None:
        table["tokens_after"] = word_lengths(other, table.word)
        table["saved"] = (table.tokens - table.tokens_after) * table["count"]
    return table
