"""Taking apart and putting together changes nothing that was not asked for."""

import json
import pickle

import pytest
from tokenizers import Tokenizer, models

import tokhelpers as th
from tokhelpers.surgery import Parts, build, merge_ids, read


@pytest.mark.parametrize("name", ["llama-3", "qwen", "mistral-nemo", "mistral-v1"])
def test_reading_and_building_gives_the_same_tokenizer(name, finnish):
    tokenizer = th.load_tokenizer(name)
    again = build(read(tokenizer))
    assert again.get_vocab() == tokenizer.get_vocab()
    old, new = json.loads(tokenizer.to_str()), json.loads(again.to_str())
    assert old["model"]["merges"] == new["model"]["merges"]
    assert {k: v for k, v in old.items() if k != "model"} == {
        k: v for k, v in new.items() if k != "model"
    }
    texts = [*finnish[:100], "<|eot_id|> [INST] <s> x </s>", "  \n\n\t", "é日本👩‍👩‍👧"]
    for text in texts:
        assert again.encode(text).ids == tokenizer.encode(text).ids


def test_reading_follows_a_tokenizer_that_was_changed():
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    assert read(tokenizer).merge_skipping is False
    tokenizer.model.ignore_merges = True
    assert read(tokenizer).merge_skipping is True
    tokenizer.add_special_tokens(["<x>"])
    assert read(tokenizer).special == {"<x>"} and read(tokenizer).next_id == 4


def test_merge_skipping_is_a_copy_and_survives_saving(llama):
    off = th.merge_skipping(llama, False)
    assert llama.model.ignore_merges and not off.model.ignore_merges
    assert not Tokenizer.from_str(off.to_str()).model.ignore_merges
    assert not pickle.loads(pickle.dumps(off)).model.ignore_merges
    [hidden] = [t for t in th.unreachable(llama) if t == "ĠÄĳiá»ģu"]
    text = " điều"
    assert llama.encode(text).tokens == [hidden] != off.encode(text).tokens


def test_merges_that_name_missing_tokens_are_refused():
    with pytest.raises(
        ValueError, match="2 merges name tokens that the vocabulary lacks, first 'a' \\+ 'c'"
    ):
        merge_ids({"a": 0, "b": 1, "ab": 2}, [("a", "b"), ("a", "c"), ("b", "a")])


def test_transformers_tokenizers_are_read_too(mistral):
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(tokenizer_object=mistral)
    assert isinstance(read(wrapped), Parts) and read(wrapped).vocab == read(mistral).vocab


def test_wordpiece_is_read_where_it_is_asked_for():
    tokenizer = th.train_wordpiece(["sun sun flow flows"], vocab_size=15, special_tokens=["[PAD]"])
    parts = read(tokenizer, wordpiece=True)
    assert parts.wordpiece and len(parts.merges) == 0
    assert build(parts).to_str() == tokenizer.to_str()
    with pytest.raises(
        ValueError, match="a BPE tokenizer is needed, this one's model is WordPiece"
    ):
        read(tokenizer)
    with pytest.raises(ValueError, match="a BPE tokenizer is needed"):
        read(parts)


def test_a_model_that_is_not_bpe():
    with pytest.raises(ValueError, match="BPE or WordPiece tokenizer is needed, .* is Unigram"):
        read(Tokenizer(models.Unigram([("a", 0.0)], unk_id=0)), wordpiece=True)
    with pytest.raises(ValueError, match="model is Unigram"):
        read(Tokenizer(models.Unigram([("a", 0.0)], unk_id=0)))
