"""Pre-token counts: on every code path exactly those of the tokenizer's own rules."""

import random
import re
import unicodedata
from collections import Counter
from functools import cache
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import regex
from hypothesis import example, given, strategies as st
from strategies import examples, loaded, one_fast
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import chunks, pretokens
from tokhelpers.text.chunks import batch_of_lines, count_chunks
from tokhelpers.text.counting import count_pretokens
from tokhelpers.text.documents import ChunkCounts
from tokhelpers.tokenizer import patterns as known
from tokhelpers.tokenizer.library_encoder import pretokenizer_config_of
from tokhelpers.tokenizer.pretokenization import (
    BEFORE_META,
    is_doubtful,
    pretokenizer,
    proven_pattern,
)
from tokhelpers.tokenizer.segmentation import initial_ids, segment
from tokhelpers.tokenizer.spec import TokenizerSpec

PATTERNS = {n: p for n, p in vars(known).items() if isinstance(p, str) and p in known.PATTERNS}
every_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)

# the planes in use: nothing is assigned from 40000 to DFFFF, and from F0000 on is private use
PLANES = [*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xF0000), 0xF0000, 0x10FFFF]
EVERY = [chr(c) for c in PLANES]
ASSIGNED = [c for c in EVERY if unicodedata.category(c) not in ("Cn", "Co")]


def with_rules(pre_tokenizer, normalizer=None):
    """A tokenizer without vocabulary that has these rules."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return tokenizer


IN_BYTES = pre.ByteLevel(add_prefix_space=False, use_regex=False)
GPT_2_CUT = pre.ByteLevel(add_prefix_space=False)
SMOLLM2_CUT = pre.Sequence([pre.Digits(True), GPT_2_CUT])


def cut_by(pattern, behavior="isolated", **options):
    return pre.Sequence([pre.Split(Regex(pattern), behavior, **options), IN_BYTES])


def with_pattern(pattern, composed=False):
    steps = {known.GPT_2: GPT_2_CUT, known.SMOLLM2: SMOLLM2_CUT}
    cut = steps.get(pattern) or cut_by(pattern)
    return with_rules(cut, normalizers.NFC() if composed else None)


def by_the_library(documents, tokenizer):
    """Counts by the tokenizer's own normalizer and pre-tokenizer, text by text."""
    counts = Counter()
    for text in documents:
        n = documents[text] if isinstance(documents, dict) else 1
        if tokenizer.normalizer is not None:
            text = tokenizer.normalizer.normalize_str(text)
        for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text):
            counts[piece] += n
    return counts


def totals(counted):
    return counted.chars, counted.bytes, counted.spaced_words, counted.documents


def totals_of(texts):
    """Characters, bytes, words between spaces, documents."""
    sizes = [(len(text), len(text.encode()), len(text.split()), 1) for text in texts]
    return tuple(map(sum, zip(*sizes, strict=True)))


def assert_same(documents, tokenizer):
    """Pre-tokens with their counts are the library's, sizes those of the text."""
    expected = dict(by_the_library(documents, tokenizer))
    if not expected:
        with pytest.raises(ValueError, match="nothing to count"):
            count_pretokens(documents, tokenizer)
        return
    counted = count_pretokens(documents, tokenizer)
    # pytest's own comparison of large mappings takes minutes
    wrong = sorted(dict(counted).items() ^ expected.items())
    assert not wrong, f"counted or by the library, not both: {wrong[:10]}"
    assert totals(counted) == totals_of(documents)
    assert len(counted.words) == len(counted.counts) == len(expected)
    assert counted.counts.dtype == np.int64


