"""A saved tokenizer is the same tokenizer wherever it is loaded, and is saved whole or not at all."""

import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
from strategies import one_fast
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import tokhelpers as th
from tokhelpers.tokenizer import files, saving
from tokhelpers.tokenizer.parts import read_parts
from tokhelpers.tokenizer.vendors import source_file

HERE = (Path(__file__).parents[2], Path(__file__).parents[1])
TEXT = ["the bat bags the bats", "a bag, a bat 42", "some bagged bats"] * 20
TEMPLATE = "{% for m in messages %}<s>{{ m.content }}</s>\n{% endfor %}"


@pytest.fixture(scope="module")
def texts():
    """About 2,700 strings: running text, words of many scripts, random Unicode."""
    choose = random.Random(7)
    names = ["hpo", *(f"wordfreq:{language}" for language in ("fi", "ko", "hi", "ar", "zh"))]
    real = []
    for name in names:
        documents = th.load_corpus(name, chars=60_000 if name == "hpo" else 5_000)
        real += [text[i : i + 40] for text in documents for i in range(0, len(text), 40)]
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    kinds = [codes, codes[:0x3000]] * 375
    odd = ["".join(map(chr, choose.choices(kind, k=choose.randrange(20)))) for kind in kinds]
    return real + odd


def with_specials(texts, tokenizer):
    """Every fourth text with special tokens of the tokenizer at both ends and inside."""
    choose = random.Random(8)
    special = [t.content for t in tokenizer.get_added_tokens_decoder().values() if t.special]
    mixed = list(texts)
    for i in range(0, len(mixed) if special else 0, 4):
        at = choose.randrange(len(mixed[i]) + 1)
        first, middle, last = choose.choices(special, k=3)
        mixed[i] = f"{first}{mixed[i][:at]} {middle}{mixed[i][at:]}{last}"
    return mixed


def small(train=th.train_byte_level_bpe, vocab_size=270):
    return train(TEXT, vocab_size=vocab_size, special_tokens=["<s>", "</s>", "<pad>"])


def wrapped(tokenizer, **roles):
    """As transformers holds it, which takes a copy."""
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)


def content(folder):
    """Every file under a folder, by its path there."""
    files = (path for path in Path(folder).rglob("*") if not path.is_dir())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def config_of(folder):
    return json.loads((Path(folder) / "tokenizer_config.json").read_text(encoding="utf-8"))


# --- the same ids everywhere ----------------------------------------------------------------------
@pytest.fixture(scope="module")
def llama_extended(llama):
    return th.extend(llama, th.continue_bpe(llama, th.load_corpus("hpo", chars=100_000), 100))


def from_scratch(train, **options):
    return train(th.load_corpus("hpo", chars=60_000), vocab_size=900, **options)


SCRATCH = {
    "byte-level": lambda: from_scratch(th.train_byte_level_bpe, special_tokens=["<s>", "</s>"]),
    "wordpiece": lambda: from_scratch(th.train_wordpiece, special_tokens=["[UNK]", "[CLS]"]),
    "sentencepiece": lambda: from_scratch(th.train_sentencepiece_bpe),
    "unigram": lambda: from_scratch(th.train_unigram),
}


@pytest.mark.parametrize("name", one_fast("llama extended", "qwen", "mistral-v1", *SCRATCH))
def test_same_ids_after_saving(name, texts, llama_extended, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: asked.append(args))
    monkeypatch.setattr(socket.socket, "connect", lambda *args: asked.append(args))
    if name == "llama extended":
        tokenizer = llama_extended
    else:
        tokenizer = SCRATCH[name]() if name in SCRATCH else th.load_tokenizer(name)
    before = tokenizer.to_str()
    th.save_pretrained(tokenizer, tmp_path / "saved")
    assert tokenizer.to_str() == before
    mixed = with_specials(texts, tokenizer)
    expected = [e.ids for e in tokenizer.encode_batch_fast(mixed)]
    assert AutoTokenizer.from_pretrained(tmp_path / "saved")(mixed)["input_ids"] == expected
    read_back = Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    assert [e.ids for e in read_back.encode_batch_fast(mixed)] == expected
    assert read_back.to_str() == before
    assert asked == []  # nothing goes to the network
    if name in ("llama extended", "byte-level"):
        encoding = th.to_tiktoken(tokenizer)
        assert encoding.encode_batch(mixed, allowed_special="all", num_threads=1) == expected
        assert max(tokenizer.get_vocab().values()) == encoding.max_token_value


