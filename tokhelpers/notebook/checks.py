"""Check exercises, and carry the reader's own functions from lesson to lesson (``mytok``).

A check returns a sentence that says what is wrong without giving away the answer. With ``keep=True``
a correct function is appended to ``mytok.py`` in the working folder, from which ``mytok`` loads it
in later lessons.

Only the standard library is imported: the site runs this file in the reader's browser.
"""

import ast
import linecache
import math
import numbers
import os
from collections.abc import Callable
from copy import deepcopy
from functools import wraps
from pathlib import Path
from types import ModuleType

MAX_SHOWN = 90  # characters of a value in a sentence
KEPT = Path("mytok.py")
NOT_WRITTEN = "Not yet written by you"
HEADER = """# Your own functions, as lesson 01 kept them. Of two with the same name the later one counts.
import math
import re
from collections import Counter, defaultdict
from itertools import pairwise
"""
KEPT_NODES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
SITE_IMPORTS = ("import checks", "import textbook")  # the first lines of the site's boxes
WORDS = [(["c", "a", "t"], 10), (["b", "a", "t"], 5), (["b", "a", "g"], 12)]
BYTES = [([b"b", b"a", b"t"], 3), ([b"a", b"t"], 1)]
# Arguments on which a kept function must agree with the textbook before it is used.
PROBES: dict[str, list[tuple]] = {
    "count_pairs": [(WORDS,), (BYTES,), ([(["a", "a", "a"], 5)],)],
    "merge": [(["c", "a", "t", "a", "t"], ("a", "t")), ([b"a", b"a", b"a"], (b"a", b"a"))],
    "learn": [(WORDS, 3), (BYTES, 9), (WORDS * 20, 9)],
    "encode": [
        (["c", "a", "t", "s"], {("c", "at"): 1, ("a", "t"): 0}),
        (["a", "b", "c"], {("a", "bc"): 0, ("b", "c"): 1}),
        ([b"a", b"a", b"a"], {(b"a", b"a"): 0}),
    ],
}


class Verdict:
    """The result of a check: ``right``, and the ``sentence`` that a notebook shows."""

    def __init__(self, right: bool, sentence: str):
        self.right, self.sentence = right, sentence

    def __repr__(self) -> str:
        return self.sentence

    def require(self) -> None:
        """Raise AssertionError with the sentence unless the answer is right (for grading)."""
        if not self.right:
            raise AssertionError(self.sentence)


def check(function: Callable, *cases: tuple, keep: bool = False, answer: str = "") -> Verdict:
    """Say in a sentence whether a function solves its exercise.

    A case is (a description, the arguments, the expected result). The first case that fails is named
    together with what the function returned. Lists and tuples are interchangeable, floats are
    compared to nine digits, and arguments are copied, so a function may change them as long as it
    returns its result. With ``keep`` a correct function is saved for ``mytok``. If the exercise asks
    for a value, such as a pattern, ``answer`` is its name, and ``function`` applies it, or returns
    None while it is missing.

    >>> check(lambda word: list(word), ("a word is a list of its letters", ["at"], ["a", "t"]))
    Right: the case holds.
    >>> check(lambda word: None, ("a word is a list of its letters", ["at"], ["a", "t"]))
    Not solved yet: the function does not return a result.
    >>> check(lambda text: text.split("|"), ("x is a digit", ["x"], ["1"]), answer="pattern")
    Not right yet: x is a digit, but with your pattern 'x' gives ['x'].
    """
    if not callable(function):
        kind = type(function).__name__
        article = "an" if kind[0] in "aeiou" else "a"
        return Verdict(False, f"Not solved yet: this is {article} {kind}, not a function: use def.")
    name = "the function" if function.__name__ == "<lambda>" else function.__name__
    for number, (description, arguments, expected) in enumerate(cases):
        call, gives = f"{name}({', '.join(map(_shortened, arguments))})", "returns"
        if answer:
            call, gives = f"with your {answer} {', '.join(map(_shortened, arguments))}", "gives"
        copies = deepcopy(list(arguments))
        try:
            result = function(*copies)
        except Exception as error:
            problem = f"{call} raises {type(error).__name__}: {error}"
            return Verdict(False, f"Not right yet: {description}, but {problem}.")
        if result is None and not _same(copies, list(arguments)):
            problem = f"{name} changes its argument and returns None: return the result"
            return Verdict(False, f"Not right yet: {problem}.")
        if answer and result is None:
            return Verdict(False, "Not solved yet: put your answer in place of the dots.")
        if number == 0 and (result is None or result is ...):
            return Verdict(False, f"Not solved yet: {name} does not return a result.")
        if not _same(result, expected):
            problem = f"{call} {gives} {_shortened(result)}"
            return Verdict(False, f"Not right yet: {description}, but {problem}.")
    summary = "the case holds" if len(cases) == 1 else f"all {len(cases)} cases hold"
    saved = f" {_keep(function)}" if keep and not _switched_off() else ""
    return Verdict(True, f"Right: {summary}.{saved}")


