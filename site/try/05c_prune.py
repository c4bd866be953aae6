# Which token is pruned?
# The lecture's pruning, without rounding. Where the loss without a token is no larger, other tokens
# take its place. Which one remains at the end, and why? Give `sun` a count of 20 and see which one
# remains then.

from math import log10

from textbook import train_unigram

words = {"run": 3, "bug": 5, "fun": 13, "sun": 10}

trace = []
as_taught = {"e_step": "substrings", "drop": 0, "log": log10}
p = train_unigram(words, 8, **as_taught, trace=trace)
for step in trace[:-1]:
    print(f"loss {step['loss']:.2f} | without", end="")
    for token, loss in step["losses"].items():
        print(f" {token} {loss:.2f}", end="")
    print()
    print("  pruned:", *step["removed"])

print("vocabulary:", *p)
