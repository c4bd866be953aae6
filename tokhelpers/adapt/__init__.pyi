__all__ = [
    "AdaptBPE",
    "Extension",
    "adapt_bpe",
    "avocado",
    "continue_bpe",
    "count_words",
    "extend",
    "extend_parts",
    "fragment_score",
    "medvoc",
    "naive_extension",
    "oov_share",
    "prunable",
    "prune",
    "prune_parts",
    "pruning_order",
    "splits",
    "thesis_extension",
]

from .adaptbpe import AdaptBPE as AdaptBPE
from .adaptbpe import adapt_bpe as adapt_bpe
from .extension import (
    Extension as Extension,
)
from .extension import (
    continue_bpe as continue_bpe,
)
from .extension import (
    extend as extend,
)
from .extension import (
    naive_extension as naive_extension,
)
from .extension import (
    thesis_extension as thesis_extension,
)
from .methods import extend_parts as extend_parts
from .pruning import (
    prunable as prunable,
)
from .pruning import (
    prune as prune,
)
from .pruning import (
    prune_parts as prune_parts,
)
from .pruning import (
    pruning_order as pruning_order,
)
from .pruning import (
    splits as splits,
)
from .selection import (
    avocado as avocado,
)
from .selection import (
    count_words as count_words,
)
from .selection import (
    fragment_score as fragment_score,
)
from .selection import (
    medvoc as medvoc,
)
from .selection import (
    oov_share as oov_share,
)
