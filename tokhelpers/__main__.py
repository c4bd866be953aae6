"""The command line: ``python -m tokhelpers COMMAND``.

Tables are written to stdout (with ``--json``: one JSON object), progress and errors to stderr. The
exit code is 0 on success, 1 if there is a finding to look at, and 2 if the command failed.
"""

import json
from pathlib import Path
from typing import Annotated

import lazy_loader
import typer

import tokhelpers as th

from . import command_line as cli
from .command_line import EXIT_FINDING, TEST_CHARS, as_table, in_one_line, load_logged, log, show

pd = lazy_loader.load("pandas")  # so that --help and usage errors are immediate
app = typer.Typer(
    help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
KINDS = ("byte-level-bpe", "sentencepiece-bpe", "unigram", "wordpiece")
MEASURES = ["bytes_per_token", "chars_per_token", "tokens_per_word", "renyi_efficiency", "tokens"]


def print_version(requested: bool) -> None:
    if requested:
        cli.write(f"tokhelpers {th.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version)
    ] = False,
) -> None:
    pass


main.__doc__ = __doc__


@app.command(epilog="Example: python -m tokhelpers inspect llama-3")
@in_one_line
def inspect(
    tokenizer: cli.Tokenizer,
    category: Annotated[
        str | None,
        typer.Option("--list", help="list the tokens of a category, such as never"),
    ] = None,
    as_json: cli.Json = False,
) -> None:
    """Report how each token of a BPE tokenizer can be produced; exit code 1 if text never produces some.

    A token that is unreachable by merges fails the Self-Tokenization Test; merge skipping may produce it
    all the same. A token that is never produced by text has no text whose encoding contains it. For other
    models, whose tokens are not built by merges, the kinds of tokens are counted.
    """
    from .tokenizer.library_encoder import open_tokenizer

    loaded = load_logged(tokenizer)
    encoder = open_tokenizer(loaded)
    facts = {"vocabulary": loaded.get_vocab_size()}
    if encoder.spec is None:
        rows = th.measure.describe_tokens(loaded).rename(columns={"kind": "category"})
        facts["model"] = encoder.kind
    else:
        log("testing every token")
        rows = th.reachability(loaded)
        facts["merge_skipping"] = bool(loaded.model.ignore_merges)
        facts["unreachable_by_merges"] = len(th.unreachable_tokens(loaded))
        facts["never_produced_by_text"] = int(rows.category.str.startswith("never").sum())
    if category is not None:
        return list_tokens(rows, category, as_json)
    table = rows.groupby("category", sort=False).token.agg(tokens="size", first="first")
    show(table.rename_axis("kind" if encoder.spec is None else None), as_json, **facts)
    raise typer.Exit(EXIT_FINDING if facts.get("never_produced_by_text") else 0)


def list_tokens(rows, category: str, as_json: bool) -> None:
    """Print the tokens of the categories that begin with this name."""
    listed = rows[rows.category.str.startswith(category)]
    if listed.empty:
        names = ", ".join(rows.category.unique())
        raise ValueError(f"no token is in the category {category!r}: use one of {names}")
    columns = [name for name in ("token", "category", "example") if name in listed]
    table = listed[columns].astype(object)
    show(table.where(table.notna(), None if as_json else ""), as_json)


