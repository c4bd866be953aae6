"""A tokenizer as a folder that transformers loads, with what a model needs besides, and a card.

The card says what the tokenizer was made from and how it was measured, with hashes.
"""

import hashlib
import json
import os
import platform
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import repeat
from pathlib import Path

import pandas as pd
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from .. import __version__
from .checks import positive
from .files import destination, reason, replacing
from .library import described

MARK = "<!-- written by tokhelpers.save_pretrained, which replaces this file -->"
HASHED = (
    "The hash of a text is the sum modulo 2^256 of the SHA-256 of its documents (UTF-8), each as "
    "often as it occurs: their order plays no part."
)
FILES = {  # what is replaced in a folder that exists
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "additional_chat_templates", "TOKENIZER.md",
}  # fmt: skip
OTHERS = {  # what programs besides transformers may read first
    "tokenizer.model", "tekken.json", "tiktoken.model", "spiece.model", "sentencepiece.bpe.model",
    "vocab.json", "merges.txt", "vocab.txt",
}  # fmt: skip
KEPT = (
    "model_max_length", "padding_side", "truncation_side", "clean_up_tokenization_spaces",
    "model_input_names", "split_special_tokens", "response_template", "chat_control_tokens",
)  # fmt: skip


def save_pretrained(
    tokenizer: Tokenizer,
    folder: str | os.PathLike,
    *,
    like: str | os.PathLike | PreTrainedTokenizerBase | None = None,
    base: Mapping[str, Tokenizer] | None = None,
    texts: Mapping[str, Iterable[str]] | None = None,
    calls: Sequence[str] = (),
    measures: pd.Series | Mapping | None = None,
    model=None,
    rows: pd.Series | Mapping | None = None,
) -> None:
    """Save a tokenizer as a ``transformers`` folder, written whole or not at all.

    ``AutoTokenizer.from_pretrained(folder)`` loads it, offline and without remote code; the folder
    is loaded once before it counts as saved. ``like``, a folder or a ``transformers`` tokenizer (by
    default ``tokenizer`` itself, if it is one, else what ``folder`` holds already), gives what
    ``tokenizer.json`` does not say: the roles of special tokens, the chat templates, the largest
    length, the sides of padding and truncation. A ``model`` of ``transformers`` is written with the
    tokenizer, both or neither.

    A folder that exists keeps its other files, such as a model's weights, as hard links. Killed at
    any point, it is the old one or the new one. This needs Linux or macOS and a file system that
    swaps two folders in one step; elsewhere only new folders are written.

    The other arguments go on the card, README.md (TOKENIZER.md where the folder has a README.md of
    its own): ``base`` maps names to the tokenizers it was made from, ``texts`` maps names to
    corpora or counts, which are read for their hash, ``calls`` lists what was called, ``measures``
    is what ``evaluate`` gave, or a mapping of names to that, and ``rows``, such as the plan of
    ``plan_transfer``, says where a model's rows came from.

    Raises TypeError for anything but a tokenizer, FileNotFoundError for a missing ``like``,
    ValueError for one that cannot be read or whose special tokens the tokenizer lacks, and where
    AutoTokenizer would read another tokenizer; OSError for a folder that cannot be written. Warns
    where ``like`` puts other special tokens around a text, of other programs' tokenizer files, and
    where roles and templates that the folder has do not fit and are lost.

    >>> import tempfile
    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save_pretrained(tokenizer, f"{place}/bats", calls=["train_byte_level_bpe(...)"])
    ...     AutoTokenizer.from_pretrained(f"{place}/bats").tokenize("bat")
    ['ba', 't']
    """
    backend, folder = described(tokenizer).backend_tokenizer, destination(folder)
    if like is None:
        wrapped = isinstance(tokenizer, PreTrainedTokenizerBase)
        like = tokenizer if wrapped else _own(folder, backend)
    source = _opened(like)
    content = _serialised(backend)
    card = "README.md" if _ours(folder / "README.md") else "TOKENIZER.md"
    files = {
        "tokenizer.json": content,
        "tokenizer_config.json": _config(backend, source).encode(),
        card: _card(backend, content, base, texts, calls, measures, rows).encode(),
    }
    names = FILES | {card} | (set() if model is None else _weights(folder))
    with replacing(folder, names) as draft:
        if model is not None:
            model.save_pretrained(draft)
            names.update(_weights(draft))
        for name, content in files.items():
            (draft / name).write_bytes(content)
        _read_back(draft, backend)
        _warn(draft, backend, source)


def _weights(folder: Path) -> set[str]:
    """The files of a model in a folder, which another model replaces."""
    found = {p.name for p in folder.glob("*.safetensors*")} if folder.is_dir() else set()
    return found | {"config.json", "generation_config.json"}


def _ours(card: Path) -> bool:
    """Whether nothing is there, or a card that was written here."""
    return not os.path.lexists(card) or (
        card.is_file() and card.read_bytes().startswith(MARK.encode())
    )


