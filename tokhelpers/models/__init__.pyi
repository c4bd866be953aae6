__all__ = [
    "KINDS",
    "Question",
    "answer_accuracy",
    "answer_questions",
    "as_classifier",
    "blocks",
    "causal_task",
    "classification_scores",
    "classify",
    "collated",
    "configuration",
    "distill_embeddings",
    "embedding_share",
    "encode_texts",
    "finetune_choices",
    "finetune_classes",
    "format_question",
    "hpo_questions",
    "icd_chapters",
    "id_map",
    "learning_rate_schedule",
    "load_model",
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

from .architectures import configuration, load_model, new_model
from .batches import blocks, collated, encode_texts
from .choices import (
    answer_accuracy,
    answer_questions,
    as_classifier,
    finetune_choices,
    two_stages,
)
from .classification import classification_scores, classify, finetune_classes
from .costs import KINDS, embedding_share, parameter_count, training_memory
from .distillation import distill_embeddings
from .finetuning import causal_task, loss_per_byte, pretrain, search_learning_rate
from .optimisation import learning_rate_schedule
from .questions import Question, format_question, hpo_questions, icd_chapters
from .rows import id_map, row_sources
from .sizes import recommend_size, training_operations
from .timing import measure_runs, measure_step, thesis_runs
from .transfer import plan_transfer, transfer_embeddings
