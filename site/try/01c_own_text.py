# Your own text
# After how many merges is every word a single token? Predict the number, then add larger sizes until
# it is so. Then try a text of your own.

from collections import Counter

from textbook import tokenize_bpe, train_bpe

text = "how much wood would a woodchuck chuck if he could chuck wood"
sizes = [0, 1, 2, 4, 8, 16]

word_counts = Counter(text.split())
vocabulary, merges = train_bpe(word_counts, vocab_size=1_000)
for size in sizes:
    tokens = 0
    for word, count in word_counts.items():
        tokens += count * len(tokenize_bpe(word, vocabulary, merges[:size]))
    print(f"{size:2} merges: {tokens / word_counts.total():.2f} tokens per word")

print("merges in all:", len(merges))
