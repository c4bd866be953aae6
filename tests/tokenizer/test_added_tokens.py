"""Ordinary added tokens: the library splits raw text at them, and so do counting and training."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st
from strategies import PIPELINES, added_tokens, loaded, texts_of_pieces
from tokenizers import AddedToken, Tokenizer, models

import tokhelpers as th
from tokhelpers.tokenizer.pretokenization import BEFORE_META
from tokhelpers.tokenizer.token_bytes import byte_alphabet


def splitting(pipeline: str, tokens) -> Tokenizer:
    """A tokenizer whose only other token is the unknown token, so that its tokens are pre-tokens."""
    unknown = models.Unigram([("", 0.0)], unk_id=0, byte_fallback=False)
    tokenizer = Tokenizer(unknown)
    tokenizer.normalizer, tokenizer.pre_tokenizer = PIPELINES[pipeline]
    tokenizer.add_tokens(tokens)
    return tokenizer


@given(st.sampled_from(list(PIPELINES)), added_tokens(), st.lists(texts_of_pieces, min_size=1))
def test_counts_are_of_what_is_between_added_tokens(pipeline, tokens, texts):
    tokenizer, expected = splitting(pipeline, tokens), Counter()
    for text in texts:
        encoding = tokenizer.encode(text)
        for i, token in zip(encoding.ids, encoding.tokens, strict=True):
            if i == 0:
                expected.update([token] if tokenizer.pre_tokenizer else BEFORE_META.split(token))
    expected.pop("", None)
    if expected:
        assert dict(th.count_pretokens(texts, tokenizer)) == dict(expected)


TEXT = ["an ophthalmology of ophthalmology and unophthalmology"] * 30


@pytest.mark.parametrize("parsed", [False, True])
def test_an_added_token_is_not_learned_again(parsed):
    tokenizer = Tokenizer.from_str(loaded("smollm2-135m").to_str())
    tokenizer.add_tokens(["ophthalmology"])
    given = th.TokenizerSpec.from_tokenizer(tokenizer) if parsed else tokenizer
    extension = th.continue_bpe(given, [*TEXT, "the oncologists"] * 9, 1)
    assert extension.tokens and not any("ology" in token for token in extension.tokens)
    for how in ("append", "prepend", "regenerate", "add_tokens"):
        extended = th.extend(tokenizer, extension, how=how)
        assert extended.token_to_id("ophthalmology") == 49_152
    with pytest.raises(ValueError, match="in the vocabulary already, first 'ophthalmology'"):
        th.extend(given, th.Extension(tokens=["ophthalmology"]))


def test_a_supplement_does_not_bring_added_tokens_again():
    tokenizer = Tokenizer.from_str(loaded("smollm2-135m").to_str())
    tokenizer.add_tokens(["ophthalmology"])
    text = ["ophthalmology", "x"] * 9
    supplement = th.train_byte_level_bpe(text, vocab_size=268)
    assert "ophthalmology" in supplement.get_vocab()
    for method in ("naive", "thesis"):
        extension = th.naive_extension(tokenizer, supplement, method=method)
        assert "ophthalmology" not in extension.tokens
        th.extend(th.TokenizerSpec.from_tokenizer(tokenizer), extension)  # without a warning


def test_a_text_of_added_tokens_alone_is_measured():
    tokenizer = Tokenizer.from_str(loaded("smollm2-135m").to_str())
    tokenizer.add_tokens(["ophthalmology"])
    assert th.evaluate(tokenizer, ["ophthalmology"]).tokens == 1


def test_a_letter_whose_text_is_a_byte_of_the_alphabet_only_takes_its_id():
    base = th.train_byte_level_bpe(["a"], vocab_size=256)
    extension = th.Extension(tokens=["ÄĹ", "aa", "ÄĹa"])  # ė, aa, ėa
    with pytest.warns(
        UserWarning, match="1 of the 3 new tokens, first 'ÄĹ', can never be produced: their text is"
    ):
        extended = th.extend(base, extension, how="add_tokens")
    assert [extended.token_to_id(t) for t in ("ÄĹ", "aa", "ėa")] == [256, 257, 258]
    assert extended.encode("ėa ė aa").ids[0] == 258
    assert extended.decode(extended.encode("x aa").ids) == "x aa"
    table = th.evaluate_sizes(base, {"added": (extension, "add_tokens")}, [3], ["ėa ė aa"])
    assert table.tokens[0] == th.evaluate(extended, ["ėa ė aa"]).tokens


@pytest.mark.parametrize("flags", [{"single_word": True}, {"normalized": False}])
def test_an_extension_that_would_change_old_segmentations_is_refused(flags):
    vocab = {token: i for i, token in enumerate(["[UNK]", "cov", "##id", "##ish"])}
    wordpiece = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    wordpiece.normalizer, wordpiece.pre_tokenizer = PIPELINES["lower"]
    wordpiece.add_tokens([AddedToken("covid", **flags)])
    with pytest.raises(ValueError, match="'covid'.*segmented differently: build the tokenizer"):
        th.extend(wordpiece, th.Extension(tokens=["##foo"]))
    skipping = Tokenizer(models.BPE({"a": 0, "b": 1, "c": 2}, [], ignore_merges=True))
    skipping.normalizer, skipping.pre_tokenizer = PIPELINES["lower"]
    skipping.add_tokens([AddedToken("ab", **flags)])
    with pytest.raises(ValueError, match="'ab'.*segmented differently"):
        th.extend(skipping, th.Extension(tokens=["bc"]))


@given(
    added_tokens(),
    st.sampled_from(["lower", "GPT-2"]),
    st.booleans(),
    st.lists(texts_of_pieces, min_size=1, max_size=4),
)
def test_extending_leaves_other_text_as_it_was(tokens, pipeline, skipping, texts):
    """New tokens have a letter that no text contains."""
    letters = [*byte_alphabet()] if pipeline == "GPT-2" else [*"abcdefnox1.<>é"]
    vocab = {token: i for i, token in enumerate(["<unk>", *letters, "oo"])}
    options = {"unk_token": "<unk>", "ignore_merges": skipping}
    tokenizer = Tokenizer(models.BPE(vocab, [("o", "o")], **options))
    tokenizer.normalizer, tokenizer.pre_tokenizer = PIPELINES[pipeline]
    tokenizer.add_tokens(tokens)
    try:
        extended = th.extend(tokenizer, th.Extension(tokens=["aq", "qq"][: 1 + skipping]))
    except ValueError as error:
        assert "would be segmented differently" in str(error)
        return
    for text in texts:
        assert extended.encode(text).ids == tokenizer.encode(text).ids
    expected = sum(len(tokenizer.encode(text)) for text in texts)
    assert th.evaluate(extended, texts).tokens == expected
