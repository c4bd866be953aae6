"""Save a tokenizer as a folder that ``transformers`` loads, with a card that says how it was made."""

import hashlib
import json
import os
import platform
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path

import pandas as pd
from tokenizers import Tokenizer

from .. import __version__
from ..common.checks import positive
from ..common.extras import requires
from ..common.files import destination, reason, writing_folder
from .library_encoder import as_encoder
from .packaged_roles import packaged_roles
from .vendors import NAMES

CARD_MARK = "<!-- written by tokhelpers.save_pretrained, which replaces this file -->"
CONVERTING = """\
llama.cpp's converter to GGUF recognizes a pre-tokenizer by a hash of the IDs of a test text. New or pruned
tokens can change these IDs; it then stops with "BPE pre-tokenizer was not recognized". If the pre-tokenizer
is that of the base model (superwords change it), map the printed hash to the base model's name in
`get_vocab_base_pre`, convert, and compare the IDs of texts of your own with those of tokenizer.json."""
HASH_EXPLAINED = (
    "The hash of a text is the sum modulo 2^256 of the SHA-256 digests of its documents (UTF-8), "
    "each as often as it occurs, so the order of the documents does not matter."
)
REPLACED = {  # in a folder that is overwritten
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "additional_chat_templates", "TOKENIZER.md",
}  # fmt: skip
READ_FIRST = {  # by programs other than transformers
    "tokenizer.model", "tekken.json", "tiktoken.model", "spiece.model", "sentencepiece.bpe.model",
    "vocab.json", "merges.txt", "vocab.txt",
}  # fmt: skip
COPIED = (  # from the configuration of ``like``
    "model_max_length", "padding_side", "truncation_side", "clean_up_tokenization_spaces",
    "model_input_names", "split_special_tokens", "response_template", "chat_control_tokens",
)  # fmt: skip


def save_pretrained(
    tokenizer: Tokenizer,
    folder: str | os.PathLike,
    *,
    like=None,
    overwrite: bool = False,
    base: Mapping[str, Tokenizer] | None = None,
    texts: Mapping[str, Iterable[str]] | None = None,
    calls: Sequence[str] = (),
    measures: pd.Series | Mapping | None = None,
    model=None,
    rows: pd.Series | Mapping | None = None,
) -> None:
    """Save a tokenizer as a folder that ``AutoTokenizer.from_pretrained`` loads.

    ``like``, a folder, a packaged tokenizer's name (``smollm2-135m``) or a ``transformers`` tokenizer,
    provides what ``tokenizer.json`` cannot hold: the roles of special tokens, chat templates, the
    maximum length, and the sides of padding and truncation. It defaults to ``tokenizer`` if that is a
    ``transformers`` tokenizer, else to the folder that is overwritten. ``model``, a ``transformers``
    model, is saved into the same folder.

    A folder that holds files is refused unless ``overwrite=True``. Its other files, such as a model's
    weights, are then kept as hard links. The new folder is written beside the old one, which is moved
    aside before the new one takes its name: if the process is killed in between, ``folder`` is missing
    and the old one is left as ``.NAME.*.old``.

    The card (README.md, or TOKENIZER.md beside a README.md of your own) records ``base``, the
    tokenizers it was made from by name; ``texts``, corpora or counts by name, which are read for their
    hash; ``calls``, the calls that made it; ``measures``, a result of ``evaluate`` or a mapping from
    names to results; and ``rows``, where a model's embeddings came from, as ``plan_transfer`` says.

    Raises TypeError for anything but a tokenizer, FileNotFoundError if ``like`` does not exist,
    ValueError if it cannot be loaded or has special tokens that the tokenizer lacks, or if
    AutoTokenizer would load a different tokenizer, and OSError if the folder cannot be written. Warns
    if ``like`` puts other special tokens around a text, and of tokenizer files for other programs.

    >>> import tempfile
    >>> from transformers import AutoTokenizer
    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save_pretrained(tokenizer, f"{place}/bats", calls=["train_byte_level_bpe(...)"])
    ...     AutoTokenizer.from_pretrained(f"{place}/bats").tokenize("bat")
    ['ba', 't']
    """
    backend, folder = as_encoder(tokenizer).backend_tokenizer, destination(folder)
    if like is None and hasattr(tokenizer, "special_tokens_map"):
        like = tokenizer
    elif like is None and overwrite and (folder / "tokenizer_config.json").is_file():
        like = folder
    source = _load_like(like)
    content = _serialise(backend)
    card = "README.md" if _is_ours(folder / "README.md") else "TOKENIZER.md"
    files = {
        "tokenizer.json": content,
        "tokenizer_config.json": _config(backend, source).encode(),
        card: _card(backend, content, base, texts, calls, measures, rows).encode(),
    }
    replaced = REPLACED | {card} | (set() if model is None else _weight_files(folder))
    with writing_folder(folder, replaced, overwrite=overwrite) as draft:
        if model is not None:
            model.save_pretrained(draft)
        for name, content in files.items():
            (draft / name).write_bytes(content)
        if find_spec("transformers"):
            _check_loaded(draft, backend)
        _warn(draft, backend, source)


