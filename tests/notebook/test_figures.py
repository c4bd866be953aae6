"""Figures as they are stored: nothing is cut off, letters can be read, titles say what is true."""

import re
import subprocess
import sys
from functools import cache
from math import cos, radians, sin
from unittest.mock import Mock
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from test_project import FIGURES, rows

import tokhelpers as th

SVG = "{http://www.w3.org/2000/svg}"
COLUMN = 468  # points: the text of a page of A4 or Letter is 6.5 inches wide
DRAWN = sorted(FIGURES.glob("*.svg"))
READABLE = ("07", "08", "09", "10", "13", "18", "19", "20", "22")  # held to 7 points
each_figure = pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)


@cache
def extent(text, size, weight):
    """Left, right, bottom and top of a text that begins at the origin, by its curves' corners."""
    font = FontProperties(family="DejaVu Sans", weight=weight)
    corners = TextPath((0, 0), text, size, prop=font).vertices
    return np.array([corners.min(axis=0), corners.max(axis=0)]).T.ravel()


def texts(path):
    """Each text of a figure: what it says, its size, whether it is bold, its corners."""
    for node in ElementTree.parse(path).iter(f"{SVG}text"):
        style, turn = node.get("style"), node.get("transform", "")
        if style is None:  # a formula, such as a power of ten, is placed letter by letter
            continue
        size = float(re.search(r"([\d.]+)px", style)[1])
        weight = "bold" if re.search(r"\b(bold|[6-9]00)\b", style) else "normal"
        move = re.search(r"translate\(([-\d.]+) ([-\d.]+)\)", turn)
        x, y = map(float, move.groups() if move else (node.get("x", 0), node.get("y", 0)))
        angle = radians(float(re.search(r"rotate\(([-\d.]+)|$", turn)[1] or 0))
        said = "".join(node.itertext())
        left, right, low, high = extent(said, size, weight)
        anchor = {"middle": right / 2, "end": right}.get(
            (re.search(r"text-anchor: (\w+)|$", style))[1], 0
        )
        corners = [(a - anchor, -b) for a in (left, right) for b in (low, high)]
        turned = [(x + a * cos(angle) - b * sin(angle), y + a * sin(angle) + b * cos(angle))
                  for a, b in corners]  # fmt: skip
        yield said, size, weight, np.array(turned)


def canvas(path):
    """The width and height of a figure, in points."""
    return np.array(ElementTree.parse(path).getroot().get("viewBox").split()[2:], float)


def test_text_beyond_the_canvas_is_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_FIGURES", str(tmp_path))
    figure = Figure(figsize=(3, 2))
    figure.text(0.8, 0.5, "this text runs out of a canvas of three inches")
    th.notebook.save_figure(
        figure, pd.DataFrame({"x": [1]}), "08_wide", conditions="several words " * 20
    )
    path = tmp_path / "08_wide.svg"
    assert canvas(path)[0] > 3 * 72
    assert all((box > -1).all() and (box < canvas(path) + 1).all() for *_, box in texts(path))


@each_figure
def test_no_text_of_a_stored_figure_is_cut_off(path):
    for said, *_, box in texts(path):
        assert (box > -2).all() and (box < canvas(path) + 2).all(), said


@pytest.mark.parametrize(
    "path", [p for p in DRAWN if p.stem[:2] in READABLE], ids=lambda path: path.stem
)
def test_letters_have_seven_points_at_column_width(path):
    scale = min(1, COLUMN / canvas(path)[0])
    small = {said: size * scale for said, size, *_ in texts(path) if size * scale < 6.95}
    assert not small


def seaborn_lines():
    """A FacetGrid of two panels, each with two lines that end at nearly the same height."""
    import seaborn as sns

    th.notebook.set_style()
    table = pd.DataFrame({"x": [0, 1] * 4, "y": [1, 2, 1.5, 2.01, 1, 3, 2, 4]})
    table = table.assign(method=["one", "one", "two", "two"] * 2, panel=["A"] * 4 + ["B"] * 4)
    options = {"hue": "method", "style": "method", "col": "panel", "kind": "line"}
    return table, sns.relplot(table, x="x", y="y", **options, **th.notebook.panel_size(2))


