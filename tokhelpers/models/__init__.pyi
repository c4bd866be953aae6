__all__ = [
    "KINDS",
    "Question",
    "answer_accuracy",
    "answer_questions",
    "blocks",
    "causal_task",
    "classification_scores",
    "classify",
    "collated",
    "configuration",
    "embedding_share",
    "encode_texts",
    "finetune_choices",
    "finetune_classes",
    "format_question",
    "hpo_questions",
    "icd_chapters",
    "id_map",
    "learning_rate_schedule",
    "load_questions",
    "loss_per_byte",
    "measure_runs",
    "measure_step",
    "new_model",
    "parameter_count",
    "plan_transfer",
    "pretrain",
    "recommend_size",
    "row_sources",
    "search_learning_rate",
    "thesis_runs",
    "training_memory",
    "training_operations",
    "transfer_embeddings",
    "two_stages",
]

from .architectures import configuration as configuration
from .architectures import new_model as new_model
from .batches import blocks as blocks
from .batches import collated as collated
from .batches import encode_texts as encode_texts
from .choices import (
    answer_accuracy as answer_accuracy,
)
from .choices import (
    answer_questions as answer_questions,
)
from .choices import (
    finetune_choices as finetune_choices,
)
from .classification import (
    classification_scores as classification_scores,
)
from .classification import (
    classify as classify,
)
from .classification import (
    finetune_classes as finetune_classes,
)
from .costs import (
    KINDS as KINDS,
)
from .costs import (
    embedding_share as embedding_share,
)
from .costs import (
    parameter_count as parameter_count,
)
from .costs import (
    training_memory as training_memory,
)
from .experiments import two_stages as two_stages
from .finetuning import (
    causal_task as causal_task,
)
from .finetuning import (
    loss_per_byte as loss_per_byte,
)
from .finetuning import (
    pretrain as pretrain,
)
from .finetuning import (
    search_learning_rate as search_learning_rate,
)
from .optimisation import learning_rate_schedule as learning_rate_schedule
from .published_questions import load_questions as load_questions
from .questions import (
    Question as Question,
)
from .questions import (
    format_question as format_question,
)
from .questions import (
    hpo_questions as hpo_questions,
)
from .questions import (
    icd_chapters as icd_chapters,
)
from .rows import id_map as id_map
from .rows import row_sources as row_sources
from .sizes import recommend_size as recommend_size
from .sizes import training_operations as training_operations
from .timing import (
    measure_runs as measure_runs,
)
from .timing import (
    measure_step as measure_step,
)
from .timing import (
    thesis_runs as thesis_runs,
)
from .transfer import plan_transfer as plan_transfer
from .transfer import transfer_embeddings as transfer_embeddings
