"""Show the tokens of a text in colour: as HTML, and as plain text with the same content."""

import unicodedata
from dataclasses import dataclass
from html import escape
from itertools import groupby

import regex
from tokenizers import Tokenizer

from ..common.checks import check_text
from ..tokenizer.encoder import Encoder
from ..tokenizer.library_encoder import as_encoder
from ..tokenizer.token_bytes import BYTE_TOKENS

LIMIT = 2_000  # characters of a text that are shown
MAX_MARKS = 2  # combining marks on one character; more would overlap the adjacent lines
MAX_BYTES = 16  # bytes of a token in its tooltip

WHITESPACE = {" ": "␣", "\n": "↵", "\t": "⇥"}
NEW, ADDED, NUMBER, CIRCLE = "⟦⟧", "⟪⟫", "⟨⟩", "◌"
SIGNS = "".join(WHITESPACE.values()) + NEW + ADDED + NUMBER + CIRCLE
INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\u2800]")

BOX = "display:inline-block;margin:1px;padding:0 3px;color:#111;white-space:normal;"
STYLES = {  # light boxes, on dark pages as well; borders distinguish the kinds without colour
    "even": "background:#e9f2fb;border:1px solid #666",
    "odd": "background:#c3dbf0;border:1px solid #666",
    "added": "background:#e2e2e2;border:2px dashed #444",
    "new": "background:#ffd67f;border:2px solid #7a3b00;font-weight:bold",
}
LEFT = ' style="text-align:left;vertical-align:top"'
NO_WRAP = LEFT.replace("top", "top;white-space:nowrap")


@dataclass(frozen=True, repr=False)
class ShownTokens:
    """The result of ``show_tokens``: ``plain`` text and ``html``."""

    plain: str
    html: str

    def __repr__(self) -> str:
        return self.plain

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True)
class Token:
    """A token with its readable form, its bytes, its ID, and whether it is added or new."""

    readable: str
    raw: bytes
    id: int
    added: bool
    new: bool

    @property
    def marked(self) -> str:
        """The readable form between the brackets of added and new tokens."""
        text = self.readable.join(ADDED) if self.added else self.readable
        return text.join(NEW) if self.new else text


@dataclass(frozen=True)
class Row:
    """The tokens of the text under one tokenizer."""

    label: str
    tokens: list[Token]
    message: str
    notation: str  # see _notation
    backend: Tokenizer


def show_tokens(
    text: str, *tokenizers: Tokenizer | Encoder, **named: Tokenizer | Encoder
) -> ShownTokens:
    """Show the tokens of a text in colour, one row per tokenizer.

    Takes ``tokenizers.Tokenizer``, ``transformers`` tokenizers and AdaptBPE encoders; a keyword is
    the row's label. The result is shown in colour by a notebook and as plain text by ``print``:
    ``␣`` is a space, ``↵`` a line break, ``⇥`` a tab, ``⟨E2 96⟩`` bytes of an incomplete UTF-8
    sequence, ``⟨U+200B⟩`` an invisible character, ``◌`` carries a combining mark, ``⟪ ⟫`` are special
    and added tokens, and ``⟦ ⟧`` tokens that the first tokenizer's vocabulary lacks. Only the first
    ``LIMIT`` characters are shown, and no special tokens are added. Raises TypeError for a text that
    is no string and for other objects than tokenizers, ValueError for lone surrogates and without a
    tokenizer.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=257)
    >>> show_tokens("a bat é", base=base, longer=th.extend(base, th.Extension(["bat"])))
    base    7 tokens  a ␣ ba t ␣ ⟨C3⟩ ⟨A9⟩
    longer  6 tokens  a ␣ ⟦bat⟧ ␣ ⟨C3⟩ ⟨A9⟩
    ⟦ ⟧ not in the vocabulary of base; ⟨ ⟩ bytes, or the number of a character
    """
    check_text(text)
    labels = [f"tokenizer {i}" for i in range(1, 1 + len(tokenizers))]
    if len(tokenizers) == 1 and not named:
        labels = [""]
    rows: list[Row] = []
    for label, tokenizer in [*zip(labels, tokenizers, strict=True), *named.items()]:
        rows.append(_row(text[:LIMIT], label, tokenizer, rows[0] if rows else None))
    if not rows:
        raise ValueError("no tokenizer to show tokens of: pass at least one")
    notes = _notes(rows, text)
    return ShownTokens(_plain(rows, notes), _html(rows, notes))


def _row(text: str, label: str, tokenizer, first: Row | None) -> Row:
    """A tokenizer's row; its new tokens are those that the first row's vocabulary lacks."""
    encoder = as_encoder(tokenizer)
    backend, (ids, truncated) = encoder.backend_tokenizer, encoder.ids_and_overflow(text)
    message = "more are cut off: the tokenizer truncates" if truncated else ""
    if not ids:
        message = "the text is empty" if not text else "nothing of the text is left"
    notation, fallback = _notation(encoder), encoder.byte_fallback
    first_id = first.backend.token_to_id if first and first.notation == notation else None
    added_tokens, tokens = backend.get_added_tokens_decoder(), []
    strings = [backend.id_to_token(i) for i in ids]
    for i, token, raw in zip(ids, strings, encoder.raw(strings), strict=True):
        is_text = i in added_tokens or notation not in ("bytes", "▁")
        raw = token.encode() if is_text else raw
        readable = _readable(raw.decode(errors="surrogateescape"))
        if fallback and not is_text and token in BYTE_TOKENS:
            readable = f"⟨{raw.hex().upper()}⟩"
        special = i in added_tokens and added_tokens[i].special
        new = first_id is not None and first_id(token) is None and not special
        tokens.append(Token(readable, raw, i, i in added_tokens, new))
    return Row(label, tokens, message, notation, backend)


