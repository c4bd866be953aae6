"""A saved tokenizer is the same tokenizer wherever it is loaded, and is saved whole or not at all."""

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
from itertools import chain, count
from multiprocessing import get_context

import pytest
from hypothesis import given, strategies as st
from strategies import content, examples, one_fast, tokenizers_with_gaps
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import tokhelpers as th
from tokhelpers.tokenizer import saving
from tokhelpers.tokenizer.spec import TokenizerSpec
from tokhelpers.tokenizer.vendors import source_file

TEXT = ["the bat bags the bats", "a bag, a bat 42", "some bagged bats"] * 20
TEMPLATE = "{% for m in messages %}<s>{{ m.content }}</s>\n{% endfor %}"


@pytest.fixture(scope="module")
def texts():
    """About 2,700 strings: running text, words of many scripts, random Unicode."""
    choose = random.Random(7)
    chars = {"hpo": 60_000} | {f"wordfreq:{code}": 5_000 for code in ("fi", "ko", "hi", "ar", "zh")}
    corpora = (th.load_corpus(name, chars=n) for name, n in chars.items())
    real = " ".join(chain.from_iterable(corpora))
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    kinds = [codes, codes[:0x3000]] * 375
    odd = ["".join(map(chr, choose.choices(kind, k=choose.randrange(20)))) for kind in kinds]
    return [real[i : i + 40] for i in range(0, len(real), 40)] + odd


def with_specials(texts, tokenizer):
    """Every fourth text with special tokens of the tokenizer at both ends and inside."""
    choose = random.Random(8)
    special = [t.content for t in tokenizer.get_added_tokens_decoder().values() if t.special]
    mixed = list(texts)
    for i in range(0, len(mixed), 4):
        at = choose.randrange(len(mixed[i]) + 1)
        first, middle, last = choose.choices(special or [""], k=3)
        mixed[i] = f"{first}{mixed[i][:at]} {middle}{mixed[i][at:]}{last}"
    return mixed


def small(train=th.train_byte_level_bpe, vocab_size=270):
    return train(TEXT, vocab_size=vocab_size, special_tokens=["<s>", "</s>", "<pad>"])


def wrapped(tokenizer, **roles):
    """As transformers holds it, which takes a copy."""
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)


# --- the same ids everywhere ----------------------------------------------------------------------
SCRATCH = {  # trainers and special tokens
    "byte_level_bpe": ["<s>", "</s>"],
    "wordpiece": ["[UNK]", "[CLS]"],
    "sentencepiece_bpe": [],
    "unigram": [],
}


@pytest.mark.parametrize(
    "name", one_fast("llama-3", "qwen", "mistral-v1", "mistral-nemo", *SCRATCH)
)
def test_same_ids_after_saving(name, texts, tmp_path, monkeypatch):
    """In tiktoken as well: Llama-3's extended, and Nemo's, whose special tokens come first."""
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: asked.append(args))
    monkeypatch.setattr(socket.socket, "connect", lambda *args: asked.append(args))
    medical = th.load_corpus("hpo", chars=100_000)
    if name in SCRATCH:
        train = getattr(th, f"train_{name}")
        tokenizer = train(medical, vocab_size=900, special_tokens=SCRATCH[name])
    else:
        tokenizer = th.load_tokenizer(name)
    if name == "llama-3":
        tokenizer = th.extend(tokenizer, th.continue_bpe(tokenizer, medical, 100))
    before = tokenizer.to_str()
    th.save_pretrained(tokenizer, tmp_path / "saved")
    assert tokenizer.to_str() == before
    mixed = with_specials(texts, tokenizer)
    expected = [e.ids for e in tokenizer.encode_batch_fast(mixed)]
    assert AutoTokenizer.from_pretrained(tmp_path / "saved")(mixed)["input_ids"] == expected
    read_back = Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    assert read_back.to_str() == before
    assert asked == []  # nothing goes to the network
    if name in ("llama-3", "mistral-nemo", "byte_level_bpe"):
        encoding = th.to_tiktoken(tokenizer)
        assert encoding.encode_batch(mixed, allowed_special="all", num_threads=1) == expected
        assert max(tokenizer.get_vocab().values()) == encoding.max_token_value


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


