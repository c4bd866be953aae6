"""Learning merges and pieces: three trainers on one compiled merge loop, and Unigram."""

from ..extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
