"""Compiled code is kept on the disk, until any module with compiled code changes."""

import importlib.util
import pickle

import numba
import pytest

from tokhelpers.common import compiled

SOURCE = """
from tokhelpers.common.compiled import compiled

@compiled
def twice(x):
    return 2 * x
"""


@pytest.fixture
def found(tmp_path, monkeypatch):
    """A function that compiles a small module, and says whether it was found on the disk."""
    if numba.config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    file = tmp_path / "small.py"
    file.write_text(SOURCE)

    def compile_with(sources: str) -> bool:
        monkeypatch.setattr(compiled, "_sources", lambda: sources)
        spec = importlib.util.spec_from_file_location("small", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.twice(3) == 6
        return bool(module.twice.stats.cache_hits)

    return compile_with


def test_it_is_kept_until_a_module_changes(found):
    assert not found("these modules")
    assert found("these modules")
    assert not found("others")


def test_a_cache_with_types_of_a_renamed_module_is_not_read(found, tmp_path):
    assert not found("these modules")
    [index] = tmp_path.rglob("*.nbi")
    index.write_bytes(pickle.dumps(numba.__version__) + b"ctokhelpers.train.renamed\nScores\n.")
    assert not found("these modules")
    assert found("these modules")


def test_the_modules_with_compiled_code_decide(monkeypatch, tmp_path):
    before = compiled._sources.__wrapped__()
    assert compiled._sources.__wrapped__() == before
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    monkeypatch.setattr(compiled, "__file__", str(folder / "compiled.py"))
    (folder / "one.py").write_text(SOURCE)
    small = compiled._sources.__wrapped__()
    (folder / "two.py").write_text("nothing is compiled here")
    assert compiled._sources.__wrapped__() == small != before
    (folder / "two.py").write_text(SOURCE)
    assert compiled._sources.__wrapped__() != small