def test_same_ids_in_a_sentencepiece_model(texts, mistral, tmp_path):
    new = th.extend(mistral, th.continue_bpe(mistral, texts[:3000], 100))
    th.save_pretrained(new, tmp_path / "saved")
    loaded = th.load_tokenizer(tmp_path / "saved")
    th.save_sentencepiece(loaded, tmp_path / "new.model", model=source_file("mistral-v1"))
    loaded.encode_special_tokens = True  # in a text they are plain text to sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "new.model"))
    expected = [e.ids for e in loaded.encode_batch_fast(texts, add_special_tokens=False)]
    assert processor.encode(texts) == expected


# --- what is kept of another folder ---------------------------------------------------------------
def model_folder(folder, **more):
    """A folder as transformers writes it, with a model beside the tokenizer."""
    tokenizer = small()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    options = {
        "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "model_max_length": 77,
        "padding_side": "left", "truncation_side": "left", "chat_template": TEMPLATE,
        "model_input_names": ["input_ids"],
    }  # fmt: skip
    wrapped(tokenizer, **options | more).save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "original").mkdir()
    (folder / "original" / "consolidated.pth").write_bytes(b"more weights")
    (folder / "latest").symlink_to("original")
    (folder / "pytorch_model.bin").symlink_to("original/consolidated.pth")
    return th.load_tokenizer(folder)


KEPT = ["model_max_length", "padding_side", "truncation_side", "model_input_names", "chat_template"]
ROLES = ["bos_token", "eos_token", "pad_token", "extra_special_tokens", "special_tokens_map"]


@pytest.mark.parametrize("how", ["folder", "object", "tokenizer itself"])
def test_all_is_kept(how, tmp_path):
    old = model_folder(tmp_path / "old", extra_special_tokens=["<extra>"], image_token="<image>")
    like = AutoTokenizer.from_pretrained(tmp_path / "old")
    new = th.extend(old, th.Extension(tokens=["batsand"]))
    if how == "tokenizer itself":
        th.save_pretrained(like, tmp_path / "new")
    else:
        th.save_pretrained(
            new, tmp_path / "new", like=tmp_path / "old" if how == "folder" else like
        )
    loaded = AutoTokenizer.from_pretrained(tmp_path / "new")
    for name in KEPT + ROLES:
        assert getattr(loaded, name) == getattr(like, name), name
    assert loaded.image_token == "<image>" and loaded.extra_special_tokens == ["<extra>"]
    assert loaded.all_special_ids == like.all_special_ids
    messages = [{"role": "user", "content": "bats"}]
    assert loaded.apply_chat_template(messages) == like.apply_chat_template(messages)
    assert loaded("the bats")["input_ids"] == like("the bats")["input_ids"]


@pytest.mark.parametrize("names", [None, ["default", "tool_use"], ["rag", "tool_use"], []])
def test_chat_templates_replace_those_of_the_folder(names, tmp_path):
    """They are written where transformers 4 reads them as well."""
    templates = TEMPLATE if names is None else {name: f"{name} {TEMPLATE}" for name in names}
    model_folder(tmp_path / "new", chat_template={"default": "x", "stale": "y"})
    th.save_pretrained(small(), tmp_path / "new", like=wrapped(small(), chat_template=templates))
    assert AutoTokenizer.from_pretrained(tmp_path / "new").chat_template == (templates or None)
    listed = config_of(tmp_path / "new").get("chat_template", [])
    assert listed == TEMPLATE or {t["name"]: t["template"] for t in listed} == templates
    assert not list((tmp_path / "new").rglob("*.jinja"))


