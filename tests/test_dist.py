"""The release: what wheel and sdist hold, and that the wheel works without the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import tokhelpers as th

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[1]
NAME = f"tokhelpers-{th.__version__}"
CHECKOUT_ONLY = {".ci", ".github", ".gitignore"}


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what belongs to the project is not known")
    return run("git", "ls-files", cwd=ROOT).splitlines()


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Wheel and sdist as `make dist` builds them, from a copy: building writes beside the source."""
    copy, made = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        if (ROOT / name).is_file():  # a file may be deleted and not yet committed
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", made, copy)
    return made


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory):
    """The Python of an environment that has the wheel, and the tested packages to look up."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    [site] = home.glob("lib/python*/site-packages")
    assert not list(site.glob("tokhelpers*"))
    run(python, "-m", "pip", "install", "-q", "--no-deps", dist / f"{NAME}-py3-none-any.whl")
    # A folder named in a .pth file is searched; the editable install in it does not come along.
    (site / "tested.pth").write_text(sysconfig.get_paths()["purelib"])
    return python


def test_the_wheel_holds_the_package_alone(dist):
    names = zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl").namelist()
    package = {n for n in tracked() if n.startswith("tokhelpers/")}
    assert {n for n in names if ".dist-info/" not in n} == package
    assert {Path(n).suffix for n in package} <= {".py", ".pyi"}  # no data, which it would lack


def test_the_sdist_holds_the_project(dist):
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        names = {n.removeprefix(f"{NAME}/") for n in archive.getnames() if "." in n}
    missing = {n for n in tracked() if Path(n).parts[0] not in CHECKOUT_ONLY} - names
    assert not {n for n in missing if (ROOT / n).is_file() and "." in n}


def test_the_wheel_works_where_only_it_is_installed(installed, tmp_path):
    code = """
import json, sys
import tokhelpers as th
heavy = sorted({"torch", "transformers", "numba", "pandas", "tokenizers"} & set(sys.modules))
made = th.train_byte_level_bpe(["low lower lowest"] * 9, vocab_size=262)
try:
    th.published("paper_table_08")
except FileNotFoundError as error:
    told = str(error)
print(json.dumps([th.__file__, th.__version__, heavy, made.encode(" lowest").tokens, told]))
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TOKHELPERS"))}
    file, version, heavy, tokens, told = json.loads(
        run(installed, "-c", code, cwd=tmp_path, env=clean)
    )
    assert Path(file).is_relative_to(Path(installed).parents[1]) and version == th.__version__
    assert heavy == []  # `import tokhelpers` brings none of them
    assert "".join(tokens) == "Ġlowest" and len(tokens) < 7
    assert "checkout of tokhelpers" in told and "clone" in told
    for command in ([installed, "-m", "tokhelpers"], [installed.with_name("tokhelpers")]):
        assert "Example:" in run(*command, "extend", "--help", env=clean)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    not os.environ.get("CI"),
    reason="downloads every dependency once more, gigabytes with CUDA: run it with CI=1",
)
def test_the_wheel_brings_what_it_needs(dist, tmp_path):
    """Installed into an empty environment, from the index, within the tested versions."""
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    wheel = dist / f"{NAME}-py3-none-any.whl"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "requirements.txt", wheel)
    run(python, "-m", "pip", "check")
    run(python, "-m", "tokhelpers", "inspect", "mistral-v1", cwd=tmp_path)
    names = "import tokhelpers as th; [getattr(th, name) for name in th.__all__]"
    run(python, "-c", names, cwd=tmp_path)  # no name needs what only the notebooks have
