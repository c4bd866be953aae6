"""Errors help: each names what was given and what is accepted, and says what to do.

A sample of the public functions, each with a value that it refuses and one that the message offers
instead. The second is then tried: a message that recommends what does not work is none.
"""

import re
from functools import cache
from typing import Any, NamedTuple

import pandas as pd
import pytest
from matplotlib.figure import Figure

import tokhelpers as th

TEXT = ["low lower lowest newest widest"] * 5
NUMBERS = pd.DataFrame({"n": [1, 2]})
# An imperative at the start of a clause; a rule; a list to choose from; or an example.
ADVICE = re.compile(
    r"(?:^|[:;,] |\bor )(?:give|use|set|ask|pass|put|load|leave|train|bring|count|prune|choose|write)\b"
    r"|\b(?:must be|is needed|there are|available|it has|such as)\b"
)


@cache
def base():
    return th.train_byte_level_bpe(TEXT, vocab_size=265)


@cache
def model():
    return th.new_model("small-llama", 265, "causal-lm", hidden_size=6)


def load(**options):
    return list(th.load_corpus("wordfreq:fi", **{"chars": 2_000} | options))


def count(documents=TEXT, **options):
    return th.count_pretokens(documents, base(), **options)


def extend(tokens, *n, **options):
    return th.extend(base(), th.Extension(tokens=tokens), *n, **options)


def trained(**options):
    return th.train_byte_level_bpe(TEXT, **{"vocab_size": 257} | options)


def memory(**options):
    sizes = {"vocab_size": 265, "head": "causal-lm", "batch": 1, "length": 8}
    return th.training_memory(model().config, **sizes | options)


class Case(NamedTuple):
    """A call with one value open, a value that it refuses, and one that it accepts."""

    call: Any
    wrong: Any
    right: Any
    given: str | None = None  # how the message shows the first, where that is not its `repr`
    accepted: str | None = None  # how it describes the second, where it does not name it


CASES = {
    "corpus": Case(lambda x: th.load_corpus(x), "wordfrek:fi", "hpo"),
    "language": Case(lambda x: th.load_corpus(f"wordfreq:{x}"), "xx", "fi"),
    "split": Case(lambda x: load(split=x), "dev", "test"),
    "errors": Case(lambda x: load(errors=x), "ignore", "replace"),
    "chars": Case(lambda x: load(chars=x), 0, 1),
    "seed": Case(lambda x: load(seed=x), "x", 3, accepted="whole number"),
    "a count": Case(lambda x: count({"a": x}), -1, 1, accepted="whole number"),
    "min_count": Case(lambda x: count(min_count=x), 0, 1),
    "tokenizer": Case(th.load_tokenizer, "mistral-v9", "mistral-v1"),
    "source": Case(lambda x: th.load_tokenizer("mistral-v1", source=x), "disk", "package"),
    "family": Case(
        lambda x: th.to_tiktoken(x()),
        lambda: th.train_wordpiece(TEXT, vocab_size=25),
        base,
        given="WordPiece",
        accepted="BPE",
    ),
    "vocab_size": Case(lambda x: trained(vocab_size=x), 3, 256),
    "min_frequency": Case(lambda x: trained(min_frequency=x), 1_000, 15),
    "extension": Case(
        lambda x: th.extend(base(), x), ["ab"], th.Extension(tokens=["ab"]), "list", "Extension("
    ),
    "counts": Case(lambda x: th.count_tokens(base(), x), {"a": 1}, count(), "dict", "count a text"),
    "how": Case(lambda x: extend(["ab"], how=x), "behind", "regenerate"),
    "n_tokens": Case(lambda x: extend(["ab"], x), 5, 1),
    "an old token": Case(lambda x: extend([x]), "low", None, accepted="leave them out"),
    "an unknown token": Case(
        lambda x: th.unreachable_tokens(base(), [x]), "zzz", "low", accepted="its vocabulary"
    ),
    "by": Case(lambda x: th.pruning_order(base(), TEXT, by=x), "luck", "leaf-id"),
    "how many": Case(lambda x: th.prune(base(), th.pruning_order(base(), by="leaf-id"), x), 99, 9),
    "architecture": Case(lambda x: th.parameter_count(x, 9, "causal-lm"), "lama", "small-llama"),
    "head": Case(lambda x: th.parameter_count("small-llama", 9, x), "tail", "causal-lm"),
    "rows": Case(
        lambda x: th.parameter_count("small-llama", x, "causal-lm"), 1.5, 9, None, "whole number"
    ),
    "init": Case(lambda x: th.transfer_embeddings(model(), base(), base(), init=x), "best", "mean"),
    "dtype": Case(lambda x: memory(dtype=x), "int3", "bfloat16"),
    "length": Case(lambda x: memory(length=x), 10**6, 512),
    "table": Case(th.notebook.load_published, "paper_table_99", "adaptbpe_table_01"),
    "measurement": Case(th.notebook.load_measured, "nothing", "training_costs"),
    "numbers": Case(
        lambda x: th.notebook.save_figure(Figure(), x, "08_gain"),
        NUMBERS[:0],
        NUMBERS,
        "08_gain",
        "table",
    ),
    "figure": Case(
        lambda x: th.notebook.save_figure(Figure(), NUMBERS, x), "8_gain", "08_compression"
    ),
}


def shown(value) -> str:
    return f"{value:,}" if type(value) is int else repr(value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_message_says_what_was_given_what_is_accepted_and_what_to_do(case, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_FIGURES", str(tmp_path))
    with pytest.raises((ValueError, TypeError, OSError)) as error:
        case.call(case.wrong)
    message = str(error.value)
    assert "\n" not in message and "Error" not in message
    assert (case.given or shown(case.wrong)) in message, message
    assert (case.accepted or shown(case.right).strip("'")) in message, message
    assert ADVICE.search(message), message
    if case.right is not None:
        case.call(case.right)
