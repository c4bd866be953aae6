from .adaptbpe import AdaptBPE as AdaptBPE
from .extension import (
    Extension as Extension,
    continue_bpe as continue_bpe,
    extend as extend,
    naive_extension as naive_extension,
)
from .parity_extension import continue_parity_bpe as continue_parity_bpe
from .pruning import (
    prunable as prunable,
    prune as prune,
    pruning_order as pruning_order,
    splits as splits,
)
