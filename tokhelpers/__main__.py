"""The command line: ``python -m tokhelpers COMMAND``.

Tables go to stdout (with ``--json``: one JSON object), progress and errors to stderr. The exit code
is 0 on success, 1 if the result needs attention, and 2 on an error.
"""

import functools
import json
import os
import warnings
from pathlib import Path
from typing import Annotated

import lazy_loader
import typer

import tokhelpers as th

pd = lazy_loader.load("pandas")  # slow to import: --help and usage errors do without
app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)

ATTENTION, ERROR = 1, 2  # exit codes
HELD_OUT = 1_000_000  # characters of held-out text to evaluate a new tokenizer on, at most
TOKENIZER_HELP = "llama-3, qwen, gpt-4o, ... (see th.load_tokenizer), a path, or a hub id"
A_TOKENIZER = Annotated[str, typer.Argument(metavar="TOKENIZER", help=TOKENIZER_HELP)]
A_CORPUS = Annotated[
    str,
    typer.Argument(metavar="CORPUS", help="hpo, wordfreq:fi, text:PATH, jsonl:PATH, hf:ID, ..."),
]
FOLDER = Annotated[str, typer.Option("--out", help="the transformers folder to write")]
TOKENS = Annotated[int, typer.Option("--tokens", "-n", min=1, help="how many tokens")]
CHARS = Annotated[int | None, typer.Option(min=1, help="read at most this many characters")]
MODEL = Annotated[
    str | None, typer.Option("--model", metavar="FOLDER", help="also change the rows of this model")
]
LIKE = Annotated[
    str | None,
    typer.Option(help="folder with the chat template to copy; else the tokenizer's own folder"),
]
ENCODING = Annotated[str, typer.Option(help="of text and jsonl files, such as utf-16 or latin-1")]
INIT = Annotated[str, typer.Option(help="how rows of new tokens start: see transfer_embeddings")]
AS_JSON = Annotated[bool, typer.Option("--json", help="one JSON object instead of a table")]

say = functools.partial(typer.echo, err=True)  # progress, warnings and errors


def one_line_errors(command):
    """Wrap a command so that each error or warning is one line on stderr."""

    @functools.wraps(command)
    def wrapper(*arguments, **options):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
                return command(*arguments, **options)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            say(f"error: {' '.join(str(error).split()) or type(error).__name__}")
            raise typer.Exit(ERROR) from None

    return wrapper


def show(table, as_json: bool, **values) -> None:
    """Print a table with one row per name, and single values by their names."""
    if as_json:
        rows = json.loads(table.to_json(orient="index", double_precision=10))
        print(json.dumps({**values, "rows": rows}, ensure_ascii=False))
    else:
        print(table.round(4).to_string())
        for name, value in values.items():
            print(f"{name.replace('_', ' ')}: {value}")


def load(tokenizer: str):
    say(f"loading {tokenizer}")
    return th.load_tokenizer(tokenizer)


def prepare(given: dict):
    """Load the tokenizer and the corpus of a command; return both and the corpus' counts.

    All arguments are checked before anything is counted.
    """
    from .tokenizer.files import check_folder
    from .tokenizer.vendors import source_kind

    check_folder(given["out"])
    if given["like"] and not Path(given["like"]).expanduser().is_dir():
        raise FileNotFoundError(f"no folder {given['like']}: --like is a folder with a tokenizer")
    texts = th.load_corpus(given["corpus"], chars=given["chars"], encoding=given["encoding"])
    given["like"] = given["like"] or own_folder(given["tokenizer"])
    if folder := given["model"]:
        import transformers

        from .models.initialisation import INITS

        place = Path(os.path.expanduser(folder))
        if not place.is_dir() and source_kind(folder, place) == "path":
            raise FileNotFoundError(f"no folder {folder}: --model is a folder with a model")
        if (init := given.get("init", "fvt")) not in INITS:
            raise ValueError(f"no init is called {init!r}: use {', '.join(INITS)}")
        transformers.utils.logging.disable_progress_bar()
        say(f"loading the model in {folder}")
        given["loaded"] = th.models.load_model(folder)
    tokenizer = load(given["tokenizer"])
    say(f"counting {texts.name}")
    return tokenizer, texts, th.count_pretokens(texts, tokenizer)


def own_folder(tokenizer: str) -> str | None:
    """The folder that a tokenizer is loaded from, if it has a tokenizer_config.json."""
    path = Path(os.path.expanduser(tokenizer))
    folder = path if path.is_dir() else path.parent
    return str(folder) if path.exists() and (folder / "tokenizer_config.json").exists() else None


