"""Where text comes from, and how it becomes counts of unique pre-tokens.

Text is read once, by as many workers as there are; everything after works on the counts.
"""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
