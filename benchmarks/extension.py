"""Speed and memory of continued BPE training, as ratios against the peers, in one run.

Each contender gets the same Finnish text in memory, in a process of its own, and learns 8,000
tokens: ours on top of Llama-3, the Hugging Face BPE trainer and sentencepiece's from scratch.

    python benchmarks/extension.py [--runs 3] [--merges 8000]
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import training
from measuring import alone, compare, print_ratio

import tokhelpers as th

WORDS_A_DOCUMENT = 50


def make_text(path: Path, repeats: int) -> None:
    """Every word of the Finnish list once, and a sample by frequency: 23 M characters, repeated."""
    words = [word[1:] for word in th.load_corpus("wordfreq:fi").counts]
    lines = [
        " ".join(words[i : i + WORDS_A_DOCUMENT]) for i in range(0, len(words), WORDS_A_DOCUMENT)
    ]
    once = sum(map(len, lines))
    lines += th.load_corpus("wordfreq:fi", chars=23_000_000 - once)
    path.write_text("\n".join(lines * repeats), encoding="utf-8")


def ours(texts: list[str], merges: int) -> dict[str, float]:
    """Counting, segmentation and learning on Llama-3; the kernels are compiled before the clock."""
    llama = th.load_tokenizer("llama-3")
    began = time.perf_counter()
    th.continue_bpe(llama, ["Lämmittelyä, lämmittelyä"], 2)
    compiled = time.perf_counter()
    counts = th.count_pretokens(texts, llama)
    counted = time.perf_counter()
    th.continue_bpe(llama, counts, merges)
    done = time.perf_counter()
    return {
        "seconds": done - compiled,
        "counting": counted - compiled,
        "learning": done - counted,
        "compile or load kernels": compiled - began,
        "unique pre-tokens": len(counts),
    }


def hugging_face(texts: list[str], merges: int) -> dict[str, float]:
    """The tokenizers library's byte-level BPE trainer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = th.load_tokenizer("llama-3").pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    began = time.perf_counter()
    tokenizer.train_from_iterator(texts, trainer)
    return {"seconds": time.perf_counter() - began}


def sentencepiece(texts: list[str], merges: int) -> dict[str, float]:
    """sentencepiece's BPE trainer, two threads, no normalisation, every character kept."""
    letters = len(set().union(*texts))
    options = {"character_coverage": 1.0, "normalization_rule_name": "identity"}
    return training.sentencepiece("bpe", options, texts, merges + letters + 3)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--merges", type=int, default=8_000)
    options = options.parse_args()
    contenders = {"ours": ours, "Hugging Face": hugging_face, "sentencepiece": sentencepiece}
    with TemporaryDirectory() as folder:
        text, ten = Path(folder) / "once.txt", Path(folder) / "ten.txt"
        make_text(text, 1)
        make_text(ten, 10)
        result = compare(contenders, text, options.merges, runs=options.runs)
        tenfold = alone(ours, ten, options.merges)
    mine = result["ours"]
    for name in ("Hugging Face", "sentencepiece"):
        print_ratio(result, "ours", name)
    for part in ("counting", "learning"):
        print(f"ten times the text, {part}: {tenfold[part] / mine[part]:.2f} times as long")
    load_and_test()


def load_and_test() -> None:
    """Loading Llama-3 from its cache, and its Self-Tokenization Test."""
    th.unreachable(th.train_byte_level_bpe(["compile or load the kernels"], vocab_size=257))
    began = time.perf_counter()
    llama = th.load_tokenizer("llama-3")
    loaded = time.perf_counter()
    n = len(th.unreachable(llama))
    print(
        f"load llama-3: {loaded - began:.2f} s; unreachable ({n}): {time.perf_counter() - loaded:.2f} s"
    )


if __name__ == "__main__":
    main()