def _weight_files(folder: Path) -> set[str]:
    """The files of a model in a folder, which another model replaces."""
    weights = {p.name for p in folder.glob("*.safetensors*")} if folder.is_dir() else set()
    return weights | {"config.json", "generation_config.json"}


def _is_ours(card: Path) -> bool:
    """Whether there is no card, or one that ``save_pretrained`` wrote."""
    return not os.path.lexists(card) or (
        card.is_file() and card.read_bytes().startswith(CARD_MARK.encode())
    )


# --- configuration --------------------------------------------------------------------------------
def _load_like(like):
    """The ``transformers`` tokenizer that ``like`` is, or what its folder or package holds."""
    if like is None or hasattr(like, "special_tokens_map"):
        return like
    if not isinstance(like, str | os.PathLike):
        kind = type(like).__name__
        raise TypeError(
            "like must be a folder, the name of a packaged tokenizer or a transformers tokenizer, "
            f"not {kind}"
        )
    if like in NAMES:
        return packaged_roles(like)
    folder = Path(os.path.expanduser(like))
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is no folder {folder}: like must be a folder that AutoTokenizer loads, or a name "
            "that load_tokenizer knows"
        )
    return _load(folder, f"like={str(folder)!r}", mistral_format=False)


def _load(folder: Path, name: str, **options):
    with requires("models"):
        from transformers import AutoTokenizer
    try:
        return AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **options
        )
    except Exception as error:  # whatever the files make the library raise
        raise ValueError(f"AutoTokenizer cannot load {name}: {reason(error)}") from error


def _added(backend: Tokenizer) -> set[str]:
    return {token.content for token in backend.get_added_tokens_decoder().values()}


def _config(backend: Tokenizer, like) -> str:
    """The content of tokenizer_config.json.

    It is not written by transformers, whose version 5 names a class that version 4 cannot load.
    """
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    added = _added(backend)
    if like is None:
        unk = getattr(backend.model, "unk_token", None)
        return _as_json(config | ({"unk_token": unk} if unk in added else {}))
    roles, extra = like.special_tokens_map, list(like.extra_special_tokens)
    if missing := [token for token in (*roles.values(), *extra) if token not in added]:
        raise ValueError(  # the library would add them
            f"{len(missing):,} special tokens of like, first {missing[0]!r}, are not special in this "
            "tokenizer: give like=, the folder it was made from, or add them with add_special_tokens"
        )
    config |= {name: value for name in COPIED if (value := getattr(like, name, None)) is not None}
    config |= roles | ({"additional_special_tokens": extra} if extra else {})
    if template := like.chat_template:
        if isinstance(template, dict):
            template = [{"name": name, "template": text} for name, text in template.items()]
        config["chat_template"] = template
    return _as_json(config)


def _as_json(config: dict) -> str:
    return json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


# --- checks of what was written -------------------------------------------------------------------
def _check_loaded(folder: Path, backend: Tokenizer) -> None:
    """Load the folder as AutoTokenizer does, and refuse it if another tokenizer comes back."""
    loaded = _load(folder, "the folder")
    other, changed = getattr(loaded, "backend_tokenizer", None), ["kind"]
    if other is not None:
        if other.to_str() == backend.to_str():  # saves parsing large files
            return
        first, second = (_comparable(json.loads(t.to_str())) for t in (backend, other))
        changed = [part for part in first if first[part] != second[part]]
    if changed:
        advice = "the tokenizer does not survive saving, so build it anew"
        if (folder / "config.json").exists():
            advice = "the config.json in the folder asks for that, so save to another folder"
        raise ValueError(
            f"AutoTokenizer would load this tokenizer with another {', '.join(changed)}, as "
            f"{type(loaded).__name__}: {advice}"
        )


def _comparable(settings: dict) -> dict:
    """Settings without entries that mean the same whether transformers writes them or not."""
    model = {k: v for k, v in settings["model"].items() if v not in (None, "")}
    post = settings["post_processor"] or {}
    empty = post.get("type") == "TemplateProcessing" and not post["special_tokens"]
    return {**settings, "model": model, "post_processor": None if empty else post or None}


def _warn(folder: Path, backend: Tokenizer, like) -> None:
    """Warn before the folder takes its place, so that a warning raised as an error stops the saving."""
    if others := sorted(READ_FIRST & {path.name for path in folder.iterdir()}):
        warnings.warn(
            f"the folder keeps {', '.join(others)}, which some programs read instead of tokenizer.json: "
            "delete these files if they belong to another tokenizer",
            stacklevel=3,
        )
    reference = getattr(like, "backend_tokenizer", backend)
    theirs, ours = (tokenizer.encode("").tokens for tokenizer in (reference, backend))
    if theirs != ours:
        warnings.warn(
            f"like encodes an empty text as {theirs}, this tokenizer as {ours}: set its post_processor if "
            "the model expects these special tokens",
            stacklevel=3,
        )


