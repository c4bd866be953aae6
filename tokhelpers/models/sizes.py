"""Recommend how many tokens to add: tokens saved, against the cost in training."""

import warnings
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import pandas as pd
import transformers
from tokenizers import Tokenizer

from ..adapt.extension import Extension, continue_bpe, extend
from ..common.checks import positive
from ..measure.quality import evaluate, measurable
from ..text.corpora import Corpus
from ..text.counting import count_pretokens
from ..text.pretokens import Pretokens
from ..tokenizer.spec import TokenizerSpec
from .costs import parameter_count, training_config, training_flops
from .memory import training_memory

SMALLEST, LARGEST, MAX_ROWS = 125, 128_000, 8  # of the default sizes
MIN_FREQUENCY = 2  # of a pair that becomes a token


def recommend_size(
    tokenizer: Tokenizer,
    corpus: Iterable[str] | Pretokens,
    model_config,
    *,
    sizes: Sequence[int] | None = None,
    test: Iterable[str] | Pretokens | None = None,
    share: float = 1.0,
    head: str = "causal-lm",
    batch: int = 8,
    length: int = 512,
) -> pd.DataFrame:
    """Tabulate how many tokens an extension saves, and what it costs in training, by its size.

    The extension is trained on ``corpus`` by continued BPE training and evaluated on ``test`` (default:
    the held-out part of a corpus from ``load_corpus``). ``sizes`` are numbers of added tokens (default:
    doubling, up to what the corpus yields or 128,000). ``share`` is how much of the model's training
    text is like ``corpus``, as a share of its tokens before the extension; the rest is taken to save
    nothing. ``model_config`` is as for ``new_model``, with the tokenizer's vocabulary; a training step
    has ``batch`` sequences of ``length`` tokens, in bfloat16.

    Returns one row per size, 0 first: ``added``, ``bytes_per_token``,
    ``tokens_saved_per_million_chars``, ``parameters_added``, ``memory_added`` (bytes, by
    ``training_memory``), ``step_time_added_percent`` (FLOPs, by ``training_flops``; on a CPU the time
    grew 1.5 to 2.2 times as much), ``net_cost`` (tokens of the whole training text times FLOPs per
    token, relative to no extension; below 1 is a gain) and ``near_least`` (``net_cost`` within 1 % of
    the minimum, which is flat). How well a model learns the new embeddings is not modelled. Report the
    chosen size on a third text.

    Raises ValueError for sizes below 1 or beyond what the corpus yields, a share that is not above 0 and
    at most 1, without a text to evaluate on, and as ``training_memory`` does; TypeError for a
    ``model_config`` of another type.

    >>> base = th.train_byte_level_bpe(["bat bag"], vocab_size=257)
    >>> text = ["cat hat", "cat cat", "hat"]
    >>> table = recommend_size(base, text, "small-llama", sizes=[1, 2], test=["cat"], length=16)
    >>> table[["added", "bytes_per_token", "parameters_added"]].values.tolist()
    [[0.0, 1.0, 0.0], [1.0, 1.5, 192.0], [2.0, 3.0, 384.0]]
    """
    base = TokenizerSpec.from_tokenizer(tokenizer)
    if not isinstance(model_config, (str, transformers.PretrainedConfig)):
        raise TypeError(
            f"model_config is a {type(model_config).__name__}: pass the name of an architecture or a "
            "transformers configuration"
        )
    training_config(model_config, base.next_id, head, batch, length)  # fail early
    if not 0 < share <= 1:
        raise ValueError(f"share is {share!r}: give a share of the training text, such as 0.1")
    if sizes is not None and not (sizes := sorted({positive("a size", n) for n in sizes})):
        raise ValueError("sizes is empty: pass numbers of tokens to add, such as [1000]")
    train, test = count_pretokens(corpus, base), measurable(_test_text(corpus, test), base)
    extension = _continued(base, train, sizes)
    added = np.array([0, *(sizes or _default_sizes(len(extension.tokens)))])
    quality = pd.DataFrame(evaluate(extend(base, extension, n), test) for n in added.tolist())
    vocab_sizes = (base.next_id + added).tolist()
    step = {"head": head, "batch": batch, "length": length}
    memory = _memory(model_config, vocab_sizes, step)
    # parameters and FLOPs are linear in the vocabulary, so the smallest and largest size suffice
    ends = vocab_sizes[0], vocab_sizes[-1]
    parameters = [parameter_count(model_config, size, head) for size in ends]
    flops = [training_flops(model_config, size, head, length) for size in ends]
    slowdown = added / added[-1] * (flops[1] / flops[0] - 1)
    saved = quality.tokens[0] - quality.tokens
    table = pd.DataFrame(
        {
            "added": added,
            "bytes_per_token": quality.bytes_per_token,
            "tokens_saved_per_million_chars": 1e6 * saved / quality.chars,
            "parameters_added": (parameters[1] - parameters[0]) * added // added[-1],
            "memory_added": memory - memory[0],
            "step_time_added_percent": 100 * slowdown,
            "net_cost": (1 + slowdown) * (1 - share * saved / quality.tokens[0]),
        }
    )
    return table.assign(near_least=table.net_cost <= 1.01 * table.net_cost.min())


def _memory(architecture, vocab_sizes: list[int], step: dict) -> np.ndarray:
    """The memory of a training step in bytes, for several vocabulary sizes.

    The peak is the maximum of linear functions of the size, hence convex: if it is linear at a point
    in the middle, it is linear throughout, and three sizes suffice.
    """

    @cache
    def total(size: int) -> int:
        return int(training_memory(architecture, size, **step).total)

    first, middle, last = vocab_sizes[0], vocab_sizes[len(vocab_sizes) // 2], vocab_sizes[-1]
    added = total(last) - total(first)
    if (total(middle) - total(first)) * (last - first) == added * (middle - first):
        return total(first) + (np.array(vocab_sizes) - first) * added // (last - first)
    return np.array([total(size) for size in vocab_sizes])


def _default_sizes(available: int) -> list[int]:
    """The largest few of the doubling sizes, and all tokens that the corpus yields."""
    doubling = [SMALLEST * 2**k for k in range(20) if SMALLEST * 2**k <= available]
    return sorted({*doubling[-MAX_ROWS:], available})


def _continued(base: TokenizerSpec, train: Pretokens, sizes: list[int] | None) -> Extension:
    requested = sizes[-1] if sizes else LARGEST
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # raised below instead
        extension = continue_bpe(base, train, requested, min_frequency=MIN_FREQUENCY)
    available = len(extension.tokens)
    if available < (requested if sizes else 1):
        raise ValueError(
            f"asked for {requested:,} new tokens, but the corpus ({train.chars:,} characters) yields "
            f"{available:,} at min_frequency={MIN_FREQUENCY}: ask for fewer or supply more text"
        )
    return extension


def _test_text(corpus, test):
    """The text to evaluate on: ``test``, or the held-out part of a corpus, a ninth of its size."""
    if test is not None:
        return test
    if not isinstance(corpus, Corpus):
        raise ValueError("pass test=: only a corpus from load_corpus has a held-out part")
    return corpus.held_out(corpus.chars and max(1, corpus.chars // 9))
