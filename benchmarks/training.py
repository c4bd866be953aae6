"""Speed and memory of the four trainers, as ratios against the peers, in one run.

Each contender gets the same medical text in memory (the definitions of the Human Phenotype
Ontology and the descriptions of ICD-10-CM), in a process of its own, and trains a vocabulary from
scratch; kernels are compiled or loaded before the clock. The peers: the Hugging Face trainer, rustbpe
and ffbpe for byte-level BPE, sentencepiece with two threads for the others.

    python benchmarks/training.py [--runs 3] [--size 8000]
"""

import io
import os
import warnings
from functools import partial

from measuring import asked, compare, print_ratio, stored, timed, without_missing

import tokhelpers as th

PLAIN = {"split_by_unicode_script": False, "split_by_number": False, "character_coverage": 1.0}


def ours(train: str, options: dict, texts: list[str], size: int) -> dict[str, float]:
    """One of our trainers."""
    warnings.simplefilter("ignore")  # the few words for the kernels yield fewer tokens
    trainer = partial(getattr(th, train), vocab_size=size, **options)
    trainer(["words to compile or load the kernels with, with words to load"] * 20)
    return timed(lambda: trainer(texts))


def hugging_face(texts: list[str], size: int, cut=None) -> dict[str, float]:
    """The tokenizers library's byte-level BPE trainer, with GPT-2's pre-tokenizer by default."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = cut or pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    return timed(lambda: tokenizer.train_from_iterator(texts, trainer))


def rustbpe(texts: list[str], size: int) -> dict[str, float]:
    """Karpathy's trainer, with its own pattern, GPT-4's; it cuts with two threads."""
    os.environ["RAYON_NUM_THREADS"] = "2"
    import rustbpe

    return timed(lambda: rustbpe.Tokenizer().train_from_iterator(iter(texts), size))


def ffbpe(texts: list[str], size: int) -> dict[str, float]:
    """ffbpe's trainer, with its own pattern; up to version 0.1.7 it was called uni-tokenizer."""
    os.environ["RAYON_NUM_THREADS"] = "2"
    import ffbpe

    return timed(lambda: ffbpe.train_bpe(iter(texts), vocab_size=size))


def sentencepiece(model: str, options: dict, texts: list[str], size: int) -> dict[str, float]:
    """sentencepiece's trainer, two threads."""
    import sentencepiece as spm

    options = {"model_type": model, "vocab_size": size, "num_threads": 2, **options}
    train = partial(spm.SentencePieceTrainer.train, minloglevel=2, **options)
    return timed(lambda: train(sentence_iterator=iter(texts), model_writer=io.BytesIO()))


def main() -> None:
    options = asked(__doc__, runs=3, size=8_256)
    same = {"normalization_rule_name": "identity", **PLAIN}
    special = {"byte_fallback": False, "special_tokens": ["<unk>", "<s>", "</s>"]}
    contenders = {
        "byte-level BPE": partial(ours, "train_byte_level_bpe", {}),
        "Hugging Face BPE": hugging_face,
        "rustbpe": rustbpe,
        "ffbpe": ffbpe,
        "SentencePiece BPE": partial(ours, "train_sentencepiece_bpe", special),
        "sentencepiece BPE": partial(sentencepiece, "bpe", same),
        "sentencepiece BPE, its defaults": partial(sentencepiece, "bpe", {}),
        "WordPiece": partial(ours, "train_wordpiece", {}),
        "WordPiece, minimum 20": partial(ours, "train_wordpiece", {"min_frequency": 20}),
        "Unigram": partial(ours, "train_unigram", special),
        "sentencepiece Unigram": partial(sentencepiece, "unigram", same),
    }
    documents = [document for name in ("hpo", "icd-10-cm") for document in th.load_corpus(name)]
    print(f"{sum(map(len, documents)):,} characters, vocabulary of {options.size:,}")
    with stored(documents) as path:
        result = compare(without_missing(contenders), path, options.size, runs=options.runs)
    for mine, peer in (
        ("byte-level BPE", "Hugging Face BPE"),
        ("byte-level BPE", "rustbpe"),
        ("byte-level BPE", "ffbpe"),
        ("byte-level BPE", "sentencepiece BPE"),
        ("SentencePiece BPE", "sentencepiece BPE"),
        ("SentencePiece BPE", "sentencepiece BPE, its defaults"),
        ("WordPiece", "sentencepiece BPE"),
        ("WordPiece, minimum 20", "sentencepiece BPE"),
        ("Unigram", "sentencepiece Unigram"),
    ):
        if peer in result:
            print_ratio(result, mine, peer)


if __name__ == "__main__":
    main()
