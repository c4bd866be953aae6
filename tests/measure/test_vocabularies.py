"""Vocabularies beside each other: against sets of bytes, and facts known of the vendors' lists."""

import pytest
from tokenizers import Tokenizer, models

import tokhelpers as th


def test_vocabularies_are_compared_token_by_token():
    texts = (["the cat sat on the mat"] * 3, ["the cat sat on a hat"] * 3)
    pair = [th.train_byte_level_bpe(text, vocab_size=266) for text in texts]
    lists = [sorted(t.get_vocab(), key=t.get_vocab().get) for t in pair]
    shared, prefix = len(set(lists[0]) & set(lists[1])), 0
    while lists[0][prefix] == lists[1][prefix]:
        prefix += 1
    expected = [shared, 266 - shared, 266 - shared, prefix]
    assert 256 < prefix < shared < 266
    columns = ["shared", "only_first", "only_second", "common_prefix"]
    assert th.measure.overlap(dict(enumerate(pair))).loc[0, columns].tolist() == expected
    table = th.compare_vocabularies(*pair)
    assert set(table.by) == {"all", "script", "length"}
    for _, part in table.groupby("by"):
        assert part[columns].sum().tolist() == expected


def test_families_that_write_tokens_otherwise_are_compared_by_bytes(mistral):
    byte_level = th.train_byte_level_bpe(["the cat sat"] * 3, vocab_size=262)
    row = th.compare_vocabularies(byte_level, mistral).loc[0]
    assert row.only_first < 10 and row.common_prefix == 0
    words = Tokenizer(models.WordPiece({"[UNK]": 0, " the": 1}, unk_token="[UNK]"))
    assert th.compare_vocabularies(words, mistral).loc[0, "shared"] == 1


def test_tokens_are_described(mistral):
    table = th.measure.describe_tokens(mistral)
    of = table.set_index("bytes").groupby("bytes").last()
    for raw, script, kind in [
        (b" the", "Latin", "letters"), ("мо".encode(), "Cyrillic", "letters"), (b"7", "no letter", "digits"),
        (b"  ", "no letter", "white space"), (b"();", "no letter", "other"),
        (b"\xe4", "part of a character", "part of a character"), ("ि".encode(), "Devanagari", "letters"),
    ]:  # fmt: skip
        assert of.loc[[raw], ["script", "kind"]].values.tolist() == [[script, kind]]
    assert len(table) == 31_997


def test_bad_input():
    with pytest.raises(ValueError, match="got 1 tokenizers: give two or more"):
        th.measure.overlap({"llama-3": th.train_byte_level_bpe(["a"], vocab_size=256)})
