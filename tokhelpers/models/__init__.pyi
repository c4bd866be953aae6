from .architectures import (
    configuration as configuration,
    new_model as new_model,
)
from .costs import (
    parameter_count as parameter_count,
    training_flops as training_flops,
)
from .ids import (
    id_map as id_map,
    row_sources as row_sources,
)
from .loading import load_model as load_model
from .losses import (
    encode_texts as encode_texts,
    loss_per_byte as loss_per_byte,
)
from .memory import training_memory as training_memory
from .sizes import recommend_size as recommend_size
from .transfer import (
    plan_transfer as plan_transfer,
    transfer_embeddings as transfer_embeddings,
)
