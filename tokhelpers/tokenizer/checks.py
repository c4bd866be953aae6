"""Checks of arguments that functions of every folder share."""

import operator


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


def positive(name: str, value) -> int:
    """Return the value of the argument ``name`` as an int from 1 on.

    Raises ValueError, naming the argument, for anything but a whole number and for less than 1.
    """
    if (number := whole_number(name, value)) < 1:
        raise ValueError(f"{name} must be at least 1, not {value!r}: give a whole number from 1 on")
    return number
