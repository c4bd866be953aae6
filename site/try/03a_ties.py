# Merged tokens and ties
# In the third step three merged tokens are tied at four. `sentencepiece` takes the shortest, and of
# equally short ones the first by code point. Add one word to the text so that `▁se` comes third.

from collections import Counter

from textbook import train_sentencepiece_bpe

text = "she sells seashells by the sea shore she sells shells"

words = Counter("▁" + word for word in text.split(" "))
trace = []
train_sentencepiece_bpe(words, 19, byte_tokens=(), trace=trace)
for step in trace:
    best = step["counts"][step["token"]]
    tied = [token for token, count in step["counts"].items() if count == best]
    print(f"{step['token']:7} {best} times, chosen from", *tied)
