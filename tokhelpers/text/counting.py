"""Counting the pre-tokens of any amount of text, by any number of workers, with the same result.

Each worker writes what it counted into a folder, and one query adds the files up there, so neither
the text nor its pre-tokens need fit into memory and nothing large goes from one process to another.
"""

import hashlib
import json
import platform
import tempfile
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from ..tokenizer.checks import positive
from ..tokenizer.files import destination
from ..tokenizer.library import cutting_rules
from ..tokenizer.parts import Parts
from ..tokenizer.pretokenization import documents_with_counts, dropped_spaces
from .cache import counted_once
from .corpora import Corpus
from .count_files import SCHEMA, frequent, load_counts, merge_counts, total_sizes, write_counts
from .pretokens import Pretokens, tally

MEMORY = 1 << 26
BATCH_DOCUMENTS, BATCH_CHARS = 20_000, 1 << 22  # documents that are sent to a worker at a time
ATTEMPTS = 3
VERSION = 2  # of the files that workers write: others are not used again


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
    corpus with ``counts``, of whose chunks the leading space is left out where the tokenizer puts
    ``▁`` before a text (``bytes`` and ``chars`` count it all the same). A tokenizer without
    pre-tokenizer (SentencePiece style) has its normalised text cut before each run of the space
    symbol, which none of its tokens crosses. Special tokens in the text count as plain text.

    ``executor`` is any ``concurrent.futures.Executor``: a ``ProcessPoolExecutor``, Dask's
    ``Client.get_executor()``, mpi4py's ``MPIPoolExecutor``. Its workers read a corpus of files
    themselves, in shards of about ``shard_bytes``, and are sent the documents of any other.
    ``folder`` (made if it is missing; on a file system that all workers share) keeps their counts,
    so that a second run over the same files counts only what is not there, and the result as
    ``counts.parquet``. ``memory`` bounds the bytes that counts take in each process until they are
    written out (64 MB if any of these three is given), apart from the documents at hand and the
    result. None of these changes the counts. Without them, the counts of a large named corpus are
    kept in ``data/cache`` of a checkout (see `text.cache`). ``min_count`` leaves out rarer
    pre-tokens at the end.

    A shard that fails is tried three times. When a worker dies and its pool with it, what is left
    is counted in the calling process, with a warning. Raises TypeError for a single string,
    ValueError for a text without documents or with lone surrogates and for counts that are no whole
    numbers, RuntimeError for a shard that failed three times, OSError for a folder that cannot be
    written to.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> tokenizer = Tokenizer(models.BPE())
    >>> tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    >>> dict(count_pretokens(["a cat, a dog"], tokenizer))
    {'a': 1, 'Ġa': 1, 'Ġdog': 1, 'Ġcat': 1, ',': 1}
    """
    if isinstance(corpus, str):
        raise TypeError("a corpus is an iterable of documents, got one string: put it in a list")
    if isinstance(corpus, Pretokens):
        raise TypeError("these are counts already, made from documents: use them as they are")
    in_memory = executor is None and folder is None and memory is None
    memory = MEMORY if memory is None else memory
    positive("min_count", min_count)
    positive("shard_bytes", shard_bytes)
    positive("memory", memory)
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(
            f"executor={executor!r} cannot run tasks: use a concurrent.futures.Executor, "
            "such as ProcessPoolExecutor(2)"
        )
    rules = cutting_rules(tokenizer)
    if in_memory:
        counts = counted_once(corpus, rules, partial(_count_in_memory, corpus, rules))
        return frequent(counts, min_count)
    with _place(folder) as where:
        where = Path(where).absolute()  # workers may run in another folder
        if isinstance(corpus, Corpus) and (parts := corpus.parts(shard_bytes)) is not None:
            shards, ahead = _file_shards(parts, rules), 100_000
        else:
            shards, ahead = _batches(corpus, rules, folder is not None), 8
        files = list(_count_shards(executor, shards, ahead, rules, where, memory))
        _remove_drafts(files, where)
        sizes = _given(corpus, total_sizes(files), rules)
        result = where / "counts.parquet"
        write_counts(result, merge_counts(files, where, memory), sizes, rules)
        return load_counts(result, min_count=min_count)


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


def _count_in_memory(corpus: Iterable[str], rules: str) -> Pretokens:
    [(words, counts, sizes)] = tally(documents_with_counts(corpus, rules), rules)
    return Pretokens(words, counts, *_given(corpus, sizes, rules), rules)


def _place(folder: str | Path | None):
    """A context with the folder, made if it is missing, or with a temporary one."""
    if folder is None:
        return tempfile.TemporaryDirectory(prefix="tokhelpers-", ignore_cleanup_errors=True)
    folder = destination(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return nullcontext(folder)


def _given(corpus, sizes: np.ndarray, rules: str) -> list[int]:
    """The sizes of the text as it was given; refuses a text without documents."""
    chars, size, spaced_words, documents = sizes.tolist()
    if not documents and isinstance(corpus, Corpus):
        next(iter(corpus))  # it knows better why it is empty
    spaces = dropped_spaces(corpus, rules)  # they are text, whoever puts them there
    return [chars + spaces, size + spaces, spaced_words, documents]


# --- shards: documents that are counted together --------------------------------------------------
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


def _batches(corpus: Iterable[str], rules: str, keep: bool) -> Iterator[Shard]:
    """Shards of documents in memory, named by their text where they are kept."""
    documents, first = documents_with_counts(corpus, rules), 1
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
            documents = documents_with_counts(documents)
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
def _count_shards(
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
                    stacklevel=3,
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
