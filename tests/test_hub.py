"""The hub: tokenizers and corpora from a loopback server, through the real clients.

Whatever goes wrong ends in one sentence of the package's own, after a bounded wait, and leaves no
half of a file behind.
"""

import faulthandler
import os
import re
import socket
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from types import SimpleNamespace

import pytest
from hostile_files import rows, table
from hostile_text import small_model
from hub_server import Hub, Repository, serve
from strategies import one_fast

import tokhelpers as th
from tokhelpers.tokenizer.formats import from_spm

TEXTS = [f"note {i} of the set" for i in range(300)]
LOCAL = (
    "or give the path of a local copy or one of llama-3, qwen, mistral-nemo, mistral-v1, gpt-4, "
)
COPY = "log in if it is gated (hf auth login), or give a local copy as jsonl:PATH or parquet:PATH"


# --- the clients, in a process of their own ------------------------------------------------------
waits: list[float] = []


def prepare():
    """Shorten the clients' waits, which are counted, and keep them on this machine."""
    sleep, resolve = time.sleep, socket.getaddrinfo

    def short(seconds):
        waits.append(seconds)
        sleep(seconds / 200)

    def local(host, *args, **options):
        if host not in ("127.0.0.1", b"127.0.0.1"):
            raise socket.gaierror(f"{host!r} is not this machine")
        return resolve(host, *args, **options)

    time.sleep, socket.getaddrinfo = short, local


def run(job, args, token, patience):
    """What a job gives or how it fails, and how many seconds it would have waited between tries."""
    from huggingface_hub import constants, file_download  # noqa: F401  # keeps what stands there now

    constants.HF_HUB_ETAG_TIMEOUT = constants.HF_HUB_DOWNLOAD_TIMEOUT = patience
    waits.clear()
    faulthandler.dump_traceback_later(900, exit=True)  # a hang shows where it hangs
    os.environ.pop("HF_TOKEN", None)
    if token:
        os.environ["HF_TOKEN"] = token
    value = failure = None
    try:
        value = job(*args)
    except Exception as error:
        hidden = error.__cause__ is None and (
            error.__context__ is None or error.__suppress_context__
        )
        failure = type(error).__name__, str(error), hidden
    faulthandler.cancel_dump_traceback_later()
    return SimpleNamespace(value=value, error=failure, waited=sum(waits))


def tokenizer(name):
    return th.load_tokenizer(name).to_str()


def documents(name, *first):
    """All documents in the hub's order, or the first so many."""
    from tokhelpers.text.readers import read_hub

    return list(islice(read_hub(name.removeprefix("hf:"), "text", "strict"), *first or [None]))


def both_splits(name):
    return [text for split in ("train", "test") for text in th.load_corpus(name, split=split)]


@pytest.fixture(scope="module")
def loopback():
    with serve() as hub:
        yield hub


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def pool(loopback, home):
    """The hub's clients read their settings once, when they are imported."""
    settings = {
        "HF_ENDPOINT": loopback.url,
        "HF_HOME": str(home),
        "HF_HUB_ETAG_TIMEOUT": "5",  # where a client reads it when it is imported; see `run`
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_VERBOSITY": "error",
        "DATASETS_VERBOSITY": "critical",
        "NO_PROXY": "127.0.0.1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for other in ("HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN_PATH"):
            patch.delenv(other, raising=False)
        for name, value in settings.items():
            patch.setenv(name, value)
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=prepare) as pool:
            pool.submit(int).result()
            yield pool


@pytest.fixture
def hub(loopback) -> Hub:
    loopback.asked.clear()
    loopback.faults.clear()
    return loopback


@pytest.fixture
def ask(pool, hub):
    """Run a job where the clients are; only a server that is silent on purpose is given up."""

    def ask(job, *args, token=""):
        silent = any(fault == "silent" for fault, *_ in hub.faults.values())
        done = pool.submit(run, job, args, token, 2 if silent else 600).result()
        assert done.waited < 60  # between tries, at the clients' own pace
        return done

    return ask


