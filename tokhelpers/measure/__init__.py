"""What a tokenizer does to text, which tokens it shares, and how it cuts a word."""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
