# Which words are unknown?
# Say it before you run it: which of these words are `[UNK]`, and for which letter? Then add
# `"owl": 1` to the corpus and say it again.

from textbook import tokenize_wordpiece, train_wordpiece

corpus = {"sunflower": 1, "sun": 2, "flower": 1, "flow": 1}
corpus |= {"flowers": 1, "flowing": 2, "flows": 2, "flowed": 1}

V = train_wordpiece(corpus, 40, special_tokens=["[UNK]"])
tokens = list(V)
for word in ["fused", "funny", "user", "owl", "flown", "wolf"]:
    ids = tokenize_wordpiece(word, V)
    print(word, "->", *[tokens[i] for i in ids])
