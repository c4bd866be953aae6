# Byte fallback
# How many tokens does `▁shells🐚` take, and how many `▁naïve`? Count before you run. Then try words
# of your own, in any script.

from textbook import (
    BYTE_TOKENS,
    tokenize_sentencepiece_bpe,
    train_sentencepiece_bpe,
)

words = {"▁she": 2, "▁sells": 2, "▁shells": 1, "▁seashells": 1}

vocabulary, merges = train_sentencepiece_bpe(words, 256 + 7 + 10)
tokens = list(vocabulary)
for word in ["▁shells", "▁shells🐚", "▁naïve", "▁ракушка"]:
    ids = tokenize_sentencepiece_bpe(word, vocabulary, merges)
    n_bytes = sum(tokens[i] in BYTE_TOKENS for i in ids)
    print(word, len(ids), "tokens,", n_bytes, "of them bytes")
    print("   ", *[tokens[i] for i in ids])