# --- what a model needs besides the tokenizer ----------------------------------------------------
def _opened(like) -> PreTrainedTokenizerBase | None:
    """The transformers tokenizer that ``like`` is, or that its folder holds."""
    if like is None or isinstance(like, PreTrainedTokenizerBase):
        return like
    if not isinstance(like, str | os.PathLike):
        kind = type(like).__name__
        raise TypeError(f"like is a folder or a transformers tokenizer, not {kind}")
    folder = Path(os.path.expanduser(like))
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}: like is a folder that AutoTokenizer loads")
    return _load(folder, f"like={str(folder)!r}", mistral_format=False)


def _own(folder: Path, backend: Tokenizer) -> PreTrainedTokenizerBase | None:
    """The tokenizer that the folder holds, if its special tokens are this one's, too."""
    if not (folder / "tokenizer_config.json").is_file():
        return None
    try:
        found = _load(folder, f"{folder}", mistral_format=False)
        if missing := _lacking(found, backend):
            raise ValueError(f"its special token {missing[0]!r} is none of this tokenizer's")
    except ValueError as error:
        warnings.warn(
            f"the roles of special tokens and chat templates in {folder} are not kept: {error}; give "
            "like=, a folder that has what is right",
            stacklevel=3,
        )
        return None
    return found


def _added(backend: Tokenizer) -> set[str]:
    return {token.content for token in backend.get_added_tokens_decoder().values()}


def _lacking(like: PreTrainedTokenizerBase, backend: Tokenizer) -> list[str]:
    """The special tokens of ``like`` that are no added tokens of this tokenizer."""
    added = _added(backend)
    special = (*like.special_tokens_map.values(), *like.extra_special_tokens)
    return [token for token in special if token not in added]


def _load(folder: Path, name: str, **options) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # whatever the files in it make the library raise
        raise ValueError(f"AutoTokenizer cannot load {name}: {reason(error)}") from error


