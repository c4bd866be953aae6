"""Fine-tuning on four-option questions, answering them, and accuracy by subject."""

import os
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from .batches import NO_LABEL, around, encode_texts, sequence_length
from .classification import classify, finetune_classes, head
from .finetuning import label_logits, pretrain
from .optimisation import evaluated
from .questions import Question, format_question


def finetune_choices(
    model,
    tokenizer,
    questions: Iterable[Question],
    *,
    explanation: bool = True,
    epochs: int = 5,
    **options,
):
    """Fine-tune a model on four-option questions, in the way of its head.

    Causal: causal language modelling of the whole text, with the answer and, if ``explanation``,
    why; a sequence a question. With a classification head of four classes: the layout up to the
    options, labelled with the answer's place. Returns the trained model and the history of its
    steps; ``options`` are those of ``pretrain`` or ``finetune_classes``, learning_rate among them.
    Raises ValueError for another head or another number of classes.

    Source: thesis, section 5.1.2 and Table 7.

    >>> from tokhelpers.models.architectures import new_model
    >>> from tokhelpers.train.trainers import train_byte_level_bpe
    >>> tokenizer = train_byte_level_bpe(["bone"], vocab_size=260, special_tokens=["<end>"])
    >>> bone = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 0)
    >>> small = new_model("small-llama", 260, hidden_size=6)
    >>> trained, _ = finetune_choices(
    ...     small, tokenizer, [bone], learning_rate=0.05, epochs=20, device="cpu")
    >>> answer_questions(trained, tokenizer, [bone])
      subject  answer  chosen  right
    0               0       0   True
    """
    questions = list(questions)
    if _choosing_head(model) == "classes":
        texts, labels = map(format_question, questions), [q.answer for q in questions]
        return finetune_classes(model, tokenizer, texts, labels, epochs=epochs, **options)
    told = questions if explanation else [replace(q, explanation="") for q in questions]
    texts = [format_question(q, explanation=True) for q in told]
    return pretrain(model, tokenizer, texts, epochs=epochs, packed=False, **options)


def _choosing_head(model) -> str:
    found = head(model)
    if found == "masked" or (found == "classes" and model.config.num_labels != 4):
        raise ValueError(
            f"{type(model).__name__} cannot choose one of four options: load the model with "
            "AutoModelForCausalLM, or AutoModelForSequenceClassification and num_labels=4"
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
    """What a model answers to four-option questions: subject, answer, chosen (0 to 3) and right.

    Causal: the letter that is likeliest after the layout with the answer's heading. Where letters
    are not told apart by one token, the likelihoods of their whole strings, "A)" to "D)", are
    compared. The start of what is longer than ``length`` ids (default: the model's positions, 2,048
    at most) is cut off. With a classification head: the class. ``separator`` and errors as in
    ``finetune_choices``.

    Source: thesis, section 6.1; how it reads a causal model's choice is not said there.

    >>> from tokhelpers.models.architectures import new_model
    >>> from tokhelpers.train.trainers import train_byte_level_bpe
    >>> tokenizer = train_byte_level_bpe(["bone"], vocab_size=260, special_tokens=["<end>"])
    >>> bone = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 0)
    >>> small = new_model("small-llama", 260, hidden_size=6)
    >>> answer_questions(small, tokenizer, [bone, bone]).answer.tolist()
    [0, 0]
    """
    questions = list(questions)
    if _choosing_head(model) == "classes":
        texts = map(format_question, questions)
        chosen = classify(model, tokenizer, texts, length=length, separator=separator)
    else:
        length = sequence_length(model, length)
        prompts = [format_question(q, answer_line=True) for q in questions]
        texts = [f"{prompt}{letter})" for prompt in prompts for letter in "ABCD"]
        before, _ = around(tokenizer, separator)
        ids = [before + list(found) for found in encode_texts(tokenizer, texts)]
        four = [ids[i : i + 4] for i in range(0, len(ids), 4)]
        chosen = _likelihoods(model, four, length).argmax(1)
    table = pd.DataFrame({"subject": [q.subject for q in questions]})
    table["answer"], table["chosen"] = [q.answer for q in questions], chosen
    return table.assign(right=table.answer == table.chosen)


def _likelihoods(model, four: list[list[list[int]]], length: int) -> np.ndarray:
    """Logarithms of likelihoods (questions, 4), up to a number a question, of what differs."""
    shared = [len(os.path.commonprefix(options)) for options in four]
    next_ids = [
        [ids[k : k + 1] for ids in options] for options, k in zip(four, shared, strict=True)
    ]
    scores = np.empty((len(four), 4))
    if all(len({*map(tuple, found)} - {()}) == 4 for found in next_ids):
        rows = [
            {"ids": np.array(o[0][:k][-length:]), "options": np.ravel(f)}
            for o, k, f in zip(four, shared, next_ids, strict=True)
        ]
        for row in rows:
            row["labels"] = np.full(len(row["ids"]), NO_LABEL)
            row["labels"][-1] = 0  # any: the logits are wanted there
        for part, found in evaluated(model, rows, _option_logits):
            scores[part] = found.float().cpu()
        return scores
    rows = []
    for options, k in zip(four, shared, strict=True):
        if len({*map(tuple, options)}) < 4:
            raise ValueError("this tokenizer does not tell the letters A, B, C and D apart")
        for ids in options:
            labels = np.array(ids[1:])
            labels[: k - 1] = NO_LABEL
            rows.append({"ids": np.array(ids[:-1])[-length:], "labels": labels[-length:]})
    for part, found in evaluated(model, rows, _row_likelihoods):
        scores.reshape(-1)[part] = found.cpu()
    return scores


def _option_logits(model, batch: dict) -> torch.Tensor:
    return label_logits(model, batch).gather(1, batch["options"])


def _row_likelihoods(model, batch: dict) -> torch.Tensor:
    wanted = batch["labels"] != NO_LABEL
    losses = F.cross_entropy(
        label_logits(model, batch).float(), batch["labels"][wanted], reduction="none"
    )
    found = torch.zeros(len(wanted), device=losses.device)
    return found.index_add(0, torch.nonzero(wanted)[:, 0], -losses)


def answer_accuracy(answers: pd.DataFrame, *, by_subject: bool = False) -> pd.Series:
    """The share of right answers: micro, over all questions, and macro, the mean over subjects.

    ``answers`` is what ``answer_questions`` gives; ``by_subject``: the share in each subject instead.
    Raises ValueError for no answers.

    Source: thesis, section 6.1.

    >>> answers = pd.DataFrame({"subject": ["a", "a", "a", "b"], "right": [True, True, False, False]})
    >>> answer_accuracy(answers).round(3).to_dict()
    {'micro': 0.5, 'macro': 0.333}
    """
    if not len(answers):
        raise ValueError("there are no answers: give the table of one question at least")
    shares = answers.groupby("subject").right.mean()
    if by_subject:
        return shares
    return pd.Series({"micro": float(answers.right.mean()), "macro": float(shares.mean())})
