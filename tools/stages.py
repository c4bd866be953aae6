"""The thesis' two trainings, which go on after a kill: a sequence per text, and masks for BERT."""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from batches import next_token_example
from checkpoints import keep, take_up
from learning import adamw, drawn, lm_loss, training_steps

from tokhelpers.models.architectures import head_of
from tokhelpers.models.losses import (
    IGNORED,
    bos_eos_ids,
    check_ids,
    encode_texts,
    sequence_length,
    special_ids,
)
from tokhelpers.tokenizer.library import without_truncation

CHOSEN = 0.15  # share of a text's tokens that a masked model guesses
MASKED, REPLACED = 0.8, 0.1  # shares of these; thesis, section 3.2.1


def learn(
    model,
    examples: list[dict],
    loss: Callable,
    *,
    learning_rate: float,
    batch_size: int = 512,
    epochs: int = 1,
    seed: int = 42,
    file: Path | None = None,
    every: int = 100,
    hide: Callable | None = None,
):
    """Train as ``optimise`` does; with a file, go on from the state that it holds.

    ``hide(example, rng)`` hides a part of an example, another one each time. The history has the
    column ``seconds``, too. On the same machine a run that was killed ends, bit by bit, as one that
    never stopped.
    """
    check_ids(model, (example["ids"] for example in examples))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    trained = deepcopy(model).to(device)
    optimiser = adamw(trained)
    history = take_up(file, trained, optimiser).get("history", []) if file else []
    steps = epochs * math.ceil(len(examples) / batch_size)

    def batch(step: int) -> list[dict]:
        rng = np.random.default_rng([seed, 1, step])
        rows = [examples[i] for i in drawn(len(examples), batch_size, seed, step)]
        return [hide(row, rng) for row in rows] if hide else rows

    how = {"learning_rate": learning_rate, "steps": steps, "seed": seed, "done": len(history)}
    began = time.perf_counter()
    for row in training_steps(trained, optimiser, loss, batch, **how):
        history.append({**row, "seconds": time.perf_counter() - began})
        began = time.perf_counter()
        if file and (len(history) == steps or len(history) % every == 0):
            keep(file, trained, optimiser, {"history": history})
    return trained, pd.DataFrame(history)


def pretrain_on_sequences(
    model,
    tokenizer,
    texts: Iterable[str],
    *,
    length: int | None = None,
    separator: str | int | None = None,
    **options,
):
    """Continue the pretraining of a model, causal or masked: each text is a sequence, cut off.

    ``options`` are those of ``learn``. Source: thesis, sections 3.2.1, 5.1.1 and 5.2.
    """
    causal = head_of(model, "causal-lm", "masked-lm") == "causal-lm"
    length = sequence_length(model, length)
    documents = encode_texts(tokenizer, texts)
    rows = sequences(documents, length + causal, *bos_eos_ids(tokenizer, separator))
    if causal:
        return learn(model, [next_token_example(row) for row in rows], lm_loss, **options)
    hide = masking(model, tokenizer)
    return learn(model, [{"ids": row} for row in rows], lm_loss, hide=hide, **options)


def sequences(
    documents: Iterable[Sequence[int]], length: int, before: list[int], after: list[int]
) -> list[np.ndarray]:
    """Make one sequence per document, cut off at ``length`` ids, ``before`` and ``after`` included.

    Warns of what is cut off. Raises ValueError for a length that the ids around a text fill.
    """
    most = length - len(before) - len(after)
    if most < 1:
        raise ValueError(f"length={length} is filled by the ids around a text: give more")
    documents = list(documents)
    lost = sum(max(0, len(document) - most) for document in documents)
    if lost:
        share = lost / sum(map(len, documents))
        warnings.warn(
            f"{lost:,} ids, {share:.0%} of all, stand beyond length={length} and are cut off: give a "
            "larger length, or shorter texts",
            stacklevel=2,
        )
    return [np.array([*before, *document[:most], *after], np.int64) for document in documents]


def masking(model, tokenizer) -> Callable[[dict, np.random.Generator], dict]:
    """Return what hides ids of an example, for a masked model to predict from all the others.

    15 % of the tokens that are not special are chosen, one at least, which the library's collator
    does not ensure. Of these 80 % become the mask, the special token with "mask" in its name, 10 % a
    token drawn from the others, and 10 % stay.

    Source: BERT, as in the thesis, section 3.2.1; there whole words are chosen, here tokens.
    """
    inner = without_truncation(tokenizer)
    special = special_ids(inner)
    masks = [i for i in special if "mask" in inner.id_to_token(i).lower()]
    if len(masks) != 1:
        raise ValueError(
            "a masked model needs one special token with 'mask' in its name, and this tokenizer has "
            f"{len(masks)}: give another tokenizer"
        )
    check_ids(model, [masks])
    size = min(model.get_input_embeddings().num_embeddings, max(inner.get_vocab().values()) + 1)
    ordinary = np.setdiff1d(np.arange(size), special)

    def masked(example: dict, rng: np.random.Generator) -> dict:
        ids = example["ids"]
        places = np.flatnonzero(np.isin(ids, special, invert=True))
        n = min(len(places), max(1, round(CHOSEN * len(places))))
        chosen = rng.choice(places, n, replace=False) if n else places
        dice, other = rng.random(n), rng.choice(ordinary, n)
        labels, hidden = np.full(len(ids), IGNORED), ids.copy()
        labels[chosen] = ids[chosen]
        new = np.where(dice < MASKED + REPLACED, other, ids[chosen])
        hidden[chosen] = np.where(dice < MASKED, masks[0], new)
        return {"ids": hidden, "labels": labels}

    return masked