def test_other_special_tokens_around_a_text(tmp_path):
    model_folder(tmp_path / "old")
    with pytest.warns(
        UserWarning, match=r"like puts \['<s>'\] around an empty text, this tokenizer"
    ):
        th.save_pretrained(small(), tmp_path / "new", like=tmp_path / "old")


def test_like_that_cannot_be_used(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "tokenizer.json").write_text("{")
    for like, error, match in [
        (tmp_path / "missing", FileNotFoundError, "no folder .*missing: like is a folder"),
        (small(), TypeError, "like is a folder or a transformers tokenizer, not Tokenizer"),
        (tmp_path / "empty", ValueError, "cannot load like='.*empty': [^\n]+$"),
        (tmp_path / "bad", ValueError, "cannot load like='.*bad': [^\n]+$"),
        (wrapped(small(), pad_token="[PAD]"), ValueError, r"1 special .* first '\[PAD\]', are not"),
        (
            wrapped(small(), eos_token="b"),
            ValueError,
            "1 special tokens of like, first 'b', are not",
        ),
    ]:
        refused(tmp_path, tmp_path / "new", error, match, like=like)


# --- a folder that exists -------------------------------------------------------------------------
def test_a_model_in_the_folder_stays(tmp_path):
    old = model_folder(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("# My model")
    (tmp_path / "model" / "added_tokens.json").write_text('{"stale": 9}')
    weights = (tmp_path / "model" / "model.safetensors").stat()
    (tmp_path / "model").chmod(0o750)
    new = th.extend(old, th.Extension(tokens=["batsand"]))
    for _ in range(2):  # the second time it is a folder of ours
        th.save_pretrained(new, tmp_path / "model", like=tmp_path / "model")
    assert th.load_tokenizer(tmp_path / "model").to_str() == new.to_str()
    assert os.path.samestat(weights, (tmp_path / "model" / "model.safetensors").stat())
    kept = content(tmp_path / "model")
    assert kept["model.safetensors"] == b"weights" and kept["README.md"] == b"# My model"
    assert kept["original/consolidated.pth"] == b"more weights" and "added_tokens.json" not in kept
    assert kept["TOKENIZER.md"].startswith(saving.MARK.encode())
    assert os.readlink(tmp_path / "model" / "latest") == "original"
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_our_own_card_is_replaced(tmp_path):
    readme, beside = tmp_path / "new" / "README.md", tmp_path / "new" / "TOKENIZER.md"
    for step, card in enumerate([readme, readme, beside, readme]):
        if card == beside:
            readme.write_text("mine")
        elif beside.exists():
            readme.unlink()
        th.save_pretrained(small(), tmp_path / "new", calls=[f"call {step}"])
        assert f"call {step}" in card.read_text() and f"call {step - 1}" not in card.read_text()
        assert beside.exists() == (card == beside)


def test_tokenizer_files_of_other_programs_are_named(tmp_path):
    th.save_pretrained(small(), tmp_path / "new")
    (tmp_path / "new" / "tokenizer.model").write_bytes(b"old")
    before = content(tmp_path / "new")
    with pytest.raises(UserWarning, match="the folder keeps tokenizer.model, which some programs"):
        th.save_pretrained(small(), tmp_path / "new")  # warnings are errors here
    assert content(tmp_path / "new") == before
    with pytest.warns(UserWarning, match="tokenizer.model"):
        th.save_pretrained(small(vocab_size=265), tmp_path / "new")
    assert content(tmp_path / "new")["tokenizer.model"] == b"old"


@pytest.mark.parametrize(
    "model_type", one_fast("llama", "mistral", "gpt2", "bert", "gemma", "t5", "unheard")
)
def test_beside_models_of_other_types(model_type, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    tokenizer = small(th.train_sentencepiece_bpe, 285)
    th.save_pretrained(tokenizer, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded("a bat")["input_ids"] == tokenizer.encode("a bat").ids


@pytest.mark.long
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"model_type": "qwen2"}', "another .*normalizer.*, as Qwen2Tokenizer: the config.json"),
        ('{"model_type": "mistral"}', "another kind, as MistralCommonBackend: the config.json"),
        ("no JSON", "AutoTokenizer cannot load the folder: .*config.json"),
    ],
)
def test_a_folder_that_would_load_as_something_else(config, said, tmp_path):
    """A Qwen2 model's class has rules of its own; beside a Mistral model tekken.json comes first."""
    (tmp_path / "config.json").write_text(config)
    if "mistral" in config:
        shutil.copy(source_file("mistral-nemo"), tmp_path / "tekken.json")
    refused(tmp_path, tmp_path, ValueError, said, small(th.train_sentencepiece_bpe, 285))


