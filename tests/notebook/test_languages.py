"""The comparison over many languages, and the rows of it that are kept."""

import pandas as pd
import pytest
from strategies import loaded

import tokhelpers as th

NTREX = th.load_corpus("ntrex:est")
TOKENIZERS = ["mistral-v1", "llama-3", "qwen", "mistral-nemo"]


def test_the_stored_rows_are_of_the_papers_languages():
    """Notebook 10 measures some of them again."""
    stored, languages = (
        th.notebook.load_measured("many_languages"),
        set(th.text.training_languages()),
    )
    assert (
        languages <= set(th.notebook.load_published("paper_table_12").language)
        and len(languages) == 63
    )
    assert set(stored.language) == languages and set(stored.tokenizer) == set(TOKENIZERS)
    by_method = stored.groupby("method").unreachable_added.max()
    assert by_method["continued"] == 0 < by_method["naive"]


def test_sizes_are_measured_as_extend_and_evaluate_would():
    table = th.notebook.compare_language(
        "llama-3", "ekk_Latn", sizes=[100], train=NTREX, chunks=None
    )
    table = table.set_index(["method", "added", "merge_skipping"])
    llama, test = loaded("llama-3"), th.load_corpus("flores:ekk_Latn")
    longer = th.with_merge_skipping(th.extend(llama, th.continue_bpe(llama, NTREX, 100)), False)
    one = th.evaluate(longer, test)
    assert table.bytes_per_token["continued", 100, False] == one.bytes_per_token
    assert table.bytes_per_token["base", 0, True] == th.evaluate(llama, test).bytes_per_token


@pytest.mark.long
def test_only_the_most_frequent_chunks_are_learned_from():
    few = th.notebook.compare_language("qwen", "ekk_Latn", sizes=[100], train=NTREX, chunks=300)
    counts = sorted(NTREX.counts.items(), key=lambda item: (-item[1], item[0]))[:300]
    words = dict(counts)
    same = th.notebook.compare_language("qwen", "ekk_Latn", sizes=[100], train=words)
    pd.testing.assert_frame_equal(few, same)


@pytest.mark.long
def test_a_text_that_yields_too_few_tokens_gives_fewer_sizes():
    table = th.notebook.compare_language("qwen", "ekk_Latn", sizes=[50, 1_000_000], train=NTREX)
    assert set(table.added) == {0, 50}
    none = th.notebook.compare_language("qwen", "ekk_Latn", sizes=[1_000_000], train=NTREX)
    assert none.method.tolist() == ["base"] and none.unreachable_added.tolist() == [0]


@pytest.mark.parametrize("language", ["xxx_Latn", "tha_Thai"])
def test_a_language_without_a_text_is_refused(language):
    with pytest.raises(ValueError, match=language):
        th.notebook.compare_language("qwen", language)
