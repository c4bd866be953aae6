"""One language of the many-language sweep, on one core, against building and encoding each size.

Both count, learn naive and continued tokens, and measure six sizes of each on the same texts: words
of wordfreq drawn by frequency to learn from, the language's FLORES text to measure on. The peer
trains its supplement with the Hugging Face trainer, puts every extended tokenizer together and
encodes the test text with it; its continued tokens are ours, as no library learns them.

    python benchmarks/languages.py [--tokenizer qwen] [--languages fin_Latn rus_Cyrl] [--runs 1]
"""

import argparse
import os
import time
import warnings
from functools import partial

from measuring import compare, print_ratio, stored
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import tokhelpers as th
from tokhelpers.notebook.languages import SIZES
from tokhelpers.tokenizer.spec import TokenizerSpec

WORDFREQ = {"fin_Latn": "fi", "rus_Cyrl": "ru", "hin_Deva": "hi", "deu_Latn": "de"}
CHARS = 3_500_000  # to learn from


def one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def timed(compare_one, languages: list[str], name: str) -> dict[str, float]:
    """One language after the other, once everything is loaded and compiled."""
    one_core()
    tokenizer = th.load_tokenizer(name)
    th.notebook.compare_language(tokenizer, "fin_Latn", sizes=[10], train=["Lämmittelyä"] * 9)
    began = time.perf_counter()
    for language in languages:
        compare_one(tokenizer, language)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "seconds a language": seconds / len(languages)}


def texts(language: str) -> tuple[list[str], list[str]]:
    """Documents to learn from, and to measure on."""
    train = th.load_corpus(f"wordfreq:{WORDFREQ[language]}", chars=CHARS)
    return list(train), list(th.load_corpus(f"flores:{language}"))


def compare_sizes(tokenizer: Tokenizer, language: str) -> None:
    train, test = texts(language)
    th.notebook.compare_language(tokenizer, language, train=train, test=test)


def build_each_size(tokenizer: Tokenizer, language: str) -> None:
    train, test = texts(language)
    supplement = Tokenizer(models.BPE())
    supplement.normalizer = tokenizer.normalizer
    supplement.pre_tokenizer = tokenizer.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=max(SIZES) + 8_000,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    supplement.train_from_iterator(train, trainer)
    naive = th.naive_extension(tokenizer, supplement)
    with warnings.catch_warnings(action="ignore"):  # of a list that yields fewer
        continued = th.continue_bpe(tokenizer, train, max(SIZES))
    base = TokenizerSpec.from_tokenizer(tokenizer)
    for extension, how in ((naive, "regenerate"), (continued, "append")):
        for size in (n for n in SIZES if n <= len(extension.tokens)):
            longer = th.extend(base, extension, size, how=how).to_tokenizer()
            th.unreachable_tokens(longer, extension.tokens[:size])
            for encoding in longer.encode_batch_fast(test):
                _ = encoding.ids


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tokenizer", default="qwen")
    options.add_argument("--languages", nargs="+", choices=WORDFREQ, default=list(WORDFREQ))
    options.add_argument("--runs", type=int, default=1)
    options = options.parse_args()
    contenders = {
        "ours": partial(timed, compare_sizes),
        "each size built and encoded": partial(timed, build_each_size),
    }
    with stored(options.languages) as path:
        result = compare(contenders, path, options.tokenizer, runs=options.runs)
    print_ratio(result, "ours", "each size built and encoded")


if __name__ == "__main__":
    main()
