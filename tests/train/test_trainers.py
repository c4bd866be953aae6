"""The trainers: against the textbook, against the libraries, and with bad input."""

import json
import math
import unicodedata
import warnings

import pytest
from hypothesis import given, strategies as st
from spm import processor_of, train_spm
from tokenizers import normalizers, pre_tokenizers

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.tokenizer.spec import TokenizerSpec

TRAINERS = {
    "wordpiece": th.train_wordpiece,
    "sentencepiece_bpe": th.train_sentencepiece_bpe,
    "byte_level_bpe": th.train_byte_level_bpe,
    "unigram": th.train_unigram,
}
each_trainer = pytest.mark.parametrize("name", TRAINERS)


def in_order(tokenizer) -> list[str]:
    vocab = tokenizer.get_vocab()
    return sorted(vocab, key=vocab.get)


def quietly(train, *args, **options):
    """Train without the warning that the text yields fewer tokens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(*args, **options)


# --- fast equals textbook -------------------------------------------------------------------------
alphabets = st.sampled_from(["ab", "abc", "abcdef", "aé漢b"])
words = alphabets.flatmap(lambda letters: st.text(letters, min_size=0, max_size=9))
corpora = st.dictionaries(words, st.integers(1, 9), min_size=1, max_size=14).filter(any)


def smallest(name, corpus) -> int:
    """How many tokens training begins with."""
    if name == "wordpiece":
        return 1 + len({c if i == 0 else "##" + c for w in corpus for i, c in enumerate(w)})
    return 256 + (len({"▁", *"".join(corpus)}) if name == "sentencepiece_bpe" else 0)


def by_the_book(name, corpus, size, least):
    """The textbook's vocabulary, merges and encoder."""
    if name == "wordpiece":
        options = {"min_frequency": least, "special_tokens": ["[UNK]"]}
        vocab = textbook.train_wordpiece(corpus, size, **options)
        return vocab, None, lambda word: textbook.tokenize_wordpiece(word, vocab)
    if name == "sentencepiece_bpe":
        spaced = {"▁" + word: n for word, n in corpus.items()}
        vocab, merges = textbook.train_sentencepiece_bpe(spaced, size, min_frequency=least)
        encode = textbook.tokenize_sentencepiece_bpe
        return vocab, merges, lambda word: encode("▁" + word, vocab, merges)
    vocab, merges = textbook.train_byte_level_bpe(corpus, size, min_frequency=least)
    return vocab, merges, lambda word: textbook.tokenize_byte_level_bpe(word, vocab, merges)


@pytest.mark.parametrize("name", ["wordpiece", "sentencepiece_bpe", "byte_level_bpe"])
@given(corpus=corpora, growth=st.integers(0, 30), least=st.integers(0, 4))
def test_trainers_equal_the_textbook(name, corpus, growth, least):
    """The same tokens, merges and ids; or both say that no pair is frequent enough."""
    whole = {word: n for word, n in corpus.items() if word}
    size = smallest(name, whole) + growth
    options = {"vocab_size": size, "min_frequency": least}
    if name == "wordpiece":
        options["normalizer"] = normalizers.Sequence([])
        options["pre_tokenizer"] = pre_tokenizers.Whitespace()
    documents = [word for word, n in corpus.items() for _ in range(n)]  # empty ones among them
    try:
        vocab, merges, encode = by_the_book(name, whole, size, least)
    except ValueError as error:
        assert "min_frequency" in str(error)
        with pytest.raises(ValueError, match="larger than every count"):
            quietly(TRAINERS[name], documents, **options)
        return
    ours = quietly(TRAINERS[name], documents, **options)
    assert in_order(ours) == list(vocab)
    assert merges is None or TokenizerSpec.from_tokenizer(ours).pairs() == merges
    for word in [*whole, "abx", "x", "cba"]:
        assert ours.encode(word).ids == encode(word), word


# --- the libraries --------------------------------------------------------------------------------
def sentencepiece_pieces(documents, size, **options):
    """The pieces of sentencepiece's BPE, in order of their ids."""
    processor = processor_of(train_spm(documents, size, **options))
    return [processor.id_to_piece(i) for i in range(size)]


SPECIAL = {"byte_fallback": False, "special_tokens": ["<unk>", "<s>", "</s>"]}