def test_a_tokenizer_that_loses_ids_in_saving(tmp_path):
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.model = models.BPE({"a": 0, "b": 1, "c": 2, "d": 3}, [])
    with pytest.raises(ValueError, match="does not survive saving|cannot load the folder"):
        th.save_pretrained(tokenizer, tmp_path / "more" / "new")
    assert not list(tmp_path.iterdir())


# --- bad input ------------------------------------------------------------------------------------
def refused(tmp_path, folder, error, match, tokenizer=None, **options):
    """The call fails with one sentence, and everything is as it was."""
    before = content(tmp_path), sorted(tmp_path.rglob("*"))
    with pytest.raises(error, match=match) as caught:
        th.save_pretrained(tokenizer or small(), folder, **options)
    assert "\n" not in str(caught.value)
    assert (content(tmp_path), sorted(tmp_path.rglob("*"))) == before


def test_a_folder_that_is_read_only(tmp_path):
    model_folder(tmp_path / "model")
    (tmp_path / "model").chmod(0o555)
    refused(tmp_path, tmp_path / "model", PermissionError, "model is read-only: make it writable")


def test_the_working_directory_and_mount_points(tmp_path, monkeypatch):
    model_folder(tmp_path / "model")
    monkeypatch.chdir(tmp_path / "model" / "original")
    refused(tmp_path, "..", OSError, "model is or holds the working directory")
    with pytest.raises(OSError, match="/ is a mount point, which cannot be swapped: save to a fol"):
        th.save_pretrained(small(), "/")


def test_all_is_on_the_disk_before_the_swap(tmp_path, monkeypatch):
    tokenizer = model_folder(tmp_path / "model")
    th.save_pretrained(tokenizer, tmp_path / "expected", like=tmp_path / "model")
    synced, at_swap = set(), set()
    sync, swap = os.fsync, files._swap

    def syncing(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def swapping(draft, folder):
        written = [draft / path for path in content(tmp_path / "expected")]
        at_swap.update(path.stat().st_ino for path in [*written, draft, draft / "original"])
        assert at_swap <= synced
        swap(draft, folder)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(files, "_swap", swapping)
    th.save_pretrained(tokenizer, tmp_path / "model", like=tmp_path / "model")
    assert len(at_swap) == 5 and tmp_path.stat().st_ino in synced


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, None])
def test_a_file_system_that_cannot_swap(code, tmp_path, monkeypatch):
    """It says so, or the operating system has no such call."""
    libc = SimpleNamespace()
    if code:
        libc.renameat2 = lambda *args: files.ctypes.set_errno(code) or -1
    monkeypatch.setattr(files.ctypes, "CDLL", lambda *args, **options: libc)
    model_folder(tmp_path / "model")
    said = "two folders cannot be swapped here in one step.*save to a folder that does not exist"
    refused(tmp_path, tmp_path / "model", OSError, said)
    th.save_pretrained(small(), tmp_path / "new")  # needs no swap
    assert AutoTokenizer.from_pretrained(tmp_path / "new")("bat")["input_ids"]


def test_the_call_on_macos(tmp_path, monkeypatch):
    """There renamex_np swaps; here Linux's call stands behind its name."""
    real, calls = files.ctypes.CDLL(None, use_errno=True), []

    def swap(one, other, flags):
        calls.append(flags)
        return real.renameat2(-100, one, -100, other, flags)

    libc = SimpleNamespace(renamex_np=swap)
    monkeypatch.setattr(files.ctypes, "CDLL", lambda *args, **options: libc)
    model_folder(tmp_path / "model")
    th.save_pretrained(small(), tmp_path / "model")
    assert calls == [2] and content(tmp_path / "model")["model.safetensors"] == b"weights"


