"""Speed and memory of embedding transfer, against the library's own resizing.

A table of Llama-3.2-1B's size (128,256 x 2,048, bfloat16, tied, one layer above it) gets 4,000
medical tokens. Ours averages each token's pieces ("fvt") or draws by mean and covariance
("normal"); the library's ``resize_token_embeddings`` draws by mean and covariance, in the same
place. Each in a process of its own.

    python benchmarks/embeddings.py [--runs 3] [--tokens 4000]
"""

import time
from functools import partial

from measuring import asked, compare, print_ratio, stored

import tokhelpers as th


def _before(texts: list[str], n_tokens: int):
    llama = th.load_tokenizer("llama-3")
    longer = th.extend(llama, th.continue_bpe(llama, texts, n_tokens))
    model = th.new_model("llama-3.2-1b", num_hidden_layers=1).bfloat16()
    return model, llama, longer


def ours(init: str, texts: list[str], n_tokens: int) -> dict[str, float]:
    model, llama, longer = _before(texts, n_tokens)
    began = time.perf_counter()
    th.transfer_embeddings(model, llama, longer, init=init, inplace=True)
    return {"seconds": time.perf_counter() - began, "rows": model.config.vocab_size}


def library(texts: list[str], n_tokens: int) -> dict[str, float]:
    model, _, longer = _before(texts, n_tokens)
    began = time.perf_counter()
    model.resize_token_embeddings(longer.get_vocab_size())
    return {"seconds": time.perf_counter() - began, "rows": model.config.vocab_size}


def main() -> None:
    options = asked(__doc__, runs=3, tokens=4_000)
    contenders = {init: partial(ours, init) for init in ("fvt", "normal")}
    with stored(" ".join(text.split()) for text in th.load_corpus("hpo")) as path:
        result = compare(contenders | {"library": library}, path, options.tokens, runs=options.runs)
    for init in contenders:
        print_ratio(result, init, "library")


if __name__ == "__main__":
    main()
