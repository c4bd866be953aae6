"""What a vocabulary does to a model: rows of embeddings, costs, losses, questions."""

from ..extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