# Text that tries the rules: what separates words, what joins to letters, what only some know
PIECES = [
    " ", "  ", "   ", "\n", "\r\n", "\t", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\x85",
    "\xa0", "\u1680", "\u180e", "\u2009", "\u2028", "\u2029", "\u202f", "\u3000",
    "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\xad", "\x00",  # invisible
    "'s", "'S", "'ſ", "'t", "'re", "'RE", "'vE", "'m", "'ll", "'lL", "'d", "'", "’s", "'x",
    "a", "Word", "camelCase", "ß", "İ", "Ǆ", "ǅ", "ſ", "ʕ", "ª", "я", "日本", "한", "ก", "ا",
    "0", "12", "345", "6789", "٣", "²", "½", "Ⅷ", "〇", "৪",
    "\u0301", "\u0323", "\u0308\u0301", "\u0345", "\u093f", "\u0bbe", "\u1161", "\u11a8",
    "\u07fd", "\u0898", "\U00011935\U00011930", "\u1100\u1161",  # the first three: since 2018
    "!", "/", "//", "...", "€", "_", "-", "{}", "▁", "Ġ",
    "👩\u200d💻", "🏳️\u200d🌈", "👍🏽", "1️⃣", "🇫🇮", "❤️",
    "\u0378", "\u1c89", "\u0c5c", "\U000105c9", "\U00011f04", "\U0002ebf0", "\U000e0080",  # new
    "\ue000", "\uffff", "\U0010ffff",
]  # fmt: skip
made_text = st.lists(st.sampled_from(PIECES)).map("".join)
documents = st.lists(
    made_text | st.text() | st.text("ab 'sS1\n\t\u0301\x85\u1c89", max_size=30), min_size=1
).filter(any)


# --- rules ----------------------------------------------------------------------------------------
META = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
AT_META = pre.Split("▁", "merged_with_next")
# Rules by which words are cut alone as they are in text, and all that are proven
PROVEN = {
    **{
        name + ", composed" * composed: with_pattern(pattern, composed)
        for name, pattern in PATTERNS.items()
        for composed in (False, True)
    },
    "bert": with_rules(pre.BertPreTokenizer(), normalizers.BertNormalizer()),
    "cased bert": with_rules(
        pre.Sequence([pre.BertPreTokenizer(), pre.Digits(True)]),
        normalizers.BertNormalizer(strip_accents=False, lowercase=False),
    ),
    "runs": with_rules(
        pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation("contiguous"), pre.Digits()]),
        normalizers.Lowercase(),
    ),
    "removed": with_rules(pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation("removed")])),
    "whitespace": with_rules(pre.Whitespace()),
    "whitespace split": with_rules(pre.WhitespaceSplit(), normalizers.NFKD()),
    "spaces": with_rules(AT_META, normalizers.Sequence(META)),
    "spaces, digits, punctuation": with_rules(
        pre.Sequence([AT_META, pre.Punctuation("isolated"), pre.Digits(True)]),
        normalizers.Sequence(META),
    ),
    "composed spaces": with_rules(
        pre.Sequence([AT_META, pre.Digits(True)]),
        normalizers.Sequence([normalizers.Sequence([normalizers.NFKC()]), *META]),
    ),
}
each_proven = pytest.mark.parametrize("kind", PROVEN)
# These are left to the library
UNPROVEN = {
    "metaspace": with_rules(pre.Metaspace()),
    "spaces, stripped": with_rules(AT_META, normalizers.Sequence([normalizers.Strip(), *META])),
    "spaces elsewhere": with_rules(pre.BertPreTokenizer(), normalizers.Sequence(META)),
    "digits first": with_rules(pre.Sequence([pre.Digits(True), pre.WhitespaceSplit()])),
    "prefix space": with_rules(pre.ByteLevel(add_prefix_space=True)),
    "no regex": with_rules(IN_BYTES),
    "not in bytes": with_rules(pre.Split(Regex(known.LLAMA_3), "isolated")),
    "another pattern": with_rules(cut_by(r"\w+|\s")),
    "a proven pattern that merges": with_rules(cut_by(known.LLAMA_3, "merged_with_next")),
    "a proven pattern inverted": with_rules(cut_by(known.GPT_2, invert=True)),
    "numbers": with_rules(pre.Sequence([pre.Digits(), GPT_2_CUT])),
    "lower case": with_rules(GPT_2_CUT, normalizers.Lowercase()),
    "NFKC": with_rules(GPT_2_CUT, normalizers.NFKC()),
    "two normalizers": with_rules(
        GPT_2_CUT, normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", "")])
    ),
}


