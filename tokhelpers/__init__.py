"""Helpers for notebooks that train, extend, prune and measure tokenizers.

``import tokhelpers as th``, which all examples begin with, loads nothing heavy: a name is fetched
when it is first used. The names below are the package's own; what else a folder offers is
``th.FOLDER.NAME``. ``textbook`` has the algorithms, written to be read.

tokenizer: one tokenizer
    load_tokenizer, TokenizerSpec.from_tokenizer, segment, token_counts, with_merge_skipping,
    save_pretrained, save_sentencepiece, tiktoken_merges, to_tiktoken
text: where text comes from
    load_corpus, count_pretokens, load_counts, save_counts
train: learning merges and pieces
    train_wordpiece, train_sentencepiece_bpe, train_byte_level_bpe, train_unigram
adapt: changing a tokenizer
    Extension, continue_bpe, naive_extension, thesis_extension, extend, AdaptBPE, adapt_bpe,
    pruning_order, prune
measure: what it does to text
    evaluate, evaluate_sizes, unreachable_tokens, reachability, compare_vocabularies,
    explain_token, explain_word, fragment_score
models: what it does to a model
    load_model, new_model, id_map, plan_transfer, transfer_embeddings, parameter_count,
    training_memory, recommend_size
notebook: what notebooks share
    show_tokens; further ``th.notebook.NAME``: profile, load_published, load_measured,
    record_measured, save_figure, set_style, label_lines, show_source, widget
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
