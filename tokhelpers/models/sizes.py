"""How many tokens to add: what they save of a text, beside what their rows cost in training."""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import pandas as pd
import transformers
from tokenizers import Tokenizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ..adapt.extension import Extension, continue_bpe, extend
from ..measure.quality import evaluate, measurable
from ..text.corpora import Corpus
from ..text.counting import ensure_counts
from ..text.pretokens import Pretokens
from ..tokenizer.checks import positive
from ..tokenizer.spec import TokenizerSpec
from .architectures import new_model
from .costs import inputs_for, parameter_count, trainable, training_memory

SMALLEST, MOST, ROWS = 125, 128_000, 8  # of sizes that nobody asked for
LEAST = 2  # times that a pair must occur to become a token


def recommend_size(
    tokenizer: Tokenizer,
    corpus: Iterable[str] | Pretokens,
    model_config,
    *,
    sizes: Sequence[int] | None = None,
    test: Iterable[str] | Pretokens | None = None,
    head: str = "causal-lm",
    batch: int = 8,
    length: int = 512,
) -> pd.DataFrame:
    """Tabulate what added tokens save of a text, and what they cost in training a model on it.

    The tokens come from continued training on ``corpus`` (documents, or counts by this tokenizer's
    rules). ``sizes`` are numbers of tokens to add; by default they double up to what the text
    yields, or 128,000. Compression is measured on ``test``, by default on what a corpus from
    ``load_corpus`` has ``held_out``.
    ``model_config`` is as for ``new_model``; its vocabulary is taken to be the tokenizer's, without
    padding. A step trains on ``batch`` texts of ``length`` tokens, in bfloat16.

    Returns one row per size, 0 first: ``added``, ``bytes_per_token``,
    ``tokens_saved_per_million_chars``, ``parameters_added``, ``memory_added`` (bytes, by
    ``training_memory``), ``step_time_added_percent``, ``net_cost``: the cost of training on the
    same text divided by that without new tokens (tokens needed times time per token; below 1 is a
    gain), and ``near_least``: whether ``net_cost`` is within 1 % of the least. The minimum is flat,
    so any of these sizes will do. A size chosen on ``test`` should be reported on a third text.

    Time is modelled (``training_operations``): at 128 tokens per step a CPU took 1.5 to 2.2 times the
    modelled extra time. The table does not say how well new rows learn. Raises ValueError for sizes
    below 1 or beyond what the text yields, where there is no text to measure on, and as
    ``training_memory`` does; TypeError for a model that is neither name nor configuration.

    >>> base = th.train_byte_level_bpe(["bat bag"], vocab_size=257)
    >>> text = ["cat hat", "cat cat", "hat"]
    >>> table = recommend_size(base, text, "small-llama", sizes=[1, 2], test=["cat"], length=16)
    >>> table[["added", "bytes_per_token", "parameters_added"]].values.tolist()
    [[0.0, 1.0, 0.0], [1.0, 1.5, 192.0], [2.0, 3.0, 384.0]]
    """
    base = TokenizerSpec.from_tokenizer(tokenizer)
    if not isinstance(model_config, (str, transformers.PretrainedConfig)):
        raise TypeError(
            f"model_config is a {type(model_config).__name__}: give the name of an architecture or "
            "a transformers configuration"
        )
    trainable(model_config, base.next_id, head, batch, length)  # refuses early what cannot be
    if sizes is not None and not (sizes := sorted({positive("a size", n) for n in sizes})):
        raise ValueError("sizes is empty: give numbers of tokens to add, such as 1000")
    words, text = _two_texts(base, corpus, test)
    extension = _learned(base, words, sizes)
    added = np.array([0, *(sizes or _grid(len(extension.tokens)))])
    found = pd.DataFrame(evaluate(extend(base, extension, n), text) for n in added.tolist())
    rows, step = (base.next_id + added).tolist(), {"head": head, "batch": batch, "length": length}
    memory = _memory(model_config, rows, step)
    # parameters and time are straight lines, of which the ends are enough
    ends = rows[0], rows[-1]
    parameters = [parameter_count(model_config, size, head) for size in ends]
    times = [training_operations(model_config, size, head, length) for size in ends]
    slower = added / added[-1] * (times[1] / times[0] - 1)
    table = pd.DataFrame(
        {
            "added": added,
            "bytes_per_token": found.bytes_per_token,
            "tokens_saved_per_million_chars": 1e6 * (found.tokens[0] - found.tokens) / found.chars,
            "parameters_added": (parameters[1] - parameters[0]) * added // added[-1],
            "memory_added": memory - memory[0],
            "step_time_added_percent": 100 * slower,
            "net_cost": (1 + slower) * found.tokens / found.tokens[0],
        }
    )
    return table.assign(near_least=table.net_cost <= 1.01 * table.net_cost.min())


