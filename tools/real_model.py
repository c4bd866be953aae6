"""The long runs on SmolLM2-135M, whose tables the notebooks show: `make full ONLY=14` and so on.

A run keeps its state every 25 steps and its rows in `runs/`, and goes on from there after a kill. A
call that is not done after a quarter of an hour keeps what it has and stops: type it again. One thread
computes, so that the same machine gives the same numbers. Each run's prediction was written down
before it.
"""

import hashlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import distributions
from typing import Annotated

import numpy as np
import pandas as pd
import torch
import typer
from checkpoints import keep, take_up
from safetensors.torch import load_file, save_file
from scipy.stats import mannwhitneyu

import tokhelpers as th
from tokhelpers.common.files import PLACE, write_whole

RUNS = PLACE / "runs"
MODEL, LEARNED = "smollm2-135m", 3_000_000  # characters from which tokens are learned
END = 0  # <|endoftext|>, which stands before each text
STEP, CHUNK = 8, 128  # chunks a step, and old tokens that a chunk has at least
RATE = 1e-4  # chosen beforehand; not searched for
BEGAN, MOST = time.monotonic(), 15 * 60  # seconds after which a call stops as soon as it can
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = DEVICE.type == "cuda"
POSITIONS, ROWS = (16_384, STEP) if ON_GPU else (1_024, 2)  # of one pass through the model
KEPT_EVERY = 1_000 if ON_GPU else 25  # steps

PREDICTIONS = {
    "starts": "fvt loses least in both fields; about the mean, rescaling costs nothing on HPO and "
    "some in Finnish; about zero it ruins the model; naive tokens lose less than continued ones, "
    "as fewer of them occur; distilled is ahead of fvt",
    "focus": "written when the 150 definitions were known (0.008 and 0.014 ahead of fvt, not significant): "
    "on 1,200 others focus is ahead by 0.005 to 0.012 with 4,000 tokens and by 0.003 to 0.009 with 1,000; "
    "the first is significant, the second may be",
    "moved": "written when the medians by occurrence were known: the distances of naive tokens have two "
    "humps, at 0.12 (the tokens that never occur, the larger) and 0.04, those of continued tokens one at "
    "0.04 and a small one at 0.13; the changes of length of naive tokens have the longer negative tail",
    "slower": "by plain gradient descent unread rows move less than read ones by a factor above ten",
    "pruning": "leaf-frequency counted on the text itself costs least; from 49,152 to 17,000 tokens "
    "English loses under 0.1 bits by re-cutting, and renormalising gives back under 0.02; Python, "
    "which nobody counted, loses several times as much",
}


# --- texts and tokenizers ------------------------------------------------------------------------
@cache
def base():
    return th.load_tokenizer(MODEL)


@cache
def definitions() -> list[str]:
    """The definitions that are learned from and read: HPO's training part."""
    return list(th.load_corpus("hpo"))


def held_out(n: int = 150, seed: int = 0) -> list[str]:
    """Definitions of HPO's test part, which nothing was learned from."""
    texts = list(th.load_corpus("hpo", split="test"))
    return [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))[:n]]


@cache
def extended(field: str, method: str, n: int):
    """SmolLM2's tokenizer with `n` tokens of a field, continued or naive."""
    if method == "none":
        return base()
    source = {"hpo": "hpo", "fi": "wordfreq:fi"}[field]
    text = th.load_corpus(source, chars=LEARNED)
    if method == "continued":
        return th.extend(base(), th.continue_bpe(base(), text, n))
    rules = base().pre_tokenizer
    supplement = th.train_byte_level_bpe(text, vocab_size=8 * n + 8_000, pre_tokenizer=rules)
    return th.extend(base(), th.naive_extension(base(), supplement, n))


def new_ids(tokenizer) -> list[int]:
    return list(range(base().get_vocab_size(), tokenizer.get_vocab_size()))


def rows_of(tokenizer, texts) -> list[list[int]]:
    return [[END, *encoding.ids] for encoding in tokenizer.encode_batch(list(texts))]


class NotDone(Exception):
    """The call stopped, with all that it made kept."""


