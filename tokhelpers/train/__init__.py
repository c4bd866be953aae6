"""Learning a vocabulary: BPE, WordPiece and parity-aware BPE on one compiled merge loop, and Unigram."""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