def refused(tmp_path, error, match, tokenizer=None, **options):
    """The call fails with one sentence, and everything is as it was."""
    before = content(tmp_path), sorted(tmp_path.rglob("*"))
    with pytest.raises(error, match=match) as caught:
        th.save_pretrained(tokenizer or small(), tmp_path / "new", **options)
    assert "\n" not in str(caught.value)
    assert (content(tmp_path), sorted(tmp_path.rglob("*"))) == before


@pytest.mark.parametrize("how", ["folder", "object", "tokenizer itself"])
def test_all_is_kept(how, tmp_path):
    old = model_folder(tmp_path / "old", extra_special_tokens=["<extra>"], image_token="<image>")
    like = AutoTokenizer.from_pretrained(tmp_path / "old")
    if how == "tokenizer itself":
        th.save_pretrained(like, tmp_path / "new")
    else:
        new = th.extend(old, th.Extension(tokens=["batsand"]))
        source = tmp_path / "old" if how == "folder" else like
        th.save_pretrained(new, tmp_path / "new", like=source)
    loaded = AutoTokenizer.from_pretrained(tmp_path / "new")
    for name in (
        "model_max_length", "padding_side", "truncation_side", "model_input_names",
        "chat_template", "bos_token", "eos_token", "pad_token", "extra_special_tokens",
        "special_tokens_map", "all_special_ids",
    ):  # fmt: skip
        assert getattr(loaded, name) == getattr(like, name), name
    assert loaded.image_token == "<image>" and loaded.extra_special_tokens == ["<extra>"]
    messages = [{"role": "user", "content": "bats"}]
    assert loaded.apply_chat_template(messages) == like.apply_chat_template(messages)
    assert loaded("the bats")["input_ids"] == like("the bats")["input_ids"]


def test_saving_in_place_keeps_what_the_folder_has(tmp_path):
    old = model_folder(tmp_path / "chat")
    before = AutoTokenizer.from_pretrained(tmp_path / "chat")
    extended = th.extend(old, th.Extension(tokens=["batsand"]))
    th.save_pretrained(extended, tmp_path / "chat", overwrite=True)
    after = AutoTokenizer.from_pretrained(tmp_path / "chat")
    assert (after.chat_template, after.model_max_length) == (TEMPLATE, 77)
    assert after.special_tokens_map == before.special_tokens_map
    other = th.train_byte_level_bpe(TEXT, vocab_size=260)
    with pytest.raises(ValueError, match="3 special tokens of like, first '<s>', are not special"):
        th.save_pretrained(other, tmp_path / "chat", overwrite=True)
    assert AutoTokenizer.from_pretrained(tmp_path / "chat").chat_template == TEMPLATE


@pytest.mark.parametrize("names", [None, ["default", "tool_use"], ["rag", "tool_use"], []])
def test_chat_templates_replace_those_of_the_folder(names, tmp_path):
    """They are written where transformers 4 reads them as well."""
    templates = TEMPLATE if names is None else {name: f"{name} {TEMPLATE}" for name in names}
    model_folder(tmp_path / "new", chat_template={"default": "x", "stale": "y"})
    like = wrapped(small(), chat_template=templates)
    th.save_pretrained(small(), tmp_path / "new", like=like, overwrite=True)
    assert AutoTokenizer.from_pretrained(tmp_path / "new").chat_template == (templates or None)
    listed = json.loads(content(tmp_path / "new")["tokenizer_config.json"]).get("chat_template", [])
    assert listed == TEMPLATE or {t["name"]: t["template"] for t in listed} == templates
    assert not list((tmp_path / "new").rglob("*.jinja"))


def test_other_special_tokens_around_a_text(tmp_path):
    model_folder(tmp_path / "old")
    said = r"like encodes an empty text as \['<s>'\], this tokenizer"
    with pytest.warns(UserWarning, match=said):
        th.save_pretrained(small(), tmp_path / "new", like=tmp_path / "old")


