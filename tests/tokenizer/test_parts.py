"""Taking apart and putting together changes nothing that was not asked for."""

import json

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


def ab(vocab=("a", "b", "ab"), merges=(("a", "b"),), **options):
    return Tokenizer(models.BPE({token: i for i, token in enumerate(vocab)}, merges, **options))


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3", "qwen", "mistral-nemo"))
def test_reading_and_building_gives_the_same_tokenizer(name):
    tokenizer = loaded(name)
    assert build_tokenizer(read_parts(tokenizer)).to_str() == tokenizer.to_str()


def test_every_option_of_the_model_is_kept():
    options = {"unk_token": "b", "fuse_unk": True, "byte_fallback": True, "ignore_merges": True}
    options |= {"dropout": 0.5, "end_of_word_suffix": "</w>"}
    wordpiece = {"unk_token": "b", "continuing_subword_prefix": "@", "max_input_chars_per_word": 7}
    of_wordpiece = Tokenizer(models.WordPiece({"a": 0, "b": 1}, **wordpiece))
    for tokenizer in (ab(**options), of_wordpiece):
        parts = read_parts(tokenizer, wordpiece=True)
        assert build_tokenizer(parts).to_str() == tokenizer.to_str()
    assert parts.wordpiece and len(parts.merges) == 0
    for given in (of_wordpiece, parts):
        with pytest.raises(ValueError, match="a BPE tokenizer is needed, .* model is WordPiece"):
            read_parts(given)


def test_reading_follows_a_tokenizer_that_was_changed():
    tokenizer = ab()
    assert read_parts(tokenizer).merge_skipping is False
    tokenizer.model.ignore_merges = True
    assert read_parts(tokenizer).merge_skipping is True
    tokenizer.add_special_tokens(["<x>"])
    assert read_parts(tokenizer).special == {"<x>"} and read_parts(tokenizer).next_id == 4


def test_merge_skipping_is_a_copy(llama):
    off = th.with_merge_skipping(llama, False)
    assert llama.model.ignore_merges and not off.model.ignore_merges
    text = " điều"  # no merges lead to its token
    assert llama.encode(text).tokens == ["ĠÄĳiá»ģu"] != off.encode(text).tokens


def test_copies_share_the_index_of_merges(llama):
    parts = read_parts(llama)
    index = merges_of(parts)
    assert merges_of(parts_with_skipping(parts, not parts.merge_skipping)) is index
    assert merges_of(parts_with_tokens(parts, ["new"])) is index


def test_the_right_part_loses_its_prefix():
    tokenizer = ab(["a", "##b", "ab"], [("a", "##b")], continuing_subword_prefix="##")
    parts = read_parts(tokenizer)
    assert parts.merges.tolist() == [[0, 1, 2]] and parts.pairs() == [("a", "##b")]
    assert build_tokenizer(parts).to_str() == tokenizer.to_str()
    said = "2 merges name tokens that .* first 'a' [+] '##b', .*: drop"
    with pytest.raises(ValueError, match=said):
        vocab = {"a": 0, "##b": 1, "##c": 2, "ac": 3}
        merge_ids(vocab, [("a", "##c"), ("a", "##b")] * 2, prefix="##")


def test_what_no_merge_uses_or_builds():
    tokenizer = ab(["a", "b", "ab", "?", ""], [], unk_token="?")
    tokenizer.add_special_tokens(["<x>"])
    tokenizer.add_tokens(["ab"])
    parts = read_parts(tokenizer)
    assert parts.apart - set(BYTE_TOKENS) == {"?", "<x>", "ab"} and parts.special == {"<x>"}
    assert len(BYTE_TOKENS) == 256 and {"<0x00>", "<0x0A>", "<0xFF>"} <= parts.apart
    assert read_parts(Tokenizer(models.BPE())).apart == set(BYTE_TOKENS)
    assert not parts.byte_level and parts.alphabet == {"a": 0, "b": 1, "?": 3}


def test_added_tokens_keep_their_ids_and_their_flags():
    """One of the vocabulary, one between its tokens, two behind it; flags are not the default's."""
    tokenizer = ab(["a", "b", "ab", "<y>"])
    tokenizer.add_special_tokens(["<y>", AddedToken("<z>", lstrip=True, special=True)])
    tokenizer.add_tokens([AddedToken("bb", single_word=True, normalized=False)])
    parts = read_parts(tokenizer)
    vocab = parts.vocab | {"ba": 6}
    longer = Parts(parts.settings, vocab, merge_ids(vocab, [("b", "a")]))
    for some in (parts, longer):
        made = build_tokenizer(some)
        assert made.get_vocab() == {"<z>": 4, "bb": 5} | some.vocab
        old, new = (json.loads(t.to_str())["added_tokens"] for t in (tokenizer, made))
        assert new == old
    assert made.encode("aba <z>").ids == [0, 6, 4]
    shuffled = {**parts.settings, "added_tokens": parts.settings["added_tokens"][::-1]}
    again = build_tokenizer(Parts(shuffled, parts.vocab, parts.merges))
    assert again.to_str() == tokenizer.to_str()


def test_ids_with_holes_below_added_tokens_are_refused():
    tokenizer = ab(["a", "b"], [])
    tokenizer.add_special_tokens(["<x>", "<y>"])
    parts = read_parts(tokenizer)
    added = [{**token, "id": token["id"] + 5} for token in parts.settings["added_tokens"]]
    said = r"2 added .* first '<x>' [(]7 to 2[)]: ids must have no holes"
    with pytest.raises(ValueError, match=said):
        build_tokenizer(Parts({**parts.settings, "added_tokens": added}, parts.vocab, parts.merges))
