"""Train, extend, prune and measure tokenizers, and transfer models to them.

``import tokhelpers as th``, with which all examples begin, loads nothing heavy: a name is imported
when it is first used. These names are at the top level; further ones are ``th.FOLDER.NAME``, and
``th.textbook`` has the algorithms in plain Python, written to be read.

tokenizer: load, parse, save
    load_tokenizer, TokenizerSpec, segment, count_tokens, with_merge_skipping, with_superwords,
    save_pretrained, save_sentencepiece, tiktoken_merges, to_tiktoken; the patterns of vendors are
    th.tokenizer.GPT_2, GPT_4, LLAMA_3, QWEN, TEKKEN
text: corpora and counts
    load_corpus, count_pretokens, load_counts, save_counts
train: learn merges and pieces
    train_wordpiece, train_sentencepiece_bpe, train_byte_level_bpe, train_parity_bpe, train_unigram
adapt: change a tokenizer
    Extension, continue_bpe, continue_parity_bpe, naive_extension, extend,
    AdaptBPE, pruning_order, prune
measure: evaluate a tokenizer
    evaluate, evaluate_sizes, unreachable_tokens, reachability, compare_vocabularies,
    explain, fragment_score; th.measure.costly_words, count_words, word_lengths
models: change a model with its tokenizer
    load_model, new_model, id_map, plan_transfer, transfer_embeddings, parameter_count,
    training_memory, recommend_size
notebook: what only notebooks use, as ``th.notebook.NAME``
    show_tokens (at the top level, too); check, check_answer, mytok; load_published, load_measured,
    record_measured, reproduced, profile; set_style, save_figure, label_lines, draw_*; show_source,
    widget, write_playground

``common`` holds what all folders use and is not public.
"""

from .common.extras import attach

__version__ = "0.1.0"

_load, __dir__, __all__ = attach(__name__, __file__)

# names in notebooks and courses that were written before these became the field's
_RENAMED = {
    "Parts": "th.TokenizerSpec",
    "adapt_bpe": "th.AdaptBPE",
    "compare_language": "th.notebook.compare_language",
    "explain_token": "th.explain(tokenizer, token=...)",
    "explain_word": "th.explain",
    "label_lines": "th.notebook.label_lines",
    "measured": "th.notebook.load_measured",
    "merge_skipping": "th.with_merge_skipping",
    "profile": "th.notebook.profile",
    "published": "th.notebook.load_published",
    "read_parts": "th.TokenizerSpec.from_tokenizer",
    "record_measured": "th.notebook.record_measured",
    "save_figure": "th.notebook.save_figure",
    "set_style": "th.notebook.set_style",
    "show_source": "th.notebook.show_source",
    "thesis_extension": 'th.naive_extension(..., method="thesis")',
    "token_counts": "th.count_tokens",
    "unreachable": "th.unreachable_tokens",
    "widget": "th.notebook.widget",
}


def __getattr__(name: str):
    try:
        return _load(name)
    except AttributeError:
        if name not in _RENAMED:
            raise
        raise AttributeError(f"tokhelpers has no {name!r} any more: use {_RENAMED[name]}") from None
