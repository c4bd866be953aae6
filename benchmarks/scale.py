"""Training from a text file of 24, 250 and 1,000 MB, beside gigabpe, bpe-continue and sentencepiece.

The text is in ten languages by turns, a megabyte each: lines of 20 words drawn from wordfreq's lists
by frequency, with punctuation; 3 % of the words are joined to the next, so that the number of word
types keeps growing, as it does in text. Each contender reads the file in a process of its own, with
two threads where it has the choice, and learns 8,000 tokens from 24 MB and 32,000 from more: from
scratch with GPT-2's pattern, or continued on Llama-3. More than 250 MB are read once. What is not
installed is left out: `pip install -r requirements.txt`. With --record the numbers go to
data/measured/scale.csv.

    python benchmarks/scale.py [--megabytes 24,250,1000] [--runs 1] [--record 0]
"""

import os
import time
import warnings
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
from measuring import asked, compare, peak_megabytes, print_ratio, stored, timed, without_missing

import tokhelpers as th

LANGUAGES = ["ar", "de", "en", "es", "fi", "fr", "it", "nl", "pl", "ru"]
WORDS, LINES = 20, 7_000  # of a line, and of a language before the next one
BEHIND = {" ": 0.85, ", ": 0.06, ". ": 0.04, "": 0.03, " 1": 0.01, "-": 0.01}  # a word
BYTES = 256  # tokens with which training from scratch begins
LARGEST = {"bpe-continue": 250, "sentencepiece": 250}  # MB of text from which these are left out


def write_text(path: Path, megabytes: int) -> None:
    """Write lines until there are so many megabytes; the same ones on every machine."""
    draw, left = np.random.default_rng(0), megabytes * 1_000_000
    words, ends = [], []
    for language in LANGUAGES:
        counts = th.load_corpus(f"wordfreq:{language}").counts
        words.append(pa.array([word.removeprefix(" ") for word in counts]))
        ends.append(np.cumsum(np.fromiter(counts.values(), np.int64, len(counts))))
    with open(path, "wb") as file:
        for of_language, until in cycle(list(zip(words, ends, strict=True))):
            places = draw.integers(until[-1], size=WORDS * LINES)
            drawn = of_language.take(pa.array(np.searchsorted(until, places, "right"))).to_pylist()
            behind = draw.choice(list(BEHIND), len(drawn), p=list(BEHIND.values())).tolist()
            pairs = [word + after for word, after in zip(drawn, behind, strict=True)]
            lines = ("".join(pairs[i : i + WORDS]) for i in range(0, len(pairs), WORDS))
            text = "".join(f"{line[:1].upper()}{line[1:].rstrip(' ,.')}.\n" for line in lines)
            file.write(text.encode())
            left -= len(text.encode())
            if left <= 0:
                return


def from_scratch(texts: list[str], size: int) -> dict[str, float]:
    """Our byte-level trainer; kernels are compiled before the clock."""
    warnings.simplefilter("ignore")  # the few words for the kernels yield fewer tokens
    small, corpus = Path(texts[0] + ".small"), th.load_corpus(f"text:{texts[0]}", split="all")
    th.train_byte_level_bpe(small, vocab_size=BYTES + 2)
    return _measured(lambda: th.train_byte_level_bpe(corpus, vocab_size=BYTES + size))


def continued(texts: list[str], size: int) -> dict[str, float]:
    """Ours on top of Llama-3."""
    small, corpus = Path(texts[0] + ".small"), th.load_corpus(f"text:{texts[0]}", split="all")
    llama = th.load_tokenizer("llama-3")
    th.continue_bpe(llama, small, 2)
    return _measured(lambda: th.continue_bpe(llama, corpus, size))


def gigabpe(texts: list[str], size: int) -> dict[str, float]:
    import gigabpe

    options = {"vocab_size": BYTES + size, "pretokenizer": "bytelevel", "threads": 2}
    return _measured(lambda: gigabpe.train_bpe(texts, **options))


def bpe_continue(texts: list[str], size: int) -> dict[str, float]:
    os.environ["RAYON_NUM_THREADS"] = "2"
    from bpe_continue import continue_training

    llama = th.load_tokenizer("llama-3")
    options = {"vocab_size": llama.get_vocab_size() + size, "show_progress": False}
    return _measured(lambda: continue_training(llama, files=texts, **options))


def sentencepiece(texts: list[str], size: int) -> dict[str, float]:
    """sentencepiece's BPE trainer, without normalisation and with every character."""
    import sentencepiece as spm

    options = {"model_type": "bpe", "vocab_size": size, "num_threads": 2, "minloglevel": 2}
    options |= {"character_coverage": 1.0, "normalization_rule_name": "identity"}
    options |= {"max_sentence_length": 1 << 20, "model_prefix": texts[0]}
    return _measured(lambda: spm.SentencePieceTrainer.train(input=texts, **options))


def _measured(train) -> dict[str, float]:
    held = peak_megabytes("VmRSS")
    return {**timed(train), "MB before": held}


def main() -> None:
    options = asked(__doc__, megabytes="24,250,1000", runs=1, record=0)
    command = f"python benchmarks/scale.py --megabytes {options.megabytes} --runs {options.runs}"
    rows, began = [], time.perf_counter()
    contenders = {
        "from scratch": from_scratch,
        "gigabpe": gigabpe,
        "continued": continued,
        "bpe-continue": bpe_continue,
        "sentencepiece": sentencepiece,
    }
    for megabytes in map(int, options.megabytes.split(",")):
        n_tokens = 8_000 if megabytes < 100 else 32_000
        some = {n: c for n, c in contenders.items() if megabytes <= LARGEST.get(n, megabytes)}
        print(f"{megabytes:,} MB, {n_tokens:,} tokens")
        with TemporaryDirectory() as folder:
            text = Path(folder, "text")
            write_text(text, megabytes)
            Path(folder, "text.small").write_bytes(text.read_bytes()[:2_000].rpartition(b"\n")[0])
            with stored([str(text)]) as path:
                runs = options.runs if megabytes <= 250 else 1
                result = compare(without_missing(some), path, n_tokens, runs=runs)
        about = {"megabytes": megabytes, "tokens": n_tokens}
        rows += [about | {"trainer": name} | figures for name, figures in result.items()]
        for mine, peer in (("from scratch", "gigabpe"), ("from scratch", "sentencepiece"),
                           ("continued", "gigabpe"), ("continued", "bpe-continue"),
                           ("continued", "sentencepiece")):  # fmt: skip
            if peer in result:
                print_ratio(result, mine, peer)
        if options.record:  # after each size, as the next one may take long
            seconds = time.perf_counter() - began
            th.notebook.record_measured(
                pd.DataFrame(rows), "scale", command=command, seconds=seconds
            )


if __name__ == "__main__":
    main()
