"""The release: what the wheel holds, which is built from the sdist, and that it works alone."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from test_project import ROOT, tracked

import tokhelpers as th

pytestmark = pytest.mark.long
NAME = f"tokhelpers-{th.__version__}"
WHEEL = f"{NAME}-py3-none-any.whl"


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Sdist, and wheel made from it, as `make dist` builds them; building writes beside the source."""
    copy, made = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", made, copy)
    return made


def test_the_wheel_holds_the_package_alone(dist):
    names = zipfile.ZipFile(dist / WHEEL).namelist()
    package = {n for n in tracked() if n.startswith("tokhelpers/")}
    assert {n for n in names if ".dist-info/" not in n} == package
    kinds = {".py", ".pyi"}  # no data, which it would lack
    assert {Path(n).suffix for n in package} <= kinds


def needed(asked: list[str]) -> set[str]:
    """The names that requirements ask for, and what these ask for in turn."""
    found, left = set(), [Requirement(line) for line in asked]
    while left:
        asked = left.pop()
        for extra in {"", *asked.extras} - {extra for name, extra in found if name == asked.name}:
            found.add((asked.name, extra))
            lines = map(Requirement, metadata.requires(asked.name) or [])
            left += (r for r in lines if not r.marker or r.marker.evaluate({"extra": extra}))
    return {name for name, _ in found}


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory):
    """The Python of an environment with the wheel and the tested versions of what it asks for."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    [site] = home.glob("lib/python*/site-packages")
    run(python, "-m", "pip", "install", "-q", "--no-deps", dist / WHEEL)
    wheel = metadata.Distribution.at(site / f"{NAME}.dist-info")
    asked = [line for line in wheel.requires if "extra ==" not in line]
    assert len(asked) > 20
    for file in chain.from_iterable(metadata.files(name) for name in needed(asked)):
        if ".." not in file.parts and not (site / file).exists():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).symlink_to(file.locate().resolve())
    assert not list(site.glob("jupyterlab*")) and not list(site.glob("pytest*"))
    run(python, "-m", "pip", "check")
    return python


def test_the_wheel_works_where_only_it_is_installed(installed, tmp_path):
    code = """
import json
import tokhelpers as th
made = th.train_byte_level_bpe(["low lower lowest"] * 9, vocab_size=262)
[getattr(th, name) for name in th.__all__]  # none needs what only the notebooks have
try:
    th.notebook.load_published("paper_table_08")
except FileNotFoundError as error:
    told = str(error)
print(json.dumps([th.__file__, th.__version__, made.encode(" lowest").tokens, told]))
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TOKHELPERS"))}
    said = run(installed, "-c", code, cwd=tmp_path, env=clean)
    file, version, tokens, told = json.loads(said)
    assert Path(file).is_relative_to(Path(installed).parents[1]) and version == th.__version__
    assert "".join(tokens) == "Ġlowest" and len(tokens) < 7
    assert "checkout of tokhelpers" in told and "clone" in told
    run(installed, "-m", "tokhelpers", "inspect", "mistral-v1", cwd=tmp_path, env=clean)
    assert "inspect" in run(installed.with_name("tokhelpers"), "--help", cwd=tmp_path, env=clean)
    assert list(tmp_path.iterdir()) == []
