"""What the package never does: unpickle, run strangers' code, unpack archives, ask the network.

Not meant: what multiprocessing passes between the package's own processes, numba's cache. That no
name needs the network is tested by the notebooks: nbval runs all of them without one.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path for folder in ("tokhelpers", "tools") for path in (ROOT / folder).rglob("*.py")
)

# --- the source ----------------------------------------------------------------------------------
# modules, functions by their whole name (so that a pattern's compile is none), methods with a point
FORBIDDEN = {
    "unpickling runs code": "pickle _pickle cPickle cloudpickle copyreg dill joblib shelve torch.load"
    " torch.save torch.hub.load yaml.load numpy.load np.load numpy.save np.save .read_pickle"
    " .to_pickle",
    "runs code": "marshal imp runpy code codeop eval exec compile __import__",
    "an archive names its own paths": "tarfile zipfile zipimport py7zr .unpack_archive .extractall",
    "asks the network by itself": "socket ssl http urllib ftplib requests httpx aiohttp urllib3",
    "starts programs": "subprocess pty os.system os.popen os.execv os.spawnv",
}
FORBIDDEN = {name: why for why, names in FORBIDDEN.items() for name in names.split()}
EXCEPTIONS = {
    ("notebook/records.py", "subprocess"),  # git's commit, for the provenance of a measurement
    *(("notebook/checks.py", name) for name in ("exec", "compile")),  # a reader's mytok
    ("tools/adding_up.py", "subprocess"),  # as counting_costs.py
    ("tools/counting_costs.py", "subprocess"),  # each measurement in a process of its own
    ("tools/rare_pretokens.py", "subprocess"),  # as counting_costs.py
    ("tools/readme.py", "subprocess"),  # pytest, which counts the cases
    ("tools/student.py", "zipfile"),  # writes one
}


def findings(source: str) -> Iterator[tuple[str, str]]:
    """Name and reason of all that the rules forbid in a module's source."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [name for alias in node.names for name in parents(alias.name)]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [*parents(node.module), *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            names = [name, f".{name.rpartition('.')[2]}"]
            yield from called(node, name)
        yield from ((name, FORBIDDEN[name]) for name in names if name in FORBIDDEN)


def parents(name: str) -> Iterator[str]:
    """A module and the packages that it is in."""
    return accumulate(name.split("."), "{}.{}".format)


def called(node: ast.Call, name: str) -> Iterator[tuple[str, str]]:
    given = {word.arg: ast.unparse(word.value) for word in node.keywords}
    owner, _, last = name.rpartition(".")
    for word in ("trust_remote_code", "allow_pickle"):
        if given.get(word, "False") != "False":
            yield word, "anything but False runs strangers' code"
    if last == "from_pretrained" and "Tokenizer" not in owner:
        if "config" not in owner.lower() and given.get("use_safetensors") != "True":
            yield "use_safetensors", "weights come as safetensors only"
        if "revision" not in given:
            yield "revision", "what is read tomorrow may be another model"
    if last == "import_module" and not re.match("f?['\"][.]", ast.unparse(node.args[0])):
        yield last, "imports what is named at run time"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_source_keeps_the_rules(path):
    name = f"{path.parent.name}/{path.name}"
    found = [f for f in findings(path.read_text()) if (name, f[0]) not in EXCEPTIONS]
    assert not found


def test_the_rules_find_what_they_forbid():
    for line in (
        "import http.client", "from torch import load", "eval('1')", "np.load(x)", "x.extractall()",
        "f(trust_remote_code=yes)", "LlamaModel.from_pretrained(x, revision=y)", "import_module(x)",
        "AutoConfig.from_pretrained(x)",
    ):  # fmt: skip
        assert list(findings(line)), line
    assert not list(findings("re.compile('x'); import_module(f'.{x}'); model.eval()"))


# --- the network ---------------------------------------------------------------------------------
@pytest.mark.long
def test_nbval_fails_where_a_notebook_asks_the_network(tmp_path):
    """Though the cell does without an answer, as libraries do. All notebooks are run so."""
    cell = "import socket\ntry: socket.create_connection(('192.0.2.1', 9), 1)\nexcept OSError: pass"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbformat.write(notebook, tmp_path / "a.ipynb")
    options = ["-p", "conftest", "-o", "addopts=", "--nbval", "--nbval-current-env", "a.ipynb"]
    command = [sys.executable, "-m", "pytest", *options]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env |= {"PYTHONPATH": os.pathsep.join([str(ROOT / "notebooks"), str(ROOT)])}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed" in done.stdout and done.returncode == 1, done.stdout + done.stderr
    assert "asked the network: '192.0.2.1'" in done.stdout
