"""The two compiled loops against the library."""

from collections import Counter
from functools import cache

import pytest
from strategies import loaded, one_fast
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import tokhelpers as th
from tokhelpers.tokenizer import segmentation
from tokhelpers.tokenizer.library_encoder import count_tokens
from tokhelpers.tokenizer.segmentation import initial_ids, segment, segment_tracing
from tokhelpers.tokenizer.spec import TokenizerSpec

CORPORA = ["hpo", "wordfreq:fi", "wordfreq:ru", "python-source"]
load = cache(lambda name: list(th.load_corpus(name, chars=1_000_000)))


@pytest.mark.parametrize("name", one_fast(*CORPORA))
def test_learning_from_bytes_equals_the_library(llama, name):
    """5,000 merges, one for one, with Llama-3's pre-tokens."""
    text = load(name)
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = llama.pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=5_256, initial_alphabet=alphabet, show_progress=False)
    theirs.train_from_iterator(text, trainer)
    ours = th.train_byte_level_bpe(text, vocab_size=5_256, pre_tokenizer=llama.pre_tokenizer)
    assert (
        TokenizerSpec.from_tokenizer(ours).pairs() == TokenizerSpec.from_tokenizer(theirs).pairs()
    )
    assert ours.get_vocab() == theirs.get_vocab()


@pytest.mark.parametrize("name", one_fast("llama-3", "qwen", "mistral-nemo", "mistral-v1"))
def test_segmentation_equals_the_library(name):
    """Every pre-token of four corpora, merge skipping as the tokenizer has it."""
    tokenizer = loaded(name)
    for texts in map(load, CORPORA):
        texts = texts[:3_000]
        counts = count_tokens(tokenizer, th.count_pretokens(texts, tokenizer))
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        produced = Counter(i for encoding in encodings for i in encoding.ids)
        assert {i: int(n) for i, n in enumerate(counts) if n} == produced


def test_two_threads_segment_as_one_does(llama, finnish, monkeypatch):
    words = th.count_pretokens(finnish[:300], llama)
    spec = TokenizerSpec.from_tokenizer(llama)
    given = (*initial_ids(words.strings, spec), spec.merge_table)
    alone = segment_tracing(*given)
    monkeypatch.setattr(segmentation, "MANY", 2)
    for one, two in zip(alone, segment_tracing(*given), strict=True):
        assert one.tolist() == two.tolist()


def test_unknown_characters_follow_the_model():
    """Byte tokens, else the unknown token (one a run, where the model fuses), else nothing."""
    vocab = {"<unk>": 0, "a": 1, "b": 2, "ab": 3} | {f"<0x{i:02X}>": i + 4 for i in range(256)}
    for options in (
        {"byte_fallback": True, "unk_token": "<unk>"},
        {"unk_token": "<unk>", "fuse_unk": True},
        {"unk_token": "<unk>"},
        {},
    ):
        tokenizer = Tokenizer(models.BPE(vocab, [("a", "b")], **options))
        words, spec = ["ab", "aéb", "éé", "aéüb", "é"], TokenizerSpec.from_tokenizer(tokenizer)
        ids, offsets = segment(*initial_ids(words, spec, dropping=True), spec.merges)
        got = [ids[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]
        assert got == [tokenizer.encode(word).ids for word in words], options
