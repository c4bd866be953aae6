"""A tokenizer as a folder that transformers loads, with what a model needs besides, and a card."""

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from .cards import MARK, describe, serialised
from .files import destination, reason
from .folders import replacing
from .parts import backend_of

CARDS = ("README.md", "TOKENIZER.md")  # the second where somebody else wrote the first
FILES = {  # what is replaced in a folder that exists
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "additional_chat_templates",
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
    default ``tokenizer`` itself, if it is one), gives what ``tokenizer.json`` does not say: the
    roles of special tokens, the chat templates, the largest length, the sides of padding and
    truncation. A ``model`` of ``transformers`` is written with the tokenizer, both or neither.

    A folder that exists keeps its other files, such as a model's weights, as hard links. Killed
    at any point, it is the old one or the new one, complete and never missing. This needs Linux or
    macOS and a file system that swaps two folders in one step; elsewhere only new folders are written.

    The other arguments go on the card, README.md (TOKENIZER.md where the folder has a README.md of
    its own): ``base`` maps names to the tokenizers it was made from, ``texts`` maps names to
    corpora or counts, which are read for their hash, ``calls`` lists what was called, ``measures``
    is what ``evaluate`` gave, or a mapping of names to that, and ``rows``, such as the plan of
    ``plan_transfer``, says where a model's rows came from.

    Raises TypeError for anything but a tokenizer, FileNotFoundError for a ``like`` that is not there,
    ValueError for one that cannot be read or whose special tokens the tokenizer lacks, and for a
    folder whose ``config.json`` makes AutoTokenizer read another tokenizer; OSError for a folder
    that cannot be written. Warns where ``like`` puts other special tokens around a text, and of
    other programs' tokenizer files in the folder, which stay.

    >>> import tempfile
    >>> tokenizer = th.train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save_pretrained(tokenizer, f"{place}/bats", calls=["train_byte_level_bpe(...)"])
    ...     AutoTokenizer.from_pretrained(f"{place}/bats").tokenize("bat")
    ['ba', 't']
    """
    backend, folder = backend_of(tokenizer), destination(folder)
    source = _opened(tokenizer if like is None and tokenizer is not backend else like)
    content = serialised(backend)
    files = {"tokenizer.json": content.decode(), **_settings(backend, source)}
    ours = [name for name in CARDS if _ours(folder / name)]
    if not ours:
        raise FileExistsError(
            f"{folder} has a {' and a '.join(CARDS)} from elsewhere: rename one, so that the card "
            "can be written"
        )
    facts = {"base": base, "texts": texts, "calls": calls, "measures": measures, "rows": rows}
    files[ours[0]] = describe(backend, content, **facts)
    names = FILES | {*ours} | (set() if model is None else _weights(folder))
    with replacing(folder, names) as draft:
        if model is not None:
            model.save_pretrained(draft)
            names.update(_weights(draft))
        for name, content in files.items():
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_bytes(content.encode())
        _read_back(draft, backend)
        _warn(draft, backend, source)


def _weights(folder: Path) -> set[str]:
    """The files of a model in a folder, which another model replaces."""
    found = {p.name for p in folder.glob("*.safetensors*")} if folder.is_dir() else set()
    return found | {"config.json", "generation_config.json"}


def _ours(card: Path) -> bool:
    """Whether nothing is there, or a card that was written here."""
    if not os.path.lexists(card):
        return True
    return card.is_file() and card.read_bytes().startswith(MARK.encode())


# --- what a model needs besides the tokenizer ----------------------------------------------------
def _opened(like) -> PreTrainedTokenizerBase | None:
    """The transformers tokenizer that ``like`` is, or that its folder holds."""
    if like is None or isinstance(like, PreTrainedTokenizerBase):
        return like
    if not isinstance(like, str | os.PathLike):
        raise TypeError(
            f"like is a folder or a transformers tokenizer, not {type(like).__name__}: a chat template "
            "and the roles of special tokens are nowhere else"
        )
    folder = Path(os.path.expanduser(like))
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}: like is a folder that AutoTokenizer loads")
    try:
        return AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, mistral_format=False
        )
    except Exception as error:  # whatever the files in it make the library raise
        raise ValueError(f"like={str(folder)!r} cannot be loaded: {reason(error)}") from error


def _settings(backend: Tokenizer, like: PreTrainedTokenizerBase | None) -> dict[str, str]:
    """The files besides tokenizer.json and the card: content by name."""
    # the class has this name in transformers 4 as well
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    special, files = {}, {}
    if like is not None:
        config |= {name: value for name in KEPT if (value := getattr(like, name, None)) is not None}
        special, more = like.special_tokens_map, list(like.extra_special_tokens)
        _check_special(backend, [*special.values(), *more])
        if more:
            config["additional_special_tokens"] = more  # version 5 reads the older name, too
        template, files = _templates(like.chat_template)
        config |= template
    elif (unk := getattr(backend.model, "unk_token", None)) in _added(backend):
        special = {"unk_token": unk}  # the one role that the tokenizer itself knows
    files["tokenizer_config.json"] = _json({**special, **config})
    files["special_tokens_map.json"] = _json(special)
    return files


def _json(value) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _added(backend: Tokenizer) -> set[str]:
    return {token.content for token in backend.get_added_tokens_decoder().values()}


def _check_special(backend: Tokenizer, tokens: Sequence[str]) -> None:
    """Refuse special tokens of ``like`` that are not special here: the library would add them."""
    there = _added(backend)
    missing = [token for token in tokens if token not in there]
    if missing:
        ordinary = backend.token_to_id(missing[0]) is not None
        raise ValueError(
            f"{len(missing):,} special tokens of like, first {missing[0]!r}, are "
            f"{'ordinary tokens' if ordinary else 'not'} in this tokenizer: give the folder of the "
            "tokenizer it was made from, or add them with add_special_tokens"
        )


def _templates(template: str | dict | None) -> tuple[dict, dict[str, str]]:
    """The chat template or templates: the entry of the configuration, and the files."""
    if not template:
        return {}, {}
    named = template if isinstance(template, dict) else {"default": template}
    files = {}
    for name, text in named.items():
        if Path(name).name != name:
            raise ValueError(
                f"a chat template is called {name!r}, which cannot be a file: rename it"
            )
        folder = "additional_chat_templates/"
        files["chat_template.jinja" if name == "default" else f"{folder}{name}.jinja"] = text
    listed = [{"name": name, "template": text} for name, text in named.items()]
    return {"chat_template": listed if isinstance(template, dict) else template}, files


# --- checks of what was written -----------------------------------------------------------------
def _read_back(folder: Path, backend: Tokenizer) -> None:
    """Load the folder as AutoTokenizer does, and refuse one that gives another tokenizer."""
    try:
        loaded = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        raise ValueError(f"AutoTokenizer cannot load the folder: {reason(error)}") from error
    unlike = _differences(backend, getattr(loaded, "backend_tokenizer", None))
    if unlike:
        advice = "the tokenizer does not survive saving, so build it anew"
        if (folder / "config.json").exists():
            advice = "the config.json in the folder asks for that, so save to a folder of its own"
        raise ValueError(
            f"AutoTokenizer would load this tokenizer with another {', '.join(unlike)}, as "
            f"{type(loaded).__name__}: {advice}"
        )


def _differences(one: Tokenizer, other: Tokenizer | None) -> list[str]:
    """The parts of tokenizer.json in which two tokenizers differ."""
    if other is None:
        return ["kind"]
    first, second = one.to_str(), other.to_str()
    if first == second:  # saves reading large files as JSON
        return []
    first, second = _comparable(json.loads(first)), _comparable(json.loads(second))
    return [part for part in first if first[part] != second[part]]


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
