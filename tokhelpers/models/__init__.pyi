from .architectures import (
    configuration as configuration,
    load_model as load_model,
    new_model as new_model,
)
from .batches import encode_texts as encode_texts
from .costs import (
    parameter_count as parameter_count,
    training_memory as training_memory,
)
from .losses import loss_per_byte as loss_per_byte
from .questions import (
    Question as Question,
    format_question as format_question,
    hpo_questions as hpo_questions,
    icd_chapters as icd_chapters,
)
from .rows import (
    id_map as id_map,
    row_sources as row_sources,
)
from .sizes import (
    recommend_size as recommend_size,
    training_operations as training_operations,
)
from .transfer import (
    plan_transfer as plan_transfer,
    transfer_embeddings as transfer_embeddings,
)
