"""Learning a vocabulary: BPE, WordPiece and parity-aware BPE on one compiled merge loop, and Unigram.

To read it, begin with ``trainers``, then ``merges`` (merges of IDs and of strings), ``merge_loop``
(the loop itself) and ``pairs`` (its data).
"""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
