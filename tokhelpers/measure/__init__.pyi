__all__ = [
    "compare_language",
    "compare_languages",
    "evaluate",
    "evaluate_sizes",
    "reachability",
    "renyi_efficiency",
    "supplement_tokens",
    "unreachable",
]

from .languages import (
    compare_language as compare_language,
    compare_languages as compare_languages,
    supplement_tokens as supplement_tokens,
)
from .quality import (
    evaluate as evaluate,
    evaluate_sizes as evaluate_sizes,
    renyi_efficiency as renyi_efficiency,
    unreachable as unreachable,
)
from .reachability import reachability as reachability
