"""Measure what counting and training cost: time, unique pre-tokens and peak memory.

Notebook 18 reads what this keeps in ``data/measured``: ``python tools/counting_costs.py``
(``counting.csv``, some minutes), ``python tools/counting_costs.py growth`` (``growth.csv``, how
many unique pre-tokens occur k times or more in texts of several lengths and orders; four minutes)
and ``python tools/counting_costs.py training`` (``training_memory.csv``, the peak memory of
training on up to ten million unique pre-tokens, most of them invented; ten minutes).
"""

import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import dask
import dask.bag as db
import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from tokenizers import Tokenizer, models

import tokhelpers as th
from tokhelpers.text import counting

TEXT = "python-source"
PART = 1 << 23  # bytes of text whose counts are one file
LEAST = (1, 2, 5, 10, 20, 50, 100, 200)
STEPS = 32  # lengths of a text at which its unique pre-tokens are counted
RUSSIAN = {
    "Russian": ("tatoeba:rus", "commonvoice:ru", "ntrex:rus"),
    "Russian, Tatoeba alone": ("tatoeba:rus",),
}
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


def timed(name, corpus, workers, folder, llama):
    """Rows (what, text, x, value): x workers, seconds of a count, and of the merge alone.

    One worker counts through a folder; several count a Dask bag, whose documents are sent to them.
    """
    if workers > 1:
        documents = list(corpus)
        partitions = max(1, sum(map(len, documents)) // PART)
        with dask.config.set(scheduler="processes", num_workers=workers):
            bag = db.from_sequence(documents, npartitions=partitions)
            yield from _seconds("count", name, workers, lambda: th.count_pretokens(bag, llama))
        return
    counting.PART_BYTES = PART
    for what in ("count", "merge"):  # the second time all parts are there
        count = partial(th.count_pretokens, corpus, llama, folder=folder)
        yield from _seconds(what, name, workers, count)


def _seconds(what, name, workers, count):
    """Rows with the wall-clock and CPU seconds of a call."""
    before = spent()
    count()
    clock, processor = spent() - before
    yield f"{what}, clock", name, workers, clock
    yield f"{what}, processor", name, workers, processor


def on_disk(name, folder):
    """Rows of the parts and counts in a folder."""
    files, counts = list(Path(folder).glob("part-*.parquet")), th.load_counts(folder)
    yield "bytes", name, 0, counts.bytes
    yield "pre-tokens", name, 0, counts.counts.sum()
    yield "run rows", name, 0, sum(parquet.read_metadata(file).num_rows for file in files)
    yield "shards", name, 0, len(files)
    yield "run bytes", name, 0, sum(file.stat().st_size for file in files)


def _peak_of_training(file):
    """Peak memory in bytes of a process that trains on the counts in a file."""
    run = [sys.executable, "-c", PROGRAM, file]
    return 1024 * int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


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


def _invented(real, n, rng):
    """Counts of n invented pre-tokens."""
    words, found = real.strings.to_pylist(), {}
    while len(found) < n:
        for first, second in rng.integers(len(words), size=(n // 4, 2)):
            head, tail = words[first], words[second]
            joined = head[: (len(head) + 1) // 2] + tail[(len(tail) + 1) // 2 :]
            found.setdefault(joined, real.counts[first])
    found = dict(list(found.items())[:n])
    return replace(real, strings=pa.array(list(found)), counts=np.array(list(found.values())))


def growth(seed):
    """Rows (text, order, draw, pre-tokens, k, how many unique ones occur k times or more).

    Python source is counted in ten orders each of its parts ("parts": files that lie together stay
    together) and of its files ("files"). Of the Russian chunks the order is lost, so their numbers,
    like those of Python source for comparison, are expected ones for pre-tokens in a random order.

    Prediction, written before the run: the power of Python source is 0.45 by pre-tokens.
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
    texts = {TEXT: (total, 1)}
    for name, corpora in RUSSIAN.items():
        documents = [text for corpus in corpora for text in th.load_corpus(corpus)]
        russian = th.count_pretokens(documents, llama).counts
        texts[name] = russian, 1
        texts[f"{TEXT}, as long as {name}"] = total, russian.sum() / total.sum()
    for name, (total, part) in texts.items():
        for share in part * np.arange(1, STEPS + 1) / STEPS:  # each is drawn with this probability
            yield name, "pre-tokens", 0, total.sum() * share, 1, np.sum(1 - (1 - share) ** total)


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


def measure():
    """All rows; the counts are kept in the working folder."""
    llama = th.load_tokenizer("llama-3")
    for workers in (2, 1):
        folder = f"counts_{workers}"
        yield from timed(TEXT, th.load_corpus(TEXT), workers, folder, llama)
    yield from on_disk(TEXT, folder)


def main():
    """Measure, and keep the rows with the load that the machine had at the start."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    seed = th.notebook.profile().seed
    if sys.argv[1:] == ["training"]:
        with TemporaryDirectory() as home:
            os.chdir(home)
            columns = ["text", "unique", "bytes", "peak"]
            table = pd.DataFrame(training_memory(seed), columns=columns)
            os.chdir("/")
        command = "python tools/counting_costs.py training"
        seconds = time.perf_counter() - began
        th.notebook.record_measured(table, "training_memory", command=command, seconds=seconds)
        return
    if sys.argv[1:] == ["growth"]:
        columns = ["text", "order", "draw", "pretokens", "k", "types"]
        table = pd.DataFrame(growth(seed), columns=columns)
        command = "python tools/counting_costs.py growth"
        seconds = time.perf_counter() - began
        th.notebook.record_measured(table, "growth", command=command, seconds=seconds)
        return
    with TemporaryDirectory() as home:
        os.chdir(home)
        log = pd.DataFrame(measure(), columns=["what", "text", "x", "value"])
        os.chdir("/")
    log.loc[len(log)] = ("load of the machine", "", 0, load)
    seconds = time.perf_counter() - began
    command = "python tools/counting_costs.py"
    th.notebook.record_measured(log, "counting", command=command, seconds=seconds)


if __name__ == "__main__":
    main()
