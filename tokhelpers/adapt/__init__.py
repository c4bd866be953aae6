"""Changing a tokenizer: adding tokens, choosing them, taking them away.

Every function returns a new tokenizer; the one that is passed in stays as it was.
"""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
