"""The thesis' experiment: transfer, pretrain on, fine-tune on questions, answer."""

from collections.abc import Sequence
from copy import deepcopy

import pandas as pd
import torch
import transformers
from tokenizers import Tokenizer

from ..measure.quality import evaluate
from .choices import answer_accuracy, answer_questions, finetune_choices
from .classification import head
from .finetuning import loss_per_byte, pretrain
from .questions import Question
from .transfer import transfer_embeddings


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
    loss_per_byte (nats) of ``held_out``, seconds of both trainings, the share of answers that were
    ``tied``, and accuracies on ``test``: micro, macro and by subject. A masked model's loss must not
    be compared across vocabularies (``loss_per_byte``). Raises what these functions raise.

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
    shared = {key: pretraining[key] for key in ("separator", "mask") if key in pretraining}
    model = transfer_embeddings(model, old, new)
    model, history = pretrain(model, new, texts, **pretraining)
    loss = loss_per_byte(model, new, held_out, length=pretraining.get("length"), **shared)
    if head(model) == "masked":
        model = as_classifier(model, 4, seed=choices.get("seed", 42))
    model, more = finetune_choices(model, new, train, **choices)
    apart = {key: choices[key] for key in ("separator", "length") if key in choices}
    answers = answer_questions(model, new, test, **apart)
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
    config = deepcopy(model.config)
    config.num_labels = classes
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = transformers.AutoModelForSequenceClassification.from_config(config)
    made.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    return made.to(model.dtype).to(model.device)
