"""Reachability against the library's own encoder, and on toys made for each category."""

import json
from itertools import product

import numpy as np
import pytest
import regex
from hypothesis import given, strategies as st
from strategies import examples, loaded, one_fast
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

import tokhelpers as th
from tokhelpers.measure.reachability import BEFORE, BEHIND, LETTER, PLACES, Search, reachability
from tokhelpers.tokenizer.patterns import GPT_2, LLAMA_3, QWEN, TEKKEN
from tokhelpers.tokenizer.token_bytes import token_strings


def encoded(tokenizer, texts):
    return [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]


@pytest.fixture(scope="module", params=one_fast("mistral-v1", "llama-3", "qwen", "mistral-nemo"))
def real(request):
    tokenizer = loaded(request.param)
    return tokenizer, reachability(tokenizer)


def test_every_token_claimed_is_produced(real):
    """All examples, by the library; the notebooks have the counts of each category."""
    tokenizer, table = real
    assert table.token[~table.self_test.fillna(True)].tolist() == th.unreachable_tokens(tokenizer)
    assert [tokenizer.id_to_token(i) for i in table.index] == table.token.tolist()
    assert len(table) == tokenizer.get_vocab_size() and table.index.is_monotonic_increasing
    shown = table[table.example.notna()]
    for i, ids in zip(shown.index, encoded(tokenizer, shown.example.tolist()), strict=True):
        assert i in ids
    claimed = table.category.isin(["by merges", "only by merge skipping"])
    assert not claimed[table.example.isna()].any()


def test_no_token_claimed_never_is_produced(real):
    tokenizer, table = real
    never = table[table.category.str.startswith("never")].iloc[::5]
    for before, behind in product(BEFORE, BEHIND):
        texts = [before + text + behind for text in never.text]
        for i, ids in zip(never.index, encoded(tokenizer, texts), strict=True):
            assert i not in ids


def test_where_is_what_the_library_does(real):
    """The places named, in their plainest contexts, on every 50th token."""
    tokenizer, table = real
    some = table[table.category == "by merges"].iloc[::50]
    cores = [text.removeprefix(" ") for text in some.text]
    for place, contexts in PLACES.items():
        seen = np.zeros(len(some), bool)
        for before, behind in product(contexts, ["", LETTER]):
            found = encoded(tokenizer, [before + core + behind for core in cores])
            seen |= [i in ids for i, ids in zip(some.index, found, strict=True)]
        named = some["where"].str.contains(place) | (some["where"] == "anywhere")
        assert (seen == named).all()


# --- what a pre-token of a proven pattern can hold: exact -----------------------------------------
CONTRACTED = r"(?:'s|'t|'re|'ve|'m|'ll|'d)"
WORD = rf"(?!(?i:{CONTRACTED})\p{{L}})[^\r\n\p{{L}}\p{{N}}]?\p{{L}}*"
SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"
INNER = {
    LLAMA_3: rf"{WORD}|\p{{N}}{{1,3}}|{SIGNS}",
    QWEN: rf"{WORD}|\p{{N}}|{SIGNS}",
    GPT_2: rf"{CONTRACTED}|'r|'l|'v| ?\p{{L}}*| ?\p{{N}}*| ?[^\s\p{{L}}\p{{N}}]*|\s+",
    TEKKEN: r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"|(?! \p{M}) ?[^\s\p{L}\p{N}]+[\r\n/]*|[\r\n/]*|\s+",
}


def toy(tokens, merges, *, pre_tokenizer=None, normalizer=None, **options):
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocab, merges, **options))
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.WhitespaceSplit()
    if normalizer:
        tokenizer.normalizer = normalizer
    return tokenizer


ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def with_pattern(pattern, tokens):
    """Bytes and the tokens, no merges: a token is blocked, or no pre-token holds it."""
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pattern != GPT_2:
        cut = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])  # fmt: skip
    return toy([*ALPHABET, *tokens], [], pre_tokenizer=cut)


SAMPLE = st.text(" \t\n\r'/(-1२aresldtvmSBAſ中\u0308\u093fʰǅ\u3000", min_size=2, max_size=5)


@pytest.mark.parametrize("pattern", one_fast(*INNER))
@examples(25)
@given(st.lists(SAMPLE, min_size=40, max_size=200))
def test_split_is_exact_for_proven_patterns(pattern, texts):
    table = reachability(with_pattern(pattern, token_strings(texts))).iloc[256:]
    possible = [bool(regex.fullmatch(INNER[pattern], text)) for text in table.text]
    wrong = table.text[(table.category == "never: always split") == possible]
    assert wrong.tolist() == []
    assert set(table.category) <= {"never: always split", "never: merges blocked"}


def composing(*added):
    tokenizer = with_pattern(QWEN, [])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in added])
    return Search(th.TokenizerSpec.from_tokenizer(tokenizer), reachability(tokenizer))


COMPOSING = composing(), composing("ä", "l1")


@pytest.mark.parametrize("search", COMPOSING, ids=["no added tokens", "with added tokens"])
@given(st.lists(SAMPLE | st.sampled_from(["a\u0308", "xl1"]), min_size=1, max_size=3))
def test_texts_are_pretokenized_as_by_the_library(search, texts):
    spec = search.spec
    by_library = spec._added_finder.encode_batch(texts)
    assert list(spec.pretokenize(texts)) == [spec._pieces(encoding) for encoding in by_library]


