"""Speed of AdaptBPE as an encoder, against the textbook's Algorithm 1 and the plain library encoder.

All get the same medical text (the Human Phenotype Ontology) and 2,000 medical tokens on Llama-3,
each in a process of its own. Ours and the library keep the words they have seen; the textbook gets
a hundred unique words, and its time is multiplied up to all of the text's.

    python benchmarks/adaptbpe.py [--runs 3] [--tokens 2000]
"""

import time

from measuring import asked, compare, print_ratio, stored

import tokhelpers as th
from tokhelpers import textbook
from tokhelpers.tokenizer.spec import TokenizerSpec

WORDS = 100


def _extension(texts: list[str], n_tokens: int):
    llama = th.load_tokenizer("llama-3")
    rules = {"normalizer": llama.normalizer, "pre_tokenizer": llama.pre_tokenizer}
    supplement = th.train_byte_level_bpe(texts, vocab_size=3 * n_tokens + 2_000, **rules)
    return llama, th.naive_extension(llama, supplement, n_tokens)


def ours(texts: list[str], n_tokens: int) -> dict[str, float]:
    llama, naive = _extension(texts, n_tokens)
    th.AdaptBPE(llama, naive.tokens[:10]).ids("compile or load the kernels")
    encoder = th.AdaptBPE(llama, naive)
    began = time.perf_counter()
    tokens = sum(map(len, encoder.ids_batch(texts)))
    return {"seconds": time.perf_counter() - began, "tokens": tokens}


def library(texts: list[str], n_tokens: int) -> dict[str, float]:
    """One text after the other, as ours does; the library could use several threads."""
    llama, naive = _extension(texts, n_tokens)
    longer = th.extend(llama, naive, how="regenerate")
    longer.encode("warm")
    began = time.perf_counter()
    tokens = sum(len(longer.encode(text, add_special_tokens=False).ids) for text in texts)
    return {"seconds": time.perf_counter() - began, "tokens": tokens}


def by_the_book(texts: list[str], n_tokens: int) -> dict[str, float]:
    llama, naive = _extension(texts, n_tokens)
    parts = TokenizerSpec.from_tokenizer(th.extend(llama, naive, how="regenerate"))
    words = th.count_pretokens(texts, llama)
    some = words.words[:: len(words) // WORDS][:WORDS]
    pairs = parts.pairs()
    began = time.perf_counter()
    textbook.tokenize_adapt_bpe(some, parts.vocab, pairs, naive.tokens)
    seconds = time.perf_counter() - began
    return {"seconds": seconds * len(words) / len(some), "unique pre-tokens": len(words)}


def main() -> None:
    options = asked(__doc__, runs=3, tokens=2_000)
    contenders = {"ours": ours, "library, plain BPE": library, "textbook": by_the_book}
    with stored(text.replace("\r", " ") for text in th.load_corpus("hpo")) as path:
        result = compare(contenders, path, options.tokens, runs=options.runs)
    print_ratio(result, "ours", "library, plain BPE")
    print_ratio(result, "textbook", "ours")


if __name__ == "__main__":
    main()
