"""The tokens of a text, coloured: as HTML, and as plain text with the same facts."""

import unicodedata
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby

import regex
from tokenizers import Tokenizer

from ..tokenizer.checks import check_text
from ..tokenizer.encoder import Encoder
from ..tokenizer.library import as_encoder
from ..tokenizer.token_bytes import BYTE_TOKENS

LIMIT = 2_000  # characters of a text that are shown
STACK = 2  # combining marks on one character; more would reach into the lines above and below
BYTES = 16  # bytes of a token that are shown when the pointer rests on it

WHITE = {" ": "␣", "\n": "↵", "\t": "⇥"}
NEW, ADDED, NUMBER, DIFFERS, CIRCLE = "⟦⟧", "⟪⟫", "⟨⟩", "‹›", "◌"
SIGNS = "".join(WHITE.values()) + NEW + ADDED + NUMBER + CIRCLE
INKLESS = regex.compile(r"[\p{Default_Ignorable_Code_Point}\u2800]")

BOX = "display:inline-block;margin:1px;padding:0 3px;color:#111;white-space:normal;"
STYLES = {  # light boxes, on dark pages as well; borders tell the kinds apart without colours
    "even": "background:#e9f2fb;border:1px solid #666",
    "odd": "background:#c3dbf0;border:1px solid #666",
    "added": "background:#e2e2e2;border:2px dashed #444",
    "new": "background:#ffd67f;border:2px solid #7a3b00;font-weight:bold",
}
LEFT = ' style="text-align:left;vertical-align:top"'
WHOLE = LEFT.replace("top", "top;white-space:nowrap")


@dataclass(frozen=True, repr=False)
class Shown:
    """The tokens of a text as ``show_tokens`` shows them: ``plain`` text and ``html``."""

    plain: str
    html: str

    def __repr__(self) -> str:
        return self.plain

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True)
class Token:
    """A token as it is shown: readable, with its bytes, its id, and whether it is added or new."""

    readable: str
    raw: bytes
    id: int
    added: bool
    new: bool
    hover: str = ""  # what else is shown when the pointer rests on it
    differs: bool = False  # another row cuts the text otherwise here

    @property
    def marked(self) -> str:
        """The readable token between the brackets for added and new tokens."""
        text = self.readable.join(ADDED) if self.added else self.readable
        text = text.join(DIFFERS) if self.differs else text
        return text.join(NEW) if self.new else text


@dataclass(frozen=True)
class Row:
    """What a tokenizer makes of the text: its tokens, and what else there is to say."""

    label: str
    tokens: list[Token]
    message: str
    notation: str  # how it writes tokens: see _notation
    backend: Tokenizer


def show_tokens(text: str, *tokenizers: Tokenizer | Encoder, **named: Tokenizer | Encoder):
    """Show the tokens of a text, coloured, one row for each tokenizer.

    Takes ``tokenizers.Tokenizer``, ``transformers`` tokenizers, and ``AdaptBPE`` encoders; a
    keyword is the row's label. Returns an object that a notebook shows in colours and ``print`` as
    plain text. A space separates tokens: ``␣`` is a space of the text, ``↵`` a line break, ``⇥`` a
    tab, ``⟨E2 96⟩`` bytes that are no whole character, ``⟨U+200B⟩`` an invisible character, ``◌``
    what a combining mark stands on. ``⟪ ⟫`` are special and added tokens; none are put around the
    text. ``⟦ ⟧`` are tokens, not special ones, that the first tokenizer's vocabulary lacks, in rows
    of the same notation. Of a text longer than ``LIMIT`` characters the beginning is shown. Raises
    TypeError for what is no text or no tokenizer, ValueError for half of a character and where no
    tokenizer is given.

    >>> base = th.train_byte_level_bpe(["bag bat bat"], vocab_size=257)
    >>> show_tokens("a bat é", base=base, longer=th.extend(base, th.Extension(["bat"])))
    base    7 tokens  a ␣ ba t ␣ ⟨C3⟩ ⟨A9⟩
    longer  6 tokens  a ␣ ⟦bat⟧ ␣ ⟨C3⟩ ⟨A9⟩
    ⟦ ⟧ not in the vocabulary of base; ⟨ ⟩ bytes, or the number of a character
    """
    rows = token_rows(text, labelled(tokenizers, named))
    if len(rows) == len(tokenizers) == 1:
        rows = [replace(rows[0], label="")]
    return show_rows(rows, text)


