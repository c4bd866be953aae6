"""The command line: ``python -m tokhelpers COMMAND``.

Tables go to stdout (with ``--json``: one JSON object), progress and errors to stderr. The exit code
is 0 if all is well, 1 if you should look at what was found, 2 if the command could not be carried out.
"""

import functools
import json
import warnings
from typing import Annotated

import pandas as pd
import typer

import tokhelpers as th

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
LIKE = Annotated[str | None, typer.Option(help="folder with the chat template to copy")]
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


def opened(tokenizer: str):
    say(f"loading {tokenizer}")
    return th.load_tokenizer(tokenizer)


def counted(corpus: str, tokenizer, chars: int | None, split: str = "train"):
    say(f"counting {corpus}")
    return th.count_pretokens(th.load_corpus(corpus, chars=chars, split=split), tokenizer)


def held_out(corpus: str, chars: int | None, tokenizer, words):
    """Return counts of what a corpus has held out, in words what they are, and their place in a card.

    Where a corpus is too small for that, or its language has no FLORES text here, these are
    ``words``, the counts learned from, which have a place in the card already.
    """
    try:
        test = th.load_corpus(corpus).held_out(min(chars or HELD_OUT, HELD_OUT))
        counts = th.count_pretokens(test, tokenizer)
        if test.name == corpus:
            return counts, "held-out text", {f"{corpus}, held out (split='test')": counts}
        return counts, test.name, {f"{test.name}, measured on": counts}
    except (ValueError, FileNotFoundError) as error:
        say(f"warning: {error}; the measures are of the text that was learned from")
        return words, "the text learned from", {}


def with_rows(given: dict, old, new) -> dict:
    """Return the model that was given, with rows for a new tokenizer, and where these come from."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    folder, init = given["model"], given.get("init", "fvt")
    say(f"loading the model in {folder}")
    model = th.models.load_model(folder)
    plan = th.plan_transfer(model, old, new)
    facts = pd.Series({"model": folder, "new rows start as": init, **plan}, dtype=object)
    texts = th.load_corpus(given["corpus"], chars=given["chars"])
    changed = th.transfer_embeddings(model, old, new, init=init, corpus=texts, inplace=True)
    return {"model": changed, "rows": facts}


def saved(command: typer.Context, old, new, words):
    """Save what a command made, with its card; return measures before and after, and of what text.

    ``words`` are the counts learned from.
    """
    given, model = command.params, {}
    if given["model"]:
        model = with_rows(given, old, new)
    test, what, measured_on = held_out(given["corpus"], given["chars"], old, words)
    rows = {"before": th.evaluate(old, test), "after": th.evaluate(new, test)}
    options = ["tokens", "by", "model", "init"] if model else ["tokens", "by"]
    call = ["python -m tokhelpers", command.info_name, given["tokenizer"], given["corpus"]]
    call += [f"--{name} {given[name]}" for name in options if name in given]
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
    return pd.DataFrame(rows).T[["bytes_per_token", "tokens_per_word", "tokens"]], what


@app.command(epilog="Example: python -m tokhelpers inspect llama-3")
@in_one_line
def inspect(tokenizer: A_TOKENIZER, as_json: AS_JSON = False) -> None:
    """Say how each token of a BPE tokenizer can be produced; exit code 1 if some never can be."""
    loaded = opened(tokenizer)
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
    loaded = opened(tokenizer)
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
    as_json: AS_JSON = False,
) -> None:
    """Compare what several tokenizers make of a text (--on), or the vocabularies of two."""
    if on is None:
        if len(tokenizers) != 2:
            raise ValueError(
                f"vocabularies are compared two at a time, got {len(tokenizers)}: name two "
                "tokenizers, or a text with --on"
            )
        first, second = map(opened, tokenizers)
        table = th.compare_vocabularies(first, second)
        names = (table.by + ": " + table.group).where(table.by != "all", "all")
        show(table.drop(columns=["by", "group"]).set_index(names.rename(None)), as_json)
        return
    rows = {}
    for name in tokenizers:
        loaded = opened(name)
        rows[name] = th.evaluate(loaded, counted(on, loaded, chars, split))
    columns = ["bytes_per_token", "chars_per_token", "tokens_per_word", "renyi_efficiency"]
    show(pd.DataFrame(rows).T[[*columns, "tokens"]], as_json, corpus=on, split=split)


@app.command(epilog="Example: python -m tokhelpers extend qwen wordfreq:fi -n 4000 --out qwen-fi")
@in_one_line
def extend(
    command: typer.Context,
    tokenizer: A_TOKENIZER,
    corpus: A_CORPUS,
    tokens: TOKENS,
    out: FOLDER,
    chars: CHARS = None,
    like: LIKE = None,
    model: MODEL = None,
    init: INIT = "fvt",
    as_json: AS_JSON = False,
) -> None:
    """Add tokens by continued training; exit code 1 if some are missing or unreachable."""
    loaded = opened(tokenizer)
    words = counted(corpus, loaded, chars)
    say(f"learning {tokens:,} tokens")
    extension = th.continue_bpe(loaded, words, tokens)
    longer = th.extend(loaded, extension)
    added, unreachable = len(extension.tokens), len(th.unreachable(longer, extension.tokens))
    table, what = saved(command, loaded, longer, words)
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
    like: LIKE = None,
    model: MODEL = None,
    as_json: AS_JSON = False,
) -> None:
    """Remove the tokens that the text needs least; exit code 1 if others become unreachable."""
    loaded = opened(tokenizer)
    words = counted(corpus, loaded, chars)
    say(f"ordering the tokens by {by}")
    smaller = th.prune(loaded, th.pruning_order(loaded, words, by=by), tokens)
    more = len(th.unreachable(smaller)) - len(th.unreachable(loaded))
    table, what = saved(command, loaded, smaller, words)
    show(table, as_json, measured_on=what, pruned=tokens, more_unreachable=more, folder=out)
    raise typer.Exit(FOUND if more > 0 else 0)


if __name__ == "__main__":
    app(prog_name="python -m tokhelpers")
