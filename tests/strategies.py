"""Hypothesis strategies and helpers that several tests share."""

import json
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

import tokhelpers as th
from tokhelpers.tokenizer.patterns import QWEN

loaded = cache(th.load_tokenizer)  # for tests that leave it as it is


@st.composite
def tokenizers_with_gaps(draw):
    """Tokenizers of a few letters with some splits of each token as merges, in any order, or none.

    So some tokens may be unreachable.
    """
    tokens = draw(st.lists(st.text("abc", min_size=2, max_size=5), unique=True, max_size=14))
    vocab = {token: i for i, token in enumerate([*"abc", *tokens])}
    pairs = [(t[:k], t[k:]) for t in tokens for k in range(1, len(t))]
    pairs = [pair for pair in pairs if set(pair) <= vocab.keys()]
    merges = draw(st.permutations(pairs))[: draw(st.integers(0, len(pairs)))]
    made = Tokenizer(models.BPE(vocab, merges))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


def one_fast(first, *others) -> list:
    """Parameters of a test of which all but the first are left to `make test-all`."""
    several = [other if isinstance(other, tuple) else (other,) for other in others]
    return [first, *(pytest.param(*values, marks=pytest.mark.long) for values in several)]


def examples(number: int) -> settings:
    """So many examples of a property in `make test-all`, and a quarter of them in `make test`."""
    return settings(max_examples=max(1, number * settings().max_examples // 100))


def content(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its path there."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# --- corpora in files -----------------------------------------------------------------------------
LINES = [f"line {i} of the file" for i in range(200)]


def write_lines(path, lines):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def failure(name, **options) -> str:
    """The message of loading and reading a corpus that must fail."""
    with pytest.raises(ValueError) as caught:
        list(th.load_corpus(name, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- small stand-ins for tokenizers that people have ----------------------------------------------
@cache
def _trained(kind: str, special=("<unk>", "<s>", "</s>")) -> str:
    english = th.load_corpus("wordfreq:en", chars=60_000)
    options = {"vocab_size": 1_200, "special_tokens": special}
    options |= {"min_frequency": 0} if kind == "wordpiece" else {}  # so that it does not warn
    return getattr(th, f"train_{kind}")(english, **options).to_str()


def like_llama_2() -> Tokenizer:
    """No pre-tokenizer, and special tokens that are normalized, as Llama-2's file has them."""
    settings = json.loads(_trained("sentencepiece_bpe"))
    for token in settings["added_tokens"]:
        token["normalized"] = True
    return Tokenizer.from_str(json.dumps(settings | {"pre_tokenizer": None}))


def like_phi_3() -> Tokenizer:
    """Llama-2's, with added tokens that take the space behind them; one of them is not special."""
    made = like_llama_2()
    made.add_tokens([AddedToken("</s>", rstrip=True, normalized=False, special=False)])
    for name in ("<|endoftext|>", "<|assistant|>", "<|end|>"):
        made.add_special_tokens([AddedToken(name, rstrip=True, normalized=False, special=True)])
    made.add_tokens([AddedToken("<|note|>", rstrip=True, normalized=False, special=False)])
    return made


def byte_level(**options) -> Tokenizer:
    """One with an added token that is not special, and with these options of its model."""
    made = Tokenizer.from_str(_trained("byte_level_bpe"))
    made.add_tokens(["<|note|>"])
    for name, value in options.items():
        setattr(made.model, name, value)
    return made


def truncating() -> Tokenizer:
    made = byte_level()
    made.enable_truncation(3)
    return made


def padding() -> Tokenizer:
    made = byte_level()
    made.enable_padding(length=50, pad_token="<unk>", pad_id=made.token_to_id("<unk>"))
    return made


def _marked(end: str, inside: str, **options) -> Tokenizer:
    """A few words of letters, whose tokens are marked at their end or inside."""
    pairs = [
        ("l", f"{inside}o"), ("lo", f"{inside}w{end}"), ("lo", f"{inside}w"), ("low", f"{inside}e"),
        (f"{inside}s", f"{inside}t{end}"), ("lowe", f"{inside}r{end}"), ("lowe", f"{inside}st{end}"),
    ]  # fmt: skip
    letters = [
        before + c + after for before in ("", inside) for c in "abelorstw" for after in ("", end)
    ]
    joined = [left + right.removeprefix(inside) for left, right in pairs]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(letters + joined))}
    made = Tokenizer(models.BPE(vocab, pairs, **options))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made


MARKED = {
    "end_of_word_suffix": lambda: _marked("</w>", "", end_of_word_suffix="</w>"),
    "continuing_subword_prefix": lambda: _marked("", "##", continuing_subword_prefix="##"),
}
LIKE_REAL = {
    "llama-2": like_llama_2,
    "phi-3": like_phi_3,
    "truncating": truncating,
    "padding": padding,
    "dropout": lambda: byte_level(dropout=0.5),
}


# --- tokenizers with added tokens, and texts of their parts ----------------------------------------
PIECES = ["ab", "b c", "é", "e\u0301", "Ab", "foo", "▁f", " ", ".", "\n", "<n>"]
PIPELINES = {
    "GPT-2": (None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "Qwen": (
        normalizers.NFC(),
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(QWEN), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
    ),
    "lower": (normalizers.Lowercase(), pre_tokenizers.Whitespace()),
    "BERT": (normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()),
    "SentencePiece": (
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        None,
    ),
}


def _folded(content: str) -> str:
    """Without case and accents: of tokens that are normalised to one, the library takes the last added."""
    return unicodedata.normalize("NFD", content).lower().replace("\u0301", "")


@st.composite
def added_tokens(draw):
    """A few ordinary added tokens with any flags, none of which is white space alone."""
    contents = st.lists(st.sampled_from(PIECES), min_size=1, max_size=2).map("".join)
    contents = contents.filter(str.strip)
    flags = st.fixed_dictionaries(
        dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), st.booleans())
    )
    return [
        AddedToken(content, **draw(flags))
        for content in draw(st.lists(contents, min_size=1, max_size=3, unique_by=_folded))
    ]


texts_of_pieces = st.lists(st.sampled_from([*PIECES, "a", "x", "1"]), min_size=1).map("".join)