def fails(done, kind) -> str:
    """The message of a failure: one line, nothing from the depths beneath it."""
    assert done.error, done.value
    name, message, hidden = done.error
    assert (name, hidden, "\n" in message) == (kind, True, False), message
    return message


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
def test_a_revision_is_a_commit_a_tag_or_a_branch(hub, ask, tiny, tiny_file):
    other = th.train_byte_level_bpe(["sun sunflower"], vocab_size=260).to_str()
    new = {"tokenizer.json": other.encode()}
    made = put(hub, "models/org/twice", tiny_file, new, tags={"v1": 0, "refs/pr/1": 0})
    for revision in (made.hashes()[0], "v1", "refs/pr/1"):
        assert ask(tokenizer, f"org/twice@{revision}").value == tiny
    for name in ("org/twice", "org/twice@main"):
        assert ask(tokenizer, name).value == other
    assert hub.asked["GET /org/twice/resolve/main/tokenizer.json"] == 1  # then it is in the cache
    message = fails(ask(tokenizer, "org/twice@v2"), "OSError")
    assert "'org/twice@v2' cannot be loaded from the hub: Revision Not Found for url" in message


def test_a_sentencepiece_model(hub, ask):
    put(hub, "models/org/pieces", {"tokenizer.model": small_model()})
    assert ask(tokenizer, "org/pieces").value == from_spm(small_model()).to_str()


@pytest.mark.parametrize(
    ("name", "options", "token", "why"),
    [
        ("absent", None, "", "Repository Not Found for url: .*/tokenizer.json"),
        ("closed", {"token": "key"}, "", "Cannot access gated repo for url .*/tokenizer.json"),
        ("closed", {"token": "key"}, "other", "Cannot access gated repo for url .*/tokenizer.json"),
        ("weights", {}, "", "it has neither tokenizer.json nor tokenizer.model there"),
    ],
)
def test_a_refusal_says_why(hub, ask, home, name, options, token, why):
    if options is not None:
        put(hub, f"models/org/{name}", {"config.json": b"{}"}, **options)
    message = fails(ask(tokenizer, f"org/{name}", token=token), "OSError")
    assert re.match(f"'org/{name}' cannot be loaded from the hub: {why}. Cache folder: ", message)
    assert f"{home / 'hub'}. Either go online (and log in, if it is gated), {LOCAL}" in message


@pytest.mark.parametrize(
    ("fault", "why"),
    one_fast(
        (503, "Server error '503 Service Unavailable'"),
        ("silent", "it cannot be reached, and the tokenizer is not in the cache"),
        ("page", "Response from .* is missing the 'X-Repo-Commit' header"),
    ),
)
def test_a_hub_in_trouble(hub, ask, tiny, tiny_file, fault, why):
    """The sentence at first; once the tokenizer is in the cache, that is used."""
    name, trouble = f"org/trouble-{fault}", {"HEAD *": (fault, 99, 0)}
    put(hub, f"models/{name}", tiny_file)
    hub.faults |= trouble
    message = fails(ask(tokenizer, name), "OSError")
    assert re.match(f"'{name}' cannot be loaded from the hub: {why}", message)
    hub.faults.clear()
    assert ask(tokenizer, name).value == tiny
    hub.faults |= trouble
    assert ask(tokenizer, name).value == tiny


def left_in(home, name):
    """Files with content in the cache of a tokenizer."""
    folder = home / "hub" / f"models--{name.replace('/', '--')}"
    return [file for file in folder.rglob("*") if file.is_file() and "refs" not in file.parts]


@pytest.mark.parametrize(
    ("fault", "why"),
    one_fast(
        ("cut", "Consistency check failed: file should be of size"),
        ("drop", "peer closed connection"),
        ("silent", "timed out"),
    ),
)
def test_a_download_that_breaks_off_leaves_nothing(hub, ask, home, tiny, tiny_file, fault, why):
    name = f"org/broken-{fault}"
    put(hub, f"models/{name}", tiny_file)
    hub.faults["GET tokenizer.json"] = (fault, 10_000, 0)
    message = fails(ask(tokenizer, name), "OSError")
    start = f"'{name}' cannot be loaded from the hub: the download broke off ({why}"
    assert message.startswith(start) and LOCAL in message
    assert not left_in(home, name)
    hub.faults.clear()
    assert ask(tokenizer, name).value == tiny


