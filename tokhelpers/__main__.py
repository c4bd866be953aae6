"""The command line: ``python -m tokhelpers COMMAND``."""

import sys
from typing import Annotated

import typer

from .notebooks import find_notebooks, run_notebooks

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.callback()
def commands() -> None:
    """Helpers for notebooks that train, extend, prune and measure tokenizers."""


@app.command(epilog="Example: python -m tokhelpers figures 08")
def figures(
    names: Annotated[list[str] | None, typer.Argument(help="notebooks, by number or name")] = None,
    store: Annotated[bool, typer.Option(help="keep the fresh outputs in the notebooks")] = False,
    workers: Annotated[int, typer.Option(help="notebooks at a time")] = 2,
) -> None:
    """Run the notebooks (all, or those named) and write their figures to figures/."""
    try:
        paths = find_notebooks(names or [])
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    failed = run_notebooks(paths, store=store, workers=workers)
    if failed:
        print(f"{len(failed)} of {len(paths)} notebooks failed", file=sys.stderr)
        raise typer.Exit(1)


@app.command(epilog="Example: python -m tokhelpers thesis smollm2-135m continued --micro-batch 16")
def thesis(
    model: Annotated[str, typer.Argument(help="bert-base-cased, mobilellm-125m, smollm2-135m")],
    arm: Annotated[str, typer.Argument(help="none, auto, crawled, continued")],
    tokens: Annotated[int, typer.Option(help="tokens to add")] = 10_000,
    texts: Annotated[str, typer.Option(help="corpus to pretrain on")] = "hf:MedRAG/pubmed",
    column: Annotated[str, typer.Option(help="the corpus' column of text")] = "content",
    terms: Annotated[str, typer.Option(help="corpus of terms, for crawled")] = "hpo-names",
    chars: Annotated[int, typer.Option(help="characters to pretrain on")] = 100_000_000,
    micro_batch: Annotated[int | None, typer.Option(help="sequences at a time on the GPU")] = None,
    folder: Annotated[str, typer.Option(help="where checkpoints are kept")] = "runs",
) -> None:
    """The thesis' experiment in full size: needs the hub, and a GPU to end in reasonable time.

    The result is kept in data/measured.
    """
    from . import experiments
    from .records import record

    options = {"texts": texts, "column": column, "terms": terms, "chars": chars}
    options |= {"n_tokens": tokens, "micro_batch": micro_batch, "folder": folder}
    try:
        row = experiments.thesis(model, arm, **options)
    except (ValueError, ImportError, OSError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    command = f"python -m tokhelpers thesis {model} {arm} --tokens {tokens} --chars {chars}"
    table = row.to_frame().T.assign(model=model, arm=arm, added=tokens)
    record(table, f"thesis_{model}_{arm}_{tokens}", command=command, seconds=row.seconds)
    print(row.to_string())


if __name__ == "__main__":
    app(prog_name="python -m tokhelpers")