def held_out(texts, tokenizer, words):
    """Return a text to evaluate on, its description, and its entry for the tokenizer's card.

    It is the corpus' held-out part, or the FLORES text of a word list's language. If there is none,
    it is the training text (``words`` are its counts), which the card lists already.
    """
    from .tokenizer.library import as_encoder

    try:
        test = texts.held_out(min(texts.chars or HELD_OUT, HELD_OUT))
        next(iter(test))  # raises ValueError if there is no document
        text = th.measure.measurable(test, tokenizer)
        if test.name == texts.name:
            return text, "held-out text", {f"{texts.name}, held out (split='test')": text}
        return text, test.name, {f"{test.name}, evaluated on": text}
    except (ValueError, FileNotFoundError) as error:
        say(f"warning: {error}; evaluating on the training text")
        text = texts if as_encoder(tokenizer).splits_at_added else words
        return text, "the training text", {}


def with_rows(given: dict, texts, old, new) -> dict:
    """Return the model that was given, with rows for a new tokenizer, and where these come from."""
    model, init = given["loaded"], given.get("init", "fvt")
    plan = th.plan_transfer(model, old, new)
    facts = pd.Series({"model": given["model"], "new rows start as": init, **plan}, dtype=object)
    changed = th.transfer_embeddings(model, old, new, init=init, corpus=texts, inplace=True)
    return {"model": changed, "rows": facts}


def save(command: typer.Context, texts, old, new, words):
    """Save the new tokenizer with its card; return a table of measures and the text they are of.

    ``texts`` is the training text and ``words`` its counts.
    """
    given, model = command.params, {}
    if given["model"]:
        model = with_rows(given, texts, old, new)
    test, description, evaluated_on = held_out(texts, old, words)
    rows = {"before": th.evaluate(old, test), "after": th.evaluate(new, test)}
    options = ["tokens", "by", *(["model", "init"] if model else [])]
    options += ["min_frequency"] * (given.get("min_frequency", 1) > 1)
    call = ["python -m tokhelpers", command.info_name, given["tokenizer"], given["corpus"]]
    call += [f"--{name.replace('_', '-')} {given[name]}" for name in options if name in given]
    say(f"saving {given['out']}")
    th.save_pretrained(
        new,
        given["out"],
        like=given["like"],
        base={given["tokenizer"]: old},
        texts={f"{given['corpus']}, trained on": words, **evaluated_on},
        calls=[" ".join(call)],
        measures={f"{when}, on {description}": row for when, row in rows.items()},
        **model,
    )
    columns = ["bytes_per_token", "tokens_per_word", "tokens"]
    return pd.DataFrame(rows).T[columns].astype({"tokens": int}), description


@app.command(epilog="Example: python -m tokhelpers inspect llama-3")
@one_line_errors
def inspect(tokenizer: A_TOKENIZER, as_json: AS_JSON = False) -> None:
    """Classify the tokens of a BPE tokenizer by reachability; exit code 1 if some are unreachable.

    For other models, which have no merges, it counts the kinds of tokens.
    """
    from .tokenizer import library

    loaded = load(tokenizer)
    encoder = library.open_tokenizer(loaded)
    if encoder.spec is None:
        rows = th.measure.describe_tokens(loaded)
        table = rows.groupby("kind", sort=False).token.agg(tokens="size", first="first")
        return show(table, as_json, vocabulary=loaded.get_vocab_size(), model=encoder.kind)
    say("testing every token")
    rows = th.reachability(loaded)
    table = rows.groupby("category", sort=False).token.agg(tokens="size", first="first")
    never = int(rows.category.str.startswith("never").sum())
    size, skipping = loaded.get_vocab_size(), bool(loaded.model.ignore_merges)
    show(table, as_json, vocabulary=size, merge_skipping=skipping, never_produced=never)
    raise typer.Exit(ATTENTION if never else 0)


@app.command(epilog="Example: python -m tokhelpers explain llama-3 ' kyllästyä'")
@one_line_errors
def explain(
    tokenizer: A_TOKENIZER,
    text: Annotated[str, typer.Argument(help="a word or a token; a space before it belongs to it")],
    as_json: AS_JSON = False,
) -> None:
    """Show the merges of a text step by step and, if it is a token, how the token is built."""
    loaded = load(tokenizer)
    steps = th.explain(loaded, text)
    try:
        explanation = th.explain(loaded, token=text)
    except ValueError as error:
        explanation = None
        say(str(error))
    if as_json:
        facts = explanation and json.loads(explanation.facts.to_json())
        print(json.dumps({"token": facts, "rows": json.loads(steps.to_json(orient="records"))}))
        return
    print(th.show_tokens(text, loaded), end="\n\n")
    table = steps.drop(columns="pretoken").astype(object)
    print(table.where(table.notna(), "").to_string(index=False))
    if explanation:
        print(f"\n{explanation}")


