# Half a letter
# The first token joins the end of one letter with the beginning of the next, which is the same in
# `о` and `и`. Is it still so when `" кит"` becomes `" кат"`? And when it becomes `" кшт"`?

from textbook import (
    BYTE_CHARS,
    tokenize_byte_level_bpe,
    train_byte_level_bpe,
)

corpus = {" кот": 5, " кит": 3}

trace = []
V, M = train_byte_level_bpe(corpus, 256 + 8, trace=trace)
for step in trace:
    data = bytes(BYTE_CHARS.index(char) for char in step["token"])
    text = data.decode(errors="replace")
    count = step["counts"][step["merge"]]
    print(step["token"], "|", text, "|", count, "times")

tokens = list(V)
for word in [" кот", " ток", " кош"]:
    ids = tokenize_byte_level_bpe(word, V, M)
    print(word, "->", *[tokens[i] for i in ids])