def stop_if_late(where: str) -> None:
    """Raise NotDone where the call has taken its quarter of an hour."""
    if is_late():
        raise NotDone(
            f"{where}: kept, since a call stops after {MOST // 60} minutes. Type it again"
        )


def is_late() -> bool:
    return time.monotonic() - BEGAN > MOST


def row_by_row(name: str, keys: list[str], cases: list[tuple], make: Callable) -> pd.DataFrame:
    """One row for each case, kept in `runs/` as soon as it is there; those found there are not made."""
    file = RUNS / f"{name}.csv"
    rows = pd.read_csv(file).to_dict("records") if file.exists() else []
    known = {tuple(row[key] for key in keys): row for row in rows}
    for case in cases:
        if case not in known:
            known[case] = {**dict(zip(keys, case, strict=True)), **make(*case)}
            print(known[case], flush=True)
            RUNS.mkdir(exist_ok=True)
            write_whole(file, pd.DataFrame(known.values()).to_csv(index=False).encode())
            if len(known) < len(cases):
                stop_if_late(f"{name}, {len(known)} of {len(cases)} rows")
    return pd.DataFrame([known[case] for case in cases])


# --- the loss of each text -----------------------------------------------------------------------
@torch.inference_mode()
def scored(model, rows: list[list[int]], *, new=(), kept=None) -> pd.DataFrame:
    """The loss of each row of ids in nats, and the probability that the `new` ids get.

    With `kept` ids there is also the loss where these alone share the probability.
    """
    model.eval()
    sums_by_name = {}
    for part in batches(rows):
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(rows[i]) for i in part], True)
        real = torch.nn.utils.rnn.pad_sequence([torch.ones(len(rows[i]) - 1) for i in part], True)
        ids, real = ids.to(model.device), real.to(model.device)
        states = model.base_model(ids[:, :-1], attention_mask=real, use_cache=False)
        logits = model.lm_head(states.last_hidden_state[real.bool()])
        targets, total = ids[:, 1:][real.bool()], logits.logsumexp(1)
        picked = logits.gather(1, targets[:, None])[:, 0]
        place = real.nonzero()[:, 0].cpu()
        values = {"nats": total - picked}
        if len(new):
            values["new"] = (logits[:, new[0] : new[-1] + 1].logsumexp(1) - total).exp()
        if kept is not None:
            values["kept"] = logits[:, kept].logsumexp(1) - picked
        for name, value in values.items():
            sums = torch.zeros(len(part), dtype=torch.float64).index_add_(
                0, place, value.double().cpu()
            )
            sums_by_name.setdefault(name, {}).update(zip(part, sums.tolist(), strict=True))
    table = pd.DataFrame(sums_by_name).sort_index()
    table["tokens"] = [len(row) - 1 for row in rows]
    return table


def batches(rows: list[list[int]], places: int = POSITIONS) -> Iterator[list[int]]:
    """Numbers of rows of like lengths, so many that they have about `places` ids."""
    batch = []
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        if batch and (len(batch) + 1) * len(rows[i]) > places:
            yield batch
            batch = []
        batch.append(i)
    yield batch


def bits(table: pd.DataFrame, texts: list[str], column: str = "nats") -> pd.Series:
    """Bits of each text; divided by all bytes they add up to bits per byte."""
    size = sum(len(text.encode()) for text in texts)
    return table[column] / np.log(2) / size


def paired(differences: pd.Series) -> float:
    """Half the width of the 95 % interval of a sum over texts, by resampling the texts."""
    values = differences.to_numpy()
    rng = np.random.default_rng(0)
    sums = values[rng.integers(0, len(values), (2_000, len(values)))].sum(1)
    low, high = np.percentile(sums, [2.5, 97.5])
    return float(high - low) / 2


# --- reading on ----------------------------------------------------------------------------------
def chunks(seed: int) -> list[list[str]]:
    """The definitions in an order by seed, in chunks of about 128 old tokens."""
    texts, chunked, size = definitions(), [[]], 0
    lengths = [len(e.ids) + 1 for e in base().encode_batch(texts)]
    for i in np.random.default_rng(seed).permutation(len(texts)):
        if size >= CHUNK:
            chunked, size = [*chunked, []], 0
        chunked[-1].append(texts[i])
        size += lengths[i]
    return chunked