# --- the fast code path equals the library -------------------------------------------------------
@pytest.mark.parametrize("kind", PROVEN | UNPROVEN)
@examples(60)
@given(documents)
@example(["The 2 Cats' Überfälle, e\u0301tude!  It's  ", " a b", "THE cats"])
@example(["x \U000105d2\u0307 y"])  # composed since Unicode 16
def test_counts_equal_the_librarys(kind, texts):
    tokenizer = (PROVEN | UNPROVEN)[kind]
    config = pretokenizer_config_of(tokenizer)
    assert pretokenizer(config).at_spaces == (kind in PROVEN)
    assert_same(texts, tokenizer)


@each_proven
def test_every_pair_of_ascii_characters(kind):
    chars = [chr(code) for code in range(128)]
    assert_same([" ".join(f"a{c}{d}a {c}{d}" for d in chars) for c in chars], PROVEN[kind])


@each_proven
def test_counts_equal_the_librarys_on_random_mixtures(kind):
    draw, pieces = random.Random(20), PIECES + [" ", "a", "A", "1"] * 20
    texts = ["".join(draw.choices(pieces, k=draw.randrange(1, 30))) for _ in range(3000)]
    assert_same(texts, PROVEN[kind])


def is_alike(c):
    """An ideograph or a Hangul syllable: 104,000, of which `regex` and the library think the same.

    Not those for compatibility, which Unicode's forms write as others, each as its own.
    """
    alike = (0x3400, 0xA000), (0xAC00, 0xD7A4), (0x20000, 0x2F800), (0x30000, 0x32000)
    return any(begin <= ord(c) < end for begin, end in alike)


def around(c):
    """A character behind and before a letter, digit, space and newline, doubled, in a clitic."""
    return f"a{c}1{c} {c}{c}\n{c}'{c} B{c}b {c}Ab\r"


# NFC is asked of a chunk in the same way whatever the pattern: here with that of Qwen, which has it
EACH_ITSELF = [kind for kind in PROVEN if ", composed" not in kind or kind.startswith("QWEN")]


@pytest.mark.long
@pytest.mark.parametrize("kind", EACH_ITSELF)
def test_every_assigned_character_in_every_context(kind):
    """Of those that are alike, one in 16."""
    tried = [c for c in ASSIGNED if not is_alike(c) or ord(c) % 16 == 0]
    for i in range(0, len(tried), 1000):
        some = list(map(around, tried[i : i + 1000]))
        assert_same(["".join(some), " ".join(some)], PROVEN[kind])


@cache
def without_a_place():
    """Characters unassigned to Python, which may be older than the library, and for private use."""
    others = [c for c in EVERY if unicodedata.category(c) in ("Cn", "Co")]
    newer = regex.findall(r"(?!\p{Ideographic})[\w\p{M}]", "".join(others))
    return [around(c) for c in others if ord(c) % 300 == 0] + [around(c) for c in newer]


@every_pattern
def test_characters_without_a_place_in_unicode(pattern):
    assert_same(without_a_place(), with_pattern(pattern))


@every_pattern
def test_every_cased_character_in_a_clitic(pattern):
    """Case folding without regard to ASCII: in some patterns, 'ſ is 's."""
    cased = [c for c in ASSIGNED if c.lower() != c.upper()]
    clitics = "".join(f"'{c} '{c}e '{c}l 'r{c} 'v{c} 'l{c} x'{c}y\n" for c in cased)
    assert_same([clitics], with_pattern(pattern))
    [_, *cut] = count_pretokens(["x'ſy"], with_pattern(pattern))
    assert ("'Å¿" in cut) == (pattern in (known.LLAMA_3, known.QWEN, known.GPT_4))


KINDS = [r"\s", *(rf"\p{{{kind}}}" for kind in ("L", "N", "M", "Lu", "Lt", "Lm", "Lo", "Ll"))]


