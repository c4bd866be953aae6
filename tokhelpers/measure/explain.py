"""Explain a segmentation: the merges of a text step by step, and how a token is built."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import chain
from numbers import Integral

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..common.checks import check_text
from ..tokenizer.encoder import Encoder
from ..tokenizer.library_encoder import open_tokenizer
from ..tokenizer.segmentation import NO_MERGE, initial_ids, ranks_of
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.token_bytes import token_strings
from .reachability import reachability
from .vocabularies import script_and_kind

MAX_SYMBOLS = 200  # of a pre-token whose merge steps are listed


@dataclass(frozen=True, repr=False)
class Explanation:
    """What ``explain`` says of a token: ``facts`` (a Series) and ``tree`` (its merges, as text)."""

    facts: pd.Series
    tree: str

    def __repr__(self) -> str:
        return f"{self.facts.to_string()}\n\n{self.tree}"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
            for name, value in self.facts.items()
        )
        return f"<table>{rows}</table><pre>{escape(self.tree)}</pre>"


def explain(
    tokenizer: Tokenizer | TokenizerSpec,
    text: str | None = None,
    *,
    token: str | int | None = None,
) -> pd.DataFrame | Explanation:
    """Explain how a text is segmented, or how a token is built.

    With ``text`` (include the space before a word), returns one row per merge step of each
    pre-token: ``pretoken`` (token string), ``step`` (0 before the first merge), ``pair`` (the two
    tokens merged), ``rank`` (of the merge, from 0) and ``tokens`` (after the merge, separated by
    spaces). A pre-token that is not merged step by step has one row, and ``pair`` gives the reason:
    "merge skipping", "added token", "more than 200 symbols", or the model (WordPiece, Unigram).

    With ``token`` (a token string such as "Ġcat", its text " cat", or its ID; BPE only), returns an
    ``Explanation``. Its ``facts`` are ``id``, ``token``, ``text``, ``bytes`` (hexadecimal),
    ``length`` (in bytes), ``script``, ``category``, ``where`` and ``example`` (see
    ``reachability``), ``rank`` of the merge that produces the token and ``used by`` (the number of
    merges that have it as a part). Its ``tree`` shows the merges, or where they stop.

    Raises TypeError unless exactly one of the two is given, and for non-strings; ValueError for empty
    text, lone surrogates and a token outside the vocabulary, with the nearest tokens.

    >>> tokenizer = th.train_byte_level_bpe(["bat bat"], vocab_size=258)
    >>> explain(tokenizer, "bat")[["pair", "rank", "tokens"]].values.tolist()
    [[None, <NA>, 'b a t'], ['a + t', 0, 'b at'], ['b + at', 1, 'bat']]
    >>> print(explain(tokenizer, token="bat").tree)
    bat  rank 1
    ├ b
    └ at  rank 0
      ├ a
      └ t
    """
    if (text is None) == (token is None):
        raise TypeError("give either a text or token=, the token to explain")
    if token is not None:
        return _explain_token(tokenizer, token)
    check_text(text)
    if not text:
        raise ValueError("the text is empty: give one character or more")
    encoder = open_tokenizer(tokenizer)
    [pretokens] = encoder.pretokenize([text])
    rows = [row for pretoken in pretokens for row in _rows_of(pretoken, encoder)]
    columns = ["pretoken", "step", "pair", "rank", "tokens"]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return table.astype({"step": int, "rank": "Int64"})


# --- the merges of a text -------------------------------------------------------------------------
def _rows_of(pretoken: str | int, encoder: Encoder) -> list[tuple]:
    """The rows of a pre-token, or of an added token given by its ID."""
    if isinstance(pretoken, int):
        name = encoder.added_tokens[pretoken].content
        return [(name, 0, "added token", pd.NA, name)]
    reason, name = encoder.not_merged_because(pretoken), encoder.tokens
    if not reason and len(initial_ids([pretoken], encoder, dropping=True)[0]) > MAX_SYMBOLS:
        reason = f"more than {MAX_SYMBOLS} symbols"
    if reason:
        tokens = " ".join(map(name.get, encoder.segment([pretoken])[0].tolist()))
        return [(pretoken, 0, reason, pd.NA, tokens)]
    rows = []
    for step, (ids, rank, _) in enumerate(merge_states(pretoken, encoder)):
        merged = [] if rank is None else encoder.merges[rank, :2].tolist()
        pair = " + ".join(name[i] for i in merged) or None
        tokens = " ".join(name[i] for i in ids)
        rows.append((pretoken, step, pair, pd.NA if rank is None else rank, tokens))
    return rows


def merge_states(pretoken: str, spec: TokenizerSpec) -> Iterator[tuple[list[int], int | None, int]]:
    """Yield the IDs of a pre-token after each merge, the merge's rank, and the index it applied to.

    Each step merges the leftmost pair of lowest rank. The initial state comes first; its rank is None.
    """
    ids = initial_ids([pretoken], spec, dropping=True)[0]
    yield ids.tolist(), None, 0
    while len(ids) > 1:
        ranks = ranks_of(np.column_stack([ids[:-1], ids[1:]]), spec.merge_table)
        index = int(ranks.argmin())
        rank = int(ranks[index])
        if rank == NO_MERGE:
            return
        ids = np.concatenate([ids[:index], spec.merges[rank, 2:], ids[index + 2 :]])
        yield ids.tolist(), rank, index


# --- one token ------------------------------------------------------------------------------------
def _explain_token(tokenizer: Tokenizer | TokenizerSpec, token: str | int) -> Explanation:
    """The facts and the merge tree of a token."""
    spec = TokenizerSpec.from_tokenizer(tokenizer)
    name = _token_string(token, spec)
    row = reachability(tokenizer, [name]).iloc[0]
    token_id, raw = int(row.name), spec.raw([name])[0]
    tree, rank = _tree(name, token_id, spec)
    facts = {
        "id": token_id,
        "token": name,
        "text": row.text,
        "bytes": raw.hex(" ").upper(),
        "length": len(raw),
        "script": script_and_kind(raw)[0],
        "category": row.category,
        "where": row["where"],
        "example": row.example,
        "rank": rank,
        "used by": int((spec.merges[:, :2] == token_id).any(axis=1).sum()),
    }
    return Explanation(pd.Series(facts, dtype=object), tree)


def _token_string(token: str | int, spec: TokenizerSpec) -> str:
    """The token string of a token given as token string, text or ID; added tokens included."""
    if isinstance(token, Integral):
        if token not in spec.all_tokens:
            raise ValueError(
                f"no token has the ID {token:,}: give one from 0 to {spec.next_id - 1:,}"
            )
        return spec.all_tokens[token]
    check_text(token)
    if token in spec.all_ids:
        return token
    name = token_strings([token])[0] if spec.byte_level else token.replace(" ", "▁")
    if name not in spec.all_ids:
        nearest = _nearest(name, spec)
        raise ValueError(f"{token!r:.60} is not in the vocabulary; nearest to it: {nearest}")
    return name


def _nearest(token: str, spec: TokenizerSpec) -> str:
    """Up to four tokens similar to a missing one: other case or space, similar spelling, a prefix."""
    bare = token.removeprefix("Ġ").removeprefix("▁")
    space = "Ġ" if spec.byte_level else "▁"
    forms = [f + c for c in (bare, bare.lower(), bare.capitalize()) for f in ("", space)]
    prefix = next((token[:n] for n in range(len(token), 0, -1) if token[:n] in spec.vocab), None)
    similar = [t for t in spec.vocab if abs(len(t) - len(token)) < 3 and t[:2] == token[:2]]
    close = difflib.get_close_matches(token, similar[:20_000], n=3)
    nearest = dict.fromkeys(t for t in [*forms, *close, prefix] if t in spec.vocab)
    return ", ".join(map(repr, list(nearest)[:4])) or "none"


def _tree(name: str, token_id: int, spec: TokenizerSpec) -> tuple[str, int | None]:
    """The merges of a token as a tree, down to characters or bytes, and the rank of the last one.

    If merges do not produce the token, the rank is None and there is a tree for each token that they
    stop at.
    """
    if name in spec.unmerged:
        return f"{name}  made by no merge", None
    for ids, rank, index in merge_states(name, spec):
        if rank is None:
            trees = [[spec.tokens[i]] for i in ids]
        else:
            (left, *under_left), (right, *under_right) = trees[index : index + 2]
            below = ["├ " + left, *("│ " + line for line in under_left)]
            below += ["└ " + right, *("  " + line for line in under_right)]
            trees[index : index + 2] = [[f"{spec.tokens[ids[index]]}  rank {rank:,}", *below]]
    if ids == [token_id]:
        return "\n".join(trees[0]), rank
    return "\n".join([f"merges do not make {name}; they stop at", *chain(*trees)]), None
