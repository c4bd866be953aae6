"""Widgets: what moves with a control, and the plain form where nothing moves."""

import dis
import re
from types import CodeType

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from test_project import NOTEBOOKS, SOLUTIONS, code

import tokhelpers as th
from tokhelpers.notebook.widgets import WIDGET_VIEW


@pytest.fixture(autouse=True)
def live(monkeypatch):
    monkeypatch.delenv("TOKHELPERS_WIDGETS", raising=False)


def square(x=3):
    return f"<{x}> squared is {x * x}"


def parts(widget):
    """The controls by name, and the output."""
    *controls, output = widget.box.children
    return {control.description: control for control in controls}, output


def test_a_moved_slider_changes_the_output():
    controls, output = parts(th.notebook.widget(square, x=range(11)))
    slider = controls["x"]
    assert (slider.value, slider.min, slider.max, slider.step) == (3, 0, 10, 1)
    assert output.value == "<pre>&lt;3&gt; squared is 9</pre>"
    slider.value = 7
    assert output.value == "<pre>&lt;7&gt; squared is 49</pre>"


def test_text_is_typed():
    controls, output = parts(th.notebook.widget(lambda word="ab": [word]))
    controls["word"].value = "<i>"
    assert output.value == "<pre>[&#x27;&lt;i&gt;&#x27;]</pre>"


def test_a_result_is_shown_as_a_notebook_shows_it():
    def table(rows=2):
        return pd.DataFrame({"n": range(rows)})

    widget = th.notebook.widget(table, rows=range(1, 5))
    controls, output = parts(widget)
    controls["rows"].value = 4
    assert output.value == table(4)._repr_html_()
    assert widget._repr_html_().endswith(table()._repr_html_())


def test_an_error_is_said_in_place_and_the_next_move_mends_it():
    def inverse(x=1):
        return 1 / x

    with pytest.raises(ZeroDivisionError):
        th.notebook.widget(lambda x=0: 1 / x, x=range(3))  # the first result: the cell says so
    controls, output = parts(th.notebook.widget(inverse, x=range(3)))
    controls["x"].value = 0
    assert output.value == "<pre>ZeroDivisionError: division by zero</pre>"
    controls["x"].value = 2
    assert output.value == "<pre>0.5</pre>"


def forms(widget):
    """What a notebook stores of a cell that ends in this."""
    return InteractiveShell.instance().display_formatter.format(widget)[0]


def test_the_plain_and_html_forms_are_those_of_the_defaults(monkeypatch):
    widget = th.notebook.widget(square, x=range(5))
    shown = forms(widget)
    assert set(shown) == {"text/plain", "text/html", WIDGET_VIEW}
    assert shown[WIDGET_VIEW]["model_id"] == widget.box.model_id
    parts(widget)[0]["x"].value = 4
    assert forms(widget)["text/plain"] == "x = 3\n<3> squared is 9" == shown["text/plain"]
    assert forms(widget)["text/html"] == shown["text/html"]
    assert "<code>x = 3</code>" in shown["text/html"]
    assert "<pre>&lt;3&gt; squared is 9</pre>" in shown["text/html"]
    monkeypatch.setenv("TOKHELPERS_WIDGETS", "off")
    static = {kind: form for kind, form in shown.items() if kind != WIDGET_VIEW}
    assert forms(widget) == static
    monkeypatch.delenv("TOKHELPERS_WIDGETS")
    monkeypatch.setattr("tokhelpers.notebook.widgets.find_spec", lambda name: None)
    assert forms(widget) == static


@pytest.mark.parametrize(
    ("function", "choices", "message"),
    [
        (square, {"y": range(3)}, "square has no parameter y: it has"),
        (square, {"x": range(3)}, "no control for x=3: its default must be one of its choices"),
        (square, {}, "no control for x=3"),
        (lambda x: x, {"x": range(3)}, "no control for x: "),
    ],
)
def test_controls_that_cannot_be_made_are_refused(function, choices, message):
    with pytest.raises(ValueError, match=message):
        th.notebook.widget(function, **choices)


# --- the notebooks -----------------------------------------------------------------------------------
def test_notebooks_hold_no_view_that_nobody_could_open():
    found = 0
    for path in NOTEBOOKS + SOLUTIONS:
        assert WIDGET_VIEW not in path.read_text(encoding="utf-8"), path.stem
        for cell in code(path):
            if "th.notebook.widget(" in cell["source"]:
                assert set(cell["outputs"][-1]["data"]) == {"text/plain", "text/html"}, path.stem
                found += 1
    assert found >= 4


def names_in(code):
    """The names that a function looks up, and those that the functions inside it do."""
    inside = [names_in(const) for const in code.co_consts if isinstance(const, CodeType)]
    looked_up = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    return looked_up.union(*inside)


def test_no_later_cell_changes_what_a_widget_looks_up():
    """A control is moved after the whole notebook has run."""
    for path in NOTEBOOKS + SOLUTIONS:
        sources = [cell["source"] for cell in code(path)]
        cells = [compile(re.sub(r"(?m)^%.*$", "", source), path.stem, "exec") for source in sources]
        bound = [
            {i.argval for i in dis.get_instructions(cell) if i.opname == "STORE_NAME"}
            for cell in cells
        ]
        inside = [c for cell in cells for c in cell.co_consts if isinstance(c, CodeType)]
        functions = {c.co_name: names_in(c) for c in inside}
        for i, source in enumerate(sources):
            for name in re.findall(r"th\.notebook\.widget\((\w+)", source):
                needed = set(functions[name])
                while called := [f for f in functions if f in needed and functions[f] - needed]:
                    needed.update(*(functions[f] for f in called))
                later = needed & set().union(*bound[i + 1 :])
                later -= {"mytok"}  # the reader's own, taken up again as they become right
                assert needed and not later, (path.stem, name, later)
