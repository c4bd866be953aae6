# EM depends on its initialisation
# Fifteen rounds of EM leave `ru n` and `r un` tied at one half each. Set `factor` to 1.01, so that
# `n` begins with a probability 1 % higher: which of them wins, and by which round? And with 0.99?

from textbook import unigram_expected_counts, unigram_seed

words = {"run": 3, "bug": 5, "fun": 13, "sun": 10}
factor = 1.0

counts = unigram_seed(words)
p = {token: count / sum(counts.values()) for token, count in counts.items()}
p["n"] *= factor
for number in range(16):
    candidates = {"ru n": p["ru"] * p["n"], "r un": p["r"] * p["un"]}
    candidates["r u n"] = p["r"] * p["u"] * p["n"]
    if number % 3 == 0:
        print(f"round {number:2}", end="")
        for segmentation, probability in candidates.items():
            share = 100 * probability / sum(candidates.values())
            print(f" | {segmentation} {share:5.1f} %", end="")
        print()
    expected, _ = unigram_expected_counts(words, p)
    total = sum(expected.values())
    p = {token: count / total for token, count in expected.items()}
