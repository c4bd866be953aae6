"""Measure what counting and training cost: time, files, unique pre-tokens and peak memory.

Notebook 18 reads what this keeps in ``data/measured``: ``python tools/counting_costs.py``
(``counting.csv``, some minutes) and ``python tools/counting_costs.py survivors`` (``survivors.csv``,
how many unique pre-tokens occur k times or more in texts of several lengths; two minutes).
"""

import hashlib
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
from pyarrow import parquet
from tokenizers import Tokenizer, models

import tokhelpers as th
from tokhelpers.text import counting

TEXT = "python-source"
PART = 1 << 23  # bytes of text whose counts are one file
LEAST = (1, 2, 5, 10, 20, 50, 100, 200)
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


def on_disk(name, folder, seed):
    """Rows of the parts and counts in a folder; unique pre-tokens are the mean of ten orders."""
    files = list(Path(folder).glob("part-*.parquet"))
    # any fixed order will do
    files.sort(key=lambda file: hashlib.sha256(file.read_bytes()).digest())
    tables = [parquet.read_table(file) for file in files]
    words = [table["pretoken"].to_pylist() for table in tables]
    unique, rng = np.zeros(len(files)), np.random.default_rng(seed)
    for _ in range(10):
        seen = set()
        for i, part in enumerate(rng.permutation(len(files))):
            seen.update(words[part])
            unique[i] += len(seen) / 10
    each = sum(int(np.sum(table["count"])) for table in tables) / len(files)
    yield from (("unique", name, each * (i + 1), n) for i, n in enumerate(unique))
    yield "bytes", name, 0, th.load_counts(folder).bytes
    yield "run rows", name, 0, sum(map(len, words))
    yield "shards", name, 0, len(files)
    yield "run bytes", name, 0, sum(file.stat().st_size for file in files)


def peaks(name, folder, llama, seed):
    """Rows: peak memory in bytes of a process that learns from so many unique pre-tokens."""
    rules = Tokenizer(models.BPE())
    rules.pre_tokenizer = llama.pre_tokenizer
    rules.save("rules.json")
    counts = th.load_counts(folder)
    order = np.random.default_rng(seed).permutation(len(counts))
    for n in (50_000, 100_000, 200_000, 350_000):
        words, some = counts.strings.take(order[:n]), counts.counts[order[:n]]
        th.save_counts(replace(counts, strings=words, counts=some), "sample.parquet")
        run = [sys.executable, "-c", PROGRAM, "sample.parquet"]
        peak = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        yield "peak", name, n, 1024 * int(peak)


def survivors(seed):
    """Rows (parts, pre-tokens, k, mean, lowest and highest number that occur k times) over ten orders."""
    llama, rng = th.load_tokenizer("llama-3"), np.random.default_rng(seed)
    parts, size, ids = [[]], 0, {}
    for document in th.load_corpus(TEXT):
        size += len(document.encode())
        if size > PART * len(parts):
            parts.append([])
        parts[-1].append(document)
    for i, part in enumerate(parts):
        counts = th.count_pretokens(part, llama)
        words = [ids.setdefault(word, len(ids)) for word in counts.strings.to_pylist()]
        parts[i] = np.array(words), counts.counts
    sizes = [round(len(parts) / 2**halvings) for halvings in (5, 4, 3, 2, 1, 0)]
    rows = []
    for _ in range(10):
        total = np.zeros(len(ids), int)
        for done, part in enumerate(rng.permutation(len(parts)), 1):
            words, numbers = parts[part]
            total[words] += numbers
            if done in sizes:
                rows += [(done, total.sum(), k, np.sum(total >= k)) for k in LEAST]
    table = pd.DataFrame(rows, columns=["parts", "pretokens", "k", "survivors"])
    groups = table.groupby(["parts", "k"])
    result = groups.survivors.agg(["mean", "min", "max"])
    result.insert(0, "pretokens", groups.pretokens.mean())
    return result.reset_index()


def measure(seed):
    """All rows; the counts are kept in the working folder."""
    llama = th.load_tokenizer("llama-3")
    for workers in (2, 1):
        folder = f"counts_{workers}"
        yield from timed(TEXT, th.load_corpus(TEXT), workers, folder, llama)
    yield from on_disk(TEXT, folder, seed)
    yield from peaks(TEXT, folder, llama, seed)


def main():
    """Measure, and keep the rows with the load that the machine had at the start."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    if sys.argv[1:] == ["survivors"]:
        table = survivors(th.notebook.profile().seed)
        command = "python tools/counting_costs.py survivors"
        seconds = time.perf_counter() - began
        th.notebook.record_measured(table, "survivors", command=command, seconds=seconds)
        return
    with TemporaryDirectory() as home:
        os.chdir(home)
        log = pd.DataFrame(
            measure(th.notebook.profile().seed), columns=["what", "text", "x", "value"]
        )
        os.chdir("/")
    log.loc[len(log)] = ("load of the machine", "", 0, load)
    seconds = time.perf_counter() - began
    command = "python tools/counting_costs.py"
    th.notebook.record_measured(log, "counting", command=command, seconds=seconds)


if __name__ == "__main__":
    main()
