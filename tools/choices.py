"""The thesis' second stage: four-option questions, by a classifier or by the likeliest letter."""

import os
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from batches import label_logits, scores
from questions import LETTERS, Question, format_question
from stages import learn, pretrain_on_sequences, sequences
from tokenizers import Tokenizer

import tokhelpers as th
from tokhelpers.models import encode_texts, loss_per_byte, new_model
from tokhelpers.models.architectures import head_of
from tokhelpers.models.losses import IGNORED, bos_eos_ids, sequence_length


def finetune_choices(
    model,
    tokenizer,
    questions: Iterable[Question],
    *,
    explanation: bool = True,
    epochs: int = 5,
    **options,
):
    """Fine-tune a model on four-option questions, as its head asks.

    A causal model learns the whole text, one sequence per question, with the answer and, if
    ``explanation``, the reason for it. A model with a classification head of four classes gets the
    layout up to the options, labelled with the answer's place. Returns the trained model and the
    history of its steps; ``options`` are those of ``pretrain_on_sequences`` or
    ``finetune_classes``, learning_rate among them. Raises ValueError for another head or another
    number of classes.

    Source: thesis, section 5.1.2 and Table 7.
    """
    questions = list(questions)
    if _is_classifier(model):
        texts, labels = map(format_question, questions), [q.answer for q in questions]
        return finetune_classes(model, tokenizer, texts, labels, epochs=epochs, **options)
    shown_questions = questions if explanation else [replace(q, explanation="") for q in questions]
    texts = [format_question(q, explanation=True) for q in shown_questions]
    return pretrain_on_sequences(model, tokenizer, texts, epochs=epochs, **options)


def _is_classifier(model) -> bool:
    found = head_of(model, "causal-lm", "text-classification") == "text-classification"
    if found and model.config.num_labels != 4:
        raise ValueError(
            f"the model has {model.config.num_labels} classes, and questions four options: load it "
            "with num_labels=4"
        )
    return found


def answer_questions(
    model,
    tokenizer,
    questions: Iterable[Question],
    *,
    length: int | None = None,
    separator: str | int | None = None,
) -> pd.DataFrame:
    """Answer four-option questions: a table of subject, answer, chosen (0 to 3), tied and right.

    A causal model chooses the letter that is likeliest after the question and the answer's heading,
    a model with a classification head the class. Scores are computed in float32, whatever the
    model's type; ``tied`` says that another option has the score of the chosen one, which is the
    first of them. The start of a text longer than ``length`` ids (default: the model's positions,
    2,048 at most) is cut off. ``separator`` and errors are those of ``finetune_choices``;
    ValueError, too, where the four letters do not differ in one token.

    Source: thesis, section 6.1; how it reads a causal model's choice is not said there.
    """
    questions = list(questions)
    if model.dtype != torch.float32:
        model = deepcopy(model).float()
    if _is_classifier(model):
        texts = map(format_question, questions)
        found = class_scores(model, tokenizer, texts, length, separator)
    else:
        found = _letter_scores(model, tokenizer, questions, length, separator)
    table = pd.DataFrame([{"subject": q.subject, "answer": q.answer} for q in questions])
    table["chosen"] = found.argmax(1)
    table["tied"] = (found == found.max(1, keepdims=True)).sum(1) > 1
    return table.assign(right=table.answer == table.chosen)


def prompted(question: Question) -> str:
    """A question with the answer's heading behind it, for a causal model to complete."""
    return f"{format_question(question)}\n**Answer**\n"


def answer_accuracy(answers: pd.DataFrame) -> pd.Series:
    """The share of right answers: micro over all questions, macro as the mean of subjects, and of each.

    Source: thesis, section 6.1.
    """
    shares = answers.groupby("subject").right.mean()
    return pd.Series({"micro": answers.right.mean(), "macro": shares.mean(), **shares})


def _letter_scores(model, tokenizer, questions: list[Question], length, separator) -> np.ndarray:
    """The logits (questions, 4) of the token in which the letters differ."""
    length = sequence_length(model, length)
    prompts = [prompted(q) for q in questions]
    texts = [f"{prompt}{letter})" for prompt in prompts for letter in LETTERS]
    before, _ = bos_eos_ids(tokenizer, separator)
    ids = [before + found for found in encode_texts(tokenizer, texts)]
    rows = [_row(ids[i : i + 4], length) for i in range(0, len(ids), 4)]
    return scores(model, rows, lambda m, b: label_logits(m, b).gather(1, b["options"]))


def _row(options: list[list[int]], length: int) -> dict:
    """What the four texts share, and the token that differs in each."""
    k = len(os.path.commonprefix(options))
    if len({ids[k] for ids in options if len(ids) > k}) < 4:
        raise ValueError(
            "one token of this tokenizer does not tell the letters A, B, C and D apart: give "
            "another tokenizer"
        )
    ids = np.array(options[0][:k][-length:])
    labels = np.full(len(ids), IGNORED)
    labels[-1] = 0  # any label will do: the logits are wanted there
    return {"ids": ids, "labels": labels, "options": [ids[k] for ids in options]}


