"""Hash tables of unique chunks, in compiled code."""

import numpy as np
import pyarrow as pa

from ..common.compiled import compiled

LOWER = np.uint64(24)  # the bits of a hash from here on choose the slot
CHUNK = [(name, np.int64) for name in ("begin", "end", "count", "place")] + [("hash", np.uint64)]
CHUNK = np.dtype((np.record, CHUNK))  # its bytes are those from `begin` on; `place` orders chunks


class Table:
    """Unique chunks, the bytes of all of them, and slots by their hashes."""

    def __init__(self):
        self.n = self.used = 0
        self.chunks, self.text = np.empty(0, CHUNK), np.empty(0, np.uint8)
        self.slots = np.full(1024, -1, np.int32)

    def add(self, text: np.ndarray, chunks: np.ndarray, place: int) -> None:
        """Add chunks of a text; the text begins at ``place``."""
        size, used = self.n + len(chunks), self.used + (chunks["end"] - chunks["begin"]).sum()
        if size > len(self.chunks):
            self.chunks = _grown(self.chunks, 2 * size)
        if used > len(self.text):
            self.text = _grown(self.text, 2 * used)
        if 2 * size > len(self.slots):
            self.slots = np.full(1 << int(2 * size).bit_length(), -1, np.int32)
            _write_slots(self.slots, self.chunks, self.n)
        state = self.slots, self.chunks, self.text, self.n, self.used
        self.n, self.used = _add(text, chunks, place, *state)

    def strings(self) -> pa.Array:
        ends = np.append(0, self.chunks["end"][: self.n])
        buffers = pa.py_buffer(ends), pa.py_buffer(self.text)
        return pa.LargeStringArray.from_buffers(self.n, *buffers)


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    """A larger copy, allocated by numpy, which asks for huge pages; compiled code does not."""
    larger = np.empty(size, array.dtype)
    larger[: len(array)] = array
    return larger


@compiled
def _write_slots(slots, chunks, n):
    """Enter the first `n` chunks into empty slots."""
    mask = np.uint64(len(slots) - 1)
    for e in range(n):
        slot = chunks[e].hash >> LOWER & mask
        while slots[slot] >= 0:
            slot = slot + np.uint64(1) & mask
        slots[slot] = e


@compiled
def _add(text, chunks, place, slots, entries, entries_text, n, used):
    """Count chunks in a table; returns the new numbers of its chunks and of their bytes."""
    mask = np.uint64(len(slots) - 1)
    for k in range(len(chunks)):
        chunk = chunks[k]
        begin, size, slot = chunk.begin, chunk.end - chunk.begin, chunk.hash >> LOWER & mask
        while slots[slot] >= 0:
            other = entries[slots[slot]]
            if other.hash == chunk.hash and other.end - other.begin == size:
                i, j = other.begin, 0
                while j < size and entries_text[i + j] == text[begin + j]:
                    j += 1
                if j == size:
                    other.count += chunk.count
                    break
            slot = slot + np.uint64(1) & mask
        if slots[slot] < 0:
            slots[slot], other = n, entries[n]
            other.begin, other.end, other.place = used, used + size, place + chunk.place
            other.hash, other.count = chunk.hash, chunk.count
            for j in range(size):
                entries_text[used + j] = text[begin + j]
            n, used = n + 1, used + size
    return n, used
