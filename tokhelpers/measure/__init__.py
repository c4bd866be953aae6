"""What a tokenizer does to text, which tokens it shares, and how it cuts a word."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
