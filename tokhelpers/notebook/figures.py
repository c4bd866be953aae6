"""What figures share: one style, labels on lines, saving with their numbers; and shown source."""

import ast
import inspect
import os
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from ..tokenizer.files import CHECKOUT, write_all

# Okabe and Ito's palette without its yellow: colour-blind readers can tell the colours apart, and
# all are dark enough to print.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#444444"]


def set_style() -> None:
    """Set the style of every figure: fonts that print at column width, direct labels, no frame.

    >>> set_style()
    """
    import matplotlib.pyplot as plt

    plt.style.use(Path(__file__).with_suffix(".mplstyle"))
    plt.rc("axes", prop_cycle=plt.cycler(color=COLOURS))


def save_figure(figure, table: pd.DataFrame, name: str, *, conditions: str = "") -> None:
    """Write a figure as ``figures/NAME.svg`` and the numbers it shows as ``figures/NAME.csv``.

    ``name`` is ``NN_topic``. ``conditions`` says in a line under the axes what a reader of the figure
    alone must know: the text learned from, the text measured on, the tokenizer. The folder is the
    checkout's ``figures`` (without one, the working folder's), or ``TOKHELPERS_FIGURES``. Numbers
    have six digits. The file is cut to what is drawn, as the notebook's picture is: text that runs
    out of the canvas makes it wider, and is not lost. Raises ValueError for any other name and for
    a table without rows.

    >>> save_figure(None, pd.DataFrame(), "compression")
    Traceback (most recent call last):
    ValueError: a figure is called NN_topic, such as 08_compression; got 'compression'
    """
    if not (name[:2].isdigit() and name[2:3] == "_" and name.replace("_", "").isalnum()):
        raise ValueError(f"a figure is called NN_topic, such as 08_compression; got {name!r}")
    if not len(table):
        raise ValueError(f"the figure {name} has no numbers: give the table that it shows")
    if conditions:
        letters = round(16 * figure.get_figwidth())  # at 8 points an inch holds about so many
        lines = textwrap.fill(" ".join(conditions.split()), letters)
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=8, color="#555555")
    folder = Path(os.environ.get("TOKHELPERS_FIGURES", (CHECKOUT or Path.cwd()) / "figures"))
    folder.mkdir(parents=True, exist_ok=True)
    numbers = table.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()
    same = {"metadata": {"Date": None, "Creator": None}}  # nothing that differs between two runs
    drawing = partial(figure.savefig, format="svg", bbox_inches="tight", **same)
    write_all({folder / f"{name}.svg": drawing, folder / f"{name}.csv": numbers})


def label_lines(axes, *, gap: float = 0.04) -> None:
    """Write each line's label at its right end, in its colour, in place of a legend.

    ``gap`` is the least distance between labels, as a share of the axes' height.

    >>> import matplotlib.pyplot as plt
    >>> _, axes = plt.subplots()
    >>> _ = axes.plot([1, 2], [3, 4], label="rising")
    >>> label_lines(axes)
    >>> axes.texts[0].get_text()
    'rising'
    """
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    low, high = axes.get_ylim()
    height = float("-inf")
    for line in sorted(lines, key=lambda line: line.get_ydata()[-1]):
        height = max(line.get_ydata()[-1], height + gap * (high - low))
        axes.annotate(
            line.get_label(),
            (line.get_xdata()[-1], height),
            xytext=(6, 0),
            textcoords="offset points",
            color=line.get_color(),
            va="center",
            fontsize="small",
            annotation_clip=False,
        )


def show_source(function: Callable):
    """Show a function's real source in a notebook cell, without its docstring.

    >>> print(show_source(set_style).data.splitlines()[1])
    def set_style() -> None:
    """
    from IPython.display import Markdown

    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    node = ast.parse(source).body[0]
    if ast.get_docstring(node) is not None:
        lines = source.splitlines()
        del lines[node.body[0].lineno - 1 : node.body[0].end_lineno]
        source = "\n".join(lines)
    return Markdown(f"```python\n{source.rstrip()}\n```")
