"""The hub: tokenizers, corpora and questions from a loopback server, through the real clients.

Whatever goes wrong ends in one sentence of the package's own, after a bounded wait, and leaves no
half of a file behind.
"""

import faulthandler
import io
import json
import os
import pickle
import re
import socket
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import published_questions
import pyarrow as pa
import pytest
from hostile_text import small_model
from hub_server import Hub, Repository, serve
from pyarrow import parquet
from strategies import one_fast

import tokhelpers as th
from tokhelpers.tokenizer.formats import from_spm

ROWS = [f"note {i} of the set" for i in range(300)]
LOCAL = (
    "or give the path of a local copy or one of llama-3, qwen, mistral-nemo, mistral-v1, gpt-4, "
)
COPY = "or give a local copy as jsonl:PATH or parquet:PATH"


def lines(texts) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def table(texts, rows=100) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.table({"text": texts}), file, row_group_size=rows)
    return file.getvalue()


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
    try:
        done = {"value": job(*args), "error": None}
    except Exception as error:
        hidden = error.__cause__ is None and (
            error.__context__ is None or error.__suppress_context__
        )
        done = {"value": None, "error": (type(error).__name__, str(error), hidden)}
    faulthandler.cancel_dump_traceback_later()
    return SimpleNamespace(**done, waited=sum(waits))


def tokenizer(name):
    return th.load_tokenizer(name).to_str()


def documents(name, *first):
    """All documents in the hub's order, or the first so many."""
    from tokhelpers.text.readers import read_hub

    return list(islice(read_hub(name.removeprefix("hf:"), "text", "strict"), *first or [None]))


def both_splits(name):
    return [list(th.load_corpus(name, split=split)) for split in ("train", "test")]


def weights(name, revision):
    """As the thesis' experiment asks for a model."""
    from transformers import LlamaForCausalLM

    LlamaForCausalLM.from_pretrained(name, revision=revision, use_safetensors=True)


@pytest.fixture(scope="module")
def loopback():
    with serve({}) as hub:
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
    assert (name, hidden) == (kind, True), message
    assert "\n" not in message
    return message


def put(hub, name, *commits, **options) -> Repository:
    hub.repositories[name] = Repository(list(commits), **options)
    return hub.repositories[name]


@pytest.fixture(scope="module")
def tiny():
    return th.train_byte_level_bpe(["bat bat cats in hats"], vocab_size=264)


@pytest.fixture(scope="module")
def other():
    return th.train_byte_level_bpe(["sun sunflower"], vocab_size=260)


@pytest.fixture(scope="module")
def tiny_file(tiny):
    return {"tokenizer.json": tiny.to_str().encode(), "README.md": b"# tiny\n"}


# --- tokenizers ----------------------------------------------------------------------------------
def test_a_tokenizer_and_its_cache(hub, ask, tiny, tiny_file):
    put(hub, "models/org/tiny", tiny_file)
    assert ask(tokenizer, "org/tiny").value == tiny.to_str()
    assert ask(tokenizer, "org/tiny").value == tiny.to_str()
    assert hub.asked["GET /org/tiny/resolve/main/tokenizer.json"] == 1


def test_a_sentencepiece_model(hub, ask):
    put(hub, "models/org/pieces", {"tokenizer.model": small_model()})
    assert ask(tokenizer, "org/pieces").value == from_spm(small_model()).to_str()


def test_a_revision_is_a_commit_a_tag_or_a_branch(hub, ask, tiny, other, tiny_file):
    new = {"tokenizer.json": other.to_str().encode()}
    made = put(hub, "models/org/twice", tiny_file, new, tags={"v1": 0, "refs/pr/1": 0})
    for revision in (made.hashes()[0], "v1", "refs/pr/1"):
        assert ask(tokenizer, f"org/twice@{revision}").value == tiny.to_str()
    for name in ("org/twice", "org/twice@main", f"org/twice@{made.hashes()[1]}"):
        assert ask(tokenizer, name).value == other.to_str()
    message = fails(ask(tokenizer, "org/twice@v2"), "OSError")
    assert "'org/twice@v2' cannot be loaded from the hub: Revision Not Found for url" in message


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


def test_what_is_gated_comes_with_access(hub, ask, tiny, tiny_file):
    put(hub, "models/org/mine", tiny_file, token="key")
    put(hub, "datasets/org/ours", {"a.jsonl": lines(ROWS)}, token="key")
    assert ask(tokenizer, "org/mine", token="key").value == tiny.to_str()
    assert ask(documents, "hf:org/ours", token="key").value == ROWS