def check_answer(
    answer, right, mistakes: dict | None = None, *, digits: int | None = None
) -> Verdict:
    """Say in a sentence whether an answer is right; ``mistakes`` maps likely mistakes to sentences.

    ``right`` is the correct answer or a function that computes it, so that no file shows it, alone or
    as a pair with the mistakes. It is called only if there is an answer. If it raises an error, as
    with an unsolved function of an earlier exercise, the sentence says so; of a NotImplementedError,
    the sentence is its message. Of a tuple or list, the sentence names the first item that differs.
    With ``digits`` numbers are compared after rounding to that many decimals.

    >>> check_answer(..., 3)
    Not solved yet: put your answer in place of the dots.
    >>> check_answer(("a", "c"), ("a", "b"))
    Not right yet: look at number 2 of 2.
    >>> check_answer(4, 3, {4: "The two a's of aaa overlap."})
    Not right yet: The two a's of aaa overlap.
    >>> check_answer(0.67, 2 / 3, digits=2)
    Right.
    """
    is_sequence = isinstance(answer, (list, tuple))
    if any(item is ... or item is None for item in (answer if is_sequence else [answer])):
        return Verdict(False, "Not solved yet: put your answer in place of the dots.")
    try:
        right = right() if callable(right) else right
        if isinstance(right, tuple) and len(right) == 2 and isinstance(right[1], dict):
            right, mistakes = right
    except NotImplementedError as error:
        return Verdict(False, f"Not checked yet: {error}.")
    except Exception as error:  # of a function from an earlier exercise, say
        problem = f"{type(error).__name__}: {error}"
        sentence = f"the check uses your functions of the exercises above, and raises {problem}"
        return Verdict(False, f"Not checked yet: {sentence}.")
    unrounded, answer, right = answer, _rounded(answer, digits), _rounded(right, digits)
    if _same(answer, right):
        return Verdict(True, "Right.")
    for mistake, sentence in (mistakes or {}).items():
        if _same(answer, _rounded(mistake, digits)):
            return Verdict(False, f"Not right yet: {sentence}")
    if not is_sequence or not isinstance(right, (list, tuple)):
        return Verdict(False, f"Not right yet: it is not {_shortened(unrounded)}.")
    if len(answer) != len(right):
        sizes = f"your answer has {len(answer)} items, and {len(right)} are expected"
        return Verdict(False, f"Not right yet: {sizes}.")
    pairs = enumerate(zip(answer, right, strict=True), start=1)
    number = next(i for i, pair in pairs if not _same(*pair))
    return Verdict(False, f"Not right yet: look at number {number} of {len(right)}.")


# --- the reader's own functions, from lesson to lesson ---------------------------------------------
class MyTok:
    """The reader's ``count_pairs``, ``merge``, ``learn`` and ``encode``, or the textbook's."""

    count_pairs: Callable
    merge: Callable
    learn: Callable
    encode: Callable

    def __init__(self, functions: dict[str, Callable], faults: dict[str, str]):
        self.__dict__.update(functions)
        # for each function of the textbook, why the reader's is not used; "" if switched off
        self.faults = faults

    def __repr__(self) -> str:
        own = [name for name in PROBES if name not in self.faults]
        lines = [f"Your own version is used: {', '.join(own)}."] if own else []
        for fault in dict.fromkeys(self.faults.values()):
            names = ", ".join(name for name in self.faults if self.faults[name] == fault)
            if fault == NOT_WRITTEN:
                lines.append(f"{fault}, so the textbook's version is used: {names}.")
            else:
                reason = f" ({fault})" if fault else ""
                lines.append(f"The textbook's version is used: {names}{reason}.")
        return "\n".join(lines)


