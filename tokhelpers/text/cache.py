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

from ..tokenizer import pretokenization, token_bytes
from ..tokenizer.files import CHECKOUT
from ..tokenizer.vendors import cache_folder
from .corpora import Corpus
from .count_files import load_counts, save_counts
from .pretokens import Pretokens

# The text of these changes only with the version of their package, which `Corpus.source` names.
FIXED = ("hpo", "hpo-names", "icd-10-cm", "wordfreq")
LEAST_BYTES = 1_000_000  # of text: less is counted as soon as it is loaded


def counted_once(corpus, rules: str, count: Callable[[], Pretokens]) -> Pretokens:
    """The counts of a corpus by these rules: those that were kept, or what ``count`` gives.

    A folder that cannot be written to, and a damaged file in it, are passed over.
    """
    is_fixed = isinstance(corpus, Corpus) and corpus.name.partition(":")[0] in FIXED
    if not is_fixed or CHECKOUT is None or os.environ.get("TOKHELPERS_COUNT_CACHE") == "0":
        return count()
    file = cache_folder() / "counts" / f"{_key(corpus, rules)}.parquet"
    with suppress(OSError, ValueError):
        return load_counts(file)
    counts = count()
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
