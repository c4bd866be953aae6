# The most probable segmentation
# `ru n` and `r un` are tied, and the longer first token wins. Change the last digit of one
# probability so that `r un` wins. Can a larger probability of `u` alone make `r u n` win?

from math import exp

from textbook import tokenize_unigram

p = {"r": 0.0194, "u": 0.2, "n": 0.1677, "ru": 0.0194, "un": 0.1677}

for word in ["run", "urn", "nun", "runrun"]:
    tokens, log_p = tokenize_unigram(word, p)
    print(word, "->", *tokens, f"| probability {exp(log_p):.3g}")
