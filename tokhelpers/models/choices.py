"""Four-option questions to a model: fine-tuning, answers, accuracy, and the thesis' two stages."""

import os
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer

from ..measure.quality import evaluate
from .architectures import head_of, new_model
from .batches import NO_LABEL, around, encode_texts, sequence_length
from .classification import class_scores, finetune_classes
from .finetuning import label_logits, loss_per_byte, pretrain
from .optimisation import scores
from .questions import LETTERS, Question, format_question
from .transfer import transfer_embeddings


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
    history of its steps; ``options`` are those of ``pretrain`` or ``finetune_classes``,
    learning_rate among them. Raises ValueError for another head or another number of classes.

    Source: thesis, section 5.1.2 and Table 7.

    >>> tokenizer = th.train_byte_level_bpe(["bone"], vocab_size=260, special_tokens=["<end>"])
    >>> bone = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 0)
    >>> small = th.new_model("small-llama", 260, hidden_size=6)
    >>> trained, _ = finetune_choices(
    ...     small, tokenizer, [bone], learning_rate=0.05, epochs=20, device="cpu")
    >>> answer_questions(trained, tokenizer, [bone])
      subject  answer  chosen   tied  right
    0               0       0  False   True
    """
    questions = list(questions)
    if _is_classifier(model):
        texts, labels = map(format_question, questions), [q.answer for q in questions]
        return finetune_classes(model, tokenizer, texts, labels, epochs=epochs, **options)
    told = questions if explanation else [replace(q, explanation="") for q in questions]
    texts = [format_question(q, explanation=True) for q in told]
    return pretrain(model, tokenizer, texts, epochs=epochs, packed=False, **options)


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

    >>> tokenizer = th.train_byte_level_bpe(["bone"], vocab_size=260, special_tokens=["<end>"])
    >>> bone = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 0)
    >>> small = th.new_model("small-llama", 260, hidden_size=6)
    >>> table = answer_questions(small, tokenizer, [bone, bone])
    >>> table.shape, table.chosen.nunique()  # equal questions have equal answers
    ((2, 5), 1)
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


def _letter_scores(model, tokenizer, questions: list[Question], length, separator) -> np.ndarray:
    """The logits (questions, 4) of the token in which the letters differ."""
    length = sequence_length(model, length)
    prompts = [format_question(q, answer_line=True) for q in questions]
    texts = [f"{prompt}{letter})" for prompt in prompts for letter in LETTERS]
    before, _ = around(tokenizer, separator)
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
    labels = np.full(len(ids), NO_LABEL)
    labels[-1] = 0  # any label will do: the logits are wanted there
    return {"ids": ids, "labels": labels, "options": [ids[k] for ids in options]}


def answer_accuracy(answers: pd.DataFrame, *, by_subject: bool = False) -> pd.Series:
    """Compute the share of right answers: micro over all questions, macro as the mean of subjects.

    ``answers`` is what ``answer_questions`` gives; ``by_subject`` asks for the share in each subject
    instead. Raises ValueError for no answers.

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
    for that. ``pretraining`` and ``choices`` are the options of ``pretrain`` and
    ``finetune_choices``. Returns the vocabulary's tokens, parameters, bytes_per_token and
    loss_per_byte (nats) of ``held_out``, steps and seconds of both trainings, the share of answers
    that were ``tied``, and accuracies on ``test``: micro, macro and by subject. A masked model's
    loss must not be compared across vocabularies. Raises what these functions raise.

    Source: thesis, sections 5 and 6.

    >>> base = th.train_byte_level_bpe(["bat bat"], vocab_size=260, special_tokens=["<end>"])
    >>> longer = th.extend(base, th.continue_bpe(base, ["bats bats"], 1))
    >>> bone = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 0, "anatomy")
    >>> small = th.new_model("small-llama", base.get_vocab_size(), hidden_size=6)
    >>> how = {"learning_rate": 0.01, "epochs": 1, "device": "cpu"}
    >>> row = two_stages(small, base, longer, ["bats"], ["bat"], [bone], [bone],
    ...     pretraining=how, choices=how)
    >>> int(row.tokens), float(row.micro) in (0.0, 1.0)
    (261, True)
    """

    def read(options: dict) -> dict:
        return {key: options[key] for key in ("separator", "length") if key in options}

    model = transfer_embeddings(model, old, new)
    model, history = pretrain(model, new, texts, **pretraining)
    loss = loss_per_byte(model, new, held_out, **read(pretraining))
    if head_of(model, "causal-lm", "masked-lm") == "masked-lm":
        model = as_classifier(model, 4, seed=choices.get("seed", 42))
    model, more = finetune_choices(model, new, train, **choices)
    answers = answer_questions(model, new, test, **read(choices))
    return pd.Series(
        {
            "tokens": new.get_vocab_size(),
            "parameters": sum(p.numel() for p in model.parameters()),
            "bytes_per_token": evaluate(new, held_out).bytes_per_token,
            "steps": len(history) + len(more),
            "seconds": history.attrs["seconds"] + more.attrs["seconds"],
            "loss_per_byte": loss,
            "tied": answers.tied.mean(),
            **answer_accuracy(answers),
            **answer_accuracy(answers, by_subject=True),
        }
    )


def as_classifier(model, classes: int, *, seed: int = 42):
    """Put a model's body under a fresh head of so many classes; the model itself stays as it was.

    Source: thesis, section 5.1.3.

    >>> as_classifier(th.new_model("small-bert", 300, "masked-lm"), 4).classifier.weight.shape
    torch.Size([4, 192])
    """
    made = new_model(model.config, head="text-classification", seed=seed, num_labels=classes)
    made.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    return made.to(model.dtype).to(model.device)
