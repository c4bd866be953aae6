"""The thesis' experiment with its own models and texts: ``python tools/thesis.py MODEL ARM``.

What follows the thesis, by section:

- supplement tokenizers by a minimum frequency, all their new tokens (4.2; Tables 4 and 5): for
  "auto" from half of the texts (4.2.1), for "crawled" from a list of terms;
- appended by Algorithms 7 to 9 (4.3);
- new embeddings drawn with the mean and covariance of the old ones; new rows and biases of a head
  that is not shared drawn with the standard deviation of Table 8 (5.1.3);
- a sequence per text, cut off at 512 or 2,048 tokens, batches of 512, one epoch, seed 42 (5.2.1);
  AdamW and its schedule (5.2.2), peak rates of Table 10; weights, averages and all computing in
  bfloat16 (5.2.3);
- five epochs of MedMCQA's training split, causal with explanations, or a classifier's (5.1.2);
- MedQA, MedMCQA's validation split and six subjects of MMLU (6.1), and the row "untrained".

What cannot be had: PMC's articles by section, so that texts are PubMed's abstracts; the list of terms
crawled from Merriam-Webster, in whose place stand HPO's names; the wording of the instruction, which
is ours. Texts and their ids are kept in memory, so that ``--words`` is 20 million unless more are
asked for; the thesis reads 3.8 billion (5.1.1), and nothing below that is its full size. How it reads
a causal model's choice is not said there. The arm "continued" (with rows as means of their pieces) is
not the thesis' but Purason's and others'.
"""

import hashlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import pandas as pd
import torch
import transformers
import typer
from choices import answer_accuracy, answer_questions, as_classifier, two_stages
from published_questions import load_questions
from questions import Question
from tokenizers import Tokenizer, models

import tokhelpers as th
from tokhelpers.__main__ import in_one_line


class Setup(NamedTuple):
    """A model of the thesis: where it is, how it is loaded, and Table 8's standard deviation."""

    name: str  # in the thesis' tables
    hub_id: str
    commit: str
    kind: type
    length: int
    separator: str | None
    deviation: float
    unused: tuple[str, ...] = ("nothing",)  # weights of heads that are not trained on


