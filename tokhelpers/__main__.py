"""The command line: ``python -m tokhelpers COMMAND``.

Tables go to stdout (with ``--json``: one JSON object), progress and errors to stderr. The exit code
is 0 if all is well, 1 if you should look at what was found, 2 if the command could not be carried out.
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

pd = lazy_loader.load("pandas")  # as all of tokhelpers: help and mistakes are told at once
app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)

FOUND, WRONG = 1, 2
HELD_OUT = 1_000_000  # characters of held-out text on which a new tokenizer is measured
NAMED = "llama-3, qwen, gpt-4o, ... (see th.load_tokenizer), a path, or a hub id"
A_TOKENIZER = Annotated[str, typer.Argument(metavar="TOKENIZER", help=NAMED)]
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

say = functools.partial(typer.echo, err=True)  # progress, and errors


def in_one_line(command):
    """A command whose errors and warnings are one line each."""

    @functools.wraps(command)
    def guarded(*arguments, **options):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
                return command(*arguments, **options)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            say(f"error: {' '.join(str(error).split()) or type(error).__name__}")
            raise typer.Exit(WRONG) from None

    return guarded


def show(table, as_json: bool, **more) -> None:
    """A table with a row of measures for each name, and single findings."""
    if as_json:
        rows = json.loads(table.to_json(orient="index", double_precision=10))
        print(json.dumps({**more, "rows": rows}, ensure_ascii=False))
    else:
        print(table.round(4).to_string())
        for name, value in more.items():
            print(f"{name.replace('_', ' ')}: {value}")


def loaded_by(tokenizer: str):
    say(f"loading {tokenizer}")
    return th.load_tokenizer(tokenizer)


def started(given: dict):
    """Check what a command was given; return the tokenizer, the text and its counts.

    All that can be wrong is told before anything is counted or learned.
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
    tokenizer = loaded_by(given["tokenizer"])
    say(f"counting {texts.name}")
    return tokenizer, texts, th.count_pretokens(texts, tokenizer)


def own_folder(tokenizer: str) -> str | None:
    """The folder that a tokenizer is read from, if it says more than the tokenizer itself."""
    path = Path(os.path.expanduser(tokenizer))
    folder = path if path.is_dir() else path.parent
    return str(folder) if path.exists() and (folder / "tokenizer_config.json").exists() else None


def held_out(texts, tokenizer, words):
    """Return what to measure on: what a corpus has held out; in words what it is; its place in a card.

    Where a corpus is too small for that, or its language has no FLORES text here, it is the text
    learned from (``words`` are its counts), which has a place in the card already.
    """
    from .tokenizer.library import as_encoder

    try:
        test = texts.held_out(min(texts.chars or HELD_OUT, HELD_OUT))
        next(iter(test))  # where there is no document, it says so
        text = th.measure.measurable(test, tokenizer)
        if test.name == texts.name:
            return text, "held-out text", {f"{texts.name}, held out (split='test')": text}
        return text, test.name, {f"{test.name}, measured on": text}
    except (ValueError, FileNotFoundError) as error:
        say(f"warning: {error}; the measures are of the text that was learned from")
        text = texts if as_encoder(tokenizer).splits_at_added else words
        return text, "the text learned from", {}


def with_rows(given: dict, texts, old, new) -> dict:
    """Return the model that was given, with rows for a new tokenizer, and where these come from."""
    model, init = given["loaded"], given.get("init", "fvt")
    plan = th.plan_transfer(model, old, new)
    facts = pd.Series({"model": given["model"], "new rows start as": init, **plan}, dtype=object)
    changed = th.transfer_embeddings(model, old, new, init=init, corpus=texts, inplace=True)
    return {"model": changed, "rows": facts}


def saved(command: typer.Context, texts, old, new, words):
    """Save what a command made, with its card; return measures before and after, and of what text.

    ``words`` are the counts of ``texts``, learned from.
    """
    given, model = command.params, {}
    if given["model"]:
        model = with_rows(given, texts, old, new)
    test, what, measured_on = held_out(texts, old, words)
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
        texts={f"{given['corpus']}, learned from": words, **measured_on},
        calls=[" ".join(call)],
        measures={f"{when}, on {what}": row for when, row in rows.items()},
        **model,
    )
    columns = ["bytes_per_token", "tokens_per_word", "tokens"]
    return pd.DataFrame(rows).T[columns].astype({"tokens": int}), what


@app.command(epilog="Example: python -m tokhelpers inspect llama-3")
@in_one_line
def inspect(tokenizer: A_TOKENIZER, as_json: AS_JSON = False) -> None:
    """Say how each token of a BPE tokenizer can be produced; exit code 1 if some never can be.

    Of other models, whose tokens are not built by merges, it says what kinds of tokens there are.
    """
    from .tokenizer import library

    loaded = loaded_by(tokenizer)
    encoder = library.open_tokenizer(loaded)
    if encoder.spec is None:
        rows = th.measure.describe_tokens(loaded)
        table = rows.groupby("kind", sort=False).token.agg(tokens="size", first="first")
        return show(table, as_json, vocabulary=loaded.get_vocab_size(), model=encoder.kind)
    say("trying every token")
    rows = th.reachability(loaded)
    table = rows.groupby("category", sort=False).token.agg(tokens="size", first="first")
    never = int(rows.category.str.startswith("never").sum())
    size, skipping = loaded.get_vocab_size(), bool(loaded.model.ignore_merges)
    show(table, as_json, vocabulary=size, merge_skipping=skipping, never_produced=never)
    raise typer.Exit(FOUND if never else 0)


