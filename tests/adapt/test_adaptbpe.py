"""AdaptBPE against the textbook's Algorithm 1 and the library; what selects its tokens."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from strategies import loaded, one_fast
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

import tokhelpers as th
from tokhelpers import textbook as tb
from tokhelpers.adapt.adaptbpe import adapt_bpe
from tokhelpers.adapt.selection import avocado, count_words, fragment_score, medvoc, oov_share
from tokhelpers.tokenizer.parts import read_parts
from tokhelpers.tokenizer.token_bytes import token_strings


def byte_level(V, M):
    tokenizer = Tokenizer(models.BPE(V, M))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


letters = st.sampled_from(("ab", "abc", "a-b", "aé-", "añß漢", "ab🙂"))
words = letters.flatmap(lambda a: st.text(a, min_size=1, max_size=14))
tokens = letters.flatmap(lambda a: st.text(a, min_size=1, max_size=6))


@given(st.lists(words, min_size=1, max_size=6), st.lists(tokens, max_size=6), st.integers(0, 12))
@example(["a-b-a", "--a-"], ["-a", "a-", "-"], 3)
@example(["aaaaaaa"], ["aa", "aaa"], 2)
@example(["ababab"], ["aba", "bab", "ab"], 0)
@example(["abcdef"], ["abc", "cdef", "ab"], 0)  # abc gives way to the longer match: ab is left
def test_equals_the_textbook(found, added, merges):
    """Random words and tokens; some of the tokens are in the vocabulary already."""
    V, M = tb.train_byte_level_bpe(found, 256 + merges)
    added = list(dict.fromkeys(token_strings(added)))
    encoder = adapt_bpe(byte_level(V, M), added)
    V, M = encoder.parts.vocab, encoder.parts.pairs()
    stored = token_strings(found)
    ids, offsets = encoder.segment(stored)
    for word, start, end in zip(stored, offsets, offsets[1:], strict=False):
        assert ids[start:end].tolist() == [V[t] for t in tb.tokenize_adapt_bpe(word, V, M, added)]


@given(st.lists(words, min_size=1, max_size=4), st.lists(tokens, max_size=5), st.text(max_size=20))
def test_text_is_cut_as_the_tokenizer_cuts_it(found, added, text):
    V, M = tb.train_byte_level_bpe(found, 262)
    added = list(dict.fromkeys(token_strings(added)))
    tokenizer = byte_level(V, M)
    encoder = adapt_bpe(tokenizer, added)
    text = text + " ".join(found)
    stored = [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
    V, M = encoder.parts.vocab, encoder.parts.pairs()
    assert encoder.encode(text) == tb.tokenize_adapt_bpe(stored, V, M, added)
    assert encoder.tokenizer.decode(encoder.ids(text)) == text


TEXTS = [
    "Familial hypercholesterolemia; beta-blockers (12345 mg).\n\n\tÜber naïve 漢字 🙂 e\u0301",
    "<s>a</s> <|im_start|>user\nhi<|im_end|> <|begin_of_text|>x<|eot_id|>  [INST] a [/INST]",
    "",
    " ",
    "▁a  b ▁",
    "Ġ\u0120\x00\u200b",
]


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3", "qwen", "mistral-nemo"))
def test_nothing_added_is_plain_bpe(name, finnish):
    tokenizer = loaded(name)
    encoder, plain = adapt_bpe(tokenizer, []), th.with_merge_skipping(tokenizer, False)
    texts = TEXTS + finnish[:500]
    expected = plain.encode_batch(texts, add_special_tokens=False)
    assert encoder.ids_batch(texts) == [encoding.ids for encoding in expected]
    for text, encoding in zip(TEXTS, expected, strict=False):
        assert encoder.encode(text) == encoding.tokens


@given(st.text(st.sampled_from("ab <x>é\ne\u0301"), max_size=30))
def test_special_and_added_tokens_are_found_as_the_library_finds_them(text):
    tokenizer = byte_level(*tb.train_byte_level_bpe(["ab ab xa"], 259))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([AddedToken("<x>", normalized=False, special=True, lstrip=True)])
    tokenizer.add_tokens([AddedToken("ab", single_word=True), AddedToken("é ", rstrip=True)])
    for find in (True, False):
        tokenizer.encode_special_tokens = not find
        expected = tokenizer.encode(text, add_special_tokens=False)
        assert adapt_bpe(tokenizer, []).ids(text) == expected.ids
        names = [tokenizer.id_to_token(i) for i in expected.ids]
        assert adapt_bpe(tokenizer, []).encode(text) == names


def test_hypercholesterolemia(llama):
    """Figure 1 of the paper: merges learned early keep plain BPE from the added token."""
    added = ["cholesterol", "emia"]
    added = [token for token in added if token not in read_parts(llama).vocab]
    assert "cholesterol" in added
    word = "hypercholesterolemia"
    appended = th.extend(llama, th.Extension(added), how="regenerate")
    assert "cholesterol" not in appended.encode(word, add_special_tokens=False).tokens
    assert adapt_bpe(llama, added).encode(word) == ["hyper", "cholesterol", "emia"]
    assert adapt_bpe(llama, ["Ġ" + word]).encode("a " + word) == ["a", "Ġ" + word]


def test_ids_are_those_of_the_extended_tokenizer(qwen):
    added = ["Ġhypercholesterolemia", "olemia", "ÃŃmia"]
    encoder = adapt_bpe(qwen, added)
    expected = th.extend(qwen, th.Extension(added), how="regenerate")
    assert encoder.tokenizer.to_str() == expected.to_str()
    text = "a hypercholesterolemia, colemia ,uñímia"
    assert expected.decode(encoder.ids(text)) == text
    assert [expected.id_to_token(i) for i in encoder.ids(text)] == encoder.encode(text)
    assert set(added) <= set(encoder.encode(text))
    again = adapt_bpe(encoder.tokenizer, added)  # as after saving and loading
    assert again.ids(text) == encoder.ids(text)
    assert adapt_bpe(qwen, th.Extension(added)).ids(text) == encoder.ids(text)
    counts = encoder.token_counts(th.count_pretokens([text] * 2, qwen))
    assert counts.tolist() == np.bincount(2 * encoder.ids(text), minlength=len(counts)).tolist()


def test_sentencepiece_style(mistral):
    encoder = adapt_bpe(mistral, ["cholesterol", "▁hyper漢", "漢🙂"])
    assert encoder.encode("hypercholesterol") == ["▁hyper", "cholesterol"]
    assert encoder.encode("a hyper漢漢🙂🧿") == ["▁a", "▁hyper漢", "漢🙂", *(
        f"<0x{byte:02X}>" for byte in "🧿".encode())]  # fmt: skip
    with pytest.raises(ValueError, match="no pre-tokenizer.*cross spaces"):
        adapt_bpe(mistral, ["▁high▁fat"])


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3"))
def test_evaluate_measures_the_encoder(name, finnish):
    """Also where an added token that is not special cuts the raw text."""
    base, texts = loaded(name), finnish[:100]
    added = th.continue_bpe(base, texts, 50).tokens
    cutting = Tokenizer.from_str(base.to_str())
    cutting.add_tokens([AddedToken("ei", single_word=True, normalized=False)])
    for tokenizer in (base, cutting):
        encoder = adapt_bpe(tokenizer, added)
        ids = encoder.ids_batch(texts)
        found = th.evaluate(encoder, texts, added=added)
        assert found.tokens == sum(map(len, ids))
        used = {encoder.parts.tokens.get(i) for i in set().union(*ids)}
        assert found.unused_added == np.mean([token not in used for token in added])
    with pytest.raises(ValueError, match="give documents, not counts"):
        th.evaluate(encoder, th.count_pretokens(texts, cutting))


@pytest.mark.long
def test_each_call_and_thread_gives_the_same(llama, finnish):
    added = th.continue_bpe(llama, finnish[:200], 300)
    texts, encoder = finnish[:400], adapt_bpe(llama, added)
    expected = encoder.ids_batch(texts)
    assert [adapt_bpe(llama, added).ids(text) for text in texts[:3]] == expected[:3]
    encoder._known = {}
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(encoder.ids, texts[::-1])) == expected[::-1]


@pytest.mark.parametrize("piece", ["ab", "é", " ", "'s"])
def test_repeats(llama, piece):
    """Ten thousand repeats, with tokens that overlap in them: in time that grows with the length."""
    stored, vocab = token_strings([piece])[0], read_parts(llama).vocab
    added = [stored * n for n in range(2, 40) if stored * n not in vocab]
    encoder, text = adapt_bpe(llama, added), piece * 10_000
    encoder.ids("a")  # compiled
    ids = encoder.ids(text)  # in the square of the length it were hours
    assert "".join(map(encoder.parts.tokens.get, ids)) == stored * 10_000


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("abc", "give a list of tokens"),
        ([1], "the token 1 is int, not str: give strings"),
        ([""], "an empty token: leave it out"),
        (["qx", "qx"], "'qx' is given more than once"),
        ([" qx"], "write it as 'Ġqx'"),
        (["<|eot_id|>"], "special or added token"),
    ],
)
def test_impossible_tokens(llama, added, message):
    with pytest.raises((ValueError, TypeError), match=message):
        adapt_bpe(llama, added)


def test_impossible_input(llama, mistral):
    with pytest.raises(ValueError, match="write it as '▁qx'"):
        adapt_bpe(mistral, [" qx"])
    with pytest.raises(ValueError, match="a BPE tokenizer is needed"):
        adapt_bpe(Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")), [])
    with pytest.raises(TypeError, match="a text is a string, got list: see ids_batch for many"):
        adapt_bpe(llama, []).ids(["a"])
    with pytest.raises(TypeError, match="texts is one string: put it in a list, or use ids"):
        adapt_bpe(llama, []).ids_batch("a")


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
    split = np.array(sizes) > 1
    assert oov_share(tokenizer, [text]) == pytest.approx(split.mean(), rel=1e-12)
    assert oov_share(tokenizer, [text, "and", "and", "...", ""]) == 0
    assert oov_share(tokenizer, {text: 3, "and": 2}) == pytest.approx(split.mean(), rel=1e-12)
    plain = th.with_merge_skipping(tokenizer, False)
    assert fragment_score(adapt_bpe(tokenizer, []), [text]) == fragment_score(plain, [text])


@pytest.mark.parametrize("measure", [fragment_score, oov_share])
def test_impossible_corpora(measure, llama):
    for corpus, error, message in (
        ("text", TypeError, "put it in a list"),
        (th.count_pretokens(["a"], llama), TypeError, "give the documents"),
        ([], ValueError, "has no words"),
        (["...", ""], ValueError, "has no words"),
        ([None], TypeError, "document 1 is NoneType"),
        ({"a": -1}, ValueError, "the document 'a' has the count -1: give whole numbers"),
    ):
        with pytest.raises(error, match=message):
            measure(llama, corpus)
    with pytest.raises(TypeError, match="a tokenizer is needed, got"):
        measure("llama-3", ["a"])


# --- AVocaDo and MEDVOC --------------------------------------------------------------------------
@pytest.fixture(scope="module")
def medical():
    return list(th.load_corpus("hpo", chars=300_000))


@pytest.mark.parametrize("name", one_fast("mistral-v1", "llama-3"))
@pytest.mark.parametrize("how", ["append", "adapt"])
def test_avocado_stops_at_the_threshold(name, how, medical):
    tokenizer = loaded(name)
    extension, table = avocado(tokenizer, medical, threshold=2.6, step=100, how=how)
    scores = table.fragment_score.to_numpy()
    assert table.added.tolist() == list(range(0, len(extension.tokens) + 1, 100))
    assert len(scores) > 1 and scores[-1] <= 2.6 < scores[:-1].min()
    space = "" if name == "mistral-v1" else " "
    words = count_words(medical)
    hard = {
        w: n for w, n in words.items()
        if len(tokenizer.encode(space + w, add_special_tokens=False).ids) > 2
    }  # fmt: skip
    for row, k in ((0, 0), (-1, len(extension.tokens))):
        part = th.Extension(extension.tokens[:k], extension.merges)
        new = (
            adapt_bpe(tokenizer, part) if how == "adapt" else th.extend(tokenizer, part, how=how)
        )  # the score as the library's encoder has it
        if how == "append" or k:
            assert fragment_score(new, hard) == pytest.approx(scores[row], rel=1e-12)
    assert not set(extension.tokens) & read_parts(tokenizer).vocab.keys()
    assert not any("<0x" in token for token in extension.tokens)


def test_avocado_says_when_it_cannot(llama):
    with pytest.warns(UserWarning, match="after all 1 tokens, above the threshold 1.0"):
        extension, table = avocado(llama, ["hypercholesterolemia"], threshold=1.0, max_tokens=1)
    assert len(extension.tokens) == 1 and table.added.tolist() == [0, 1]
    extension, table = avocado(llama, ["the patient"])
    assert extension.tokens == [] and table.fragment_score.isna().all()
    for bad in ({"step": 0}, {"threshold": 0.5}, {"max_tokens": 0}):
        [(name, value)] = bad.items()
        with pytest.raises(ValueError, match=f"{name}={value}.*: give numbers from 1 on"):
            avocado(llama, ["a"], **bad)
    with pytest.raises(ValueError, match="use adapt, append"):
        avocado(llama, ["a"], how="else")


@pytest.mark.long
def test_medvoc_takes_the_best_of_all_sizes(llama, medical):
    corpus, target = medical[:600], medical[600:700]
    options = {"sizes": [0, 100, 300], "target_sizes": [0, 50, 100]}
    extension, table = medvoc(llama, corpus, target, **options)
    assert len(table) == 9 and table.chosen.sum() == 1
    chosen = table[table.chosen].iloc[0]
    assert chosen.fragment_score == table.fragment_score.min()
    assert chosen.added == len(extension.tokens) == len(set(extension.tokens))
    new = th.extend(llama, extension)
    assert fragment_score(new, target) == pytest.approx(chosen.fragment_score, rel=1e-12)
    assert fragment_score(llama, target) == pytest.approx(table.fragment_score[0], rel=1e-12)


def test_medvoc_keeps_to_the_terms(llama):
    corpus = ["hypercholesterolemia trzszczyn"] * 3
    extension, _ = medvoc(llama, corpus, corpus, terms=["Hypercholesterolemia"])
    assert extension.tokens[-1] == "Ġhypercholesterolemia"
    assert not any("zcz" in token for token in extension.tokens)
    with pytest.raises(ValueError, match="numbers from 0 on"):
        medvoc(llama, corpus, corpus, sizes=[])
    extension, table = medvoc(llama, corpus, corpus, terms=[])
    assert extension.tokens == [] and table.added.max() == 0
