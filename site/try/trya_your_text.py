# Cut your own text
# Write your text between the quotes. Which word stays whole, and which falls apart to single bytes?
# Try medical English, another language, a number, an emoji.

import re
from pathlib import Path

from textbook import BYTE_CHARS, tokenize_byte_level_bpe

text = "Abnormal heart rhythm, kyllästyä 12345 🙂"

lines = Path("learned.txt").read_text("utf-8").splitlines()
merges = [tuple(line.split()) for line in lines]
tokens = [*BYTE_CHARS, *dict.fromkeys(a + b for a, b in merges)]
vocab = {token: i for i, token in enumerate(tokens)}

total = 0
for word in re.findall(r" ?\w+| ?[^\w\s]+|\s+", text):
    ids = tokenize_byte_level_bpe(word, vocab, merges)
    total += len(ids)
    print(*[f"{tokens[i]}({i})" for i in ids])

print(f"{total} tokens, {len(text.encode()) / total:.2f} bytes each")