def test_what_comes_into_the_folder_meanwhile(tmp_path, monkeypatch):
    model_folder(tmp_path / "model")
    real = files._swap

    def swap(draft, folder):
        (folder / "checkpoint-7").mkdir()
        (folder / "checkpoint-7" / "model.safetensors").write_bytes(b"new weights")
        (folder / "more").write_bytes(b"as well")
        (folder / "more").replace(folder / "model.safetensors")
        real(draft, folder)

    monkeypatch.setattr(files, "_swap", swap)
    th.save_pretrained(small(), tmp_path / "model")
    now = content(tmp_path / "model")
    assert now["checkpoint-7/model.safetensors"] == b"new weights"
    assert now["model.safetensors"] == b"as well"
    assert th.load_tokenizer(tmp_path / "model").to_str() == small().to_str()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_is_no_tokenizer(tmp_path):
    for wrong in ("llama-3", 7, {"a": 0}, read_parts(small())):
        refused(tmp_path, tmp_path / "new", TypeError, "a tokenizer is needed, got", wrong)
    custom = small()
    custom.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(type("Mine", (), {})())
    refused(tmp_path, tmp_path / "new", ValueError, "cannot be written as tokenizer.json", custom)


# --- the card -------------------------------------------------------------------------------------
def test_card(tmp_path):
    base = small(vocab_size=265)
    new = th.extend(base, th.continue_bpe(base, TEXT, 3))
    corpus = th.load_corpus("hpo", chars=2_000)
    th.save_pretrained(base, tmp_path / "base")
    th.save_pretrained(
        new,
        tmp_path / "new",
        base={"bats": base},
        texts={"bat sentences": TEXT, "hpo": corpus, "counted": th.count_pretokens(TEXT, base)},
        calls=["extension = continue_bpe(base, text, 3)", "extend(base, extension)"],
        measures={"bats": th.evaluate(new, TEXT), "hpo": th.evaluate(new, corpus)},
        rows={"copied": 265, "left out": [1, 2]},
    )
    card = (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    of_new, of_base = (
        hashlib.sha256((tmp_path / name / "tokenizer.json").read_bytes()).hexdigest()
        for name in ("new", "base")
    )
    for said in (
        f"268 tokens, 3 of them special; SHA-256 of its tokenizer.json: `{of_new}`\n",
        f"- bats: BPE, 265 tokens, 3 of them special; SHA-256 of its tokenizer.json: `{of_base}`\n",
        f"- bat sentences: 60 documents, hash `{saving.text_hash(TEXT)[0]}`\n",
        f"- hpo, {corpus!r}: ",
        f"; {corpus.source}; {corpus.licence}\n",
        "\n    extension = continue_bpe(base, text, 3)\n    extend(base, extension)\n",
        "|  | bats | hpo |\n",
        f"| tokens | {th.evaluate(new, TEXT)['tokens']:,.0f} | ",
        "|  | value |\n| --- | --- |\n| copied | 265 |\n\n",
        f"tokhelpers {th.__version__}, tokenizers ",
    ):
        assert said in card
    assert re.search(r"- counted: \d+ pre-tokens, hash `[0-9a-f]{64}`\n", card)


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"base": small}, "base is a mapping from names"),
        ({"base": {"x": 1}}, "a tokenizer is needed, got int"),
        ({"texts": TEXT}, "texts is a mapping from names"),
        ({"calls": "extend()"}, "calls is a list of strings"),
        ({"measures": 7}, "measures are a Series or a mapping, not a int"),
    ],
)
def test_card_facts_that_cannot_be_written(facts, match, tmp_path):
    with pytest.raises(TypeError, match=match):
        th.save_pretrained(small(), tmp_path / "new", **facts)
    assert not list(tmp_path.iterdir())


