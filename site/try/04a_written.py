# How bytes are written
# Each byte is written as one visible character. How is a line break written, and how many
# characters does `한` need? Add both to the list. And which text is written as `cafÃ©`?

from textbook import BYTE_CHARS

for text in [" the", "né", "кот", "🙂"]:
    written = "".join(BYTE_CHARS[byte] for byte in text.encode())
    print(repr(text), "->", written, "|", *text.encode())

written = "cafÃ©"
data = bytes(BYTE_CHARS.index(char) for char in written)
print(written, "->", repr(data.decode(errors="replace")))
