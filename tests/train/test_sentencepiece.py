"""SentencePiece BPE: the rules of its pieces, continued training by them, the .model written back."""

import io
import json
import random
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
from strategies import examples, one_fast
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers

import tokhelpers as th
from tokhelpers.tokenizer.formats import from_spm, save_sentencepiece
from tokhelpers.tokenizer.parts import Parts, read_parts
from tokhelpers.tokenizer.pretokenization import BEFORE_META
from tokhelpers.tokenizer.vendors import source_file
from tokhelpers.train.merges import learn_vocabulary
from tokhelpers.train.sentencepiece import NO_RULES, PieceRules, piece_check, piece_rules

LANGUAGES = ["fi", "hi", "zh", "ru", "ta", "ko", "ja", "fa", "el"]
ORDERS = ["leaf-frequency", "leaf-id", "frequency", "id", "merges"]
MISTRAL = source_file("mistral-v1")


def text_in(language, chars=300_000):
    return list(th.load_corpus(f"wordfreq:{language}", chars=chars))


def proto_of(path) -> ModelProto:
    proto = ModelProto()
    proto.ParseFromString(Path(path).read_bytes())
    return proto


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
def test_rules_are_read_from_the_model(tmp_path):
    assert piece_rules(MISTRAL) == PieceRules()
    odd = {
        "max_sentencepiece_length": 7,
        "split_by_unicode_script": False,
        "split_by_number": False,
        "split_digits": True,
        "allow_whitespace_only_pieces": True,
        "character_coverage": 0.98,
    }
    path = tmp_path / "odd.model"
    path.write_bytes(spm_model(**odd))
    assert piece_rules(path) == PieceRules(**odd)
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match="no SentencePiece model"):
        piece_rules(path)
    path.write_bytes(spm_model(treat_whitespace_as_suffix=True))
    with pytest.raises(ValueError, match="treat_whitespace_as_suffix, which cannot be converted"):
        piece_rules(path)


LINES = [
    "12 34 ab1 ab2 x２ १२क कख ²² ab漢 あアー漢 ーー漢 Ωω ω1",
    "ab\u0301b \u0301\u0301 é a\u200db\u200d … ab... 3ж жa  two   spaces    here",
    "a b c thelongestwordofthemall thelongestwordofthemall",
]


def spm_model(lines=LINES, **options) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 20), model_writer=model, model_type="bpe", minloglevel=2,
        num_threads=1, hard_vocab_limit=False,
        **{"vocab_size": 90, "normalization_rule_name": "identity", "byte_fallback": False,
           "remove_extra_whitespaces": False} | options,
    )  # fmt: skip
    return model.getvalue()


SWITCHES = [
    {},
    {"split_digits": True},
    {"split_by_number": False},
    {"split_by_number": False, "split_digits": True},
    {"split_by_unicode_script": False},
    {"allow_whitespace_only_pieces": True},
    {"max_sentencepiece_length": 4},
]


@pytest.mark.parametrize("options", SWITCHES, ids=str)
def test_the_rules_are_those_of_sentencepiece(options, tmp_path):
    """Trained until no pair is left, under the check nothing comes up that sentencepiece has not.

    It has more: when none is left it takes those that were there before. All pass the check.
    """
    (tmp_path / "m.model").write_bytes(
        spm_model(**options, vocab_size=1_000, character_coverage=1.0)
    )
    pieces = [p.piece for p in proto_of(tmp_path / "m.model").pieces if p.type == p.NORMAL]
    vocab = {c: i for i, c in enumerate(sorted(p for p in pieces if len(p) == 1))}
    words = [word for line in LINES for word in BEFORE_META.split("▁" + line.replace(" ", "▁"))]
    ids = np.array([vocab[c] for c in "".join(words)], np.int32)
    offsets = np.cumsum([0, *map(len, words)])
    valid = piece_check(piece_rules(tmp_path / "m.model"), set())
    learned, _, _ = learn_vocabulary(
        ids, offsets, np.full(len(words), 20), vocab, 1_000, valid=valid, best="token"
    )
    assert len(learned) > 50
    made = {piece for piece in pieces if len(piece) > 1}
    assert set(learned) <= made
    assert [piece for piece in sorted(made) if not valid(piece)] == []


