"""Taking apart and putting together changes nothing that was not asked for."""

import gc
import json
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from strategies import MARKED, loaded, one_fast
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)  # fmt: skip

import tokhelpers as th
from tokhelpers.tokenizer.library_encoder import without_truncation
from tokhelpers.tokenizer.merge_rows import merge_ids
from tokhelpers.tokenizer.spec import BYTE_TOKENS, TokenizerSpec


def ab(vocab=("a", "b", "ab"), merges=(("a", "b"),), **options):
    return Tokenizer(models.BPE({token: i for i, token in enumerate(vocab)}, merges, **options))


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3", "qwen", "mistral-nemo"))
def test_reading_and_building_gives_the_same_tokenizer(name):
    tokenizer = loaded(name)
    assert TokenizerSpec.from_tokenizer(tokenizer).to_tokenizer().to_str() == tokenizer.to_str()


def test_every_option_of_the_model_is_kept():
    options = {"unk_token": "b", "fuse_unk": True, "byte_fallback": True, "ignore_merges": True}
    options |= {"dropout": 0.5}
    wordpiece = {"unk_token": "b", "continuing_subword_prefix": "@", "max_input_chars_per_word": 7}
    of_wordpiece = Tokenizer(models.WordPiece({"a": 0, "b": 1}, **wordpiece))
    for tokenizer in (ab(**options), of_wordpiece):
        spec = TokenizerSpec.from_tokenizer(tokenizer, wordpiece=True)
        assert spec.to_tokenizer().to_str() == tokenizer.to_str()
    assert spec.wordpiece and len(spec.merges) == 0
    for given in (of_wordpiece, spec):
        with pytest.raises(ValueError, match="a BPE tokenizer is needed, .* model is WordPiece"):
            TokenizerSpec.from_tokenizer(given)


def same_size(tokenizer):
    """Another model with as many tokens and merges, of which only one is another."""
    tokenizer.model = ab(("a", "b", "ab", "ba"), [("b", "a")]).model


def trained_again(tokenizer):
    tokenizer.train_from_iterator(["bc bc"], trainers.BpeTrainer(vocab_size=4, show_progress=False))


CHANGES = {
    "add_tokens": lambda t: t.add_tokens(["<x>"]),
    "add_special_tokens": lambda t: t.add_special_tokens(["<x>"]),
    "a token becomes special": lambda t: t.add_special_tokens(["ab"]),
    "flags of a token": lambda t: t.add_tokens([AddedToken("ab", lstrip=True)]),
    "model": same_size,
    "model, of the same kind in all": lambda t: setattr(t, "model", old_model()),
    "model, trained again": trained_again,
    "normalizer": lambda t: setattr(t, "normalizer", normalizers.NFC()),
    "pre_tokenizer": lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Whitespace()),
    "inside pre_tokenizer": lambda t: setattr(t.pre_tokenizer, "add_prefix_space", False),
    "post_processor": lambda t: setattr(t, "post_processor", processors.ByteLevel()),
    "decoder": lambda t: setattr(t, "decoder", decoders.ByteLevel()),
    "truncation": lambda t: t.enable_truncation(5),
    "padding": lambda t: t.enable_padding(pad_id=1),
    "ignore_merges": lambda t: setattr(t.model, "ignore_merges", True),
    "dropout": lambda t: setattr(t.model, "dropout", 0.5),
    "dropout of 0": lambda t: setattr(t.model, "dropout", 0.0),
    "unk_token": lambda t: setattr(t.model, "unk_token", "a"),
    "byte_fallback": lambda t: setattr(t.model, "byte_fallback", True),
}


def old_model():
    return ab(("a", "b", "ab", "ba")).model


@pytest.mark.parametrize("first", [None, 0.0, 0.25])
@pytest.mark.parametrize("change", CHANGES)
def test_a_tokenizer_is_read_once_and_again_when_it_was_changed(change, first):
    tokenizer = ab(("a", "b", "ab", "ba"), dropout=first)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.normalizer = normalizers.Sequence([])  # as DeepSeek has it
    before = tokenizer.to_str()
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    assert (
        TokenizerSpec.from_tokenizer(tokenizer) is spec is TokenizerSpec.from_tokenizer(tokenizer)
    )
    assert tokenizer.to_str() == before and tokenizer.model.dropout == first
    CHANGES[change](tokenizer)
    again = TokenizerSpec.from_tokenizer(tokenizer)
    assert again.to_tokenizer().to_str() == tokenizer.to_str()
    assert tokenizer.to_str() == before or again is not spec
    assert TokenizerSpec.from_tokenizer(tokenizer) is again


