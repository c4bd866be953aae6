"""Fixtures that several tests share."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings
from strategies import loaded

import tokhelpers as th

collect_ignore = ["offline"]  # for other processes: it closes the network

settings.register_profile("all", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("fast", settings.get_profile("all"), max_examples=25)
settings.load_profile("all")


def pytest_configure(config):
    """`make test` tries a quarter of the examples of each property."""
    if config.option.markexpr == "not long":
        settings.load_profile("fast")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """`make test-all` tries all of them: there the properties belong to what is long.

    What takes longest is begun first: two workers end together, neither with a long one alone.
    """
    for item in items if config.option.markexpr == "long" else ():
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("long")
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def pytest_collection_finish(session):
    """What is imported stays, and tests make objects by the 100,000: the collector need not come each 700."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real text and tokenizer files for development; tests that use them skip where they are not."""
    sibling = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("TOKHELPERS_SHARED_DATA", sibling))
    if not folder.is_dir():
        pytest.skip("the development data are not here (set TOKHELPERS_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def llama():
    return loaded("llama-3")


@pytest.fixture(scope="session")
def qwen():
    return loaded("qwen")


@pytest.fixture(scope="session")
def mistral():
    return loaded("mistral-v1")


@pytest.fixture(scope="session")
def finnish():
    """Two million characters of Finnish."""
    return list(th.load_corpus("wordfreq:fi", chars=2_000_000))


@pytest.fixture
def one_thread():
    """Several threads of torch wait for each other where other tests are at work."""
    from tokhelpers.models import initialisation  # it imports torch; most tests do without

    with initialisation.one_thread():
        yield
