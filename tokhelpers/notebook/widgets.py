"""A control to move, over the output of a function; and that output alone where nobody can move it."""

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from html import escape
from importlib.util import find_spec
from inspect import signature

VIEW = "application/vnd.jupyter.widget-view+json"


def widget(function: Callable, **choices: Sequence) -> "Widget":
    """Show a function's result in a notebook, with a control for each of its parameters.

    Each parameter has a default, from which its control starts: a text box, or a slider over the
    values that ``choices`` gives for it (``merges=range(8)``, ``size=[500, 1_000, 2_000]``). The
    function is called again whenever a control moves; what it returns is shown as a notebook would
    show it, and an error as its message. As plain text and as HTML the object shows the
    result for the defaults, which is stored, compared, printed, and seen where no kernel runs. With
    ``TOKHELPERS_WIDGETS=off`` in the environment there are only these. Raises ValueError for a
    parameter without default, for choices without it, and for choices of no parameter.

    >>> def square(x=3):
    ...     return f"{x} times {x} is {x * x}"
    >>> widget(square, x=range(10))
    x = 3
    3 times 3 is 9
    """
    parameters = signature(function).parameters
    values = {name: p.default for name, p in parameters.items()}
    if unknown := choices.keys() - values.keys():
        raise ValueError(f"{function.__name__} has no parameter {min(unknown)}: it has {[*values]}")
    for name, value in values.items():
        if value is parameters[name].empty:
            raise ValueError(f"{name} has no default to start from: give it one in the function")
        if name in choices and value not in choices[name]:
            raise ValueError(
                f"{name} starts at {value!r}, which is none of its choices: add it, or start elsewhere"
            )
        if name not in choices and not isinstance(value, str):
            raise ValueError(
                f"{name} has no choices, and its default is no text for a text box: "
                f"give some, such as {name}=range(10)"
            )
    return Widget(function, choices, values)


class Widget:
    """What ``widget`` makes: a function, its result for the defaults, and controls to change it."""

    def __init__(self, function: Callable, choices: dict, values: dict):
        self.function, self.choices, self.values = function, choices, values
        self.result = function(**values)

    @property
    def _header(self) -> str:
        return ", ".join(f"{name} = {value!r}" for name, value in self.values.items())

    def __repr__(self) -> str:
        result = self.result if isinstance(self.result, str) else repr(self.result)
        return f"{self._header}\n{result}"

    def _repr_html_(self) -> str:
        hint = "<small>(run the notebook to change it)</small>"
        return f"<div><code>{escape(self._header)}</code> {hint}</div>{_html(self.result)}"

    def _repr_mimebundle_(self, **_) -> dict:
        """The view of the controls, where there may be somebody to move them."""
        if os.environ.get("TOKHELPERS_WIDGETS") == "off" or find_spec("ipywidgets") is None:
            return {}
        return {VIEW: self.box._repr_mimebundle_()[VIEW]}

    @cached_property
    def box(self):
        """The controls over the output."""
        import ipywidgets

        output = ipywidgets.HTML(_html(self.result), layout={"margin": "0"})
        for name in ("jp-RenderedHTMLCommon", "jp-OutputArea-output"):
            output.add_class(name)  # tables then have the style of other cells' outputs
        controls = {name: _control(name, v, self.choices) for name, v in self.values.items()}

        def update(_):
            try:
                result = self.function(**{name: c.value for name, c in controls.items()})
            except Exception as error:  # in place of the result, and the next move may do
                result = f"{type(error).__name__}: {error}"
            output.value = _html(result)

        for control in controls.values():
            control.observe(update, "value")
        return ipywidgets.VBox([*controls.values(), output])


def _control(name: str, value, choices: dict):
    """A slider for numbers at even steps and for other choices, a box for text."""
    import ipywidgets

    options = {"description": name, "style": {"description_width": "initial"}}
    options["layout"] = {"width": "30em"}
    some = choices.get(name)
    if some is None:
        return ipywidgets.Text(value, **options)
    if isinstance(some, range) and some.step > 0:
        ends = {"min": some[0], "max": some[-1], "step": some.step}
        return ipywidgets.IntSlider(value, **ends, readout_format=",d", **options)
    return ipywidgets.SelectionSlider(options=list(some), value=value, **options)


def _html(result) -> str:
    """A result as a notebook shows it."""
    to_html = getattr(result, "_repr_html_", None)
    if to_html is not None:
        return to_html()
    return f"<pre>{escape(result if isinstance(result, str) else repr(result))}</pre>"
