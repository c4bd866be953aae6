"""Checks of exercises, and ``mytok``: the reader's own functions, carried from lesson to lesson.

A check is a sentence that says what is still wrong and does not show the answer. A right answer that
is checked with ``keep=True`` is appended to ``mytok.py`` in the working folder, beside the notebook;
``mytok`` loads that file in the lessons that follow.

Only the standard library is imported: the site loads this file into the reader's browser, and
``mytok`` runs it in a process of its own.
"""

import ast
import linecache
import math
import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

SHOWN = 90  # characters of a value that a sentence shows
KEPT = Path("mytok.py")
HEADER = """# Your own functions, as lesson 01 kept them. Of two with the same name the later one counts.
import math
import re
from collections import Counter, defaultdict
from itertools import pairwise
"""
DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)  # what is kept of a cell
OUR_IMPORTS = ("import checks", "import textbook")  # the site's boxes begin with them
SECONDS = 5  # a kept function may take so long on its probes
WORDS = [(["c", "a", "t"], 10), (["b", "a", "t"], 5), (["b", "a", "g"], 12)]
BYTES = [([b"b", b"a", b"t"], 3), ([b"a", b"t"], 1)]
# What a kept function is called with before it is used: its results must be the textbook's.
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
    """What a check found: ``right``, and a ``sentence`` that a notebook shows."""

    def __init__(self, right: bool, sentence: str):
        self.right, self.sentence = right, sentence

    def __repr__(self) -> str:
        return self.sentence

    def require(self) -> None:
        """Raise AssertionError with the sentence unless the answer is right: for grading."""
        if not self.right:
            raise AssertionError(self.sentence)


def check(function: Callable, *cases: tuple, keep: bool = False) -> Verdict:
    """Say in a sentence whether a function does what its exercise asks for.

    A case is (what must hold, arguments, result). The first case that fails is named, with what the
    function gave. Lists and tuples are taken for each other, and floats may differ in the ninth
    digit. The arguments are copies, so that a function that changes them harms nobody. With
    ``keep`` a right answer is kept for ``mytok``.

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
    kept = f" {_keep(function)}" if keep and not _switched_off() else ""
    return Verdict(True, f"Right: {held}.{kept}")


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


# --- the reader's own functions, from lesson to lesson ---------------------------------------------
class MyTok:
    """The reader's ``count_pairs``, ``merge``, ``learn`` and ``encode``, or the textbook's."""

    count_pairs: Callable
    merge: Callable
    learn: Callable
    encode: Callable

    def __init__(self, functions: dict[str, Callable], faults: dict[str, str]):
        self.__dict__.update(functions)
        self.faults = faults  # what is wrong with those that are the textbook's

    def __repr__(self) -> str:
        yours = [name for name in PROBES if name not in self.faults]
        lines = [f"yours: {', '.join(yours)}"] if yours else []
        for says in dict.fromkeys(self.faults.values()):
            names = [name for name in self.faults if self.faults[name] == says]
            lines.append(f"the textbook's: {', '.join(names)} ({says})")
        return "\n".join(lines)


def mytok(textbook: ModuleType, pasted: str = "") -> MyTok:
    """Load the functions that the reader wrote in lesson 01, and the textbook's for the others.

    They are read from ``mytok.py`` in the working folder, or from ``pasted``. Each is first called
    in a process of its own. If it is missing or wrong, takes longer than five seconds, or uses a
    name that its cell does not define, the textbook's is taken, and what is shown says why. With
    ``TOKHELPERS_MYTOK=off`` in the environment all are the textbook's.

    >>> mytok(th.textbook, "def merge(tokens, pair): return tokens").faults["merge"][:50]
    "yours is not right: merge(['c', 'a', 't', 'a', 't'"
    """
    functions = {name: getattr(textbook, name) for name in PROBES}
    source = pasted.strip() or (KEPT.read_text(encoding="utf-8") if KEPT.is_file() else "")
    if _switched_off() or not source:
        why = "mytok.py is switched off" if _switched_off() else "nothing is kept in mytok.py yet"
        return MyTok(functions, dict.fromkeys(PROBES, why))
    source = source if source.startswith(HEADER) else HEADER + source
    faults = {name: says for name in PROBES if (says := _judged(source, name, textbook))}
    made = MyTok(functions, faults)
    space = {"__name__": "mytok", "mytok": made}
    if len(faults) < len(PROBES):
        linecache.cache[str(KEPT)] = (len(source), None, source.splitlines(True), str(KEPT))
        exec(compile(source, str(KEPT), "exec", dont_inherit=True), space)
        made.__dict__.update({name: space[name] for name in PROBES if name not in faults})
    return made


def _switched_off() -> bool:
    return os.environ.get("TOKHELPERS_MYTOK") == "off"


def _keep(function: Callable) -> str:
    """Append a function's cell to the file: its imports and definitions, nothing that runs."""
    cell = "".join(linecache.getlines(function.__code__.co_filename))
    nodes = [node for node in ast.parse(cell).body if isinstance(node, DEFINES)]
    if not any(getattr(node, "name", "") == function.__name__ for node in nodes):
        return "It is not kept: write it with def, in a cell."
    parts = [ast.get_source_segment(cell, node) for node in nodes]
    parts = [part for part in parts if part not in OUR_IMPORTS]
    text = "\n\n" + "\n".join(map(str, parts)) + "\n"
    before = KEPT.read_text(encoding="utf-8") if KEPT.is_file() else ""
    if not before.endswith(text):
        KEPT.write_text((before or HEADER) + text, encoding="utf-8")
    return "It is kept in mytok.py, for the lessons that follow."


def _judged(source: str, name: str, textbook: ModuleType) -> str:
    """What is wrong with a kept function, from a process of its own; in a browser there is none."""
    if sys.platform == "emscripten":
        return _fault(source, name, textbook)
    command = [sys.executable, "-I", "-X", "utf8", __file__, str(textbook.__file__), name]
    try:
        run = subprocess.run(
            command, input=source, capture_output=True, encoding="utf-8", timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"yours takes longer than {SECONDS} seconds"
    _, told, fault = run.stdout.rpartition(MARK)
    return fault.strip() if told else "yours ends Python"


MARK = "<what is wrong with it>"


def _fault(source: str, name: str, textbook: ModuleType) -> str:
    """What is wrong with a kept function, in a few words, or nothing."""
    functions = {n: getattr(textbook, n) for n in PROBES}
    stand_in = MyTok(functions, {})
    space = {"__name__": "mytok", "mytok": stand_in}
    try:
        exec(compile(source, str(KEPT), "exec", dont_inherit=True), space)
    except BaseException as error:
        return f"mytok.py stops with {type(error).__name__}: {error}"
    if name not in space:
        return "not kept yet"
    stand_in.__dict__.update({n: space[n] for n in PROBES if n in space})
    cases = [("", args, functions[name](*deepcopy(args))) for args in PROBES[name]]
    verdict = check(space[name], *cases)
    said = verdict.sentence.removeprefix("Not right yet: , but ").rstrip(".")
    return "" if verdict.right else f"yours is not right: {said}"


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


if __name__ == "__main__":  # called by _judged: the textbook's file, a name; the source on stdin
    spec = spec_from_file_location("textbook", sys.argv[1])
    book = module_from_spec(spec)
    spec.loader.exec_module(book)
    print(MARK + _fault(sys.stdin.read(), sys.argv[2], book))
