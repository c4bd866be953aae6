"""Token distillation: rows for new tokens that make the body say what it said of their pieces."""

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer

from ..tokenizer.checks import positive
from ..tokenizer.parts import backend_of
from .batches import NO_LABEL, Task, collated, encode_texts, sequence_length, texts_digest
from .optimisation import optimise
from .rows import row_sources
from .transfer import transfer_embeddings


def distill_embeddings(
    model,
    old: Tokenizer,
    new: Tokenizer,
    corpus: Iterable[str],
    *,
    init: str = "fvt",
    learning_rate: float = 1e-4,
    snippets: int = 100,
    length: int = 50,
    epochs: int = 1,
    batch_size: int = 16,
    seed: int = 0,
    max_padding: int | None = 1_024,
    **options,
):
    """Give a model rows for new tokens, and learn these from what it makes of their pieces.

    The model, which has the tokenizer ``old``, is transferred to ``new`` as by
    ``transfer_embeddings``. Then its input rows of new tokens are trained, and nothing else: reading
    a text cut by ``new``, the model is to have the last hidden states that it had, at the last piece
    of each token, reading the pieces. The error is the mean square over the states from the first new
    token on. Each token is shown in up to ``snippets`` parts, of ``length`` tokens, of the documents
    in ``corpus``; tokens that these do not hold keep their start, and so do the rows of an untied
    head. Small models want a larger ``learning_rate``; further ``options`` are those of ``optimise``.
    Raises ValueError for a text without a single new token, and as ``transfer_embeddings`` does.

    Source: Dobler et al. 2026 (Token Distillation), section 3: 100 snippets of 50 tokens, one epoch.

    >>> old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> small = th.new_model("small-llama", 257, hidden_size=12)
    >>> learned = th.distill_embeddings(small, old, new, ["a bat sat"] * 9, device="cpu")
    >>> was, now = (m.get_input_embeddings().weight for m in (small, learned))
    >>> torch.equal(was, now[:257]), torch.equal(now[257], was[[65, 256]].mean(0))
    (True, False)
    """
    old, new = backend_of(old), backend_of(new)
    sources = row_sources(old, new)
    positive("snippets", snippets)
    length = min(positive("length", length), sequence_length(model))
    blocks = _blocks(encode_texts(new, corpus), sources, snippets, length, sequence_length(model))
    student = transfer_embeddings(model, old, new, init=init, max_padding=max_padding)
    learned = [p.requires_grad for p in student.parameters()]
    student.requires_grad_(False)
    table = student.get_input_embeddings().weight.requires_grad_(True)
    fixed = torch.tensor(sources.origin.ne("new").tolist())
    hook = table.register_hook(lambda grad: _only_new(grad, fixed))
    task = _task(deepcopy(model).eval(), blocks, sources)
    options |= {"learning_rate": learning_rate, "batch_size": batch_size, "epochs": epochs}
    student, _ = optimise(student, task, seed=seed, inplace=True, **options)
    hook.remove()
    for p, flag in zip(student.parameters(), learned, strict=True):
        p.requires_grad_(flag)
    return student.to(model.device)


def _only_new(grad: torch.Tensor, fixed: torch.Tensor) -> torch.Tensor:
    """The gradient of the new tokens' rows; AdamW leaves a row alone whose gradient is always 0."""
    grad = grad.clone()
    grad[: len(fixed)][fixed.to(grad.device)] = 0
    grad[len(fixed) :] = 0
    return grad


def _blocks(documents, sources: pd.DataFrame, snippets: int, length: int, most: int) -> list:
    """Parts of documents, each with a new token that not enough parts before it had."""
    new, pieces = (sources.origin == "new").to_numpy(), sources.pieces.map(len).to_numpy()
    seen, blocks = Counter(), []
    for document in documents:
        for start in range(0, len(document), length):
            block = np.array(document[start : start + length])
            block = block[pieces[block].cumsum() <= most]  # the teacher reads all pieces
            found = set(block[new[block]].tolist())
            if any(seen[i] < snippets for i in found):
                seen.update(found)
                blocks.append(block)
    if not blocks:
        raise ValueError("the text holds no new token: give the text that they were learned from")
    return blocks


def _task(teacher, blocks: list[np.ndarray], sources: pd.DataFrame) -> Task:
    """Examples are blocks; a place's label is where its token's last piece stands."""
    new, pieces = (sources.origin == "new").to_numpy(), sources.pieces.tolist()
    cut = [np.array([i for token in block for i in pieces[token]]) for block in blocks]

    def row(number: int, rng) -> dict:
        block = blocks[number]
        labels = np.cumsum([len(pieces[token]) for token in block]) - 1
        labels[: new[block].argmax()] = NO_LABEL
        return {"ids": block, "labels": labels, "number": number}

    def loss(student, batch: dict) -> torch.Tensor:
        teacher.to(batch["ids"].device)
        by_pieces = collated([{"ids": cut[i]} for i in batch["number"].tolist()])
        with torch.no_grad():
            wanted = _states(teacher, {k: v.to(batch["ids"].device) for k, v in by_pieces.items()})
        found, places = _states(student, batch), batch["labels"]
        rows, columns = torch.nonzero(places != NO_LABEL, as_tuple=True)
        error = found[rows, columns].float() - wanted[rows, places[rows, columns]].float()
        return error.square().mean(1).sum()

    return Task(len(blocks), row, loss, texts_digest(*blocks))


def _states(model, batch: dict) -> torch.Tensor:
    """The last hidden states, without dropout."""
    found = model.eval().base_model(input_ids=batch["ids"], attention_mask=batch["mask"])
    return found.last_hidden_state