def training_operations(architecture, vocab_size: int, head: str, length: int) -> int:
    """Count the floating-point operations of a training step on one text, without AdamW's.

    A causal model's attention counts for the tokens up to each place, as fused kernels compute it.
    The number is a straight line in ``vocab_size``. Arguments and errors are those of
    ``training_memory``.

    >>> per_token = training_operations("small-llama", 1_001, "causal-lm", 64)
    >>> (per_token - training_operations("small-llama", 1_000, "causal-lm", 64)) / 64 / 192
    6.0
    """
    config = trainable(architecture, vocab_size, head, 1, length)
    model = new_model(config, head=head, device="meta")
    with Operations() as operations:
        model(**inputs_for(config, head, 1, length, "meta")).loss.backward()
    found = operations.found
    total = found.total()
    if getattr(config, "is_decoder", True) is False:  # an encoder
        return total
    attention = sum(n for kind, n in found.items() if "bmm" in kind or "attention" in kind)
    return total - attention * (length - 1) // (2 * length)


class Operations(TorchDispatchMode):
    """The floating-point operations of what runs, by kind, each by torch's formula for it.

    torch's own counter also asks of all that has no formula what it consists of, which takes as long
    as the step. In a step that autograd records, nothing is left to take apart.
    """

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs, kind = kwargs or {}, function.overloadpacket
        made = function(*args, **kwargs)
        if formula := flop_registry.get(kind):
            self.found[str(kind)] += formula(*args, **kwargs, out_val=made)
        return made


def _memory(architecture, rows: list[int], step: dict) -> np.ndarray:
    """The memory of a training step in bytes, for tables of several numbers of rows.

    At each moment of the step it is a straight line in the rows, and the peak is the largest of these
    lines. So where the middle lies on the chord of two ends, all that is between them lies there.
    """

    @cache
    def total(size: int) -> int:
        return int(training_memory(architecture, size, **step).total)

    first, middle, last = rows[0], rows[len(rows) // 2], rows[-1]
    more = total(last) - total(first)
    if (total(middle) - total(first)) * (last - first) == more * (middle - first):
        return total(first) + (np.array(rows) - first) * more // (last - first)
    return np.array([total(size) for size in rows])


def _grid(yielded: int) -> list[int]:
    """Sizes that double, the largest few, and all that the text yields."""
    doubling = [SMALLEST * 2**k for k in range(20) if SMALLEST * 2**k <= yielded]
    return sorted({*doubling[-ROWS:], yielded})


def _learned(base: TokenizerSpec, words: Pretokens, sizes: list[int] | None) -> Extension:
    most = sizes[-1] if sizes else MOST
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # said below, as an error
        extension = continue_bpe(base, words, most, min_frequency=LEAST)
    found = len(extension.tokens)
    if found < (most if sizes else 1):
        raise ValueError(
            f"asked for {most:,} new tokens; this text ({words.chars:,} characters to learn from) "
            f"yields {found:,} at min_frequency={LEAST}: ask for fewer or bring more text"
        )
    return extension


def _two_texts(base: TokenizerSpec, corpus, test) -> tuple[Pretokens, Pretokens | list[str]]:
    """Counts of the text to learn from, and the text to measure on: counts where these will do."""
    if test is None:
        if not isinstance(corpus, Corpus):
            raise ValueError("what is no corpus of load_corpus has nothing held out: give test=")
        test = corpus.held_out(corpus.chars and max(1, corpus.chars // 9))  # a tenth of all
    return ensure_counts(corpus, base), measurable(test, base)
