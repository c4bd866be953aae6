"""The card of a saved tokenizer: what it was made from and how it was measured, with hashes."""

import hashlib
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version

import pandas as pd
from tokenizers import Tokenizer

from .. import __version__
from .parts import backend_of
from .pretokenization import documents_with_counts

MARK = "<!-- written by tokhelpers.save_pretrained, which replaces this file -->"
HASHED = (
    "The hash of a text is the sum modulo 2^256 of the SHA-256 of its documents (UTF-8), each as "
    "often as it occurs: their order plays no part."
)


def serialised(tokenizer: Tokenizer) -> bytes:
    """Return the content of ``tokenizer.json``, as it is saved and hashed.

    Raises TypeError for anything but a tokenizer, ValueError for one that has Python code in it.
    """
    backend = backend_of(tokenizer)
    try:
        return backend.to_str(pretty=True).encode()
    except Exception as error:  # the library raises plain Exception
        raise ValueError(f"the tokenizer cannot be written as tokenizer.json: {error}") from error


def text_hash(text: Iterable[str]) -> tuple[str, int]:
    """Compute the hash of a corpus or of counted text, and count its documents (or pre-tokens).

    ``text`` iterates over documents or maps them to counts. The hash, 64 hexadecimal digits, is
    the sum modulo 2^256 of the SHA-256 of each document's UTF-8, times its count: it tells texts
    apart, whatever the order, but does not stop a forger. Raises TypeError for a string and for an
    iterator, which can be read only once.

    >>> text_hash(["a", "b", "a"]) == text_hash({"b": 1, "a": 2})
    True
    """
    if isinstance(text, str | bytes | Iterator) or not isinstance(text, Iterable):
        raise TypeError(
            f"a text is a corpus, a list of documents or counts, not {type(text).__name__}: give "
            "what can be read again"
        )
    total = documents = 0
    for document, n in documents_with_counts(text):
        digest = hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest()
        total += n * int.from_bytes(digest)
        documents += n
    return f"{total % (1 << 256):064x}", documents


def describe(
    tokenizer: Tokenizer,
    content: bytes,
    *,
    base: Mapping[str, Tokenizer] | None = None,
    texts: Mapping[str, Iterable[str]] | None = None,
    calls: Sequence[str] = (),
    measures: pd.Series | Mapping | None = None,
    rows: pd.Series | Mapping | None = None,
) -> str:
    """Write the card, in Markdown.

    ``content`` is what the tokenizer's file holds, the rest is as in ``save_pretrained``. Raises
    TypeError for facts of another kind.
    """
    for what, named in (("base", base), ("texts", texts)):
        if named is not None and not isinstance(named, Mapping):
            raise TypeError(
                f"{what} maps a name to each, such as {{'llama-3': ...}}: "
                f"not a {type(named).__name__}"
            )
    if isinstance(calls, str) or not all(isinstance(call, str) for call in calls):
        raise TypeError(
            f"calls is a list of strings, such as ['prune(base, order, 100)']: {calls!r:.60}"
        )
    sections = [MARK, "# A tokenizer made with tokhelpers", _identity(tokenizer, content)]
    if base:
        lines = [f"- {_line(name)}: {_identity(t, serialised(t))}" for name, t in base.items()]
        sections += ["## Made from", "\n".join(lines)]
    if texts:
        lines = [f"- {_line(name)}{_text(text)}" for name, text in texts.items()]
        sections += ["## Texts", "\n".join(lines), HASHED]
    if calls:
        lines = [f"    {line}" for call in calls for line in call.splitlines()]
        sections += ["## Calls", "\n".join(lines)]
    if measures is not None:
        sections += ["## Measures", _table(measures)]
    if rows is not None:
        told = {k: v for k, v in pd.Series(rows, dtype=object).items() if not isinstance(v, list)}
        sections += ["## Rows of the model", _table(told)]
    libraries = [f"{name} {version(name)}" for name in ("tokenizers", "transformers")]
    made_with = [f"Python {platform.python_version()}", f"tokhelpers {__version__}", *libraries]
    return "\n\n".join([*sections, "## Made with", ", ".join(made_with)]) + "\n"


def _identity(tokenizer: Tokenizer, content: bytes) -> str:
    backend, digest = backend_of(tokenizer), hashlib.sha256(content).hexdigest()
    special = sum(token.special for token in backend.get_added_tokens_decoder().values())
    size = f"{backend.get_vocab_size():,} tokens, {special:,} of them special"
    return f"{type(backend.model).__name__}, {size}; SHA-256 of its tokenizer.json: `{digest}`"


def _text(text) -> str:
    """What is said of a text after its name: what was asked for, its size, its hash, its origin."""
    digest, documents = text_hash(text)
    kind = "pre-tokens" if hasattr(text, "rules") else "documents"
    origin = [getattr(text, fact, None) for fact in ("source", "licence")]
    facts = "; ".join(["", *(_line(fact) for fact in origin if isinstance(fact, str))])
    asked = f", {_line(repr(text))}" if hasattr(text, "licence") else ""
    return f"{asked}: {documents:,} {kind}, hash `{digest}`{facts}"


def _table(measures) -> str:
    """A table of measures: rows are what is measured, one column or several."""
    if not isinstance(measures, pd.Series | Mapping):
        raise TypeError(
            "measures is a Series, as evaluate gives it, or a mapping, "
            f"not a {type(measures).__name__}"
        )
    several = isinstance(measures, Mapping) and any(
        isinstance(value, Mapping | pd.Series) for value in measures.values()
    )
    columns = measures if several else {"value": measures}
    table = pd.DataFrame({name: pd.Series(column) for name, column in columns.items()})
    rows = [["", *table.columns], ["---"] * (1 + table.shape[1])]
    rows += [[name, *map(_number, row)] for name, *row in table.itertuples()]
    return "\n".join("| " + " | ".join(map(_line, row)) + " |" for row in rows)


def _number(value) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.6g}"


def _line(value) -> str:
    """The value in one line of Markdown, safe inside a table."""
    return " ".join(str(value).split()).replace("|", "\\|")