# --- toys -----------------------------------------------------------------------------------------
def with_added_tokens():
    tokens, merges = ["<unk>", "<0x41>", "▁", *"abc", "ab", "abc"], [("a", "b"), ("ab", "c")]
    tokenizer = toy(tokens, merges, byte_fallback=True)
    tokenizer.add_special_tokens(["<unk>"])
    tokenizer.add_tokens([AddedToken("b", normalized=False)])
    return tokenizer


ISOLATED = [pre_tokenizers.Split(Regex("."), "isolated"), pre_tokenizers.Metaspace(split=False)]
# "ab" merges first, so "bc" and what needs it stand for themselves at best
BLOCKED = [*"abc", "ab", "bc", "abc"], [("a", "b"), ("b", "c"), ("a", "bc")]
CUT, DIGITS = "never: always split", pre_tokenizers.Digits()
TOYS = {
    "blocked": (toy(*BLOCKED), {"abc": "never: merges blocked"}),
    "skipped": (toy(*BLOCKED, ignore_merges=True), {"abc": "only by merge skipping"}),
    "cut": (toy([*"aB1", "a1", "aB"], [("a", "1"), ("a", "B")], pre_tokenizer=DIGITS), {"a1": CUT}),
    "normalised": (
        toy([*"aB", "aa", "aB"], [("a", "a"), ("a", "B")], normalizer=normalizers.Lowercase()),
        {"B": CUT, "aB": CUT},
    ),
    "taken by a neighbour": (  # "▁" begins each pre-token
        toy(["▁", *"ab", "▁a"], [("▁", "a")], pre_tokenizer=pre_tokenizers.Sequence(ISOLATED)),
        {"a": "not found"},
    ),
    "added": (
        with_added_tokens(),  # "b" is cut out of any text before merges see it
        {"<unk>": "special", "b": "added", "<0x41>": "byte fallback", "ab": CUT, "abc": CUT},
    ),
}


@pytest.mark.parametrize(("tokenizer", "otherwise"), TOYS.values(), ids=TOYS)
def test_the_category_of_each_token(tokenizer, otherwise):
    found = reachability(tokenizer)
    expected = dict.fromkeys(tokenizer.get_vocab(), "by merges") | otherwise
    assert dict(zip(found.token, found.category, strict=True)) == expected
    failed = found.category.isin(["never: merges blocked", "only by merge skipping"])
    assert (found.self_test.fillna(True) != failed).all()


def test_a_token_that_occurs_with_its_space_only():
    """A round trip calls "ab" unreachable, for its text gets a space; "aab" holds it."""
    tokenizer = toy(["▁", *"ab", "ab", "▁ab"], [("a", "b"), ("▁", "ab")],
                    pre_tokenizer=pre_tokenizers.Metaspace())  # fmt: skip
    found = reachability(tokenizer)
    assert (found.category == "by merges").all() and found.self_test.all()
    row = dict(zip(found.token, found.itertuples(), strict=True))
    assert not row["ab"].round_trip and found["where"][row["ab"].Index] == "inside a word"
    assert found["where"][row["▁ab"].Index] == "at the start or after a space"


def test_parts_of_characters():
    tokenizer = toy([*ALPHABET, "Ã©", "aÃ", "xÃ", "ÃÃ"], [("Ã", "©"), ("x", "Ã"), ("Ã", "Ã")],
                    pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False))  # fmt: skip
    found = reachability(tokenizer).set_index("token", drop=False)
    assert found.category["Ã©"] == "by merges"
    spec = found.loc[["Ã", "aÃ", "xÃ", "ÃÃ"]]
    assert (spec.category == "not valid UTF-8 alone").all() and spec.text.isna().all()
    assert spec.self_test.tolist() == [True, False, True, True] and not spec.round_trip.any()
    assert spec.example.notna().tolist() == [True, False, True, False]  # ÃÃ is in no UTF-8
    assert found.example.isna().sum() == 2 + 13  # the bytes C0, C1 and F5 to FF
    assert spec["where"].tolist()[::2] == ["inside a character"] * 2
    for name in ("Ã", "xÃ"):
        assert name in tokenizer.encode(spec.example[name]).tokens


def test_a_token_that_is_not_in_stored_form_is_never_made():
    tokenizer = th.train_byte_level_bpe(["a cat"], vocab_size=258)
    settings = json.loads(tokenizer.to_str())
    settings["model"]["vocab"]["a space"] = 258
    rows = th.reachability(Tokenizer.from_str(json.dumps(settings)))
    assert rows.category[258] == "never: always split" and rows.text[258] is None


def test_an_undeclared_unknown_token_and_tokens_made_of_it():
    vocab = {"<unk>": 0, "a": 1, "<unk>a": 2, "b<unk>": 3}
    tokenizer = Tokenizer(models.BPE(vocab, [("<unk>", "a")], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    table = reachability(tokenizer)
    assert table.category.tolist() == ["unknown", "by merges", "by merges", "never: merges blocked"]
    for i, row in table.iterrows():
        assert row.example is None or i in tokenizer.encode(row.example).ids
    assert table.example.notna().tolist() == [True, True, True, False]
