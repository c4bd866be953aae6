"""Measure what counting and training cost: time, files, unique pre-tokens and peak memory.

Notebook 18 reads what this keeps in ``data/measured``: ``python tools/counting_costs.py``
(``counting.csv``, some minutes) and ``python tools/counting_costs.py growth`` (``growth.csv``, how
many unique pre-tokens occur k times or more in texts of several lengths and orders; four minutes).
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


def measure(seed):
    """All rows; the counts are kept in the working folder."""
    llama = th.load_tokenizer("llama-3")
    for workers in (2, 1):
        folder = f"counts_{workers}"
        yield from timed(TEXT, th.load_corpus(TEXT), workers, folder, llama)
    yield from on_disk(TEXT, folder)
    yield from peaks(TEXT, folder, llama, seed)


def main():
    """Measure, and keep the rows with the load that the machine had at the start."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    if sys.argv[1:] == ["growth"]:
        columns = ["text", "order", "draw", "pretokens", "k", "types"]
        table = pd.DataFrame(growth(th.notebook.profile().seed), columns=columns)
        command = "python tools/counting_costs.py growth"
        seconds = time.perf_counter() - began
        th.notebook.record_measured(table, "growth", command=command, seconds=seconds)
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
