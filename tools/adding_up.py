"""Measure what adding up counts needs: in memory, as for a Dask bag, and on disk, as in a folder.

Notebook 18 uses what this keeps in ``data/measured``: ``python tools/adding_up.py`` (``adding_up.csv``,
four minutes) and ``python tools/adding_up.py disk`` (``adding_up_on_disk.csv``, two minutes).
"""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

import tokhelpers as th
from tokhelpers.text.chunks import Counts, add_up
from tokhelpers.text.count_files import SCHEMA, merge_counts
from tokhelpers.text.counting import _count_partition
from tokhelpers.text.pretokens import pretokens_of_units
from tokhelpers.tokenizer.library_encoder import pretokenizer_config_of

TEXT, PARTITIONS, SPLIT = "python-source", 64, 8  # Dask adds up eight at a time
FILES = 20  # of invented pre-tokens, all unique


def peak():
    """Peak memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def last_step(file):
    """Add up the counts in a file as Dask's last step does, and print what this needed."""
    config = pretokenizer_config_of(th.load_tokenizer("llama-3"))
    before = peak()
    with pa.ipc.open_file(pa.OSFile(file)) as source:
        batches = [source.get_batch(i) for i in range(source.num_record_batches)]
    parts = [Counts(words, counts.to_numpy(), np.zeros(4, int)) for words, counts in batches]
    del batches
    units, counts, _ = add_up(parts)
    del parts
    words, _ = pretokens_of_units(units, counts, config)
    print(before, peak(), len(units), len(words))


def in_groups(parts, size):
    """Groups of so many parts."""
    return [parts[i : i + size] for i in range(0, len(parts), size)]


def columns(part):
    """The strings and the counts of a part."""
    return pa.record_batch([part.strings, part.counts], names=["unit", "count"])


def save(parts, file):
    """Write parts to an Arrow file, each as a batch."""
    batches = list(map(columns, parts))
    with pa.OSFile(str(file), "wb") as target, pa.ipc.new_file(target, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def measure():
    """Rows (megabytes, what, value) for one eighth of the text to all eight."""
    documents = list(th.load_corpus(TEXT))
    config = pretokenizer_config_of(th.load_tokenizer("llama-3"))
    counted = [_count_partition(config, documents[i::PARTITIONS]) for i in range(PARTITIONS)]
    for n in range(SPLIT, PARTITIONS + 1, SPLIT):
        parts = [add_up(group) for group in in_groups(counted[:n], n // SPLIT)]
        megabytes = sum(part.sizes[1] for part in parts) / 1e6
        with TemporaryDirectory() as folder:
            file = Path(folder, "parts")
            save(parts, file)
            yield megabytes, "bytes sent to the last step", file.stat().st_size
            run = [sys.executable, __file__, str(file)]
            run = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True)
        names = ("memory before", "peak", "unique chunks", "unique pre-tokens")
        for name, value in zip(names, run.stdout.split(), strict=True):
            yield megabytes, name, int(value)
    yield megabytes, "bytes sent by all workers", sum(columns(part).nbytes for part in counted)


def on_disk(folder):
    """Add up the files of counts in a folder, and print how many pre-tokens and what this needed."""
    before, began = peak(), time.perf_counter()
    n = sum(map(len, merge_counts(sorted(folder.glob("part-*.parquet")), folder)))
    print(n, before, peak(), time.perf_counter() - began)


def measure_on_disk():
    """Rows (millions, what, value) for 10 and 80 million unique pre-tokens."""
    for millions in (10, 80):
        each = millions * 1_000_000 // FILES
        with TemporaryDirectory() as folder:
            for i in range(FILES):
                # a product with an odd number, modulo 2**64: unique, and in no order
                numbers = np.arange(i * each, (i + 1) * each, dtype=np.uint64)
                numbers *= np.uint64(0x9E3779B97F4A7C15)
                words = pa.array([f" {number:x}" for number in numbers.tolist()])
                rows = pa.table([words, np.ones(each, np.int64)], schema=SCHEMA)
                parquet.write_table(rows, Path(folder, f"part-{i:02}.parquet"))
            run = [sys.executable, __file__, folder]
            run = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True)
        names = ("unique pre-tokens", "memory before", "peak", "seconds")
        for name, value in zip(names, run.stdout.split(), strict=True):
            yield millions, name, float(value)


def main(what="memory"):
    """Measure and keep the rows."""
    began, command = time.perf_counter(), "python tools/adding_up.py"
    if what == "disk":
        log = pd.DataFrame(measure_on_disk(), columns=["millions", "what", "value"])
        name, command = "adding_up_on_disk", f"{command} disk"
    else:
        log = pd.DataFrame(measure(), columns=["megabytes", "what", "value"])
        name = "adding_up"
    seconds = time.perf_counter() - began
    th.notebook.record_measured(log, name, command=command, seconds=seconds)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments and arguments != ["disk"]:
        path = Path(*arguments)
        on_disk(path) if path.is_dir() else last_step(str(path))
    else:
        main(*arguments)
