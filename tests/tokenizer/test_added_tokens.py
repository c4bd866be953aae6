"""Ordinary added tokens: the library splits raw text at them, and so do counting and training."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st
from strategies import PIPELINES, added_tokens, loaded, texts_of_pieces
from tokenizers import Tokenizer, models

import tokhelpers as th
from tokhelpers.tokenizer.pretokenization import BEFORE_META


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
        th.extend(tokenizer, extension)


def test_a_text_of_added_tokens_alone_is_measured():
    tokenizer = Tokenizer.from_str(loaded("smollm2-135m").to_str())
    tokenizer.add_tokens(["ophthalmology"])
    assert th.evaluate(tokenizer, ["ophthalmology"]).tokens == 1