# --- killed ---------------------------------------------------------------------------------------
CHANGES = {
    "open", "os.mkdir", "os.link", "os.symlink", "os.rename", "os.remove", "os.rmdir", "os.chmod",
    "os.chown", "os.utime", "os.setxattr", "os.scandir", "os.listdir", "shutil.copytree",
    "shutil.rmtree", "ctypes.dlopen", "ctypes.dlsym",
}  # fmt: skip


def die_at(step, place):
    """From now on, kill this process before its `step`-th look at or change of the file system."""
    steps = count(1)

    def watch(event, args):
        here = event != "open" or place in str(args[0])
        if event in CHANGES and here and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def forked(work):
    """Run `work` in a child process; returns its id."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), flush=True)
        os._exit(1)
    return child


def killed(child):
    """Whether the child was killed; else it must have ended well."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def kill_at_each_step(place, there):
    """Save, killed before each step in turn; returns how often the old and the new folder were left."""
    place = Path(place).resolve()
    if there:
        model_folder(place / "old")

    def fresh(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return shutil.copytree(place / "old", folder, symlinks=True) if there else folder

    tokenizer = small(vocab_size=265)
    th.save_pretrained(tokenizer, fresh(place / "new"))
    states = [content(place / "old"), content(place / "new")]
    assert states[0] != states[1] and there == bool(states[0])
    work, left = place / "work", [0, 0]

    def save(step):
        die_at(step, str(place))
        th.save_pretrained(tokenizer, work)

    for step in count(1):
        fresh(work)
        if not killed(forked(partial(save, step))):
            break
        assert work.exists() or not there
        left[states.index(content(work))] += 1
    assert content(work) == states[1]
    return left


def save_at_the_same_time(place, times):
    """Three processes that save into one folder; what is left beside it."""
    tokenizers = [small(vocab_size=size) for size in (260, 265, 268)]
    work, states = Path(place).resolve() / "work", []
    model_folder(work)
    for tokenizer in tokenizers:
        th.save_pretrained(tokenizer, work)
        states.append(content(work))

    def save(tokenizer):
        for _ in range(times):
            th.save_pretrained(tokenizer, work)

    children = [forked(partial(save, tokenizer)) for tokenizer in tokenizers]
    assert not any(map(killed, children))
    assert content(work) in states
    return [path.name for path in Path(place).iterdir()]


KILLS = {
    "over a model": partial(kill_at_each_step, there=True),
    "new folder": partial(kill_at_each_step, there=False),
    "at the same time": partial(save_at_the_same_time, times=5),
}


def after_kills(name, place):
    """In a process of its own, which may fork: it has no threads."""
    program = f"import test_saving as t; print(t.json.dumps(t.KILLS[{name!r}]({str(place)!r})))"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env=os.environ
        | {"TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": os.pathsep.join(map(str, HERE))},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_killed_at_each_step_over_a_model(tmp_path):
    old, new = after_kills("over a model", tmp_path)
    assert old > 30 and new > 10


@pytest.mark.long
def test_killed_at_each_step_of_a_new_folder(tmp_path):
    absent, new = after_kills("new folder", tmp_path)
    assert absent > 15 and new == 1  # after the rename only the folder above it is synced


@pytest.mark.long
def test_saved_by_several_at_the_same_time(tmp_path):
    assert after_kills("at the same time", tmp_path) == ["work"]


# --- tiktoken -------------------------------------------------------------------------------------
@pytest.mark.long
def test_nemo_in_tiktoken(texts):
    """Special tokens come first there: ranks begin at 1000."""
    nemo = th.load_tokenizer("mistral-nemo")
    some = with_specials(texts[::10], nemo)
    expected = [e.ids for e in nemo.encode_batch_fast(some)]
    assert th.to_tiktoken(nemo).encode_batch(some, allowed_special="all") == expected


def ab(merges, vocab="ab abc bc cd bcd", **options):
    """A byte-level tokenizer over all bytes and a few tokens in this order."""
    base = th.train_byte_level_bpe(["x"], vocab_size=256)
    ids = base.get_vocab() | {token: 256 + i for i, token in enumerate(vocab.split())}
    made = Tokenizer(models.BPE(ids, [tuple(m.split("+")) for m in merges.split()], **options))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def test_every_small_tokenizer_is_refused_or_equal():
    """Two hundred texts over four letters, for random vocabularies and merges."""
    choose, accepted, refusals = random.Random(3), 0, 0
    words = ["".join(choose.choices("abcd", k=choose.randrange(1, 9))) for _ in range(200)]
    for _ in range(250):
        lengths = choose.choices((2, 2, 3, 4), k=choose.randrange(1, 7))
        tokens = {"".join(choose.choices("abcd", k=length)) for length in lengths}
        tokens = choose.sample(sorted(tokens), len(tokens))
        if choose.random() < 0.7:
            tokens.sort(key=len)
        known = {*"abcd", *tokens}
        splits = [(t[:i], t[i:]) for t in tokens for i in range(1, len(t))]
        splits = [f"{a}+{b}" for a, b in splits if {a, b} <= known and choose.random() < 0.8]
        if choose.random() < 0.2:
            choose.shuffle(splits)
        tokenizer = ab(" ".join(splits), " ".join(tokens), ignore_merges=choose.random() < 0.5)
        try:
            encoding = th.to_tiktoken(tokenizer)
        except ValueError as error:
            assert re.search("comes later than its id|are not what merges make", str(error))
            refusals += 1
            tokenizer = th.tiktoken_merges(tokenizer)
            encoding = th.to_tiktoken(tokenizer)
        else:
            accepted += 1
        for word in words:
            assert encoding.encode_ordinary(word) == tokenizer.encode(word).ids, (word, splits)
    assert accepted > 60 and refusals > 60


def test_merges_that_tiktoken_would_not_make():
    for merges, vocab, skipping, said in [
        ("a+bc a+b", "ab bc abc", False, "the merge into 'ab' comes later than its id says"),
        ("a+b", "ab abc", True, "1 tokens, first 'abc', are not what merges make"),
        ("a+b", "ab dab", False, "1 tokens, first 'dab', are not what merges make"),
    ]:
        with pytest.raises(ValueError, match=said):
            th.to_tiktoken(ab(merges, vocab, ignore_merges=skipping))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: setattr(t, "normalizer", normalizers.NFC()), "a normalizer"),
        (lambda t: t.add_tokens(["bats"]), "added tokens that are not special"),
        (
            lambda t: t.add_special_tokens([AddedToken("<x>", lstrip=True)]),
            "special tokens with one of single_word, lstrip, rstrip",
        ),
        (
            lambda t: t.add_special_tokens(["<x>", "<x>y"]),
            "a special token with which another begins",
        ),
        (lambda t: setattr(t.model, "dropout", 0.1), "merge dropout"),
        (lambda t: t.enable_padding(), "truncation or padding"),
    ],
)
def test_what_tiktoken_cannot_express(change, said):
    tokenizer = ab("a+b", "ab")
    change(tokenizer)
    with pytest.raises(ValueError, match=f"the tokenizer has {said}, which tiktoken cannot exp"):
        th.to_tiktoken(tokenizer)


def test_tokenizers_of_other_kinds_for_tiktoken(mistral):
    with pytest.raises(ValueError, match="the tokenizer is not byte-level BPE, and tiktoken knows"):
        th.tiktoken_merges(mistral)
    with pytest.raises(ValueError, match="the pre-tokenizer null.*no token for some bytes"):
        th.to_tiktoken(mistral)
    with pytest.raises(ValueError, match="a BPE tokenizer is needed"):
        th.to_tiktoken(small(th.train_wordpiece, 30))
    spaced = ab("a+b", "ab")
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    with pytest.raises(ValueError, match="the pre-tokenizer .*ByteLevel"):
        th.to_tiktoken(spaced)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    spaced.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(), level])
    with pytest.raises(ValueError, match="the pre-tokenizer .*Digits"):
        th.to_tiktoken(spaced)
