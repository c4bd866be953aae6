"""The encoder gives the library's own IDs where its rules are odd, and refuses what it cannot give."""

import unicodedata

import pytest
from hypothesis import given, strategies as st
from strategies import loaded
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import tokhelpers as th
from tokhelpers.tokenizer.library_encoder import open_tokenizer


def with_some_bytes(fuse: bool) -> Tokenizer:
    """Byte fallback with tokens for the bytes of "!" and "é" but not of "ü", and an unknown token."""
    tokens = ["<unk>", "a", "aa", "<0x21>", "<0xC3>", "<0xA9>"]
    vocab = {token: i for i, token in enumerate(tokens)}
    options = {"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": fuse}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "a")], **options))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


@pytest.mark.parametrize("fuse", [False, True])
@given(text=st.text("aé!üß ", max_size=12))
def test_unknown_characters_beside_byte_tokens(fuse, text):
    tokenizer = with_some_bytes(fuse)
    expected = tokenizer.encode(text).ids
    assert open_tokenizer(tokenizer).ids_batch([text]) == [expected]
    assert th.evaluate(tokenizer, [text, "a"]).tokens == len(expected) + 1


def at_start(before=None, normalizer=None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({"▁": 0, "a": 1, "b": 2, ".": 3, "▁a": 4}, [("▁", "a")]))
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="first")
    steps = [before, metaspace] if before else [metaspace]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    if normalizer:
        tokenizer.normalizer = normalizer
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [
        at_start(),
        at_start(pre_tokenizers.WhitespaceSplit()),
        at_start(pre_tokenizers.BertPreTokenizer()),
        at_start(normalizer=normalizers.Strip()),
        at_start(pre_tokenizers.WhitespaceSplit(), normalizers.Strip()),
    ],
)
@given(text=st.text("ab. ", min_size=1, max_size=12))
def test_a_space_symbol_at_the_start_of_the_text_only(tokenizer, text):
    expected = tokenizer.encode(text)
    assert open_tokenizer(tokenizer).ids_batch([text]) == [expected.ids]
    assert th.evaluate(tokenizer, [text, "a"]).tokens == len(expected) + 1


def test_unknown_tokens_that_would_fuse_across_words_are_refused():
    vocab = {"<unk>": 0, "a": 1}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    with pytest.raises(ValueError, match="no token '▁', so that unknown tokens fuse across words"):
        th.evaluate(tokenizer, ["x x"])


# --- settings that name tokens ---------------------------------------------------------------------
def pads_with(pad_id: int, token: str) -> Tokenizer:
    tokenizer = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    tokenizer.enable_padding(pad_id=pad_id, pad_token=token)
    return tokenizer


def starts_with(i: int, token: str) -> Tokenizer:
    tokenizer = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{token} $A", special_tokens=[(token, i)]
    )
    return tokenizer


@pytest.mark.parametrize("make", [pads_with, starts_with])
def test_pruning_names_a_setting_that_needs_a_missing_token(make):
    name = "padding" if make is pads_with else "post_processor"
    with pytest.raises(ValueError, match=f"{name} uses the ID 999, which no token has: set the"):
        th.prune(make(999, "[X]"), ["bat"], 1)
    with pytest.raises(ValueError, match=f"{name} uses the token with ID 257, which would be pr"):
        th.prune(make(257, "bat"), ["bat"], 1)


# --- reached by merges -----------------------------------------------------------------------------
def test_one_token_is_not_this_token():
    """Of a token with an unknown character the rest comes back, or the unknown token."""
    dropping = Tokenizer(models.BPE({"a": 0, "ab": 1}, []))
    dropping.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert th.unreachable_tokens(dropping) == ["ab"]
    assert th.reachability(dropping).category.tolist() == ["by merges", "never: merges blocked"]
    unknown = Tokenizer(
        models.BPE({"<unk>": 0, "a": 1, "日本": 2}, [], unk_token="<unk>", fuse_unk=True)
    )
    unknown.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert th.unreachable_tokens(unknown, ["日本"]) == ["日本"]
    assert th.evaluate(unknown, ["日本 a"], added=["日本"]).unused_added == 1


# --- what a tokenizer may be -----------------------------------------------------------------------
def test_a_name_and_a_path_are_tokenizers(tmp_path):
    tokenizer = loaded("smollm2-135m")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    text, expected = ["xqzwj vbkkq"], None
    for form in (tokenizer, "smollm2-135m", tmp_path, tmp_path / "tokenizer.json", wrapped):
        extension = th.continue_bpe(form, text, 2)
        extended = th.extend(form, extension)
        pruned = th.prune(form, th.pruning_order(form, by="id"), 3)
        results = (
            th.evaluate(form, text).tokens,
            extension.merges,
            th.id_map(form, extended)[9],
            th.TokenizerSpec.from_tokenizer(extended).vocab,  # transformers adds a post-processor
            th.id_map(pruned, form)[9],
            th.fragment_score(form, text),
            th.count_tokens(form, th.count_pretokens(text, form)).tolist(),
        )
        assert results == (expected := expected or results)
    with pytest.raises(TypeError, match="got int: load one with load_tokenizer, or give its name"):
        th.evaluate(5, text)
    with pytest.raises(ValueError, match="no tokenizer is called 'smollm'"):
        th.evaluate("smollm", text)


def test_what_to_do_about_a_normalizer_that_tiktoken_lacks():
    with pytest.raises(
        ValueError, match=r"set tokenizer.normalizer = None on a copy and pass"
    ) as e:
        th.to_tiktoken("qwen")
    assert "unicodedata.normalize" in str(e.value)
    copy = Tokenizer.from_str(loaded("qwen").to_str())
    copy.normalizer = None
    composed = unicodedata.normalize("NFC", "e\u0301té")
    assert (
        th.to_tiktoken(th.tiktoken_merges(copy)).encode(composed)
        == loaded("qwen").encode(composed).ids
    )
