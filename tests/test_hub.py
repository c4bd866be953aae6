"""The hub: tokenizers and corpora through the real clients, which ask a hub of the tests' own.

Whatever goes wrong ends in one sentence of the package's own, after a bounded wait, and leaves no
half of a file behind.
"""

import re
import time
from itertools import islice

import httpx2
import pytest
from hostile_files import rows, table
from hostile_text import small_model
from hub import Hub, Repository
from huggingface_hub import constants

import tokhelpers as th
from tokhelpers.text.table_files import read_hub
from tokhelpers.tokenizer.formats import from_spm

pytestmark = pytest.mark.filterwarnings("ignore")  # the clients' own
TEXTS = [f"note {i} of the set" for i in range(300)]
LOCAL = (
    "or give the path of a local copy or one of llama-3, qwen, mistral-nemo, mistral-v1, gpt-4, "
)
COPY = "log in if it is gated (hf auth login), or give a local copy as jsonl:PATH or parquet:PATH"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub in place of the network, and an empty cache; waits between tries are only counted."""
    made, waits = Hub(), []
    monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", lambda _, asked: made.answer(asked))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(time, "sleep", waits.append)
    yield made
    assert sum(waits) < 60


def tokenizer(name):
    return th.load_tokenizer(name).to_str()


def documents(name, *first):
    """All documents in the hub's order, or the first so many."""
    return list(islice(read_hub(name.removeprefix("hf:"), "text", "strict"), *first or [None]))


def both_splits(name):
    return [text for split in ("train", "test") for text in th.load_corpus(name, split=split)]


def fails(kind, job, *args) -> str:
    """The message of a failure: one line, nothing from the depths beneath it."""
    with pytest.raises(kind) as caught:
        job(*args)
    error = caught.value
    assert type(error) is kind and "\n" not in str(error)
    assert not error.__cause__ and (error.__suppress_context__ or not error.__context__)
    return str(error)


def put(hub, name, *commits, **options) -> Repository:
    hub.repositories[name] = Repository(list(commits), **options)
    return hub.repositories[name]


@pytest.fixture(scope="module")
def tiny():
    return th.train_byte_level_bpe(["bat bat cats in hats"], vocab_size=264).to_str()


@pytest.fixture(scope="module")
def tiny_file(tiny):
    return {"tokenizer.json": tiny.encode(), "README.md": b"# tiny\n"}


# --- tokenizers ----------------------------------------------------------------------------------
def test_a_revision_is_a_commit_a_tag_or_a_branch(hub, tiny, tiny_file):
    other = th.train_byte_level_bpe(["sun sunflower"], vocab_size=260).to_str()
    new = {"tokenizer.json": other.encode()}
    made = put(hub, "models/org/twice", tiny_file, new, tags={"v1": 0, "refs/pr/1": 0})
    for revision in (made.hashes()[0], "v1", "refs/pr/1"):
        assert tokenizer(f"org/twice@{revision}") == tiny
    for name in ("org/twice", "org/twice@main"):
        assert tokenizer(name) == other
    assert hub.asked["GET /org/twice/resolve/main/tokenizer.json"] == 1  # then it is in the cache
    message = fails(OSError, tokenizer, "org/twice@v2")
    assert "'org/twice@v2' cannot be loaded from the Hub: Revision Not Found for url" in message


def test_a_sentencepiece_model(hub):
    put(hub, "models/org/pieces", {"tokenizer.model": small_model()})
    assert tokenizer("org/pieces") == from_spm(small_model()).to_str()


