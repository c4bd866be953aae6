"""The command line: ``python -m tokhelpers COMMAND``.

Tables are written to stdout (with ``--json``: one JSON object), progress and errors to stderr. The
exit code is 0 on success, 1 if there is a finding to look at, and 2 if the command failed.
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

pd = lazy_loader.load("pandas")  # so that --help and usage errors are immediate
app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)

EXIT_FINDING, EXIT_ERROR = 1, 2
TEST_CHARS = 1_000_000  # of held-out text on which a new tokenizer is evaluated
TOKENIZER_HELP = "llama-3, qwen, gpt-4o, ... (see th.load_tokenizer), a path, or a hub ID"
TOKENIZER = Annotated[str, typer.Argument(metavar="TOKENIZER", help=TOKENIZER_HELP)]
CORPUS = Annotated[
    str,
    typer.Argument(metavar="CORPUS", help="hpo, wordfreq:fi, text:PATH, jsonl:PATH, hf:ID, ..."),
]
FOLDER = Annotated[str, typer.Option("--out", help="the transformers folder to write")]
TOKENS = Annotated[int, typer.Option("--tokens", "-n", min=1, help="number of tokens")]
FORCE = Annotated[bool, typer.Option("--force", help="overwrite an existing folder")]
CHARS = Annotated[int | None, typer.Option(min=1, help="read at most this many characters")]
ENCODING = Annotated[str, typer.Option(help="of text and jsonl files, such as utf-16 or latin-1")]
AS_JSON = Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")]

log = functools.partial(typer.echo, err=True)  # progress, and errors


def in_one_line(command):
    """Report the errors and warnings of a command in one line each."""

    @functools.wraps(command)
    def wrapper(*arguments, **options):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_, **__: log(f"warning: {message}")
                return command(*arguments, **options)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            log(f"error: {' '.join(str(error).split()) or type(error).__name__}")
            raise typer.Exit(EXIT_ERROR) from None

    return wrapper


def show(table, as_json: bool, **facts) -> None:
    """Print a table with one row of measures per name, and further facts."""
    if as_json:
        rows = json.loads(table.to_json(orient="index", double_precision=10))
        print(json.dumps({**facts, "rows": rows}, ensure_ascii=False))
    else:
        print(table.round(4).to_string())
        for name, value in facts.items():
            print(f"{name.replace('_', ' ')}: {value}")


def load_logged(tokenizer: str):
    log(f"loading {tokenizer}")
    return th.load_tokenizer(tokenizer)


def load_and_count(options: dict):
    """Check a command's options; return the tokenizer, the corpus and its counts.

    Usage errors are raised before anything is counted or trained.
    """
    from .tokenizer.files import check_folder

    check_folder(options["out"], overwrite=options["force"])
    corpus = th.load_corpus(options["corpus"], chars=options["chars"], encoding=options["encoding"])
    tokenizer = load_logged(options["tokenizer"])
    log(f"counting {corpus.name}")
    return tokenizer, corpus, th.count_pretokens(corpus, tokenizer)


def transformers_folder(tokenizer: str) -> str | None:
    """The folder that a tokenizer was loaded from, if it has a ``tokenizer_config.json``."""
    path = Path(os.path.expanduser(tokenizer))
    folder = path if path.is_dir() else path.parent
    return str(folder) if path.exists() and (folder / "tokenizer_config.json").exists() else None


def evaluation_text(corpus, tokenizer, counts):
    """Return the text to evaluate on, its description, and its entry in the model card.

    That is the corpus's held-out part; where it has none, it is the training text itself (``counts``),
    which is in the card already.
    """
    from .tokenizer.library import as_encoder

    try:
        test = corpus.held_out(min(corpus.chars or TEST_CHARS, TEST_CHARS))
        next(iter(test))  # raises ValueError if it has no document
        text = th.measure.measurable(test, tokenizer)
        if test.name == corpus.name:
            return text, "held-out text", {f"{corpus.name}, held out (split='test')": text}
        return text, test.name, {f"{test.name}, test text": text}
    except (ValueError, FileNotFoundError) as error:
        log(f"warning: {error}; evaluating on the training text instead")
        text = corpus if as_encoder(tokenizer).splits_at_added else counts
        return text, "the training text", {}


def save(command: typer.Context, corpus, old, new, counts):
    """Save a new tokenizer with its card; return its measures before and after, and on which text."""
    options = command.params
    test, description, test_entry = evaluation_text(corpus, old, counts)
    measures = {"before": th.evaluate(old, test), "after": th.evaluate(new, test)}
    shown = ["tokens", "by", *["min_frequency"] * (options.get("min_frequency", 1) > 1)]
    call = ["python -m tokhelpers", command.info_name, options["tokenizer"], options["corpus"]]
    call += [f"--{name.replace('_', '-')} {options[name]}" for name in shown if name in options]
    log(f"saving {options['out']}")
    th.save_pretrained(
        new,
        options["out"],
        like=transformers_folder(options["tokenizer"]),
        overwrite=options["force"],
        base={options["tokenizer"]: old},
        texts={f"{options['corpus']}, training text": counts, **test_entry},
        calls=[" ".join(call)],
        measures={f"{when}, on {description}": row for when, row in measures.items()},
    )
    columns = ["bytes_per_token", "tokens_per_word", "tokens"]
    return pd.DataFrame(measures).T[columns].astype({"tokens": int}), description


@app.command(epilog="Example: python -m tokhelpers inspect llama-3")
@in_one_line
def inspect(tokenizer: TOKENIZER, as_json: AS_JSON = False) -> None:
    """Report how each token of a BPE tokenizer can be produced; exit code 1 if some never can.

    For other models, whose tokens are not built by merges, the kinds of tokens are counted.
    """
    from .tokenizer import library

    loaded = load_logged(tokenizer)
    encoder = library.open_tokenizer(loaded)
    if encoder.spec is None:
        rows = th.measure.describe_tokens(loaded)
        table = rows.groupby("kind", sort=False).token.agg(tokens="size", first="first")
        return show(table, as_json, vocabulary=loaded.get_vocab_size(), model=encoder.kind)
    log("testing every token")
    rows = th.reachability(loaded)
    table = rows.groupby("category", sort=False).token.agg(tokens="size", first="first")
    never = int(rows.category.str.startswith("never").sum())
    size, skipping = loaded.get_vocab_size(), bool(loaded.model.ignore_merges)
    show(table, as_json, vocabulary=size, merge_skipping=skipping, never_produced=never)
    raise typer.Exit(EXIT_FINDING if never else 0)


@app.command(epilog="Example: python -m tokhelpers explain llama-3 ' kyllästyä'")
@in_one_line
def explain(
    tokenizer: TOKENIZER,
    text: Annotated[str, typer.Argument(help="a word or a token, with its leading space")],
    as_json: AS_JSON = False,
) -> None:
    """Show the merges of a word, step by step, and where a token comes from."""
    loaded = load_logged(tokenizer)
    steps = th.explain(loaded, text)
    try:
        explanation = th.explain(loaded, token=text)
    except ValueError as error:
        explanation = None
        log(str(error))
    if as_json:
        facts = None if explanation is None else json.loads(explanation.facts.to_json())
        print(json.dumps({"token": facts, "rows": json.loads(steps.to_json(orient="records"))}))
        return
    print(th.show_tokens(text, loaded), end="\n\n")
    shown = steps.drop(columns="pretoken").astype(object)
    print(shown.where(shown.notna(), "").to_string(index=False))
    if explanation is not None:
        print(f"\n{explanation}")


@app.command(epilog="Example: python -m tokhelpers compare llama-3 qwen --on flores:fin_Latn")
@in_one_line
def compare(
    tokenizers: Annotated[list[str], typer.Argument(metavar="TOKENIZER...", help=TOKENIZER_HELP)],
    on: Annotated[
        str | None,
        typer.Option(metavar="CORPUS", help="text to evaluate on; without it, vocabularies"),
    ] = None,
    chars: CHARS = 1_000_000,
    split: Annotated[str, typer.Option(help="part of the text: train or test")] = "test",
    encoding: ENCODING = "utf-8",
    as_json: AS_JSON = False,
) -> None:
    """Compare several tokenizers on a text (--on), or the vocabularies of two."""
    if on is None:
        if len(tokenizers) != 2:
            raise ValueError(
                f"vocabularies are compared two at a time, got {len(tokenizers)}: name two "
                "tokenizers, or a text with --on"
            )
        first, second = map(load_logged, tokenizers)
        table = th.compare_vocabularies(first, second)
        names = (table.by + ": " + table.group).where(table.by != "all", "all")
        show(table.drop(columns=["by", "group"]).set_index(names.rename(None)), as_json)
        return
    rows = {}
    text = th.load_corpus(on, chars=chars, split=split, encoding=encoding)
    for name in tokenizers:
        loaded = load_logged(name)
        log(f"evaluating on {on}")
        rows[name] = th.evaluate(loaded, text)
    columns = ["bytes_per_token", "chars_per_token", "tokens_per_word", "renyi_efficiency"]
    table = pd.DataFrame(rows).T[[*columns, "tokens"]].astype({"tokens": int})
    show(table, as_json, corpus=on, split=split)


@app.command(epilog="Example: python -m tokhelpers extend qwen wordfreq:fi -n 4000 --out qwen-fi")
@in_one_line
def extend(
    command: typer.Context,
    tokenizer: TOKENIZER,
    corpus: CORPUS,
    tokens: TOKENS,
    out: FOLDER,
    min_frequency: Annotated[int, typer.Option(min=1, help="of a pair that is merged")] = 1,
    chars: CHARS = None,
    encoding: ENCODING = "utf-8",
    force: FORCE = False,
    as_json: AS_JSON = False,
) -> None:
    """Add tokens by continued training; exit code 1 if some are missing or unreachable."""
    base, texts, counts = load_and_count(command.params)
    log(f"training {tokens:,} tokens")
    extension = th.continue_bpe(base, counts, tokens, min_frequency=min_frequency)
    extended = th.extend(base, extension)
    added = len(extension.tokens)
    unreachable = len(th.unreachable_tokens(extended, extension.tokens))
    table, description = save(command, texts, base, extended, counts)
    show(table, as_json, measured_on=description, added=added, unreachable=unreachable, folder=out)
    raise typer.Exit(EXIT_FINDING if unreachable or added < tokens else 0)


@app.command(epilog="Example: python -m tokhelpers prune qwen hpo -n 100000 --out qwen-small")
@in_one_line
def prune(
    command: typer.Context,
    tokenizer: TOKENIZER,
    corpus: CORPUS,
    tokens: TOKENS,
    out: FOLDER,
    by: Annotated[str, typer.Option(help="criterion: see th.pruning_order")] = "leaf-frequency",
    chars: CHARS = None,
    encoding: ENCODING = "utf-8",
    force: FORCE = False,
    as_json: AS_JSON = False,
) -> None:
    """Remove the tokens that the text needs least; exit code 1 if others become unreachable."""
    base, texts, counts = load_and_count(command.params)
    log(f"ordering the tokens by {by}")
    pruned = th.prune(base, th.pruning_order(base, counts, by=by), tokens)
    more = len(th.unreachable_tokens(pruned)) - len(th.unreachable_tokens(base))
    table, description = save(command, texts, base, pruned, counts)
    show(table, as_json, measured_on=description, pruned=tokens, more_unreachable=more, folder=out)
    raise typer.Exit(EXIT_FINDING if more > 0 else 0)


@app.command(epilog="Example: python -m tokhelpers playground llama-3 my-folder --out page.html")
@in_one_line
def playground(
    tokenizers: Annotated[list[str], typer.Argument(metavar="TOKENIZER...", help=TOKENIZER_HELP)],
    out: Annotated[str, typer.Option("--out", help="the HTML file to write")],
    force: Annotated[bool, typer.Option("--force", help="overwrite an existing file")] = False,
) -> None:
    """Write a web page with these tokenizers, to be compared on any text in a browser."""
    path = Path(os.path.expanduser(out))
    if path.exists() and not force:
        raise FileExistsError(f"{out} exists: choose another name, or add --force to overwrite it")
    log(f"writing {', '.join(tokenizers)} to {out}")
    th.notebook.write_playground(path, *tokenizers)
    print(f"{out}: {path.stat().st_size / 1e6:.1f} MB, to be opened in a browser")


if __name__ == "__main__":
    app(prog_name="python -m tokhelpers")