def finetune_classes(
    model,
    tokenizer,
    texts: Iterable[str],
    labels: Sequence[int],
    *,
    epochs: int = 5,
    length: int | None = None,
    separator: str | int | None = None,
    **options,
):
    """Fine-tune a model with a classification head on texts with labels 0, 1, ...

    Returns the trained model and the history of its steps; further ``options`` are those of
    ``learn``, learning_rate among them. ``tokenizer`` may be an AdaptBPE encoder. The
    ``separator`` stands before and after each text (default: what the tokenizer's post-processor
    puts there, or its only special token). Texts are cut off at ``length`` ids (default: the model's
    positions, 2,048 at most).

    Raises ValueError for a model without such a head, labels outside its classes, and no text.
    """
    head_of(model, "text-classification")
    texts = list(texts)
    rows = _framed(model, tokenizer, encode_texts(tokenizer, texts), length, separator)
    examples = _labelled(rows, labels, model.config.num_labels)
    return learn(model, examples, _loss, epochs=epochs, **options)


def class_scores(model, tokenizer, texts, length=None, separator=None) -> np.ndarray:
    """Return the logits of each text's classes (texts, classes), float32."""
    head_of(model, "text-classification")
    rows = _framed(model, tokenizer, encode_texts(tokenizer, texts), length, separator)
    rows = [{"ids": ids} for ids in rows]
    return scores(model, rows, lambda m, b: states(m, b["ids"], b["mask"])[1])


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
    return sequences(documents, sequence_length(model, length), *bos_eos_ids(tokenizer, separator))


def _labelled(rows: list[np.ndarray], labels, n: int) -> list[dict]:
    """Examples of rows of ids and their labels, which are to be classes from 0 to n - 1."""
    labels = np.asarray(labels)
    if labels.shape != (len(rows),):
        raise ValueError(f"{len(rows)} texts and {labels.size} labels: give one label per text")
    wrong = [x for x in labels.tolist() if type(x) is not int or not 0 <= x < n]
    if wrong:
        raise ValueError(f"the label {wrong[0]!r} is no class of this model: it has 0 to {n - 1}")
    return [{"ids": ids, "labels": label} for ids, label in zip(rows, labels, strict=True)]


def _loss(model, batch: dict) -> torch.Tensor:
    _, logits = states(model, batch["ids"], batch["mask"])
    return F.cross_entropy(logits.float(), batch["labels"], reduction="sum")


def two_stages(
    model,
    old: Tokenizer,
    new: Tokenizer,
    texts: Sequence[str],
    held_out: Sequence[str],
    train: Sequence[Question],
    test: Sequence[Question],
    *,
    pretraining: dict,
    choices: dict,
) -> pd.Series:
    """Train a model with a changed tokenizer in both stages; return its costs, loss and answers.

    The model, which has the tokenizer ``old``, gets rows for ``new`` (fvt), is pretrained on
    ``texts`` and fine-tuned on the questions ``train``; an encoder gets a fresh head of four classes
    for that. ``pretraining`` and ``choices`` are the options of ``pretrain_on_sequences`` and
    ``finetune_choices``. Returns the vocabulary's tokens, parameters, bytes_per_token and
    loss_per_byte (nats; of causal models) of ``held_out``, steps and seconds of both trainings, the
    share of answers that were ``tied``, and accuracies on ``test``: micro, macro and by subject.
    Raises what these functions raise.

    Source: thesis, sections 5 and 6.
    """

    def read(options: dict) -> dict:
        return {key: options[key] for key in ("separator", "length") if key in options}

    model = th.transfer_embeddings(model, old, new)
    model, history = pretrain_on_sequences(model, new, texts, **pretraining)
    if head_of(model, "causal-lm", "masked-lm") == "causal-lm":
        loss = loss_per_byte(model, new, held_out, **read(pretraining))
    else:
        loss, model = float("nan"), as_classifier(model, 4, seed=choices.get("seed", 42))
    model, more = finetune_choices(model, new, train, **choices)
    answers = answer_questions(model, new, test, **read(choices))
    return pd.Series(
        {
            "tokens": new.get_vocab_size(),
            "parameters": sum(p.numel() for p in model.parameters()),
            "bytes_per_token": th.evaluate(new, held_out).bytes_per_token,
            "steps": len(history) + len(more),
            "seconds": history.seconds.sum() + more.seconds.sum(),
            "loss_per_byte": loss,
            "tied": answers.tied.mean(),
            **answer_accuracy(answers),
        }
    )


def as_classifier(model, classes: int, *, seed: int = 42):
    """Put a model's body under a fresh head of so many classes; the model itself stays as it was.

    Source: thesis, section 5.1.3.
    """
    made = new_model(model.config, head="text-classification", seed=seed, num_labels=classes)
    made.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    return made.to(model.dtype).to(model.device)