@app.command(epilog="Example: python -m tokhelpers explain llama-3 ' kyllästyä'")
@in_one_line
def explain(
    tokenizer: cli.Tokenizer,
    text: Annotated[str, typer.Argument(help="a word or a token, with its leading space")],
    as_json: cli.Json = False,
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
        rows = json.loads(steps.to_json(orient="records"))
        cli.write(json.dumps({"token": facts, "rows": rows}))
        return
    shown = steps.drop(columns="pretoken").astype(object)
    table = shown.where(shown.notna(), "").to_string(index=False)
    cli.write(f"{th.show_tokens(text, loaded)}\n\n{table}")
    if explanation is not None:
        cli.write(f"\n{explanation}")


@app.command(epilog="Example: python -m tokhelpers compare llama-3 qwen --on flores:fin_Latn")
@in_one_line
def compare(
    tokenizers: cli.Tokenizers,
    on: Annotated[
        str | None,
        typer.Option(metavar="CORPUS", help="text to evaluate on; without it, vocabularies"),
    ] = None,
    chars: Annotated[
        int, typer.Option(min=1, help="evaluate on a sample of this many characters")
    ] = TEST_CHARS,
    split: Annotated[str, typer.Option(help="part of the text: train or test")] = "test",
    encoding: cli.Encoding = "utf-8",
    errors: cli.Errors = "strict",
    as_json: cli.Json = False,
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
    options = {"split": split, "encoding": encoding, "errors": errors}
    corpus = th.load_corpus(on, **options)
    if cli.is_drawn(corpus):
        corpus = th.load_corpus(on, chars=chars, **options)
    loaded = {name: load_logged(name) for name in tokenizers}  # a wrong name ends this at once
    content, size = cli.sampled(corpus, chars)
    rows = {}
    for name, tokenizer in loaded.items():
        log(f"evaluating {name} on {on}")
        rows[name] = th.evaluate(tokenizer, content)
    facts = {"sample": size} if size else {}
    show(as_table(rows, MEASURES), as_json, corpus=on, split=split, **facts)


@app.command(epilog="Example: python -m tokhelpers premium gpt-4o qwen --language fin_Latn")
@in_one_line
def premium(
    tokenizers: cli.Tokenizers,
    language: Annotated[
        list[str] | None,
        typer.Option(help="a FLORES code such as hin_Deva; can be repeated (default: all)"),
    ] = None,
    as_json: cli.Json = False,
) -> None:
    """Report how many tokens languages need for the same sentences, relative to English (FLORES)."""
    from .text.shipped_counts import stored_texts

    names = stored_texts().name
    codes = language or sorted(names[names.str.startswith("flores:")].str.removeprefix("flores:"))
    texts = {code: th.load_corpus(f"flores:{code}") for code in dict.fromkeys(["eng_Latn", *codes])}
    table = pd.DataFrame(index=[*texts])
    for name, tokenizer in {name: load_logged(name) for name in tokenizers}.items():
        log(f"counting tokens of {name}")
        tokens = pd.Series({c: th.evaluate(tokenizer, text).tokens for c, text in texts.items()})
        table[name] = tokens / tokens["eng_Latn"]
    show(table, as_json, relative_to="eng_Latn")


@app.command(epilog="Example: python -m tokhelpers train unigram text:my.txt -n 8000 --out mine")
@in_one_line
def train(
    command: typer.Context,
    kind: Annotated[str, typer.Argument(help=f"one of {', '.join(KINDS)}")],
    corpus: cli.Corpus,
    tokens: cli.Tokens,
    out: cli.Out,
    special: Annotated[
        list[str] | None, typer.Option(help="a special token; can be repeated")
    ] = None,
    min_frequency: cli.MinFrequency = 1,
    chars: cli.Chars = None,
    encoding: cli.Encoding = "utf-8",
    errors: cli.Errors = "strict",
    force: cli.Force = False,
    as_json: cli.Json = False,
) -> None:
    """Train a tokenizer from scratch, with a vocabulary of --tokens; exit code 1 if it is smaller."""
    if kind not in KINDS:
        raise ValueError(f"no kind of tokenizer is called {kind!r}: use one of {', '.join(KINDS)}")
    cli.check_out(out, [corpus], overwrite=force)
    text = th.load_corpus(corpus, chars=chars, encoding=encoding, errors=errors)
    log(f"training {tokens:,} tokens on {text.name}")
    options = {"vocab_size": tokens, "special_tokens": special or []}
    if kind != "unigram":
        options["min_frequency"] = min_frequency
    trained = getattr(th, f"train_{kind.replace('-', '_')}")(text, **options)
    counts = th.count_pretokens(text, trained)
    on = cli.evaluation_text(text, trained, counts)
    rows = cli.evaluation_rows([on], {"trained": trained})
    card = {"texts": {f"{corpus}, training text": counts, **on.entry}}
    cli.write_tokenizer(command, trained, rows, on.description, card, None)
    size = trained.get_vocab_size()
    show(as_table(rows), as_json, measured_on=on.description, vocabulary=size, saved=out)
    raise typer.Exit(EXIT_FINDING if size < tokens else 0)


@app.command(epilog="Example: python -m tokhelpers extend qwen wordfreq:fi -n 4000 --out qwen-fi")
@in_one_line
def extend(
    command: typer.Context,
    tokenizer: cli.Tokenizer,
    corpus: cli.Corpus,
    out: cli.Out,
    tokens: Annotated[
        int | None, typer.Option("--tokens", "-n", min=1, help="number of tokens")
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="add the words of this file, one a line, instead"),
    ] = None,
    min_frequency: cli.MinFrequency = 1,
    chars: cli.Chars = None,
    also_on: cli.AlsoOn = None,
    like: cli.Like = None,
    encoding: cli.Encoding = "utf-8",
    errors: cli.Errors = "strict",
    force: cli.Force = False,
    as_json: cli.Json = False,
) -> None:
    """Add tokens by continued training, or the words of a file; exit code 1 if some are missing."""
    if (tokens is None) == (words is None):
        raise ValueError("give the number of tokens with --tokens, or a file of words with --words")
    listed = None if words is None else words.expanduser().read_text("utf-8").splitlines()
    base, texts, counts = cli.load_and_count(command.params)
    if words is None:
        log(f"training {tokens:,} tokens")
        extension = th.continue_bpe(base, counts, tokens, min_frequency=min_frequency)
    else:
        extension = th.Extension.from_words(filter(str.strip, listed), base)
    extended = th.extend(base, extension)
    added = len(extension.tokens)
    unreachable = len(th.unreachable_tokens(extended, extension.tokens))
    table, description = cli.save(command, texts, base, extended, counts)
    facts = {"measured_on": description, "added": added, "unreachable_by_merges": unreachable}
    show(table, as_json, **facts, saved=out)
    raise typer.Exit(EXIT_FINDING if unreachable or added < (tokens or 0) else 0)


@app.command(epilog="Example: python -m tokhelpers prune qwen hpo -n 100000 --out qwen-small")
@in_one_line
def prune(
    command: typer.Context,
    tokenizer: cli.Tokenizer,
    corpus: cli.Corpus,
    tokens: cli.Tokens,
    out: cli.Out,
    by: Annotated[str, typer.Option(help="criterion: see th.pruning_order")] = "leaf-frequency",
    chars: cli.Chars = None,
    also_on: cli.AlsoOn = None,
    like: cli.Like = None,
    encoding: cli.Encoding = "utf-8",
    errors: cli.Errors = "strict",
    force: cli.Force = False,
    as_json: cli.Json = False,
) -> None:
    """Remove the tokens that the text needs least; exit code 1 if others become unreachable by merges.

    Other languages may need them: evaluate on these with --also-on.
    """
    base, texts, counts = cli.load_and_count(command.params)
    log(f"ordering the tokens by {by}")
    pruned = th.prune(base, th.pruning_order(base, counts, by=by), tokens)
    before, after = (len(th.unreachable_tokens(t)) for t in (base, pruned))
    table, description = cli.save(command, texts, base, pruned, counts)
    facts = {"measured_on": description, "pruned": tokens}
    if as_json:
        facts |= {"unreachable_by_merges": after, "unreachable_by_merges_before": before}
    else:
        facts["unreachable_by_merges"] = f"{after:,} (before: {before:,})"
    show(table, as_json, **facts, saved=out)
    raise typer.Exit(EXIT_FINDING if after > before else 0)


@app.command(epilog="Example: python -m tokhelpers playground llama-3 my-folder --out page.html")
@in_one_line
def playground(
    tokenizers: cli.Tokenizers,
    out: Annotated[str, typer.Option("--out", help="the HTML file to write")],
    force: Annotated[bool, typer.Option("--force", help="overwrite an existing file")] = False,
) -> None:
    """Write a web page with these tokenizers, to be compared on any text in a browser."""
    path = Path(out).expanduser()
    if path.exists() and not force:
        raise FileExistsError(f"{out} exists: choose another name, or add --force to overwrite it")
    log(f"writing {', '.join(tokenizers)} to {out}")
    th.notebook.write_playground(path, *tokenizers)
    print(f"{out}: {path.stat().st_size / 1e6:.1f} MB, to be opened in a browser")


if __name__ == "__main__":
    app(prog_name="python -m tokhelpers")