def labelled(tokenizers, named) -> list[tuple[str, Tokenizer | Encoder]]:
    """Give a label to each tokenizer, its name if it has one; ValueError where there is none."""
    numbered = ((f"tokenizer {i}", tokenizer) for i, tokenizer in enumerate(tokenizers, start=1))
    encoders = [*numbered, *named.items()]
    if not encoders:
        raise ValueError("there is no tokenizer to show tokens of: give one or more")
    return encoders


def token_rows(text: str, encoders) -> list[Row]:
    """Return a row for each labelled tokenizer, of the first ``LIMIT`` characters of the text."""
    check_text(text)
    rows: list[Row] = []
    for label, tokenizer in encoders:
        rows.append(_row(text[:LIMIT], label, tokenizer, rows[0] if rows else None))
    return rows


def show_rows(rows: list[Row], text: str) -> Shown:
    """Write rows as plain text and as HTML; below them the signs in use, and what is left out."""
    notes = _notes(rows, text)
    return Shown(_plain(rows, notes), _html(rows, notes))


# --- what a tokenizer makes of the text ------------------------------------------------------------
def _row(text: str, label: str, tokenizer, first: Row | None) -> Row:
    """A tokenizer's row, in which tokens are new that the first row's vocabulary lacks."""
    encoder = as_encoder(tokenizer)
    backend, (ids, more) = encoder.backend_tokenizer, encoder.ids_and_overflow(text)
    message = "more are cut off: the tokenizer truncates" if more else ""
    if not ids:
        message = "the text is empty" if not text else "nothing of the text is left"
    notation, fallback = _notation(encoder), encoder.byte_fallback
    known = first.backend.token_to_id if first and first.notation == notation else None
    added, tokens = backend.get_added_tokens_decoder(), []
    strings = [backend.id_to_token(i) for i in ids]
    for i, token, raw in zip(ids, strings, encoder.raw(strings), strict=True):
        as_text = i in added or notation not in ("bytes", "▁")
        raw = token.encode() if as_text else raw
        readable = _readable(raw.decode(errors="surrogateescape"))
        if fallback and not as_text and token in BYTE_TOKENS:
            readable = f"⟨{raw.hex().upper()}⟩"
        special = i in added and added[i].special
        new = known is not None and known(token) is None and not special
        tokens.append(Token(readable, raw, i, i in added, new))
    return Row(label, tokens, message, notation, backend)


def _notation(encoder: Encoder) -> str:
    """How token strings are written: in the byte alphabet, with ▁ for a space, or as text."""
    if encoder.byte_level:
        return "bytes"
    backend = encoder.backend_tokenizer
    steps = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
    rules = "".join(step.__getstate__().decode() for step in steps if step is not None)
    return "▁" if "▁" in rules else getattr(backend.model, "continuing_subword_prefix", "") or ""


# --- text in which every character is visible --------------------------------------------------------
def _kind(c: str) -> str:
    if "\udc80" <= c <= "\udcff":
        return "byte"  # as Python writes a byte that it cannot decode
    if c in WHITE:
        return "white"
    if c in SIGNS or not c.isprintable() or INKLESS.match(c):
        return "number"
    return "mark" if unicodedata.category(c)[0] == "M" else "plain"


