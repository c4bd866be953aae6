__all__ = [
    "AdaptBPE",
    "Extension",
    "adapt",
    "adapt_bpe",
    "compare_language",
    "compare_languages",
    "continue_bpe",
    "count_pretokens",
    "evaluate",
    "evaluate_sizes",
    "extend",
    "fragment_score",
    "id_map",
    "label_lines",
    "load_corpus",
    "load_counts",
    "load_tokenizer",
    "measure",
    "measured",
    "merge_skipping",
    "models",
    "naive_extension",
    "new_model",
    "notebook",
    "parameter_count",
    "plan_transfer",
    "profile",
    "prune",
    "pruning_order",
    "published",
    "reachability",
    "read_parts",
    "recommend_size",
    "record_measured",
    "save_counts",
    "save_figure",
    "save_pretrained",
    "save_sentencepiece",
    "segment",
    "set_style",
    "show_source",
    "show_tokens",
    "text",
    "textbook",
    "thesis_extension",
    "tiktoken_merges",
    "to_tiktoken",
    "token_counts",
    "tokenizer",
    "train",
    "train_byte_level_bpe",
    "train_sentencepiece_bpe",
    "train_unigram",
    "train_wordpiece",
    "training_memory",
    "transfer_embeddings",
    "unreachable",
    "widget",
    "with_merge_skipping",
]

from . import adapt as adapt
from . import measure as measure
from . import models as models
from . import notebook as notebook
from . import text as text
from . import textbook as textbook
from . import tokenizer as tokenizer
from . import train as train
from .adapt import (
    AdaptBPE as AdaptBPE,
)
from .adapt import (
    Extension as Extension,
)
from .adapt import (
    adapt_bpe as adapt_bpe,
)
from .adapt import (
    continue_bpe as continue_bpe,
)
from .adapt import (
    extend as extend,
)
from .adapt import (
    fragment_score as fragment_score,
)
from .adapt import (
    naive_extension as naive_extension,
)
from .adapt import (
    prune as prune,
)
from .adapt import (
    pruning_order as pruning_order,
)
from .adapt import (
    thesis_extension as thesis_extension,
)
from .measure import (
    compare_language as compare_language,
)
from .measure import (
    compare_languages as compare_languages,
)
from .measure import (
    evaluate as evaluate,
)
from .measure import (
    evaluate_sizes as evaluate_sizes,
)
from .measure import (
    reachability as reachability,
)
from .measure import (
    unreachable as unreachable,
)
from .models import (
    id_map as id_map,
)
from .models import (
    new_model as new_model,
)
from .models import (
    parameter_count as parameter_count,
)
from .models import (
    plan_transfer as plan_transfer,
)
from .models import (
    recommend_size as recommend_size,
)
from .models import (
    training_memory as training_memory,
)
from .models import (
    transfer_embeddings as transfer_embeddings,
)
from .notebook import (
    label_lines as label_lines,
)
from .notebook import (
    measured as measured,
)
from .notebook import (
    profile as profile,
)
from .notebook import (
    published as published,
)
from .notebook import (
    record_measured as record_measured,
)
from .notebook import (
    save_figure as save_figure,
)
from .notebook import (
    set_style as set_style,
)
from .notebook import (
    show_source as show_source,
)
from .notebook import (
    show_tokens as show_tokens,
)
from .notebook import (
    widget as widget,
)
from .text import (
    count_pretokens as count_pretokens,
)
from .text import (
    load_corpus as load_corpus,
)
from .text import (
    load_counts as load_counts,
)
from .text import (
    save_counts as save_counts,
)
from .tokenizer import (
    load_tokenizer as load_tokenizer,
)
from .tokenizer import (
    merge_skipping as merge_skipping,
)
from .tokenizer import (
    read_parts as read_parts,
)
from .tokenizer import (
    save_pretrained as save_pretrained,
)
from .tokenizer import (
    save_sentencepiece as save_sentencepiece,
)
from .tokenizer import (
    segment as segment,
)
from .tokenizer import (
    tiktoken_merges as tiktoken_merges,
)
from .tokenizer import (
    to_tiktoken as to_tiktoken,
)
from .tokenizer import (
    token_counts as token_counts,
)
from .tokenizer import (
    with_merge_skipping as with_merge_skipping,
)
from .train import (
    train_byte_level_bpe as train_byte_level_bpe,
)
from .train import (
    train_sentencepiece_bpe as train_sentencepiece_bpe,
)
from .train import (
    train_unigram as train_unigram,
)
from .train import (
    train_wordpiece as train_wordpiece,
)

__version__: str
