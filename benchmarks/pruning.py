"""Speed and memory of pruning orders on Llama-3, against the same orders by the library alone.

Both get the same text, half Finnish and half English. The peer encodes it with the library, merges
each token string in Python to see its last merge, and keeps the leaves in a Python heap.
Then ours alone: a curve of five orders and ten sizes, measured.

    python benchmarks/pruning.py [--runs 3] [--chars 10000000]
"""

import heapq
import time
from collections import Counter

import numpy as np
from measuring import alone, asked, compare, print_ratio, stored

import tokhelpers as th
from tokhelpers.adapt.pruning import ORDERS, prunable
from tokhelpers.tokenizer.spec import TokenizerSpec


def ours(texts: list[str], curve: bool = False) -> dict[str, float]:
    llama = th.load_tokenizer("llama-3")
    small = th.train_byte_level_bpe(["compile or load"], vocab_size=258)
    th.prune(small, th.pruning_order(small, ["load"], by="leaf-frequency"), 1)
    TokenizerSpec.from_tokenizer(llama)
    began = time.perf_counter()
    words = th.count_pretokens(texts, llama)
    order = th.pruning_order(llama, words, by="leaf-frequency")
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    th.pruning_order(llama, words, by="merges")
    found = {"seconds": seconds, "merges, counted": time.perf_counter() - began, "n": len(order)}
    if curve:
        began = time.perf_counter()
        for by in ORDERS:
            order = th.pruning_order(llama, words, by=by)
            for share in np.linspace(0, 0.9, 10):
                small = th.prune(
                    TokenizerSpec.from_tokenizer(llama), order, int(share * len(order))
                )
                th.evaluate(small, words), th.unreachable_tokens(small)
        found["curve"] = time.perf_counter() - began
    return found


def by_library(texts: list[str]) -> dict[str, float]:
    llama = th.with_merge_skipping(th.load_tokenizer("llama-3"), False)
    parts = TokenizerSpec.from_tokenizer(llama)
    began = time.perf_counter()
    counts = Counter()
    for start in range(0, len(texts), 1_000):
        for encoding in llama.encode_batch_fast(texts[start : start + 1_000]):
            counts.update(encoding.ids)
    ranks = {pair: rank for rank, pair in enumerate(parts.pairs())}
    splits = {token: _last_merge(token, ranks) for token in prunable(parts)}
    above = Counter(part for pair in splits.values() if pair for part in set(pair))
    heap = [(counts[parts.vocab[t]], -parts.vocab[t], t) for t in splits if not above[t]]
    heapq.heapify(heap)
    order = []
    while heap:
        count, _, token = heapq.heappop(heap)
        order.append(token)
        for part in splits[token] or ():
            counts[parts.vocab[part]] += count
        for part in set(splits[token] or ()):
            above[part] -= 1
            if not above[part] and part in splits:
                i = parts.vocab[part]
                heapq.heappush(heap, (counts[i], -i, part))
    return {"seconds": time.perf_counter() - began, "n": len(order)}


def _last_merge(token: str, ranks: dict) -> tuple[str, str] | None:
    """The last merge of an encoder on a token string; None if it does not become one token."""
    pieces = list(token)
    last = None
    while len(pieces) > 1:
        pairs = [
            (ranks.get(p, len(ranks)), i)
            for i, p in enumerate(zip(pieces, pieces[1:], strict=False))
        ]
        rank, i = min(pairs)
        if rank == len(ranks):
            return None
        last = (pieces[i], pieces[i + 1])
        pieces[i : i + 2] = ["".join(last)]
    return last


def main() -> None:
    options = asked(__doc__, runs=3, chars=10_000_000)
    halves = (th.load_corpus(f"wordfreq:{lang}", chars=options.chars // 2) for lang in ("fi", "en"))
    with stored(text for half in halves for text in half) as path:
        contenders = {"ours": ours, "library and Python": by_library}
        result = compare(contenders, path, runs=options.runs)
        curve = alone(ours, path, True)["curve"]
    print_ratio(result, "ours", "library and Python")
    print(f"a curve of {len(ORDERS)} orders and ten sizes, measured: {curve:.1f} s")


if __name__ == "__main__":
    main()