def read_on(
    name: str,
    make: Callable,
    tokenizer,
    *,
    seed: int = 0,
    points: tuple[int, ...],
    measure: Callable,
    optimiser: str = "adamw",
    rate: float = RATE,
) -> pd.DataFrame:
    """Train a model on the definitions, step by step, and measure it after each of `points`.

    `make` gives the model, `measure(model)` a dictionary. Every arm is trained on the same definitions
    in the same order, each tokenized by its own tokenizer.
    """
    text = chunks(seed)
    settings = [name, points, optimiser, rate, text[: STEP * max(points)]]
    mark = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]
    file, table = RUNS / f"{name}-{seed}-{mark}.safetensors", RUNS / f"{name}-{seed}-{mark}.csv"
    done = pd.read_csv(table) if table.exists() else pd.DataFrame({"step": []})
    if set(points) <= set(done.step):
        return done
    model = make().to(DEVICE)
    kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimiser]
    steps = kind(model.parameters(), rate, weight_decay=0.0)
    begun = {"step": 0, "read": dict.fromkeys(("tokens_read", "bytes_read", "old_tokens_read"), 0)}
    at, read = (begun | take_up(file, model, steps)).values()
    rows = [row for row in done.to_dict("records") if row["step"] <= at]
    began = time.monotonic()
    for step in range(at, max(points) + 1):
        if step in points and step not in {row["step"] for row in rows}:
            rows.append({"step": step, **read, **measure(model)})
            print(name, rows[-1], flush=True)
            RUNS.mkdir(exist_ok=True)
            write_whole(table, pd.DataFrame(rows).to_csv(index=False).encode())
        if step == max(points):
            break
        if step > at and (step % KEPT_EVERY == 0 or is_late()):
            keep(file, model, steps, {"step": step, "read": read})
            stop_if_late(f"{name}, {step} of {max(points)} steps")
        chunks_of_step = text[step * STEP : (step + 1) * STEP]
        n, loss = one_step(
            model, steps, tokenizer, chunks_of_step, warm=min(1, (step + 1) / 5), rate=rate
        )
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"{name}: the loss is {loss} at step {step + 1}: give a lower rate"
            )
        read["tokens_read"] += n
        read["bytes_read"] += sum(len(t.encode()) for chunk in chunks_of_step for t in chunk)
        read["old_tokens_read"] += sum(len(row) for row in rows_of(base(), sum(chunks_of_step, [])))
        print(f"{name} step {step + 1}: {loss:.3f}, {time.monotonic() - began:.0f} s", flush=True)
    file.unlink(missing_ok=True)
    return pd.DataFrame(rows)


def one_step(
    model, optimiser, tokenizer, chunks_of_step, *, warm: float, rate: float
) -> tuple[int, float]:
    """One step on some chunks; the loss is the mean over their tokens."""
    rows = [torch.tensor(sum(rows_of(tokenizer, chunk), [])) for chunk in chunks_of_step]
    n, total = sum(len(row) - 1 for row in rows), 0.0
    model.train()
    rows.sort(key=len)  # chunks of like lengths go through the model together: less padding
    for some_rows in (rows[i : i + ROWS] for i in range(0, len(rows), ROWS)):
        ids = torch.nn.utils.rnn.pad_sequence(some_rows, True, padding_value=-1).to(model.device)
        real = ids >= 0
        states = model.base_model(ids.clamp(min=0)[:, :-1], attention_mask=real[:, :-1].long(),
                                  use_cache=False).last_hidden_state  # fmt: skip
        logits = model.lm_head(states[real[:, 1:]])
        loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:][real[:, 1:]], reduction="sum")
        (loss / n).backward()
        total += loss.item() / n
    for group in optimiser.param_groups:
        group["lr"] = rate * warm
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return n, total


