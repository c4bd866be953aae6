"""Count the pre-tokens of any corpus: in memory, on a Dask cluster, or through files in a folder."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from ..common.checks import positive, progress
from ..common.files import destination
from ..tokenizer.library_encoder import pretokenizer_config_of
from ..tokenizer.spec import TokenizerSpec
from .chunks import Batch, Block, Counts, add_up, release_memory
from .corpora import Corpus, opened_corpus
from .count_files import (
    SCHEMA,
    describe_counts,
    load_counts,
    merge_counts,
    total_sizes,
    write_counts,
)
from .documents import ChunkCounts, adds_space, counts_of, weighted_documents
from .pretokens import Pretokens, batches_of, count_units, pretokens_of_units
from .table_files import parquet_rows

PART_BYTES = 1 << 27  # of text, of which the counts are one file in a folder


def count_pretokens(
    corpus: Iterable[str],
    tokenizer: Tokenizer | TokenizerSpec,
    *,
    folder: str | Path | None = None,
    min_count: int = 1,
) -> Pretokens:
    """Count the pre-tokens that a tokenizer's normalizer and pre-tokenizer produce from a corpus.

    ``corpus`` is any iterable of documents (str), such as a list, a pandas Series or a column of a
    data set; a mapping from documents to counts; a `load_corpus` corpus or the ``Path`` of a text
    file; a Dask bag, which is counted by its own scheduler; or counts, which are returned. Chunks of
    ``data/texts`` and of ``wordfreq`` lose their leading space if the tokenizer puts ``▁`` before a
    text. Without a pre-tokenizer (SentencePiece style) the normalised text is split before each run
    of ``▁``. Special tokens in the text count as plain text.

    With ``folder``, counts that do not fit into memory are written there, a Parquet file for each
    128 MB of text. After an interruption the same call continues; ``counts.parquet`` is the result.
    ``min_count`` leaves out rarer pre-tokens at the end. None of these options changes the counts.

    Raises TypeError for a single string, a table and documents that are not strings; ValueError for
    missing values, lone surrogates, a corpus without text, counts by another pre-tokenizer, and a
    folder with counts of another corpus or tokenizer.

    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> tokenizer = Tokenizer(models.BPE())
    >>> tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    >>> dict(count_pretokens(["a cat, a dog"], tokenizer))
    {'a': 1, 'Ġcat': 1, 'Ġa': 1, 'Ġdog': 1, ',': 1}
    """
    positive("min_count", min_count)
    config = pretokenizer_config_of(tokenizer)
    corpus = opened_corpus(corpus)
    if isinstance(corpus, Pretokens):
        return _checked(corpus, config).at_least(min_count)
    if _is_bag(corpus):
        if folder is not None:
            raise ValueError("a Dask bag is counted without folder=: leave it out")
        units, counts, sizes = corpus.reduction(partial(_count_partition, config), add_up).compute()
    elif folder is not None:
        return _count_into(destination(folder), corpus, config, min_count)
    else:
        units, counts, sizes = count_units(_batches(corpus, config), config)
    words, counts = pretokens_of_units(units, counts, config)
    del units
    release_memory(sizes[1])
    return Pretokens(words, counts, *_text_sizes(corpus, config, sizes), config).at_least(min_count)


def _checked(counts: Pretokens, config: str) -> Pretokens:
    if counts.pretokenizer_config != config:
        raise ValueError(
            "the counts were made with another normalizer or pre-tokenizer than this tokenizer's: "
            "count the text again with count_pretokens(corpus, tokenizer)"
        )
    return counts


def _batches(corpus: Iterable[str], config: str) -> Iterable[Batch | Block]:
    """The documents of a corpus in batches, with a progress bar in a terminal."""
    batches = corpus.batches() if isinstance(corpus, Corpus) else None
    if batches is None:
        batches = batches_of(weighted_documents(corpus, config, unchecked=True))
    with progress("counting", unit="B", unit_scale=True) as shown:
        for batch in batches:
            shown.update(len(batch.text))
            yield batch


def _text_sizes(corpus: Iterable[str], config: str, sizes: np.ndarray) -> list[int]:
    """Characters, bytes, words and documents of the text, with the leading spaces of its chunks."""
    if not sizes[3] and isinstance(corpus, Corpus):
        next(iter(corpus))  # its error says why there is no document
    counts, spaces = counts_of(corpus), 0
    if isinstance(counts, ChunkCounts) and adds_space(config):
        spaces = sum(n for chunk, n in counts.items() if chunk.startswith(" "))
    chars, size, words, documents = sizes.tolist()
    return [chars + spaces, size + spaces, words, documents]


# --- on a cluster ------------------------------------------------------------------------------------
def _is_bag(corpus) -> bool:
    """Whether a corpus is a Dask bag, without importing Dask."""
    return type(corpus).__module__.startswith("dask.bag")


def _count_partition(config: str, documents: Iterable[str]) -> Counts:
    """A worker's task: count the units of one partition."""
    return count_units(batches_of(weighted_documents(documents, unchecked=True)), config)


# --- through files -----------------------------------------------------------------------------------
def _count_into(folder: Path, corpus: Iterable[str], config: str, min_count: int) -> Pretokens:
    """Count parts of a corpus into files, unless they are there, and merge these."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    try:
        for number, part in enumerate(_parts(_batches(corpus, config))):
            files.append(folder / f"part-{number:05}.parquet")
            _count_part(files[-1], part, config)
        if left := set(folder.glob("part-*.parquet")) - set(files):
            raise _other_counts(min(left))
        sizes = _text_sizes(corpus, config, total_sizes(files))
        result = folder / "counts.parquet"
        write_counts(result, merge_counts(files, folder), sizes, config)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; run again to continue") from None
    return load_counts(result, min_count=min_count)


def _parts(batches: Iterable[Batch | Block]) -> Iterator[list[Batch]]:
    """Batches in groups of about `PART_BYTES`."""
    part, size = [], 0
    for batch in batches:
        part.append(batch.opened())
        size += len(batch.text)
        if size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _count_part(file: Path, part: list[Batch], config: str) -> None:
    """Count a part into its file; a file that exists must be of the same text and config."""
    content = blake2b(config.encode(), digest_size=16)
    for array in chain.from_iterable(part):
        content.update(np.ascontiguousarray(array))
    if not file.exists():
        units, counts, sizes = count_units(part, config)
        words, counts = pretokens_of_units(units, counts, config)
        rows = pa.table([words, counts], SCHEMA.names)
        write_counts(file, [rows], sizes, config, part=content.hexdigest())
        return
    if (describe_counts(file) or {}).get("part") != content.hexdigest():
        raise _other_counts(file)
    deque(parquet_rows(file, SCHEMA.names), maxlen=0)  # raises ValueError if it is damaged


def _other_counts(file: Path) -> ValueError:
    return ValueError(
        f"{file} has counts of another corpus or tokenizer: give another folder, or delete this one"
    )
