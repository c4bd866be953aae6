"""The thesis' experiment: extend a tokenizer, transfer, pretrain on, fine-tune on questions, answer.

Notebook 16 runs it in small. With a GPU and the hub, ``python -m tokhelpers thesis`` runs it with the
thesis' own models, texts and questions.
"""

import time
import warnings
from collections.abc import Iterable, Sequence
from copy import deepcopy

import pandas as pd
import torch
import transformers
from tokenizers import Tokenizer, models

from ..adapt.extension import continue_bpe, extend, thesis_extension
from ..measure.quality import evaluate
from ..tokenizer.parts import read_parts
from ..train.trainers import train_byte_level_bpe, train_sentencepiece_bpe, train_wordpiece
from .choices import answer_accuracy, answer_questions, finetune_choices
from .classification import head
from .finetuning import loss_per_byte, pretrain
from .questions import Question
from .transfer import transfer_embeddings

ARMS = ("none", "auto", "crawled", "continued")


def extended_by(
    arm: str, tokenizer: Tokenizer, texts: Iterable[str], terms: Iterable[str], n_tokens: int
) -> Tokenizer:
    """A tokenizer extended in one of the ways that are compared.

    "none"; "auto": the first new tokens of a supplement tokenizer trained on ``texts``, wired in by
    the thesis' algorithms; "crawled": of one trained on ``terms``; "continued": learned on ``texts``
    on top of the tokenizer's own (BPE only). Raises ValueError for another name.

    Source: thesis, sections 4.2 and 4.3 (Auto, Crawled); Purason et al. 2025, section 3.1 (continued).

    >>> base = train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> extended_by("continued", base, ["bat bat bat"], [], 1).encode(" bat").tokens
    ['Ġbat']
    """
    if arm not in ARMS:
        raise ValueError(f"no arm is called {arm!r}: use {', '.join(ARMS)}")
    if arm == "none":
        return tokenizer
    if arm == "continued":
        return extend(tokenizer, continue_bpe(tokenizer, texts, n_tokens))
    supplement = _supplement(tokenizer, texts if arm == "auto" else terms, n_tokens)
    return extend(tokenizer, thesis_extension(tokenizer, supplement, n_tokens))


def _supplement(tokenizer: Tokenizer, texts: Iterable[str], n_tokens: int) -> Tokenizer:
    """A tokenizer of the same family, large enough to bring ``n_tokens`` new ones."""
    alone = {"isolate_digits": True, "isolate_punctuation": True}  # thesis, section 4.1.1.3
    rules = {"normalizer": tokenizer.normalizer, "pre_tokenizer": tokenizer.pre_tokenizer}
    size = 3 * n_tokens + 2_000
    with warnings.catch_warnings(action="ignore"):  # of a text that yields fewer
        if isinstance(tokenizer.model, models.WordPiece):
            return train_wordpiece(texts, vocab_size=size, min_frequency=10, **rules, **alone)
        if read_parts(tokenizer).byte_level:
            return train_byte_level_bpe(texts, vocab_size=size, **rules, **alone)
        return train_sentencepiece_bpe(texts, vocab_size=size, **alone)


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
    """What a model makes of a changed tokenizer: costs, loss and answers after both stages.

    The model, which has the tokenizer ``old``, gets ``new``'s rows (fvt), is pretrained on ``texts``
    and fine-tuned on the questions ``train``; encoders get a fresh head of four classes for that.
    ``pretraining`` and ``choices`` are the options of ``pretrain`` and ``finetune_choices``. Returns
    the vocabulary's tokens, parameters, bytes_per_token and loss_per_byte (nats) of ``held_out``,
    seconds, and accuracies on ``test``: micro, macro and by subject. The model stays as it was.

    Source: thesis, sections 5 and 6.

    >>> base = train_byte_level_bpe(["bat bat"], vocab_size=260, special_tokens=["<end>"])
    >>> longer = extended_by("continued", base, ["bats bats"], [], 1)
    >>> bone = Question("Which is a bone?", ("Femur", "Liver", "Retina", "Aorta"), 0, "anatomy")
    >>> small = transformers.AutoModelForCausalLM.from_config(
    ...     configuration("small-llama", base.get_vocab_size(), hidden_size=6))
    >>> how = {"learning_rate": 0.01, "epochs": 1, "device": "cpu"}
    >>> row = two_stages(small, base, longer, ["bats"], ["bat"], [bone], [bone],
    ...     pretraining=how, choices=how)
    >>> int(row.tokens), float(row.micro) in (0.0, 1.0)
    (261, True)
    """
    began = time.perf_counter()
    shared = {key: pretraining[key] for key in ("separator", "mask") if key in pretraining}
    model = transfer_embeddings(model, old, new)
    model, history = pretrain(model, new, texts, **pretraining)
    loss = loss_per_byte(model, new, held_out, length=pretraining.get("length"), **shared)
    if head(model) == "masked":
        model = as_classifier(model, 4, seed=choices.get("seed", 42))
    model, more = finetune_choices(model, new, train, **choices)
    seconds = time.perf_counter() - began
    apart = {key: choices[key] for key in ("separator", "length") if key in choices}
    answers = answer_questions(model, new, test, **apart)
    return pd.Series(
        {
            "tokens": new.get_vocab_size(),
            "parameters": sum(p.numel() for p in model.parameters()),
            "bytes_per_token": evaluate(new, held_out).bytes_per_token,
            "steps": len(history) + len(more),
            "seconds": seconds,
            "loss_per_byte": loss,
            **answer_accuracy(answers),
            **answer_accuracy(answers, by_subject=True),
        }
    )


def as_classifier(model, classes: int, *, seed: int = 42):
    """A model's body under a fresh head of so many classes; the model itself stays as it was.

    Source: thesis, section 5.1.3.

    >>> from tokhelpers.models.architectures import new_model
    >>> as_classifier(new_model("small-bert", 300, "masked-lm"), 4).config.num_labels
    4
    """
    config = deepcopy(model.config)
    config.num_labels = classes
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = transformers.AutoModelForSequenceClassification.from_config(config)
    made.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    return made.to(model.dtype).to(model.device)
