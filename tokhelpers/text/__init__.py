"""Where text comes from, and how it becomes counts of unique pre-tokens.

Text is read once, by as many workers as there are; everything after works on the counts. A *chunk*
is what stands between single spaces, whatever the tokenizer; a *pre-token* is what a tokenizer's own
rules make of it. ``counting`` counts any corpus: ``chunks`` first (in the table of ``unique_chunks``),
then ``pretokens``; ``count_files`` keeps counts in files, ``shipped_counts`` are those of data/texts.
"""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
