"""How much the notebooks compute: ``quick`` (default) or ``full``, both offline."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Sizes and seed of a run; ``train_chars`` and ``test_chars`` are in characters."""

    name: str
    train_chars: int
    test_chars: int
    sizes: tuple[int, ...]
    seed: int = 0


SIZES = (1_000, 2_000, 4_000, 8_000, 16_000)
PROFILES = {
    # about a minute per notebook on a laptop
    "quick": Profile("quick", 12_000_000, 1_000_000, SIZES),
    # without a limit of time
    "full": Profile("full", 100_000_000, 10_000_000, (*SIZES, 32_000)),
}


def profile() -> Profile:
    """Return the profile in force: ``TOKHELPERS_PROFILE``, or ``quick``.

    Raises ValueError for another name.

    >>> profile().seed
    0
    """
    name = os.environ.get("TOKHELPERS_PROFILE", "quick")
    if name not in PROFILES:
        raise ValueError(f"TOKHELPERS_PROFILE is {name!r}: use {' or '.join(PROFILES)}")
    return PROFILES[name]