def test_like_that_cannot_be_used(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "tokenizer.json").write_text("{")
    missing, other = wrapped(small(), pad_token="[PAD]"), wrapped(small(), eos_token="b")
    for like, error, match in [
        (tmp_path / "missing", FileNotFoundError, "no folder .*missing: like must be a folder"),
        (small(), TypeError, "or a transformers tokenizer, not Tokenizer"),
        (tmp_path / "empty", ValueError, "cannot load like='.*empty': [^\n]+$"),
        (tmp_path / "bad", ValueError, "cannot load like='.*bad': [^\n]+$"),
        (missing, ValueError, r"1 special .* first '\[PAD\]', are not"),
        (other, ValueError, "1 special tokens of like, first 'b', are not"),
    ]:
        refused(tmp_path, error, match, like=like)


# --- a folder that exists -------------------------------------------------------------------------
def test_a_model_in_the_folder_stays(tmp_path):
    folder = tmp_path / "model"
    new = th.extend(model_folder(folder), th.Extension(tokens=["batsand"]))
    (folder / "README.md").write_text("# My model")
    (folder / "added_tokens.json").write_text('{"stale": 9}')
    weights = (folder / "model.safetensors").stat()
    folder.chmod(0o750)
    for _ in range(2):  # the second time it is a folder of ours
        th.save_pretrained(new, folder, like=folder, overwrite=True)
    assert th.load_tokenizer(folder).to_str() == new.to_str()
    assert os.path.samestat(weights, (folder / "model.safetensors").stat())
    kept = content(folder)
    assert kept["model.safetensors"] == b"weights" and kept["README.md"] == b"# My model"
    assert kept["original/consolidated.pth"] == b"more weights" and "added_tokens.json" not in kept
    assert kept["TOKENIZER.md"].startswith(saving.CARD_MARK.encode())
    assert os.readlink(folder / "latest") == "original"
    assert folder.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [folder]


def test_our_own_card_is_replaced(tmp_path):
    readme, beside = tmp_path / "new" / "README.md", tmp_path / "new" / "TOKENIZER.md"
    for step, card in enumerate([readme, readme, beside, readme]):
        if card == beside:
            readme.write_text("mine")
        elif beside.exists():
            readme.unlink()
        th.save_pretrained(small(), tmp_path / "new", calls=[f"call {step}"], overwrite=True)
        assert f"call {step}" in card.read_text() and f"call {step - 1}" not in card.read_text()
        assert beside.exists() == (card == beside)


def test_tokenizer_files_of_other_programs_are_named(tmp_path):
    th.save_pretrained(small(), tmp_path / "new")
    (tmp_path / "new" / "tokenizer.model").write_bytes(b"old")
    said = "the folder keeps tokenizer.model, which some programs"
    larger = small(vocab_size=265)
    refused(tmp_path, UserWarning, said, larger, overwrite=True)  # warnings are errors here
    with pytest.warns(UserWarning, match=said):
        th.save_pretrained(larger, tmp_path / "new", overwrite=True)
    assert content(tmp_path / "new")["tokenizer.model"] == b"old"


@pytest.mark.parametrize(
    "model_type", one_fast("llama", "mistral", "gpt2", "bert", "gemma", "t5", "unheard")
)
def test_beside_models_of_other_types(model_type, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    tokenizer = small(th.train_sentencepiece_bpe, 285)
    th.save_pretrained(tokenizer, tmp_path, overwrite=True)
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
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "config.json").write_text(config)
    if "mistral" in config:
        shutil.copy(source_file("mistral-nemo"), tmp_path / "new" / "tekken.json")
    refused(tmp_path, ValueError, said, small(th.train_sentencepiece_bpe, 285), overwrite=True)


def test_a_folder_that_holds_files_is_kept_unless_asked(tmp_path):
    (tmp_path / "new").mkdir()
    th.save_pretrained(small(), tmp_path / "new")  # an empty one is no loss
    said = "new exists and is not empty: choose another name, or pass overwrite=True"
    refused(tmp_path, FileExistsError, said)
    (tmp_path / "new" / "weights").write_bytes(b"weights")
    th.save_pretrained(small(vocab_size=265), tmp_path / "new", overwrite=True)
    assert (tmp_path / "new" / "weights").read_bytes() == b"weights"
    assert th.load_tokenizer(tmp_path / "new").get_vocab_size() == 265