@app.command(epilog="Example: python -m tokhelpers explain llama-3 ' kyllästyä'")
@in_one_line
def explain(
    tokenizer: A_TOKENIZER,
    text: Annotated[str, typer.Argument(help="a word or a token; a space before it belongs to it")],
    as_json: AS_JSON = False,
) -> None:
    """Show the merges of a word, step by step, and where a token comes from."""
    loaded = loaded_by(tokenizer)
    steps = th.explain_word(loaded, text)
    try:
        told = th.explain_token(loaded, text)
    except ValueError as error:
        told = None
        say(str(error))
    if as_json:
        facts = None if told is None else json.loads(told.facts.to_json())
        print(json.dumps({"token": facts, "rows": json.loads(steps.to_json(orient="records"))}))
        return
    print(th.show_tokens(text, loaded), end="\n\n")
    shown = steps.drop(columns="pretoken").astype(object)
    print(shown.where(shown.notna(), "").to_string(index=False))
    if told is not None:
        print(f"\n{told}")


@app.command(epilog="Example: python -m tokhelpers compare llama-3 qwen --on flores:fin_Latn")
@in_one_line
def compare(
    tokenizers: Annotated[list[str], typer.Argument(metavar="TOKENIZER...", help=NAMED)],
    on: Annotated[
        str | None, typer.Option(metavar="CORPUS", help="text to measure on; else vocabularies")
    ] = None,
    chars: CHARS = 1_000_000,
    split: Annotated[str, typer.Option(help="part of the text: train or test")] = "test",
    encoding: ENCODING = "utf-8",
    as_json: AS_JSON = False,
) -> None:
    """Compare what several tokenizers make of a text (--on), or the vocabularies of two."""
    if on is None:
        if len(tokenizers) != 2:
            raise ValueError(
                f"vocabularies are compared two at a time, got {len(tokenizers)}: name two "
                "tokenizers, or a text with --on"
            )
        first, second = map(loaded_by, tokenizers)
        table = th.compare_vocabularies(first, second)
        names = (table.by + ": " + table.group).where(table.by != "all", "all")
        show(table.drop(columns=["by", "group"]).set_index(names.rename(None)), as_json)
        return
    rows = {}
    text = th.load_corpus(on, chars=chars, split=split, encoding=encoding)
    for name in tokenizers:
        loaded = loaded_by(name)
        say(f"measuring on {on}")
        rows[name] = th.evaluate(loaded, text)
    columns = ["bytes_per_token", "chars_per_token", "tokens_per_word", "renyi_efficiency"]
    table = pd.DataFrame(rows).T[[*columns, "tokens"]].astype({"tokens": int})
    show(table, as_json, corpus=on, split=split)


@app.command(epilog="Example: python -m tokhelpers extend qwen wordfreq:fi -n 4000 --out qwen-fi")
@in_one_line
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
    loaded, texts, words = started(command.params)
    say(f"learning {tokens:,} tokens")
    extension = th.continue_bpe(loaded, words, tokens, min_frequency=min_frequency)
    longer = th.extend(loaded, extension)
    added, unreachable = len(extension.tokens), len(th.unreachable_tokens(longer, extension.tokens))
    table, what = saved(command, texts, loaded, longer, words)
    show(table, as_json, measured_on=what, added=added, unreachable=unreachable, folder=out)
    raise typer.Exit(FOUND if unreachable or added < tokens else 0)


@app.command(epilog="Example: python -m tokhelpers prune qwen hpo -n 100000 --out qwen-small")
@in_one_line
def prune(
    command: typer.Context,
    tokenizer: A_TOKENIZER,
    corpus: A_CORPUS,
    tokens: TOKENS,
    out: FOLDER,
    by: Annotated[str, typer.Option(help="the order: see th.pruning_order")] = "leaf-frequency",
    chars: CHARS = None,
    encoding: ENCODING = "utf-8",
    like: LIKE = None,
    model: MODEL = None,
    as_json: AS_JSON = False,
) -> None:
    """Remove the tokens that the text needs least; exit code 1 if others become unreachable."""
    loaded, texts, words = started(command.params)
    say(f"ordering the tokens by {by}")
    smaller = th.prune(loaded, th.pruning_order(loaded, words, by=by), tokens)
    more = len(th.unreachable_tokens(smaller)) - len(th.unreachable_tokens(loaded))
    table, what = saved(command, texts, loaded, smaller, words)
    show(table, as_json, measured_on=what, pruned=tokens, more_unreachable=more, folder=out)
    raise typer.Exit(FOUND if more > 0 else 0)


if __name__ == "__main__":
    app(prog_name="python -m tokhelpers")
