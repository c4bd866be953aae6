"""Run the notebooks: write the figures, and store fresh outputs where asked."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from .files import PLACE
from .profiles import profile

FOLDER = PLACE / "notebooks"


def find_notebooks(names: list[str]) -> list[Path]:
    """The notebooks whose names begin with one of ``names`` (``08``, ``08_naive``), or all.

    Raises FileNotFoundError, listing what there is, for a name that fits none.

    >>> find_notebooks(["00"])[0].name
    '00_start_here.ipynb'
    """
    found = sorted([*FOLDER.glob("[0-9]*.ipynb"), *FOLDER.glob("solutions/[0-9]*.ipynb")])
    if not found:
        raise FileNotFoundError(
            f"there are no notebooks in {FOLDER}: they stand in a checkout of tokhelpers, clone it"
        )
    for name in names:
        if not any(path.name.startswith(name) for path in found):
            there = ", ".join(path.stem for path in found)
            raise FileNotFoundError(f"no notebook begins with {name!r}; there are {there}")
    return [path for path in found if not names or path.name.startswith(tuple(names))]


def environment() -> dict[str, str]:
    """What the notebooks' kernels are told, so that every run prints and draws the same.

    Sets come in one order, and widgets in their plain form. In the quick profile torch and numpy
    also compute in steps that all processors of a kind have: otherwise the widest that one has, and
    its vendor, decide the last digits of what a model learns, and of a fitted line. Notebooks that
    train take 1.2 to 1.6 times as long for it; the longer profiles, which also take times, compute
    in the fastest way.

    >>> environment()["PYTHONHASHSEED"]
    '0'
    """
    told = {"PYTHONHASHSEED": "0", "TOKHELPERS_WIDGETS": "off"}
    if profile().name == "quick":
        told |= {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
        told |= {"OPENBLAS_CORETYPE": "Nehalem"}  # SSE: what 64-bit x86 has had since 2008
    return told


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
        notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
        nbformat.write(notebook, path)
    return time.monotonic() - began


KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def run_notebooks(
    paths: list[Path], *, store: bool = False, workers: int = 2
) -> dict[Path, float | None]:
    """Run notebooks, ``workers`` at a time; returns the seconds each took, None for a failed one.

    Why one failed goes to stderr, and so does the progress.
    """
    began, seconds = time.monotonic(), dict.fromkeys(paths)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        runs = {pool.submit(run_notebook, path, store=store): path for path in paths}
        _progress(0, len(paths), began, "")
        for done, run in enumerate(as_completed(runs), 1):
            path = runs[run]
            name = path.relative_to(FOLDER).with_suffix("")
            try:
                seconds[path] = run.result()
                took = f"{name} in {seconds[path]:.0f} s"
            except Exception as error:  # the others go on
                took = f"{name} failed"
                print(f"{path.name}: {error}", file=sys.stderr)
            _progress(done, len(paths), began, took)
    return seconds


def _progress(done: int, of: int, began: float, last: str) -> None:
    """One line, rewritten on a terminal; a line a notebook where the output is a file."""
    line = f"notebook {done} of {of}, {time.monotonic() - began:.0f} s elapsed"
    line += f", last {last}" if last else ""
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="\n" if done == of else "", file=sys.stderr, flush=True)
    elif done:
        print(line, file=sys.stderr, flush=True)
