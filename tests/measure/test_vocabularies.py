"""Vocabularies beside each other: against sets of bytes, and facts known of the vendors' lists."""

import pytest
from tokenizers import Tokenizer, models

import tokhelpers as th


def vendors_bytes(name):
    parts = th.read_parts(th.load_tokenizer(name))
    added = {t["content"] for t in parts.settings["added_tokens"]}
    strings = [t for t in sorted(parts.vocab, key=parts.vocab.get) if t not in added]
    byte = {character: i for i, character in enumerate(th.tokenizer.byte_alphabet())}
    return [bytes(map(byte.get, token)) for token in strings]


@pytest.mark.long
def test_llama_3_begins_with_all_of_gpt_4():
    named = {name: th.load_tokenizer(name) for name in ("gpt-4", "llama-3", "qwen")}
    lists = {name: vendors_bytes(name) for name in named}
    pairs = th.measure.overlap(named).set_index(["first", "second"])
    for (first, second), row in pairs.iterrows():
        shared = len(set(lists[first]) & set(lists[second]))
        assert row.shared == shared and row.only_first == len(lists[first]) - shared
        n = int(row.common_prefix)
        assert (
            lists[first][:n] == lists[second][:n]
            and lists[first][: n + 1] != lists[second][: n + 1]
        )
    assert pairs.loc[("gpt-4", "llama-3")].common_prefix == 100_256
    assert pairs.loc[("gpt-4", "qwen")].shared == 99_156
    table = th.compare_vocabularies(named["gpt-4"], named["llama-3"])
    for _, part in table.groupby("by"):
        assert part[["shared", "only_first", "only_second", "common_prefix"]].sum().tolist() == [
            100_256, 0, 27_744, 100_256
        ]  # fmt: skip


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
    with pytest.raises(ValueError, match="two or more tokenizers, got 1"):
        th.measure.overlap({"llama-3": th.train_byte_level_bpe(["a"], vocab_size=256)})
    with pytest.raises(TypeError, match="a tokenizer is needed, got str"):
        th.compare_vocabularies("llama-3", "qwen")
