"""Checks of exercises: a sentence that says what is still wrong, and does not show the answer.

Only the standard library is imported: the site loads this file into the reader's browser.
"""

import math
from collections.abc import Callable
from copy import deepcopy

SHOWN = 90  # characters of a value that a sentence shows


class Verdict:
    """What a check found: ``right``, and a ``sentence`` that a notebook shows."""

    def __init__(self, right: bool, sentence: str):
        self.right, self.sentence = right, sentence

    def __repr__(self) -> str:
        return self.sentence

    def require(self) -> None:
        """Raise AssertionError with the sentence unless the answer is right: for grading."""
        if not self.right:
            raise AssertionError(self.sentence)


def check(function: Callable, *cases: tuple) -> Verdict:
    """Say in a sentence whether a function does what its exercise asks for.

    A case is (what must hold, arguments, result). The first case that fails is named, with what the
    function gave. Lists and tuples are taken for each other, and floats may differ in the ninth
    digit. The arguments are copies, so that a function that changes them harms nobody.

    >>> check(lambda word: list(word), ("a word is a list of its letters", ["at"], ["a", "t"]))
    Right: the case holds.
    >>> check(lambda word: ..., ("a word is a list of its letters", ["at"], ["a", "t"]))
    Not solved yet: the function gives nothing back.
    """
    name = "the function" if function.__name__ == "<lambda>" else function.__name__
    for says, arguments, expected in cases:
        called = f"{name}({', '.join(map(_shown, arguments))})"
        try:
            given = function(*deepcopy(list(arguments)))
        except Exception as error:
            told = f"{called} stops with {type(error).__name__}: {error}"
            return Verdict(False, f"Not right yet: {says}, but {told}.")
        if given is None or given is ...:
            return Verdict(False, f"Not solved yet: {name} gives nothing back.")
        if not _same(given, expected):
            return Verdict(False, f"Not right yet: {says}, but {called} gives {_shown(given)}.")
    held = "the case holds" if len(cases) == 1 else f"all {len(cases)} cases hold"
    return Verdict(True, f"Right: {held}.")


def check_answer(given, right, wrong: dict | None = None) -> Verdict:
    """Say in a sentence whether an answer is right; ``wrong`` has a sentence for a likely mistake.

    ``right`` is computed in the check itself, so that no file shows it; a function that computes it
    is called only when there is an answer, and before ``wrong`` is read: it may put mistakes there
    that have to be computed as well. For a tuple or list, the sentence names the first place at
    which it differs.

    >>> check_answer(..., 3)
    Not solved yet: put your answer in place of the dots.
    >>> check_answer(("a", "c"), ("a", "b"))
    Not right yet: look at number 2 of 2.
    >>> check_answer(4, 3, {4: "The two a's of aaa overlap."})
    Not right yet: The two a's of aaa overlap.
    """
    parts = given if isinstance(given, (list, tuple)) else [given]
    if any(part is ... or part is None for part in parts):
        return Verdict(False, "Not solved yet: put your answer in place of the dots.")
    right = right() if callable(right) else right
    if _same(given, right):
        return Verdict(True, "Right.")
    for mistake, says in (wrong or {}).items():
        if _same(given, mistake):
            return Verdict(False, f"Not right yet: {says}")
    if isinstance(right, (list, tuple)) and isinstance(given, (list, tuple)):
        if len(given) != len(right):
            told = f"your answer has {len(given)} parts, the question asks for {len(right)}."
        else:
            pairs = enumerate(zip(given, right, strict=True), start=1)
            number = next(i for i, pair in pairs if not _same(*pair))
            told = f"look at number {number} of {len(right)}."
        return Verdict(False, f"Not right yet: {told}")
    return Verdict(False, f"Not right yet: it is not {_shown(given)}.")


def _same(given, expected) -> bool:
    """Equal, but for the kind of sequence and the last digits of floats."""
    if isinstance(expected, float) and isinstance(given, (int, float)):
        return math.isclose(given, expected, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(expected, (list, tuple)) and isinstance(given, (list, tuple)):
        return len(given) == len(expected) and all(map(_same, given, expected))
    try:
        return bool(given == expected)
    except Exception:  # what cannot be compared is not the answer
        return False


def _shown(value) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:40]} … {text[-40:]}"  # what is new stands last
