"""What a tokenizer does to text, whose tokens it has, how fair it is, and why a word falls apart."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
