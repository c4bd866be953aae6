"""A reader's own tokenizer and text: settings are checked, documents divided (notebook 20)."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import regex
from tokenizers import Tokenizer

from ..models.architectures import configuration
from ..text.corpora import Corpus, load_corpus
from ..tokenizer.library_encoder import pretokenizer_config_of
from ..tokenizer.spec import TokenizerSpec
from ..tokenizer.vendors import load_tokenizer
from .records import profile

MIN_DOCUMENTS = 10  # to measure on
CORPORA = ("hpo", "hpo-names", "icd-10-cm", "python-source")  # names without a colon
METHODS = {  # of adding tokens: which list of tokens, and how `extend` adds them
    "continued": ("continued", "append"),
    "regenerate": ("supplement", "regenerate"),
    "append": ("supplement", "append"),
    "prepend": ("supplement", "prepend"),
    "words": ("words", "regenerate"),
    "add_tokens": ("words", "add_tokens"),
    "exchange": ("exchanged", "append"),
}


@dataclass
class OwnText:
    """A tokenizer and the texts on which its extension is trained, chosen, compared and reported.

    ``train``, ``validation`` and ``test`` are documents of the text; ``general`` maps "train" and "test"
    to those of the texts that must not get worse; ``others`` maps the names of further texts to
    documents; ``sources`` has the corpora, for a tokenizer's card.
    """

    base: Tokenizer
    spec: TokenizerSpec
    train: list[str]
    validation: list[str]
    test: list[str]
    general: dict[str, list[str]]
    others: dict[str, list[str]]
    sources: dict[str, Corpus]


def read_own(settings: Mapping[str, object]) -> OwnText:
    """Check the settings of notebook 20 and read the tokenizer and the texts that they name.

    ``settings`` are those of its first cell, in capitals. A tenth of TEXT, chosen by a hash of each
    document, or HELD_OUT, is held out; of it every second document is for validation. Raises ValueError,
    which names the setting and what would work, for one that cannot work, and FileNotFoundError for a
    LIKE that is no tokenizer's folder.

    >>> read_own({"TOKENS": 0})
    Traceback (most recent call last):
    ValueError: TOKENS is 0: give a whole number from 1 on, or None for the recommended size
    """
    keep = _checked(settings)
    base = load_tokenizer(settings["TOKENIZER"])
    spec = TokenizerSpec.from_tokenizer(base)
    if not spec.byte_level and "▁" not in pretokenizer_config_of(spec):
        name = settings["TOKENIZER"]
        raise ValueError(f"{name} is neither byte-level BPE nor in SentencePiece's style")
    configuration(settings["MODEL"])
    chars = settings["CHARS"] or profile().train_chars
    column, general = settings["COLUMN"], _names(settings["GENERAL"])
    train, held_out = _divided(settings["TEXT"], chars, column, settings["HELD_OUT"])
    part = profile().train_chars // 4
    pairs = {name: _divided(name, part // len(general), column) for name in general}
    others = {name: _corpus(name, part, column) for name in settings["OTHERS"]}
    sources = {"text": train, "held out": held_out}
    sources |= {f"general {i}": pair[0] for i, pair in enumerate(pairs.values(), 1)}
    documents = list(train)
    if keep:
        documents = [keep.sub("\n", document) for document in documents]
    measured = list(held_out)
    return OwnText(
        base=base,
        spec=spec,
        train=documents,
        validation=measured[::2],
        test=measured[1::2],
        general={
            "train": [document for pair in pairs.values() for document in pair[0]],
            "test": [document for pair in pairs.values() for document in pair[1]],
        },
        others={name: list(pair[1]) for name, pair in pairs.items() if len(pairs) > 1}
        | {name: list(corpus) for name, corpus in others.items()},
        sources=sources,
    )


def _names(names: str | Iterable[str]) -> list[str]:
    """Names of texts, as a list."""
    return [names] if isinstance(names, str) else list(names)


def _checked(settings: Mapping[str, object]) -> regex.Pattern | None:
    """Refuse settings that cannot work; return the pattern of characters that train nothing."""

    def refuse(name: str, expected: str):
        raise ValueError(f"{name} is {settings[name]!r}: {expected}")

    tokens, min_frequency = settings.get("TOKENS"), settings.get("MIN_FREQUENCY", 1)
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        refuse("TOKENS", "give a whole number from 1 on, or None for the recommended size")
    if type(min_frequency) is not int or min_frequency < 1:
        refuse("MIN_FREQUENCY", "give a whole number from 1 on")
    characters = settings["CHARACTERS"]
    try:
        keep = regex.compile(f"[^{characters}]+") if characters else None
    except regex.error as error:
        says = f"this is no list of characters ({error.msg}); give one such as"
        refuse("CHARACTERS", rf"{says} r'\p{{Latin}}\p{{P}}\s', or None")
    if regex.search(r"\\[pP](?!\{[^{}]+\})", characters or ""):
        refuse("CHARACTERS", r"after \p comes a name in braces, as in r'\p{Latin}'")
    if settings["HELD_OUT"] == settings["TEXT"]:
        refuse("HELD_OUT", "TEXT is trained on; name another text, or None for a tenth")
    if not _names(settings["GENERAL"]):
        refuse("GENERAL", "name one text at least, such as 'ntrex:eng'")
    if settings["METHOD"] not in METHODS:
        refuse("METHOD", f"a tokenizer.json can hold one of {', '.join(METHODS)}")
    place = Path(settings["FOLDER"]).absolute()
    existing = next(path for path in (place, *place.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        refuse("FOLDER", f"nothing can be written to {existing.name}; name another folder")
    like = settings["LIKE"]
    if like and not (Path(like).expanduser() / "tokenizer_config.json").exists():
        raise FileNotFoundError(f"LIKE is {like!r}: it has no tokenizer_config.json")
    return keep


def _corpus(text: str, chars: int, column: str, split: str = "train") -> Corpus:
    """A corpus by name, or the file or folder at a path."""
    path = Path(text).expanduser()
    kind = next((kind for kind in ("jsonl", "parquet") if f".{kind}" in path.name), "text")
    is_name = (":" in text or text in CORPORA) and not path.exists()
    options = {"split": split, "seed": profile().seed, "column": column}
    return load_corpus(text if is_name else f"{kind}:{path}", chars=chars, **options)


def _divided(text: str, chars: int, column: str, held_out: str | None = None):
    """What to train on, and what to measure on."""
    train, most = _corpus(text, chars, column), max(1, chars // 9)
    test = _corpus(held_out, most, column, "all") if held_out else train.held_out(most)
    n = sum(1 for _ in islice(test, MIN_DOCUMENTS))
    if n < MIN_DOCUMENTS:
        raise ValueError(
            f"{held_out or text} is too short to hold anything out: {n} of the {MIN_DOCUMENTS} "
            "documents that are needed; supply more documents (one per line)"
        )
    return train, test
