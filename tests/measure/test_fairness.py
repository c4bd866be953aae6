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


@pytest.mark.parametrize("values", [[], [0, 0], [1, -1], [1, float("nan")]])
def test_no_gini_of_these(values):
    with pytest.raises(ValueError, match="numbers from 0 on"):
        th.measure.gini(values)


@pytest.mark.long
def test_fairness_is_what_evaluate_measures_and_the_raw_lines_have():
    """`flores_tokens` was counted from the raw lines by the library's encoder."""
    names = ["gpt-4", "qwen", "mistral-v1"]
    codes = ["fin_Latn", "hin_Deva"]
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
    raw = b"".join(pieces := th.tokenizer.raw_tokens(tokenizer.encode(text).tokens, parts))
    ends = set(np.cumsum([len(piece) for piece in pieces]).tolist())
    starts = np.cumsum([0, *(len(c.encode()) for c in raw.decode())]).tolist()
    cut = sum(any(a < e < b for e in ends) for a, b in zip(starts, starts[1:], strict=False))
    assert measured.split_characters == cut / len(text)
    partial = sum(b"\xef\xbf\xbd" in p.decode(errors="replace").encode() for p in pieces)
    assert measured.partial_tokens == partial / len(pieces)


@pytest.mark.long
def test_retention_counts_words_that_stay_whole():
    for name in ("gpt-4", "mistral-v1"):
        tokenizer, _ = loaded(name)
        words = [*th.measure.common_words("fin_Latn", 200), "kyllästyä", "12 3"]
        prefix = "" if name == "mistral-v1" else " "  # Mistral v1 puts its own space before a text
        whole = [
            len(tokenizer.encode(prefix + w, add_special_tokens=False).ids) == 1 for w in words
        ]
        assert th.measure.single_token_retention(tokenizer, words) == np.mean(whole)


def test_bad_input(llama):
    with pytest.raises(ValueError, match="no words"):
        th.measure.single_token_retention(llama, [])
    with pytest.raises(ValueError, match="no text is called training:ory_Orya"):
        th.measure.common_words("ory_Orya")
    with pytest.raises(ValueError, match="fewer than 10,000,000"):
        th.measure.common_words("kaz_Cyrl", 10_000_000)
    with pytest.raises(ValueError, match="written without spaces"):
        th.measure.fairness({"llama-3": llama}, ["tha_Thai"])
    with pytest.raises(ValueError, match="reference 'eng_Latn'"):
        th.measure.premium({"fin_Latn": 3})
