"""What figures share: a seaborn theme, direct labels, saving with their numbers; and shown source."""

import ast
import inspect
import os
import textwrap
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ..common.extras import requires
from ..common.files import CHECKOUT, write_all

# Okabe and Ito's colour-blind-safe palette without its yellow, which is too light to print.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#444444"]
LINE_HEIGHT = 0.15  # inches, of a label
PAGE_WIDTH = 7.0  # inches; wider figures are scaled down on the page, and their letters with them
THEME = {
    "figure.figsize": (PAGE_WIDTH, 3.6),
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "tokhelpers",  # IDs in the file depend on the figure alone
    "font.sans-serif": ["Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans"],
    # sizes that can be read at column width
    **dict.fromkeys(["font.size", "axes.labelsize", "axes.titlesize"], 10.8),
    **dict.fromkeys(["legend.fontsize", "xtick.labelsize", "ytick.labelsize"], 9.9),
    "legend.title_fontsize": 10.8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.titleweight": "bold",
    "figure.titlesize": 12,
    # two axes in dark grey on a light grid, no frame
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(["text.color", "axes.edgecolor", "axes.labelcolor"], "0.15"),
    "axes.linewidth": 1.25,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 1.0,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
}


def set_style(*, short_errors: bool = False) -> None:
    """Set the seaborn theme of all figures: colour-blind-safe, light, readable at column width.

    Tables show texts of up to 400 characters. With ``short_errors`` a notebook shows only the
    message of an error from then on, without the traceback (``%xmode Context`` restores it).

    >>> set_style()
    """
    with requires("notebooks"):
        import seaborn

    seaborn.set_theme(style="ticks", palette=COLOURS, rc=THEME)
    pd.set_option("display.max_colwidth", 400)
    # FacetGrid replaces the constrained layout by its own; save_figure restores it
    warnings.filterwarnings("ignore", "The figure layout has changed to tight", UserWarning)
    if short_errors:
        from IPython import get_ipython

        if shell := get_ipython():  # None outside IPython
            shell.InteractiveTB.set_mode("Minimal")


def panel_size(columns: int, height: float = 2.8) -> dict[str, float]:
    """Return ``height`` and ``aspect`` with which the panels of a FacetGrid fill the page's width.

    ``columns`` is the number of panels side by side, ``height`` that of each in inches. For
    figure-level functions: ``sns.relplot(..., col="model", **panel_size(3))``.

    >>> panel_size(2)
    {'height': 2.8, 'aspect': 1.25}
    """
    return {"height": height, "aspect": PAGE_WIDTH / columns / height}


def save_figure(figure, table: pd.DataFrame, name: str, *, conditions: str = "") -> None:
    """Save a figure as ``figures/NAME.svg`` and the numbers it shows as ``figures/NAME.csv``.

    ``figure`` is a matplotlib Figure or a seaborn FacetGrid; ``name`` is ``NN_topic``. A title over
    several panels (``suptitle``) is moved to the left, where that of one panel stands. ``conditions``
    is a line below the axes with what a reader needs to know: training text, test text, tokenizer.
    The folder is the checkout's ``figures`` (otherwise the working folder's), or
    ``TOKHELPERS_FIGURES``. Numbers are rounded to six digits. Raises ValueError for another name and
    for an empty table.

    >>> save_figure(None, pd.DataFrame(), "compression")
    Traceback (most recent call last):
    ValueError: a figure is called NN_topic, such as 08_compression; got 'compression'
    """
    if not (name[:2].isdigit() and name[2:3] == "_" and name.replace("_", "").isalnum()):
        raise ValueError(f"a figure is called NN_topic, such as 08_compression; got {name!r}")
    if not len(table):
        raise ValueError(f"figure {name} has an empty table: pass the numbers that it shows")
    if hasattr(figure, "facet_axis"):  # a FacetGrid
        _use_constrained_layout(figure)
    figure = figure.figure  # of a Figure, itself
    if title := figure.get_suptitle():
        figure.suptitle(title, x=0.01, ha="left")
    if conditions:
        width = round(16 * figure.get_figwidth())  # characters of 8 points
        lines = textwrap.fill(" ".join(conditions.split()), width)
        figure.supxlabel(lines, x=0.01, ha="left", fontsize=8, color="#555555")
    folder = Path(os.environ.get("TOKHELPERS_FIGURES", (CHECKOUT or Path.cwd()) / "figures"))
    folder.mkdir(parents=True, exist_ok=True)
    numbers = table.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()
    metadata = {"Date": None, "Creator": None}  # nothing that differs between two runs
    write = partial(figure.savefig, format="svg", bbox_inches="tight", metadata=metadata)
    write_all({folder / f"{name}.svg": write, folder / f"{name}.csv": numbers})