def test_pieces_by_the_default_rules():
    valid = piece_check(PieceRules(), {"</s>", "<0x41>"})
    allowed = [
        "▁cat",
        "▁▁▁",
        "١٢",
        "食べる",
        "カー漢",
        "e\u0301",
        "ж\u0301ж",
        "\u0301a",
        "...",
        "a" * 16,
    ]
    refused = ["cat▁", "a▁b", "▁▁cat", "▁7", "77", "a7", "１２", "aж", "aあ", "a\u0301ж", "a."]
    refused += ["a" * 17, "▁" + "a" * 16, "</s>", "<0x41>"]
    assert [piece for piece in allowed + refused if valid(piece)] == allowed


# --- continued training --------------------------------------------------------------------------
@pytest.mark.parametrize("language", one_fast(*LANGUAGES))
def test_continued_mistral(mistral, language, tmp_path):
    """No token unreachable, old text as before, and sentencepiece's encoder agrees, on all of it."""
    text = text_in(language)
    extension = th.continue_bpe(mistral, text, 1_500)
    assert len(extension.tokens) == 1_500
    new = th.extend(mistral, extension)
    assert th.unreachable(new) == []
    valid = piece_check(PieceRules(), set())
    merged = extension.tokens[extension.characters :]
    assert [t for t in merged if not valid(t)] == []
    assert [len(t) for t in extension.tokens[: extension.characters]] == [1] * extension.characters
    save_sentencepiece(new, tmp_path / "new.model", model=MISTRAL)
    alphabet = "".join(sorted({*"".join(text[:300])}))
    odd = odd_strings(alphabet, 1_000)
    assert_same_ids(tmp_path / "new.model", new, text[:2_000] + odd)
    kept, fresh = 0, set(extension.tokens)
    for before, after in zip(mistral.encode_batch(odd), new.encode_batch(odd), strict=True):
        if not fresh.intersection(after.tokens):
            assert before.ids == after.ids
            kept += 1
    assert kept > 0
    first, second = (th.evaluate(t, text).bytes_per_token for t in (mistral, new))
    assert second > 1.05 * first


@pytest.mark.long
def test_the_text_is_nfkc_normalised(mistral):
    text = text_in("vi", 100_000)
    normal = [unicodedata.normalize("NFKC", t) for t in text]
    apart = [unicodedata.normalize("NFD", t) for t in text]
    assert apart != normal
    one = th.continue_bpe(mistral, normal, 200)
    assert th.continue_bpe(mistral, apart, 200) == one
    other = th.continue_bpe(mistral, apart, 200, rules=PieceRules(nfkc=False))
    assert any("\u0301" in t for t in other.tokens) and other.tokens != one.tokens
    with_spaces = ["\u00a0".join(t.split(" ")) for t in normal]  # NFKC brings the spaces in
    assert th.continue_bpe(mistral, with_spaces, 200) == one


@pytest.mark.long
def test_the_first_tokens_are_the_same_whatever_comes_after(mistral):
    text = text_in("hi")
    whole = th.continue_bpe(mistral, text, 200)
    assert 10 < whole.characters < 100
    for k in (0, 5, whole.characters, whole.characters + 1, 150):
        short = th.continue_bpe(mistral, text, k)
        assert short.tokens == whole.tokens[:k]
        assert short.characters == min(k, whole.characters)
        assert th.extend(mistral, whole, k).to_str() == th.extend(mistral, short).to_str()


def test_coverage(mistral):
    """The most frequent new characters, as many as the share asks for; control characters never."""
    counts = {"ᎢᎡᎠᎢᎡᎢ " * 50 + "\n": 1, "ꙮ": 1, "aaaa " * 5_000 + "\x01\t": 1}
    known = read_parts(mistral).alphabet
    seen = Counter("".join("▁" + text.replace(" ", "▁") for text in counts))
    total = sum(n for c, n in seen.items() if unicodedata.category(c) != "Cc")
    new = [c for c, _ in seen.most_common() if c not in known and unicodedata.category(c) != "Cc"]

    def characters(n=10, **options):
        made = th.continue_bpe(mistral, counts, n, **options)
        return list(made.tokens[: made.characters])

    whole = characters(rules=PieceRules(character_coverage=1))
    assert sorted(whole) == sorted(new) and len(new) > 1
    assert [seen[c] for c in whole] == sorted(map(seen.get, new), reverse=True)
    assert characters(3, rules=PieceRules(character_coverage=0)) == []
    default = characters()
    left = sum(seen[c] for c in new[len(default) :])
    assert left <= 0.00005 * total < left + seen[default[-1]]
    often = characters(min_frequency=2, rules=PieceRules(character_coverage=1))
    assert often == [c for c in whole if c != "ꙮ"]


