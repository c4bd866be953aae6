"""Measure what counting and training cost: time, unique pre-tokens and peak memory.

Notebook 18 reads what this keeps in ``data/measured``: ``python tools/counting_costs.py``
(``counting.csv``, two minutes), ``python tools/counting_costs.py growth`` (``growth.csv``, how
many unique pre-tokens occur k times or more in texts of several lengths and orders; four minutes)
and ``python tools/counting_costs.py training`` (``training_memory.csv``, the peak memory of
training on up to ten million unique pre-tokens, most of them invented; four minutes).
"""

import os
import resource
import subprocess
import sys
import time
from contextlib import chdir
from dataclasses import replace
from tempfile import TemporaryDirectory

import dask
import dask.bag as db
import numpy as np
import pandas as pd
import pyarrow as pa
from tokenizers import Tokenizer, models

import tokhelpers as th

TEXT = "python-source"
PART = 1 << 23  # bytes of text that are counted, or moved, together
WORKERS = 2
LEAST = (1, 2, 5, 10, 20, 50, 100, 200)
STEPS = 32  # lengths of a text at which its unique pre-tokens are counted
RUSSIAN = ("tatoeba:rus", "commonvoice:ru", "ntrex:rus")
PROGRAM = """
import sys
from tokenizers import Tokenizer
import tokhelpers as th
counts, rules = th.load_counts(sys.argv[1]), Tokenizer.from_file("rules.json")
options = {"vocab_size": 32_000, "max_word_length": 10**6}
options["pre_tokenizer"] = rules.pre_tokenizer
th.train_byte_level_bpe(counts, **options)
lines = open("/proc/self/status").read().split("\\n")
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""


def spent():
    """The clock, and the processor seconds of this process and of workers that have ended."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(who) for who in whose]
    return np.array([time.perf_counter(), sum(u.ru_utime + u.ru_stime for u in used)])


