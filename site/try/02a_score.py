# What the score prefers
# Set `least` to 3: pairs that occur less often are no candidates any more. Which token is made
# first then? And with 9?

from textbook import train_wordpiece

corpus = {"sunflower": 1, "sun": 2, "flower": 1, "flow": 1}
corpus |= {"flowers": 1, "flowing": 2, "flows": 2, "flowed": 1}
least = 0

trace = []
train_wordpiece(corpus, 99, min_frequency=least, trace=trace)
for step in trace[:8]:
    pair = step["merge"]
    times, score = step["counts"][pair], float(step["scores"][pair])
    print(f"{step['token']:8} {times} times, score {score:.3f}")