def test_byte_tokens_are_never_merged(mistral):
    text = ["🧿🧿🧿 kissat\nkissat🧿koirat\nkoirat " * 50]
    rules = PieceRules(character_coverage=0)
    with pytest.warns(UserWarning, match="this text yields"):
        found = th.continue_bpe(mistral, text, 100, rules=rules)
    inside = {"▁kissat", "▁koirat", "kissat", "koirat", "kissatkoirat"}
    assert found.tokens and [t for t in found.tokens if not any(t in w for w in inside)] == []
    assert max(map(len, found.tokens)) <= len("▁kissat"), "none across the bytes"
    with pytest.warns(UserWarning, match="this text yields 0"):
        assert th.continue_bpe(mistral, ["🧿"], 5, rules=rules).tokens == []
    with pytest.warns(UserWarning, match="this text yields"):
        found = th.continue_bpe(mistral, ["a<0x41>b </s> <0x41> </s>"], 50, rules=NO_RULES)
    assert not {"<0x41>", "</s>"} & set(found.tokens) and "x41" in "".join(found.tokens)
    own = th.train_sentencepiece_bpe(["low low slow"], vocab_size=264)
    with pytest.warns(UserWarning, match="yields"):
        found = th.continue_bpe(own, ["жук жук lowжук lows lows"], 50)
    assert "▁lows" in found.tokens and "<0x" not in "".join(found.tokens)
    new = th.extend(own, found)
    assert th.unreachable(new) == []
    assert new.decode(new.encode("жук lows").ids) == "жук lows"


def test_metaspace_without_cutting_is_no_word_per_document(mistral):
    other = Tokenizer.from_str(mistral.to_str())
    other.normalizer = None
    other.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    text = text_in("lt", 50_000)
    assert th.continue_bpe(other, text, 200) == th.continue_bpe(mistral, text, 200)


def test_options_are_overridden(mistral, llama):
    text = ["abc123 abc123 thelongestwordofthemall " * 20]
    with pytest.warns(UserWarning):
        short = th.continue_bpe(mistral, text, 1_000, max_token_length=9)
    assert max(map(len, short.tokens)) == 9 and "▁abc123" not in short.tokens
    with pytest.raises(ValueError, match="rules are for SentencePiece tokenizers, this one is by"):
        th.continue_bpe(llama, ["text"], 1, rules=PieceRules())


def continued_by_hand(path, texts, n, rules) -> list[str]:
    """The definition, slowly: sentencepiece tokenizes, the most frequent pair merges, ids break ties."""
    encoder = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = {encoder.id_to_piece(i): i for i in range(len(encoder))}
    reserved = {"<unk>", "<s>", "</s>", *(p for p in ids if p.startswith("<0x"))}
    valid = piece_check(rules, reserved)
    words = [encoder.encode(text, out_type=str) for text in texts]
    tokens = []
    while len(tokens) < n:
        pairs = Counter(pair for word in words for pair in zip(word, word[1:], strict=False))
        allowed = [p for p in pairs if valid(p[0] + p[1]) and not any("<0x" in part for part in p)]
        a, b = min(allowed, key=lambda p: (-pairs[p], ids[p[0]], ids[p[1]]))
        ids[a + b] = len(ids)
        tokens.append(a + b)
        for k, word in enumerate(words):
            done, i = [], 0
            while i < len(word):
                both = word[i : i + 2] == [a, b]
                done.append(a + b if both else word[i])
                i += 1 + both
            words[k] = done
    return tokens


