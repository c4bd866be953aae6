"""The registry of sources: what the name of a corpus stands for.

A source is one object for all that depends on it: which documents there are, in which splits, what
is known of them as counts, and on what to measure. Each module that can read one enters its class
here, under the form of its names.
"""

import hashlib
import os
from collections.abc import Callable, Iterator

REGISTRY: dict[str, tuple[str, type["Source"]]] = {}  # by what a name begins with: form and class
PATHS = {"jsonl": (".jsonl", ".jsonl.gz", ".jsonl.xz"), "parquet": (".parquet",)}  # their endings


def digest(text: str) -> int:
    """Turn a text into a number of 64 bits, the same in every process: for draws and orders.

    >>> digest("a cat") % 10
    0
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class ChunkCounts(dict):
    """Chunks of running text and how often each occurs; a chunk has the space that stands before it.

    Iterating over any other mapping gives whole documents.
    """


class Source:
    """What a name stands for: `hpo` alone, or `wordfreq:fi`, a kind and what it is to be read of it.

    The methods that take a `reading` get the `Corpus`, which says how to read.
    """

    divided = True  # its documents have a split by their digest
    endless = False  # its documents are drawn, and do not end
    encoded = False  # its files may be in another encoding than UTF-8
    to_measure = False  # nothing is learned from it
    tells_nearest = False  # a name without a second part is told the nearest ones

    def __init__(self, name: str):
        self.name = name
        self.kind, _, self.rest = name.partition(":")

    def provenance(self, split: str, column: str) -> tuple[str, str]:
        """Licence and source, after the checks that need no reading; ValueError where they fail."""
        raise NotImplementedError

    def documents(self, reading) -> Iterator[str]:
        """All documents, of both splits if they are `divided`."""
        raise NotImplementedError

    def counts(self, split: str) -> dict[str, int] | None:
        """Chunks and how often each occurs, where that is what there is; else None."""
        return None

    def parts(self, reading, size: int) -> Iterator | None:
        """Parts of about `size` bytes for `Corpus.part`; None where it cannot be read in parts."""
        return None

    def held_out(self) -> str | None:
        """The name of the corpus whose split "test" is measured on; None where there is none."""
        return self.name


def source(*forms: str) -> Callable[[type[Source]], type[Source]]:
    """Enter a class into the registry, under the forms of its names, such as `wordfreq:LANG`."""

    def enter(kind: type[Source]) -> type[Source]:
        for form in forms:
            name, colon, _ = form.partition(":")
            REGISTRY[name + colon] = form, kind
        return kind

    return enter


def source_of(name: str) -> Source:
    """Find the source that a name stands for; ValueError for a name of none."""
    kind, colon, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    _, found = REGISTRY.get(kind + colon, ("", None))
    if found and (rest or not colon or found.tells_nearest):
        return found(name)
    if os.path.exists(str(name)):
        kind = next((kind for kind in PATHS if str(name).endswith(PATHS[kind])), "text")
        raise ValueError(f"{name!r} is a path, and a corpus has a name: write {kind}:{name}")
    forms = ", ".join(form for form, _ in REGISTRY.values())
    raise ValueError(f"no corpus is called {name!r}: give one of {forms}")
