"""What the commands of ``python -m tokhelpers`` share: options, checks, evaluation, saving, output."""

import base64
import functools
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, NamedTuple

import lazy_loader
import typer

import tokhelpers as th

pd = lazy_loader.load("pandas")  # so that --help and usage errors are immediate

EXIT_FINDING, EXIT_ERROR = 1, 2
TEST_CHARS = 1_000_000  # of text on which a tokenizer is evaluated
COLUMNS = ["bytes_per_token", "tokens_per_word", "tokens"]
TOKENIZER_HELP = "llama-3, qwen, gpt-4o, ... (see th.load_tokenizer), a path, or a hub ID"
CORPUS_HELP = "hpo, wordfreq:fi, text:PATH, jsonl:PATH, hf:ID, ..."
Tokenizer = Annotated[str, typer.Argument(metavar="TOKENIZER", help=TOKENIZER_HELP)]
Tokenizers = Annotated[list[str], typer.Argument(metavar="TOKENIZER...", help=TOKENIZER_HELP)]
Corpus = Annotated[str, typer.Argument(metavar="CORPUS", help=CORPUS_HELP)]
Out = Annotated[
    str, typer.Option("--out", help="the transformers folder, or the .tiktoken file, to write")
]
Tokens = Annotated[int, typer.Option("--tokens", "-n", min=1, help="number of tokens")]
Force = Annotated[bool, typer.Option("--force", help="overwrite an existing folder or file")]
Chars = Annotated[int | None, typer.Option(min=1, help="read at most this many characters")]
Encoding = Annotated[str, typer.Option(help="of text and jsonl files, such as utf-16 or latin-1")]
Errors = Annotated[str, typer.Option(help="invalid UTF-8: strict, or replace it by U+FFFD")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")]
MinFrequency = Annotated[int, typer.Option(min=1, help="of a pair that is merged")]
Like = Annotated[
    str | None,
    typer.Option(help="the folder or packaged tokenizer whose roles and chat template are kept"),
]
AlsoOn = Annotated[
    list[str] | None,
    typer.Option(metavar="CORPUS", help="evaluate on this corpus as well; can be repeated"),
]

log = functools.partial(typer.echo, err=True)  # progress, and errors


# --- output ------------------------------------------------------------------------------------------
def in_one_line(command):
    """Report the errors and warnings of a command in one line each."""

    @functools.wraps(command)
    def wrapper(*arguments, **options):
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal that cannot write ė gets \u0117
                stream.reconfigure(errors="backslashreplace")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_, **__: log(f"warning: {message}")
                return command(*arguments, **options)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt as interrupt:
            log(str(interrupt) or "interrupted")
            raise typer.Exit(EXIT_ERROR) from None
        except Exception as error:
            log(f"error: {' '.join(str(error).split()) or type(error).__name__}")
            raise typer.Exit(EXIT_ERROR) from None

    return wrapper


def write(text: str) -> None:
    """Print to stdout; a reader that has gone, as in ``| head``, ends nothing."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left


def show(table, as_json: bool, **facts) -> None:
    """Print a table with one row of measures per name, and further facts."""
    if as_json:
        rows = json.loads(table.to_json(orient="index", double_precision=10))
        write(json.dumps({**facts, "rows": rows}, ensure_ascii=False))
        return
    lines = [table.round(4).to_string()]
    lines += [f"{name.replace('_', ' ')}: {value}" for name, value in facts.items()]
    write("\n".join(lines))


# --- input -------------------------------------------------------------------------------------------
def load_logged(tokenizer: str):
    log(f"loading {tokenizer}")
    return th.load_tokenizer(tokenizer)


def check_out(out: str, corpora: list[str], *, overwrite: bool) -> None:
    """Raise OSError or ValueError for a destination that exists, or that the next call would read."""
    from .common.files import check_folder, destination

    path = destination(out)
    if path.suffix != ".tiktoken":
        check_folder(out, overwrite=overwrite)
    elif path.exists() and not overwrite:
        raise FileExistsError(f"{out} exists: choose another name, or pass --force")
    for corpus in corpora:
        kind, _, place = corpus.partition(":")
        if kind in ("text", "jsonl", "csv", "parquet") and Path(place).expanduser().is_dir():
            folder = destination(place)
            if path.is_relative_to(folder):
                raise ValueError(
                    f"--out {out} is inside the corpus folder {place}, so that the next call would read "
                    "it as text: choose a place outside"
                )


def open_corpus(name: str, options: dict, **changes):
    """Open a corpus with the command's options for reading."""
    kept = {key: options[key] for key in ("chars", "encoding", "errors") if key in options}
    if not name.startswith(("text:", "jsonl:", "csv:")):  # which alone have an encoding
        kept.pop("encoding", None)
    return th.load_corpus(name, **kept | changes)


def load_and_count(options: dict):
    """Check a command's options; return the tokenizer, the corpus and its counts.

    Usage errors are raised before anything is counted or trained.
    """
    others = options.get("also_on") or []
    check_out(options["out"], [options["corpus"], *others], overwrite=options["force"])
    corpus = th.load_corpus(
        options["corpus"],
        **{key: options[key] for key in ("chars", "encoding", "errors")},
    )
    for other in others:
        open_corpus(other, options)
    tokenizer = load_logged(options["tokenizer"])
    log(f"counting {corpus.name}")
    return tokenizer, corpus, th.count_pretokens(corpus, tokenizer)


# --- evaluation --------------------------------------------------------------------------------------
class Text(NamedTuple):
    """A text to evaluate on, what it is, and its entry in the card."""

    content: object
    description: str
    entry: dict


def is_drawn(corpus) -> bool:
    """Whether a corpus draws its own sample (from words or counts), or is too far away to be read whole."""
    return (
        corpus.name.startswith(("hf:", "wordfreq:"))
        or "://" in corpus.name
        or corpus.counts is not None
    )


def sampled(corpus, chars: int):
    """Draw a sample of a corpus that is the same whatever its files are called, and describe its size.

    A corpus of counts is used whole.
    """
    if is_drawn(corpus):
        return corpus, "" if corpus.chars is None else f"first {corpus.chars:,} characters"
    sample = th.measure.sample_documents(corpus, chars)
    return sample.documents, str(sample) if sample.chars < sample.of_chars else ""


def evaluation_text(corpus, tokenizer, counts) -> Text:
    """Find the text to evaluate on: the corpus's held-out part, else the training text itself.

    The training text (``counts``) is in the card already.
    """
    from .tokenizer.library_encoder import as_encoder

    chars = min(corpus.chars or TEST_CHARS, TEST_CHARS)
    try:
        test = corpus.held_out()
        if is_drawn(test) and (test.counts is None or corpus.chars):
            test = corpus.held_out(chars)
        next(iter(test))  # raises ValueError if it has no document
        content, size = sampled(test, chars)
    except (ValueError, FileNotFoundError) as error:
        log(f"warning: {error}; evaluating on the training text instead")
        text = corpus if as_encoder(tokenizer).splits_at_added else counts
        return Text(text, "the training text", {})
    text, size = th.measure.measurable(content, tokenizer), f", {size}" * bool(size)
    if test.name == corpus.name:
        name = f"{corpus.name}, held out (split='test'){size}"
        return Text(text, f"held-out text{size}", {name: text})
    return Text(text, f"{test.name}{size}", {f"{test.name}, test text{size}": text})


def other_text(name: str, options: dict, tokenizer) -> Text:
    """Open a corpus of ``--also-on``."""
    corpus = open_corpus(name, options, chars=None, split="all")
    if is_drawn(corpus) and corpus.counts is None:
        corpus = open_corpus(name, options, chars=TEST_CHARS, split="all")
    content, size = sampled(corpus, TEST_CHARS)
    text, described = th.measure.measurable(content, tokenizer), f"{name}{f', {size}' * bool(size)}"
    return Text(text, described, {described: text})


def evaluation_rows(texts: list[Text], tokenizers: dict) -> dict:
    """Evaluate tokenizers, by name, on the first text and on others, which are named in the rows."""
    rows = {}
    for number, text in enumerate(texts):
        for when, tokenizer in tokenizers.items():
            name = f"{when}, {text.description}" if number else when
            rows[name] = th.evaluate(tokenizer, text.content)
    return rows


def as_table(rows: dict, columns=COLUMNS):
    return pd.DataFrame(rows).T[[*columns]].astype({"tokens": int})


# --- saving ------------------------------------------------------------------------------------------
def source_of_roles(tokenizer: str) -> str | None:
    """Where a tokenizer's roles stand: in the folder it was loaded from, or in its package."""
    from .tokenizer.vendors import NAMES

    if tokenizer in NAMES:
        return tokenizer
    path = Path(os.path.expanduser(tokenizer))
    folder = path if path.is_dir() else path.parent
    return str(folder) if path.exists() and (folder / "tokenizer_config.json").exists() else None


def save(command: typer.Context, corpus, old, new, counts):
    """Save a new tokenizer with its card; return its measures before and after, and on which text."""
    options = command.params
    texts = [evaluation_text(corpus, old, counts)]
    texts += [other_text(name, options, old) for name in options.get("also_on") or []]
    rows = evaluation_rows(texts, {"before": old, "after": new})
    card = {
        "base": {options["tokenizer"]: old},
        "texts": {f"{options['corpus']}, training text": counts}
        | {name: text for t in texts for name, text in t.entry.items()},
    }
    like = options.get("like") or source_of_roles(options["tokenizer"])
    write_tokenizer(command, new, rows, texts[0].description, card, like)
    return as_table(rows), texts[0].description


def write_tokenizer(
    command: typer.Context, new, rows: dict, description: str, card: dict, like: str | None
) -> None:
    """Write a tokenizer as a folder with its card, or as a .tiktoken file."""
    options, out = command.params, command.params["out"]
    log(f"saving {out}")
    if out.endswith(".tiktoken"):
        write_tiktoken(new, out)
        return
    names = ["tokenizer", "kind", "corpus"]
    call = ["python -m tokhelpers", command.info_name, *(options[n] for n in names if n in options)]
    shown = ["tokens", "by", *["min_frequency"] * (options.get("min_frequency", 1) > 1)]
    call += [f"--{name.replace('_', '-')} {options[name]}" for name in shown if name in options]
    th.save_pretrained(
        new,
        out,
        like=like,
        overwrite=options["force"],
        calls=[" ".join(call)],
        measures={
            name if ", " in name else f"{name}, on {description}": row for name, row in rows.items()
        },
        **card,
    )
    config = json.loads((Path(out).expanduser() / "tokenizer_config.json").read_text("utf-8"))
    roles = {"eos_token": "eos", "pad_token": "pad", "chat_template": "chat template"}
    if missing := [role for key, role in roles.items() if not config.get(key)]:
        log(f"no {', '.join(missing)} in {out}: use --like FOLDER if the model needs them")


def write_tiktoken(tokenizer, out: str) -> None:
    """Write a byte-level tokenizer's ranks as a .tiktoken file, which has no special tokens."""
    from .common.files import write_whole

    encoding = th.to_tiktoken(tokenizer)
    ranks = sorted(encoding._mergeable_ranks.items(), key=lambda item: item[1])
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks)
    write_whole(out, b"".join(lines))
    log(
        f"a .tiktoken file has no special tokens and no pattern; the pattern is {encoding._pat_str}"
    )