def counting_time(seed):
    """Rows (what, text, x, value): seconds that so many workers take to count, and what they count.

    They count a Dask bag, whose documents are sent to them.
    """
    load, llama = os.getloadavg()[0], th.load_tokenizer("llama-3")
    documents = list(th.load_corpus(TEXT))
    partitions = max(1, sum(map(len, documents)) // PART)
    with dask.config.set(scheduler="processes", num_workers=WORKERS):
        bag = db.from_sequence(documents, npartitions=partitions)
        before = spent()
        counts = th.count_pretokens(bag, llama)
        clock, processor = spent() - before
    yield "count, clock", TEXT, WORKERS, clock
    yield "count, processor", TEXT, WORKERS, processor
    yield "bytes", TEXT, 0, counts.bytes
    yield "pre-tokens", TEXT, 0, counts.counts.sum()
    yield "load of the machine", "", 0, load


def training_memory(seed):
    """Rows (text, unique pre-tokens, their bytes, peak memory in bytes of training on them).

    An invented pre-token joins the first half of one of Python source to the second half of
    another, so that it is as long, and like real ones in its letters. Its number is that of the
    first. To compare, as many real ones of letters alone are trained on.

    Prediction, written before the run: 900 bytes for each of ten million.
    """
    llama, rng = th.load_tokenizer("llama-3"), np.random.default_rng(seed)
    rules = Tokenizer(models.BPE())
    rules.pre_tokenizer = llama.pre_tokenizer
    rules.save("rules.json")
    counts = th.count_pretokens(th.load_corpus(TEXT), llama)
    words = enumerate(counts.strings.to_pylist())
    letters = [i for i, word in words if word[1:].isascii() and word[1:].isalpha()]
    rng.shuffle(letters)
    real = replace(counts, strings=counts.strings.take(letters), counts=counts.counts[letters])
    _trained(_invented(real, 1000, rng))  # compiles the loop, which takes memory as well
    for n in (100_000, len(real)):
        sample = replace(real, strings=real.strings[:n], counts=real.counts[:n])
        yield "python-source", *_trained(sample)
    for n in (100_000, len(real), 1_000_000, 3_000_000, 10_000_000):
        yield "invented", *_trained(_invented(real, n, rng))


def _trained(counts):
    """The unique pre-tokens, their bytes, and the peak memory of training on them."""
    th.save_counts(counts, "sample.parquet")
    size = sum(len(word.encode()) for word in counts.strings.to_pylist())
    return len(counts), size, _peak_of_training("sample.parquet")


def _peak_of_training(file):
    """Peak memory in bytes of a process that trains on the counts in a file."""
    run = [sys.executable, "-c", PROGRAM, file]
    return 1024 * int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


def _invented(real, n, rng):
    """Counts of n invented pre-tokens."""
    words, counts = real.strings.to_pylist(), {}
    while len(counts) < n:
        for first, second in rng.integers(len(words), size=(n // 4, 2)):
            head, tail = words[first], words[second]
            joined = head[: (len(head) + 1) // 2] + tail[(len(tail) + 1) // 2 :]
            counts.setdefault(joined, real.counts[first])
    strings, numbers = zip(*list(counts.items())[:n], strict=True)
    return replace(real, strings=pa.array(strings), counts=np.array(numbers))


def growth(seed):
    """Rows (text, order, draw, pre-tokens, k, how many unique ones occur k times or more).

    Python source is counted in ten orders each of its parts ("parts": files that lie together stay
    together) and of its files ("files"). Of the Russian chunks the order is lost. To compare, their
    whole is counted, and the unique pre-tokens expected of as many that are drawn from Python source.
    """
    llama, rng = th.load_tokenizer("llama-3"), np.random.default_rng(seed)
    files, parts, size, ids = [], [[]], 0, {}
    for document in th.load_corpus(TEXT):
        size += len(document.encode())
        if size > PART * len(parts):
            parts.append([])
        parts[-1].append(len(files))
        counts = th.count_pretokens([document], llama)
        words = [ids.setdefault(word, len(ids)) for word in counts.strings.to_pylist()]
        files.append((np.array(words, int), counts.counts))
    for draw in range(10):
        near = [file for part in rng.permutation(len(parts)) for file in parts[part]]
        for order, way in {"parts": near, "files": rng.permutation(len(files))}.items():
            for row in _grown([files[file] for file in way], len(ids)):
                yield TEXT, order, draw, *row
    total = np.zeros(len(ids), int)
    for words, numbers in files:
        total[words] += numbers
    documents = [text for corpus in RUSSIAN for text in th.load_corpus(corpus)]
    russian = th.count_pretokens(documents, llama)
    length = russian.counts.sum()
    expected = np.sum(1 - (1 - length / total.sum()) ** total)
    yield "Russian", "pre-tokens", 0, length, 1, len(russian)
    yield f"{TEXT}, as long as Russian", "pre-tokens", 0, length, 1, expected


def _grown(files, unique):
    """Rows (pre-tokens, k, survivors) at each step of counting these files one after another."""
    total, done, step = np.zeros(unique, int), 0, 1
    each = sum(numbers.sum() for _, numbers in files) / STEPS
    for words, numbers in files:
        total[words] += numbers
        done += numbers.sum()
        if done < step * each:
            continue
        step = int(done // each)
        ks = LEAST if step in {1, 2, 4, 8, 16, 32} else LEAST[:1]
        yield from ((done, k, np.sum(total >= k)) for k in ks)
        step += 1


MEASUREMENTS = {
    "": ("counting", counting_time, ["what", "text", "x", "value"]),
    "growth": ("growth", growth, ["text", "order", "draw", "pretokens", "k", "types"]),
    "training": ("training_memory", training_memory, ["text", "unique", "bytes", "peak"]),
}


def main(what=""):
    """Measure in a folder of its own, and keep the rows."""
    began = time.perf_counter()
    name, measure, columns = MEASUREMENTS[what]
    with TemporaryDirectory() as home, chdir(home):
        table = pd.DataFrame(measure(th.notebook.profile().seed), columns=columns)
    command = f"python tools/counting_costs.py {what}".strip()
    seconds = time.perf_counter() - began
    th.notebook.record_measured(table, name, command=command, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
