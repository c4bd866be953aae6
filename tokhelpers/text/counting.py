"""Counting the pre-tokens of a corpus: here, or in shards by any number of workers."""

import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from ..tokenizer.checks import positive
from ..tokenizer.files import destination
from ..tokenizer.library import pretokenizer_config_of
from ..tokenizer.spec import TokenizerSpec
from .corpora import Corpus, Documents
from .count_files import load_counts, merge_counts, total_sizes, write_counts
from .pretokens import Pretokens, tally
from .shards import count_shards

MEMORY = 1 << 26


def count_pretokens(
    corpus: Iterable[str],
    tokenizer: Tokenizer | TokenizerSpec,
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
    result. None of these changes the counts. ``min_count`` leaves out rarer pre-tokens at the end.

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
    rules = pretokenizer_config_of(tokenizer)
    documents = Documents(corpus, rules)
    if in_memory:
        [(words, counts, sizes)] = tally(documents, rules)
        sizes = _as_given(documents, sizes)
        return Pretokens(words, counts, *sizes, rules).at_least(min_count)
    with _place(folder) as where:
        where = Path(where).absolute()
        places = {"folder": where, "keep": folder is not None, "executor": executor}
        files = count_shards(documents, rules, memory=memory, shard_bytes=shard_bytes, **places)
        sizes = _as_given(documents, total_sizes(files))
        result = where / "counts.parquet"
        write_counts(result, merge_counts(files, where, memory), sizes, rules)
        return load_counts(result, min_count=min_count)


def ensure_counts(
    corpus: Iterable[str] | Pretokens, tokenizer: Tokenizer | TokenizerSpec
) -> Pretokens:
    """Pre-token counts of a corpus; counts by the tokenizer's own rules are taken, others refused."""
    if not isinstance(corpus, Pretokens):
        return count_pretokens(corpus, tokenizer)
    if corpus.pretokenizer_config != pretokenizer_config_of(tokenizer):
        raise ValueError(
            "the counts were made by another normalizer or pre-tokenizer than this tokenizer's: "
            "count the text again with count_pretokens(corpus, tokenizer)"
        )
    return corpus


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