# --- the card -------------------------------------------------------------------------------------
def _serialise(tokenizer: Tokenizer) -> bytes:
    """The content of tokenizer.json, as it is saved and hashed."""
    backend = as_encoder(tokenizer).backend_tokenizer
    try:
        return backend.to_str(pretty=True).encode()
    except Exception as error:  # the library raises plain Exception for Python code in a tokenizer
        raise ValueError(f"the tokenizer cannot be written as tokenizer.json: {error}") from error


def text_hash(text: Iterable[str]) -> tuple[str, int]:
    """Compute the hash of a corpus or of counts, and its number of documents or pre-tokens.

    Raises TypeError for a string and for an iterator, which can be read only once.
    """
    if isinstance(text, str | bytes | Iterator) or not isinstance(text, Iterable):
        kind = type(text).__name__
        raise TypeError(f"a text must be a corpus, a list of documents or counts, not {kind}")
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
    """The card in Markdown; ``content`` is that of tokenizer.json."""
    for name, value in (("base", base), ("texts", texts)):
        if not isinstance(value or {}, Mapping):
            raise TypeError(f"{name} must be a mapping from names, not {type(value).__name__}")
    if isinstance(calls, str):
        raise TypeError(
            f"calls must be a list of strings, such as ['prune(base, order, 100)']: {calls}"
        )
    made_from = [
        f"- {_line(name)}: {_identity(t, _serialise(t))}" for name, t in (base or {}).items()
    ]
    read = [f"- {_line(name)}{_text_facts(text)}" for name, text in (texts or {}).items()]
    libraries = [
        f"{name} {version(name)}" for name in ("tokenizers", "transformers") if find_spec(name)
    ]
    made_with = [f"Python {platform.python_version()}", f"tokhelpers {__version__}", *libraries]
    sections = {
        "# A tokenizer made with tokhelpers": [_identity(tokenizer, content)],
        "## Made from": made_from,
        "## Texts": [*read, "", HASH_EXPLAINED] if read else [],
        "## Calls": [f"    {line}" for call in calls for line in call.splitlines()],
        "## Measures": _table(measures),
        "## Embeddings of the model": _table(rows),
        "## Converting": [CONVERTING] if as_encoder(tokenizer).kind == "BPE" and base else [],
        "## Made with": [", ".join(made_with)],
    }
    written = ["\n".join([title, "", *lines]) for title, lines in sections.items() if lines]
    return "\n\n".join([CARD_MARK, *written]) + "\n"


def _identity(tokenizer: Tokenizer, content: bytes) -> str:
    encoder, digest = as_encoder(tokenizer), hashlib.sha256(content).hexdigest()
    tokens, special = len(encoder.all_ids), len(encoder.special)
    size = f"{tokens:,} tokens, {special:,} of them special"
    return f"{encoder.kind}, {size}; SHA-256 of its tokenizer.json: `{digest}`"


def _text_facts(text) -> str:
    """What the card says of a text after its name: arguments, size, hash and origin."""
    digest, documents = text_hash(text)
    kind = "pre-tokens" if hasattr(text, "spaced_words") else "documents"
    origin = [getattr(text, fact, None) for fact in ("source", "licence")]
    facts = "; ".join(["", *(_line(fact) for fact in origin if isinstance(fact, str))])
    arguments = f", {_line(repr(text))}" if hasattr(text, "licence") else ""
    return f"{arguments}: {documents:,} {kind}, hash `{digest}`{facts}"


def _table(facts: pd.Series | Mapping | None) -> list[str]:
    """The lines of a Markdown table with a row per measure, without measures that are lists."""
    if facts is None:
        return []
    if not isinstance(facts, pd.Series | Mapping):
        raise TypeError(f"measures must be a Series or a mapping, not {type(facts).__name__}")
    facts = {name: fact for name, fact in facts.items() if not isinstance(fact, list)}
    several = any(isinstance(fact, Mapping | pd.Series) for fact in facts.values())
    columns = facts if several else {"value": facts}
    table = pd.DataFrame({name: pd.Series(column) for name, column in columns.items()})
    lines = [["", *table.columns], ["---"] * (1 + table.shape[1])]
    lines += [[name, *map(_number, row)] for name, *row in table.itertuples()]
    return ["| " + " | ".join(map(_line, line)) + " |" for line in lines]


def _number(value) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.6g}"


def _line(value) -> str:
    """The value in one line of Markdown, safe inside a table."""
    return " ".join(str(value).split()).replace("|", "\\|")
