"""Counts of named corpora, kept on the disk, so that each is counted once.

They are in ``data/cache/counts`` of a checkout, under a hash of what decides them: the corpus with
the version of its package, the rules that cut it, and the code and the libraries that count.
``TOKHELPERS_COUNT_CACHE=0`` switches this off; the folder may be deleted at any time.
"""

import hashlib
import json
import os
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from ..tokenizer import pretokenization, token_bytes, vendors
from ..tokenizer.files import CHECKOUT
from . import chunks, corpora, packaged_texts, pretokens
from .count_files import load_counts, save_counts

LEAST_BYTES = 1_000_000  # of text: less is counted as soon as it is loaded


def counted_once(corpus, rules: str, count: Callable[[], pretokens.Pretokens]):
    """The counts of a corpus by these rules: those that were kept, or what ``count`` gives.

    Only counts of a `Corpus` whose text is decided by its name and version are kept. A folder that
    cannot be written to, and a damaged file in it, are passed over.
    """
    kept = CHECKOUT is not None and os.environ.get("TOKHELPERS_COUNT_CACHE") != "0"
    if not kept or not isinstance(corpus, corpora.Corpus) or not corpus.is_fixed:
        return count()
    file = vendors.cache_folder() / "counts" / f"{_key(corpus, rules)}.parquet"
    with suppress(OSError, ValueError):
        return load_counts(file)
    counts = count()
    if counts.bytes >= LEAST_BYTES:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            save_counts(counts, file)
    return counts


def _key(corpus, rules: str) -> str:
    what = (corpus.name, corpus.source, corpus.split, corpus.chars, corpus.seed, rules)
    return hashlib.blake2b(json.dumps([what, _code()]).encode(), digest_size=16).hexdigest()


@cache
def _code() -> list[str]:
    """The code that decides counts: other code, or another library, counts anew."""
    modules = (corpora, packaged_texts, chunks, pretokens, pretokenization, token_bytes)
    own = hashlib.blake2b(b"".join(Path(m.__file__).read_bytes() for m in modules)).hexdigest()
    libraries = [version(name) for name in ("tokenizers", "regex", "numpy")]
    return [own, *libraries, unicodedata.unidata_version]