@pytest.mark.parametrize("language", one_fast("fi", "ru"))
def test_continued_as_defined(mistral, language):
    text = text_in(language, 5_000)
    rules = PieceRules(character_coverage=0)
    expected = continued_by_hand(MISTRAL, text, 60, rules)
    assert th.continue_bpe(mistral, text, 60, rules=rules).tokens == expected


# --- the file ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def text():
    return text_in("fi")


@pytest.fixture(scope="module")
def extension(mistral, text):
    return th.continue_bpe(mistral, text, 800)


@pytest.fixture(scope="module")
def extended(mistral, extension):
    return th.extend(mistral, extension)


def test_appended_pieces_merge_last(extended, extension, tmp_path):
    path = tmp_path / "new.model"
    save_sentencepiece(extended, path, model=MISTRAL)
    old, proto = proto_of(MISTRAL), proto_of(path)
    n = len(old.pieces)
    assert list(proto.pieces[:n]) == list(old.pieces)
    assert [p.piece for p in proto.pieces[n:]] == list(extension.tokens)
    scores = [p.score for p in proto.pieces[n - 1 :]]
    assert max(scores[1:]) < min(p.score for p in old.pieces)
    assert scores[1:] == sorted(set(scores[1:]), reverse=True), "no two alike in 32 bits"
    assert proto.trainer_spec.vocab_size == len(proto.pieces) == n + 800
    proto.trainer_spec.vocab_size = old.trainer_spec.vocab_size
    assert (proto.trainer_spec, proto.normalizer_spec) == (old.trainer_spec, old.normalizer_spec)


def test_runs_of_spaces(mistral, tmp_path):
    """Pieces of spaces all have one score, -1e9, below which a float holds only every 64th number."""
    text = ["a" + " " * n + "\n" for n in range(40)] + text_in("fi", 9_000)
    extension = th.continue_bpe(mistral, text, 300)
    assert any(not t.strip("▁") for t in extension.tokens)
    new = th.extend(mistral, extension)
    save_sentencepiece(new, tmp_path / "new.model", model=MISTRAL)
    texts = [" " * i + "ja" * (i % 3) + " " * j + "on" for i in range(40) for j in range(40)]
    assert_same_ids(tmp_path / "new.model", new, texts)


@pytest.mark.long
def test_more_tokens_than_single_steps_of_the_score(mistral, text, tmp_path):
    new = th.extend(mistral, th.continue_bpe(mistral, text_in("fi", 3_000_000), 20_000))
    save_sentencepiece(new, tmp_path / "new.model", model=MISTRAL)
    scores = [p.score for p in proto_of(tmp_path / "new.model").pieces[-20_000:]]
    assert len(set(scores)) == 20_000
    assert_same_ids(tmp_path / "new.model", new, text)


def test_regenerated_merges_are_sentencepieces_too(mistral, text, tmp_path):
    """A list of tokens, some of which nothing produces: all their splits are merges, in both."""
    supplement = th.train_sentencepiece_bpe(text, vocab_size=1_500, split_by_script=True)
    naive = th.naive_extension(mistral, supplement)
    new = th.extend(mistral, naive, how="regenerate")
    assert th.unreachable(new)
    save_sentencepiece(new, tmp_path / "new.model", model=MISTRAL)
    assert_same_ids(tmp_path / "new.model", new, text + odd_strings("aekstuõä", 1_000))
    refused = {
        "append": "lack merges that .* use|comes later than its id",
        "prepend": "comes later than its id says",
        "add_tokens": "cut the raw text",
    }
    for how, message in refused.items():
        with pytest.raises(ValueError, match=message):
            made = th.extend(mistral, naive, how=how)
            save_sentencepiece(made, tmp_path / "x.model", model=MISTRAL)
    assert not (tmp_path / "x.model").exists()


@pytest.mark.parametrize("by", one_fast(*ORDERS))
def test_pruned_pieces_are_left_out(mistral, text, by, tmp_path):
    small = th.prune(mistral, th.pruning_order(mistral, text, by=by), 2_000)
    new = th.extend(small, th.continue_bpe(small, text, 300))
    for tokenizer in (small, new):
        save_sentencepiece(tokenizer, tmp_path / "new.model", model=MISTRAL)
        assert_same_ids(tmp_path / "new.model", tokenizer, text + odd_strings("aekstuõä", 1_000))
        size = len(proto_of(tmp_path / "new.model").pieces)
        assert size == tokenizer.get_vocab_size()


