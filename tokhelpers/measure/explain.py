"""Why a word is cut as it is, and where a token comes from: merges step by step, and as a tree."""

import difflib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from ..adapt.adaptbpe import text_cutter
from ..text.counting import counted
from ..tokenizer.parts import Parts, read_parts
from ..tokenizer.segmentation import (
    NO_MERGE,
    merges_of,
    ranks_of,
    segment,
    symbols_of,
    token_counts,
)
from ..tokenizer.token_bytes import byte_alphabet, raw_tokens
from .reachability import reachability
from .vocabularies import script_and_kind

SYMBOLS = 200  # of a pre-token, up to which its steps are shown


# --- one word through the merges -----------------------------------------------------------------
@dataclass(frozen=True)
class Piece:
    """A token while merges go on: its id, and the two pieces and the rank that made it, if any."""

    id: int
    made_of: tuple["Piece", "Piece"] | None = None
    rank: int = -1


def merge_states(pretoken: str, parts: Parts) -> Iterator[tuple[list[Piece], Piece | None]]:
    """Yield the pieces of a pre-token before the first merge and after each, with what it made.

    The pair of lowest rank is merged first, the leftmost of equals.

    >>> parts = read_parts(th.train_byte_level_bpe(["bat bat bag"], vocab_size=258))
    >>> [" ".join(parts.tokens[p.id] for p in pieces) for pieces, _ in merge_states("Ġbat", parts)]
    ['Ġ b a t', 'Ġ ba t', 'Ġba t']
    """
    pieces = [Piece(i) for i in symbols_of([pretoken], parts)[0].tolist()]
    yield pieces, None
    while len(pieces) > 1:
        ids = np.array([piece.id for piece in pieces], np.int32)
        ranks = ranks_of(np.column_stack([ids[:-1], ids[1:]]), merges_of(parts))
        at = int(ranks.argmin())
        rank = int(ranks[at])
        if rank == NO_MERGE:
            return
        made = Piece(int(parts.merges[rank, 2]), (pieces[at], pieces[at + 1]), rank)
        pieces = [*pieces[:at], made, *pieces[at + 2 :]]
        yield pieces, made


def explain_word(tokenizer: Tokenizer | Parts, word: str) -> pd.DataFrame:
    """Show each merge of a word, with its rank in the list of merges, until no pair is listed.

    ``word`` is text, with its space before it if it has one; text of several pre-tokens gives the
    steps of one after the other. Returns one row per state: ``pretoken`` (the token string of the
    pre-token), ``step`` (0 before the first merge), ``pair`` (the two tokens merged), ``rank``
    (from 0; missing without a merge), ``tokens`` (after it, space between). What is not merged step
    by step has one row, and ``pair`` says why: "merge skipping", "added token", or "more than 200
    symbols", which are too many to show. Raises ValueError for an empty word, half a character, and
    models other than BPE.

    >>> table = explain_word(th.train_byte_level_bpe(["bat bat bag"], vocab_size=257), "bat")
    >>> table[["pair", "rank", "tokens"]].values.tolist()
    [[None, <NA>, 'b a t'], ['b + a', 0, 'ba t']]
    """
    if not isinstance(word, str) or not word:
        raise ValueError(f"a word is text of one character or more, got {word!r:.40}")
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text holds U+{ord(word[error.start]):04X}, half of a character: decode it properly"
        ) from None
    parts = read_parts(tokenizer)
    rows = [row for piece in next(text_cutter(parts)([word])) for row in _rows_of(piece, parts)]
    columns = ["pretoken", "step", "pair", "rank", "tokens"]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return table.astype({"step": int, "rank": "Int64"})


def _rows_of(pretoken: str | int, parts: Parts) -> list[tuple]:
    """The rows of a pre-token, or of an added token, given by its id."""
    if isinstance(pretoken, int):
        name = next(t["content"] for t in parts.settings["added_tokens"] if t["id"] == pretoken)
        return [(name, 0, "added token", pd.NA, name)]
    if parts.merge_skipping and pretoken in parts.vocab:
        return [(pretoken, 0, "merge skipping", pd.NA, pretoken)]
    symbols, offsets = symbols_of([pretoken], parts)
    name = parts.tokens
    if len(symbols) > SYMBOLS:
        tokens = " ".join(name[i] for i in segment(symbols, offsets, merges_of(parts))[0].tolist())
        return [(pretoken, 0, f"more than {SYMBOLS} symbols", pd.NA, tokens)]
    rows = []
    for step, (pieces, made) in enumerate(merge_states(pretoken, parts)):
        pair, rank = None, pd.NA
        if made:
            pair, rank = " + ".join(name[part.id] for part in made.made_of), made.rank
        rows.append((pretoken, step, pair, rank, " ".join(name[piece.id] for piece in pieces)))
    return rows


# --- one token -------------------------------------------------------------------------------------
@dataclass(frozen=True, repr=False)
class Explained:
    """What ``explain_token`` tells: ``facts`` (a Series) and ``tree`` (its merges, as text)."""

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


