# Merged tokens and ties
# At the third step three merged tokens occur four times each. The rule takes the shortest, and of
# equally short ones the first. Add one word to the text so that `▁se` is made third.

from collections import Counter

from textbook import train_sentencepiece_bpe

text = "she sells seashells by the sea shore she sells shells"

words = Counter("▁" + word for word in text.split(" "))
trace = []
train_sentencepiece_bpe(words, 19, byte_tokens=(), trace=trace)
for step in trace:
    best = step["counts"][step["token"]]
    level = [t for t, n in step["counts"].items() if n == best]
    print(f"{step['token']:7} {best} times, chosen from", *level)
