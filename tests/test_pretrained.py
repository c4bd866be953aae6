"""Real tokenizers: the vendors' own ids on real and odd text; the cache; paths; the hub."""

import base64
import functools
import io
import json
import logging
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizers import Tokenizer

import tokhelpers as th
from tokhelpers import pretrained
from tokhelpers.pretokens import byte_alphabet
from tokhelpers.pretrained import NAMES, from_spm, load_tokenizer, source_file

every_name = pytest.mark.parametrize("name", NAMES)


# --- the vendors' own encoders -------------------------------------------------------------------
@functools.cache
def vendor(name):
    if name == "llama-3":
        from llama_models.llama3.tokenizer import Tokenizer as LlamaTokenizer

        return LlamaTokenizer(source_file(name))
    if name == "qwen":
        from dashscope.tokenizers.qwen_tokenizer import QwenTokenizer

        return QwenTokenizer(str(source_file(name)))
    if name == "mistral-nemo":
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        logging.getLogger("mistral_common").setLevel(logging.WARNING)
        return Tekkenizer.from_file(source_file(name))
    return sentencepiece.SentencePieceProcessor(model_file=str(source_file(name)))


def vendor_ids(name, text, special=False):
    """The vendor's ids; Mistral's two encoders have no way to look for special tokens in text."""
    encoder = vendor(name)
    if name == "llama-3":
        return encoder.encode(
            text, bos=False, eos=False, allowed_special="all" if special else None
        )
    if name == "qwen":
        return encoder.encode(text, allowed_special="all" if special else set())
    assert not special
    if name == "mistral-nemo":
        return encoder.encode(text, bos=False, eos=False)
    return encoder.encode(text)


def vendor_specials(name):
    """Special tokens and their ids."""
    encoder = vendor(name)
    if name == "llama-3":
        return encoder.special_tokens
    if name == "qwen":
        return encoder._special_tokens
    if name == "mistral-nemo":
        return encoder._special_tokens_reverse_vocab
    ids = range(encoder.get_piece_size())
    return {encoder.id_to_piece(i): i for i in ids if encoder.is_control(i) or encoder.is_unknown(i)}


def vendor_bytes(name, i):
    """The bytes behind an ordinary id."""
    encoder = vendor(name)
    if name == "llama-3":
        return encoder.model.decode_single_token_bytes(i)
    if name == "qwen":
        return encoder._tokenizer.decode_single_token_bytes(i)
    return encoder.id_to_byte_piece(i)


@functools.cache
def loaded(name):
    return load_tokenizer(name)


@functools.cache
def plain(name):
    """One that takes special tokens in text for plain text, as the vendors do unless asked."""
    tokenizer = load_tokenizer(name)
    tokenizer.encode_special_tokens = True
    return tokenizer


def assert_vendors_ids(name, texts, special=False):
    tokenizer = loaded(name) if special else plain(name)
    found = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    wrong = [
        (text[:100], ids[:30], expected[:30])
        for text, ids in zip(texts, found, strict=True)
        if ids != (expected := vendor_ids(name, text, special))
    ]
    assert not wrong, f"{len(wrong)} of {len(texts)}: (text, ids, vendor's ids) {wrong[:3]}"


# --- text ----------------------------------------------------------------------------------------
LANGUAGES = {
    "Latin": "fi", "Vietnamese Latin": "vi", "Cyrillic": "ru", "Greek": "el", "Arabic": "ar",
    "Hebrew": "he", "Devanagari": "hi", "Bengali": "bn", "Tamil": "ta", "Hangul": "ko",
    "kana": "ja", "Han": "zh",
}  # fmt: skip
EMOJI = ["👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🧑🏽‍🚀", "👍🏿", "🇫🇮", "🇺🇳", "1️⃣", "❤️", "☺︎", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🫠"]
REPEATED = ["a", " ", "\n", "\t", "0", "'", "=", "é", "日", "👍", "\u0301", "\u200d", "\xa0", "/"]
# assigned since Unicode 9: the library's NFC, unlike Python's, takes these marks for letters
LATER_MARKS = r"[\p{M}--[\p{age=9.0}]]"


def pieces(text, length):
    return [text[i : i + length] for i in range(0, len(text), length)]


@functools.cache
def real_text():
    """About 9,500 strings: words in twelve scripts, running English, Python."""
    texts = []
    for language in LANGUAGES.values():
        (text,) = [" ".join(th.load_corpus(f"wordfreq:{language}", chars=20_000))]
        texts += pieces(text, 40)
    texts += [line for doc in th.load_corpus("hpo", chars=60_000) for line in pieces(doc, 90)]
    code = "\n".join(th.load_corpus("python-source", chars=120_000))
    return texts + pieces(code, 60)


@functools.cache
def odd_text():
    """About 4,500 strings: spaces, digits, marks, emoji, code points by lot; one seed."""
    draw = random.Random(1)
    assigned = [c for c in map(chr, range(0x110000)) if is_plain(c)]
    marks = [c for c in assigned if unicodedata.combining(c)]
    kinds = [" ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "a", "Word", "don't", "1", "234", ".", "é"]
    texts = ["", *product_of(kinds, 2)]
    texts += [" " * n + tail for n in range(1, 130) for tail in ("", "x", "\n", "\n  x")]
    texts += [str(draw.getrandbits(draw.randrange(1, 80))) for _ in range(300)]
    texts += ["".join(draw.choices("0123456789,.-+ eE%", k=12)) for _ in range(300)]
    texts += ["".join(draw.choices(EMOJI + [" ", "a", "\u200d", "\ufe0f"], k=6)) for _ in range(500)]
    texts += ["".join(draw.choices("aeouAEn\u0915\u05d0\u0627" + "".join(marks), k=8)) for _ in range(500)]
    texts += ["".join(draw.choices(assigned, k=10)) for _ in range(1500)]
    texts += ["".join(chr(draw.randrange(0x250)) for _ in range(20)) for _ in range(500)]
    return texts


def is_plain(c):
    return unicodedata.category(c) not in ("Cn", "Cs", "Co")


def product_of(kinds, n):
    return ["".join(some) for some in product(kinds, repeat=n)]
