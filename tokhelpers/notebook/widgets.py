"""A control over the output of a function, and an explorer of tokens; plain where nobody can move it."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from html import escape
from importlib.util import find_spec
from inspect import signature
from itertools import accumulate, pairwise

import numpy as np
from tokenizers import Tokenizer

from ..adapt.pruning import prunable
from ..tokenizer.encoder import Encoder
from ..tokenizer.library import open_tokenizer
from ..tokenizer.segmentation import initial_ids, segment_tracing
from .tokens import Row, Shown, labelled, show_rows, token_rows

VIEW = "application/vnd.jupyter.widget-view+json"
SAMPLE = "Tokenizers differ: kyllästyä, 12345, naïve, עברית, हिन्दी"


def widget(function: Callable, **choices: range) -> "Widget":
    """Show a function's result in a notebook, with a control for each of its parameters.

    Each parameter has a default, from which its control starts: a text box, or a slider over the
    range that ``choices`` gives for it (``merges=range(8)``). The function is called again whenever
    a control moves; its result is shown as a notebook would show it, an error as its message. As
    plain text and as HTML the object shows the result for the defaults; with
    ``TOKHELPERS_WIDGETS=off`` in the environment there are only these. Raises ValueError for choices
    of no parameter, and for a default that is none of the choices or, without choices, no text.

    >>> def square(x=3):
    ...     return f"{x} times {x} is {x * x}"
    >>> widget(square, x=range(10))
    x = 3
    3 times 3 is 9
    """
    parameters = signature(function).parameters
    if unknown := choices.keys() - parameters.keys():
        given = [*parameters]
        raise ValueError(f"{function.__name__} has no parameter {min(unknown)}: it has {given}")
    for name, parameter in parameters.items():
        start = parameter.default
        if not (start in choices[name] if name in choices else isinstance(start, str)):
            raise ValueError(
                f"{parameter} cannot start: its default must be one of its choices, such as "
                f"{name}=range(10), or a text where it has none"
            )
    return Widget(function, choices, {name: p.default for name, p in parameters.items()})


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
    """A slider for numbers, a box for text."""
    import ipywidgets

    options = {"description": name, "style": {"description_width": "initial"}}
    options["layout"] = {"width": "30em"}
    some = choices.get(name)
    if some is None:
        return ipywidgets.Text(value, **options)
    ends = {"min": some[0], "max": some[-1], "step": some.step}
    return ipywidgets.IntSlider(value, **ends, readout_format=",d", **options)


def _html(result) -> str:
    """A result as a notebook shows it."""
    to_html = getattr(result, "_repr_html_", None)
    if to_html is not None:
        return to_html()
    return f"<pre>{escape(result if isinstance(result, str) else repr(result))}</pre>"


# --- the explorer ----------------------------------------------------------------------------------
def explorer(
    *tokenizers: Tokenizer | Encoder, text: str = SAMPLE, **named: Tokenizer | Encoder
) -> Widget:
    """Show the tokens of a text that the reader types, one row per tokenizer, differences marked.

    As in ``show_tokens`` a keyword is the row's label. When the pointer rests on a token, its id, its
    bytes and the rank of the merge that makes it are shown. A token is marked, underlined and in plain
    text between ``‹ ›``, where another row has no token of the same bytes of the text. Where nobody
    can type, the tokens of ``text`` are shown. Raises as ``show_tokens`` does.

    >>> pair, whole = (th.train_byte_level_bpe(["bat bat"], vocab_size=n) for n in (257, 258))
    >>> print(explorer(pair=pair, whole=whole, text="a bat"))
    text = 'a bat'
    pair   4 tokens  a ␣ ‹b› ‹at›
    whole  3 tokens  a ␣ ⟦‹bat›⟧
    ⟦ ⟧ not in the vocabulary of pair; ‹ › cut otherwise by another row
    """
    encoders = labelled(tokenizers, named)
    ranks = {label: merge_ranks(tokenizer) for label, tokenizer in encoders}

    def explore(text=text):
        return compared(text, encoders, ranks)

    return widget(explore)


def merge_ranks(tokenizer: Tokenizer | Encoder) -> dict[int, int]:
    """Map the id of each token that merges make to the rank of the last of them; empty without merges."""
    spec = open_tokenizer(tokenizer).spec
    if spec is None:
        return {}
    tokens = prunable(spec)
    _, offsets, last = segment_tracing(*initial_ids(tokens, spec, dropping=True), spec.merge_table)
    made = np.flatnonzero((np.diff(offsets) == 1) & (last >= 0))
    return {spec.vocab[tokens[i]]: int(last[i]) for i in made}


def compared(text: str, encoders: list[tuple], ranks: dict[str, dict[int, int]]) -> Shown:
    """Show the rows of ``token_rows`` with ranks, and marks where they cut the text differently."""
    rows = token_rows(text, encoders)
    size = min((sum(len(t.raw) for t in row.tokens) for row in rows if row.tokens), default=0)
    spans = [_spans(row, size) for row in rows]
    marked = []
    for row, own in zip(rows, spans, strict=True):
        others = [set(other) for other in spans if other is not own and other]
        tokens = []
        for token, span in zip(row.tokens, own, strict=True):
            rank = ranks[row.label].get(token.id)
            hover = "" if rank is None else f", rank {rank:,}"
            differs = not all(span in other for other in others)
            tokens.append(replace(token, hover=hover, differs=differs))
        marked.append(replace(row, tokens=tokens))
    return show_rows(marked, text)


def _spans(row: Row, size: int) -> list[tuple[int, int]]:
    """Where each token begins and ends, in bytes before the end of the text of ``size`` bytes.

    Counted from there, the space that some tokenizers put before a text makes no difference.
    """
    lengths = (len(token.raw) for token in reversed(row.tokens))
    ends = [min(end, size) for end in accumulate(lengths, initial=0)][::-1]
    return list(pairwise(ends))