def test_a_truncated_file_is_reported(hub, ask, home, tiny, tiny_file):
    """Cut where no client can see it, in the headers as well."""
    put(hub, "models/org/half", tiny_file)
    hub.faults |= {"HEAD *": ("cut", 99, 0), "GET tokenizer.json": ("cut", 99, 0)}
    for _ in range(2):
        message = fails(ask(tokenizer, "org/half"), "ValueError")
        assert message.startswith("'org/half' was found on the hub, but ")
        assert "tokenizer.json cannot be read as a tokenizer: EOF while parsing" in message
        assert message.endswith("; delete that file to download it again")
        hub.faults.clear()
    for file in left_in(home, "org/half"):
        file.unlink()
    assert ask(tokenizer, "org/half").value == tiny


# --- corpora -------------------------------------------------------------------------------------
def test_configuration_split_and_revision(hub, ask):
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
        assert ask(documents, f"hf:org/{name}").value == [expected], name


def test_a_corpus_is_streamed(hub, ask):
    """The first document is there before the other files are asked for, and nothing is stored."""
    files = {f"data/train-{i}.parquet": table([f"{i} of the set"]) for i in range(4)}
    put(hub, "datasets/org/large", files)
    assert ask(documents, "hf:org/large", 1).value == ["0 of the set"]
    asked = " ".join(hub.asked)
    assert "train-0.parquet" in asked and "train-3.parquet" not in asked


FILES = {"a.jsonl": rows(TEXTS), "a.parquet": table(TEXTS)}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("fault", one_fast("drop", "cut", "silent", 503))
def test_one_fault_in_a_stream_loses_nothing(hub, ask, file, fault):
    name = f"org/hiccup-{file}-{fault}"
    put(hub, f"datasets/{name}", {file: FILES[file]})
    assert sorted(ask(both_splits, f"hf:{name}").value) == sorted(TEXTS)
    for after in range(3):  # the first request looks at the kind of file, others read it
        hub.faults[f"GET {file}"] = (fault, 1, after)
        done = ask(documents, f"hf:{name}")
        if fault == "cut" and file == "a.parquet" and done.error:
            assert "cannot be read from the hub" in fails(done, "ValueError")
        else:
            assert done.value == TEXTS


@pytest.mark.parametrize(
    ("where", "fault", "kind", "why"),
    one_fast(
        ("GET a.parquet", "drop", "OSError", "Server Disconnected"),
        ("GET a.parquet", "silent", "OSError", "Server Disconnected"),
        ("GET a.parquet", 403, "OSError", "403 Forbidden"),
        ("GET a.parquet", "cut", "ValueError", "Parquet magic bytes not found in footer"),
        ("api", 503, "OSError", "Server error '503 Service Unavailable' for url"),
    ),
)
def test_a_stream_that_stays_broken_is_given_up(hub, ask, where, fault, kind, why):
    name = f"org/gone-{fault}"
    put(hub, f"datasets/{name}", {"a.parquet": FILES["a.parquet"]})
    hub.faults[where] = (fault, 10_000, 0)
    message = fails(ask(documents, f"hf:{name}"), kind)
    assert message.startswith(f"hf:{name} cannot be read from the hub: {why}")
    assert message.endswith(COPY)


@pytest.mark.parametrize(
    ("name", "token", "kind", "why"),
    [
        ("absent", "", "OSError", "Dataset 'org/absent' doesn't exist on the Hub or cannot be"),
        ("secret", "", "OSError", "Dataset 'org/secret' is a gated dataset .* be authenticated"),
        ("secret", "no", "OSError", "Dataset 'org/secret' is a gated dataset .* ask for access"),
        ("given@@v9", "", "OSError", "Revision 'v9' doesn't exist for dataset 'org/given'"),
        ("given@other", "", "ValueError", r"BuilderConfig 'other' not found. Available: \['def"),
        ("given#dev", "", "ValueError", r"Bad split: dev. Available splits: \['train'\]"),
        ("coded", "", "OSError", "Dataset scripts are no longer supported, but found coded.py"),
    ],
)
def test_a_corpus_that_is_refused(hub, ask, home, name, token, kind, why):
    trap, files = f"open({str(home / 'sprung')!r}, 'w')", {"a.jsonl": FILES["a.jsonl"]}
    put(hub, "datasets/org/secret", files, token="key")
    put(hub, "datasets/org/given", files)
    put(hub, "datasets/org/coded", files | {"coded.py": trap.encode()})
    message = fails(ask(both_splits, f"hf:org/{name}", token=token), kind)
    assert re.match(f"hf:org/{name} cannot be read from the hub: {why}", message)
    assert message.endswith(COPY)
    assert not (home / "sprung").exists()
