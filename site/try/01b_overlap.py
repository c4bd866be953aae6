# Counted twice, merged once
# In `aaa` the pair `a a` is counted twice, but only one of the two can be merged. What is the
# smallest count of `ba` with which `b a` is merged first?

from textbook import tokenize_bpe, train_bpe

corpus = {"aaa": 5, "ba": 8}

trace = []
V, M = train_bpe(corpus, vocab_size=3, trace=trace)
for (a, b), count in trace[0]["counts"].items():
    print(a, b, "counted", count, "times")

print("merged:", *M[0])
for word, count in corpus.items():
    tokens = tokenize_bpe(word, V, M)
    saved = count * (len(word) - len(tokens))
    print(word, "->", *tokens, "| saved:", saved)