def test_what_cannot_be_saved(tmp_path):
    for wrong in (7, {"a": 0}):
        refused(tmp_path, TypeError, "a tokenizer is needed, got", wrong)
    custom = small()
    custom.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(type("Mine", (), {})())
    refused(tmp_path, ValueError, "cannot be written as tokenizer.json", custom)
    losing = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    losing.add_special_tokens(["<s>"])
    losing.model = models.BPE({"a": 0, "b": 1, "c": 2, "d": 3}, [])  # <s> has no id of its own
    refused(tmp_path, ValueError, "does not survive saving|cannot load the folder", losing)


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
        "## Converting\n\nllama.cpp's converter to GGUF recognizes a pre-tokenizer by a hash",
    ):
        assert said in card
    assert "GGUF" not in (tmp_path / "base" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"- counted: \d+ pre-tokens, hash `[0-9a-f]{64}`\n", card)


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"base": small}, "base must be a mapping from names"),
        ({"base": {"x": 1}}, "a tokenizer is needed, got int"),
        ({"texts": TEXT}, "texts must be a mapping from names"),
        ({"calls": "extend()"}, "calls must be a list of strings"),
        ({"measures": 7}, "measures must be a Series or a mapping, not int"),
        *(({"texts": {"x": {"a": n}}}, "a count of the text mu") for n in (1.5, -1, True, 2**53)),
    ],
)
def test_card_facts_that_cannot_be_written(facts, match, tmp_path):
    refused(tmp_path, (TypeError, ValueError), match, **facts)


# --- killed ---------------------------------------------------------------------------------------
def save(tokenizer, folder, *, die_at=0):
    """Save, and kill this process before its `die_at`-th look at or change of the file system."""
    steps = count(1)

    def watch(event, args):
        kind = event.partition(".")[0]
        here = kind in ("os", "shutil") or (kind == "open" and str(folder.parent) in str(args[0]))
        if here and next(steps) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    th.save_pretrained(tokenizer, folder, overwrite=True)


def kill_at_each_step(place, over_a_model):
    """Save, killed before each step in turn; return which states of the folder were left."""
    old, new, work = (place / name for name in ("old", "new", "work"))
    if over_a_model:
        model_folder(old)

    def fresh(folder):
        for left in place.glob(f".{folder.name}.*"):
            shutil.rmtree(left)
        shutil.rmtree(folder, ignore_errors=True)
        return shutil.copytree(old, folder, symlinks=True) if over_a_model else folder

    tokenizer, left = small(vocab_size=265), []
    save(tokenizer, fresh(new))
    states = {"old": content(old) if over_a_model else {}, "new": content(new)}
    for step in count(1):
        child = get_context("fork").Process(
            target=save, args=(tokenizer, fresh(work)), kwargs={"die_at": step}
        )
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        aside = list(place.glob(".work.*.old"))
        folder = work if work.exists() or not aside else aside[0]
        state = content(folder) if folder.exists() else {}
        left.append(next(name for name, files in states.items() if files == state))
        left[-1] += " aside" * (folder != work)
    return left