@pytest.mark.parametrize("kind", KINDS)
def test_regex_and_the_library_differ_on_doubtful_characters_only(kind):
    text = "".join(EVERY)
    kept = pre.Split(Regex(f"{kind}+"), "removed").pre_tokenize_str(text)
    by_library = set(EVERY) - set("".join(piece for piece, _ in kept))
    differ = by_library ^ set(regex.findall(kind, text))
    assert [c for c in differ if not is_doubtful(c)] == []
    # text is cut where Python sees no white space beside a space: none is overlooked
    assert kind != r"\s" or (not differ and all(c.isspace() for c in by_library))


def test_what_is_composed_to_python_the_library_leaves_alone():
    """So the library is asked about other words only: it knows marks up to Unicode 9 or so."""
    compose = normalizers.NFC().normalize_str
    marks = [c for c in ASSIGNED if unicodedata.combining(c)]
    decomposing = [c for c in ASSIGNED if unicodedata.decomposition(c)]
    bases = sorted({unicodedata.normalize("NFD", c)[0] for c in decomposing})
    draw = random.Random(5)
    texts = [f"{c}\u0323\u0301a{c}\u0327\u0308e{c}{c} {c}" for c in ASSIGNED]
    texts += [f"{base}{c}{draw.choice(marks)}" for c in marks for base in draw.choices(bases, k=20)]
    texts += ["".join(draw.choices(marks, k=6)) for _ in range(5000)]
    texts += [f"\u1100{c}\u11a8\u1112{c}" for c in decomposing]
    texts += [unicodedata.normalize("NFD", c) + mark for c in decomposing for mark in marks[::50]]
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    assert [text for text in composed if compose(text) != text] == []


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_letters_in_a_form_to_python_are_in_it_to_the_library(form):
    normalize, draw = getattr(normalizers, form)().normalize_str, random.Random(6)
    letters = [c for c in ASSIGNED if c.isalpha()]
    texts = [c + "".join(draw.choices(letters, k=2)) + c for c in letters]
    texts = [unicodedata.normalize(form, text) for text in texts]
    assert [t for t in texts if t.isalpha() and normalize(t) != t] == []


# --- real tokenizers -----------------------------------------------------------------------------
def test_real_tokenizers_have_the_proven_rules():
    names = {"llama-3": known.LLAMA_3, "qwen": known.QWEN, "mistral-nemo": known.TEKKEN}
    names |= {"gpt-4": known.GPT_4, "gpt-4o": known.GPT_4O, "smollm2-135m": known.SMOLLM2}
    found = {name: proven_pattern(pretokenizer_config_of(loaded(name))) for name in names}
    assert found == names


@example("".join("a" + " " * n + "b" for n in range(1, 40)))
@example("▁" * 9 + "a▁▁b\n \n  \n")
@given(text=(made_text | st.text()).filter(bool))
def test_pieces_without_a_pre_tokenizer_make_the_tokens(mistral, text):
    """They join to the normalised text, and their tokens are the text's."""
    spec, whole = TokenizerSpec.from_tokenizer(mistral), mistral.normalizer.normalize_str(text)
    pieces = BEFORE_META.split(whole)
    assert "".join(pieces) == whole
    ids, _ = segment(*initial_ids(pieces, spec), spec.merges)
    assert ids.tolist() == mistral.encode(text, add_special_tokens=False).ids
    counted = count_pretokens([text], spec)
    assert dict(counted) == Counter(pieces) and totals(counted) == totals_of([text])


# --- chunks of a text -----------------------------------------------------------------------------
@pytest.mark.parametrize("spaces", one_fast(False, True))
def test_chunks_end_at_single_spaces_between_words(spaces):
    """For every character, beside a space on the left and on the right."""
    texts = [f"a{c} {c}b" for c in EVERY if not 0xAC00 <= ord(c) < 0xD7A4]
    between = re.compile(r"(?<=[^\s▁])(?= [^\s▁])" if spaces else r"(?<=[^\s▁]) (?=[^\s▁])")
    expected = Counter(chain.from_iterable(map(between.split, texts)))
    batches = [
        batch for i in range(9) for batch in pretokens.batches_of((t, 1) for t in texts[i::9])
    ]
    strings, counts, sizes = count_chunks(batches, spaces=spaces)
    assert dict(zip(strings.to_pylist(), counts.tolist(), strict=True)) == expected
    assert tuple(sizes) == totals_of(texts) and len(batches) > 8


