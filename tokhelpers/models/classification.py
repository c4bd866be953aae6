"""Text classification with encoders and decoders, with AVocaDo's contrastive regularisation."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from .architectures import head_of
from .batches import (
    Task,
    around,
    backend,
    check_ids,
    encode_texts,
    sequence_length,
    sequences,
)
from .optimisation import optimise, scores
from .rows import id_map


def finetune_classes(
    model,
    tokenizer,
    texts: Iterable[str],
    labels: Sequence[int],
    *,
    epochs: int = 5,
    length: int | None = None,
    separator: str | int | None = None,
    contrast=None,
    temperature: float = 2.5,
    weight: float = 1.0,
    **options,
):
    """Fine-tune a model with a classification head on texts with labels 0, 1, ...

    Returns the trained model and the history of its steps; further ``options`` are those of
    ``optimise``, learning_rate among them. ``tokenizer`` may be an AdaptBPE encoder. The
    ``separator`` stands before and after each text (default: what the tokenizer's post-processor
    puts there, or its only special token). Texts are cut off at ``length`` ids (default: the model's
    positions, 2,048 at most).

    ``contrast``, the old tokenizer, adds AVocaDo's regularisation: each text is also read as the old
    tokenizer cuts it, and the two states that are classified shall be like each other and unlike
    those of the other texts of the batch, or of its micro_batch: ``weight`` times the loss
    ``nt_xent`` at this ``temperature``, for which the source has 1.5 to 3.5. Raises ValueError for a
    model without such a head, labels outside its classes, no text, a temperature of 0 or less, and
    tokens of the old tokenizer that the new one lacks.

    Source: Hong et al. 2021 (AVocaDo), as used by Balde et al. 2024, section 2.

    >>> tokenizer = th.train_byte_level_bpe(["bat"], vocab_size=258, special_tokens=["<end>"])
    >>> small = th.new_model("small-llama", 258, "text-classification", hidden_size=6)
    >>> trained, _ = finetune_classes(
    ...     small, tokenizer, ["at", "ag"] * 8, [0, 1] * 8, learning_rate=0.02, device="cpu")
    >>> classify(trained, tokenizer, ["at", "ag"]).tolist()
    [0, 1]
    """
    head_of(model, "text-classification")
    texts = list(texts)
    rows = _framed(model, tokenizer, encode_texts(tokenizer, texts), length, separator)
    examples = _labelled(rows, labels, model.config.num_labels)
    if contrast is not None:
        if not temperature > 0:
            raise ValueError(f"temperature={temperature!r}: give a number above 0")
        old = _framed(model, tokenizer, _read_by(contrast, tokenizer, texts), length, separator)
        check_ids(model, old)
        examples = [e | {"old_ids": ids} for e, ids in zip(examples, old, strict=True)]
        options.setdefault("micro_batch", options.get("batch_size", len(rows)))
    loss = partial(_loss, temperature=temperature, weight=weight)
    task = Task(examples, loss, settings=(temperature, weight))
    return optimise(model, task, epochs=epochs, **options)


def classify(
    model,
    tokenizer,
    texts: Iterable[str],
    *,
    length: int | None = None,
    separator: str | int | None = None,
) -> np.ndarray:
    """Return the class of each text, an int64 array.

    Options and errors are those of ``finetune_classes``.

    >>> tokenizer = th.train_byte_level_bpe(["bat"], vocab_size=258, special_tokens=["<end>"])
    >>> small = th.new_model("small-bert", 258, "text-classification")
    >>> small.classifier.bias.data += torch.tensor([0, 9])
    >>> classify(small, tokenizer, ["bat", "bag"]).tolist()
    [1, 1]
    """
    return class_scores(model, tokenizer, texts, length, separator).argmax(1)


def class_scores(model, tokenizer, texts, length=None, separator=None) -> np.ndarray:
    """Return the logits of each text's classes (texts, classes), float32."""
    head_of(model, "text-classification")
    rows = _framed(model, tokenizer, encode_texts(tokenizer, texts), length, separator)
    rows = [{"ids": ids} for ids in rows]
    return scores(model, rows, lambda m, b: states(m, b["ids"], b["mask"])[1])


