"""SentencePiece BPE: the rules of its pieces, continued training by them, the .model written back."""

import json
import random
import re
import unicodedata
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from spm import processor_of, train_spm
from strategies import examples, one_fast, tokenizers_with_gaps
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.tokenizer.formats import from_spm, save_sentencepiece
from tokhelpers.tokenizer.pretokenization import BEFORE_META
from tokhelpers.tokenizer.vendors import source_file
from tokhelpers.train.merges import learn_vocabulary
from tokhelpers.train.sentencepiece_rules import COVERAGE, piece_check

LANGUAGES = ["fi", "hi", "zh", "ru", "ta", "ko", "ja", "fa", "el"]
ORDERS = ["leaf-frequency", "leaf-id", "frequency", "id", "merges"]
MISTRAL = source_file("mistral-v1")


def text_in(language, chars=300_000):
    return list(th.load_corpus(f"wordfreq:{language}", chars=chars))


def proto_of(path) -> ModelProto:
    return ModelProto.FromString(Path(path).read_bytes())


def odd_strings(alphabet: str, n: int) -> list[str]:
    """Random strings of these characters, spaces, runs of spaces, line breaks, and what is rare."""
    choose = random.Random(n)
    others = [" ", "  ", "▁", "\n", "\t", "7", "42", ".", "<s>", "<0x41>", "\u0301", "\U0001f600"]
    parts = [*alphabet, *others, " ", " ", " "]
    return ["".join(choose.choices(parts, k=choose.randrange(1, 60))) for _ in range(n)]


def assert_same_ids(path, tokenizer, texts):
    """sentencepiece's own encoder and the tokenizer; special tokens in a text are plain text there."""
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.encode_special_tokens = True
    expected = sentencepiece.SentencePieceProcessor(model_file=str(path)).encode(texts)
    found = tokenizer.encode_batch(texts, add_special_tokens=False)
    unlike = [t for t, ids, e in zip(texts, expected, found, strict=True) if ids != e.ids]
    assert unlike == []


# --- rules ---------------------------------------------------------------------------------------
LINES = [
    "12 34 ab1 ab2 x２ १२क कख ²² ab漢 あアー漢 ーー漢 Ωω ω1",
    "ab\u0301b a\u0301ж \u0301\u0301 é a\u200db\u200d … ab... 3ж жa  two   spaces    here",
    "a b c thelongestwordofthemall thelongestwordofthemall",
]


def spm_model(lines=LINES, **options) -> bytes:
    options = {"vocab_size": 90, "remove_extra_whitespaces": False, "num_threads": 1} | options
    return train_spm(lines * 20, **options)


def test_the_rules_are_mistrals():
    spec = proto_of(MISTRAL).trainer_spec
    assert spec.max_sentencepiece_length == 16 and spec.allow_whitespace_only_pieces
    assert spec.split_by_unicode_script and spec.split_by_number and spec.split_digits
    assert round(spec.character_coverage, 6) == COVERAGE


SWITCHES = [
    {},
    {"split_digits": True},
    {"split_by_number": False},
    {"split_by_number": False, "split_digits": True},
    {"split_by_unicode_script": False},
    {"max_sentencepiece_length": 4},
    {"split_by_unicode_script": False, "split_digits": True},
    {"max_sentencepiece_length": 4, "split_by_number": False},
]


@pytest.mark.parametrize("options", SWITCHES, ids=str)
def test_the_rules_are_those_of_sentencepiece(options, tmp_path):
    """Trained until no pair is left, under the check nothing comes up that sentencepiece has not.

    It has more: when none is left it takes those that were there before. All pass the check.
    """
    path = tmp_path / "m.model"
    options = {"split_digits": False} | options  # the default there
    path.write_bytes(spm_model(**options, vocab_size=1_000, allow_whitespace_only_pieces=True))
    pieces = [p.piece for p in proto_of(path).pieces if p.type == p.NORMAL]
    vocab = {c: i for i, c in enumerate(sorted(p for p in pieces if len(p) == 1))}
    words = [word for line in LINES for word in BEFORE_META.split("▁" + line.replace(" ", "▁"))]
    ids = np.array([vocab[c] for c in "".join(words)], np.int32)
    flat = ids, np.cumsum([0, *map(len, words)]), np.full(len(words), 20)
    valid = piece_check(**options)
    learned, _, _ = learn_vocabulary(*flat, vocab, 1_000, valid=valid, best="token")
    assert len(learned) > 50
    made = {piece for piece in pieces if len(piece) > 1}
    assert set(learned) <= made
    assert [piece for piece in sorted(made) if not valid(piece)] == []


