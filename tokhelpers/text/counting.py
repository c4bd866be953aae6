"""Counting the pre-tokens of any amount of text, by any number of workers, with the same result.

Each worker writes what it counted as sorted runs into a folder, and these are merged there, so
neither the text nor its pre-tokens need fit into memory and nothing large goes from one process to
another. Counts can be saved, loaded, and taken from elsewhere.
"""

import hashlib
import json
import platform
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from tokenizers import Tokenizer

from ..tokenizer.files import destination
from ..tokenizer.parts import Parts
from ..tokenizer.pretokenization import cutting_rules, documents_with_counts
from . import runs
from .corpora import Corpus, positive
from .count_files import frequent, load_counts
from .pretokens import Pretokens, tally

MEMORY = 1 << 26
BATCH_DOCUMENTS, BATCH_CHARS = 20_000, 1 << 22  # documents that are sent to a worker at a time
ATTEMPTS = 3
VERSION = 1  # of the files of runs: others are not used again


@dataclass(frozen=True)
class Shard:
    """Documents that are counted together, and the name of the file of their counts."""

    name: str
    file: str
    documents: Iterable
    first: int = 1

    def __str__(self) -> str:
        return self.name


@dataclass
class Workers:
    """Who does the work: an executor, or the calling process once its pool has broken."""

    executor: Executor | None


def count_pretokens(
    corpus: Iterable[str],
    tokenizer: Tokenizer | Parts,
    *,
    executor=None,
    folder: str | Path | None = None,
    memory: int | None = None,
    shard_bytes: int = 1 << 26,
    min_count: int = 1,
) -> Pretokens:
    """Count the pre-tokens of a corpus as the tokenizer's own normalizer and pre-tokenizer cut it.

    ``corpus`` iterates over documents (str), or maps documents to how often they occur, or is a
    corpus that knows this (``.counts``). A tokenizer without pre-tokenizer (SentencePiece style)
    has its normalised text cut before each run of the space symbol, which none of its tokens
    crosses. Special tokens in the text count as plain text.

    ``executor`` is any ``concurrent.futures.Executor``: a ``ProcessPoolExecutor``, Dask's
    ``Client.get_executor()``, mpi4py's ``MPIPoolExecutor``. Its workers read a corpus of files
    themselves, in shards of about ``shard_bytes``, and are sent the documents of any other.
    ``folder`` (made if it is missing; on a file system that all workers share) keeps their counts,
    so that a second run over the same files counts only what is not there, and the result as
    ``counts.parquet``. Without it they are in a temporary folder. ``memory`` bounds the bytes that
    counts take in each process until they are written out (64 MB if any of these is given); the
    documents at hand and the pre-tokens that are returned come on top. None of all this changes the
    counts. ``min_count`` leaves out rarer pre-tokens, after everything has been added up.

    A shard that fails is tried three times. When a worker dies and its pool with it, what is left
    is counted in the calling process, with a warning. Raises TypeError for a single string,
    ValueError for a text without documents or with lone surrogates and for counts that are no whole
    numbers, RuntimeError for a shard that failed three times, naming it, and OSError for a folder
    that cannot be written to.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> tokenizer = Tokenizer(models.BPE())
    >>> tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    >>> dict(count_pretokens(["a cat, a dog"], tokenizer))
    {'a': 1, 'Ġa': 1, 'Ġcat': 1, ',': 1, 'Ġdog': 1}
    """
    if isinstance(corpus, str):
        raise TypeError("a corpus is an iterable of documents, got one string: put it in a list")
    if isinstance(corpus, Pretokens):
        raise TypeError("these are counts already, made from documents: use them as they are")
    for name, value in {"shard_bytes": shard_bytes, "min_count": min_count}.items():
        positive(name, value)
    if memory is not None:
        positive("memory", memory)
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(
            f"executor={executor!r} gives no work to anybody: use a concurrent.futures.Executor, "
            "such as ProcessPoolExecutor(2)"
        )
    if folder is not None:
        folder = destination(folder)
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"folder={str(folder)!r} is a file: name a folder")
    rules = cutting_rules(tokenizer)
    if executor is None and folder is None and memory is None:
        [(counts, sizes)] = tally(documents_with_counts(corpus), rules)
        numbers = np.fromiter(counts.values(), np.int64, len(counts))
        return frequent(list(counts), numbers, _described(corpus, sizes, rules), min_count)
    if folder is None:
        place = tempfile.TemporaryDirectory(prefix="tokhelpers-", ignore_cleanup_errors=True)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        place = nullcontext(folder)
    workers = Workers(executor)
    with place as where:
        where = Path(where).absolute()  # workers may run in another folder
        if isinstance(corpus, Corpus) and (parts := corpus.parts(shard_bytes)) is not None:
            shards, ahead = _file_shards(parts, rules), 100_000
        else:
            shards, ahead = _batches(corpus, rules, folder is not None), 8
        files, sizes = _count_shards(workers, shards, ahead, rules, where, memory or MEMORY)
        described = _described(corpus, sizes, rules)
        file = _merge_all(workers, files, where, memory or MEMORY, described)
        return load_counts(file, min_count=min_count)


