"""Helpers for notebooks that train, extend, prune and measure tokenizers.

``import tokhelpers as th`` loads nothing heavy: each name below is fetched when it is first used.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "Corpus": "corpora",
    "load_corpus": "corpora",
    "load_tokenizer": "pretrained",
    "merge_skipping": "surgery",
    "Pretokens": "pretokens",
    "count_pretokens": "counting",
    "save_counts": "counts",
    "load_counts": "counts",
    "train_wordpiece": "training",
    "train_sentencepiece_bpe": "training",
    "train_byte_level_bpe": "training",
    "train_unigram": "training",
    "PieceRules": "sentencepiece_models",
    "piece_rules": "sentencepiece_models",
    "save_sentencepiece": "spm_files",
    "save_pretrained": "saving",
    "to_tiktoken": "tiktoken_models",
    "tiktoken_merges": "tiktoken_models",
    "Extension": "extension",
    "continue_bpe": "extension",
    "naive_extension": "extension",
    "thesis_extension": "extension",
    "extend": "extension",
    "AdaptBPE": "adaptbpe",
    "adapt_bpe": "adaptbpe",
    "fragment_score": "selection",
    "oov_share": "selection",
    "avocado": "selection",
    "medvoc": "selection",
    "pruning_order": "pruning",
    "prune": "pruning",
    "id_map": "pruning",
    "row_sources": "rows",
    "plan_transfer": "embeddings",
    "transfer_embeddings": "embeddings",
    "new_model": "models",
    "parameter_count": "costs",
    "embedding_share": "costs",
    "training_memory": "costs",
    "measure_step": "timing",
    "recommend_size": "sizes",
    "schedule": "optimisation",
    "pretrain": "finetuning",
    "loss_per_byte": "finetuning",
    "search_learning_rate": "finetuning",
    "finetune_classes": "classification",
    "classify": "classification",
    "scores": "classification",
    "finetune_choices": "choices",
    "answer_questions": "choices",
    "accuracy": "choices",
    "two_stages": "experiments",
    "Question": "questions",
    "format_question": "questions",
    "hpo_questions": "questions",
    "icd_chapters": "questions",
    "load_questions": "published_questions",
    "evaluate": "measures",
    "unreachable": "measures",
    "reachability": "reach",
    "sweep": "measures",
    "compare_language": "languages",
    "compare_languages": "languages",
    "Profile": "profiles",
    "profile": "profiles",
    "published": "records",
    "measured": "records",
    "record": "records",
    "save": "figures",
    "show_source": "figures",
    "show_tokens": "shown",
    "widget": "widgets",
    "label_lines": "figures",
    "style": "figures",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"tokhelpers has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
