# What the score prefers
# Set `minimum` to 3, so that rarer pairs are not merged. Which token is learned first then? And with
# a minimum of 9?

from textbook import train_wordpiece

word_counts = {"sunflower": 1, "sun": 2, "flower": 1, "flow": 1}
word_counts |= {"flowers": 1, "flowing": 2, "flows": 2, "flowed": 1}
minimum = 0

trace = []
train_wordpiece(word_counts, 99, min_frequency=minimum, trace=trace)
for step in trace[:8]:
    pair = step["merge"]
    count, score = step["counts"][pair], float(step["scores"][pair])
    print(f"{step['token']:8} count {count}, score {score:.3f}")
