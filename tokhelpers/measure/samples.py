"""A sample of a corpus for evaluation, which depends on the documents alone."""

import heapq
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple


class Sample(NamedTuple):
    """Documents, their number of characters, and that of the text they were drawn from."""

    documents: list[str]
    chars: int
    of_chars: int

    def __str__(self) -> str:
        return f"{self.chars:,} of {self.of_chars:,} characters"


def sample_documents(documents: Iterable[str], chars: int) -> Sample:
    """Draw documents with ``chars`` characters in all, the last one truncated.

    They are those with the smallest digests: the same for any order of the documents and any names of
    their files.

    >>> str(sample_documents(["a cat", "a dog", "a mouse"], 8))
    '8 of 17 characters'
    """
    heap, kept, total = [], 0, 0  # the documents with the largest digests come first
    for document in documents:
        total += len(document)
        digest = blake2b(document.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample")
        heapq.heappush(heap, (-int.from_bytes(digest.digest()), document))
        kept += len(document)
        while kept - len(heap[0][1]) >= chars:
            kept -= len(heapq.heappop(heap)[1])
    drawn = [document for _, document in sorted(heap, reverse=True)]
    if kept > chars:
        drawn[-1] = drawn[-1][: len(drawn[-1]) - (kept - chars)]
    return Sample(drawn, min(kept, chars), total)
