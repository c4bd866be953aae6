"""One tokenizer: parsed, built, loaded from a vendor's file, saved, converted.

Functions take and return ``tokenizers.Tokenizer``. ``TokenizerSpec`` is one parsed into vocabulary,
merges and settings, which is what they work on.
"""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