# --- 14: how new rows start ----------------------------------------------------------------------
def started(tokenizer, start: str, model=None):
    """A model whose new rows start in one of the ways, in place of the model that is given."""
    model = th.load_model(MODEL) if model is None else model
    if tokenizer is base():
        return model
    init, _, how = start.partition(", rescaled about ")
    options = {"corpus": definitions()} if init == "focus" else {}
    rescale = how == "the mean"
    model_with_rows = th.transfer_embeddings(
        model, base(), tokenizer, init=init, rescale=rescale, inplace=True, **options
    )
    if how == "zero":
        with torch.no_grad():
            rows = model_with_rows.get_input_embeddings().weight
            old = rows[: base().get_vocab_size()].norm(dim=1).median()
            new_rows = rows[base().get_vocab_size() :]
            new_rows *= old / new_rows.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return model_with_rows


STARTS = ("fvt", "first-last", "focus", "mean", "normal", "zero")
STARTS += ("fvt, rescaled about the mean", "fvt, rescaled about zero")
SETTINGS = [("hpo", "continued", 1_000), ("hpo", "naive", 1_000), ("hpo", "continued", 4_000)]
SETTINGS += [("hpo", "naive", 4_000), ("fi", "continued", 4_000)]


def field_texts(field: str) -> list[str]:
    """The text that a field is measured on: held-out definitions, or our own Finnish sentences."""
    if field == "hpo":
        return held_out()
    return (PLACE / "data/samples/finnish.txt").read_text("utf-8").splitlines()


def starts_of(field: str, method: str, n: int) -> list[tuple[bool, str]]:
    """Which starts are tried: all where tokens are continued, two where they are naive."""
    if method == "naive":
        return [(True, "fvt"), (True, "mean")]
    if field == "fi":  # FOCUS compares tokens by running text, and these come from single words
        return [(True, s) for s in STARTS if s != "focus"] + UNTIED
    return [(True, s) for s in STARTS] + (UNTIED if n == 1_000 else [])


def starts() -> pd.DataFrame:
    """Every start of new rows, in every setting, before any training."""
    cases = [(*setting, tied, start) for setting in SETTINGS
             for tied, start in [(True, "none"), *starts_of(*setting)]]  # fmt: skip
    names = ["field", "method", "added", "tied", "start"]
    return row_by_row("starts", names, cases, one_start)


@cache
def unextended(field: str) -> pd.DataFrame:
    return scored(th.load_model(MODEL), rows_of(base(), field_texts(field)))


@cache
def scored_start(field: str, method: str, n: int, tied: bool, start: str) -> pd.DataFrame:
    """The scores of each text with new tokens that start in one of the ways."""
    tokenizer, model = extended(field, method, n), th.load_model(MODEL)
    model = started(tokenizer, start, model if tied else untied(model))
    return scored(model, rows_of(tokenizer, field_texts(field)), new=new_ids(tokenizer))


def one_start(field, method, n, tied, start) -> dict:
    """The loss with one start: against no extension text by text, and on texts without a new token."""
    texts, none = field_texts(field), unextended(field)
    if start == "none":
        return {"bits": bits(none, texts).sum()}
    tokenizer = extended(field, method, n)
    rows, new = rows_of(tokenizer, texts), new_ids(tokenizer)
    scores = scored_start(field, method, n, tied, start)
    more = bits(scores, texts) - bits(none, texts)
    without = [not set(row) & set(new) for row in rows]
    size = sum(len(t.encode()) for t, w in zip(texts, without, strict=True) if w)
    return {
        "bits": bits(scores, texts).sum(),
        "more": more.sum(),
        "interval": paired(more),
        "probability_new": scores.new.sum() / scores.tokens.sum(),
        "share_new": np.mean([i in set(new) for row in rows for i in row[1:]]),
        "texts": len(texts),
        "texts_without": sum(without),
        "more_without": (scores.nats - none.nats)[without].sum() / np.log(2) / max(size, 1),
    }


def from_fvt() -> pd.DataFrame:
    """The loss of each initialisation less that of FVT on the same texts, before any training."""
    cases = [(field, n, start) for field, method, n in SETTINGS if method == "continued"
             for tied, start in starts_of(field, method, n) if tied and start != "fvt"]  # fmt: skip
    return row_by_row("from_fvt", ["field", "added", "start"], cases, one_difference)


