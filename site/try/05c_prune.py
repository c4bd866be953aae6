# Which token may go?
# The lecture's pruning, with exact fractions. A loss that does not grow means that other tokens
# stand in. Which one stays to the end, and why that one? Give `sun` a count of 20 and say which
# one stays now.

from math import log10

from textbook import train_unigram

corpus = {"run": 3, "bug": 5, "fun": 13, "sun": 10}

trace = []
slides = {"e_step": "substrings", "drop": 0, "log": log10}
p = train_unigram(corpus, 8, **slides, trace=trace)
for step in trace[:-1]:
    print(f"loss {step['loss']:.2f} | without", end="")
    for token, loss in step["losses"].items():
        print(f" {token} {loss:.2f}", end="")
    print()
    print("  goes:", *step["removed"])

print("stay:", *p)
