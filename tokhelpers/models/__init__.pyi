from .architectures import (
    configuration as configuration,
    load_model as load_model,
    new_model as new_model,
)
from .batches import (
    blocks as blocks,
    collated as collated,
    encode_texts as encode_texts,
)
from .costs import (
    KINDS as KINDS,
    embedding_share as embedding_share,
    parameter_count as parameter_count,
    training_memory as training_memory,
)
from .distillation import distill_embeddings as distill_embeddings
from .finetuning import (
    causal_task as causal_task,
    loss_per_byte as loss_per_byte,
    pretrain as pretrain,
)
from .optimisation import learning_rate_schedule as learning_rate_schedule
from .questions import (
    Question as Question,
    answer_accuracy as answer_accuracy,
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
from .smollm2 import load_smollm2 as load_smollm2
from .timing import (
    measure_runs as measure_runs,
    measure_step as measure_step,
    thesis_runs as thesis_runs,
)
from .transfer import (
    plan_transfer as plan_transfer,
    transfer_embeddings as transfer_embeddings,
)
