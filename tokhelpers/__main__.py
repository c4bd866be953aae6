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


if __name__ == "__main__":
    app(prog_name="python -m tokhelpers")
