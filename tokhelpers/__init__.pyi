from . import (
    adapt as adapt,
    measure as measure,
    models as models,
    notebook as notebook,
    text as text,
    textbook as textbook,
    tokenizer as tokenizer,
    train as train,
)
from .adapt import (
    AdaptBPE as AdaptBPE,
    Extension as Extension,
    continue_bpe as continue_bpe,
    continue_parity_bpe as continue_parity_bpe,
    extend as extend,
    naive_extension as naive_extension,
    prune as prune,
    pruning_order as pruning_order,
)
from .measure import (
    compare_vocabularies as compare_vocabularies,
    evaluate as evaluate,
    evaluate_sizes as evaluate_sizes,
    explain as explain,
    fragment_score as fragment_score,
    reachability as reachability,
    unreachable_tokens as unreachable_tokens,
)
from .models import (
    id_map as id_map,
    load_model as load_model,
    new_model as new_model,
    parameter_count as parameter_count,
    plan_transfer as plan_transfer,
    recommend_size as recommend_size,
    training_memory as training_memory,
    transfer_embeddings as transfer_embeddings,
)
from .notebook import show_tokens as show_tokens
from .text import (
    count_pretokens as count_pretokens,
    load_corpus as load_corpus,
    load_counts as load_counts,
    save_counts as save_counts,
)
from .tokenizer import (
    TokenizerSpec as TokenizerSpec,
    count_tokens as count_tokens,
    load_tokenizer as load_tokenizer,
    save_pretrained as save_pretrained,
    save_sentencepiece as save_sentencepiece,
    segment as segment,
    tiktoken_merges as tiktoken_merges,
    to_tiktoken as to_tiktoken,
    with_merge_skipping as with_merge_skipping,
    with_superwords as with_superwords,
)
from .train import (
    train_byte_level_bpe as train_byte_level_bpe,
    train_parity_bpe as train_parity_bpe,
    train_sentencepiece_bpe as train_sentencepiece_bpe,
    train_unigram as train_unigram,
    train_wordpiece as train_wordpiece,
)

__version__: str
