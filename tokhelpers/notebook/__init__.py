"""What notebooks share: published numbers, figures, coloured tokens, widgets."""

from ..extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