def test_what_was_read_goes_with_the_tokenizer():
    tokenizer = ab()
    spec = weakref.ref(TokenizerSpec.from_tokenizer(tokenizer))
    assert spec() is not None
    del tokenizer
    gc.collect()
    assert spec() is None


def test_threads_that_read_at_the_same_time_change_nothing():
    tokenizer = ab()
    before = tokenizer.to_str()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: TokenizerSpec.from_tokenizer(tokenizer), range(400)))
    assert {part.pairs()[0] for part in found} == {("a", "b")} and tokenizer.to_str() == before


def test_a_second_evaluation_with_a_specification_is_quick(qwen):
    spec, documents = TokenizerSpec.from_tokenizer(qwen), ["a cat", "another line", "three"]
    th.evaluate(spec, documents)
    took = []
    for _ in range(5):
        began = time.thread_time()
        th.evaluate(spec, documents)
        took.append(time.thread_time() - began)
    assert min(took) <= 0.05


def test_merge_skipping_is_a_copy(llama):
    off = th.with_merge_skipping(llama, False)
    assert llama.model.ignore_merges and not off.model.ignore_merges
    text = " điều"  # no merges lead to its token
    assert llama.encode(text).tokens == ["ĠÄĳiá»ģu"] != off.encode(text).tokens


def test_merges_of_tokens_that_are_not_there():
    with pytest.raises(
        ValueError, match="2 merges name tokens that .* first 'a' [+] 'b', .*: drop"
    ):
        merge_ids({"a": 0, "b": 1, "c": 2, "ac": 3}, [("a", "c"), ("a", "b")] * 2)


@pytest.mark.parametrize("mark", MARKED)
def test_marks_of_words_are_right_or_refused_by_name(mark):
    """`evaluate` and `count_tokens` ask the library; all that changes merges says what is wrong.

    So do the operations of test_contract.py.
    """
    marked, documents = MARKED[mark](), ["low lower", "a lowest low"]
    ids = [e.ids for e in marked.encode_batch(documents, add_special_tokens=False)]
    assert th.evaluate(marked, documents).tokens == sum(map(len, ids)) == 5
    order, extension = ["low"], th.Extension(tokens=["wo"])
    for call in (
        lambda: th.extend(marked, extension),
        lambda: th.prune(marked, order, 1),
        lambda: th.unreachable_tokens(marked),
        lambda: th.reachability(marked),
        lambda: th.explain(marked, token="low"),
        lambda: th.AdaptBPE(marked, ["wo"]),
        lambda: th.to_tiktoken(marked),
    ):
        with pytest.raises(ValueError, match=f"this BPE tokenizer writes {mark}=.* not supported"):
            call()


@pytest.mark.parametrize("mark", MARKED)
def test_marks_of_words_without_an_unknown_token(mark):
    """What would be dropped is refused, also where an added token is beside it; all else is counted."""
    marked = MARKED[mark]()
    assert th.models.encode_texts(marked, ["low lower"]) == [marked.encode("low lower").ids]
    for call in (
        lambda text: th.evaluate(marked, [text]),
        lambda text: th.models.encode_texts(marked, [text]),
        lambda text: th.count_tokens(marked, th.count_pretokens([text], marked)),
    ):
        for text in ("low x", "löw low", "lowx"):
            with pytest.raises(
                ValueError, match="no token for some characters of '.*' and would drop"
            ):
                call(text)
    model = json.loads(marked.to_str())
    model["model"] |= {"unk_token": "a"}
    assert th.evaluate(Tokenizer.from_str(json.dumps(model)), ["low x"]).tokens == 2


@pytest.mark.parametrize("mark", MARKED)
def test_marks_of_words_with_dropout_are_counted_without(mark):
    model = json.loads(MARKED[mark]().to_str())
    model["model"] |= {"dropout": 0.5}
    dropping = Tokenizer.from_str(json.dumps(model))
    for _ in range(5):
        assert th.evaluate(dropping, ["low lower lowest"]).tokens == 3
        assert len(th.models.encode_texts(dropping, ["low lower lowest"])[0]) == 3


