"""Pre-tokens of several words: the joined pre-tokens of the tokenizer, with the same segmentation."""

import random

import pytest
import regex
from hypothesis import given, strategies as st
from strategies import one_fast
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

import tokhelpers as th
from tokhelpers import TokenizerSpec
from tokhelpers.tokenizer.pretokenization import BEFORE_META
from tokhelpers.tokenizer.superwords import WORDS, superword_pattern

NAMES = one_fast(
    "llama-3", "qwen", "gpt-4", "gpt-4o", "mistral-nemo", "mistral-v1", "deepseek-v3", "smollm2-135m"
)  # fmt: skip
TEXTS = [
    "Hello WORLDfoo fooBar baz don't STOP it's  two  spaces, I'm you're HE'S gone",
    "हिन्दी में लिखा है", "日本語 テキスト です", "Tôi nói tiếng Việt Nam", "e\u0301tat de la nation",
    "def f(x, y):\n    return x and y or not z\n", "a\u00a0b c\u3000d", " leading and trailing ",
]  # fmt: skip
NOTHING = regex.compile("(?!)")
MIXED = st.text("ab cdAB  '.,1é日\n\tſmsŉ▁ʕ\u0301", max_size=40) | st.sampled_from(TEXTS)


def plain(name: str) -> Tokenizer:
    return th.with_merge_skipping(th.load_tokenizer(name), False)


@pytest.fixture(scope="module", params=NAMES)
def both(request):
    """A tokenizer without merge skipping, and the same with superwords."""
    tokenizer = plain(request.param)
    return tokenizer, th.with_superwords(tokenizer)


@given(text=MIXED)
def test_text_is_segmented_as_before(both, text):
    before, after = (t.encode(text, add_special_tokens=False).ids for t in both)
    assert after == before


def test_vocabulary_and_merges_stay(both):
    before, after = map(th.TokenizerSpec.from_tokenizer, both)
    assert after.vocab == before.vocab and (after.merges == before.merges).all()
    assert after.added == before.added


def joined(pieces: list[str], max_words: int, is_word, is_further) -> list[str]:
    """The definition: a word takes the further words directly behind it, up to so many in all."""
    runs, words = [], 0
    for piece in pieces:
        if words and words < max_words and is_further(piece):
            runs[-1] += piece
            words += 1
        else:
            runs.append(piece)
            words = int(bool(is_word(piece)))
    return runs


@pytest.mark.parametrize("pattern", WORDS, ids=range(len(WORDS)))
@given(text=MIXED, max_words=st.integers(2, 5))
def test_runs_are_joined_words(pattern, text, max_words):
    def split(pattern):
        rule = pre_tokenizers.Split(Regex(pattern), "isolated")
        return [piece for piece, _ in rule.pre_tokenize_str(text)]

    alternatives, word = WORDS[pattern]
    contraction = regex.compile(pattern.partition("|[^")[0]) if "(?i:" in pattern[:6] else NOTHING
    either = regex.compile("|".join(alternatives))
    is_further = regex.compile(f" {word}").fullmatch

    def is_word(piece):
        return either.fullmatch(piece) and not contraction.fullmatch(piece)

    expected = joined(split(pattern), max_words, is_word, is_further)
    assert split(superword_pattern(pattern, max_words - 1)) == expected


@given(text=MIXED, max_words=st.integers(2, 5))
def test_runs_of_sentencepiece_are_joined_words(text, max_words):
    mistral = plain("mistral-v1")
    tokenizer, text = th.with_superwords(mistral, max_words), mistral.normalizer.normalize_str(text)
    pieces = [piece for piece in BEFORE_META.split(text) if piece]
    is_word, is_further = (regex.compile(p).fullmatch for p in (r"▁?\p{L}+", r"▁\p{L}+"))
    expected = joined(pieces, max_words, is_word, is_further)
    assert [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)] == expected


@pytest.mark.parametrize("name", one_fast("llama-3", "mistral-v1", "deepseek-v3"))
def test_tokens_across_spaces_are_learned_and_produced(name):
    tokenizer = th.with_superwords(plain(name), 3)
    corpus = list(th.load_corpus("hpo", chars=200_000))
    extension = th.continue_bpe(tokenizer, corpus, 300)
    longer = th.extend(tokenizer, extension)
    spec = th.TokenizerSpec.from_tokenizer(longer)
    words = [len(spec.text_of(token).split()) for token in extension.tokens]
    assert max(words) == 3 and sum(n > 1 for n in words) > 50
    assert th.unreachable_tokens(longer, extension.tokens) == []
    base = th.TokenizerSpec.from_tokenizer(tokenizer)
    assert spec.merges[: len(base.merges)].tolist() == base.merges.tolist()
    produced = th.count_tokens(longer, th.count_pretokens(corpus, longer))
    assert sum(produced[spec.vocab[token]] > 0 for token in extension.tokens) > 200
    mixed = [*TEXTS, *random.Random(3).sample(corpus, 50)]
    for text, encoding in zip(mixed, longer.encode_batch(mixed), strict=True):
        assert longer.decode(encoding.ids) == tokenizer.decode(tokenizer.encode(text).ids)
    alone, within = (
        th.evaluate(t, th.load_corpus("hpo", chars=50_000, split="test")).bytes_per_token
        for t in (longer, tokenizer)
    )
    assert alone > 1.05 * within


def test_merge_skipping_does_not_reach_into_runs():
    llama = th.load_tokenizer("llama-3")
    text = "tiếng Việt"
    assert (
        llama.encode(text, add_special_tokens=False).tokens[-1:]
        == llama.encode(" Việt", add_special_tokens=False).tokens
    )
    split = th.with_superwords(llama).encode(text, add_special_tokens=False)
    without = th.with_merge_skipping(llama, False).encode(text, add_special_tokens=False)
    assert split.ids == without.ids and len(split) > len(
        llama.encode(text, add_special_tokens=False)
    )


def test_what_has_no_superwords():
    with pytest.raises(
        ValueError, match="superwords are not supported with the pre-tokenizer .*Wh"
    ):
        th.with_superwords(with_rule(pre_tokenizers.Whitespace()))
    with pytest.raises(ValueError, match="superwords are not supported with the pre-tokenizer"):
        th.with_superwords(th.with_superwords(th.load_tokenizer("llama-3")))
    with pytest.raises(ValueError, match="max_words must be at least 2, not 1"):
        th.with_superwords(th.load_tokenizer("llama-3"), 1)
    base = th.train_byte_level_bpe(["of the"], vocab_size=256)
    crossing = th.Extension(["fĠ", "fĠt"], [("f", "Ġ"), ("fĠ", "t")])
    crossing = th.extend(TokenizerSpec.from_tokenizer(base), crossing)
    with pytest.raises(
        ValueError, match="merges of this tokenizer cross spaces already, as in 'fĠ"
    ):
        th.with_superwords(crossing)


def with_rule(rule) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    tokenizer.pre_tokenizer = rule
    return tokenizer
