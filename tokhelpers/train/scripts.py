"""Scripts of characters: sentencepiece's rule that a token stays within one."""

from collections.abc import Callable
from functools import cache

DIGITS = frozenset("0123456789０１２３４５６７８９")  # those that sentencepiece knows


def script_rules(by_script: bool, by_number: bool) -> Callable[[str], bool] | None:
    """Make a function that says whether a token stays within one script, or None for no such rule."""
    if not by_script:
        return None

    def one_script(token: str) -> bool:
        before = None
        for character in token.removeprefix("▁"):
            script = _script(character)
            if script == "Zinh":
                script = before
            elif character in DIGITS and not by_number:
                script = None
            if None not in (script, before) and script != before:
                return False
            before = script
        return True

    return one_script


@cache
def _script(character: str) -> str:
    from fontTools.unicodedata import script

    kana = {"Hira", "Kana"}
    return "Hani" if script(character) in kana or character == "ー" else script(character)
