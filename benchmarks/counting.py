"""Counting a large text: one worker, two workers, and two that ship their counts to the parent.

The text is made from the installed packages' source and samples of word lists, a document a line,
in a temporary folder. All contenders count the same shards. The peer's workers return a Counter
of each, which the parent adds up. Memory is that of all processes together, what they share
counted once.

    python benchmarks/counting.py [--megabytes 1000] [--tokenizer llama-3] [--runs 1]
"""

import json
import multiprocessing
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from measuring import asked, compare, stored

import tokhelpers as th
from tokhelpers.text.pretokens import tally
from tokhelpers.tokenizer.library import pretokenizer_config_of

SHARD = 1 << 25
LANGUAGES = ["fi", "ru", "de", "hi", "el", "tr"]


def write_text(path: Path, megabytes: int) -> None:
    """Source and word lists by turns, a tenth of a gigabyte of each at a time, until it is enough."""
    left = megabytes * 1_000_000
    sources = [iter(th.load_corpus("python-source", split=split)) for split in ("train", "test")]
    samples = {lang: iter(th.load_corpus(f"wordfreq:{lang}", chars=10**9)) for lang in LANGUAGES}
    with open(path, "w", encoding="utf-8") as file:
        for source in cycle([*sources, *samples.values()]):
            held = 0
            for text in source:
                line = json.dumps({"text": text}, ensure_ascii=False) + "\n"
                file.write(line)
                held += len(line.encode())
                if held > min(left, 100_000_000):
                    break
            left -= held
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


def spilling(workers: int, corpus, tokenizer) -> tuple[int, int]:
    with pool(workers) as executor:
        counted = th.count_pretokens(corpus, tokenizer, executor=executor, shard_bytes=SHARD)
    return len(counted), counted.bytes


def shipping(workers: int, corpus, tokenizer) -> tuple[int, int]:
    rules, total, size = pretokenizer_config_of(tokenizer), Counter(), 0
    with pool(workers) as executor:
        tasks = [executor.submit(counter, part, rules) for part in corpus.parts(SHARD)]
        for task in tasks:
            counts, measured = task.result()
            total.update(counts)
            size += int(measured[1])
    return len(total), size


def counter(part, rules):
    [(words, counts, sizes)] = tally(((text, 1) for text in part), rules)
    return Counter(dict(zip(words, counts.tolist(), strict=True))), sizes


def pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def run(count, workers: int, texts: list[str], name: str) -> dict[str, float]:
    corpus, tokenizer = th.load_corpus(f"jsonl:{texts[0]}"), th.load_tokenizer(name)
    return watched(lambda: count(workers, corpus, tokenizer))


def main() -> None:
    options = asked(__doc__, megabytes=1000, tokenizer="llama-3", runs=1)
    contenders = {
        "one worker": partial(run, spilling, 1),
        "two workers": partial(run, spilling, 2),
        "two that ship counts": partial(run, shipping, 2),
    }
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text.jsonl"
        write_text(text, options.megabytes)
        with stored([str(text)]) as path:
            result = compare(contenders, path, options.tokenizer, runs=options.runs)
    seconds = {name: of["seconds"] for name, of in result.items()}
    for name in ("two workers", "two that ship counts"):
        print(f"one worker / {name}: time {seconds['one worker'] / seconds[name]:.2f}")


if __name__ == "__main__":
    main()
