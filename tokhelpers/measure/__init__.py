"""What a tokenizer does to text: compression, unreachable tokens, one language beside another."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
