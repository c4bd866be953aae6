"""Checks of arguments and of tokenizers, and how progress is shown: what functions of every folder share."""

import operator
import re
from collections import Counter

from tqdm import tqdm

MARKS = (
    "end_of_word_suffix",
    "continuing_subword_prefix",
)  # what a BPE model may write into tokens
SPARE_IDS = 100_000  # so many more ids than tokens a tokenizer may have
SURROGATE = re.compile("[\ud800-\udfff]")
DELAY = 5  # seconds of work, from which on progress is shown
MOST = 1 << 52  # counts are compared as 64-bit floats


def whole_number(name: str, value) -> int:
    """Return an argument as an int; ValueError, naming it, for other values, True and False among them."""
    try:
        return operator.index(None if isinstance(value, bool) else value)
    except TypeError:
        raise ValueError(
            f"{name} must be a whole number, not {value!r}: give one, such as 1000"
        ) from None


def positive(name: str, value, least: int = 1) -> int:
    """Return an argument as an int from ``least`` to 2^52; ValueError, naming it, for other values."""
    if (number := whole_number(name, value)) < least:
        raise ValueError(
            f"{name} must be at least {least}, not {value!r}: give a whole number from {least} on"
        )
    if number > MOST:
        raise ValueError(f"{name} must be at most 2^52, not {value!r}: give a smaller number")
    return number


def check_marks(model: dict) -> None:
    """Raise ValueError for BPE whose tokens say where in a word they stand."""
    marks = {mark: model[mark] for mark in MARKS if model.get(mark)}
    if marks and model["type"] == "BPE":
        raise ValueError(
            f"this BPE tokenizer writes {' and '.join(f'{k}={v!r}' for k, v in marks.items())} into its "
            "tokens, which is not supported: give one without, such as Llama-3, Qwen or Mistral (evaluate "
            "takes this one as well)"
        )


def check_ids(ids: dict[str, int]) -> None:
    """Raise ValueError where two tokens have one id, and for ids far beyond the number of tokens."""
    if len(set(ids.values())) < len(ids):
        [(twice, _)] = Counter(ids.values()).most_common(1)
        named = [token for token, i in ids.items() if i == twice]
        raise ValueError(
            f"two tokens have the id {twice:,}, {named[0]!r} and {named[1]!r}: give each token its own"
        )
    largest = max(ids.values(), default=0)
    if largest > 2 * len(ids) + SPARE_IDS:
        raise ValueError(
            f"the largest id is {largest:,}, and there are {len(ids):,} tokens: number them without such "
            "gaps, as a table with a row per id is needed"
        )


def check_text(text: str) -> None:
    """Raise TypeError for what is no string, ValueError for half of a character."""
    if not isinstance(text, str):
        raise TypeError(f"a text is a string, got {type(text).__name__}: give one text")
    if half := SURROGATE.search(text):
        number = f"U+{ord(half[0]):04X}"
        raise ValueError(f"the text holds {number}, half of a character: decode it properly")


def progress(what: str, of=None, **options) -> tqdm:
    """Make a progress bar, or go through ``of`` with one: in a terminal, when work takes long."""
    return tqdm(of, desc=what, disable=None, delay=DELAY, leave=False, **options)