# --- continued training --------------------------------------------------------------------------
@pytest.mark.parametrize("language", one_fast(*LANGUAGES))
def test_continued_mistral(mistral, language, tmp_path):
    """No token unreachable, old text as before, and sentencepiece's encoder agrees, on all of it."""
    text = text_in(language)
    extension = th.continue_bpe(mistral, text, 1_500)
    assert len(extension.tokens) == 1_500
    new = th.extend(mistral, extension)
    assert th.unreachable_tokens(new) == []
    valid = piece_check()
    assert [t for t in extension.tokens[extension.characters :] if not valid(t)] == []
    assert {len(t) for t in extension.tokens[: extension.characters]} <= {1}
    save_sentencepiece(new, tmp_path / "new.model", model=MISTRAL)
    odd = odd_strings("".join(sorted({*"".join(text[:300])})), 1_000)
    assert_same_ids(tmp_path / "new.model", new, text[:2_000] + odd)
    for before, after in zip(mistral.encode_batch(odd), new.encode_batch(odd), strict=True):
        assert before.ids == after.ids or {*extension.tokens} & {*after.tokens}


def test_the_text_is_nfkc_normalised(mistral):
    normal = [unicodedata.normalize("NFKC", t) for t in text_in("vi", 20_000)]
    apart = [unicodedata.normalize("NFD", t) for t in normal]
    with_spaces = ["\u00a0".join(t.split(" ")) for t in normal]  # NFKC brings the spaces in
    one = th.continue_bpe(mistral, normal, 100)
    assert th.continue_bpe(mistral, apart, 100) == th.continue_bpe(mistral, with_spaces, 100) == one


def test_coverage(mistral, monkeypatch):
    """The most frequent new characters, as many as the share asks for; control characters never."""
    counts = {"ᎢᎡᎠᎢᎡᎢ " * 50 + "\n": 1, "ꙮ": 1, "aaaa " * 5_000 + "\x01\t": 1}
    seen = Counter("".join("▁" + text.replace(" ", "▁") for text in counts))
    total = seen.total() - sum(n for c, n in seen.items() if unicodedata.category(c) == "Cc")

    def characters(n=10, coverage=COVERAGE, **options):
        monkeypatch.setattr("tokhelpers.train.sentencepiece_rules.COVERAGE", coverage)
        made = th.continue_bpe(mistral, counts, n, **options)
        return list(made.tokens[: made.characters])

    assert characters(coverage=1) == [*"ᎢᎡᎠꙮ"] and characters(3, coverage=0) == []
    assert characters(2, coverage=1) == [*"ᎢᎡ"]
    assert characters(coverage=1, min_frequency=2) == [*"ᎢᎡᎠ"]
    default = characters()
    left = sum(seen[c] for c in "ᎢᎡᎠꙮ" if c not in default)
    assert left <= 0.00005 * total < left + seen[default[-1]]


def test_byte_tokens_are_never_merged(mistral, monkeypatch):
    monkeypatch.setattr("tokhelpers.train.sentencepiece_rules.COVERAGE", 0)
    text = ["🧿🧿🧿 kissat\nkissat🧿koirat\nkoirat " * 50]
    with pytest.warns(UserWarning, match="this text yields"):
        found = th.continue_bpe(mistral, text, 100)
    assert found.tokens and [t for t in found.tokens if t not in "▁kissat ▁koirat"] == []
    with pytest.warns(UserWarning, match="this text yields 0"):
        assert th.continue_bpe(mistral, ["🧿"], 5).tokens == []
    other = Tokenizer.from_str(mistral.to_str())
    other.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # in place of rules
    with pytest.warns(UserWarning, match="this text yields"):
        found = th.continue_bpe(other, ["a<0x41>b </s> <0x41> </s>"], 50)
    assert not {"<0x41>", "</s>"} & set(found.tokens) and "x41" in "".join(found.tokens)


def test_metaspace_without_cutting_is_no_word_per_document(mistral):
    other = Tokenizer.from_str(mistral.to_str())
    other.normalizer = None
    other.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    text = text_in("lt", 50_000)
    assert th.continue_bpe(other, text, 200) == th.continue_bpe(mistral, text, 200)


def test_another_length(mistral):
    text = ["abc123 abc123 thelongestwordofthemall " * 20]
    with pytest.warns(UserWarning):
        short = th.continue_bpe(mistral, text, 1_000, max_token_length=9)
    assert max(map(len, short.tokens)) == 9 and "▁abc123" not in short.tokens


