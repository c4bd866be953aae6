"""Measure what it costs and saves to drop rare pre-tokens before training, or to take less text.

Notebook 18 reads what ``python tools/rare_pretokens.py`` keeps in ``data/measured/min_count.csv`` (twenty
minutes; only rows that are not there yet are measured). Two texts are counted by Llama-3's
pre-tokenizer: the .py files of the packages installed with this Python (a tenth of the files are held
out), and Russian sentences (measured on FLORES-200). Of the counts all pre-tokens are kept, or those
that occur 2, 5, 10 or 30 times or more; or, of Python source, all pre-tokens of a random third, tenth,
thirtieth or hundredth of its files, and of the tenth and the thirtieth also those that occur 2, 5, 10 or
30 times or more.

Predictions, written before the run, for 32,000 tokens from scratch on Python source: with
``min_count=2`` 62 % of the unique pre-tokens are left, training takes two thirds of the memory, 97 % of
the tokens stay and 0.1 % of bytes per token are lost; with 10, 20 % are left, a quarter of the memory,
88 % of the tokens, and 0.7 % are lost; with 30, 75 % of the tokens, and 2 %. With 4,000 tokens 98 % stay
even with 30, and less than 0.1 % is lost. A tenth of the files loses more (2 %) than ``min_count=10``.

Predictions for a tenth and a thirtieth of the files, written before their run: ``min_count=10`` drops 3.5
and 5.4 % of their text (1.5 % of the whole). From scratch this costs 0.4 and 0.7 % of bytes per token with
4,000 tokens, and 1 % with 32,000 on a tenth; on a thirtieth fewer tokens than 32,000 are left. Whatever
drops at most 1 % of a text costs at most 0.1 % with 4,000 tokens, 0.3 % with 32,000, and 0.05 % added to
Llama-3. At the same share, Russian loses no more than Python source: the share is what counts, not
``min_count``. Added to Llama-3, a third of the files costs 0.2 %, a tenth 0.6 % against all files.
"""

import json
import subprocess
import sys
import time
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from adding_up import peak
from tokenizers import Tokenizer

import tokhelpers as th

PROGRAM = Path(__file__).resolve()
TEXTS = {
    "python-source": (["python-source"], "python-source"),
    "Russian": (["tatoeba:rus", "commonvoice:ru", "ntrex:rus"], "flores:rus_Cyrl"),
}
MIN_COUNTS = (1, 2, 5, 10, 30)
SHARES = (3, 10, 30, 100)  # one file in so many
SWEPT = (10, 30)  # of these, rare pre-tokens are dropped as well
RUNS = (("from scratch", 4_000), ("from scratch", 32_000), ("continued", 4_000))
COLUMNS = ["text", "way", "tokens", "min_count", "files", "megabytes", "unique", "pretokens"]
COLUMNS += [
    "counts bytes",
    "learned",
    "shared",
    "rarest",
    "bytes per token",
    "before",
    "peak",
    "seconds",
]


def train(counts, base, n):
    """Train n tokens on the counts in a file; keep them, and print what this needed."""
    base, small = Tokenizer.from_file(base), {" xqzjkvw": 3}
    th.continue_bpe(base, small, 1)  # compiles the loop, which takes memory as well
    before, began = peak(), time.process_time()
    extension = th.continue_bpe(base, th.load_counts(counts), int(n))
    print(before, peak(), time.process_time() - began)
    Path("learned").write_text(json.dumps(asdict(extension), default=int))


def kept_extension(file):
    """The extension that `train` kept."""
    fields = json.loads(Path(file).read_text())
    return th.Extension(**fields | {"merges": [tuple(pair) for pair in fields["merges"]]})


def kept_counts(counts, documents, llama, seed):
    """Yield min_count, one file in how many, and the counts that are left."""
    for min_count in MIN_COUNTS:
        yield min_count, 1, th.count_pretokens(counts, llama, min_count=min_count)
    order = np.random.default_rng(seed).permutation(len(documents))
    for share in SHARES if documents else ():
        files = [documents[i] for i in order[: len(order) // share]]
        all_of_them = th.count_pretokens(files, llama)
        for min_count in MIN_COUNTS if share in SWEPT else (1,):
            yield min_count, share, th.count_pretokens(all_of_them, llama, min_count=min_count)


def measure(seed, known):
    """Rows of `COLUMNS`, for each text, way to train, size and what is left of the counts.

    Rows in `known` are left out; those of all pre-tokens are run again, to compare tokens with theirs.
    """
    llama = th.load_tokenizer("llama-3")
    steps = {"pre_tokenizer": llama.pre_tokenizer}
    empty = th.train_byte_level_bpe(["a"], vocab_size=256, **steps)
    bases = {"from scratch": (empty, 256), "continued": (llama, 0)}
    for way, (base, _) in bases.items():
        base.save(way)
    for text, (corpora, held_out) in TEXTS.items():
        test = "test" if held_out == text else "train"
        test = th.count_pretokens(th.load_corpus(held_out, split=test), llama)
        documents = [document for name in corpora for document in th.load_corpus(name)]
        counts = th.count_pretokens(documents, llama)
        all_tokens = {}
        files = documents if text == "python-source" else []
        for min_count, share, kept in kept_counts(counts, files, llama, seed):
            th.save_counts(kept, "kept.parquet")
            size = kept.strings.nbytes + kept.counts.nbytes
            facts = [min_count, share, kept.bytes / 1e6, len(kept), kept.counts.sum(), size]
            for way, n in RUNS:
                is_known = (text, way, n, min_count, share) in known
                if is_known and (min_count, share) != (1, 1):
                    continue
                base, first = bases[way]
                run = [sys.executable, "-W", "ignore", PROGRAM, "kept.parquet", way, str(n - first)]
                run = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True)
                before, most, seconds = map(float, run.stdout.split())
                extension = kept_extension("learned")
                result = th.evaluate(th.extend(base, extension), test).bytes_per_token
                tokens = set(extension.tokens)
                shared = len(tokens & all_tokens.setdefault((way, n), tokens))
                row = [len(tokens), shared, extension.frequencies[-1], result]
                row = [text, way, n, *facts, *row, before, most, seconds]
                print(*row, flush=True)
                if not is_known:
                    yield row


def main():
    """Measure in a folder of its own, and keep the rows."""
    began = time.perf_counter()
    stored = PROGRAM.parents[1] / "data" / "measured" / "min_count.csv"
    old = pd.read_csv(stored) if stored.exists() else pd.DataFrame(columns=COLUMNS)
    keys = ["text", "way", "tokens", "min_count", "files"]
    known = set(old[keys].itertuples(index=False, name=None))
    with TemporaryDirectory() as home, chdir(home):
        rows = measure(th.notebook.profile().seed, known)
        table = pd.DataFrame(rows, columns=COLUMNS)
    table = pd.concat([old, table]) if len(old) else table
    told = {"command": "python tools/rare_pretokens.py", "seconds": time.perf_counter() - began}
    th.notebook.record_measured(table, "min_count", **told)


if __name__ == "__main__":
    train(*sys.argv[1:]) if len(sys.argv) > 1 else main()
