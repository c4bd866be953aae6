"""What notebooks share: stored numbers, figures, coloured tokens, checks of exercises, the playground."""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
