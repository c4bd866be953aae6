"""An explorer of tokens: a text box over the tokens of two or more tokenizers, differences marked."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
from tokenizers import Tokenizer

from ..adapt.adaptbpe import AdaptBPE
from ..tokenizer.parts import is_bpe, read_parts
from ..tokenizer.segmentation import merges_of, segment_tracing, symbols_of
from .tokens import Row, Shown, labelled, show_rows, token_rows
from .widgets import Widget, widget

SAMPLE = "Tokenizers differ: kyllästyä, 12345, naïve, עברית, हिन्दी"


def explorer(
    *tokenizers: Tokenizer | AdaptBPE, text: str = SAMPLE, **named: Tokenizer | AdaptBPE
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
    start = text

    def explore(text=start):
        return compared(text, encoders, ranks)

    return widget(explore)


def merge_ranks(tokenizer: Tokenizer | AdaptBPE) -> dict[int, int]:
    """Map the id of each token that merges make to the rank of the last of them; empty without merges."""
    if isinstance(tokenizer, AdaptBPE):
        tokenizer = tokenizer.tokenizer
    if not is_bpe(tokenizer):
        return {}
    parts = read_parts(tokenizer)
    tokens = [token for token in parts.vocab if token not in parts.apart]
    _, offsets, last = segment_tracing(*symbols_of(tokens, parts), merges_of(parts))
    made = np.flatnonzero((np.diff(offsets) == 1) & (last >= 0))
    found = {parts.vocab[tokens[i]]: int(last[i]) for i in made}
    return dict(sorted(found.items()))


def compared(text: str, encoders: list[tuple], ranks: dict[str, dict[int, int]]) -> Shown:
    """Show the rows of ``token_rows`` with ranks, and marks where they cut the text differently."""
    rows, left_out = token_rows(text, encoders)
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
    return show_rows(marked, left_out)


def _spans(row: Row, size: int) -> list[tuple[int, int]]:
    """Where each token begins and ends, in bytes before the end of the text of ``size`` bytes.

    Counted from there, the space that some tokenizers put before a text makes no difference.
    """
    lengths = (len(token.raw) for token in reversed(row.tokens))
    ends = [min(end, size) for end in accumulate(lengths, initial=0)][::-1]
    return list(zip(ends, ends[1:], strict=False))
