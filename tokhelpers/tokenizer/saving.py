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
from .files import destination
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
) -> None:
    """Save a tokenizer as a ``transformers`` folder, written whole or not at all.

    ``AutoTokenizer.from_pretrained(folder)`` loads it, offline and without remote code; the folder
    is loaded once before it counts as saved. ``tokenizer.json`` is the tokenizer as it is, with
    what its post-processor puts around a text. ``like``, a folder or a ``transformers`` tokenizer
    (by default ``tokenizer`` itself, if it is one), gives the rest: which special token has which
    role, the chat template or templates (written both into the configuration and as files), the
    largest length, the sides of padding and truncation.

    A folder that exists keeps its other files, such as a model's weights, as hard links. Killed
    at any point, it is the old one or the new one, complete and never missing; a hidden folder
    ``.NAME.*.tmp`` may stay beside it. This needs Linux or macOS and a file system that swaps two
    folders in one step; elsewhere only new folders are written. Programs that work inside the
    folder keep seeing the old one until they open it anew.

    The rest goes on the card, README.md (TOKENIZER.md where the folder has a README.md of its own):
    ``base`` maps names to the tokenizers it was made from, ``texts`` names to corpora or counts,
    which are read for their hash, ``calls`` are what was called, ``measures`` what ``evaluate``
    gave, or a mapping of names to that.

    Raises TypeError for what is no tokenizer, FileNotFoundError for a ``like`` that is not there,
    ValueError for one that cannot be read or whose special tokens the tokenizer lacks, and for a
    folder whose ``config.json`` makes AutoTokenizer read another tokenizer; OSError for a folder
    that cannot be written. Warns where ``like`` puts other special tokens around a text, and of
    other programs' tokenizer files in the folder, which stay.

    >>> import tempfile
    >>> from tokhelpers.train.trainers import train_byte_level_bpe
    >>> tokenizer = train_byte_level_bpe(["bat bat bag"], vocab_size=258)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save_pretrained(tokenizer, f"{place}/bats", calls=["train_byte_level_bpe(...)"])
    ...     AutoTokenizer.from_pretrained(f"{place}/bats").tokenize("bat")
    ['ba', 't']
    """
    backend, folder = backend_of(tokenizer), destination(folder)
    model = _opened(tokenizer if like is None and tokenizer is not backend else like)
    content = serialised(backend)
    files = {"tokenizer.json": content.decode(), **_settings(backend, model)}
    ours = [name for name in CARDS if _ours(folder / name)]
    if not ours:
        raise FileExistsError(
            f"{folder} has a {' and a '.join(CARDS)} from elsewhere: rename one, to make room for "
            "the card"
        )
    files[ours[0]] = describe(
        backend, content, base=base, texts=texts, calls=calls, measures=measures
    )
    with replacing(folder, FILES.union(ours)) as draft:
        for name, content in files.items():
            _write(draft / name, content)
        _read_back(draft, backend)
        _warn(draft, backend, model)


def _ours(card: Path) -> bool:
    """Whether nothing is there, or a card that was written here."""
    if not os.path.lexists(card):
        return True
    return card.is_file() and card.read_bytes().startswith(MARK.encode())


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # the swap must not be on the disk before what it swaps in


# --- what a model needs besides -----------------------------------------------------------------
def _opened(like) -> PreTrainedTokenizerBase | None:
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
        raise ValueError(f"like={str(folder)!r} cannot be loaded: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _settings(backend: Tokenizer, like: PreTrainedTokenizerBase | None) -> dict[str, str]:
    """Every file but tokenizer.json and the card, by name."""
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
    """Each special token must be one here as well: the library would add what is not."""
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
    odd = next((name for name in named if Path(name).name != name), None)
    if odd is not None:
        raise ValueError(f"a chat template is called {odd!r}, which cannot be a file: rename it")
    files = {
        "chat_template.jinja"
        if name == "default"
        else f"additional_chat_templates/{name}.jinja": text
        for name, text in named.items()
    }
    listed = [{"name": name, "template": text} for name, text in named.items()]
    return {"chat_template": listed if isinstance(template, dict) else template}, files


# --- is it right? -------------------------------------------------------------------------------
def _read_back(folder: Path, backend: Tokenizer) -> None:
    """Load the folder as everybody will, and refuse one that gives another tokenizer."""
    try:
        loaded = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        raise ValueError(f"AutoTokenizer cannot load the folder: {_first_line(error)}") from error
    unlike = _differences(backend, getattr(loaded, "backend_tokenizer", None))
    if unlike:
        reason = "the tokenizer does not survive saving, so build it anew"
        if (folder / "config.json").exists():
            reason = "the config.json in the folder asks for that, so save to a folder of its own"
        raise ValueError(
            f"AutoTokenizer would load this tokenizer with another {', '.join(unlike)}, as "
            f"{type(loaded).__name__}: {reason}"
        )


def _differences(one: Tokenizer, other: Tokenizer | None) -> list[str]:
    """The parts of tokenizer.json in which two tokenizers differ."""
    if other is None:
        return ["kind"]
    texts = one.to_str(), other.to_str()
    if texts[0] == texts[1]:
        return []
    first, second = (_normal(json.loads(text)) for text in texts)
    return [part for part in first if first[part] != second[part]]


def _normal(settings: dict) -> dict:
    """Without what says the same in two ways, of which transformers writes one."""
    model = {k: v for k, v in settings["model"].items() if v not in (None, "")}
    around = settings["post_processor"] or {}
    nothing = around.get("type") == "TemplateProcessing" and not around["special_tokens"]
    return {**settings, "model": model, "post_processor": None if nothing else around or None}


def _warn(folder: Path, backend: Tokenizer, like: PreTrainedTokenizerBase | None) -> None:
    """Speak up before the folder is swapped, so that a warning made an error stops the saving."""
    others = sorted(OTHERS & {path.name for path in folder.iterdir()})
    if others:
        warnings.warn(
            f"the folder keeps {', '.join(others)}, which some programs read rather than "
            "tokenizer.json: replace or delete what is of another tokenizer",
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
