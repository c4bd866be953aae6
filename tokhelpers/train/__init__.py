"""Learning merges and pieces: three trainers on one compiled merge loop, and Unigram."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
