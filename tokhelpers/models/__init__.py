"""What a vocabulary does to a model: embeddings, parameters, memory, FLOPs and cross-entropy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