@pytest.mark.parametrize(
    ("name", "token", "why"),
    [
        ("absent", "", "Repository Not Found for url: .*/tokenizer.json"),
        ("closed", "", "Cannot access gated repo for url .*/tokenizer.json"),
        ("closed", "other", "Cannot access gated repo for url .*/tokenizer.json"),
        ("weights", "", "it has neither tokenizer.json nor tokenizer.model"),
    ],
)
def test_a_refusal_says_why(hub, tmp_path, monkeypatch, name, token, why):
    monkeypatch.setenv("HF_TOKEN", token)
    put(hub, "models/org/closed", {"config.json": b"{}"}, token="key")
    put(hub, "models/org/weights", {"config.json": b"{}"})
    message = fails(OSError, tokenizer, f"org/{name}")
    assert re.match(f"'org/{name}' cannot be loaded from the Hub: {why}. Cache folder: ", message)
    assert f"{tmp_path / 'hub'}. Go online (and log in if the model is gated), {LOCAL}" in message


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (503, "Server error '503 Service Unavailable'"),
        ("silent", "it cannot be reached, and the tokenizer is not in the cache"),
        ("page", "Response from .* is missing the 'X-Repo-Commit' header"),
    ],
)
def test_a_hub_in_trouble(hub, tiny, tiny_file, fault, why):
    """The sentence at first; once the tokenizer is in the cache, that is used."""
    put(hub, "models/org/trouble", tiny_file)
    trouble = {"HEAD *": (fault, 99, 0)}
    hub.faults |= trouble
    message = fails(OSError, tokenizer, "org/trouble")
    assert re.match(f"'org/trouble' cannot be loaded from the Hub: {why}", message)
    hub.faults.clear()
    assert tokenizer("org/trouble") == tiny
    hub.faults |= trouble
    assert tokenizer("org/trouble") == tiny


def test_offline_and_not_cached(hub, monkeypatch, tmp_path):
    """Nothing is asked, and nothing waits."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(time, "sleep", None)
    why = "it cannot be reached, and the tokenizer is not in the cache"
    start = f"'org/model' cannot be loaded from the Hub: {why}. Cache folder: {tmp_path}"
    assert fails(OSError, tokenizer, "org/model").startswith(start) and not hub.asked


def left_in(cache):
    """Files with content in the cache of tokenizers."""
    return [file for file in cache.glob("models--*/[!r]*/**/*") if file.is_file()]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("cut", "Consistency check failed: file should be of size"),
        ("drop", "peer closed connection"),
        ("silent", "timed out"),
    ],
)
def test_a_download_that_breaks_off_leaves_nothing(hub, tmp_path, tiny, tiny_file, fault, why):
    put(hub, "models/org/broken", tiny_file)
    hub.faults["GET tokenizer.json"] = (fault, 10_000, 0)
    message = fails(OSError, tokenizer, "org/broken")
    start = f"'org/broken' cannot be loaded from the Hub: the download was interrupted ({why}"
    assert message.startswith(start) and LOCAL in message
    assert not left_in(tmp_path / "hub")
    hub.faults.clear()
    assert tokenizer("org/broken") == tiny


def test_a_truncated_file_is_reported(hub, tmp_path, tiny, tiny_file):
    """Cut where no client can see it, in the headers as well."""
    put(hub, "models/org/half", tiny_file)
    hub.faults |= {"HEAD *": ("cut", 99, 0), "GET tokenizer.json": ("cut", 99, 0)}
    for _ in range(2):
        message = fails(ValueError, tokenizer, "org/half")
        assert message.startswith("'org/half' is on the Hub, but ")
        assert "tokenizer.json cannot be read as a tokenizer: EOF while parsing" in message
        assert message.endswith("; delete that file to download it again")
        hub.faults.clear()
    for file in left_in(tmp_path / "hub"):
        file.unlink()
    assert tokenizer("org/half") == tiny


# --- corpora -------------------------------------------------------------------------------------
def test_configuration_split_and_revision(hub):
    card = b"""---
