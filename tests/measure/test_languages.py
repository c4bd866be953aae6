"""The sweep over many languages, and the rows of it that are kept."""

import json
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tokhelpers as th
from tokhelpers.adapt.methods import extend_parts
from tokhelpers.measure.languages import LANGUAGES, SIZES
from tokhelpers.tokenizer.files import CHECKOUT
from tokhelpers.tokenizer.parts import read_parts
from tokhelpers.tokenizer.segmentation import segment, symbols_of

FAST = {"sizes": [50, 100], "train_chars": 60_000, "test_chars": 20_000}
TOKENIZERS = ["llama-3", "qwen", "mistral-nemo", "mistral-v1"]


@pytest.fixture(scope="module")
def stored() -> pd.DataFrame:
    return th.measured("many_languages")


def test_the_languages_are_those_of_both_wordfreq_and_the_paper():
    from wordfreq import available_languages

    paper = set(th.published("paper_table_12").language)
    assert set(LANGUAGES.values()) <= paper and len(LANGUAGES) == 38
    assert set(available_languages("best")) - LANGUAGES.keys() == {"en", "fil", "ja", "zh"}


def test_all_languages_sizes_and_tokenizers_are_stored(stored):
    assert set(stored.tokenizer) == set(TOKENIZERS)
    assert set(stored.language) == set(LANGUAGES)
    assert stored.groupby(["tokenizer", "language"]).added.agg(lambda x: {0, *SIZES} >= {*x}).all()
    assert not stored.duplicated(["tokenizer", "language", "added", "way", "merge_skipping"]).any()
    at_1000 = stored[stored.added == 1_000]
    assert len(at_1000) == 38 * 2 * (2 + 2 + 1 + 1), "naive and continued, skipping on and off"
    assert len(stored[stored.way == "base"]) == 38 * (2 + 2 + 1 + 1)


def test_continued_training_leaves_nothing_unreachable_in_any_language(stored):
    assert (stored.unreachable_added[stored.way == "continued"] == 0).all()
    assert (stored.unreachable_added[stored.way == "naive"] > 0).any()


def test_how_the_stored_rows_were_made():
    how = json.loads((CHECKOUT / "data" / "measured" / "many_languages.json").read_text())
    for field in ("command", "commit", "profile", "seed", "versions", "processor", "cores", "date"):
        assert how[field] not in (None, ""), field
    for library in ("tokenizers", "wordfreq"):
        assert how["versions"][library] == metadata.version(library)


@pytest.mark.parametrize(("tokenizer", "language"), [("llama-3", "sl"), ("mistral-v1", "bg")])
def test_two_stored_rows_come_again(stored, tokenizer, language):
    fresh = th.compare_language(tokenizer, language, sizes=[1_000])
    kept = stored[(stored.tokenizer == tokenizer) & (stored.language == language)]
    kept = kept[kept.added.isin([0, 1_000])].drop(columns=["tokenizer", "language"])
    order = ["merge_skipping", "added", "way"]
    fresh, kept = (table.sort_values(order) for table in (fresh, kept))
    for column in fresh:
        if fresh[column].dtype == float:
            written = [float(f"{value:.6g}") for value in fresh[column]]
            np.testing.assert_array_equal(written, kept[column], column)
        else:
            assert fresh[column].tolist() == kept[column].tolist(), column


def test_the_result_does_not_depend_on_the_number_of_workers():
    asked = ["qwen", "llama-3"], ["tr", "fi"]
    one, two = (th.compare_languages(*asked, workers=n, **FAST) for n in (1, 2))
    pd.testing.assert_frame_equal(one, two)
    assert one[["tokenizer", "language"]].drop_duplicates().values.tolist() == [
        ["qwen", "tr"], ["qwen", "fi"], ["llama-3", "tr"], ["llama-3", "fi"]
    ]  # fmt: skip


def test_sizes_are_measured_as_extend_and_evaluate_would():
    table = th.compare_language("llama-3", "fi", **FAST).set_index(
        ["way", "added", "merge_skipping"]
    )
    llama = th.load_tokenizer("llama-3")
    train, test = (
        th.load_corpus("wordfreq:fi", chars=FAST[f"{split}_chars"], split=split)
        for split in ("train", "test")
    )
    longer = th.with_merge_skipping(th.extend(llama, th.continue_bpe(llama, train, 100)), False)
    one = th.evaluate(longer, test)
    assert table.bytes_per_token["continued", 100, False] == one.bytes_per_token
    assert table.bytes_per_token["base", 0, True] == th.evaluate(llama, test).bytes_per_token


def test_a_text_that_yields_too_few_tokens_gives_fewer_sizes():
    sizes = [50, 1_000_000]
    table = th.compare_language("qwen", "fi", sizes=sizes, train_chars=30_000, test_chars=9_000)
    assert set(table.added) == {0, 50}


def test_an_unknown_language_lists_the_known_ones():
    with pytest.raises(ValueError, match="no list for 'xx': it has ar, bg, bn"):
        th.compare_language("qwen", "xx")


@pytest.mark.parametrize("name", TOKENIZERS)
def test_old_text_without_a_new_token_keeps_its_tokens(name):
    """Save where a merge now reaches an old token that nothing reached before; such words are few."""
    tokenizer = th.load_tokenizer(name)
    base, changed, old_text = read_parts(tokenizer), 0, 0
    for language in ("fi", "ru", "hi", "ko"):
        words = th.count_pretokens(th.load_corpus(f"wordfreq:{language}", chars=400_000), tokenizer)
        extension = th.continue_bpe(base, words, 1_000)
        assert not th.unreachable(extend_parts(base, extension), extension.tokens)
        known = set(base.alphabet)
        texts = [word for word in words if known.issuperset(word)]
        before, after = (
            segment(*symbols_of(texts, parts), parts.merges)
            for parts in (base, extend_parts(base, extension))
        )
        revived = {base.vocab[token] for token in th.unreachable(base)}
        for i in range(len(texts)):
            old, new = (ids[ends[i] : ends[i + 1]].tolist() for ids, ends in (before, after))
            old_text += max(new) < base.next_id
            if old != new and max(new) < base.next_id:
                assert revived & set(new)
                changed += 1
    assert old_text > 5_000 and changed < 0.01 * old_text


def test_records_are_kept_with_how_they_were_made(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_MEASURED", str(tmp_path))
    th.record_measured(pd.DataFrame({"x": [1 / 3]}), "thirds", command="make thirds", seconds=1.4)
    assert (tmp_path / "thirds.csv").read_text() == "x\n0.333333\n"
    how = json.loads((tmp_path / "thirds.json").read_text())
    assert how["command"] == "make thirds" and how["seconds"] == 1 and how["profile"] == "quick"
    with pytest.raises(FileNotFoundError, match="no measured table is called 'fourths'"):
        th.measured("fourths")
