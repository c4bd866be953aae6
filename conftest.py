"""What the examples in docstrings may use without importing it, and which notebooks come first."""

import numpy as np
import pytest

import tokhelpers as th


@pytest.fixture(autouse=True)
def names_in_examples(doctest_namespace):
    doctest_namespace.update(th=th, np=np)


def pytest_collection_modifyitems(items):
    """Begin with the notebooks that take longest: two workers end together, neither with one alone."""
    if any(item.path.suffix == ".ipynb" for item in items):
        seconds = th.measured("notebooks").set_index("notebook").seconds
        items.sort(key=lambda item: -seconds.get(item.path.stem, 0))
