"""What the package never does: unpickle, run strangers' code, unpack archives, ask the network.

Not meant: what multiprocessing passes between the package's own processes, numba's cache.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import nbformat
import pyarrow as pa
import pytest
from pyarrow import parquet

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "tokhelpers").rglob("*.py"))

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
EXCEPTIONS = {("records.py", "subprocess")}  # git's commit, for the provenance of a measurement


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
    found = [f for f in findings(path.read_text()) if (path.name, f[0]) not in EXCEPTIONS]
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
@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """Run a program where only this machine can be reached; what it prints, and whom it asked.

    Python runs a module called sitecustomize when it starts: in every process begun here, too.
    """
    place = tmp_path_factory.mktemp("offline")
    path = os.pathsep.join([str(ROOT / "tests" / "offline"), str(ROOT)])

    def run(program, *arguments):
        log = place / "asked"
        log.write_text("")
        env = {name: value for name, value in os.environ.items() if not name.endswith("_OFFLINE")}
        env |= {"PYTHONPATH": path, "ASKED_OF_THE_NETWORK": str(log), "HF_HOME": str(place / "hub")}
        command = [sys.executable, "-c", program, *map(str, arguments)]
        done = subprocess.run(command, env=env, cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout, log.read_text()

    return run


MAIN_PATHS = """
import sys, warnings
import tokhelpers as th

for name in th.__all__:  # every module of the package
    getattr(th, name)
place = sys.argv[1]
for name in ("llama-3", "qwen", "mistral-nemo", "mistral-v1"):
    base = th.load_tokenizer(name)
names = ["hpo", "hpo-names", "icd-10-cm", "python-source", "wordfreq:fi"]
names += [f"{kind}:{place}/a.{kind}" for kind in ("text", "jsonl", "parquet")]
for name in names:
    texts = list(th.load_corpus(name, chars=2_000))
    assert texts, name
    print(name, sum(map(len, texts)))
medical = list(th.load_corpus("hpo", chars=20_000))
longer = th.extend(base, th.continue_bpe(base, medical, 20))
shorter = th.prune(longer, th.pruning_order(longer, medical, by="leaf-frequency"), 20)
print(shorter.get_vocab_size() == base.get_vocab_size(), th.evaluate(shorter, medical).bytes_per_token)
th.save_pretrained(longer, f"{place}/saved")
from transformers import AutoTokenizer
print(len(AutoTokenizer.from_pretrained(f"{place}/saved")) == longer.get_vocab_size())
for train in (th.train_wordpiece, th.train_sentencepiece_bpe, th.train_byte_level_bpe, th.train_unigram):
    with warnings.catch_warnings(action="ignore"):
        print(train.__name__, train(medical, vocab_size=400).get_vocab_size())
model = th.new_model("small-llama", base.get_vocab_size(), "causal-lm", hidden_size=6)
print(th.transfer_embeddings(model, base, longer).get_input_embeddings().weight.shape)
"""

HUB = """
import tokhelpers as th
try:
    th.load_tokenizer("org/model")
except OSError as error:
    print(error)
"""


@pytest.mark.long
def test_the_main_paths_need_no_network(offline, tmp_path):
    texts = [f"note {i}" for i in range(30)]
    (tmp_path / "a.text").write_text("\n".join(texts))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    printed, asked = offline(MAIN_PATHS, tmp_path)
    assert asked == ""
    assert printed.count("True") == 2 and "train_unigram" in printed


@pytest.mark.long
def test_a_name_of_the_hub_is_asked_of_the_network(offline):
    printed, asked = offline(HUB)
    assert "'org/model' cannot be loaded from the hub: it cannot be reached" in printed
    assert "huggingface.co" in asked


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
