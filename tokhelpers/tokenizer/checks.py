"""Checks of arguments, and how progress is shown: what functions of every folder share."""

import operator

from tqdm import tqdm

MOST = 1 << 52  # counts are compared as 64-bit floats


def whole_number(name: str, value) -> int:
    """Return the value of the argument ``name`` as an int.

    Raises ValueError, naming the argument, for anything but a whole number, and for True and False.
    """
    try:
        return operator.index(None if isinstance(value, bool) else value)
    except TypeError:
        raise ValueError(
            f"{name} must be a whole number, not {value!r}: give one, such as 1000"
        ) from None


def positive(name: str, value, least: int = 1) -> int:
    """Return the value of the argument ``name`` as an int from ``least`` on.

    Raises ValueError, naming the argument, for anything but a whole number, for less, and for more
    than 2^52, up to which counts are exact.
    """
    if (number := whole_number(name, value)) < least:
        raise ValueError(
            f"{name} must be at least {least}, not {value!r}: give a whole number from {least} on"
        )
    if number > MOST:
        raise ValueError(f"{name} must be at most 2^52, not {value!r}: give a smaller number")
    return number


DELAY = 5  # seconds of work, from which on progress is shown


def progress(what: str, of=None, **options) -> tqdm:
    """Make a progress bar, or go through ``of`` with one: in a terminal, when work takes long.

    >>> sum(progress("adding", [1, 2]))
    3
    """
    return tqdm(of, desc=what, disable=None, delay=DELAY, leave=False, **options)
