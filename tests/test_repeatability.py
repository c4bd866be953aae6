"""Processes that differ in all that must not matter come to the same result, bit by bit."""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure
from tokenizers import Tokenizer

import tokhelpers as th

ORDERS = ("leaf-frequency", "leaf-id", "frequency", "id", "merges")
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 2, "intermediate_size": 32}
THREADS = ("RAYON_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# hash seed and threads; each has the documents in another order
CHILDREN = [("0", 1), ("1", 2), ("7", 3), ("1000", 4), ("4294967295", 1), ("31337", 2)]


# --- what each process does -------------------------------------------------------------------------
def trained(text: list[str]) -> Iterator[tuple]:
    """The name and result of each step."""
    for family in ("wordpiece", "sentencepiece_bpe", "byte_level_bpe", "unigram"):
        made = getattr(th, f"train_{family}")(text, vocab_size=2_000, special_tokens=["<end>"])
        yield f"train_{family}", made
        for by in ORDERS if family.endswith("bpe") else ():
            yield f"pruning_order, {family}, {by}", th.pruning_order(made, text, by=by)


def adapted(text: list[str]) -> Iterator[tuple]:
    llama = th.load_tokenizer("llama-3")
    yield "load", llama
    by_id = th.pruning_order(llama, by="id")
    llama = th.prune(llama, by_id, len(by_id) - 5_000)  # the rest is quick with it
    yield "prune by id", llama
    yield "counts", th.count_pretokens(text, llama)
    extension = th.continue_bpe(llama, text, 100)
    longer = th.extend(llama, extension)
    yield "extend", longer
    yield "evaluate", th.evaluate(longer, text, added=extension.tokens)
    yield "unreachable", th.unreachable_tokens(longer)
    order = th.pruning_order(longer, text, by="leaf-frequency")
    yield "prune", th.prune(longer, order, 1_000)
    options = {"vocab_size": 1_500, "pre_tokenizer": llama.pre_tokenizer}
    naive = th.naive_extension(llama, th.train_byte_level_bpe(text, **options), 100)
    yield "naive_extension", [naive.tokens, naive.merges]
    yield "AdaptBPE", th.AdaptBPE(llama, naive.tokens).ids_batch(sorted(text))


def with_a_model(text: list[str], folder: Path) -> Iterator[tuple]:
    """A small tokenizer, saved with its card, and a tiny model that takes its new rows."""
    import torch

    from tokhelpers.models import loss_per_byte

    base = th.train_byte_level_bpe(text, vocab_size=1_000, special_tokens=["<end>"])
    longer = th.extend(base, th.continue_bpe(base, text, 50))
    model = th.new_model("small-llama", 1_000, **TINY)
    sizes = th.recommend_size(base, text, model.config, sizes=[25, 50], test=text)
    yield "recommend_size", sizes
    about = {"base": {"base": base}, "texts": {"text": text}, "measures": sizes.iloc[0]}
    th.save_pretrained(longer, folder / "saved", calls=["continue_bpe(base, text, 50)"], **about)
    for file in sorted((folder / "saved").iterdir()):
        yield f"save_pretrained, {file.name}", file
    for init in ("fvt", "mean", "normal", "zero"):
        yield f"transfer_embeddings, {init}", th.transfer_embeddings(model, base, longer, init=init)
    torch.set_num_threads(1)  # sums of many threads are not promised to come in one order
    yield "loss_per_byte", loss_per_byte(model, base, sorted(text)[:50])


def canonical(result) -> bytes:
    """What two equal results have in common; numbers to their last bit."""
    if isinstance(result, Tokenizer):
        return result.to_str().encode()
    if isinstance(result, Path):
        return result.read_bytes()
    if isinstance(result, th.text.Pretokens):  # a mapping: its order says nothing
        sizes = [
            result.chars,
            result.bytes,
            result.spaced_words,
            result.documents,
            result.pretokenizer_config,
        ]
        return json.dumps([sorted(result.items()), sizes]).encode()
    if isinstance(result, pd.DataFrame | pd.Series):
        return result.to_csv().encode()
    if hasattr(result, "named_parameters"):
        rows = ((name, p.detach().numpy()) for name, p in result.named_parameters())
        return b"".join(f"{name} {a.shape} {a.dtype}".encode() + a.tobytes() for name, a in rows)
    return json.dumps(result).encode()


def child(number: int, folder: Path, all_steps: bool) -> None:
    """Print the SHA-256 of each step, or of trainings on some of the text, and one over all."""
    chars = {"hpo": 60_000, "wordfreq:el": 20_000, "wordfreq:ko": 10_000}  # three scripts
    text = [document for name in chars for document in th.load_corpus(name, chars=chars[name])]
    text = text if all_steps else text[::10]
    random.Random(number).shuffle(text)
    found = dict(trained(text))
    if all_steps:
        found |= dict(adapted(text)) | dict(with_a_model(text, folder))
    digests = {name: hashlib.sha256(canonical(r)).hexdigest() for name, r in found.items()}
    print(json.dumps({**digests, "all": hashlib.sha256(canonical(digests)).hexdigest()}))


# --- many of them -----------------------------------------------------------------------------------
def run(code: list[str], hash_seed: str, threads: int, **more: str) -> str:
    """What a process of its own prints."""
    told = {name: str(threads) for name in THREADS}
    told |= {"PYTHONHASHSEED": hash_seed, "TOKENIZERS_PARALLELISM": str(threads > 1).lower()}
    command = [sys.executable, *code]
    done = subprocess.run(command, capture_output=True, env={**os.environ, **told, **more})
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def digests(number: int, folder: Path, steps: str) -> dict[str, str]:
    here = folder / str(number)
    here.mkdir()
    # the last one also converts the vendor's tokenizer anew
    more = {"TOKHELPERS_CACHE": str(here / "cache")} if number == len(CHILDREN) - 1 else {}
    return json.loads(run([__file__, str(number), str(here), steps], *CHILDREN[number], **more))


def test_two_processes_learn_the_same(tmp_path):
    one, other = (digests(number, tmp_path, "some") for number in (0, 3))
    assert one == other


@pytest.mark.first
@pytest.mark.long
def test_six_processes_come_to_one_result(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        all_of = pool.map(lambda number: digests(number, tmp_path, "all"), range(len(CHILDREN)))
    first, *others = all_of
    unlike = [name for name in first if any(other[name] != first[name] for other in others)]
    assert unlike == [], "these steps depend on hash seed, threads or order of documents"


@pytest.mark.long
def test_kernels_of_notebooks_compute_alike_on_all_processors(monkeypatch):
    from tools.run_notebooks import environment  # the other processes do not find tools

    monkeypatch.setenv("TOKHELPERS_PROFILE", "quick")
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    assert run(["-c", code], "0", 1, **environment()) == "DEFAULT\n"


# --- figures ----------------------------------------------------------------------------------------
def test_figures_are_the_same_bytes_whatever_was_drawn_before(tmp_path, monkeypatch):
    table = pd.DataFrame({"tokens": range(50), "gain": [1 / (n + 3) for n in range(50)]})
    monkeypatch.setenv("TOKHELPERS_FIGURES", str(tmp_path))
    with rc_context():
        th.notebook.set_style()
        for name in ("01_lines", "02_points", "01_lines"):
            before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
            figure = Figure()
            axes = figure.subplots()
            axes.plot(table.tokens, table.gain, label=name)
            axes.fill_between(table.tokens, table.gain, alpha=0.2)
            th.notebook.label_lines(axes)
            axes.scatter(table.tokens, table.gain, marker="x")
            axes.bar(table.tokens, table.gain / 2, hatch="//")
            th.notebook.save_figure(figure, table, name, conditions="Learned from A; measured on B")
    assert len(before) == 4 and b"Learned from A; measured on B" in before["01_lines.svg"]
    assert before["01_lines.csv"].startswith(b"tokens,gain\n0,0.333333\n1,0.25\n")
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


if __name__ == "__main__":
    child(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "all")
