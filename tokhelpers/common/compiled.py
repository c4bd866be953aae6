"""Shared by compiled code: how it is compiled, a hash table over pairs of IDs, growing arrays.

A long-running loop is a function of plain arrays. If a loop takes an array out of a tuple, or replaces
one, numba counts references in each iteration, which takes half of the time or more.
"""

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numba import config, njit
from numba.core.caching import FunctionCache


class _Cache(FunctionCache):
    """numba's cache of a compiled function, valid until any module with compiled code changes.

    numba itself checks only the file of the function, not those of the functions it calls. It reads
    the stamp together with the types of the arguments, and fails if these are in a module that has
    been renamed since; the version comes before them.
    """

    def __init__(self, function: Callable):
        super().__init__(function)
        self._cache_file._source_stamp = _sources()
        self._cache_file._version += f", {_sources()}"


@cache
def _sources() -> str:
    """A hash of all modules with compiled code."""
    modules = sorted(Path(__file__).parents[1].glob("*/*.py"))
    texts = (module.read_bytes() for module in modules)
    return blake2b(b"".join(text for text in texts if b"@compiled" in text)).hexdigest()


def compiled(function: Callable | None = None, **options) -> Callable:
    """Compile a function on its first call, with the GIL released and the result cached on disk.

    Given only ``options`` of ``numba.njit``, it returns a decorator.
    """
    if function is None:
        return lambda function: compiled(function, **options)
    dispatcher = njit(nogil=True, **options)(function)
    if not config.DISABLE_JIT:
        dispatcher._cache = _Cache(function)
    return dispatcher


# --- a hash table from a pair of IDs to a number ------------------------------------------------
@compiled
def pair_key(a, b):
    return (np.int64(a) << 32) | np.int64(b)


@compiled
def both_symbols(key):
    return np.int32(key >> 32), np.int32(key & 0xFFFFFFFF)


@compiled
def slot_of(table, keys, key):
    """The slot of `key`, or its free slot, in the open-addressing `table` of places in `keys`."""
    mask = np.uint64(len(table) - 1)
    product = np.uint64(key) * np.uint64(
        0x9E3779B97F4A7C15
    )  # its high half depends on the whole key
    i = product >> np.uint64(32) & mask
    while table[i] >= 0 and keys[table[i]] != key:
        i = (i + np.uint64(1)) & mask
    return i


@compiled
def index_keys(keys, n, size):
    """A table over the first `n` keys; of equal keys the last one wins, as in the library."""
    table = np.full(size, -1, np.int32)
    for i in range(n):
        table[slot_of(table, keys, keys[i])] = i
    return table


# --- arrays and lists that grow -----------------------------------------------------------------
@compiled
def grown(rows, size):
    """Copy rows into an array of `size`, whose rest takes no memory until it is written.

    They are copied one by one, since numba takes long to compile an assignment to a slice.
    """
    larger = np.empty(size, rows.dtype)
    for i in range(len(rows)):
        larger[i] = rows[i]
    return larger


@compiled
def no_numbers():
    """Make an empty list of numbers.

    In a function that contains a comprehension, numba 0.68 removes some writes to arrays as dead code.
    """
    return [np.int64(0) for _ in range(0)]
