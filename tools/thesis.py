"""The thesis' experiment in full size, from the hub: ``python tools/thesis.py MODEL ARM``."""

import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pandas as pd
import transformers
import typer
from tokenizers import Tokenizer, models

from tokhelpers import (
    continue_bpe,
    extend,
    load_corpus,
    load_tokenizer,
    read_parts,
    record_measured,
    thesis_extension,
    train_byte_level_bpe,
    train_sentencepiece_bpe,
    train_wordpiece,
)
from tokhelpers.__main__ import in_one_line
from tokhelpers.models import Question, configuration, load_questions, two_stages

# hub id; commit; rates of thesis, Table 10 (continual pretraining, questions); what stands around a
# text
MODELS = {
    "bert-base-cased": (
        "google-bert/bert-base-cased",
        "cd5ef92a9fb2f889e972770a36d4ed042daf221e",
        5e-4,
        1e-4,
        None,
    ),
    "mobilellm-125m": (
        "facebook/MobileLLM-125M",
        "f6820a829b347aaa6674a705c82be3db47b1f9ee",
        5e-4,
        5e-4,
        "</s>",
    ),
    "smollm2-135m": (
        "HuggingFaceTB/SmolLM2-135M",
        "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
        1e-3,
        1e-3,
        "<|endoftext|>",
    ),
}
PUBMED = "hf:MedRAG/pubmed@@33da3593d5756bc04c8909f170003c0b14197957"
SUBJECTS = (
    "anatomy",
    "clinical_knowledge",
    "college_biology",
    "college_medicine",
    "medical_genetics",
    "professional_medicine",
)


ARMS = ("none", "auto", "crawled", "continued")


def extended_by(
    arm: str, tokenizer: Tokenizer, texts: Iterable[str], terms: Iterable[str], n_tokens: int
) -> Tokenizer:
    """Extend a tokenizer by one of the methods that are compared.

    - "none": the tokenizer as it is;
    - "auto": the first new tokens of a supplement tokenizer trained on ``texts``, with merges by the
      thesis' algorithms;
    - "crawled": the same with a supplement tokenizer trained on ``terms``;
    - "continued": tokens learned on ``texts`` on top of the tokenizer's own (BPE only).

    Raises ValueError for another name.

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


def thesis(
    name: str,
    arm: str,
    *,
    n_tokens: int = 10_000,
    texts: str = PUBMED,
    column: str = "content",
    terms: str = "hpo-names",
    chars: int = 100_000_000,
    micro_batch: int | None = None,
    folder: str | os.PathLike = "runs",
) -> pd.Series:
    """Run the thesis' experiment in full size, from the hub: one model, one method of extending.

    ``name`` is "bert-base-cased", "mobilellm-125m" or "smollm2-135m". Training settings are the
    thesis' (sections 5.2.1 and 5.2.2, Table 10): batches of 512 sequences, a text each, one epoch
    of ``chars`` characters of ``texts``, five of MedMCQA; MedMCQA's validation split, MedQA and six
    subjects of MMLU are answered. Checkpoints go to ``folder``; a run that was killed goes on from
    there. MobileLLM's own code is not run: its weights are read into the library's Llama, which has
    the same layers. Models and data sets are read at fixed commits, weights as safetensors only.

    Raises ValueError for another name or arm, ImportError without the package datasets, OSError
    when the hub cannot be read.
    """
    if name not in MODELS:
        raise ValueError(f"no model is called {name!r}: use {', '.join(MODELS)}")
    if arm not in ARMS or (arm == "continued" and name.startswith("bert")):
        raise ValueError(
            f"{name} has no arm {arm!r}: use {', '.join(ARMS)} (BERT all but the last)"
        )
    documents = list(load_corpus(texts, chars=chars, column=column))
    held_out = list(load_corpus(texts, chars=1_000_000, split="test", column=column))
    train = load_questions("medmcqa", "train", faulty="skip")
    test = [*_named("medqa", "MedQA"), *_named("medmcqa", "MedMCQA")]
    for subject in SUBJECTS:
        test += _named(f"mmlu:{subject}", f"MMLU {subject}")
    hub_id, commit, first, second, separator = MODELS[name]
    old = load_tokenizer(f"{hub_id}@{commit}")
    new = extended_by(arm, old, documents, load_corpus(terms), n_tokens)
    auto = transformers.AutoModelForMaskedLM if "bert" in name else transformers.LlamaForCausalLM
    model = auto.from_pretrained(hub_id, revision=commit, use_safetensors=True)
    length = min(2_048, configuration(name).max_position_embeddings)
    options = {"length": length, "batch_size": 512, "micro_batch": micro_batch, "seed": 42}
    options["separator"] = separator
    place = Path(folder, name, f"{arm}-{n_tokens}")
    return two_stages(
        model,
        old,
        new,
        documents,
        held_out,
        train,
        test,
        pretraining={"learning_rate": first, "folder": place / "text", "packed": False, **options},
        choices={"learning_rate": second, "folder": place / "questions", **options},
    )


def _named(name: str, subject: str) -> list[Question]:
    """A benchmark's questions with its name as the subject: the thesis averages over benchmarks."""
    return [replace(q, subject=subject) for q in load_questions(name, faulty="skip")]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
@in_one_line
def full_size(
    model: Annotated[str, typer.Argument(help="bert-base-cased, mobilellm-125m, smollm2-135m")],
    arm: Annotated[str, typer.Argument(help="none, auto, crawled, continued")],
    tokens: Annotated[int, typer.Option(help="tokens to add")] = 10_000,
    texts: Annotated[str, typer.Option(help="corpus to pretrain on")] = PUBMED,
    column: Annotated[str, typer.Option(help="the corpus' column of text")] = "content",
    terms: Annotated[str, typer.Option(help="corpus of terms, for crawled")] = "hpo-names",
    chars: Annotated[int, typer.Option(help="characters to pretrain on")] = 100_000_000,
    micro_batch: Annotated[int | None, typer.Option(help="sequences at a time on the GPU")] = None,
    folder: Annotated[str, typer.Option(help="where checkpoints are kept")] = "runs",
) -> None:
    """The thesis' experiment in full size: needs the hub, and a GPU to end in reasonable time.

    The result is kept in data/measured.
    """
    options = {"texts": texts, "column": column, "terms": terms, "chars": chars}
    options |= {"n_tokens": tokens, "micro_batch": micro_batch, "folder": folder}
    row = thesis(model, arm, **options)
    command = f"python tools/thesis.py {model} {arm} --tokens {tokens} --chars {chars}"
    table = row.to_frame().T.assign(model=model, arm=arm, added=tokens)
    record_measured(table, f"thesis_{model}_{arm}_{tokens}", command=command, seconds=row.seconds)
    print(row.to_string())


if __name__ == "__main__":
    app()
