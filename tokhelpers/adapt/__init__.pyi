from .adaptbpe import (
    AdaptBPE as AdaptBPE,
    adapt_bpe as adapt_bpe,
)
from .extension import (
    Extension as Extension,
    continue_bpe as continue_bpe,
    extend as extend,
    naive_extension as naive_extension,
    thesis_extension as thesis_extension,
)
from .methods import extend_parts as extend_parts
from .pruning import (
    prunable as prunable,
    prune as prune,
    prune_parts as prune_parts,
    pruning_order as pruning_order,
    splits as splits,
)
from .selection import (
    avocado as avocado,
    count_words as count_words,
    fragment_score as fragment_score,
    medvoc as medvoc,
    oov_share as oov_share,
)
