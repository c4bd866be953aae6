# Change a count, and the merges change
# These are the lecture's five words. Which pair is merged first if `bag` has a count of 25? Predict
# it, change the number, and run the code.

from textbook import tokenize_bpe, train_bpe

word_counts = {"cat": 10, "bat": 5, "bag": 12, "tag": 4, "cats": 5}

trace = []
vocabulary, merges = train_bpe(word_counts, vocab_size=9, trace=trace)
for step in trace:
    first, second = step["merge"]
    print(f"{first} + {second}: count {step['counts'][first, second]}")

print("vocabulary:", *vocabulary)
print("bags ->", *tokenize_bpe("bags", vocabulary, merges))
