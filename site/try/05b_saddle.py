# A push decides
# Fifteen rounds of EM leave `ru n` and `r un` at one half each. Set `push` to 1.01: which of them
# wins, and by which round? And with 0.99?

from textbook import unigram_expected_counts, unigram_seed

corpus = {"run": 3, "bug": 5, "fun": 13, "sun": 10}
push = 1.0

counts = unigram_seed(corpus)
p = {token: n / sum(counts.values()) for token, n in counts.items()}
p["n"] *= push
for k in range(16):
    ways = {"ru n": p["ru"] * p["n"], "r un": p["r"] * p["un"]}
    ways["r u n"] = p["r"] * p["u"] * p["n"]
    if k % 3 == 0:
        print(f"round {k:2}", end="")
        for way, probability in ways.items():
            share = 100 * probability / sum(ways.values())
            print(f" | {way} {share:5.1f} %", end="")
        print()
    c, _ = unigram_expected_counts(corpus, p)
    p = {token: n / sum(c.values()) for token, n in c.items()}