SCRATCH = {
    "bytes": {"special_tokens": ["<unk>", "<s>", "</s>"]},
    "scripts": {"special_tokens": ["<unk>"], "split_by_script": True, "split_by_number": True},
    "no bytes": {"byte_fallback": False},
}


@pytest.mark.parametrize("options", SCRATCH.values(), ids=SCRATCH)
def test_a_tokenizer_of_ours_as_a_model(options, text, tmp_path):
    made = th.train_sentencepiece_bpe(text, vocab_size=1_500, **options)
    small = th.prune(made, th.pruning_order(made, text, by="leaf-frequency"), 200)
    larger = th.extend(made, th.continue_bpe(made, text_in("fi", 9_000), 90))
    texts = text + odd_strings("aekstuõä", 1_000)
    texts += ["", "  a  b ", "▁x", "\n\t é", "ㄱ ㄴ👩\u200d💻"]
    for tokenizer in (made, small, larger):
        save_sentencepiece(tokenizer, tmp_path / "own.model")
        assert_same_ids(tmp_path / "own.model", tokenizer, texts)
        encoder = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "own.model"))
        assert encoder.unk_id() == tokenizer.token_to_id("<unk>")
        assert_same_ids(tmp_path / "own.model", th.load_tokenizer(tmp_path / "own.model"), texts)


def test_what_is_no_model_of_its_own(mistral, text, tmp_path):
    path = tmp_path / "own.model"
    with pytest.raises(ValueError, match="needs the piece '<unk>', and the tokenizer has none"):
        save_sentencepiece(th.train_sentencepiece_bpe(text, vocab_size=900), path)
    digits = th.train_sentencepiece_bpe(text, vocab_size=900, isolate_digits=True)
    for tokenizer, what in ((digits, "pre_tokenizer"), (mistral, "pre_tokenizer")):
        with pytest.raises(ValueError, match=f"this tokenizer has another {what}: give the .model"):
            save_sentencepiece(tokenizer, path)
    digits.normalizer = normalizers.NFC()
    with pytest.raises(ValueError, match="this tokenizer has another normalizer: give the .model"):
        save_sentencepiece(digits, path)
    assert not path.exists()


def test_missing_splits_are_found(mistral, text, tmp_path):
    """A merge that nothing leads to, where sentencepiece would merge the two tokens that do come up."""
    vocab, found = read_parts(mistral).vocab, None
    for word in th.count_pretokens(text, mistral):
        tokens = mistral.model.tokenize(word)
        splits = [(word[:i], word[i:]) for i in range(1, len(word))]
        others = [s for s in splits if s[0] in vocab and s[1] in vocab and s[0] != tokens[0].value]
        if len(tokens) == 2 and others:
            found = th.Extension([word], others[:1])
            break
    with pytest.raises(ValueError, match="1 tokens, first .* lack merges .* how='regenerate'"):
        save_sentencepiece(th.extend(mistral, found), tmp_path / "x.model", model=MISTRAL)
    new = th.extend(mistral, found, how="regenerate")
    save_sentencepiece(new, tmp_path / "x.model", model=MISTRAL)
    assert_same_ids(tmp_path / "x.model", new, text)


def test_an_appended_special_token(mistral, extension, tmp_path):
    padded = Tokenizer.from_str(mistral.to_str())
    padded.add_special_tokens([AddedToken("<pad>", special=True, normalized=False)])
    new = th.extend(padded, extension, 50)
    save_sentencepiece(new, tmp_path / "new.model", model=MISTRAL)
    encoder = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "new.model"))
    assert encoder.is_control(32_000) and encoder.id_to_piece(32_000) == "<pad>"
    assert encoder.piece_to_id(extension.tokens[0]) == 32_001
    assert_same_ids(tmp_path / "new.model", new, odd_strings("aäitk", 300) + ["a<pad>b"])