def continued_by_hand(texts, n) -> list[str]:
    """The definition, slowly: sentencepiece tokenizes, the most frequent pair merges, ids break ties."""
    encoder = sentencepiece.SentencePieceProcessor(model_file=str(MISTRAL))
    ids = {encoder.id_to_piece(i): i for i in range(len(encoder))}
    valid, apart = piece_check(), {"<unk>", "<s>", "</s>"}
    words = Counter(tuple(encoder.encode(text, out_type=str)) for text in texts)
    tokens = []
    while len(tokens) < n:
        pairs = textbook.count_pairs(words.items())
        allowed = [p for p in pairs if valid(p[0] + p[1]) and not {*p, p[0] + p[1]} & apart]
        allowed = [p for p in allowed if not any("<0x" in part for part in p)]
        a, b = min(allowed, key=lambda p: (-pairs[p], ids[p[0]], ids[p[1]]))
        ids[a + b] = len(ids)
        tokens.append(a + b)
        merged = [(textbook.merge_pair(word, (a, b), a + b), n) for word, n in words.items()]
        words = {tuple(word): n for word, n in merged}
    return tokens


@pytest.mark.parametrize("language", one_fast("fi", "ru"))
def test_continued_as_defined(mistral, language, monkeypatch):
    monkeypatch.setattr("tokhelpers.train.sentencepiece_rules.COVERAGE", 0)
    text = text_in(language, 5_000)
    assert th.continue_bpe(mistral, text, 60).tokens == continued_by_hand(text, 60)


# --- the file ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def text():
    return text_in("fi")


@pytest.fixture(scope="module")
def extension(mistral, text):
    return th.continue_bpe(mistral, text, 800)


def test_appended_pieces_merge_last(mistral, extension, tmp_path):
    path = tmp_path / "new.model"
    save_sentencepiece(th.extend(mistral, extension), path, model=MISTRAL)
    old, proto = proto_of(MISTRAL), proto_of(path)
    n = len(old.pieces)
    assert list(proto.pieces[:n]) == list(old.pieces)
    assert [p.piece for p in proto.pieces[n:]] == list(extension.tokens)
    scores = [p.score for p in proto.pieces[n:]]
    assert max(scores) < min(p.score for p in old.pieces)
    assert scores == sorted(set(scores), reverse=True), "no two alike in 32 bits"
    assert proto.trainer_spec.vocab_size == len(proto.pieces) == n + 800
    proto.trainer_spec.vocab_size = old.trainer_spec.vocab_size
    assert (proto.trainer_spec, proto.normalizer_spec) == (old.trainer_spec, old.normalizer_spec)


def test_regenerated_merges_are_sentencepieces_too(mistral, text, tmp_path):
    """A list of tokens, some of which nothing produces: all their splits are merges, in both."""
    supplement = th.train_sentencepiece_bpe(text, vocab_size=1_500, split_by_script=True)
    naive = th.naive_extension(mistral, supplement)
    new = th.extend(mistral, naive, how="regenerate")
    assert th.unreachable_tokens(new)
    save_sentencepiece(new, tmp_path / "new.model", model=MISTRAL)
    assert_same_ids(tmp_path / "new.model", new, text + odd_strings("aekstuõä", 1_000))
    refused = {"prepend": "merge order disagrees with IDs", "add_tokens": "split the raw text"}
    for how, message in refused.items():
        made = th.extend(mistral, naive, how=how)
        with pytest.raises(ValueError, match=message):
            save_sentencepiece(made, tmp_path / "x.model", model=MISTRAL)
    assert not (tmp_path / "x.model").exists()


@pytest.mark.parametrize("by", one_fast(*ORDERS))
def test_pruned_pieces_are_left_out(mistral, text, by, tmp_path):
    small = th.prune(mistral, th.pruning_order(mistral, text, by=by), 2_000)
    new = th.extend(small, th.continue_bpe(small, text, 300))
    for tokenizer in (small, new):
        save_sentencepiece(tokenizer, tmp_path / "new.model", model=MISTRAL)
        assert_same_ids(tmp_path / "new.model", tokenizer, text + odd_strings("aekstuõä", 1_000))
        assert len(proto_of(tmp_path / "new.model").pieces) == tokenizer.get_vocab_size()


SCRATCH = {
    "bytes": {"special_tokens": ["<unk>", "<s>", "</s>"]},
    "scripts": {"special_tokens": ["<unk>"], "split_by_script": True, "split_by_number": True},
    "no bytes": {"byte_fallback": False},
}


@pytest.mark.parametrize("options", SCRATCH.values(), ids=SCRATCH)
def test_a_tokenizer_of_ours_as_a_model(options, text, tmp_path):
    path = tmp_path / "own.model"
    made = th.train_sentencepiece_bpe(text, vocab_size=1_500, **options)
    small = th.prune(made, th.pruning_order(made, text, by="leaf-frequency"), 200)
    larger = th.extend(made, th.continue_bpe(made, text_in("fi", 9_000), 90))
    texts = text + odd_strings("aekstuõä", 1_000)
    texts += ["", "  a  b ", "▁x", "\n\t é", "ㄱ ㄴ👩\u200d💻"]
    for tokenizer in (made, small, larger):
        save_sentencepiece(tokenizer, path)
        assert_same_ids(path, tokenizer, texts)
        assert_same_ids(path, th.load_tokenizer(path), texts)
        assert processor_of(path.read_bytes()).unk_id() == tokenizer.token_to_id("<unk>")