@pytest.mark.parametrize("tokenizer", [PROVEN["LLAMA_3"], PROVEN["spaces"], UNPROVEN["metaspace"]])
@given(texts=st.lists(made_text | st.text()), size=st.integers(1, 200), threads=st.integers(1, 4))
@examples(40)
def test_counts_do_not_depend_on_batches_and_threads(tokenizer, texts, size, threads):
    """Nor does their order."""
    config, weighted = pretokenizer_config_of(tokenizer), [(t, i) for i, t in enumerate(texts)]
    with pytest.MonkeyPatch.context() as patch:
        expected = pretokens.count_units(pretokens.batches_of(weighted), config)
        patch.setattr(pretokens, "BATCH_BYTES", size)
        patch.setattr(chunks, "THREADS", threads)
        counted = pretokens.count_units(pretokens.batches_of(weighted), config)
    for one, other in zip(counted, expected, strict=True):
        assert one.tolist() == other.tolist()


LINE = st.text(
    st.sampled_from("aé漢 \t\r\x1c\x85\u2003\u3000▁") | st.characters(exclude_categories=["Cs"])
)


@given(st.lists(LINE.map(lambda line: line.replace("\n", ""))), st.sampled_from(["\n", "\r\n"]))
def test_lines_of_a_block_are_its_documents(lines, end):
    """Without their ends and without blank lines, as Python sees them."""
    block = end.join(lines).encode()
    expected = [line.removesuffix("\r") for line in block.decode().split("\n")]
    if block:
        text, begins, ends, weights = batch_of_lines(block)
        documents = [bytes(text[b:e]).decode() for b, e in zip(begins, ends, strict=True)]
        assert documents == [line for line in expected if line and not line.isspace()]
        assert weights.tolist() == [1] * len(documents)