def one_difference(field: str, n: int, start: str) -> dict:
    own, fvt = (
        bits(scored_start(field, "continued", n, True, name), field_texts(field))
        for name in (start, "fvt")
    )
    return against_fvt(own, fvt)


def against_fvt(own: pd.Series, fvt: pd.Series) -> dict:
    """A row of the bits of each text with one initialisation less those with FVT."""
    return {"less_fvt": (own - fvt).sum(), "interval": paired(own - fvt), "texts": len(own)}


def focus() -> pd.DataFrame:
    """FOCUS's loss less that of FVT on definitions that `from_fvt` did not measure."""
    cases = [("hpo", n, "focus") for n in (4_000, 1_000)]
    return row_by_row("focus", ["field", "added", "start"], cases, one_on_others)


def one_on_others(field: str, n: int, start: str) -> dict:
    used = len(held_out())
    texts, tokenizer = held_out(used + 1_200)[used:], extended(field, "continued", n)
    own, fvt = (
        bits(scored(started(tokenizer, name), rows_of(tokenizer, texts)), texts)
        for name in (start, "fvt")
    )
    return against_fvt(own, fvt)


UNTIED = [(False, s) for s in ("fvt", "first-last", *STARTS[-2:])]


def untied(model):
    """The same model with a head of its own, which begins as a copy of the input table."""
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return model


# --- 14: training, whose embeddings are kept ----------------------------------------------------
RUN = {  # name: method, tokens, order of the text, steps
    "fvt": ("continued", 1_000, 0, 120),
    "naive": ("naive", 1_000, 0, 120),
    "none-1": ("none", 0, 1, 25),
    "sgd-1": ("none", 0, 1, 25),  # plain gradient descent in place of AdamW
}
RATES = {"sgd-1": 0.01}  # at 0.1 the model was lost after 3 steps


def embeddings(model) -> torch.Tensor:
    return model.get_input_embeddings().weight.detach()


def train(arm: str) -> None:
    """Train one arm, and keep its embeddings."""
    method, n, seed, steps = RUN[arm]
    tokenizer = extended("hpo", method, n)

    def measure(model) -> dict:
        RUNS.mkdir(exist_ok=True)
        table = {"rows": embeddings(model).contiguous()}
        save_file(table, RUNS / f"embeddings-{arm}.safetensors")
        return {}

    read_on(
        f"recovery-{arm}",
        lambda: started(tokenizer, "fvt"),
        tokenizer,
        seed=seed,
        points=(steps,),
        measure=measure,
        optimiser="sgd" if arm.startswith("sgd") else "adamw",
        rate=RATES.get(arm, RATE),
    )


# --- 11: pruning, and the two parts of what it costs ----------------------------------------------
ORDERS = [("leaf-frequency", "hpo"), ("leaf-frequency", "english"), ("frequency", "english")]
ORDERS += [("leaf-id", "nothing"), ("merges", "english"), ("random leaves", "nothing")]
HELD = 60  # paragraphs of English that no order is counted on
KEPT = (40_000, 25_000, 17_000, 12_000, 9_000)  # of 49,152 tokens


@cache
def english() -> list[str]:
    """Paragraphs of running English: what the pinned packages say of themselves."""
    pins = re.findall(r"^([\w.-]+)==", (PLACE / "requirements.txt").read_text("utf-8"), re.M)
    pinned = {pin.lower().replace("_", "-") for pin in pins}
    paragraphs = set()
    for package in distributions():
        if package.name.lower().replace("_", "-") not in pinned:
            continue
        for paragraph in (package.metadata.get_payload() or "").split("\n\n"):
            text = " ".join(paragraph.split())
            letters = sum(c.isalpha() or c in " ,.'" for c in text)
            if 150 <= len(text) <= 700 and letters > 0.97 * len(text):
                paragraphs.add(text)
    return [sorted(paragraphs)[i] for i in np.random.default_rng(0).permutation(len(paragraphs))]