def test_another_models_tokenizer(extended, llama, tmp_path):
    other = tmp_path / "other.model"
    other.write_bytes(spm_model())
    for tokenizer, model in ((extended, other), (llama, MISTRAL)):
        with pytest.raises(
            ValueError, match="does not come from this model: id .* give the .model"
        ):
            save_sentencepiece(tokenizer, tmp_path / "x.model", model=model)
    parts = read_parts(extended)
    vocab = {token: i for token, i in parts.vocab.items() if i != 32_000}
    ids = set(vocab.values())
    merges = parts.merges[[ids.issuperset(merge) for merge in parts.merges.tolist()]]
    gap = Parts(parts.settings, vocab, merges)
    with pytest.raises(ValueError, match="no token has the id 32000: number"):
        save_sentencepiece(gap, tmp_path / "x.model", model=MISTRAL)
    with pytest.raises(FileNotFoundError):
        save_sentencepiece(extended, tmp_path / "x.model", model=tmp_path / "none.model")
    with pytest.raises(FileNotFoundError):
        save_sentencepiece(extended, tmp_path / "none" / "x.model", model=MISTRAL)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.model"]


SMALL = [
    *SWITCHES,
    {"byte_fallback": True, "vocab_size": 330},
    {"add_dummy_prefix": False},
    {"remove_extra_whitespaces": True},
    {"byte_fallback": True, "vocab_size": 330, "character_coverage": 0.98},
]


@pytest.mark.parametrize("options", one_fast(*SMALL), ids=str)
def test_small_models_of_every_kind(options, tmp_path):
    """Trained here, continued on other text, compared on thousands of random strings."""
    (tmp_path / "old.model").write_bytes(spm_model(**options))
    old = from_spm((tmp_path / "old.model").read_bytes())
    more = [
        "thelong abab 4ж4ж longest αβ αβγ １２１２ ab漢漢あ  wordword…… कखकख é\u0301",
        "жaжa   ab",
    ]
    with pytest.warns(UserWarning, match="this text yields"):
        extension = th.continue_bpe(old, more, 1_000, rules=piece_rules(tmp_path / "old.model"))
    assert len(extension.tokens) > 15
    new = th.extend(old, extension)
    assert set(th.unreachable(new)) <= set(th.unreachable(old))
    save_sentencepiece(new, tmp_path / "new.model", model=tmp_path / "old.model")
    alphabet = "".join(sorted({*"".join(LINES + more)}))
    texts = odd_strings(alphabet, 2_000) + LINES + more
    assert_same_ids(tmp_path / "new.model", new, texts)


@cache
def few_letters() -> bytes:
    return spm_model(["ab abc cab bca жж 11 aab bb  cc", "cabba acca"], vocab_size=24)


@examples(150)
@given(
    lines=st.lists(st.text("abcж1▁ ", min_size=1, max_size=20), min_size=1, max_size=6),
    texts=st.lists(st.text("abcж1▁ \n", max_size=40), max_size=20),
)
def test_any_text_by_small_alphabets(lines, texts, tmp_path_factory):
    """Few letters, so that merges overlap in every way."""
    folder = tmp_path_factory.mktemp("any")
    (folder / "old.model").write_bytes(few_letters())
    old = from_spm(few_letters())
    rules = PieceRules(split_digits=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        extension = th.continue_bpe(old, lines, 12, rules=rules)
    new = th.extend(old, extension)
    assert not set(th.unreachable(new)) & set(extension.tokens)
    save_sentencepiece(new, folder / "new.model", model=folder / "old.model")
    assert_same_ids(folder / "new.model", new, lines + texts)


# --- Llama-2's pieces, saved by another converter --------------------------------------------
@pytest.mark.long
def test_a_tokenizer_json_from_elsewhere(shared_data, tmp_path):
    """Phi-3's has more merges and special tokens behind Llama-2's pieces."""
    model = shared_data / "tokenizers" / "llama-2" / "tokenizer.model"
    assert piece_rules(model) == PieceRules()
    old = th.load_tokenizer(shared_data / "tokenizers" / "phi-3-mini")
    assert json.loads(old.to_str())["pre_tokenizer"] is None
    text = text_in("lt")
    new = th.extend(old, th.continue_bpe(old, text, 500))
    save_sentencepiece(new, tmp_path / "new.model", model=model)
    assert_same_ids(tmp_path / "new.model", new, text + odd_strings("ąčęėįšųaiks", 1_000))