def _readable(text: str) -> str:
    """The text with a visible sign for every character and byte that has none."""
    shown, before = [], ""
    for kind, run in groupby(text, _kind):
        run = "".join(run)
        if kind == "byte":
            run = f"⟨{run.encode('utf-8', 'surrogateescape').hex(' ').upper()}⟩"
        elif kind == "number":
            run = "".join(f"⟨U+{ord(c):04X}⟩" for c in run)
        elif kind == "white":
            run = "".join(map(WHITE.__getitem__, run))
        elif kind == "mark":
            stacks = (run[i : i + STACK] for i in range(0, len(run), STACK))
            run = CIRCLE * (before != "plain") + CIRCLE.join(stacks)
        shown.append(run)
        before = kind
    return "".join(shown)


def _notes(rows: list[Row], text: str) -> list[str]:
    """What those signs mean that occur in the rows, and how much of a long text is shown."""
    tokens = [token for row in rows for token in row.tokens]
    shown = "".join(token.readable for token in tokens)
    others = [row.label for row in rows if row.tokens and row.notation != rows[0].notation]
    new = f"⟦ ⟧ not in the vocabulary of {rows[0].label}"
    if others:
        new += f" (not asked of {', '.join(others)}: tokens are written in another notation there)"
    notes = {
        new: any(token.new for token in tokens),
        "⟪ ⟫ special or added tokens": any(token.added for token in tokens),
        "‹ › cut otherwise by another row": any(token.differs for token in tokens),
        "⟨ ⟩ bytes, or the number of a character": NUMBER[0] in shown,
        "◌ carries a combining mark": CIRCLE in shown,
    }
    signs = "; ".join(note for note, holds in notes.items() if holds)
    left_out = (
        f"the first {LIMIT:,} of {len(text):,} characters; the last tokens may differ from those "
        "of the whole text"
    )
    return [signs] * bool(signs) + [left_out] * (len(text) > LIMIT)


# --- the two ways of showing -----------------------------------------------------------------------
def _count(row: Row) -> str:
    n = len(row.tokens)
    return f"{n:,} token{'s' * (n != 1)}" + f", {row.message}" * bool(row.message)


def _isolated(token: str) -> str:
    """Keep letters written from right to left from turning the row around."""
    turned = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in token)
    return f"\u2068{token}\u2069" if turned else token


def _plain(rows: list[Row], notes: list[str]) -> str:
    labels = max(len(row.label) for row in rows)
    counts = max((len(_count(row)) for row in rows if row.tokens), default=0)
    lines = []
    for row in rows:
        tokens = " ".join(_isolated(token.has_word_markers) for token in row.tokens)
        columns = [row.label.ljust(labels), _count(row).ljust(counts), tokens]
        lines.append("  ".join(columns[not labels :]).rstrip(" "))
    return "\n".join([*lines, *notes])


def _html(rows: list[Row], notes: list[str]) -> str:
    lines = []
    for row in rows:
        boxes = " ".join(_box(token, i) for i, token in enumerate(row.tokens))
        label = f'<th scope="row"{WHOLE}>{escape(row.label)}</th>' if row.label else ""
        style = LEFT if row.message else WHOLE
        lines.append(f"<tr>{label}<td{style}>{escape(_count(row))}</td><td{LEFT}>{boxes}</td></tr>")
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f'<table dir="ltr">{"".join(lines)}</table>{below}'


def _box(token: Token, place: int) -> str:
    kind = "new" if token.new else "added" if token.added else ("even", "odd")[place % 2]
    few = token.raw[:BYTES].hex(" ").upper() + " …" * (len(token.raw) > BYTES)
    shown = regex.sub("⟨[^⟩]*⟩", r"<small>\g<0></small>", escape(token.has_word_markers))
    title = f"id {token.id}, bytes {few}{token.hover}"
    line = ";text-decoration:underline" * token.differs
    return f'<code style="{BOX}{STYLES[kind]}{line}" title="{title}"><bdi>{shown}</bdi></code>'
