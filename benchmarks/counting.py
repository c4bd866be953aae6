"""Counting a large text: lines of a file, documents of JSON lines, through a folder, a Dask bag.

The text is made from the installed packages' source and samples of word lists, a document a line,
in a temporary folder. The peer counts the same lines with tokenizers' own pre-tokenizer and a
Counter. Memory is that of all processes together, what they share counted once.

    python benchmarks/counting.py [--megabytes 1000] [--tokenizer llama-3] [--runs 1]
"""

import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import dask
import dask.bag as db
import psutil
from measuring import asked, compare, stored

import tokhelpers as th

PARTITION = 1 << 25
LANGUAGES = ["fi", "ru", "de", "hi", "el", "tr"]


def write_text(path: Path, megabytes: int) -> None:
    """Source and word lists by turns, a tenth of a gigabyte of each at a time, until it is enough."""
    left = megabytes * 1_000_000
    sources = [iter(th.load_corpus("python-source", split=split)) for split in ("train", "test")]
    samples = {lang: iter(th.load_corpus(f"wordfreq:{lang}", chars=10**9)) for lang in LANGUAGES}
    with open(path, "w", encoding="utf-8") as file:
        for source in cycle([*sources, *samples.values()]):
            size = 0
            for text in source:
                line = " ".join(text.splitlines()) + "\n"
                file.write(line)
                size += len(line.encode())
                if size > min(left, 100_000_000):
                    break
            left -= size
            if left <= 0:
                return


def watched(count) -> dict[str, float]:
    """Seconds, throughput, and the peak of memory of this process and its children."""
    done, peak = threading.Event(), [0.0]

    def watch():
        while not done.wait(0.1):
            peak[0] = max(peak[0], megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    unique, size = count()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    return {"seconds": seconds, "MB/s": size / 1e6 / seconds, "unique": unique, "all MB": peak[0]}


def megabytes() -> float:
    """Memory of this process and its children, shared pages by halves, thirds and so on (Linux)."""
    this, total = psutil.Process(), 0
    for process in [this, *this.children()]:
        with suppress(psutil.Error):  # it has ended
            total += process.memory_full_info().pss
    return total / 1e6


def in_memory(text: Path, tokenizer):
    return th.count_pretokens(th.load_corpus(f"text:{text}", split="all"), tokenizer)


def through_a_folder(text: Path, tokenizer):
    with TemporaryDirectory() as folder:
        corpus = th.load_corpus(f"text:{text}", split="all")
        return th.count_pretokens(corpus, tokenizer, folder=folder)


def of_documents(text: Path, tokenizer):
    with open(text, encoding="utf-8") as lines:
        return th.count_pretokens((line.rstrip("\n") for line in lines), tokenizer)


def by_two_workers(text: Path, tokenizer):
    lines = db.read_text(str(text), blocksize=PARTITION, encoding="utf-8").map(str.rstrip, "\n")
    with dask.config.set(scheduler="processes", num_workers=2):
        return th.count_pretokens(lines, tokenizer)


def by_the_library(text: Path, tokenizer):
    """The peer: the library's pre-tokenizer, line by line."""
    counts, pre_tokenize = Counter(), tokenizer.pre_tokenizer.pre_tokenize_str
    with open(text, encoding="utf-8") as lines:
        for line in lines:
            counts.update(piece for piece, _ in pre_tokenize(line.rstrip("\n")))
    return counts


def run(count, texts: list[str], name: str) -> dict[str, float]:
    text, tokenizer = Path(texts[0]), th.load_tokenizer(name)
    return watched(lambda: (len(count(text, tokenizer)), text.stat().st_size))


def main() -> None:
    options = asked(__doc__, megabytes=1000, tokenizer="llama-3", runs=1)
    contenders = {
        "in memory": partial(run, in_memory),
        "through a folder": partial(run, through_a_folder),
        "documents": partial(run, of_documents),
        "Dask, two workers": partial(run, by_two_workers),
        "library": partial(run, by_the_library),
    }
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        write_text(text, options.megabytes)
        with stored([str(text)]) as path:
            result = compare(contenders, path, options.tokenizer, runs=options.runs)
    seconds = {name: of["seconds"] for name, of in result.items()}
    for name in ("in memory", "Dask, two workers"):
        print(f"library / {name}: time {seconds['library'] / seconds[name]:.2f}")


if __name__ == "__main__":
    main()