def _described(corpus, sizes: np.ndarray, rules: str) -> dict:
    """What `Pretokens` holds beside words and counts; refuses a text without documents."""
    chars, size, spaced_words, documents = map(int, sizes)
    if not documents and isinstance(corpus, Corpus):
        next(iter(corpus))  # it knows better why it is empty
    names = ("chars", "bytes", "spaced_words", "documents", "rules")
    return dict(zip(names, (chars, size, spaced_words, documents, rules), strict=True))


# --- shards, counted by workers, and merged ---------------------------------------------------------
def _count_shards(workers, shards, ahead: int, rules: str, folder: Path, memory: int):
    """Count shards into files of the folder; returns these and the sizes of the text."""
    tasks = ((shard, rules, folder, memory) for shard in shards)
    files = list(_done(workers, _count_shard, tasks, ahead))
    names = {file.name for file in files}
    for draft in folder.glob("*.tmp"):  # by a worker that was killed
        if draft.name.rsplit(".", 2)[0] in names:
            draft.unlink(missing_ok=True)
    return files, sum(map(runs.sizes_of, files), np.zeros(4, np.int64))


def _merge_all(workers, files: list[Path], folder: Path, memory: int, described: dict) -> Path:
    """Merge files of runs, partition by partition; returns the file of all counts."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as workbench:
        names = (f"partition {i} of the counts" for i in range(runs.PARTITIONS))
        tasks = ((name, i, files, workbench, memory) for i, name in enumerate(names))
        merged = list(_done(workers, _merge, tasks, runs.PARTITIONS))
        runs.write_counts(folder / "counts.parquet", runs.tables(merged), json.dumps(described))
    runs.give_back()
    return folder / "counts.parquet"


def _file_shards(parts: Iterable[Corpus], rules: str) -> Iterator[Shard]:
    """A shard for each part of a corpus of files; named by what the files were when they were cut."""
    for some in parts:
        stats = [(str(file), *_stamp(file)) for file in some.part.files]
        what = (
            some.name,
            some.split,
            some.column,
            some.errors,
            stats,
            some.part.start,
            some.part.end,
        )
        yield Shard(f"{some.name}, {some.part}", _key(rules, *what), some)


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


def _batches(corpus: Iterable[str], rules: str, keep: bool) -> Iterator[Shard]:
    """Shards of documents in memory, named by their text where they are kept."""
    documents, first = documents_with_counts(corpus), 1
    while some := _batch(documents):
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
    text = json.dumps([VERSION, runs.PARTITIONS, *what], default=repr)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest() + ".parquet"


def _count_shard(shard: Shard, rules: str, folder: Path, memory: int) -> Path:
    """A worker's task: count a shard into a file of runs, unless it is there."""
    file = folder / shard.file
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{platform.node()} sees no folder {folder}: give folder=, one that all workers share"
        )
    if not file.exists():
        read = isinstance(shard.documents, Corpus)
        documents = ((text, 1) for text in shard.documents) if read else shard.documents
        runs.write_runs(file, tally(documents, rules, first=shard.first, memory=memory))
        runs.give_back()
    return file


def _merge(name: str, partition: int, files: list[Path], workbench: str, memory: int) -> Path:
    merged = runs.merge_partition(files, partition, Path(workbench), memory)
    runs.give_back()
    return merged


def _done(workers: Workers, task: Callable, calls: Iterable[tuple], ahead: int) -> Iterator:
    """Results of a task for each of its calls, in order, `ahead` of them under way at a time."""
    waiting, calls = deque(), iter(calls)
    try:
        while True:
            for call in islice(calls, ahead - len(waiting)):
                waiting.append((call, 1, _submit(workers, task, call)))
            if not waiting:
                return
            call, attempt, future = waiting[0]
            try:
                result = future.result()
            except BrokenExecutor:
                warnings.warn(
                    "a worker died, and its pool with it: what is left is done in this process",
                    stacklevel=4,
                )
                workers.executor = None
                waiting = deque((call, n, _submit(workers, task, call)) for call, n, _ in waiting)
                continue
            except (ValueError, TypeError):  # about the text, which will not change
                raise
            except Exception as error:
                if attempt == ATTEMPTS:
                    why = f"{type(error).__name__}: {error}"
                    raise RuntimeError(f"{call[0]} failed {ATTEMPTS} times, with {why}") from error
                waiting[0] = (call, attempt + 1, _submit(workers, task, call))
                continue
            waiting.popleft()
            yield result
    finally:
        futures = [future for _, _, future in waiting if isinstance(future, Future)]
        wait([future for future in futures if not future.cancel()])


def _submit(workers: Workers, task: Callable, call: tuple):
    """The task's future; without workers, or when they died, something whose result is asked for."""
    if workers.executor is None:
        return SimpleNamespace(result=partial(task, *call))
    try:
        return workers.executor.submit(task, *call)
    except BrokenExecutor as error:
        future = Future()
        future.set_exception(error)
        return future


def counted(corpus: Iterable[str] | Pretokens, tokenizer: Tokenizer | Parts) -> Pretokens:
    """Pre-token counts of a corpus; counts made by the same rules before are taken as they are.

    Raises ValueError for counts that another normalizer or pre-tokenizer made.
    """
    if not isinstance(corpus, Pretokens):
        return count_pretokens(corpus, tokenizer)
    if corpus.rules != cutting_rules(tokenizer):
        raise ValueError(
            "the counts were made by another normalizer or pre-tokenizer than this tokenizer's: "
            "count the text again with count_pretokens(corpus, tokenizer)"
        )
    return corpus
