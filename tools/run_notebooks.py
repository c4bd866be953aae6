"""Run the notebooks: write the figures, and store fresh outputs where asked."""

import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from tokhelpers.__main__ import in_one_line
from tokhelpers.common.files import PLACE
from tokhelpers.notebook.records import load_measured, profile, record_measured

FOLDER = PLACE / "notebooks"


def find_notebooks(names: list[str]) -> list[Path]:
    """The notebooks whose names begin with one of ``names`` (``08``, ``08_naive``), or all.

    Raises FileNotFoundError, listing what there is, for a name that fits none.

    >>> find_notebooks(["00"])[0].name
    '00_start_here.ipynb'
    """
    notebooks = sorted([*FOLDER.glob("[0-9]*.ipynb"), *FOLDER.glob("solutions/[0-9]*.ipynb")])
    if not notebooks:
        raise FileNotFoundError(
            f"there are no notebooks in {FOLDER}: they stand in a checkout of tokhelpers, clone it"
        )
    for name in names:
        if not any(path.name.startswith(name) for path in notebooks):
            there = ", ".join(path.stem for path in notebooks)
            raise FileNotFoundError(f"no notebook begins with {name!r}; there are {there}")
    return [path for path in notebooks if not names or path.name.startswith(tuple(names))]


def environment() -> dict[str, str]:
    """What the notebooks' kernels are told, so that every run prints and draws the same.

    Sets come in one order, widgets in their plain form, and the functions of lesson 01 from the
    textbook, whatever a reader has kept in mytok.py. In the quick profile torch and numpy
    also compute in steps that all processors of a kind have (AVX2, from 2013 on; SSE where that is
    fast enough): otherwise the widest that one has, and its vendor, decide the last digits of what a
    model gives, and of a fitted line. The longer profiles, which also take times, compute in the
    fastest way.

    >>> environment()["PYTHONHASHSEED"]
    '0'
    """
    variables = {"PYTHONHASHSEED": "0", "TOKHELPERS_WIDGETS": "off", "TOKHELPERS_MYTOK": "off"}
    if profile().name == "quick":
        variables |= {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "AVX2"}
        variables |= {"OPENBLAS_CORETYPE": "Nehalem"}  # SSE: what 64-bit x86 has had since 2008
    return variables


def run_notebook(path: Path, *, store: bool = False) -> float:
    """Run one notebook in a kernel of its own and return the seconds; ``store`` keeps its outputs.

    Raises nbclient's CellExecutionError where a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    began = time.monotonic()
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook,
        timeout=1800,
        kernel_name="python3",
        resources=where,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],  # the kernel warns that it speaks over a local port
    ).execute(env={**os.environ, **environment()})
    if store:
        describe_pictures(notebook)
        notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
        nbformat.write(notebook, path)
    return time.monotonic() - began


def describe_pictures(notebook) -> None:
    """Give each picture its alternative text from ``data/figures.csv``, by the name it is saved under."""
    listed = pd.read_csv(PLACE / "data" / "figures.csv").set_index("figure").shows
    for cell in notebook.cells:
        names = [name for name in FIGURE.findall(cell.source) if name in listed]
        for output in cell.get("outputs", []):
            if names and "image/png" in output.get("data", {}):
                output.metadata["image/png"] = {"alt": listed[names[0]]}


FIGURE = re.compile(r'"(\d\d_[a-z0-9_]+)"')
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def run_notebooks(
    paths: list[Path], *, store: bool = False, workers: int = 2
) -> dict[Path, float | None]:
    """Run notebooks, ``workers`` at a time; returns the seconds each took, None for a failed one.

    Those that take longest come first, so that no worker ends long before the others. Why one
    failed goes to stderr, and so does the progress.
    """
    began, seconds, expected = time.monotonic(), dict.fromkeys(paths), expected_seconds(paths)
    all_of_it = left = sum(expected.values())
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        longest_first = sorted(paths, key=lambda path: -expected[path])
        runs = {pool.submit(run_notebook, path, store=store): path for path in longest_first}
        _progress(0, len(paths), f"about {left / workers / 60:.0f} minutes")
        for done, run in enumerate(as_completed(runs), 1):
            path = runs[run]
            left -= expected[path]
            name = path.relative_to(FOLDER).with_suffix("")
            try:
                seconds[path] = run.result()
                took = f"{name} in {seconds[path]:.0f} s"
            except Exception as error:  # the others go on
                took = f"{name} failed"
                print(f"{path.name}: {error}", file=sys.stderr)
            elapsed = time.monotonic() - began
            more = elapsed * left / (all_of_it - left)
            _progress(done, len(paths), f"{elapsed:.0f} s, about {more:.0f} s left, last {took}")
    return seconds


def expected_seconds(paths: list[Path]) -> dict[Path, int]:
    """How long each took when times were last kept (`make times`); else half a minute."""
    stored = load_measured("notebooks").set_index("notebook").seconds
    return {path: max(1, int(stored.get(path.stem, 30))) for path in paths}


def _progress(done: int, of: int, message: str) -> None:
    """One line, rewritten on a terminal; a line a notebook where the output is a file."""
    line = f"notebook {done} of {of}, {message}"
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="\n" if done == of else "", file=sys.stderr, flush=True)
    elif done:
        print(line, file=sys.stderr, flush=True)


def keep_times(seconds: dict, workers: int) -> None:
    """Record how long each notebook took."""
    rows = [(path.stem, round(took)) for path, took in seconds.items()]
    table = pd.DataFrame(rows, columns=["notebook", "seconds"])
    command = f"python tools/run_notebooks.py --times --workers {workers}"
    record_measured(table, "notebooks", command=command, seconds=sum(seconds.values()))


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
@in_one_line
def figures(
    names: Annotated[list[str] | None, typer.Argument(help="notebooks, by number or name")] = None,
    store: Annotated[bool, typer.Option(help="keep the fresh outputs in the notebooks")] = False,
    workers: Annotated[int, typer.Option(help="notebooks at a time")] = 2,
    times: Annotated[bool, typer.Option(help="keep how long each chapter took")] = False,
) -> None:
    """Run the chapters (all, or those named) and write their figures; --store: the solutions, too."""
    if times and names:
        raise ValueError("the times are kept for all notebooks together: leave the names out")
    paths = find_notebooks(names or [])
    if times or not store:  # the solutions make no figures
        paths = [path for path in paths if path.parent.name != "solutions"]
    seconds = run_notebooks(paths, store=store, workers=workers)
    if failed := [path for path in paths if seconds[path] is None]:
        print(f"{len(failed)} of {len(paths)} notebooks failed", file=sys.stderr)
        raise typer.Exit(1)
    if times:
        keep_times(seconds, workers)


if __name__ == "__main__":
    app()
