"""Changing a tokenizer: adding tokens, choosing them, taking them away.

Every function returns a new tokenizer; the one that is passed in stays as it was.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