def changed(**of_model):
    """A tokenizer whose file was changed by hand: these things of its model replaced."""
    settings = json.loads(ab().to_str())
    settings["model"] |= of_model
    return Tokenizer.from_str(json.dumps(settings))


@pytest.mark.parametrize("merges", [[], ["a b", "b a"]])
def test_two_tokens_with_one_id(merges):
    tokenizer = changed(vocab={"a": 0, "b": 1, "ab": 2, "ba": 2}, merges=merges)
    with pytest.raises(ValueError, match="two tokens have the ID 2, '(ab' and 'ba|ba' and 'ab)'"):
        TokenizerSpec.from_tokenizer(tokenizer)


@pytest.mark.parametrize(
    "use", [TokenizerSpec.from_tokenizer, lambda tokenizer: th.evaluate(tokenizer, ["ab"])]
)
def test_an_id_far_beyond_the_number_of_tokens(use):
    tokenizer = changed(vocab={"a": 0, "b": 1, "ab": 2, "c": 2_147_483_700})
    with pytest.raises(ValueError, match="the largest ID is 2,147,483,700 for 4 tokens"):
        use(tokenizer)


def test_an_undisturbed_tokenizer():
    tokenizer = ab(dropout=1.0)
    tokenizer.add_special_tokens(["<x>"])
    tokenizer.enable_truncation(1)
    tokenizer.enable_padding(length=9)
    tokenizer.encode_special_tokens = True
    before = tokenizer.to_str()
    still = without_truncation(tokenizer)
    assert still.encode("abab").tokens == ["ab", "ab"] and tokenizer.to_str() == before
    assert still.encode_special_tokens and still.encode("<x>").ids == []
    assert without_truncation(still) is still


def test_what_no_merge_uses_or_builds():
    tokenizer = ab(["a", "b", "ab", "?", ""], [], unk_token="?")
    tokenizer.add_special_tokens(["<x>"])
    tokenizer.add_tokens(["ab"])
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    assert spec.unmerged - set(BYTE_TOKENS) == {"?", "<x>", "ab"} and spec.special == {"<x>"}
    assert len(BYTE_TOKENS) == 256 and {"<0x00>", "<0x0A>", "<0xFF>"} <= spec.unmerged
    assert TokenizerSpec.from_tokenizer(Tokenizer(models.BPE())).unmerged == set(BYTE_TOKENS)
    assert not spec.byte_level and spec.alphabet == {"a": 0, "b": 1, "?": 3}


def test_added_tokens_keep_their_ids_and_their_flags():
    """One of the vocabulary, one between its tokens, two behind it; flags are not the default's."""
    tokenizer = ab(["a", "b", "ab", "<y>"])
    tokenizer.add_special_tokens(["<y>", AddedToken("<z>", lstrip=True, special=True)])
    tokenizer.add_tokens([AddedToken("bb", single_word=True, normalized=False)])
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    vocab = spec.vocab | {"ba": 6}
    longer = TokenizerSpec(spec.settings, vocab, merge_ids(vocab, [("b", "a")]))
    for some in (spec, longer):
        made = some.to_tokenizer()
        assert made.get_vocab() == {"<z>": 4, "bb": 5} | some.vocab
        old, new = (json.loads(t.to_str())["added_tokens"] for t in (tokenizer, made))
        assert new == old
    assert made.encode("aba <z>").ids == [0, 6, 4]
    shuffled = {**spec.settings, "added_tokens": spec.settings["added_tokens"][::-1]}
    again = TokenizerSpec(shuffled, spec.vocab, spec.merges).to_tokenizer()
    assert again.to_str() == tokenizer.to_str()


def test_ids_with_holes_below_added_tokens_are_refused():
    tokenizer = ab(["a", "b"], [])
    tokenizer.add_special_tokens(["<x>", "<y>"])
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    added = [{**token, "id": token["id"] + 5} for token in spec.settings["added_tokens"]]
    said = r"2 added .* first '<x>' [(]7 to 2[)]: ids must have no holes"
    with pytest.raises(ValueError, match=said):
        TokenizerSpec(
            {**spec.settings, "added_tokens": added}, spec.vocab, spec.merges
        ).to_tokenizer()
