"""Seconds of what notebooks 21 and 22 do, on this machine.

    python benchmarks/exploring.py

Premium of 66 languages from counts under ten tokenizers; overlap of all pairs of
vocabularies. Loading the tokenizers is not in it.
"""

import time

import tokhelpers as th

NAMES = ["gpt-4", "gpt-4o", "llama-3", "llama-4", "qwen", "mistral-nemo", "mistral-v1"]
NAMES += ["mistral-v3", "pixtral", "mistral-v7"]


def premium(tokenizers) -> None:
    """Count the tokens of the same sentences in all languages, as notebook 22 does."""
    texts = th.text.stored_texts().name
    for name in texts[texts.str.startswith("flores:")]:
        for tokenizer in tokenizers.values():
            th.evaluate(tokenizer, th.load_corpus(name))


def seconds(function, *arguments) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


if __name__ == "__main__":
    tokenizers = {name: th.load_tokenizer(name) for name in NAMES}
    print(f"premium, {len(NAMES)} tokenizers: {seconds(premium, tokenizers):.1f} s")
    parts = {
        name: th.TokenizerSpec.from_tokenizer(tokenizer) for name, tokenizer in tokenizers.items()
    }
    print(f"overlap of all pairs: {seconds(th.measure.overlap, parts):.1f} s")