def _use_constrained_layout(grid) -> None:
    """Lay out a FacetGrid anew, with room for its title, its legend and labels beside its lines."""
    with requires("notebooks"):
        import seaborn

    if grid.legend is not None and grid.legend.axes is None and grid.legend.figure is not None:
        seaborn.move_legend(grid, "outside right upper")
    grid.figure.set_layout_engine("constrained")


def label_lines(plot, *, gap: float | None = None) -> None:
    """Label each line at its right end, in its colour, in place of a legend.

    ``plot`` is an Axes, or a seaborn FacetGrid, each of whose panels is labelled. ``gap`` is the
    minimum distance between labels, as a share of the axes' height (default: the height of a line of
    text). Lines of seaborn, which carry no label, take that of the legend entry with their colour
    and dashes.

    >>> import matplotlib.pyplot as plt
    >>> _, axes = plt.subplots()
    >>> _ = axes.plot([1, 2], [3, 4], label="rising")
    >>> label_lines(axes)
    >>> axes.texts[0].get_text()
    'rising'
    """
    panels = list(np.atleast_1d(plot.axes).flat)
    legends = [getattr(plot, "legend", None), *(axes.get_legend() for axes in panels)]
    legends = [legend for legend in legends if hasattr(legend, "legend_handles")]
    labels = {
        _look(handle): text.get_text()
        for legend in legends
        for handle, text in zip(legend.legend_handles, legend.texts, strict=True)
    }
    for legend in legends:
        legend.remove()
    for axes in panels:
        _label_panel(axes, labels, gap)


def _look(line) -> tuple:
    """The colour and dashes of a line or of its legend entry."""
    from matplotlib.colors import to_hex

    colour = line.get_color() if hasattr(line, "get_color") else line.get_facecolor()
    return to_hex(colour), getattr(line, "_unscaled_dash_pattern", None)


def _label_panel(axes, labels: dict[tuple, str], gap: float | None) -> None:
    inches = axes.get_position().height * axes.figure.get_figheight()
    gap = LINE_HEIGHT / inches if gap is None else gap
    axes.get_ylim()  # computes the limits, which transData does not
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = []
    for line in axes.get_lines():
        label = line.get_label()
        label = labels.get(_look(line), "") if label.startswith("_") else label
        points = np.column_stack([line.get_xdata(orig=False), line.get_ydata(orig=False)])
        points = points[np.isfinite(points).all(axis=1)]
        if label and len(points):
            end = points[points[:, 0].argmax()]
            ends.append((to_axes.transform(end)[1], end[0], label, line.get_color()))
    height = -np.inf
    for y, x, label, colour in sorted(ends):
        height = max(y, height + gap)
        at = to_axes.inverted().transform((0, height))[1]
        style = {"color": colour, "va": "center", "fontsize": "small", "annotation_clip": False}
        axes.annotate(label, (x, at), xytext=(6, 0), textcoords="offset points", **style)


def show_source(function: Callable):
    """Show a function's source code in a notebook cell, without its docstring.

    >>> print(show_source(set_style).data.splitlines()[1])
    def set_style(*, short_errors: bool = False) -> None:
    """
    from IPython.display import Markdown

    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    node = ast.parse(source).body[0]
    if ast.get_docstring(node) is not None:
        lines = source.splitlines()
        del lines[node.body[0].lineno - 1 : node.body[0].end_lineno]
        source = "\n".join(lines)
    return Markdown(f"```python\n{source.rstrip()}\n```")
