"""What the examples in docstrings may use without importing it, as their readers have it already."""

import numpy as np
import pytest

import tokhelpers as th


@pytest.fixture(autouse=True)
def names_in_examples(doctest_namespace):
    doctest_namespace.update(th=th, np=np)
