"""SmolLM2-135M after changes of its vocabulary, trained on medical definitions for one epoch.

What pruning, exchanging and adding tokens (within words and across them) costs a model before training,
and how training closes the gap: `data/measured/smollm2_epoch.csv`, which 16 and 23 show. Each arm is
trained on the same definitions in the same order, tokenized by its own tokenizer. On a GPU an arm takes
about a minute, on two CPU cores about two hours. A run keeps its state in `runs/` and goes on from there.

    python tools/recovery.py [ARM ...] [--seed 0]     one epoch of these arms (default: all)
    python tools/recovery.py --table [--gpu NAME]     write the table from the arms in `runs/`
    python tools/recovery.py --tokens                 write how many tokens the test and counted texts have

The predictions were written before the first run.
"""

import json
import time
from functools import cache
from typing import Annotated

import numpy as np
import pandas as pd
import real_model
import torch
import typer
from real_model import (
    HELD,
    base,
    bits,
    definitions,
    english,
    extended,
    held_out,
    new_ids,
    paired,
    read_on,
    rows_of,
    scored,
    started,
)

import tokhelpers as th

PREDICTIONS = {
    "recovery": "with 1,000 continued tokens the gap to the unmodified model is 0.04 bits per byte after "
    "100 steps and 0.02 after the epoch; with 4,000, 0.03, with 12,000, 0.05: none recovers within the "
    "epoch at equal text. At equal compute (tokens trained on) 4,000 tokens are within 0.02. Pruned alone "
    "never differs by more than 0.005 on HPO; exchanged equals extended within 0.005. Mean and normal "
    "initialisation end 0.05 behind fvt after 100 steps and 0.02 behind it after the epoch",
    "superwords": "before training, 4,000 superword tokens cost twice as much as 4,000 tokens within "
    "words (0.25 against 0.13), since more of the text is new tokens; after the epoch the gap is 0.08 "
    "against 0.03: superwords save a sixth more tokens and cost the model more",
}
SEEDS, POINTS = (
    (0, 1, 2),
    (0, 10, 25, 50, 100, 200, 300, 400, 480),
)  # steps; 480 are nearly an epoch
ARMS = {  # method, tokens added, initialisation, orders of the text
    "none": ("none", 0, "fvt", 3),
    "continued-4000": ("continued", 4_000, "fvt", 3),
    "superwords-4000": ("superwords", 4_000, "fvt", 3),
    "pruned-4000": ("pruned", 0, "fvt", 3),
    "exchanged-4000": ("exchanged", 4_000, "fvt", 3),
    "continued-1000": ("continued", 1_000, "fvt", 2),
    "continued-12000": ("continued", 12_000, "fvt", 2),
    "superwords-1000": ("superwords", 1_000, "fvt", 2),
    "naive-4000": ("naive", 4_000, "fvt", 2),
    "mean-4000": ("continued", 4_000, "mean", 2),
    "normal-4000": ("continued", 4_000, "normal", 2),
}


@cache
def arm_tokenizer(method: str, n: int):
    """SmolLM2's tokenizer, changed as an arm changes it."""
    if method in ("none", "continued", "naive"):
        return extended("hpo", method, n)
    if method == "superwords":
        superwords = th.with_superwords(base())
        text = th.load_corpus("hpo", chars=real_model.LEARNED)
        return th.extend(superwords, th.continue_bpe(superwords, text, n))
    return real_model.exchange_tokenizer(method)


@cache
def test_texts() -> dict[str, list[str]]:
    """Held-out definitions; English and Python source, which no arm is trained on."""
    source = list(th.load_corpus("python-source", chars=1_200_000))
    code = [document[i : i + 400] for document in source for i in range(0, len(document), 8_000)]
    return {"hpo": held_out(300), "english": english()[:HELD], "python": code[:HELD]}


def train(arm: str, seed: int) -> pd.DataFrame:
    """Train one arm, and measure the bits of each test text after each of the points."""
    method, n, initialisation, _ = ARMS[arm]
    tokenizer = arm_tokenizer(method, n)
    texts = test_texts()
    rows = {name: rows_of(tokenizer, some) for name, some in texts.items()}
    added = new_ids(tokenizer) if method not in ("pruned", "exchanged") else []

    def measure(model) -> dict:
        losses = {name: scored(model, rows[name], new=added) for name in texts}
        values = {name: bits(losses[name], texts[name]).round(9).tolist() for name in texts}
        share = losses["hpo"].new.sum() / losses["hpo"].tokens.sum() if added else 0.0
        sizes = {"test_tokens": int(losses["hpo"].tokens.sum()), "probability_new": float(share)}
        return {name: json.dumps(value) for name, value in values.items()} | sizes

    return read_on(
        f"epoch-{arm}",
        lambda: started(tokenizer, initialisation),
        tokenizer,
        seed=seed,
        points=POINTS,
        measure=measure,
    )


def table() -> pd.DataFrame:
    """Each arm against the unmodified model that was trained on the same text in the same order."""
    rows = []
    for arm, (method, n, initialisation, seeds) in ARMS.items():
        for seed in range(seeds):
            for (_, run), (_, none) in zip(
                train(arm, seed).iterrows(), train("none", seed).iterrows(), strict=True
            ):
                for name in test_texts():
                    values = np.array(json.loads(run[name]))
                    more = pd.Series(values - json.loads(none[name]))
                    rows.append(
                        {"arm": arm, "method": method, "added": n, "initialisation": initialisation}
                        | {"seed": seed, "step": int(run.step), "text": name}
                        | {
                            key: int(run[key])
                            for key in ("bytes_read", "tokens_read", "test_tokens")
                        }
                        | {"bits": values.sum(), "more": more.sum(), "interval": paired(more)}
                        | {"probability_new": run.probability_new}
                    )
    return pd.DataFrame(rows)


def tokens() -> pd.DataFrame:
    """How many tokens each arm needs for each test text and the text that pruning counted."""
    rows, texts = [], test_texts() | {"counted": definitions() + english()[HELD:]}
    for arm, (method, n, _, _) in ARMS.items():
        tokenizer = arm_tokenizer(method, n)
        for name, documents in texts.items():
            rows.append((arm, name, int(th.evaluate(tokenizer, documents).tokens)))
    return pd.DataFrame(rows, columns=["arm", "text", "tokens"])


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    arms: Annotated[list[str] | None, typer.Argument(help="arms to train")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="orders of the text")] = None,
    write: Annotated[bool, typer.Option("--table", help="write the table")] = False,
    count: Annotated[bool, typer.Option("--tokens", help="write the numbers of tokens")] = False,
    gpu: Annotated[str | None, typer.Option(help="what the arms were trained on")] = None,
):
    """Train SmolLM2-135M under changed vocabularies, one epoch each."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # TF32 where there is a GPU
    if unknown := set(arms or ()) - set(ARMS):
        raise typer.BadParameter(f"{sorted(unknown)} are no arms; there are {', '.join(ARMS)}")
    if write or count:
        option, name, measure = ("tokens", "tokens", tokens) if count else ("table", "epoch", table)
        began = time.monotonic()
        rows = measure()
        th.notebook.record_measured(
            rows,
            f"smollm2_{name}",
            command=f"python tools/recovery.py --{option}",
            seconds=time.monotonic() - began,
            accelerator=gpu,
        )
        return
    try:
        for arm in arms or ARMS:
            for each in seed or range(ARMS[arm][-1]):
                train(arm, each)
    except real_model.NotDone as error:
        print(error)
        raise typer.Exit(3) from None


if __name__ == "__main__":
    app()
