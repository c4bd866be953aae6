"""Hypothesis strategies and helpers that several tests share."""

from functools import cache

import pytest
from hypothesis import settings, strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

import tokhelpers as th

loaded = cache(th.load_tokenizer)  # for tests that leave it as it is


@st.composite
def tokenizers_with_gaps(draw):
    """Tokenizers of a few letters with some splits of each token as merges, in any order, or none.

    So some tokens may be unreachable.
    """
    tokens = draw(st.lists(st.text("abc", min_size=2, max_size=5), unique=True, max_size=14))
    vocab = {token: i for i, token in enumerate([*"abc", *tokens])}
    pairs = [(t[:k], t[k:]) for t in tokens for k in range(1, len(t))]
    pairs = [pair for pair in pairs if set(pair) <= vocab.keys()]
    merges = draw(st.permutations(pairs))[: draw(st.integers(0, len(pairs)))]
    made = Tokenizer(models.BPE(vocab, merges))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def one_fast(first, *others) -> list:
    """Parameters of a test of which all but the first are left to `make test-all`."""
    several = [other if isinstance(other, tuple) else (other,) for other in others]
    return [first, *(pytest.param(*values, marks=pytest.mark.long) for values in several)]


def examples(number: int) -> settings:
    """So many examples of a property in `make test-all`, and a quarter of them in `make test`."""
    return settings(max_examples=max(1, number * settings().max_examples // 100))