@pytest.mark.parametrize("name", ["hpo", "wordfreq:ru", "wordfreq:ko"])
def test_sentencepiece_bpe_equals_sentencepiece(name):
    """Every piece the same and, characters apart, in the same order; nearly so by script rules."""
    text = list(th.load_corpus(name, chars=1_000_000))
    plain = {"split_by_unicode_script": False, "split_by_number": False}
    theirs = sentencepiece_pieces(text, 4_000, **plain)
    ours = in_order(th.train_sentencepiece_bpe(text, vocab_size=4_000, **SPECIAL))
    assert sorted(ours) == sorted(theirs)
    assert [t for t in ours if len(t) > 1] == [t for t in theirs if len(t) > 1]
    theirs = sentencepiece_pieces(text, 4_000)
    rules = {"split_by_script": True, "split_by_number": True}
    ours = th.train_sentencepiece_bpe(text, vocab_size=4_000, **SPECIAL, **rules)
    assert len(ours.get_vocab().keys() & set(theirs)) >= 0.97 * 4_000


def test_script_rules_keep_tokens_within_a_script():
    mixed = ["abcабв123 abcабв123 日本のテスト 日本のテスト"] * 3
    train = {"vocab_size": 330, "split_by_script": True, "min_frequency": 1}
    tokens = in_order(quietly(th.train_sentencepiece_bpe, mixed, split_by_number=True, **train))
    assert {"▁abc", "абв", "123", "▁日本のテスト"} <= set(tokens)
    assert not any("c" in t and ("а" in t or "1" in t) for t in tokens)
    tokens = in_order(quietly(th.train_sentencepiece_bpe, mixed, **train))
    assert any("в1" in t for t in tokens)


# --- round trips ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def small():
    text = list(th.load_corpus("hpo", chars=200_000))
    return {name: train(text, vocab_size=1_000) for name, train in TRAINERS.items()}


any_text = st.text(max_size=40) | st.text(" \tab1<>x0▁é漢🙂\u0301", max_size=30)


@given(text=any_text)
def test_what_is_encoded_decodes_to_itself(small, text):
    """Lossless: any text comes back; a literal ▁ is a space from then on."""
    for name in ("sentencepiece_bpe", "byte_level_bpe", "unigram"):
        tokenizer = small[name]
        back = tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False)
        assert back == (text if name == "byte_level_bpe" else text.replace("▁", " ")), name


def test_a_normalizer_comes_first():
    documents = ["ﬁne ﬁsh, ①②"] * 3
    for train in (th.train_sentencepiece_bpe, th.train_byte_level_bpe):
        tokenizer = quietly(train, documents, vocab_size=290, normalizer=normalizers.NFKC())
        for text in ("", *documents, "  e\u0301 ﬃ "):
            expected = unicodedata.normalize("NFKC", text)
            assert tokenizer.decode(tokenizer.encode(text).ids) == expected


# --- options --------------------------------------------------------------------------------------
@each_trainer
def test_digits_and_punctuation_stand_alone(name):
    """In WordPiece of a pre-tokenizer that does not do it by itself."""
    documents = ["grade... 1234 (in) 1234... of 1234 grades, 12 34"] * 4
    options = {"vocab_size": 300, "isolate_punctuation": True, "isolate_digits": True}
    if name == "wordpiece":
        options["pre_tokenizer"] = pre_tokenizers.WhitespaceSplit()
    made = quietly(TRAINERS[name], documents, **options)
    alone = set("0123456789.(),")
    tokens = [t.strip("▁Ġ#") for t in in_order(made) if not t.startswith("<0x")]
    assert not [t for t in tokens if alone & set(t) and len(t) > 1]
    assert [t for t in made.encode("1234...").tokens if t != "▁"] == [*"1234..."]


def test_text_that_spells_a_byte_token_is_not_taken_for_it():
    made = quietly(th.train_sentencepiece_bpe, ["<0x41> <0x41> <0x41>"] * 9, vocab_size=300)
    assert made.decode(made.encode("<0x41>").ids) == "<0x41>"