@pytest.mark.parametrize(
    ("fault", "why"),
    one_fast(
        (503, "Server error '503 Service Unavailable'"),
        ("silent", "it cannot be reached, and the tokenizer is not in the cache"),
        ("page", "Response from .* is missing the 'X-Repo-Commit' header"),
        (429, "429 Too Many Requests"),
        (500, "Server error '500 Internal Server Error'"),
    ),
)
def test_a_hub_in_trouble(hub, ask, tiny, tiny_file, fault, why):
    """The sentence at first; once the tokenizer is in the cache, that is used."""
    name = f"org/trouble-{fault}"
    put(hub, f"models/{name}", tiny_file)
    hub.faults["HEAD *"] = (fault, 99, 0)
    done = ask(tokenizer, name)
    assert re.match(f"'{name}' cannot be loaded from the hub: {why}", fails(done, "OSError"))
    assert done.waited < 30
    hub.faults.clear()
    assert ask(tokenizer, name).value == tiny.to_str()
    hub.faults["HEAD *"] = (fault, 99, 0)
    assert ask(tokenizer, name).value == tiny.to_str()


def left_in(home, name):
    """Files with content in the cache of a tokenizer."""
    folder = home / "hub" / f"models--{name.replace('/', '--')}"
    return [file for file in folder.rglob("*") if file.is_file() and "refs" not in file.parts]


def test_a_dropped_connection_is_taken_up_again(hub, ask, tiny, tiny_file):
    put(hub, "models/org/dropped", tiny_file)
    hub.faults["GET tokenizer.json"] = ("drop", 2, 0)
    assert ask(tokenizer, "org/dropped").value == tiny.to_str()
    assert hub.asked["GET /org/dropped/resolve/main/tokenizer.json"] == 3