@app.command(epilog="Example: python -m tokhelpers compare llama-3 qwen --on flores:fin_Latn")
@one_line_errors
def compare(
    tokenizers: Annotated[list[str], typer.Argument(metavar="TOKENIZER...", help=TOKENIZER_HELP)],
    on: Annotated[str | None, typer.Option(metavar="CORPUS", help="text to evaluate on")] = None,
    chars: CHARS = 1_000_000,
    split: Annotated[str, typer.Option(help="part of the text: train or test")] = "test",
    encoding: ENCODING = "utf-8",
    as_json: AS_JSON = False,
) -> None:
    """Evaluate several tokenizers on a text (--on), or compare the vocabularies of two."""
    if on is None:
        if len(tokenizers) != 2:
            raise ValueError(
                f"vocabularies are compared two at a time, got {len(tokenizers)}: give two "
                "tokenizers, or a text with --on"
            )
        first, second = map(load, tokenizers)
        table = th.compare_vocabularies(first, second)
        names = (table.by + ": " + table.group).where(table.by != "all", "all")
        show(table.drop(columns=["by", "group"]).set_index(names.rename(None)), as_json)
        return
    rows = {}
    text = th.load_corpus(on, chars=chars, split=split, encoding=encoding)
    for name in tokenizers:
        loaded = load(name)
        say(f"evaluating on {on}")
        rows[name] = th.evaluate(loaded, text)
    columns = ["bytes_per_token", "chars_per_token", "tokens_per_word", "renyi_efficiency"]
    table = pd.DataFrame(rows).T[[*columns, "tokens"]].astype({"tokens": int})
    show(table, as_json, corpus=on, split=split)


@app.command(epilog="Example: python -m tokhelpers extend qwen wordfreq:fi -n 4000 --out qwen-fi")
@one_line_errors
def extend(
    command: typer.Context,
    tokenizer: A_TOKENIZER,
    corpus: A_CORPUS,
    tokens: TOKENS,
    out: FOLDER,
    min_frequency: Annotated[int, typer.Option(min=1, help="of a pair that is merged")] = 1,
    chars: CHARS = None,
    encoding: ENCODING = "utf-8",
    like: LIKE = None,
    model: MODEL = None,
    init: INIT = "fvt",
    as_json: AS_JSON = False,
) -> None:
    """Add tokens by continued training; exit code 1 if some are missing or unreachable."""
    loaded, texts, words = prepare(command.params)
    say(f"learning {tokens:,} tokens")
    extension = th.continue_bpe(loaded, words, tokens, min_frequency=min_frequency)
    extended = th.extend(loaded, extension)
    added = len(extension.tokens)
    unreachable = len(th.unreachable_tokens(extended, extension.tokens))
    table, description = save(command, texts, loaded, extended, words)
    show(table, as_json, measured_on=description, added=added, unreachable=unreachable, folder=out)
    raise typer.Exit(ATTENTION if unreachable or added < tokens else 0)


@app.command(epilog="Example: python -m tokhelpers prune qwen hpo -n 100000 --out qwen-small")
@one_line_errors
def prune(
    command: typer.Context,
    tokenizer: A_TOKENIZER,
    corpus: A_CORPUS,
    tokens: TOKENS,
    out: FOLDER,
    by: Annotated[
        str, typer.Option(help="pruning criterion: see th.pruning_order")
    ] = "leaf-frequency",
    chars: CHARS = None,
    encoding: ENCODING = "utf-8",
    like: LIKE = None,
    model: MODEL = None,
    as_json: AS_JSON = False,
) -> None:
    """Remove the tokens that a text needs least; exit code 1 if others become unreachable."""
    loaded, texts, words = prepare(command.params)
    say(f"ordering the tokens by {by}")
    pruned = th.prune(loaded, th.pruning_order(loaded, words, by=by), tokens)
    more = len(th.unreachable_tokens(pruned)) - len(th.unreachable_tokens(loaded))
    table, description = save(command, texts, loaded, pruned, words)
    show(table, as_json, measured_on=description, pruned=tokens, more_unreachable=more, folder=out)
    raise typer.Exit(ATTENTION if more > 0 else 0)


if __name__ == "__main__":
    app(prog_name="python -m tokhelpers")
