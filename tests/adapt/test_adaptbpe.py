"""AdaptBPE against the textbook's Algorithm 1 and the library; what selects its tokens."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from strategies import loaded, one_fast
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

import tokhelpers as th
from tokhelpers import textbook as tb
from tokhelpers.adapt import adaptbpe
from tokhelpers.adapt.adaptbpe import AdaptBPE
from tokhelpers.measure.quality import fragment_score
from tokhelpers.tokenizer.token_bytes import token_strings


def cut_at_spaces(V, M):
    """A byte-level tokenizer that cuts text before each space."""
    tokenizer = Tokenizer(models.BPE(V, M))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(" ", "merged_with_next"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


letters = st.sampled_from(("ab", "abc", "a-b", "aé-", "añß漢", "ab🙂"))
words = letters.flatmap(lambda a: st.text(a, min_size=1, max_size=14))
tokens = letters.flatmap(lambda a: st.text(a + " ", min_size=1, max_size=6))


@pytest.mark.filterwarnings("ignore")  # of tokens that are always split
@given(st.lists(words | st.text(), min_size=1), st.lists(tokens, max_size=6), st.integers(0, 12))
@example(["a-b-a", "--a-"], ["-a", "a-", "-"], 3)
@example(["aaaaaaa"], ["aa", "aaa"], 2)
@example(["ababab"], ["aba", "bab", "ab"], 0)
@example(["abcdef"], ["abc", "cdef", "ab"], 0)  # abc gives way to the longer match: ab is left
def test_equals_the_textbook(found, added, merges):
    """Of random words; some of the tokens are in the vocabulary already. Ids are those of extend."""
    tokenizer = cut_at_spaces(*tb.train_byte_level_bpe(["ab", *found], 256 + merges))
    text, added = " ".join(found), list(dict.fromkeys(token_strings(added)))
    encoder = AdaptBPE(tokenizer, added)
    V, M = encoder.spec.vocab, encoder.spec.pairs()
    pieces = [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
    expected = tb.tokenize_adapt_bpe(pieces, V, M, added)
    assert encoder.encode(text) == expected
    again = AdaptBPE(encoder.tokenizer, th.Extension(added))  # as after saving and loading
    assert again.ids(text) == encoder.ids(text) == [V[token] for token in expected]
    assert encoder.tokenizer.decode(encoder.ids(text)) == text
    new = [token for token in added if token not in tokenizer.get_vocab()]
    longer = th.extend(tokenizer, th.Extension(new), how="regenerate")
    assert encoder.tokenizer.to_str() == longer.to_str()
    if text:
        counts = encoder.count_tokens(th.count_pretokens([text] * 2, tokenizer))
        assert counts.tolist() == np.bincount(2 * encoder.ids(text), minlength=len(V)).tolist()


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3", "qwen", "mistral-nemo"))
def test_nothing_added_is_plain_bpe(name, finnish):
    tokenizer = loaded(name)
    encoder, plain = AdaptBPE(tokenizer, []), th.with_merge_skipping(tokenizer, False)
    texts = ["<s>a</s> <|im_start|>user\nhi<|im_end|>x<|eot_id|>  [INST] a", "", " ", "▁a  b ▁\0"]
    texts += finnish[:500]
    expected = plain.encode_batch(texts, add_special_tokens=False)
    assert encoder.ids_batch(texts) == [encoding.ids for encoding in expected]
    assert encoder.encode(texts[0]) == expected[0].tokens


@given(st.text(st.sampled_from("ab <x>é\ne\u0301"), max_size=30))
def test_special_and_added_tokens_are_found_as_the_library_finds_them(text):
    tokenizer = cut_at_spaces(*tb.train_byte_level_bpe(["ab ab xa"], 259))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([AddedToken("<x>", normalized=False, special=True, lstrip=True)])
    tokenizer.add_tokens([AddedToken("ab", single_word=True), AddedToken("é ", rstrip=True)])
    for find in (True, False):
        tokenizer.encode_special_tokens = not find
        expected = tokenizer.encode(text, add_special_tokens=False)
        assert AdaptBPE(tokenizer, []).ids(text) == expected.ids
        names = [tokenizer.id_to_token(i) for i in expected.ids]
        assert AdaptBPE(tokenizer, []).encode(text) == names


def test_sentencepiece_style(mistral):
    encoder = AdaptBPE(mistral, ["cholesterol", "▁hyper漢", "漢🙂"])
    assert encoder.encode("hypercholesterol") == ["▁hyper", "cholesterol"]
    assert encoder.encode("a hyper漢漢🙂🧿") == ["▁a", "▁hyper漢", "漢🙂", *(
        f"<0x{byte:02X}>" for byte in "🧿".encode())]  # fmt: skip


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3"))
def test_evaluate_measures_the_encoder(name, finnish):
    """Also where an added token that is not special cuts the raw text."""
    base, texts = loaded(name), finnish[:100]
    added = th.continue_bpe(base, texts, 50).tokens
    cutting = Tokenizer.from_str(base.to_str())
    cutting.add_tokens([AddedToken("ei", single_word=True, normalized=False)])
    for tokenizer in (base, cutting):
        encoder = AdaptBPE(tokenizer, added)
        ids = encoder.ids_batch(texts)
        found = th.evaluate(encoder, texts, added=added)
        assert found.tokens == sum(map(len, ids))
        used = {encoder.spec.tokens.get(i) for i in set().union(*ids)}
        assert found.unused_added == np.mean([token not in used for token in added])
    with pytest.raises(ValueError, match="give documents, not counts"):
        th.evaluate(encoder, th.count_pretokens(texts, cutting))


def test_threads_do_not_disturb_each_other(mistral, finnish, monkeypatch):
    """Not even while one of them forgets the words that were remembered."""
    monkeypatch.setattr(adaptbpe, "CACHE_SIZE", 100)
    texts, encoder = finnish[:400], AdaptBPE(mistral, ["▁myyjä", "kylä"])
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(encoder.ids, texts)) == encoder.ids_batch(texts)


@pytest.mark.parametrize("piece", ["ab", "é", " "])
def test_ten_thousand_repeats_with_tokens_that_overlap_in_them(llama, piece):
    stored, vocab = token_strings([piece])[0], llama.get_vocab()
    encoder = AdaptBPE(llama, [stored * n for n in range(2, 40) if stored * n not in vocab])
    ids = encoder.ids(piece * 10_000)  # in the square of the length it were hours
    assert "".join(map(encoder.spec.tokens.get, ids)) == stored * 10_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda llama: AdaptBPE(llama, "abc"), "give a list of tokens"),
        (lambda llama: AdaptBPE(llama, [1]), "the token 1 is int, not str: give strings"),
        (lambda llama: AdaptBPE(llama, ["qx", "qx"]), "'qx' is given more than once"),
        (lambda llama: AdaptBPE(llama, ["<|eot_id|>"]), "special or added token"),
        (lambda llama: AdaptBPE(loaded("mistral-v1"), [" qx"]), "write it as '▁qx'"),
        (lambda llama: AdaptBPE(loaded("mistral-v1"), ["▁a▁b"]), "no pre-tokenizer.*cross spaces"),
        (lambda llama: AdaptBPE(llama, []).ids(["a"]), "got list: see ids_batch for many"),
        (lambda llama: AdaptBPE(llama, []).ids_batch("a"), "put it in a list, or use ids"),
    ],
)
def test_impossible_input(llama, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(llama)


# --- measures ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3", "mistral-nemo"))
def test_fragment_score_by_definition(name):
    """Words one by one through the library; for SentencePiece the space comes from the tokenizer."""
    tokenizer = loaded(name)
    words = ["hypercholesterolemia", "and", "cholesterol", "in", "12", "naïve"]
    words += ["patients", "and", "beta", "blockers"]
    text = "hypercholesterolemia and cholesterol (in 12 naïve patients) and beta-blockers."
    space = "" if name == "mistral-v1" else " "
    sizes = [len(tokenizer.encode(space + w, add_special_tokens=False).ids) for w in words]
    assert fragment_score(tokenizer, [text]) == pytest.approx(np.mean(sizes), rel=1e-12)
    assert fragment_score(tokenizer, {text: 3, "!": 1}) == fragment_score(tokenizer, [text])
    assert th.measure.word_lengths(tokenizer, words).tolist() == sizes
    plain = th.with_merge_skipping(tokenizer, False)
    assert fragment_score(AdaptBPE(tokenizer, []), [text]) == fragment_score(plain, [text])


def test_impossible_corpora(llama):
    for corpus, message in (
        ("text", "a single string: pass"),
        (th.count_pretokens(["a"], llama), "pass documents"),
        (["...", ""], "has no words"),
        ([None], "missing value at index 0"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            fragment_score(llama, corpus)
