"""Speed and memory of continued BPE training, as ratios against the peers, in one run.

Each contender gets the same Finnish text in memory, in a process of its own, and learns 8,000
tokens: ours on top of Llama-3, and from scratch as the peers do: the Hugging Face trainer,
rustbpe, ffbpe and sentencepiece with two threads.

    python benchmarks/extension.py [--runs 3] [--merges 8000]
"""

import time
from functools import partial

import training
from measuring import (
    alone,
    asked,
    compare,
    forget_peak,
    peak_megabytes,
    print_ratio,
    stored,
    timed,
    without_missing,
)

import tokhelpers as th

WORDS_A_DOCUMENT = 50
BYTES = 256  # tokens with which training from scratch begins


def finnish() -> list[str]:
    """Every word of the Finnish list once, and a sample by frequency: 23 M characters."""
    words = [word[1:] for word in th.load_corpus("wordfreq:fi").counts]
    lines = [
        " ".join(words[i : i + WORDS_A_DOCUMENT]) for i in range(0, len(words), WORDS_A_DOCUMENT)
    ]
    return [*lines, *th.load_corpus("wordfreq:fi", chars=23_000_000 - sum(map(len, lines)))]


def ours(texts: list[str], merges: int) -> dict[str, float]:
    """Counting, segmentation and learning on Llama-3; the kernels are compiled before the clock."""
    llama = th.load_tokenizer("llama-3")
    began = time.perf_counter()
    th.continue_bpe(llama, ["Lämmittelyä, lämmittelyä"], 2)
    compiled, held, counted = time.perf_counter() - began, forget_peak(), []
    counting = timed(lambda: counted.append(th.count_pretokens(texts, llama)))
    learning = timed(lambda: th.continue_bpe(llama, counted[0], merges))
    return {
        **{key: counting[key] + learning[key] for key in counting},
        "counting": counting["seconds"],
        "learning": learning["seconds"],
        "compile or load kernels": compiled,
        "unique pre-tokens": len(counted[0]),
        "MB above what was held": peak_megabytes() - held,
    }


def from_scratch(texts: list[str], merges: int) -> dict[str, float]:
    """Our byte-level trainer with Llama-3's pre-tokenizer."""
    cut = th.load_tokenizer("llama-3").pre_tokenizer
    return training.ours("train_byte_level_bpe", {"pre_tokenizer": cut}, texts, BYTES + merges)


def hugging_face(texts: list[str], merges: int) -> dict[str, float]:
    """The tokenizers library's trainer with Llama-3's pre-tokenizer."""
    return training.hugging_face(texts, BYTES + merges, th.load_tokenizer("llama-3").pre_tokenizer)


def rust(train, texts: list[str], merges: int) -> dict[str, float]:
    return train(texts, BYTES + merges)


def sentencepiece(texts: list[str], merges: int) -> dict[str, float]:
    """sentencepiece's BPE trainer, two threads, no normalisation, every character kept."""
    letters = len(set().union(*texts))
    options = {"character_coverage": 1.0, "normalization_rule_name": "identity"}
    return training.sentencepiece("bpe", options, texts, merges + letters + 3)


def main() -> None:
    options = asked(__doc__, runs=3, merges=8_000)
    contenders = {
        "continued": ours,
        "from scratch": from_scratch,
        "sentencepiece": sentencepiece,
        "Hugging Face": hugging_face,
        "rustbpe": partial(rust, training.rustbpe),
        "ffbpe": partial(rust, training.ffbpe),
    }
    contenders, lines = without_missing(contenders), finnish()
    with stored(lines) as once:
        result = compare(contenders, once, options.merges, runs=options.runs)
    with stored(10 * lines) as ten:
        tenfold = alone(ours, ten, options.merges)
    mine = result["continued"]
    for peer in list(contenders)[2:]:
        print_ratio(result, "continued", peer)
        print_ratio(result, "from scratch", peer)
    for part in ("counting", "learning"):
        print(f"ten times the text, {part}: {tenfold[part] / mine[part]:.2f} times as long")
    load_and_test()


def load_and_test() -> None:
    """Loading Llama-3 from its cache, and its Self-Tokenization Test."""
    th.unreachable_tokens(th.train_byte_level_bpe(["compile or load the kernels"], vocab_size=257))
    began = time.perf_counter()
    llama = th.load_tokenizer("llama-3")
    loaded = time.perf_counter()
    n = len(th.unreachable_tokens(llama))
    print(
        f"load llama-3: {loaded - began:.2f} s; unreachable ({n}): {time.perf_counter() - loaded:.2f} s"
    )


if __name__ == "__main__":
    main()