@cache
def pruning_texts() -> dict[str, list[str]]:
    """About 2,000 tokens of each text: nothing was counted on Python, nor on these."""
    source = list(th.load_corpus("python-source", chars=400_000))
    code = [document[i : i + 400] for document in source for i in range(0, len(document), 4_000)]
    texts_by_name = {}
    for name, texts in (("hpo", held_out(300)), ("english", english()[:HELD]), ("python", code)):
        sizes = np.cumsum([len(e.ids) for e in base().encode_batch(texts)])
        texts_by_name[name] = texts[: int((sizes < 2_000).sum()) + 1]
    return texts_by_name


@cache
def order(by: str, counted: str) -> list[str]:
    """Tokens in the order in which they are pruned."""
    if by == "random leaves":
        return random_leaves()
    corpora = {"hpo": definitions, "english": lambda: english()[HELD:]}
    return th.pruning_order(base(), corpora[counted]() if counted in corpora else None, by=by)


def random_leaves() -> list[str]:
    """Leaves in an order by lot: a token is taken once nothing is merged from it any more."""
    parts = th.TokenizerSpec.from_tokenizer(base())
    merges, rng = parts.merges.tolist(), np.random.default_rng(0)
    made_of = {result: (left, right) for left, right, result in merges}
    needed = Counter(i for pair in made_of.values() for i in set(pair))
    free, order = [i for i in made_of if not needed[i]], []
    while free:
        place = int(rng.integers(len(free)))
        free[place], free[-1] = free[-1], free[place]
        order.append(free.pop())
        for i in set(made_of[order[-1]]):
            needed[i] -= 1
            if not needed[i] and i in made_of:
                free.append(i)
    return [parts.tokens[i] for i in order]


def pruning() -> pd.DataFrame:
    """What every order costs at every size on three texts, in two parts; untrained."""
    cases = [(text, by, counted, n) for n in KEPT for by, counted in ORDERS for text in TEXTS]
    return row_by_row("pruning", ["text", "by", "counted", "kept"], cases, one_pruning)


TEXTS = ("hpo", "english", "python")


@cache
def unpruned(text: str) -> pd.DataFrame:
    return scored(the_model(), rows_of(base(), pruning_texts()[text]))


def one_pruning(text: str, by: str, counted: str, n: int) -> dict:
    """What re-cutting costs under the full table, and what renormalising over kept tokens gives back."""
    texts = pruning_texts()[text]
    tokenizer = th.prune(base(), order(by, counted), base().get_vocab_size() - n)
    old = {new: i for i, new in th.id_map(base(), tokenizer).items()}
    rows = [[old[i] for i in row] for row in rows_of(tokenizer, texts)]
    scores = scored(the_model(), rows, kept=sorted(old.values()))
    before = bits(unpruned(text), texts)
    cut, after = bits(scores, texts), bits(scores, texts, "kept")
    return {
        "before": before.sum(),
        "recutting": (cut - before).sum(),
        "recutting_interval": paired(cut - before),
        "renormalising": (cut - after).sum(),
        "after": after.sum(),
        "more_tokens": scores.tokens.sum() / unpruned(text).tokens.sum() - 1,
        "texts": len(texts),
    }


# --- 12: exchange --------------------------------------------------------------------------------
EXCHANGED = 4_000


@cache
def exchange_tokenizer(arm: str):
    """SmolLM2's tokenizer with 4,000 tokens of HPO more, 4,000 fewer, or both."""
    tokenizer = base()
    if arm in ("pruned", "exchanged"):
        counted = definitions() + english()[HELD:]
        order = th.pruning_order(tokenizer, counted, by="leaf-frequency")
        tokenizer = th.prune(tokenizer, order, EXCHANGED)
    if arm in ("extended", "exchanged"):
        text = th.load_corpus("hpo", chars=LEARNED)
        tokenizer = th.extend(tokenizer, th.continue_bpe(tokenizer, text, EXCHANGED))
    assert tokenizer.id_to_token(END) == base().id_to_token(END)
    return tokenizer


@cache
def the_model():
    return th.load_model(MODEL)


