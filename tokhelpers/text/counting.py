"""Counting the pre-tokens of a corpus: here, or in shards by any number of workers.

Counts of named corpora are kept on the disk, so that each is counted once. They are in
``data/cache/counts`` of a checkout, under a hash of what decides them: the corpus with the version of
its package, the rules that cut it, and the code and the libraries that count.
``TOKHELPERS_COUNT_CACHE=0`` switches this off; the folder may be deleted at any time.
"""

import hashlib
import json
import os
import tempfile
import unicodedata
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from ..tokenizer import pretokenization, token_bytes
from ..tokenizer.checks import positive
from ..tokenizer.files import CHECKOUT, destination
from ..tokenizer.library import cutting_rules
from ..tokenizer.parts import Parts
from ..tokenizer.vendors import cache_folder
from .corpora import Corpus, Documents
from .count_files import load_counts, merge_counts, save_counts, total_sizes, write_counts
from .pretokens import Pretokens, tally
from .shards import count_shards

MEMORY = 1 << 26
LEAST_BYTES = 1_000_000  # of text whose counts are kept: less is counted as soon as it is loaded


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
    kept in ``data/cache`` of a checkout. ``min_count`` leaves out rarer
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
        return counted_once(corpus, rules).at_least(min_count)
    with _place(folder) as where:
        where, documents = Path(where).absolute(), Documents(corpus, rules)
        places = {"folder": where, "keep": folder is not None, "executor": executor}
        files = count_shards(documents, rules, memory=memory, shard_bytes=shard_bytes, **places)
        sizes = _as_given(documents, total_sizes(files))
        result = where / "counts.parquet"
        write_counts(result, merge_counts(files, where, memory), sizes, rules)
        return load_counts(result, min_count=min_count)


def counted(corpus: Iterable[str] | Pretokens, tokenizer: Tokenizer | Parts) -> Pretokens:
    """Pre-token counts of a corpus; counts by the tokenizer's own rules are taken, others refused."""
    if not isinstance(corpus, Pretokens):
        return count_pretokens(corpus, tokenizer)
    if corpus.rules != cutting_rules(tokenizer):
        raise ValueError(
            "the counts were made by another normalizer or pre-tokenizer than this tokenizer's: "
            "count the text again with count_pretokens(corpus, tokenizer)"
        )
    return corpus


def counted_once(corpus: Iterable[str], rules: str) -> Pretokens:
    """The counts of a corpus by these rules: those that were kept, or new ones.

    A folder that cannot be written to, and a damaged file in it, are passed over.
    """
    is_fixed = isinstance(corpus, Corpus) and corpus.origin.fixed
    if not is_fixed or CHECKOUT is None or os.environ.get("TOKHELPERS_COUNT_CACHE") == "0":
        return _count_in_memory(corpus, rules)
    file = cache_folder() / "counts" / f"{_key(corpus, rules)}.parquet"
    with suppress(OSError, ValueError):
        return load_counts(file)
    counts = _count_in_memory(corpus, rules)
    if counts.bytes >= LEAST_BYTES:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            save_counts(counts, file)
    return counts


def _key(corpus: Corpus, rules: str) -> str:
    what = (corpus.name, corpus.source, corpus.split, corpus.chars, corpus.seed, rules)
    return hashlib.blake2b(json.dumps([what, _code()]).encode(), digest_size=16).hexdigest()


@cache
def _code() -> list[str]:
    """The code that decides counts: other code, or another library, counts anew."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    modules += [Path(module.__file__) for module in (pretokenization, token_bytes)]
    own = hashlib.blake2b(b"".join(module.read_bytes() for module in modules)).hexdigest()
    libraries = [version(name) for name in ("tokenizers", "regex", "numpy")]
    return [own, *libraries, unicodedata.unidata_version]


def _count_in_memory(corpus: Iterable[str], rules: str) -> Pretokens:
    documents = Documents(corpus, rules)
    [(words, counts, sizes)] = tally(documents, rules)
    return Pretokens(words, counts, *_as_given(documents, sizes), rules)


def _place(folder: str | Path | None):
    """A context with the folder, made if it is missing, or with a temporary one."""
    if folder is None:
        return tempfile.TemporaryDirectory(prefix="tokhelpers-", ignore_cleanup_errors=True)
    folder = destination(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return nullcontext(folder)


def _as_given(documents: Documents, sizes: np.ndarray) -> list[int]:
    """The sizes of the text as it was given; refuses a text without documents."""
    chars, size, spaced_words, n = sizes.tolist()
    if not n and isinstance(documents.corpus, Corpus):
        next(iter(documents.corpus))  # it knows better why it is empty
    spaces = documents.left_out  # they are text, whoever puts them there
    return [chars + spaces, size + spaces, spaced_words, n]
