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
        from run_notebooks import expected_seconds

        seconds = expected_seconds([item.path for item in items])
        items.sort(key=lambda item: -seconds[item.path])
