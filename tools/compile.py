"""Compile what numba compiles, once, so that nobody waits for it in a lesson: make setup does it.

What was compiled is kept beside the modules, until one of them changes.

    python tools/compile.py
"""

import warnings

import tokhelpers as th

TEXT = ["a bat and a cat, the bat sat"] * 5


def main() -> None:
    warnings.simplefilter("ignore")  # so short a text yields fewer tokens
    base = th.train_byte_level_bpe(TEXT, vocab_size=259)
    th.extend(base, th.continue_bpe(base, TEXT, 2))
    th.train_sentencepiece_bpe(TEXT, vocab_size=275)
    th.train_wordpiece(TEXT, vocab_size=25)
    th.train_unigram(TEXT, vocab_size=270)  # fewer than it begins with: some are pruned
    th.reachability(base)
    th.AdaptBPE(base, ["bat"]).ids("a bat")


if __name__ == "__main__":
    main()
