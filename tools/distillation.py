"""Token distillation: rows for new tokens that give the states which their pieces gave."""

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from learning import optimise
from tokenizers import Tokenizer

import tokhelpers as th
from tokhelpers.models.losses import IGNORED, sequence_length

LENGTH = 50  # tokens of a part of a document


def distill_embeddings(
    model,
    old: Tokenizer,
    new: Tokenizer,
    corpus: Iterable[str],
    *,
    snippets: int = 100,
    **options,
):
    """Give a model rows for new tokens, trained to give the states that the tokens' pieces gave.

    The model, which has the tokenizer ``old``, is transferred to ``new`` by ``transfer_embeddings``.
    Then its input rows of new tokens are trained, so that the last hidden state at each token is the
    one that the model had at the token's last piece under ``old``. The error is the mean square over
    the states from the first new token on. Each token is shown in up to ``snippets`` parts, of 50
    tokens, of the documents in ``corpus``; tokens that these do not hold keep their start, and so do
    the rows of an untied head. Further ``options`` are those of ``pretrain``: one epoch of batches
    of 16 with a ``learning_rate`` of 1e-4, unless they say otherwise; small models want a larger
    one. Raises ValueError for a text without a new token, and as ``transfer_embeddings`` does.

    Source: Dobler et al. 2026 (Token Distillation), section 3: 100 snippets of 50 tokens, one epoch.

    >>> old = th.train_byte_level_bpe(["bat bat"], vocab_size=257)
    >>> new = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> small = th.new_model("small-llama", 257, hidden_size=12)
    >>> learned = distill_embeddings(small, old, new, ["a bat sat"] * 9, device="cpu")
    >>> was, now = (m.get_input_embeddings().weight for m in (small, learned))
    >>> torch.equal(was, now[:257]), torch.equal(now[257], was[[65, 256]].mean(0))
    (True, False)
    """
    sources, most = th.models.row_sources(old, new), sequence_length(model)
    is_new, pieces = (sources.origin == "new").to_numpy(), sources.pieces.tolist()
    documents = th.models.encode_texts(new, corpus)
    examples = _examples(documents, is_new, pieces, snippets, most)
    student = th.transfer_embeddings(model, old, new)
    learned = [p.requires_grad for p in student.parameters()]
    student.requires_grad_(False)
    table = student.get_input_embeddings().weight.requires_grad_(True)
    moved = torch.zeros(len(table), 1)  # AdamW leaves a row alone whose gradient is always 0
    moved[np.flatnonzero(is_new)] = 1
    hook = table.register_hook(lambda grad: grad * moved.to(grad))
    loss = partial(_loss, deepcopy(model).eval())
    options = {"learning_rate": 1e-4, "batch_size": 16, "seed": 0} | options
    student, _ = optimise(student, examples, loss, inplace=True, **options)
    hook.remove()
    for p, flag in zip(student.parameters(), learned, strict=True):
        p.requires_grad_(flag)
    return student.to(model.device)


def _examples(documents, is_new, pieces, snippets: int, most: int) -> list[dict]:
    """Parts of documents, each with a new token that not enough parts before it had.

    ``old_ids`` are the tokens' pieces; a place's label is where its token's last piece stands.
    """
    lengths = np.array([len(ids) for ids in pieces])
    seen, examples, length = Counter(), [], min(LENGTH, most)
    for document in documents:
        for start in range(0, len(document), length):
            block = np.array(document[start : start + length])
            labels = lengths[block].cumsum() - 1
            block, labels = block[labels < most], labels[labels < most]  # the teacher reads pieces
            found = set(block[is_new[block]].tolist())
            if any(seen[i] < snippets for i in found):
                seen.update(found)
                labels[: is_new[block].argmax()] = IGNORED
                old_ids = np.array([i for token in block for i in pieces[token]])
                examples.append({"ids": block, "labels": labels, "old_ids": old_ids})
    if not examples:
        raise ValueError("the text holds no new token: give the text that they were learned from")
    return examples


def _loss(teacher, student, batch: dict) -> torch.Tensor:
    with torch.no_grad():
        wanted = _states(teacher.to(student.device), batch["old_ids"], batch["old_mask"])
    found, places = _states(student, batch["ids"], batch["mask"]), batch["labels"]
    rows, columns = torch.nonzero(places != IGNORED, as_tuple=True)
    error = found[rows, columns].float() - wanted[rows, places[rows, columns]].float()
    return error.square().mean(1).sum()


def _states(model, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The last hidden states, without dropout."""
    return model.eval().base_model(input_ids=ids, attention_mask=mask).last_hidden_state
