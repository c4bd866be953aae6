"""One tokenizer: taken apart and rebuilt, loaded from a vendor's file, saved, exported.

A ``tokenizers.Tokenizer`` is the currency of the package. ``TokenizerSpec`` is one taken apart into vocabulary,
merges and settings; whatever changes a tokenizer changes its parts and builds a new one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