def _config(backend: Tokenizer, like: PreTrainedTokenizerBase | None) -> str:
    """The content of tokenizer_config.json, in the form that transformers 4 reads as well."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    if like is not None:
        config |= {name: value for name in KEPT if (value := getattr(like, name, None)) is not None}
        special, more = like.special_tokens_map, list(like.extra_special_tokens)
        if missing := _lacking(like, backend):  # the library would add them
            raise ValueError(
                f"{len(missing):,} special tokens of like, first {missing[0]!r}, are not special in "
                "this tokenizer: give the folder it was made from, or use add_special_tokens"
            )
        config |= special
        if more:
            config["additional_special_tokens"] = more
        template = like.chat_template
        if isinstance(template, dict):
            template = [{"name": name, "template": text} for name, text in template.items()]
        if template:
            config["chat_template"] = template
    elif (unk := getattr(backend.model, "unk_token", None)) in _added(backend):
        config["unk_token"] = unk  # the one role that the tokenizer itself knows
    return json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


# --- checks of what was written -----------------------------------------------------------------
def _read_back(folder: Path, backend: Tokenizer) -> None:
    """Load the folder as AutoTokenizer does, and refuse one that gives another tokenizer."""
    loaded = _load(folder, "the folder")
    other, unlike = getattr(loaded, "backend_tokenizer", None), ["kind"]
    if other is not None:
        if other.to_str() == backend.to_str():  # saves reading large files as JSON
            return
        first, second = (_comparable(json.loads(t.to_str())) for t in (backend, other))
        unlike = [part for part in first if first[part] != second[part]]
    if unlike:
        advice = "the tokenizer does not survive saving, so build it anew"
        if (folder / "config.json").exists():
            advice = "the config.json in the folder asks for that, so save to a folder of its own"
        raise ValueError(
            f"AutoTokenizer would load this tokenizer with another {', '.join(unlike)}, as "
            f"{type(loaded).__name__}: {advice}"
        )


def _comparable(settings: dict) -> dict:
    """Settings without what means the same whether transformers writes it or not."""
    model = {k: v for k, v in settings["model"].items() if v not in (None, "")}
    around = settings["post_processor"] or {}
    nothing = around.get("type") == "TemplateProcessing" and not around["special_tokens"]
    return {**settings, "model": model, "post_processor": None if nothing else around or None}


def _warn(folder: Path, backend: Tokenizer, like: PreTrainedTokenizerBase | None) -> None:
    """Warn before the folder is swapped, so that a warning made an error stops the saving."""
    others = sorted(OTHERS & {path.name for path in folder.iterdir()})
    if others:
        warnings.warn(
            f"the folder keeps {', '.join(others)}, which some programs read rather than "
            "tokenizer.json: replace or delete those of another tokenizer",
            stacklevel=3,
        )
    model = getattr(like, "backend_tokenizer", backend)
    around, own = (tokenizer.encode("").tokens for tokenizer in (model, backend))
    if around != own:
        warnings.warn(
            f"like puts {around} around an empty text, this tokenizer {own}: set its post_processor "
            "if the model expects like's",
            stacklevel=3,
        )


# --- the card ------------------------------------------------------------------------------------
def _serialised(tokenizer: Tokenizer) -> bytes:
    """The content of tokenizer.json, as it is saved and hashed."""
    backend = described(tokenizer).backend_tokenizer
    try:
        return backend.to_str(pretty=True).encode()
    except Exception as error:  # the library raises plain Exception for Python code in a tokenizer
        raise ValueError(f"the tokenizer cannot be written as tokenizer.json: {error}") from error


def text_hash(text: Iterable[str]) -> tuple[str, int]:
    """Compute the hash (see ``HASHED``) of a corpus or counts, and how many documents or pre-tokens it has.

    Raises TypeError for a string and for an iterator, which can be read only once.
    """
    if isinstance(text, str | bytes | Iterator) or not isinstance(text, Iterable):
        kind = type(text).__name__
        raise TypeError(f"a text is a corpus, a list of documents or counts, not {kind}")
    counts = text if isinstance(text, Mapping) else getattr(text, "counts", None)
    weighted = zip(text, repeat(1)) if counts is None else counts.items()
    total = documents = 0
    for document, n in weighted:
        digest = hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest()
        n = positive("a count of the text", n, 0)
        total += n * int.from_bytes(digest)
        documents += n
    return f"{total % (1 << 256):064x}", documents


def _card(tokenizer: Tokenizer, content: bytes, base, texts, calls, measures, rows) -> str:
    """The card, in Markdown: ``content`` is that of tokenizer.json, the rest as for save_pretrained."""
    for what, named in (("base", base), ("texts", texts)):
        if not isinstance(named or {}, Mapping):
            raise TypeError(f"{what} is a mapping from names, not a {type(named).__name__}")
    if isinstance(calls, str):
        raise TypeError(f"calls is a list of strings, such as ['prune(base, order, 100)']: {calls}")
    old = [f"- {_line(name)}: {_identity(t, _serialised(t))}" for name, t in (base or {}).items()]
    read = [f"- {_line(name)}{_text(text)}" for name, text in (texts or {}).items()]
    libraries = [f"{name} {version(name)}" for name in ("tokenizers", "transformers")]
    made_with = [f"Python {platform.python_version()}", f"tokhelpers {__version__}", *libraries]
    sections = {
        "# A tokenizer made with tokhelpers": [_identity(tokenizer, content)],
        "## Made from": old,
        "## Texts": [*read, "", HASHED] if read else [],
        "## Calls": [f"    {line}" for call in calls for line in call.splitlines()],
        "## Measures": _table(measures),
        "## Rows of the model": _table(rows),
        "## Made with": [", ".join(made_with)],
    }
    told = ["\n".join([title, "", *lines]) for title, lines in sections.items() if lines]
    return "\n\n".join([MARK, *told]) + "\n"


def _identity(tokenizer: Tokenizer, content: bytes) -> str:
    encoder, digest = described(tokenizer), hashlib.sha256(content).hexdigest()
    tokens, special = len(encoder.all_ids), len(encoder.special)
    size = f"{tokens:,} tokens, {special:,} of them special"
    return f"{encoder.kind}, {size}; SHA-256 of its tokenizer.json: `{digest}`"


def _text(text) -> str:
    """What is said of a text after its name: what was asked for, its size, its hash, its origin."""
    digest, documents = text_hash(text)
    kind = "pre-tokens" if hasattr(text, "rules") else "documents"
    origin = [getattr(text, fact, None) for fact in ("source", "licence")]
    facts = "; ".join(["", *(_line(fact) for fact in origin if isinstance(fact, str))])
    asked = f", {_line(repr(text))}" if hasattr(text, "licence") else ""
    return f"{asked}: {documents:,} {kind}, hash `{digest}`{facts}"


def _table(facts: pd.Series | Mapping | None) -> list[str]:
    """A table's lines: rows are what is measured, one column or several; lists are left out."""
    if facts is None:
        return []
    if not isinstance(facts, pd.Series | Mapping):
        raise TypeError(f"measures are a Series or a mapping, not a {type(facts).__name__}")
    facts = {name: fact for name, fact in facts.items() if not isinstance(fact, list)}
    several = any(isinstance(fact, Mapping | pd.Series) for fact in facts.values())
    columns = facts if several else {"value": facts}
    table = pd.DataFrame({name: pd.Series(column) for name, column in columns.items()})
    rows = [["", *table.columns], ["---"] * (1 + table.shape[1])]
    rows += [[name, *map(_number, row)] for name, *row in table.itertuples()]
    return ["| " + " | ".join(map(_line, row)) + " |" for row in rows]


def _number(value) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.6g}"


def _line(value) -> str:
    """The value in one line of Markdown, safe inside a table."""
    return " ".join(str(value).split()).replace("|", "\\|")
