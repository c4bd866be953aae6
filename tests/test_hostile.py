"""Hostile examples of each kind: 30 in the fast tier, 200 others in the long one, `make soak` more."""

import hostile
import pytest

SLOW = {"text: training": 5, "text: lone surrogates": 2}  # by how much fewer are tried


@pytest.mark.parametrize(
    ("number", "examples"), [(0, 30), pytest.param(1, 200, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", hostile.TARGETS)
def test_hostile_input(name, number, examples):
    examples //= SLOW.get(name, 1)
    assert hostile.tried(name, examples, number) >= examples // 4
