"""Shards of a text that workers count, any number of them, with the same result.

Each worker writes what it counted into a folder, and one query adds the files up there, so neither
the text nor its pre-tokens need fit into memory and nothing large goes from one process to another.
"""

import hashlib
import json
import platform
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from .corpora import Corpus, Documents
from .count_files import SCHEMA, write_counts
from .pretokens import tally

BATCH_DOCUMENTS, BATCH_CHARS = 20_000, 1 << 22  # documents that are sent to a worker at a time
ATTEMPTS = 3
VERSION = 2  # of the files that workers write: others are not used again


def count_shards(
    documents: Documents,
    rules: str,
    *,
    executor: Executor | None,
    folder: Path,
    keep: bool,
    memory: int,
    shard_bytes: int,
) -> list[Path]:
    """Count documents in shards, and return the files of their counts, which are in ``folder``.

    ``folder`` is absolute: workers may run in another one. The arguments are those of
    `count_pretokens`; ``keep`` says that the files stay for another run.
    """
    corpus = documents.corpus
    if isinstance(corpus, Corpus) and (parts := corpus.parts(shard_bytes)) is not None:
        shards, ahead = _file_shards(parts, rules), 100_000
    else:
        shards, ahead = _batches(documents, rules, keep), 8
    files = list(_run(executor, shards, ahead, rules, folder, memory))
    _remove_drafts(files, folder)
    return files


# --- what is counted together ---------------------------------------------------------------------
class Shard(NamedTuple):
    """Documents, a name for messages, the name of the file of their counts, the first's number."""

    name: str
    file: str
    documents: Corpus | list[tuple[str, int]]
    first: int = 1

    def __str__(self) -> str:
        return self.name


def _file_shards(parts: Iterable[Corpus], rules: str) -> Iterator[Shard]:
    """A shard for each part of a corpus of files; named by what the files were when they were cut."""
    for some in parts:
        stats = [(file.stat().st_size, file.stat().st_mtime_ns) for file in some.part.files]
        read = (some.name, some.split, some.column, some.errors, some.encoding, some.part)
        yield Shard(f"{some.name}, {some.part}", _key(rules, read, stats), some)


def _batches(documents: Documents, rules: str, keep: bool) -> Iterator[Shard]:
    """Shards of documents in memory, named by their text where they are kept."""
    left, first = iter(documents), 1
    while some := _batch(left):
        name = f"documents {first:,} to {first + len(some) - 1:,}"
        yield Shard(name, _key(rules, some) if keep else f"{first}.parquet", some, first)
        first += len(some)


def _batch(documents: Iterator[tuple[str, int]]) -> list[tuple[str, int]]:
    some, chars = [], 0
    for text, times in islice(documents, BATCH_DOCUMENTS):
        some.append((text, times))
        chars += len(text) if isinstance(text, str) else 0
        if chars >= BATCH_CHARS:
            break
    return some


def _key(*what) -> str:
    text = json.dumps([VERSION, *what], default=repr)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest() + ".parquet"


def _count_shard(shard: Shard, rules: str, folder: Path, memory: int) -> Path:
    """A worker's task: count a shard into its file, unless it is there."""
    file = folder / shard.file
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{platform.node()} sees no folder {folder}: give folder=, a folder that all workers share"
        )
    if not file.exists():
        documents = shard.documents
        if isinstance(documents, Corpus):
            documents = Documents(documents)
        portions = tally(documents, rules, first=shard.first, memory=memory)
        sizes = np.zeros(4, np.int64)
        write_counts(file, _rows(portions, sizes), sizes, rules)
    return file


def _rows(portions: Iterable[tuple], total: np.ndarray) -> Iterator[pa.Table]:
    """The counts of portions of a text one after the other; their sizes are added to `total`."""
    for words, counts, sizes in portions:
        total += sizes
        yield pa.table([words, counts], schema=SCHEMA)


def _remove_drafts(files: list[Path], folder: Path) -> None:
    """Remove what workers that were killed had begun to write."""
    names = {file.name for file in files}
    for draft in folder.glob("*.tmp"):
        if draft.name.rsplit(".", 2)[0].removeprefix(".") in names:
            draft.unlink(missing_ok=True)


# --- shards, counted by workers -------------------------------------------------------------------
def _run(
    executor: Executor | None, shards: Iterable[Shard], ahead: int, *arguments
) -> Iterator[Path]:
    """The files of the shards' counts, in order, `ahead` shards under way at a time."""
    here, waiting, shards = ThreadPoolExecutor(1), deque(), iter(shards)
    executor = executor or here
    try:
        while True:
            for shard in islice(shards, ahead - len(waiting)):
                waiting.append((shard, 1, _submit(executor, shard, *arguments)))
            if not waiting:
                return
            shard, attempt, future = waiting[0]
            try:
                file = future.result()
            except BrokenExecutor:
                warnings.warn(
                    "a worker died, and its pool with it: what is left is done in this process",
                    stacklevel=4,
                )
                executor = here
                waiting = deque((s, n, _submit(here, s, *arguments)) for s, n, _ in waiting)
            except (ValueError, TypeError):  # about the text, which will not change
                raise
            except Exception as error:
                if attempt == ATTEMPTS:
                    why = f"{type(error).__name__}: {error}"
                    raise RuntimeError(f"{shard} failed {ATTEMPTS} times, with {why}") from error
                waiting[0] = (shard, attempt + 1, _submit(executor, shard, *arguments))
            else:
                waiting.popleft()
                yield file
    finally:
        wait([future for _, _, future in waiting if not future.cancel()])


def _submit(executor: Executor, *call) -> Future:
    """The future of a shard, a failed one where the executor is broken already."""
    try:
        return executor.submit(_count_shard, *call)
    except BrokenExecutor as error:
        future = Future()
        future.set_exception(error)
        return future