# --- bad input ------------------------------------------------------------------------------------
WORDS, TEXT = ["a few words"], {"vocab_size": 300}
REFUSED = {
    "twice": (WORDS, TEXT | {"special_tokens": ["<s>", "<s>"]}, "token '<s>' is given twice"),
    "one string": (WORDS, TEXT | {"special_tokens": "<s>"}, "one string, '<s>': give a list"),
    "empty": (WORDS, TEXT | {"special_tokens": [""]}, "token '' is empty"),
    "small": (WORDS, {"vocab_size": 3}, "vocab_size=3 is smaller than the .* use at least"),
    "long words": (["many"], TEXT | {"max_word_length": 2}, "every pre-token is longer than max_w"),
}


@each_trainer
@pytest.mark.parametrize(("corpus", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(name, corpus, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        TRAINERS[name](corpus, **options)


def test_prefix_in_the_text():
    whole_words = pre_tokenizers.WhitespaceSplit()
    with pytest.raises(ValueError, match="the pre-token 'a##b' contains the prefix '##'"):
        th.train_wordpiece(["a##b"], vocab_size=300, pre_tokenizer=whole_words)
    options = {"vocab_size": 300, "pre_tokenizer": whole_words, "prefix": "@@"}
    made = quietly(th.train_wordpiece, ["a##b"], **options)
    assert made.encode("a##b").tokens == ["a##b"]
    assert quietly(th.train_wordpiece, ["a##b a##b"], vocab_size=300).encode("#").tokens == ["#"]


@each_trainer
def test_long_words_are_left_out(name):
    message = "max_word_length=.*: 1 unique, 1 in all, the longest of 1,000,00"
    with pytest.warns(UserWarning, match=message):
        made = TRAINERS[name](["ab" * 500_000, "some more words"], vocab_size=None)
    assert "abab" not in made.get_vocab()


def test_pre_tokenizer_that_does_not_write_bytes():
    with pytest.raises(ValueError, match="does not write text as bytes: end it with"):
        th.train_byte_level_bpe(["a"], vocab_size=300, pre_tokenizer=pre_tokenizers.Whitespace())


@given(text=st.text("abcdefghijklmnopqrstuvwxyz ", max_size=40))
def test_unigram_cuts_as_the_textbook(small, text):
    """The encoder against Viterbi; equally good segmentations have the same score."""
    unigram = small["unigram"]
    pieces = json.loads(unigram.to_str())["model"]["vocab"]
    p = {piece: math.exp(score) for piece, score in pieces if not piece.startswith("<")}
    score = dict(pieces)
    for word in text.split():
        tokens, best = textbook.tokenize_unigram("▁" + word, p)
        assert "".join(tokens) == "▁" + word
        assert sum(score[t] for t in unigram.encode(word).tokens) == pytest.approx(best, abs=1e-6)


@each_trainer
def test_without_a_size_the_minimum_frequency_decides(name):
    """No warning then, and what a size just large enough gives. Unigram keeps all that recurs."""
    text = ["the cat sat on the mat", "a bat, a hat; that cat!"] * 3
    train, options = TRAINERS[name], {"min_frequency": 5}
    if name == "unigram":
        options = {"byte_fallback": False}
    made = train(text, vocab_size=None, **options)
    size = made.get_vocab_size()
    assert made.to_str() == train(text, vocab_size=size, **options).to_str()
    with pytest.warns(UserWarning, match=f"this text yields {size}"):
        assert train(text, vocab_size=5_000, **options).to_str() == made.to_str()
    if name == "unigram":
        assert {"▁the", "▁a", "at"} <= made.get_vocab().keys()
        return
    for size in (None, 300):
        with pytest.raises(
            ValueError, match="min_frequency=99 is larger than every count: .* times"
        ):
            train(text, vocab_size=size, min_frequency=99)


def test_byte_level_with_a_space_before_the_text():
    spaced = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer = th.train_byte_level_bpe(["bat bat"] * 2, vocab_size=259, pre_tokenizer=spaced)
    assert tokenizer.encode("bat bat").tokens == ["Ġbat", "Ġbat"]


def test_wordpiece_warns_of_rare_pairs_unless_it_is_told_how_rare():
    corpus = th.load_corpus("hpo", chars=200_000)
    with pytest.warns(UserWarning, match="half of the .* merges are of pairs that occur at most"):
        th.train_wordpiece(corpus, vocab_size=2_000)
    th.train_wordpiece(corpus, vocab_size=2_000, min_frequency=0)
    th.train_wordpiece(corpus, vocab_size=1_200, min_frequency=20)
