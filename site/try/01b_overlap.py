# Counted twice, merged once
# In `aaa` the pair `a a` is counted twice, but only one of the two can be merged. What is the
# smallest count of `ba` for which `b a` is merged first?

from textbook import tokenize_bpe, train_bpe

word_counts = {"aaa": 5, "ba": 8}

trace = []
vocabulary, merges = train_bpe(word_counts, vocab_size=3, trace=trace)
for (first, second), count in trace[0]["counts"].items():
    print(f"{first} {second}: count {count}")

print("merge:", *merges[0])
for word, count in word_counts.items():
    tokens = tokenize_bpe(word, vocabulary, merges)
    saved = count * (len(word) - len(tokens))
    print(word, "->", *tokens, "| tokens saved:", saved)
