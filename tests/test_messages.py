"""Every message of the package stands in a test or an example, by words that no other message has.

That the line is run as well is for `make coverage` to say.
"""

import ast
import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
ROOMS = sorted((TESTS.parent / "tokhelpers").glob("*.py"))
ENOUGH = 12  # so many characters in a row; of a shorter message all


def strings(node):
    constants = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return [value for value in constants if isinstance(value, str)]


def runs(texts):
    texts = [text for text in texts if len(text) >= ENOUGH] or [max(texts, key=len)]
    return frozenset(t[i : i + ENOUGH] for t in texts for i in range(max(1, len(t) - ENOUGH + 1)))


def messages():
    """The runs of each message that an error or a warning is made of, and its line."""
    for path in ROOMS:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            made = isinstance(node, ast.Call) and ast.unparse(node.func)
            if made and made.endswith(("Error", "warnings.warn")) and strings(node):
                yield runs(strings(node)), f"{path.name}:{node.lineno}"


def said():
    """What the tests spell, patterns without their backslashes, and the errors in examples."""
    for path in TESTS.glob("*.py"):
        yield from (text.replace("\\", "") for text in strings(ast.parse(path.read_text("utf-8"))))
    for path in ROOMS:
        yield from re.findall(r"(?m)^ +\w+Error: (.*)", path.read_text("utf-8"))


def unsaid(made, spoken):
    """The lines of messages of which no test spells a run; one that others share does not count."""
    times = Counter(run for own in made for run in own)
    names = {at: {r for r in own if times[r] == 1} or own for own, at in made.items()}
    return [at for at, own in names.items() if not any(run in spoken for run in own)]


def test_every_message_is_in_a_test():
    made = dict(messages())
    missing = unsaid(made, "\n".join(said()))
    assert len(made) > 200 and not missing, missing


def test_a_message_that_no_test_spells_is_found():
    made = {runs(["give a list of strings"]): "a.py:1", runs(["give a list of tokens"]): "b.py:2"}
    assert unsaid(made, "give a list of s") == ["b.py:2"]
    assert unsaid(made, "give a list of") == ["a.py:1", "b.py:2"]