@pytest.mark.parametrize(
    ("fault", "why"),
    one_fast(
        ("cut", "Consistency check failed: file should be of size"),
        ("drop", "peer closed connection"),
        ("silent", "timed out"),
        (503, "Server error '503 Service Unavailable'"),
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
    assert ask(tokenizer, name).value == tiny.to_str()


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
    assert ask(tokenizer, "org/half").value == tiny.to_str()


# --- corpora -------------------------------------------------------------------------------------
def test_a_corpus_of_lines_and_one_of_tables(hub, ask):
    put(hub, "datasets/org/lines", {"README.md": b"# lines\n", "data/train.jsonl": lines(ROWS)})
    put(hub, "datasets/org/table", {"data/train-00000.parquet": table(ROWS)})
    for name in ("hf:org/lines", "hf:org/table"):
        train, test = ask(both_splits, name).value
        assert sorted(train + test) == sorted(ROWS) and test
        assert ask(documents, name).value == ROWS


def test_configuration_split_and_revision(hub, ask):
    card = b"""---
configs:
- {config_name: one, data_files: one/*.jsonl}
- {config_name: two, data_files: [{split: train, path: two/a.jsonl}, {split: dev, path: two/b.jsonl}]}
---
"""
    old = {"README.md": card, "one/a.jsonl": lines(["old one"]), "two/a.jsonl": lines(["old two"])}
    old["two/b.jsonl"] = lines(["old dev"])
    new = {file: text.replace(b"old", b"new") for file, text in old.items()}
    made = put(hub, "datasets/org/several", old, new, tags={"v1": 0, "refs/convert/parquet": 0})
    for name, expected in {
        "@one": "new one",
        "@two#dev": "new dev",
        "@one@v1": "old one",
        "@two@refs/convert/parquet#dev": "old dev",
        f"@two@{made.hashes()[0]}": "old two",
        f"@two@{made.hashes()[1]}": "new two",
    }.items():
        assert ask(documents, f"hf:org/several{name}").value == [expected], name
    put(hub, "datasets/org/plain", {"a.jsonl": lines(["old"])}, {"a.jsonl": lines(["new"])})
    first = hub.repositories["datasets/org/plain"].hashes()[0]
    assert ask(documents, "hf:org/plain").value == ["new"]
    assert ask(documents, f"hf:org/plain@@{first}").value == ["old"]


def test_a_corpus_is_streamed(hub, ask):
    """The first document is there before the other files are asked for, and nothing is stored."""
    files = {f"data/train-{i}.parquet": table([f"{i} {text}" for text in ROWS]) for i in range(4)}
    put(hub, "datasets/org/large", files)
    assert ask(documents, "hf:org/large", 1).value == [f"0 {ROWS[0]}"]
    asked = " ".join(hub.asked)
    assert "train-0.parquet" in asked and "train-3.parquet" not in asked


@pytest.mark.parametrize(
    ("file", "content"),
    [("a.jsonl", lines(ROWS)), ("a.parquet", table(ROWS))],
    ids=["lines", "table"],
)
@pytest.mark.parametrize("fault", one_fast("drop", "cut", "silent", 503))
def test_one_fault_in_a_stream_loses_nothing(hub, ask, file, content, fault):
    name = f"org/hiccup-{file}-{fault}"
    put(hub, f"datasets/{name}", {file: content})
    assert ask(documents, f"hf:{name}").value == ROWS
    for after in range(3):  # the first request looks at the kind of file, others read it
        hub.faults[f"GET {file}"] = (fault, 1, after)
        done = ask(documents, f"hf:{name}")
        if fault == "cut" and file == "a.parquet" and done.error:
            assert "cannot be read from the hub" in fails(done, "ValueError")
        else:
            assert done.value == ROWS


@pytest.mark.parametrize(
    ("where", "fault", "kind", "why"),
    one_fast(
        ("GET a.parquet", "drop", "OSError", "Server Disconnected"),
        ("GET a.parquet", "silent", "OSError", "Server Disconnected"),
        ("GET a.parquet", 503, "OSError", "Server error '503 Service Unavailable' for url"),
        ("GET a.parquet", 403, "OSError", "403 Forbidden"),
        ("GET a.parquet", 404, "OSError", "Client error '404 Not Found' for url"),
        ("GET a.parquet", "cut", "ValueError", "Parquet magic bytes not found in footer"),
        ("api", 503, "OSError", "Server error '503 Service Unavailable' for url"),
    ),
)
def test_a_stream_that_stays_broken_is_given_up(hub, ask, where, fault, kind, why):
    name = f"org/gone-{fault}-{len(where)}"
    put(hub, f"datasets/{name}", {"a.parquet": table(ROWS)})
    hub.faults[where] = (fault, 10_000, 0)
    done = ask(documents, f"hf:{name}")
    message = fails(done, kind)
    assert message.startswith(f"hf:{name} cannot be read from the hub: {why}")
    assert message.endswith(f"log in if it is gated (hf auth login), {COPY}")
    assert done.waited < 30


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
    trap = f"open({str(home / 'sprung')!r}, 'w')"
    put(hub, "datasets/org/secret", {"a.jsonl": lines(ROWS)}, token="key")
    put(hub, "datasets/org/given", {"a.jsonl": lines(ROWS)})
    put(hub, "datasets/org/coded", {"coded.py": trap.encode(), "a.jsonl": lines(ROWS)})
    message = fails(ask(both_splits, f"hf:org/{name}", token=token), kind)
    assert re.match(f"hf:org/{name} cannot be read from the hub: {why}", message)
    assert message.endswith(COPY)
    assert not (home / "sprung").exists()


# --- questions and weights -----------------------------------------------------------------------
def test_published_questions_are_read_at_their_commit(hub, ask):
    dataset, commit, split, _ = published_questions.HUB["mmlu"]
    row = {"question": "Which is a bone?", "subject": "anatomy", "answer": 0}
    row["choices"] = ["Femur", "Liver", "Retina", "Aorta"]
    file = f"anatomy/{split}.jsonl"
    old, new = ({file: json.dumps({**row, "answer": answer}).encode()} for answer in (0, 3))
    files = f"data_files: [{{split: {split}, path: {file}}}]"
    old["README.md"] = f"---\nconfigs:\n- config_name: anatomy\n  {files}\n---".encode()
    made = put(hub, f"datasets/{dataset}", old, old | new, tags={commit: 0})
    (question,) = ask(published_questions.load_questions, "mmlu:anatomy").value
    assert (question.question, question.answer) == ("Which is a bone?", 0)
    made.tags.clear()
    done = ask(published_questions.load_questions, "mmlu:anatomy")
    assert f"Revision '{commit}' doesn't exist" in fails(done, "OSError")


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def test_weights_come_as_safetensors_or_not_at_all(hub, ask, home):
    config = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 9}
    pickled = pickle.dumps(Trap(home / "unpickled"))
    files = {"config.json": json.dumps(config).encode(), "pytorch_model.bin": pickled}
    made = put(hub, "models/org/llama", files)
    done = ask(weights, "org/llama", *made.hashes())
    assert "org/llama does not appear to have a file named model.safetensors" in done.error[1]
    assert not (home / "unpickled").exists()
