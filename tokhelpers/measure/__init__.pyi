__all__ = [
    "LANGUAGES",
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
    LANGUAGES as LANGUAGES,
)
from .languages import (
    compare_language as compare_language,
)
from .languages import (
    compare_languages as compare_languages,
)
from .languages import (
    supplement_tokens as supplement_tokens,
)
from .quality import (
    evaluate as evaluate,
)
from .quality import (
    evaluate_sizes as evaluate_sizes,
)
from .quality import (
    renyi_efficiency as renyi_efficiency,
)
from .quality import (
    unreachable as unreachable,
)
from .reachability import reachability as reachability
