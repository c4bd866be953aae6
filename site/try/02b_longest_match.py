# Which words are unknown?
# Before you run the code, predict which of these words become `[UNK]`, and because of which letter.
# Then add `"owl": 1` to the training text and predict again.

from textbook import tokenize_wordpiece, train_wordpiece

word_counts = {"sunflower": 1, "sun": 2, "flower": 1, "flow": 1}
word_counts |= {"flowers": 1, "flowing": 2, "flows": 2, "flowed": 1}

vocabulary = train_wordpiece(word_counts, 40, special_tokens=["[UNK]"])
tokens = list(vocabulary)
for word in ["fused", "funny", "user", "owl", "flown", "wolf"]:
    token_ids = tokenize_wordpiece(word, vocabulary)
    print(word, "->", *[tokens[token_id] for token_id in token_ids])
