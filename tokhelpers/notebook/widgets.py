"""Controls over the output of a function; the output for the defaults where no widgets can run."""

import os
from collections.abc import Callable
from functools import cached_property
from html import escape
from importlib.util import find_spec
from inspect import signature

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def widget(function: Callable, **choices: range) -> "Widget":
    """Show a function's result in a notebook, with a control for each of its parameters.

    Each parameter needs a default: a string, which gets a text box, or a number in the range that
    ``choices`` gives for it (``merges=range(8)``), which gets a slider. The function is called again
    when a control moves; an error is shown as its message. As plain text and HTML, and with
    ``TOKHELPERS_WIDGETS=off`` in the environment, only the result for the defaults is shown. Raises
    ValueError for choices of an unknown parameter and for a default that has no control.

    >>> def square(x=3):
    ...     return f"{x} times {x} is {x * x}"
    >>> widget(square, x=range(10))
    x = 3
    3 times 3 is 9
    """
    parameters = signature(function).parameters
    if unknown := choices.keys() - parameters.keys():
        names = [*parameters]
        raise ValueError(f"{function.__name__} has no parameter {min(unknown)}: it has {names}")
    for name, parameter in parameters.items():
        default = parameter.default
        if not (default in choices[name] if name in choices else isinstance(default, str)):
            raise ValueError(
                f"no control for {parameter}: its default must be one of its choices, such as "
                f"{name}=range(10), or a string if it has none"
            )
    return Widget(function, choices, {name: p.default for name, p in parameters.items()})


class Widget:
    """The result of ``widget``: a function, its result for the defaults, and its controls."""

    def __init__(self, function: Callable, choices: dict, defaults: dict):
        self.function, self.choices, self.defaults = function, choices, defaults
        self.result = function(**defaults)

    @property
    def _header(self) -> str:
        return ", ".join(f"{name} = {value!r}" for name, value in self.defaults.items())

    def __repr__(self) -> str:
        result = self.result if isinstance(self.result, str) else repr(self.result)
        return f"{self._header}\n{result}"

    def _repr_html_(self) -> str:
        hint = "<small>(run the notebook to change it)</small>"
        return f"<div><code>{escape(self._header)}</code> {hint}</div>{_html(self.result)}"

    def _repr_mimebundle_(self, **_) -> dict:
        """The view of the controls, unless widgets are switched off or not installed."""
        if os.environ.get("TOKHELPERS_WIDGETS") == "off" or find_spec("ipywidgets") is None:
            return {}
        return {WIDGET_VIEW: self.box._repr_mimebundle_()[WIDGET_VIEW]}

    @cached_property
    def box(self):
        """The controls above the output, as an ipywidgets box."""
        import ipywidgets

        output = ipywidgets.HTML(_html(self.result), layout={"margin": "0"})
        for name in ("jp-RenderedHTMLCommon", "jp-OutputArea-output"):
            output.add_class(name)  # gives tables the style of other outputs
        controls = {
            name: _control(name, value, self.choices.get(name))
            for name, value in self.defaults.items()
        }

        def update(_):
            try:
                result = self.function(**{name: c.value for name, c in controls.items()})
            except Exception as error:  # shown in place of the result
                result = f"{type(error).__name__}: {error}"
            output.value = _html(result)

        for control in controls.values():
            control.observe(update, "value")
        return ipywidgets.VBox([*controls.values(), output])


def _control(name: str, value, choices: range | None):
    """A slider over a range, or a text box."""
    import ipywidgets

    options = {"description": name, "style": {"description_width": "initial"}}
    options["layout"] = {"width": "30em"}
    if choices is None:
        return ipywidgets.Text(value, **options)
    ends = {"min": choices[0], "max": choices[-1], "step": choices.step}
    return ipywidgets.IntSlider(value, **ends, readout_format=",d", **options)


def _html(result) -> str:
    """A result as a notebook shows it."""
    to_html = getattr(result, "_repr_html_", None)
    if to_html is not None:
        return to_html()
    return f"<pre>{escape(result if isinstance(result, str) else repr(result))}</pre>"
