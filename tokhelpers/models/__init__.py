"""What a vocabulary does to a model: embeddings, parameters, memory, FLOPs and cross-entropy."""

from ..common.extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
