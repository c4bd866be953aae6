"""Checks of arguments and tokenizers, and progress bars, shared by all folders."""

import operator
import re
from collections import Counter

from tqdm import tqdm

WORD_MARKERS = ("end_of_word_suffix", "continuing_subword_prefix")  # that a BPE model may have
SPARE_IDS = 100_000  # unused IDs that a tokenizer may have, beyond one per token
SURROGATE = re.compile("[\ud800-\udfff]")
DELAY = 5  # seconds of work after which progress is shown
MAX_COUNT = 1 << 52  # counts are compared as 64-bit floats


def whole_number(name: str, value) -> int:
    """Return an argument as an int; ValueError, naming it, for anything else, including booleans."""
    try:
        return operator.index(None if isinstance(value, bool) else value)
    except TypeError:
        raise ValueError(
            f"{name} must be a whole number, not {value!r}: give one such as 1000"
        ) from None


def positive(name: str, value, minimum: int = 1) -> int:
    """Return an argument as an int from ``minimum`` to 2^52; ValueError, naming it, for anything else."""
    if (number := whole_number(name, value)) < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {value!r}: give a larger number")
    if number > MAX_COUNT:
        raise ValueError(f"{name} must be at most 2^52, not {value!r}: give a smaller number")
    return number


def check_word_markers(model: dict) -> None:
    """Raise ValueError for a BPE model whose tokens mark the beginning or the end of words."""
    markers = [f"{m}={model[m]!r}" for m in WORD_MARKERS if model.get(m)]
    if markers and model["type"] == "BPE":
        raise ValueError(
            f"this BPE tokenizer writes {' and '.join(markers)} into its tokens, which is not supported: "
            "use one without, such as Llama-3, Qwen or Mistral (evaluate accepts this one as well)"
        )


def check_ids(ids: dict[str, int]) -> None:
    """Raise ValueError if two tokens share an ID, and for IDs far beyond the number of tokens."""
    if len(set(ids.values())) < len(ids):
        [(shared, _)] = Counter(ids.values()).most_common(1)
        named = [token for token, i in ids.items() if i == shared]
        raise ValueError(
            f"two tokens have the ID {shared:,}, {named[0]!r} and {named[1]!r}: give each token its own"
        )
    largest = max(ids.values(), default=0)
    if largest > 2 * len(ids) + SPARE_IDS:
        raise ValueError(
            f"the largest ID is {largest:,} for {len(ids):,} tokens: number them without such gaps, since "
            "tables have one row per ID"
        )


def check_text(text: str) -> None:
    """Raise TypeError for non-strings and ValueError for lone surrogates."""
    if not isinstance(text, str):
        raise TypeError(f"expected text as one string, got {type(text).__name__}")
    if surrogate := SURROGATE.search(text):
        number = f"U+{ord(surrogate[0]):04X}"
        raise ValueError(f"text contains lone surrogate {number}; fix its decoding")


def progress(description: str, iterable=None, **options) -> tqdm:
    """Make a progress bar, over an iterable if given: it appears in terminals when work takes long."""
    return tqdm(iterable, desc=description, disable=None, delay=DELAY, leave=False, **options)
