# Your own text
# After how many merges is every word one token? Guess, then let `sizes` go on until it is so. Then
# put in a text of your own.

from collections import Counter

from textbook import tokenize_bpe, train_bpe

text = "how much wood would a woodchuck chuck if he could chuck wood"
sizes = [0, 1, 2, 4, 8, 16]

words = Counter(text.split())
V, M = train_bpe(words, vocab_size=1_000)
for k in sizes:
    cut = {word: tokenize_bpe(word, V, M[:k]) for word in words}
    tokens = sum(n * len(cut[word]) for word, n in words.items())
    per_word = tokens / words.total()
    print(f"{k:2} merges: {per_word:.2f} tokens per word")

print("merges in all:", len(M))
print("woodcut ->", *tokenize_bpe("woodcut", V, M))