# --- documents -----------------------------------------------------------------------------------
NOTHING = r"no text in its \d documents: nothing to count"
GPT_2 = with_pattern(known.GPT_2)
UNCOUNTABLE = {
    "one string": ("a text", TypeError, r'single string: put it in a list, .*load_corpus\("text:'),
    "a table": (pd.DataFrame({"a": ["b"]}), TypeError, r"DataFrame with the columns \['a'\]: give one"),
    "no documents": ([], ValueError, NOTHING),
    "empty documents": (["", "", ""], ValueError, NOTHING),
    "counts of nothing": (SimpleNamespace(counts={"": 3}), ValueError, NOTHING),
    "a surrogate": (["not \ud800 fine"], ValueError, r"lone surrogate U\+D800; fix its decoding"),
    "bytes in a list": ([b"a"], TypeError, "the document at index 0 must be a string, not bytes"),
    "None, far in": (["a"] * 45_000 + [None], ValueError, "missing value at index 45000: leave it"),
    "NaN": (pd.Series(["a", float("nan")], dtype=object), ValueError, "missing value at index 1:"),
    "NaN of pandas": (pd.Series(["a", None, "b"]), ValueError, "missing value at index 1:"),
    "NA of pandas": (pd.Series(["a", pd.NA], dtype=object), ValueError, "missing value at index 1:"),
    "half a count": ({"bat": 1.5}, ValueError, "the count of 'bat' is 1.5: it must be a whole number"),
    "a number for a text": ({5: 1}, TypeError, "the document at index 0 must be a string, not int"),
    "counts": (count_pretokens(["a text"], with_rules(pre.WhitespaceSplit())), ValueError,
               "made with another normalizer or pre-tokenizer"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["fast", "slow", "folder"])
@pytest.mark.parametrize(("corpus", "error", "message"), UNCOUNTABLE.values(), ids=UNCOUNTABLE)
def test_what_cannot_be_counted(corpus, error, message, kind, tmp_path):
    tokenizer = UNPROVEN["metaspace"] if kind == "slow" else GPT_2
    with pytest.raises(error, match=message):
        count_pretokens(corpus, tokenizer, folder=tmp_path if kind == "folder" else None)


def test_a_tokenizer_that_would_make_a_word_of_every_document():
    tokenizer = Tokenizer(models.BPE({"a": 0, "▁": 1, "a▁": 2}, [("a", "▁")]))
    with pytest.raises(ValueError, match="no pre-tokenizer.*give it a pre-tokenizer"):
        count_pretokens(["a b"], tokenizer)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    with pytest.raises(ValueError, match="'a▁' cross spaces"):
        count_pretokens(["a b"], tokenizer)
    whole = with_rules(pre.Metaspace(split=False))  # is cut before runs of spaces
    assert dict(count_pretokens(["a  b a"], whole)) == {"▁a": 2, "▁▁b": 1}


def test_documents_mapped_to_counts():
    """As the lecture gives its corpus: each word with how often it occurs."""
    counted = count_pretokens({"cat": 10, "a cat": 2, "": 3, "never": 0}, GPT_2)
    assert dict(counted) == {"cat": 10, "a": 2, "Ġcat": 2}
    assert (counted.documents, counted.chars) == (15, 40)


@pytest.mark.parametrize("name", ["llama-3", "mistral-v1"])
def test_counts_are_exact_as_far_as_they_are_taken(name):
    """Beyond 2^52 characters, two counts may be one and the same 64-bit float; later, negative."""
    tokenizer = loaded(name)
    counted = count_pretokens({"abc": 2**50 - 1, "": 1, "de": 1}, tokenizer)
    assert 2**50 - 1 in counted.values() and counted.chars == 3 * (2**50 - 1) + 2
    refused = [{"abc": 2**50, "d": 1}, {"a": 2**52}, ChunkCounts({" a": 2**51})]
    for corpus in (*refused, {"a": 2**70}, {"a b": 2**62, "c": 2**62}):
        with pytest.raises(
            ValueError, match=r"more than 2\^52 characters, .*not exact: divide the"
        ):
            count_pretokens(corpus, tokenizer)


# --- chunks with the space before them ------------------------------------------------------------
PUTS_META_FIRST = [
    with_rules(AT_META, normalizers.Sequence(META)),  # as Mistral
    with_rules(pre.Metaspace()),
    with_rules(pre.Metaspace(prepend_scheme="first")),
]


@pytest.mark.parametrize("tokenizer", PUTS_META_FIRST)
def test_one_space_goes_before_a_tokenizer_that_puts_one_there(tokenizer):
    """Chunks have the pre-tokens that they have in running text; whole documents are as they are."""
    texts = {" ja": 5, "See": 2, " 2,5": 1, "  x": 1, ".": 3}
    whole = list(Counter(texts).elements())
    counted = count_pretokens(ChunkCounts(texts), tokenizer)
    expected = by_the_library([text.removeprefix(" ") for text in whole], tokenizer)
    assert dict(counted) == expected and counted["▁ja"] == 5 and "▁▁ja" not in counted
    assert totals(counted) == totals_of(whole)
    counted = count_pretokens(texts, tokenizer)
    assert dict(counted) == by_the_library(texts, tokenizer) and totals(counted) == totals_of(whole)


@pytest.mark.parametrize("added", [[], ["haugub"]])
def test_chunks_are_measured_as_the_running_text(mistral, added):
    """Also beside an added token, which is looked for in raw text."""
    line = "Koer haugub ja koer magab"
    first, *others = line.split(" ")
    chunks = ChunkCounts(Counter([first, *(f" {word}" for word in others)]))
    tokenizer = Tokenizer.from_str(mistral.to_str())
    tokenizer.add_tokens(added)
    measured, expected = (th.evaluate(tokenizer, text) for text in (chunks, [line]))
    same = ["tokens", "words", "chars", "bytes", "bytes_per_token", "tokens_per_word"]
    assert measured[same].tolist() == expected[same].tolist()
