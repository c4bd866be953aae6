"""What the tests of this folder share: they count, and take no counts that were kept before."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _count_anew():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKHELPERS_COUNT_CACHE", "0")
        yield