def _notation(encoder: Encoder) -> str:
    """How token strings are written: in the byte alphabet, with ▁ for a space, or as text."""
    if encoder.byte_level:
        return "bytes"
    backend = encoder.backend_tokenizer
    pipeline = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
    states = "".join(step.__getstate__().decode() for step in pipeline if step is not None)
    return "▁" if "▁" in states else getattr(backend.model, "continuing_subword_prefix", "") or ""


# --- text in which every character is visible --------------------------------------------------------
def _kind(c: str) -> str:
    if "\udc80" <= c <= "\udcff":
        return "byte"  # Python's stand-in for a byte that it cannot decode
    if c in WHITESPACE:
        return "whitespace"
    if c in SIGNS or not c.isprintable() or INVISIBLE.match(c):
        return "number"
    return "mark" if unicodedata.category(c)[0] == "M" else "plain"


def _readable(text: str) -> str:
    """The text with a visible sign for every character or byte that has none."""
    parts, previous = [], ""
    for kind, group in groupby(text, _kind):
        run = "".join(group)
        if kind == "byte":
            run = f"⟨{run.encode('utf-8', 'surrogateescape').hex(' ').upper()}⟩"
        elif kind == "number":
            run = "".join(f"⟨U+{ord(c):04X}⟩" for c in run)
        elif kind == "whitespace":
            run = "".join(map(WHITESPACE.__getitem__, run))
        elif kind == "mark":
            stacks = (run[i : i + MAX_MARKS] for i in range(0, len(run), MAX_MARKS))
            run = CIRCLE * (previous != "plain") + CIRCLE.join(stacks)
        parts.append(run)
        previous = kind
    return "".join(parts)


def _notes(rows: list[Row], text: str) -> list[str]:
    """Explanations of the signs that occur in the rows, and of what is left out."""
    tokens = [token for row in rows for token in row.tokens]
    shown = "".join(token.readable for token in tokens)
    others = [row.label for row in rows if row.tokens and row.notation != rows[0].notation]
    new = f"⟦ ⟧ not in the vocabulary of {rows[0].label}"
    if others:
        new += f" (not asked of {', '.join(others)}: tokens are written in another notation there)"
    notes = {
        new: any(token.new for token in tokens),
        "⟪ ⟫ special or added tokens": any(token.added for token in tokens),
        "⟨ ⟩ bytes, or the number of a character": NUMBER[0] in shown,
        "◌ carries a combining mark": CIRCLE in shown,
    }
    signs = "; ".join(note for note, applies in notes.items() if applies)
    left_out = (
        f"the first {LIMIT:,} of {len(text):,} characters; the last tokens may differ from those "
        "of the whole text"
    )
    return [signs] * bool(signs) + [left_out] * (len(text) > LIMIT)


# --- plain text and HTML ---------------------------------------------------------------------------
def _count(row: Row) -> str:
    n = len(row.tokens)
    return f"{n:,} token{'s' * (n != 1)}" + f", {row.message}" * bool(row.message)


def _isolated(token: str) -> str:
    """Keep right-to-left letters from reordering the row."""
    right_to_left = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in token)
    return f"\u2068{token}\u2069" if right_to_left else token


def _plain(rows: list[Row], notes: list[str]) -> str:
    labels = max(len(row.label) for row in rows)
    counts = max((len(_count(row)) for row in rows if row.tokens), default=0)
    lines = []
    for row in rows:
        tokens = " ".join(_isolated(token.marked) for token in row.tokens)
        columns = [row.label.ljust(labels), _count(row).ljust(counts), tokens]
        lines.append("  ".join(columns[not labels :]).rstrip(" "))
    return "\n".join([*lines, *notes])


def _html(rows: list[Row], notes: list[str]) -> str:
    lines = []
    for row in rows:
        boxes = " ".join(_box(token, i) for i, token in enumerate(row.tokens))
        label = f'<th scope="row"{NO_WRAP}>{escape(row.label)}</th>' if row.label else ""
        style = LEFT if row.message else NO_WRAP
        lines.append(f"<tr>{label}<td{style}>{escape(_count(row))}</td><td{LEFT}>{boxes}</td></tr>")
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f'<table dir="ltr">{"".join(lines)}</table>{below}'


def _box(token: Token, index: int) -> str:
    kind = "new" if token.new else "added" if token.added else ("even", "odd")[index % 2]
    raw = token.raw[:MAX_BYTES].hex(" ").upper() + " …" * (len(token.raw) > MAX_BYTES)
    text = regex.sub("⟨[^⟩]*⟩", r"<small>\g<0></small>", escape(token.marked))
    title = f"id {token.id}, bytes {raw}"
    return f'<code style="{BOX}{STYLES[kind]}" title="{title}"><bdi>{text}</bdi></code>'