MODELS = {
    "bert-base-cased": Setup(
        "BERT",
        "google-bert/bert-base-cased",
        "cd5ef92a9fb2f889e972770a36d4ed042daf221e",
        transformers.BertForMaskedLM,
        512,
        None,
        1 / 50,
        ("cls.seq_relationship", "bert.pooler"),
    ),
    "mobilellm-125m": Setup(
        "MobileLLM",
        "facebook/MobileLLM-125M",
        "f6820a829b347aaa6674a705c82be3db47b1f9ee",
        transformers.LlamaForCausalLM,
        2_048,
        "</s>",
        1 / 50,
    ),
    "smollm2-135m": Setup(
        "SmolLM2",
        "HuggingFaceTB/SmolLM2-135M",
        "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
        transformers.LlamaForCausalLM,
        2_048,
        "<|endoftext|>",
        1 / 24,
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
ARMS = ("untrained", "none", "auto", "crawled", "continued")
LETTERS_PER_WORD = 7  # with the space after it: how many characters to read for so many words


def extended_by(
    arm: str, tokenizer: Tokenizer, texts: list[str], terms: Iterable[str], threshold: int
) -> Tokenizer:
    """Extend a tokenizer by one of the methods that are compared.

    - "none", "untrained": the tokenizer as it is;
    - "auto": all new tokens of a supplement tokenizer trained on half of ``texts`` with this minimum
      frequency, with merges by the thesis' algorithms;
    - "crawled": the same with a supplement tokenizer trained on ``terms``;
    - "continued": tokens that occur as often, learned on the same half on top of the tokenizer's own
      (BPE only).

    Raises ValueError for another name.

    Source: thesis, sections 4.2 and 4.3 (Auto, Crawled); Purason et al. 2025, section 3.1 (continued).

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    >>> extended_by("continued", base, ["bat bat bat", "zz zz zz zz"], [], 3).encode(" bat").tokens
    ['Ġbat']
    """
    if arm not in ARMS:
        raise ValueError(f"no arm is called {arm!r}: use {', '.join(ARMS)}")
    if arm in ("untrained", "none"):
        return tokenizer
    read = texts[: (len(texts) + 1) // 2] if arm != "crawled" else terms
    with warnings.catch_warnings(action="ignore"):  # of a text that yields fewer than the most
        if arm == "continued":
            found = th.continue_bpe(tokenizer, read, 100_000, min_frequency=threshold)
            return th.extend(tokenizer, found)
        supplement = _supplement(tokenizer, read, threshold)
        return th.extend(tokenizer, th.naive_extension(tokenizer, supplement, method="thesis"))


def _supplement(tokenizer: Tokenizer, texts: Iterable[str], threshold: int) -> Tokenizer:
    """A tokenizer of the same family; thesis, section 4.1.1.3, keeps digits and punctuation alone."""
    alone = {"isolate_digits": True, "isolate_punctuation": True}
    rules = {"normalizer": tokenizer.normalizer, "pre_tokenizer": tokenizer.pre_tokenizer}
    how = {"vocab_size": 200_000, "min_frequency": threshold, **alone}
    if isinstance(tokenizer.model, models.WordPiece):
        return th.train_wordpiece(texts, **how, **rules)
    if th.TokenizerSpec.from_tokenizer(tokenizer).byte_level:
        return th.train_byte_level_bpe(texts, **how, **rules)
    return th.train_sentencepiece_bpe(texts, **how)


def with_new_rows(model, old: Tokenizer, new: Tokenizer, deviation: float, seed: int):
    """Give a model rows for new tokens as the thesis starts them (section 5.1.3, Table 8)."""
    made = th.transfer_embeddings(model, old, new, init="normal", seed=seed, max_padding=None)
    ids = th.plan_transfer(model, old, new, max_padding=None).new_ids
    head = made.get_output_embeddings()
    draw = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for weights in (head.weight, getattr(head, "bias", None)):
            if weights is not None and weights is not made.get_input_embeddings().weight:
                drawn = torch.randn((len(ids), *weights.shape[1:]), generator=draw)
                weights[ids] = (deviation * drawn).to(weights)
    return made


def configured(setup: Setup):
    """The configuration of a model; MobileLLM's says in a word of its own that its head is shared."""
    found = setup.kind.config_class.from_pretrained(setup.hub_id, revision=setup.commit)
    if hasattr(found, "share_embedding"):
        found.tie_word_embeddings = bool(found.share_embedding)
    return found


def loaded(setup: Setup, dtype: torch.dtype):
    """Load a model of the thesis, every weight in its place, and of the published size."""
    options = {"revision": setup.commit, "config": configured(setup), "dtype": dtype}
    found = th.models.load_model(setup.hub_id, setup.kind, unused=setup.unused, **options)
    sizes = (
        th.notebook.load_published("thesis_table_09")
        .query("extension == 'none'")
        .set_index("model")
    )
    sizes = sizes[sizes["head"] != "text-classification"].parameters
    size = sum(p.numel() for p in found.parameters())
    if size != sizes[setup.name]:
        raise ValueError(
            f"{setup.hub_id} has {size:,} parameters, and Table 9 says {sizes[setup.name]:,}: the "
            "file is another model's"
        )
    return found


def thesis(
    name: str,
    arm: str,
    *,
    threshold: int = 10_000,
    texts: str = PUBMED,
    column: str = "content",
    terms: str = "hpo-names",
    words: int = 20_000_000,
    dtype: str = "bfloat16",
    seed: int = 42,
    folder: str | os.PathLike = "runs",
) -> pd.Series:
    """Run the thesis' experiment: one model, one method of extending, one seed.

    ``dtype`` is that of weights, gradients, AdamW's averages and computing; answers are scored in
    float32. States are kept in ``folder``, under a mark of all that was asked for; a run that was
    killed goes on from there. MobileLLM's own
    code is not run: its weights are read into the library's Llama, which has the same layers, with
    the shared embedding as head. Models and data sets are read at fixed commits.

    Raises ValueError for another name or arm, and for bfloat16 on a device that does not have it;
    ImportError without the package datasets, OSError when the hub cannot be read.
    """
    if name not in MODELS:
        raise ValueError(f"no model is called {name!r}: use {', '.join(MODELS)}")
    if arm not in ARMS or (arm == "continued" and name.startswith("bert")):
        raise ValueError(
            f"{name} has no arm {arm!r}: use {', '.join(ARMS)} (BERT all but the last)"
        )
    _check_dtype(dtype)
    setup, chars = MODELS[name], words * LETTERS_PER_WORD
    test = [*_named("medqa", "MedQA"), *_named("medmcqa", "MedMCQA")]
    for subject in SUBJECTS:
        test += _named(f"mmlu:{subject}", f"MMLU {subject}")
    old = th.load_tokenizer(f"{setup.hub_id}@{setup.commit}")
    model = loaded(setup, getattr(torch, dtype))
    if arm == "untrained":
        return _answers_alone(model, old, test, setup)
    documents = list(th.load_corpus(texts, chars=chars, column=column))
    held_out = list(th.load_corpus(texts, chars=1_000_000, split="test", column=column))
    train = load_questions("medmcqa", "train", faulty="skip")
    new = extended_by(arm, old, documents, th.load_corpus(terms), threshold)
    if arm == "continued":
        model = th.transfer_embeddings(model, old, new, max_padding=None)
    else:
        model = with_new_rows(model, old, new, setup.deviation, seed)
    options = {"length": setup.length, "separator": setup.separator, "seed": seed}
    rates = th.notebook.load_published("thesis_table_10").set_index("model").loc[setup.name]
    mark = hashlib.sha256(repr([texts, column, terms, words, dtype]).encode()).hexdigest()[:8]
    place = Path(folder, name, f"{arm}-{threshold}-seed-{seed}-{mark}")
    stages = {
        stage: {**options, "learning_rate": float(rate), "file": place / f"{stage}.safetensors"}
        for stage, rate in zip(("pretraining", "choices"), rates, strict=False)
    }
    return two_stages(model, new, new, documents, held_out, train, test, **stages)


def _check_dtype(dtype: str) -> None:
    if dtype not in ("bfloat16", "float32"):
        raise ValueError(f"dtype is {dtype!r}: use bfloat16, as the thesis, or float32")
    real = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    if dtype == "bfloat16" and not real:
        raise ValueError("no device here has bfloat16 in hardware: say --dtype float32")


def _answers_alone(model, tokenizer, test: list[Question], setup: Setup) -> pd.Series:
    if setup.kind is transformers.BertForMaskedLM:
        model = as_classifier(model, 4)
    options = {"length": setup.length, "separator": setup.separator}
    answers = answer_questions(model, tokenizer, test, **options)
    return pd.Series({"seconds": 0.0, "tied": answers.tied.mean(), **answer_accuracy(answers)})


def _named(name: str, subject: str) -> list[Question]:
    """A benchmark's questions with its name as the subject: the thesis averages over benchmarks."""
    found = load_questions(name, faulty="skip")
    return [replace(question, subject=subject) for question in found]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(help=__doc__)
@in_one_line
def command(
    model: Annotated[str, typer.Argument(help=", ".join(MODELS))],
    arm: Annotated[str, typer.Argument(help=", ".join(ARMS))],
    threshold: Annotated[
        int, typer.Option(help="minimum frequency: 1000 to 100000 for auto, 1 to 10 for crawled")
    ] = 10_000,
    texts: Annotated[str, typer.Option(help="corpus to pretrain on")] = PUBMED,
    column: Annotated[str, typer.Option(help="the corpus' column of text")] = "content",
    terms: Annotated[str, typer.Option(help="corpus of terms, for crawled")] = "hpo-names",
    words: Annotated[int, typer.Option(help="words to pretrain on, about")] = 20_000_000,
    dtype: Annotated[str, typer.Option(help="bfloat16 (as the thesis) or float32")] = "bfloat16",
    seed: Annotated[list[int], typer.Option(help="give it several times for several runs")] = (42,),
    folder: Annotated[str, typer.Option(help="where checkpoints are kept")] = "runs",
) -> None:
    """Run the experiment for each seed and keep the results in data/measured."""
    options = {"texts": texts, "column": column, "terms": terms, "words": words, "dtype": dtype}
    options |= {"threshold": threshold, "folder": folder}
    rows = [thesis(model, arm, seed=s, **options).to_frame().T.assign(seed=s) for s in seed]
    table = pd.concat(rows).assign(model=model, arm=arm, threshold=threshold, words=words)
    called = f"python tools/thesis.py {model} {arm} --threshold {threshold} --words {words}"
    seconds = float(table.seconds.sum())
    th.notebook.record_measured(
        table, f"thesis_{model}_{arm}_{threshold}", command=called, seconds=seconds
    )
    print(table.T.to_string())


if __name__ == "__main__":
    app()