# --- 14: drift -----------------------------------------------------------------------------------
def moves(arm: str) -> pd.DataFrame:
    """How far each embedding moved in an arm, how its length changed, how often its token occurred."""
    method, n, seed, steps = RUN[arm]
    tokenizer = extended("hpo", method, n)
    after = load_file(RUNS / f"embeddings-{arm}.safetensors")["rows"]
    tables = [embeddings(started(tokenizer, "fvt")), after]
    texts = sum(chunks(seed)[: STEP * steps], [])
    counts = np.bincount(np.concatenate(rows_of(tokenizer, texts)), minlength=len(tables[0]))
    length = [table.norm(dim=1).numpy() for table in tables]
    rows = pd.DataFrame({"moved": (tables[1] - tables[0]).norm(dim=1).numpy()})
    rows["longer"], rows["occurrences"] = length[1] - length[0], counts
    rows["read"] = pd.cut(counts, [-1, 0, 9, 99, np.inf], labels=["never", "1-9", "10-99", "100-"])
    rows["which"] = np.where(np.arange(len(rows)) < base().get_vocab_size(), "old", "new")
    return rows


def moved() -> pd.DataFrame:
    """Make the table of each added token: distance moved, change of length, occurrences."""
    tables = {arm: moves(arm).query("which == 'new'") for arm in ("fvt", "naive")}
    columns = ["moved", "longer", "occurrences"]
    return pd.concat(tables, names=["arm", "id"]).reset_index()[["arm", "id", *columns]]


def slower() -> pd.DataFrame:
    """How far embeddings moved by AdamW and by plain gradient descent, by how often tokens occurred."""
    return pd.concat(map(moved_by_use, ("none-1", "sgd-1")))


def moved_by_use(arm: str) -> pd.DataFrame:
    rows = moves(arm)
    medians = {of: (of, "median") for of in ("moved", "longer")}
    table, every = (
        rows.groupby(keys, observed=True).agg(tokens=("moved", "size"), **medians)
        for keys in (["which", "read"], "which")
    )
    never = rows.read == "never"
    for of in medians:
        auc = tells(rows[of][never], rows[of][~never])
        table.loc[("old", "never"), [f"auc_{of}", f"auc_{of}_interval"]] = auc
    table = pd.concat([table.reset_index(), every.reset_index().assign(read="all")])
    return table.assign(arm=arm, steps=RUN[arm][-1])


def tells(first: pd.Series, second: pd.Series) -> tuple[float, float]:
    """The probability that one of some is larger than one of the others (AUC), and half its interval."""
    rng, n = np.random.default_rng(0), (len(first), len(second))

    def auc(a, b):
        return mannwhitneyu(a, b).statistic / (n[0] * n[1])

    drawn = [auc(rng.choice(first, n[0]), rng.choice(second, n[1])) for _ in range(200)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return auc(first, second), (high - low) / 2


def record(name: str, make: Callable[[], pd.DataFrame]) -> None:
    began = time.monotonic()
    table = make()
    command = f"python tools/real_model.py {name}"
    th.notebook.record_measured(
        table, f"smollm2_{name}", command=command, seconds=time.monotonic() - began
    )


TABLES = {
    "starts": starts,
    "from_fvt": from_fvt,
    "focus": focus,
    "moved": moved,
    "slower": slower,
    "pruning": pruning,
}
CHAPTERS = {
    "11": ["pruning"],
    "14": ["starts", "from_fvt", "focus", *RUN, "moved", "slower"],
}
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    what: Annotated[list[str] | None, typer.Argument(help="a chapter, or a table's name")] = None,
):
    """Measure SmolLM2-135M for notebooks (`14`), or make tables (`starts`), or train an arm (`fvt`)."""
    torch.set_num_threads(1)
    try:
        for table in (table for name in what or CHAPTERS for table in CHAPTERS.get(name, [name])):
            make_one(table)
    except NotDone as error:
        print(error)
        raise typer.Exit(3) from None


def make_one(table: str) -> None:
    """Train an arm, or make a table, by its name."""
    if table in RUN:
        train(table)
    elif table in TABLES:
        record(table, TABLES[table])
    elif not table[0].isdigit():  # most chapters have no long run
        names = ", ".join([*CHAPTERS, *TABLES, *RUN])
        raise typer.BadParameter(f"{table!r} is neither a table nor an arm; there are {names}")


if __name__ == "__main__":
    app()