def explain_token(
    tokenizer: Tokenizer | Parts, token: str | bytes | int, corpus: Iterable[str] | None = None
) -> Explained:
    """Tell where a token comes from and whether text can produce it.

    ``token`` is a token string ("Ġcat"), the text that it stands for (" cat"), its bytes, or its id.
    The facts are ``id``, ``token``, ``text``, ``bytes`` (hexadecimal), ``length`` (in bytes), ``script``,
    ``category``, ``where`` and ``example`` (as in ``reachability``), ``rank`` of the merge that makes
    it, ``used by`` (how many merges in the list take it as a part), and with ``corpus``, documents or
    counts, ``uses`` (how often it is produced there) and ``share`` of the tokens. The tree shows how
    the merges make it, or where they stop. Raises ValueError for a token that is not in the
    vocabulary, naming the nearest ones.

    >>> told = explain_token(th.train_byte_level_bpe(["bat bat"], vocab_size=258), "bat")
    >>> told.facts["category"]
    'by merges'
    >>> print(told.tree)
    bat  rank 1
    ├ b
    └ at  rank 0
      ├ a
      └ t
    """
    parts = read_parts(tokenizer)
    i, name = _find(token, parts)
    row = reachability(tokenizer, [name]).loc[i]
    raw = raw_tokens([name], parts)[0]
    states = [([], None)] if name in parts.apart else merge_states(name, parts)
    [(pieces, _)] = deque(states, maxlen=1)  # what is left after the last merge
    whole = len(pieces) == 1 and pieces[0].id == i
    facts = {
        "id": i,
        "token": name,
        "text": row.text,
        "bytes": raw.hex(" ").upper(),
        "length": len(raw),
        "script": script_and_kind(raw)[0],
        "category": row.category,
        "where": row["where"],
        "example": row.example,
        "rank": pieces[0].rank if whole and pieces[0].made_of else None,
        "used by": int((parts.merges[:, :2] == i).any(axis=1).sum()),
    }
    if corpus is not None:
        uses = token_counts(parts, counted(corpus, parts))
        facts |= {"uses": int(uses[i]), "share": float(uses[i] / uses.sum())}
    return Explained(pd.Series(facts, dtype=object), _drawn(name, pieces, whole, parts))


def _find(token: str | bytes | int, parts: Parts) -> tuple[int, str]:
    """A token's id and its token string; special and added tokens may stand outside the vocabulary."""
    known = parts.vocab | {t["content"]: t["id"] for t in parts.settings["added_tokens"]}
    if not isinstance(token, str | bytes):
        names = {i: name for name, i in known.items()}
        if token not in names:
            raise ValueError(f"no token has the id {token!r}: ids go from 0 to {max(names)}")
        return token, names[token]
    name = token if isinstance(token, str) and token in known else _written(token, parts)
    if name not in known:
        near = _nearest(name, parts)
        raise ValueError(f"{token!r:.60} is not in the vocabulary; nearest to it: {near}")
    return known[name], name


def _written(token: str | bytes, parts: Parts) -> str:
    """The token string of a text or of bytes."""
    try:
        raw = token.encode() if isinstance(token, str) else token
    except UnicodeEncodeError:
        raise ValueError(f"{token!a:.60} holds half of a character: give bytes or an id") from None
    if parts.byte_level:
        return "".join(byte_alphabet()[byte] for byte in raw)
    byte = f"<0x{raw[0]:02X}>" if isinstance(token, bytes) and len(raw) == 1 else ""
    return byte if byte in parts.vocab else raw.decode("utf-8", "replace").replace(" ", "▁")


def _nearest(token: str, parts: Parts) -> str:
    """The tokens most like one that is missing: other case or space, its beginning, a few letters."""
    bare = token.removeprefix("Ġ").removeprefix("▁")
    space = "Ġ" if parts.byte_level else "▁"
    forms = [f + c for c in (bare, bare.lower(), bare.capitalize()) for f in ("", space)]
    begin = next((token[:n] for n in range(len(token), 0, -1) if token[:n] in parts.vocab), None)
    alike = [t for t in parts.vocab if abs(len(t) - len(token)) < 3 and t[:2] == token[:2]]
    close = difflib.get_close_matches(token, alike[:20_000], n=3)
    found = dict.fromkeys(t for t in [*forms, *close, begin] if t in parts.vocab)
    return ", ".join(map(repr, list(found)[:4])) or "none"


def _drawn(name: str, pieces: list[Piece], whole: bool, parts: Parts) -> str:
    """The merges of a token as a tree, from the token down to single characters or bytes."""
    if not pieces:
        return f"{name}  made by no merge"
    lines = [] if whole else [f"merges do not make {name}; they stop at"]
    stack = [(piece, "", "") for piece in reversed(pieces)]
    while stack:  # no recursion: a token of spaces can be a hundred merges deep
        piece, own, below = stack.pop()
        rank = f"  rank {piece.rank:,}" if piece.made_of else ""
        lines.append(f"{own}{parts.tokens[piece.id]}{rank}")
        if piece.made_of:
            left, right = piece.made_of
            stack += [(right, below + "└ ", below + "  "), (left, below + "├ ", below + "│ ")]
    return "\n".join(lines)
