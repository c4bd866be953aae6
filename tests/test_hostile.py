"""Hostile examples of each kind: thirty in the fast tier, 200 in the long one, `make soak` more."""

import hostile
import pytest

SLOW = {"text: training": 5, "text: lone surrogates": 2}  # by how much fewer are tried


@pytest.mark.parametrize("examples", [30, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", hostile.TARGETS)
def test_hostile_input(name, examples):
    examples //= SLOW.get(name, 1)
    assert hostile.tried(name, examples) >= examples // 4