def test_short_errors_are_asked_of_the_shell_of_a_notebook(monkeypatch):
    th.notebook.set_style(short_errors=True)  # outside IPython there is no shell to ask
    shell = Mock()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    th.notebook.set_style()
    shell.InteractiveTB.set_mode.assert_not_called()
    th.notebook.set_style(short_errors=True)
    shell.InteractiveTB.set_mode.assert_called_once_with("Minimal")


def test_lines_of_seaborn_are_labelled_in_each_panel_and_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_FIGURES", str(tmp_path))
    table, grid = seaborn_lines()
    th.notebook.label_lines(grid)
    for axes in grid.axes.flat:
        labels = {text.get_text(): text for text in axes.texts}
        colours = {line.get_color() for line in axes.get_lines()}
        assert labels.keys() == {"one", "two"} and len(colours) == 2
        assert {text.get_color() for text in labels.values()} == colours
    grid.figure.draw_without_rendering()
    one, two = (text.get_window_extent() for text in grid.axes.flat[0].texts)
    assert not one.overlaps(two) and not grid.figure.legends
    th.notebook.save_figure(grid, table, "08_grid", conditions="trained and tested on numbers")
    assert pd.read_csv(tmp_path / "08_grid.csv").equals(table.round(6))
    said = [text for text, *_ in texts(tmp_path / "08_grid.svg")]
    assert said.count("one") == said.count("two") == 2 and "panel = A" in said
    assert min(size for _, size, *_ in texts(tmp_path / "08_grid.svg")) >= 7


def test_a_label_stands_at_the_end_of_its_line_or_above_another():
    figure, axes = plt.subplots()
    axes.plot([1, 2], [100, 200], label="far")
    axes.plot([1, 2], [100, 101], label="low")
    axes.plot([1, 3, 2], [100, 101, 150], label="last in x")
    axes.plot([1, 2], [100, np.nan], label="short")
    th.notebook.label_lines(axes, gap=0.1)
    ends = {text.get_text(): text.xy for text in axes.texts}
    low, high = axes.get_ylim()
    assert ends["far"] == pytest.approx((2, 200)) and ends["short"] == pytest.approx((1, 100))
    assert ends["low"] == pytest.approx((2, 100 + 0.1 * (high - low)))
    assert ends["last in x"] == pytest.approx((3, 100 + 0.2 * (high - low)))
    plt.close(figure)


def test_a_legend_of_a_grid_stands_beside_its_panels(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_FIGURES", str(tmp_path))
    table, grid = seaborn_lines()
    th.notebook.save_figure(grid, table, "08_grid")
    grid.figure.draw_without_rendering()
    legend = grid.figure.legends[0].get_window_extent()
    assert all(axes.get_window_extent().x1 < legend.x0 for axes in grid.axes.flat)


def test_a_title_over_panels_stands_left_as_that_of_one_panel_does(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKHELPERS_FIGURES", str(tmp_path))
    th.notebook.set_style()
    figure, _ = plt.subplots(1, 2)
    title = figure.suptitle("A claim")
    th.notebook.save_figure(figure, pd.DataFrame({"x": [1]}), "99_title")
    assert (title.get_text(), title.get_ha(), title.get_weight()) == ("A claim", "left", "bold")


def test_the_package_loads_no_drawing_library():
    code = (
        "import sys, tokhelpers as th; th.notebook.save_figure; print('matplotlib' in sys.modules)"
    )
    command = [sys.executable, "-c", f"{code}\nprint('seaborn' in sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


CLAIMS = [row for row in rows("figures.csv") if row.get("claim")]


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: row["figure"])
def test_what_a_title_says_follows_from_the_figures_numbers(row):
    """`claim` in data/figures.csv is an expression over `d`, the numbers that the figure shows."""
    d = pd.read_csv(FIGURES / f"{row['figure']}.csv")
    assert eval(row["claim"], {"d": d, "np": np, "pd": pd}), row["claim"]