def classification_scores(labels: Sequence[int], predicted: Sequence[int]) -> pd.Series:
    """Compute accuracy and macro-F1, the mean over all classes among the labels or predictions.

    Raises ValueError for different numbers of labels and predictions, and for none.

    >>> classification_scores([0, 0, 1, 2], [0, 1, 1, 2]).round(4).to_dict()
    {'accuracy': 0.75, 'macro_f1': 0.7778}
    """
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.shape != predicted.shape or not labels.size:
        raise ValueError(
            f"{labels.size} labels and {predicted.size} predictions: give as many of each, from 1 on"
        )
    right, names = labels == predicted, np.union1d(labels, predicted)
    both = [(labels == name).sum() + (predicted == name).sum() for name in names]
    found = [right[labels == name].sum() for name in names]
    f1 = 2 * np.array(found) / both
    return pd.Series({"accuracy": float(right.mean()), "macro_f1": float(f1.mean())})


def nt_xent(one: torch.Tensor, two: torch.Tensor, temperature: float) -> torch.Tensor:
    """Compute the mean contrastive loss of pairs: rows i of ``one`` and ``two``, both (n, width).

    The loss is low where each of the 2n vectors has a larger cosine with its partner than with the
    2n - 2 others. Cosines are divided by the temperature.

    Source: Chen et al. 2020, section 2.1 (NT-Xent).

    >>> nt_xent(torch.eye(2), torch.eye(2), 1.0).round(decimals=4)  # -log(e / (e + 1 + 1))
    tensor(0.5514)
    """
    with torch.autocast(one.device.type, enabled=False):  # cosines are too coarse in bfloat16
        both = F.normalize(torch.cat([one, two]).float(), dim=1)
        itself = torch.eye(len(both), dtype=torch.bool, device=both.device)
        like = (both @ both.T / temperature).masked_fill(itself, -torch.inf)
        partner = torch.arange(len(both), device=both.device).roll(len(one))
        return F.cross_entropy(like, partner)


def states(model, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the pooled last hidden states (n, width) and the classes' logits of padded rows.

    A decoder's pooled state is that of its last token, which is found by the mask and not by the
    padding's id; an encoder's is that of its first token.
    """
    if hasattr(model, "score"):  # the library's decoders with a classification head
        found = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
        rows = torch.arange(len(ids), device=ids.device)
        pooled = found.last_hidden_state[rows, mask.sum(1) - 1]
        return pooled, model.score(pooled)
    found = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    return found.hidden_states[-1][:, 0], found.logits


def _framed(model, tokenizer, documents, length, separator) -> list[np.ndarray]:
    """Each text's ids with the separators around them, cut off at a length."""
    return sequences(documents, sequence_length(model, length), *around(tokenizer, separator))


def _read_by(old, new, texts: list[str]) -> list[list[int]]:
    """Texts as the old tokenizer cuts them, in the ids that its tokens have under the new one."""
    documents, old, new = encode_texts(old, texts), backend(old), backend(new)
    ids = id_map(old, new)
    if lost := {i for document in documents for i in document} - ids.keys():
        raise ValueError(
            f"the old tokenizer's token {old.id_to_token(min(lost))!r} is not in the new one: "
            "contrast= takes the tokenizer that was extended"
        )
    return [[ids[i] for i in document] for document in documents]


def _labelled(rows: list[np.ndarray], labels, n: int) -> list[dict]:
    """Examples of rows of ids and their labels, which are to be classes from 0 to n - 1."""
    labels = np.asarray(labels)
    if labels.shape != (len(rows),):
        raise ValueError(f"{len(rows)} texts and {labels.size} labels: give one label per text")
    wrong = [x for x in labels.tolist() if type(x) is not int or not 0 <= x < n]
    if wrong:
        raise ValueError(f"the label {wrong[0]!r} is no class of this model: it has 0 to {n - 1}")
    return [{"ids": ids, "labels": label} for ids, label in zip(rows, labels, strict=True)]


def _loss(model, batch: dict, *, temperature: float, weight: float) -> torch.Tensor:
    pooled, logits = states(model, batch["ids"], batch["mask"])
    total = F.cross_entropy(logits.float(), batch["labels"], reduction="sum")
    if "old_ids" in batch:
        before, _ = states(model, batch["old_ids"], batch["old_mask"])
        total = total + weight * len(pooled) * nt_xent(pooled, before, temperature)
    return total