def bare() -> Tokenizer:
    """One of ours with the tokens <unk>, a and the space symbol alone."""
    return th.train_sentencepiece_bpe(["a"], vocab_size=3, byte_fallback=False)


def test_what_is_no_model_of_its_own(mistral, text, tmp_path):
    path = tmp_path / "own.model"
    with pytest.raises(ValueError, match="needs the piece '<unk>', which the tokenizer lacks"):
        save_sentencepiece(th.train_sentencepiece_bpe(text, vocab_size=900), path)
    composed = th.train_sentencepiece_bpe(text, vocab_size=900, normalizer=normalizers.NFC())
    for tokenizer, what in ((composed, "normalizer"), (mistral, "pre_tokenizer")):
        with pytest.raises(ValueError, match=f"this one has another {what}: give the .model"):
            save_sentencepiece(tokenizer, path)
    settings = json.loads(bare().to_str())
    settings["model"]["vocab"]["a"] = 7
    with pytest.raises(ValueError, match="no token has the ID 1: number"):
        save_sentencepiece(Tokenizer.from_str(json.dumps(settings)), path)
    assert not path.exists()


@examples(200)
@given(tokenizers_with_gaps(), st.lists(st.text("abc", min_size=1, max_size=14), min_size=9))
def test_every_small_tokenizer_is_refused_or_equal(tmp_path_factory, tokenizer, words):
    """Merges in any order, and tokens that lack some of their splits, or all of them."""
    path = tmp_path_factory.mktemp("any") / "own.model"
    settings, model = json.loads(bare().to_str()), json.loads(tokenizer.to_str())["model"]
    vocab = {token: i for i, token in enumerate(["<unk>", "▁", *model["vocab"]])}
    settings["model"] |= {"vocab": vocab, "merges": model["merges"]}
    tokenizer = Tokenizer.from_str(json.dumps(settings))
    try:
        save_sentencepiece(tokenizer, path)
    except ValueError as error:
        assert re.search(
            "lack merges that sentencepiece|merge order disagrees with IDs", str(error)
        )
        assert not path.exists()
    else:
        assert_same_ids(path, tokenizer, words)


def test_an_appended_special_token(mistral, extension, tmp_path):
    path = tmp_path / "new.model"
    padded = Tokenizer.from_str(mistral.to_str())
    padded.add_special_tokens([AddedToken("<pad>", special=True, normalized=False)])
    new = th.extend(padded, extension, 50)
    save_sentencepiece(new, path, model=MISTRAL)
    encoder = processor_of(path.read_bytes())
    assert encoder.is_control(32_000) and encoder.id_to_piece(32_000) == "<pad>"
    assert_same_ids(path, new, odd_strings("aäitk", 300) + ["a<pad>b"])


def test_another_models_tokenizer(mistral, extension, llama, tmp_path):
    extended = th.extend(mistral, extension)
    other = tmp_path / "other.model"
    other.write_bytes(spm_model())
    for tokenizer, model in ((extended, other), (llama, MISTRAL)):
        message = "does not come from this model: ID .* give the .model"
        with pytest.raises(ValueError, match=message):
            save_sentencepiece(tokenizer, tmp_path / "x.model", model=model)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.model"]


KINDS = [
    {},
    {"add_dummy_prefix": False},
    {"byte_fallback": True, "vocab_size": 280},
]


@cache
def few_letters(**options) -> bytes:
    lines = ["ab abc cab bca жж 11 aab bb  cc", "cabba acca"]
    return spm_model(lines, **{"vocab_size": 24} | options)


@pytest.mark.parametrize("options", KINDS, ids=str)
@examples(100)
@given(
    lines=st.lists(st.text("abcж1é▁ ", min_size=1, max_size=20), min_size=1, max_size=6),
    texts=st.lists(st.text("abcж1é▁ \n", max_size=40), max_size=20),
)
def test_any_text_by_small_alphabets(tmp_path_factory, options, lines, texts):
    """Few letters, so that merges overlap in every way."""
    folder, model = tmp_path_factory.mktemp("any"), few_letters(**options)
    (folder / "old.model").write_bytes(model)
    old = from_spm(model)
    with warnings.catch_warnings(action="ignore"):
        extension = th.continue_bpe(old, lines, 12)
    new = th.extend(old, extension)
    assert not set(th.unreachable_tokens(new)) & set(extension.tokens)
    save_sentencepiece(new, folder / "new.model", model=folder / "old.model")
    assert_same_ids(folder / "new.model", new, lines + texts)