configs:
- {config_name: one, data_files: one/*.jsonl}
- {config_name: two, data_files: [{split: train, path: two/a.jsonl}, {split: dev, path: two/b.jsonl}]}
---
"""
    old = {"README.md": card}
    old |= {f"{file}.jsonl": rows([f"old {file}"]) for file in ("one/a", "two/a", "two/b")}
    new = {file: text.replace(b"old", b"new") for file, text in old.items()}
    put(hub, "datasets/org/several", old, new, tags={"v1": 0, "refs/convert/parquet": 0})
    plain = put(hub, "datasets/org/plain", {"a.jsonl": old["one/a.jsonl"]}, {"a.jsonl": b""})
    for name, expected in {
        "several@one": "new one/a",
        "several@two#dev": "new two/b",
        "several@one@v1": "old one/a",
        "several@two@refs/convert/parquet#dev": "old two/b",
        f"plain@@{plain.hashes()[0]}": "old one/a",
    }.items():
        assert documents(f"hf:org/{name}") == [expected], name


def test_a_corpus_is_streamed(hub):
    """The first document is there before the other files are asked for, and nothing is stored."""
    files = {f"data/train-{i}.parquet": table([f"{i} of the set"]) for i in range(4)}
    put(hub, "datasets/org/large", files)
    assert documents("hf:org/large", 1) == ["0 of the set"]
    asked = " ".join(hub.asked)
    assert "train-0.parquet" in asked and "train-3.parquet" not in asked


FILES = {"a.jsonl": rows(TEXTS), "a.parquet": table(TEXTS)}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("fault", ["drop", "cut", "silent", 503])
def test_one_fault_in_a_stream_loses_nothing(hub, file, fault):
    name = f"hf:org/hiccup-{file}-{fault}"
    put(hub, f"datasets/{name[3:]}", {file: FILES[file]})
    assert sorted(both_splits(name)) == sorted(TEXTS)
    for after in range(3):  # the first request looks at the kind of file, others read it
        hub.faults[f"GET {file}"] = (fault, 1, after)
        try:
            assert documents(name) == TEXTS
        except ValueError as error:
            assert fault == "cut" and file == "a.parquet"
            assert "cannot be read from the hub" in str(error)


@pytest.mark.parametrize(
    ("where", "fault", "kind", "why"),
    [
        ("GET a.parquet", "drop", OSError, "Server Disconnected"),
        ("GET a.parquet", "silent", OSError, "Server Disconnected"),
        ("GET a.parquet", 403, OSError, "403 Forbidden"),
        ("GET a.parquet", "cut", ValueError, "Parquet magic bytes not found in footer"),
        ("api", 503, OSError, "Server error '503 Service Unavailable' for url"),
    ],
)
def test_a_stream_that_stays_broken_is_given_up(hub, where, fault, kind, why):
    put(hub, f"datasets/org/gone-{fault}", {"a.parquet": FILES["a.parquet"]})
    hub.faults[where] = (fault, 10_000, 0)
    message = fails(kind, documents, f"hf:org/gone-{fault}")
    assert message.startswith(f"hf:org/gone-{fault} cannot be read from the hub: {why}")
    assert message.endswith(COPY)


@pytest.mark.parametrize(
    ("name", "token", "kind", "why"),
    [
        ("absent", "", OSError, "Dataset 'org/absent' doesn't exist on the Hub or cannot be"),
        ("secret", "", OSError, "Dataset 'org/secret' is a gated dataset .* be authenticated"),
        ("secret", "no", OSError, "Dataset 'org/secret' is a gated dataset .* ask for access"),
        ("given@@v9", "", OSError, "Revision 'v9' doesn't exist for dataset 'org/given'"),
        ("given@other", "", ValueError, r"BuilderConfig 'other' not found. Available: \['def"),
        ("given#dev", "", ValueError, r"Bad split: dev. Available splits: \['train'\]"),
        ("coded", "", OSError, "Dataset scripts are no longer supported, but found coded.py"),
    ],
)
def test_a_corpus_that_is_refused(hub, tmp_path, monkeypatch, name, token, kind, why):
    monkeypatch.setenv("HF_TOKEN", token)
    trap, files = f"open({str(tmp_path / 'sprung')!r}, 'w')", {"a.jsonl": FILES["a.jsonl"]}
    put(hub, "datasets/org/secret", files, token="key")
    put(hub, "datasets/org/given", files)
    put(hub, "datasets/org/coded", files | {"coded.py": trap.encode()})
    message = fails(kind, both_splits, f"hf:org/{name}")
    assert re.match(f"hf:org/{name} cannot be read from the hub: {why}", message)
    assert message.endswith(COPY)
    assert not (tmp_path / "sprung").exists()
