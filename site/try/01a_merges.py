# Change a count, and the merges change
# The lecture's five words. Give `bag` a count of 25: which pair is merged first then? Predict it,
# change the number, run.

from textbook import tokenize_bpe, train_bpe

corpus = {"cat": 10, "bat": 5, "bag": 12, "tag": 4, "cats": 5}

trace = []
V, M = train_bpe(corpus, vocab_size=9, trace=trace)
for step in trace:
    a, b = step["merge"]
    print(a, b, "counted", step["counts"][a, b], "times")

print("vocabulary:", *V)
print("bags ->", *tokenize_bpe("bags", V, M))
