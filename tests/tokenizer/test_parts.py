"""Taking apart and putting together changes nothing that was not asked for."""

import json
import pickle

import pytest
from strategies import loaded, one_fast
from tokenizers import AddedToken, Tokenizer, models

import tokhelpers as th
from tokhelpers.tokenizer.parts import (
    BYTE_TOKENS,
    Parts,
    build_tokenizer,
    merge_ids,
    parts_with_skipping,
    parts_with_tokens,
    read_parts,
)
from tokhelpers.tokenizer.segmentation import merges_of


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3", "qwen", "mistral-nemo"))
def test_reading_and_building_gives_the_same_tokenizer(name, finnish):
    tokenizer = loaded(name)
    again = build_tokenizer(read_parts(tokenizer))
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
    assert read_parts(tokenizer).merge_skipping is False
    tokenizer.model.ignore_merges = True
    assert read_parts(tokenizer).merge_skipping is True
    tokenizer.add_special_tokens(["<x>"])
    assert read_parts(tokenizer).special == {"<x>"} and read_parts(tokenizer).next_id == 4


def test_merge_skipping_is_a_copy_and_survives_saving(llama):
    off = th.with_merge_skipping(llama, False)
    assert llama.model.ignore_merges and not off.model.ignore_merges
    assert not Tokenizer.from_str(off.to_str()).model.ignore_merges
    assert not pickle.loads(pickle.dumps(off)).model.ignore_merges
    [hidden] = [t for t in th.unreachable(llama) if t == "ĠÄĳiá»ģu"]
    text = " điều"
    assert llama.encode(text).tokens == [hidden] != off.encode(text).tokens


def test_copies_share_the_index_of_merges(llama):
    parts = read_parts(llama)
    index = merges_of(parts)
    assert merges_of(parts_with_skipping(parts, not parts.merge_skipping)) is index
    assert merges_of(parts_with_tokens(parts, ["new"])) is index


def test_wordpiece_is_read_where_it_is_asked_for():
    tokenizer = th.train_wordpiece(["sun sun flow flows"], vocab_size=15, special_tokens=["[PAD]"])
    parts = read_parts(tokenizer, wordpiece=True)
    assert parts.wordpiece and len(parts.merges) == 0
    assert build_tokenizer(parts).to_str() == tokenizer.to_str()
    with pytest.raises(
        ValueError, match="a BPE tokenizer is needed, this one's model is WordPiece"
    ):
        read_parts(tokenizer)
    with pytest.raises(ValueError, match="a BPE tokenizer is needed"):
        read_parts(parts)


def test_the_right_part_loses_its_prefix():
    options = {"continuing_subword_prefix": "##"}
    tokenizer = Tokenizer(models.BPE({"a": 0, "##b": 1, "ab": 2}, [("a", "##b")], **options))
    parts = read_parts(tokenizer)
    assert parts.merges.tolist() == [[0, 1, 2]] and parts.pairs() == [("a", "##b")]
    assert build_tokenizer(parts).to_str() == tokenizer.to_str()
    with pytest.raises(
        ValueError, match="2 merges name tokens that .* first 'a' [+] '##b', .*: drop"
    ):
        merge_ids(
            {"a": 0, "##b": 1, "##c": 2, "ac": 3}, [("a", "##c"), ("a", "##b")] * 2, prefix="##"
        )


def test_every_option_of_the_model_is_kept():
    options = {"unk_token": "b", "fuse_unk": True, "byte_fallback": True, "ignore_merges": True}
    options |= {"dropout": 0.5, "end_of_word_suffix": "</w>"}
    vocab = {"a": 0, "b": 1, "ab": 2}
    wordpiece = {"unk_token": "b", "continuing_subword_prefix": "@", "max_input_chars_per_word": 7}
    for model in (models.BPE(vocab, [("a", "b")], **options), models.WordPiece(vocab, **wordpiece)):
        tokenizer = Tokenizer(model)
        assert build_tokenizer(read_parts(tokenizer, wordpiece=True)).to_str() == tokenizer.to_str()


def test_what_no_merge_uses_or_builds():
    vocab = {"a": 0, "b": 1, "ab": 2, "?": 3, "": 4}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="?"))
    tokenizer.add_special_tokens(["<x>"])
    tokenizer.add_tokens(["ab"])
    parts = read_parts(tokenizer)
    assert parts.apart - set(BYTE_TOKENS) == {"?", "<x>", "ab"} and parts.special == {"<x>"}
    assert len(BYTE_TOKENS) == 256 and {"<0x00>", "<0x0A>", "<0xFF>"} <= parts.apart
    assert read_parts(Tokenizer(models.BPE())).apart == set(BYTE_TOKENS)
    assert (
        not parts.byte_level and not parts.wordpiece and parts.alphabet == {"a": 0, "b": 1, "?": 3}
    )


def test_added_tokens_keep_their_ids_and_their_flags():
    """One of the vocabulary, one between its tokens, two behind it; flags are not the default's."""
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "<y>": 3}, [("a", "b")]))
    tokenizer.add_special_tokens(["<y>", AddedToken("<z>", lstrip=True, special=True)])
    tokenizer.add_tokens([AddedToken("bb", single_word=True, normalized=False)])
    parts = read_parts(tokenizer)
    longer = Parts(
        parts.settings, parts.vocab | {"ba": 6}, merge_ids(parts.vocab | {"ba": 6}, [("b", "a")])
    )
    for made, vocab in (
        (build_tokenizer(parts), parts.vocab),
        (build_tokenizer(longer), longer.vocab),
    ):
        assert made.get_vocab() == {"<z>": 4, "bb": 5} | vocab
        old, new = (json.loads(t.to_str())["added_tokens"] for t in (tokenizer, made))
        assert new == old
    assert build_tokenizer(longer).encode("aba <z>").ids == [0, 6, 4]
    shuffled = {**parts.settings, "added_tokens": parts.settings["added_tokens"][::-1]}
    assert (
        build_tokenizer(Parts(shuffled, parts.vocab, parts.merges)).to_str() == tokenizer.to_str()
    )


def test_ids_with_holes_below_added_tokens_are_refused():
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.add_special_tokens(["<x>", "<y>"])
    parts = read_parts(tokenizer)
    added = [{**token, "id": token["id"] + 5} for token in parts.settings["added_tokens"]]
    with pytest.raises(
        ValueError, match=r"2 added .* first '<x>' [(]7 to 2[)]: ids must have no holes"
    ):
        build_tokenizer(Parts({**parts.settings, "added_tokens": added}, parts.vocab, parts.merges))
