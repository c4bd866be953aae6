"""Premium, Gini, retention and cut characters against a few lines of numpy and the library."""

from functools import cache

import numpy as np
import pytest
import strategies as shared
from hypothesis import given, strategies as st

import tokhelpers as th


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40).filter(any))
def test_gini_is_the_mean_difference_over_twice_the_mean(values):
    x = np.array(values, float)
    expected = np.abs(x[:, None] - x).mean() / (2 * x.mean())
    assert th.measure.gini(values) == pytest.approx(expected)


@pytest.mark.long
def test_fairness_is_what_evaluate_measures_and_the_raw_lines_have():
    """`flores_tokens` was counted from the raw lines by the library's encoder."""
    names, codes = ["gpt-4", "qwen", "mistral-v1"], ["fin_Latn", "hin_Deva"]
    tokenizers = {name: shared.loaded(name) for name in names}
    table = th.measure.fairness(tokenizers, codes).set_index(["tokenizer", "language"])
    assert len(table) == 6
    raw = th.measured("flores_tokens").set_index(["tokenizer", "language"]).tokens
    for (name, code), row in table.iterrows():
        assert row.tokens == raw[name, code]
        assert row.premium == raw[name, code] / raw[name, "eng_Latn"]
        if code == "hin_Deva":
            measured = th.evaluate(tokenizers[name], th.load_corpus(f"flores:{code}"))
            same = ["bytes_per_token", "chars_per_token", "partial_tokens", "split_characters"]
            assert row[same].tolist() == measured[same].tolist()


@cache
def loaded(name):
    return shared.loaded(name), th.read_parts(shared.loaded(name))


@pytest.mark.parametrize("name", ["gpt-4", "mistral-v1"])
@shared.examples(25)
@given(text=st.text(st.sampled_from("aé日ก👍א\u0301ि "), min_size=1))
def test_cut_characters_are_those_whose_bytes_lie_in_several_tokens(name, text):
    tokenizer, parts = loaded(name)
    measured = th.evaluate(parts, [text])
    raw = b"".join(pieces := parts.raw(tokenizer.encode(text).tokens))
    ends = set(np.cumsum([len(piece) for piece in pieces]).tolist())
    starts = np.cumsum([0, *(len(c.encode()) for c in raw.decode())]).tolist()
    cut = sum(any(a < e < b for e in ends) for a, b in zip(starts, starts[1:], strict=False))
    assert measured.split_characters == cut / len(text)
    partial = sum("\ufffd" in piece.decode(errors="replace") for piece in pieces)
    assert measured.partial_tokens == partial / len(pieces)


@pytest.mark.long
@pytest.mark.parametrize("name", ["gpt-4", "mistral-v1"])
def test_retention_counts_words_that_stay_whole(name):
    tokenizer, _ = loaded(name)
    words = [*th.measure.common_words("fin_Latn", 200), "kyllästyä", "12 3"]
    prefix = "" if name == "mistral-v1" else " "  # Mistral v1 puts its own space before a text
    whole = [len(tokenizer.encode(prefix + w, add_special_tokens=False).ids) == 1 for w in words]
    assert th.measure.single_token_retention(tokenizer, words) == np.mean(whole)


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        *[
            (lambda llama, values=values: th.measure.gini(values), "numbers from 0 on")
            for values in ([], [0, 0], [1, -1], [1, float("nan")])
        ],
        (lambda llama: th.measure.single_token_retention(llama, []), "no words"),
        (lambda llama: th.measure.common_words("ory_Orya"), "no text is called training:ory_Orya"),
        (lambda llama: th.measure.common_words("kaz_Cyrl", 10**7), "fewer than 10,000,000"),
        (lambda llama: th.measure.fairness({"a": llama}, ["tha_Thai"]), "written without spaces"),
        (lambda llama: th.measure.premium({"fin_Latn": 3}), "reference 'eng_Latn'"),
    ],
)
def test_bad_input(llama, measure, message):
    with pytest.raises(ValueError, match=message):
        measure(llama)