def mytok(textbook: ModuleType, pasted: str = "") -> MyTok:
    """Load the functions that the reader wrote in lesson 01, and the textbook's for the others.

    They are read from ``pasted``, or from ``mytok.py`` in the working folder, and called on a few
    arguments first. Where one is missing, wrong or raises an error, the textbook's is used, and the
    result says why. With ``TOKHELPERS_MYTOK=off`` in the environment all are the textbook's.

    >>> mytok(th.textbook, "def merge(tokens, pair): return tokens").faults["merge"][:50]
    "yours is not right: merge(['c', 'a', 't', 'a', 't'"
    """
    source = pasted.strip() or (KEPT.read_text(encoding="utf-8") if KEPT.is_file() else "")
    result = MyTok({name: getattr(textbook, name) for name in PROBES}, {})
    if _switched_off() or not source:
        reason = "" if _switched_off() else NOT_WRITTEN
        result.faults = dict.fromkeys(PROBES, reason)
        return result
    source = source if source.startswith(HEADER) else HEADER + source
    linecache.cache[str(KEPT)] = (len(source), None, source.splitlines(True), str(KEPT))
    namespace = {"__name__": "mytok", "mytok": result}
    try:
        exec(compile(source, str(KEPT), "exec", dont_inherit=True), namespace)
    except Exception as error:
        result.faults = dict.fromkeys(PROBES, f"mytok.py raises {type(error).__name__}: {error}")
        return result
    own = {name: _normalized(namespace[name]) for name in PROBES if callable(namespace.get(name))}
    result.__dict__.update(own)  # while they are checked, they call each other
    faults = {name: _fault(own.get(name), getattr(textbook, name)) for name in PROBES}
    result.faults = {name: fault for name, fault in faults.items() if fault}
    result.__dict__.update({name: getattr(textbook, name) for name in result.faults})
    return result


def _normalized(function: Callable) -> Callable:
    """A kept function that leaves its arguments unchanged and returns what the textbook's does.

    It may work in place, and return tuples for lists or lists for pairs.
    """

    @wraps(function)
    def call(first, *others):
        if function.__name__ in ("merge", "encode"):
            result = function(list(first), *others)
            return list(result) if isinstance(result, (list, tuple)) else result
        result = function([(list(tokens), count) for tokens, count in first], *others)
        if function.__name__ == "learn" and isinstance(result, (list, tuple)):
            return [tuple(pair) if isinstance(pair, list) else pair for pair in result]
        return result

    return call


def _switched_off() -> bool:
    return os.environ.get("TOKHELPERS_MYTOK") == "off"


def _keep(function: Callable) -> str:
    """Append the imports and definitions of a function's cell to ``mytok.py``."""
    cell = "".join(linecache.getlines(function.__code__.co_filename))
    nodes = [node for node in ast.parse(cell).body if isinstance(node, KEPT_NODES)]
    if not any(getattr(node, "name", "") == function.__name__ for node in nodes):
        return "It is not saved: define it with def in a cell."
    sources = [ast.get_source_segment(cell, node) for node in nodes]
    text = "\n\n" + "\n".join(s for s in sources if s not in SITE_IMPORTS) + "\n"
    saved = KEPT.read_text(encoding="utf-8") if KEPT.is_file() else ""
    if not saved.endswith(text):
        KEPT.write_text((saved or HEADER) + text, encoding="utf-8")
    return "It is saved in mytok.py for later lessons."


def _fault(function: Callable | None, reference: Callable) -> str:
    """What is wrong with a kept function, or an empty string."""
    if function is None:
        return NOT_WRITTEN
    name = reference.__name__
    cases = [("", args, reference(*deepcopy(args))) for args in PROBES[name]]
    try:
        verdict = check(function, *cases)
    except SystemExit:
        return "yours exits Python"
    problem = verdict.sentence.removeprefix("Not right yet: , but ").rstrip(".")
    return "" if verdict.right else f"yours is not right: {problem}"


def _rounded(value, digits: int | None):
    """A number, or the numbers of a list or tuple, rounded; unchanged if digits is None."""
    if digits is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_rounded(item, digits) for item in value]
    is_number = isinstance(value, numbers.Real) and math.isfinite(value)
    return round(float(value), digits) if is_number else value


def _same(answer, expected) -> bool:
    """Compare by value: lists equal tuples, and floats are compared to nine digits."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        return answer.keys() == expected.keys() and all(
            _same(answer[key], expected[key]) for key in expected
        )
    if isinstance(expected, float) and isinstance(answer, (int, float)):
        return math.isclose(answer, expected, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(expected, (list, tuple)) and isinstance(answer, (list, tuple)):
        return len(answer) == len(expected) and all(map(_same, answer, expected))
    try:
        return bool(answer == expected)
    except Exception:  # such as arrays of different shapes
        return False


def _shortened(value) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:40]} … {text[-40:]}"