def alone(call):
    """What a call gives in a process of its own, which may fork: it has no threads."""
    program = f"from pathlib import Path; from test_saving import *; print(json.dumps({call}))"
    settings = {"TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize("over_a_model", [True, False])
def test_killed_at_each_step(over_a_model, tmp_path):
    """The folder is the old one or the new one; between the two renames the old one stands aside."""
    left = alone(f"kill_at_each_step(Path({str(tmp_path.resolve())!r}), {over_a_model})")
    kinds = list(dict.fromkeys(left))
    assert kinds == ["old", "old aside", "new"] if over_a_model else ["old", "new"]
    assert left.count("old") > 10


# --- tiktoken -------------------------------------------------------------------------------------
def ab(merges, tokens, **options):
    """A byte-level tokenizer over all bytes and a few tokens in this order."""
    base = th.train_byte_level_bpe(["x"], vocab_size=256)
    ids = base.get_vocab() | {token: 256 + i for i, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(ids, merges, **options))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


@examples(200)
@given(
    made=tokenizers_with_gaps(),
    skipping=st.booleans(),
    in_order=st.booleans(),
    texts=st.lists(st.text("abc", max_size=9), max_size=50),
)
def test_every_small_tokenizer_is_refused_or_equal(made, skipping, in_order, texts):
    spec = TokenizerSpec.from_tokenizer(made)
    tokens = [token for token in spec.vocab if len(token) > 1]
    merges = spec.pairs()
    if in_order:
        merges.sort(key=lambda merge: spec.vocab["".join(merge)])
    tokenizer = ab(merges, tokens, ignore_merges=skipping)
    try:
        encoding = th.to_tiktoken(tokenizer)
    except ValueError as error:
        assert re.search("merge order disagrees with IDs|are not what merges make", str(error))
        tokenizer = th.tiktoken_merges(tokenizer)
        encoding = th.to_tiktoken(tokenizer)
    for text in [*texts, *tokens]:
        assert encoding.encode_ordinary(text) == tokenizer.encode(text).ids


@pytest.mark.parametrize(
    ("merges", "tokens", "skipping", "said"),
    [
        ("a+bc a+b", "ab bc abc", False, "merge order disagrees with IDs at 'ab'"),
        ("a+b", "ab abc", True, "1 tokens, first 'abc', are not what merges make"),
        ("a+b", "ab dab", False, "1 tokens, first 'dab', are not what merges make"),
    ],
)
def test_merges_that_tiktoken_would_not_make(merges, tokens, skipping, said):
    pairs = [tuple(merge.split("+")) for merge in merges.split()]
    with pytest.raises(ValueError, match=said):
        th.to_tiktoken(ab(pairs, tokens.split(), ignore_merges=skipping))


SPACED = pre_tokenizers.ByteLevel(add_prefix_space=True)
DIGITS = pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(False)])


STRIPPING = AddedToken("<x>", lstrip=True)
NOT_IN_TIKTOKEN = {
    "a normalizer": lambda t: setattr(t, "normalizer", normalizers.NFC()),
    "the pre-tokenizer .*ByteLevel.*": lambda t: setattr(t, "pre_tokenizer", SPACED),
    "the pre-tokenizer .*Digits.*": lambda t: setattr(t, "pre_tokenizer", DIGITS),
    "added tokens that are not special": lambda t: t.add_tokens(["bats"]),
    "special tokens with one of .* rstrip": lambda t: t.add_special_tokens([STRIPPING]),
    "a special token that is a prefix of another": lambda t: t.add_special_tokens(["<x>", "<x>y"]),
    "merge dropout": lambda t: setattr(t.model, "dropout", 0.1),
    "truncation or padding": lambda t: t.enable_padding(),
}


@pytest.mark.parametrize(("said", "change"), NOT_IN_TIKTOKEN.items(), ids=NOT_IN_TIKTOKEN)
def test_what_tiktoken_cannot_express(said, change):
    tokenizer = ab([("a", "b")], ["ab"])
    change(tokenizer)
    with pytest.raises(ValueError, match=f"the tokenizer has {said}.*, which tiktoken cannot exp"):
        th.to_tiktoken(tokenizer)


def test_tokenizers_of_other_kinds_for_tiktoken(mistral):
    with pytest.raises(ValueError, match="the tokenizer is not byte-level BPE, and tiktoken has"):
        th.tiktoken_merges(mistral)
    with pytest.raises(ValueError, match="the pre-tokenizer null.*no token for some bytes"):
        th.to_tiktoken(mistral)


@pytest.mark.parametrize(
    ("name", "roles", "has_template"),
    [
        ("smollm2-135m", {"eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}, True),
        ("deepseek-v3", {"eos_token": "<｜end▁of▁sentence｜>"}, True),
        ("mistral-nemo", {"bos_token": "<s>", "pad_token": "<pad>"}, False),
        ("mistral-v1", {"eos_token": "</s>"}, False),
    ],
)
def test_a_packaged_tokenizer_brings_its_roles_and_template(name, roles, has_template, tmp_path):
    th.save_pretrained(th.load_tokenizer(name), tmp_path / "out", like=name)
    loaded = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert roles.items() <= loaded.special_tokens_map.items()
    assert bool(loaded.chat_template) == has_template
    if "pad_token" in roles:
        assert loaded(["a", "a b c"], padding=True)["attention_mask"][0][-1] in (0, 1)
