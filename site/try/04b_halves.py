# Incomplete UTF-8 sequences
# The first merge joins the last byte of one letter with the first byte of the next, which `о` and `и`
# share. Is it still the first if `" кит"` becomes `" кат"`? And if it becomes `" кшт"`?

from textbook import (
    BYTE_CHARS,
    tokenize_byte_level_bpe,
    train_byte_level_bpe,
)

words = {" кот": 5, " кит": 3}

trace = []
vocabulary, merges = train_byte_level_bpe(words, 256 + 8, trace=trace)
for step in trace:
    data = bytes(BYTE_CHARS.index(char) for char in step["token"])
    text = data.decode(errors="replace")
    count = step["counts"][step["merge"]]
    print(step["token"], "|", text, "|", count, "times")

tokens = list(vocabulary)
for word in [" кот", " ток", " кош"]:
    ids = tokenize_byte_level_bpe(word, vocabulary, merges)
    print(word, "->", *[tokens[i] for i in ids])
