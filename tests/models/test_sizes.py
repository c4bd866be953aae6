"""How many tokens to add: the table against its parts and by hand."""

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer

import tokhelpers as th
from tokhelpers.models.architectures import configuration
from tokhelpers.models.costs import training_flops
from tokhelpers.models.memory import training_memory

STEP = {"head": "causal-lm", "batch": 2, "length": 64}
FEW = {"sizes": [50], "batch": 1, "length": 16}


@pytest.fixture(scope="module")
def base():
    return th.train_byte_level_bpe(th.load_corpus("hpo", chars=20_000), vocab_size=500)


@pytest.fixture(scope="module")
def texts():
    """Finnish words, each document once."""
    return list(th.load_corpus("wordfreq:fi", chars=60_000))


@pytest.fixture(scope="module")
def table(base, texts):
    sizes = [1_000, 250, 2_000]
    return th.recommend_size(base, texts[10:], "small-llama", sizes=sizes, test=texts[:10], **STEP)


# --- each column ---------------------------------------------------------------------------------
def test_compression_is_that_of_finished_tokenizers(base, texts, table):
    held, learn = texts[:10], texts[10:]
    extension = th.continue_bpe(base, learn, 2_000, min_frequency=2)
    longer = [th.extend(base, extension, n) for n in table.added]
    tokens = np.array([sum(len(e.ids) for e in t.encode_batch(held)) for t in longer])
    text = "".join(held)
    assert table.bytes_per_token.tolist() == pytest.approx(len(text.encode()) / tokens)
    saved = 1e6 * (tokens[0] - tokens) / len(text)
    assert table.tokens_saved_per_million_chars.tolist() == pytest.approx(saved)


def test_parameters_and_memory_are_those_of_the_models(table):
    assert table.added.tolist() == [0, 250, 1_000, 2_000]
    assert [table[c].dtype.kind for c in ("added", "parameters_added", "memory_added")] == ["i"] * 3
    bills = [training_memory("small-llama", 500 + n, **STEP).total for n in table.added]
    assert table.memory_added.tolist() == [bill - bills[0] for bill in bills]
    counts = [th.parameter_count("small-llama", 500 + n, "causal-lm") for n in table.added]
    assert table.parameters_added.tolist() == [count - counts[0] for count in counts]


def test_memory_is_exact_where_the_peak_of_a_step_moves():
    """Where the table is small, most memory is in use at another moment: no single line."""
    base = th.train_byte_level_bpe(["a"], vocab_size=256)
    words = {f"{k:b}".replace("0", "ab").replace("1", "cd"): 2 for k in range(200)}
    step = {"batch": 8, "length": 128}
    table = th.recommend_size(base, words, "small-llama", sizes=[20, 50, 190], test=["a"], **step)
    bills = [
        training_memory("small-llama", 256 + n, head="causal-lm", **step).total for n in table.added
    ]
    slopes = np.diff(bills) / np.diff(table.added)
    assert np.ptp(slopes) > 0
    assert table.memory_added.tolist() == [bill - bills[0] for bill in bills]


def llama_operations(config, vocab_size, length):
    """Of a step on one text, on paper: two for a multiplication and addition, thrice for backward."""
    width, layers = config.hidden_size, config.num_hidden_layers
    matrices = layers * (4 * width**2 + 3 * width * config.intermediate_size) + vocab_size * width
    # scores, and the sum they weigh, of each place with those up to it
    attention = layers * width * (length + 1)
    return 6 * length * (matrices + attention)


def test_time_and_cost_are_those_on_paper(table):
    config = configuration("small-llama")
    expected = llama_operations(config, 30_000, 512)
    assert training_flops("small-llama", 30_000, "causal-lm", 512) == expected
    steps = np.array([llama_operations(config, 500 + n, 64) for n in table.added])
    slower = steps / steps[0]
    assert table.step_time_added_percent.tolist() == pytest.approx(100 * slower - 100)
    tokens = table.bytes_per_token[0] / table.bytes_per_token
    assert table.net_cost.tolist() == pytest.approx(slower * tokens)
    assert table.near_least.equals(table.net_cost <= 1.01 * table.net_cost.min())


def test_only_a_share_of_the_training_text_gets_shorter(base, texts, table):
    given = {"sizes": [1_000, 250, 2_000], "test": texts[:10], **STEP}
    tenth = th.recommend_size(base, texts[10:], "small-llama", share=0.1, **given)
    slower = 1 + table.step_time_added_percent / 100
    left = table.bytes_per_token[0] / table.bytes_per_token
    assert tenth.net_cost.tolist() == pytest.approx((slower * (0.9 + 0.1 * left)).tolist())
    assert tenth.drop(columns=["net_cost", "near_least"]).equals(
        table.drop(columns=["net_cost", "near_least"])
    )


def test_a_classifier_pays_no_time_for_tokens(base, texts):
    found = th.recommend_size(
        base, texts, "small-bert", test=texts, head="text-classification", **FEW
    )
    assert found.step_time_added_percent.tolist() == [0, 0]
    assert found.parameters_added[1] == 50 * 192
    cost = found.bytes_per_token[0] / found.bytes_per_token[1]
    assert found.net_cost[1] == pytest.approx(cost)


# --- texts ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("hpo", th.load_corpus("hpo", chars=10_000, split="test")),
        ("wordfreq:fi", th.load_corpus("flores:fin_Latn", chars=10_000)),
    ],
)
def test_a_named_corpus_is_measured_on_what_it_has_held_out(base, name, held):
    corpus = th.load_corpus(name, chars=90_000)
    found = th.recommend_size(base, corpus, "small-llama", **FEW)
    learn = th.count_pretokens(corpus, base)
    same = th.recommend_size(base, learn, "small-llama", test=held, **FEW)
    pd.testing.assert_frame_equal(found, same)
    with pytest.raises(ValueError, match=f"{held.name}.* is evaluation data"):
        th.recommend_size(base, held, "small-llama", **FEW)


def test_added_tokens_cut_the_text_that_is_measured(base, texts):
    longer = Tokenizer.from_str(base.to_str())
    longer.add_tokens(["kissa"])
    held = ["kissa ja koira", "kissat"]
    found = th.recommend_size(longer, texts, "small-llama", test=iter(held), **FEW)
    tokens = sum(len(encoding.ids) for encoding in longer.encode_batch(held))
    assert found.bytes_per_token[0] == sum(map(len, held)) / tokens


# --- what is refused -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"sizes": [0, 10]}, ValueError, "a size must be at least 1, not 0"),
        ({"sizes": "1000"}, ValueError, "a size must be a whole number, not '[01]'"),
        ({"sizes": []}, ValueError, "sizes is empty: pass numbers"),
        ({"share": 0}, ValueError, "share is 0: give a share of the training text"),
        ({"share": 10}, ValueError, "share is 10: give a share"),
        ({"share": float("nan")}, ValueError, "share is nan: give a share"),
        ({"test": []}, ValueError, "no text in its 0 documents"),
        ({"model_config": {"hidden_size": 8}}, TypeError, "model_config is a dict: pass the name"),
        ({"corpus": "kissa"}, TypeError, "single string: put it in a list"),
        ({"test": None}, ValueError, "pass test=: only a corpus from load_corpus has"),
    ],
    ids=str,
)
def test_refused(base, texts, given, error, message):
    with pytest.raises(error, match=message):
        given = {"corpus": texts, "test": texts, "model_config": "small-llama", **FEW, **given}
        th.recommend_size(base, **given)
