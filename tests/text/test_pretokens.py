"""Pre-token counts: on every code path exactly those of the tokenizer's own rules."""

import multiprocessing
import random
import re
import unicodedata
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import chain, repeat
from types import SimpleNamespace

import numpy as np
import pytest
import regex
from hypothesis import example, given, strategies as st
from strategies import examples, loaded, one_fast
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers as pre

import tokhelpers as th
from tokhelpers.text import counting, pretokens
from tokhelpers.text.chunks import count_chunks
from tokhelpers.text.counting import count_pretokens
from tokhelpers.tokenizer.parts import read_parts
from tokhelpers.tokenizer.pretokenization import (
    BEFORE_META,
    GPT_2,
    GPT_4,
    GPT_4O,
    LLAMA_3,
    PATTERNS,
    QWEN,
    TEKKEN,
    ChunkCounts,
    cutting_rules,
    is_doubtful,
    proven_pattern,
)
from tokhelpers.tokenizer.segmentation import merge_table, segment, symbols_of

NAMES = {LLAMA_3: "LLAMA_3", QWEN: "QWEN", GPT_2: "GPT_2", GPT_4: "GPT_4"}
NAMES |= {TEKKEN: "TEKKEN", GPT_4O: "GPT_4O"}
every_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=NAMES.get)
composed_or_not = pytest.mark.parametrize("composed", [False, True], ids=["as-is", "NFC"])

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


def with_pattern(pattern, composed=False):
    if pattern == GPT_2:
        cut = pre.ByteLevel(add_prefix_space=False)
    else:
        in_bytes = pre.ByteLevel(add_prefix_space=False, use_regex=False)
        cut = pre.Sequence([pre.Split(Regex(pattern), "isolated"), in_bytes])
    return with_rules(cut, normalizers.NFC() if composed else None)


def by_the_library(documents, tokenizer):
    """Counts by the tokenizer's own normalizer and pre-tokenizer, text by text."""
    counts = Counter()
    for text in documents:
        if tokenizer.normalizer is not None:
            text = tokenizer.normalizer.normalize_str(text)
        counts.update(piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    return counts


def assert_same(documents, tokenizer):
    expected = dict(by_the_library(documents, tokenizer))
    if not expected:
        with pytest.raises(ValueError, match="nothing to count"):
            count_pretokens(documents, tokenizer)
        return
    found = dict(count_pretokens(documents, tokenizer))
    if found != expected:  # pytest's own comparison of large mappings takes minutes
        words = sorted(found.keys() | expected.keys())
        wrong = [
            (w, found.get(w), expected.get(w)) for w in words if found.get(w) != expected.get(w)
        ]
        raise AssertionError(f"(pre-token, counted, by the library): {wrong[:10]}")


# Text that tries the rules: what separates words, what joins to letters, what only some know
SPACES = [" ", "  ", "   ", "\n", "\r\n", "\t", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f"]
SPACES += ["\x85", "\xa0", "\u1680", "\u180e", "\u2009", "\u2028", "\u2029", "\u202f", "\u3000"]
INVISIBLE = ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\xad", "\x00"]
CLITICS = ["'s", "'S", "'ſ", "'t", "'re", "'RE", "'vE", "'m", "'ll", "'lL", "'d", "'", "’s", "'x"]
LETTERS = ["a", "Word", "camelCase", "ß", "İ", "Ǆ", "ǅ", "ſ", "ʕ", "ª", "я", "日本", "한", "ก", "ا"]
DIGITS = ["0", "12", "345", "6789", "٣", "²", "½", "Ⅷ", "〇", "৪"]
MARKS = ["\u0301", "\u0323", "\u0308\u0301", "\u0345", "\u093f", "\u0bbe", "\u1161", "\u11a8"]
MARKS += ["\u07fd", "\u0898", "\U00011935\U00011930", "\u1100\u1161"]  # the first three: since 2018
SIGNS = ["!", "/", "//", "...", "€", "_", "-", "{}", "▁", "Ġ"]
EMOJI = ["👩\u200d💻", "🏳️\u200d🌈", "👍🏽", "1️⃣", "🇫🇮", "❤️"]
UNKNOWN = ["\u0378", "\u1c89", "\u0c5c", "\U000105c9", "\U00011f04", "\U0002ebf0", "\U000e0080"]
UNKNOWN += ["\ue000", "\uffff", "\U0010ffff"]
KINDS = (SPACES, INVISIBLE, CLITICS, LETTERS, DIGITS, MARKS, SIGNS, EMOJI, UNKNOWN)
made_text = st.lists(st.sampled_from([piece for kind in KINDS for piece in kind])).map("".join)
documents = st.lists(
    made_text | st.text() | st.text("ab 'sS1\n\t\u0301\x85\u1c89", max_size=30), min_size=1
).filter(any)


# --- the fast code path equals the library -------------------------------------------------------
@every_pattern
@composed_or_not
@given(texts=documents)
def test_counts_equal_the_librarys(pattern, composed, texts):
    assert_same(texts, with_pattern(pattern, composed))


@every_pattern
@composed_or_not
def test_counts_equal_the_librarys_on_random_mixtures(pattern, composed):
    draw = random.Random(20)
    pieces = [piece for kind in KINDS for piece in kind] + [" ", "a", "A", "1"] * 20
    texts = ["".join(draw.choices(pieces, k=draw.randrange(1, 30))) for _ in range(3000)]
    assert_same(texts, with_pattern(pattern, composed))


def around(c):
    """A character behind and before a letter, digit, space and newline, doubled, in a clitic."""
    if 0x3400 <= ord(c) < 0xA000 or 0xAC00 <= ord(c) < 0xD7A4 or 0x20000 <= ord(c) < 0x32000:
        return f"a{c}1 {c}\n"  # 104,000 ideographs and Hangul syllables, all alike
    return f"a{c}1{c} {c}{c}\n{c}'{c} B{c}b {c}Ab\r"


@pytest.mark.long
@every_pattern
def test_every_assigned_character_in_every_context(pattern):
    batches = (ASSIGNED[i : i + 1000] for i in range(0, len(ASSIGNED), 1000))
    assert_same(["".join(map(around, batch)) for batch in batches], with_pattern(pattern))


@every_pattern
def test_characters_without_a_place_in_unicode(pattern):
    """Unassigned to Python, which may be older than the library, and for private use."""
    others = [c for c in EVERY if unicodedata.category(c) in ("Cn", "Co")]
    some = [c for c in others if ord(c) % 300 == 0]
    newer = [c for c in others if regex.match(r"(?!\p{Ideographic})[\w\p{M}]", c)]
    assert_same([around(c) for c in some + newer], with_pattern(pattern))


@every_pattern
def test_every_cased_character_in_a_clitic(pattern):
    """Case folding without regard to ASCII: 'ſ is 's."""
    cased = [c for c in ASSIGNED if c.lower() != c.upper()]
    clitics = "".join(f"'{c} '{c}e '{c}l 'r{c} 'v{c} 'l{c} x'{c}y\n" for c in cased)
    tokenizer = with_pattern(pattern)
    assert_same([clitics], tokenizer)
    assert dict(count_pretokens(["x'ſy"], tokenizer)) == dict(
        {"x": 1, "'Å¿": 1, "y": 1}
        if pattern in (LLAMA_3, QWEN)
        else by_the_library(["x'ſy"], tokenizer)
    )


def test_regex_and_the_library_know_the_same_white_space():
    """Text is cut where Python sees no white space on either side of a space: none is overlooked."""
    text = "".join(EVERY)
    kept = pre.Split(Regex(r"\s"), "removed").pre_tokenize_str(text)
    spaces = set(EVERY) - set("".join(piece for piece, _ in kept))
    assert " " in spaces
    assert spaces == set(regex.findall(r"\s", text))
    assert all(c.isspace() for c in spaces)


@pytest.mark.parametrize("kind", ["L", "N", "M", "Lu", "Lt", "Lm", "Lo", "Ll"])
def test_regex_and_the_library_differ_on_doubtful_characters_only(kind):
    text = "".join(EVERY)
    kept = pre.Split(Regex(rf"\p{{{kind}}}+"), "removed").pre_tokenize_str(text)
    by_library = set(EVERY) - set("".join(piece for piece, _ in kept))
    differ = by_library ^ set(regex.findall(rf"\p{{{kind}}}", text))
    assert [c for c in differ if not is_doubtful(c)] == []


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


def test_nfc_joins_nothing_to_a_space():
    """So composing commutes with cutting before a space."""
    texts = [f"a {c}" for c in ASSIGNED if not c.isspace()]
    wrong = [t for t in texts if not unicodedata.normalize("NFC", t).startswith("a ")]
    assert wrong == []


def test_composition_newer_than_python_is_left_to_the_library():
    tokenizer = with_pattern(LLAMA_3, composed=True)
    text = "x \U000105d2\u0307 y"  # composes since Unicode 16
    assert_same([text], tokenizer)


# --- real tokenizers -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def real(llama, qwen):
    return {"llama-3": llama, "qwen": qwen, "mistral-nemo": loaded("mistral-nemo")}


@pytest.mark.parametrize(
    ("name", "pattern", "composed"),
    [("llama-3", LLAMA_3, False), ("qwen", QWEN, True), ("mistral-nemo", TEKKEN, False)],
)
def test_real_tokenizers_have_the_proven_rules(real, name, pattern, composed):
    rules = cutting_rules(real[name])
    assert proven_pattern(rules) == pattern
    twin = with_pattern(pattern, composed)
    texts = ["It's 12345 ①\u0301 e\u0301\n\n  x ſ"]
    assert by_the_library(texts, twin) == by_the_library(texts, real[name])


@pytest.mark.parametrize("name", one_fast("llama-3", "qwen", "mistral-nemo"))
def test_real_text(real, name):
    """Three scripts, source code, and special tokens, which count as plain text."""
    names = ["wordfreq:lt", "wordfreq:hi", "wordfreq:ko", "hpo", "python-source"]
    special = real[name].get_added_tokens_decoder().popitem()[1].content
    texts = [text for corpus in names for text in th.load_corpus(corpus, chars=60_000)]
    assert_same([*texts, f"a {special} b", special], real[name])


@pytest.fixture(scope="module")
def parts(mistral):
    return read_parts(mistral)


@pytest.fixture(scope="module")
def table(parts):
    return merge_table(parts.merges)


def assert_pieces_make_the_tokens(text, tokenizer, parts, table):
    """Without pre-tokenizer: pieces join to the normalised text, their tokens are the text's."""
    whole = tokenizer.normalizer.normalize_str(text)
    pieces = BEFORE_META.split(whole)
    assert "".join(pieces) == whole
    ids, _ = segment(*symbols_of(pieces, parts), table)
    assert ids.tolist() == tokenizer.encode(text, add_special_tokens=False).ids
    return pieces


@given(text=(made_text | st.text()).filter(bool))
def test_mistral_pieces_make_the_tokens(mistral, parts, table, text):
    pieces = assert_pieces_make_the_tokens(text, mistral, parts, table)
    assert dict(count_pretokens([text], parts)) == Counter(pieces)


@pytest.mark.long
def test_mistral_pieces_of_real_text(mistral, parts, table):
    texts = [*th.load_corpus("hpo", chars=20_000), *th.load_corpus("wordfreq:bg", chars=10_000)]
    texts += ["a" + " " * n + "b" for n in range(1, 40)] + ["▁" * 9 + "a▁▁b", "\n \n  \n"]
    pieces = [assert_pieces_make_the_tokens(text, mistral, parts, table) for text in texts]
    assert dict(count_pretokens(texts, mistral)) == Counter(chain.from_iterable(pieces))


# --- rules by which words are cut alone as they are in text -----------------------------------------
META = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
AT_META = pre.Split("▁", "merged_with_next")
BY_WORDS = {
    "bert": with_rules(pre.BertPreTokenizer(), normalizers.BertNormalizer()),
    "cased bert": with_rules(
        pre.Sequence([pre.BertPreTokenizer(), pre.Digits(True)]),
        normalizers.BertNormalizer(strip_accents=False, lowercase=False),
    ),
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
each_by_words = pytest.mark.parametrize("kind", BY_WORDS)


@each_by_words
@examples(60)
@given(texts=documents)
def test_words_cut_alone_equal_the_librarys(kind, texts):
    assert pretokens._cuts_at_spaces(cutting_rules(BY_WORDS[kind]))
    assert_same(texts, BY_WORDS[kind])


@pytest.mark.long
@each_by_words
def test_every_assigned_character_beside_a_space(kind):
    batches = (ASSIGNED[i : i + 1000] for i in range(0, len(ASSIGNED), 1000))
    assert_same([" ".join(map(around, batch)) for batch in batches], BY_WORDS[kind])


@pytest.mark.parametrize("spaces", one_fast(False, True))
def test_chunks_end_at_single_spaces_between_words(spaces):
    """For every character, beside a space on the left and on the right."""
    texts = [f"a{c} {c}b" for c in EVERY if not 0xAC00 <= ord(c) < 0xD7A4]
    between = re.compile(r"(?<=[^\s▁])(?= [^\s▁])" if spaces else r"(?<=[^\s▁]) (?=[^\s▁])")
    expected = Counter(chain.from_iterable(map(between.split, texts)))
    batch = ([t.encode() for t in texts], [1] * len(texts))
    [(chunks, counts, sizes)] = count_chunks([batch], spaces=spaces)
    assert dict(zip(chunks.to_pylist(), counts.tolist(), strict=True)) == expected
    lengths = [sum(map(len, texts)), sum(len(t.encode()) for t in texts)]
    assert sizes.tolist() == [*lengths, sum(len(t.split()) for t in texts), len(texts)]


@pytest.mark.parametrize("memory", [None, 1, 1_000_000])
def test_batches_of_chunks_add_up(memory):
    """In however many batches and portions they come."""
    texts = [f"{i} {i // 2} é{i % 7}\n" for i in range(5_000)]
    batches = [([t.encode() for t in texts[i::3]], [2] * len(texts[i::3])) for i in range(3)]
    found, total = Counter(), 0
    for chunks, counts, sizes in count_chunks(batches, memory=memory):
        found.update(dict(zip(chunks.to_pylist(), counts.tolist(), strict=True)))
        total = total + sizes
    expected = Counter(chain.from_iterable(t.split(" ") for t in texts))
    assert found == {chunk: 2 * n for chunk, n in expected.items()}
    lengths = [sum(map(len, texts)), sum(len(t.encode()) for t in texts)]
    assert total.tolist() == [2 * n for n in (*lengths, 3 * len(texts), len(texts))]


# --- rules that are not proven are left to the library -------------------------------------------
UNPROVEN = {
    "metaspace": with_rules(pre.Metaspace()),
    "spaces, stripped": with_rules(
        AT_META, normalizers.Sequence([normalizers.Strip(), *META])
    ),
    "spaces elsewhere": with_rules(pre.BertPreTokenizer(), normalizers.Sequence(META)),
    "digits first": with_rules(pre.Sequence([pre.Digits(True), pre.WhitespaceSplit()])),
    "prefix space": with_rules(pre.ByteLevel(add_prefix_space=True)),
    "no regex": with_rules(pre.ByteLevel(add_prefix_space=False, use_regex=False)),
    "another pattern": with_rules(pre.Split(Regex(r"\w+| "), "isolated")),
    "another pattern in bytes": with_rules(
        pre.Sequence([
            pre.Split(Regex(r"\w+|\s"), "isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
    ),
    "a proven pattern that merges": with_rules(
        pre.Sequence([
            pre.Split(Regex(LLAMA_3), "merged_with_next"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
    ),
    "a proven pattern inverted": with_rules(
        pre.Sequence([
            pre.Split(Regex(GPT_2), "isolated", invert=True),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
    ),
    "digits": with_rules(pre.Sequence([pre.Digits(True), pre.ByteLevel(add_prefix_space=False)])),
    "lower case": with_rules(pre.ByteLevel(add_prefix_space=False), normalizers.Lowercase()),
    "NFKC": with_rules(pre.ByteLevel(add_prefix_space=False), normalizers.NFKC()),
    "NFD": with_rules(pre.ByteLevel(add_prefix_space=False), normalizers.NFD()),
    "strip": with_rules(pre.ByteLevel(add_prefix_space=False), normalizers.Strip()),
    "two normalizers": with_rules(
        pre.ByteLevel(add_prefix_space=False),
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", "")]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNPROVEN)
@examples(40)
@given(texts=documents)
@example(["The 2 Cats' Überfälle, e\u0301tude!  It's  ", " a b", "THE cats"])
def test_unproven_rules_are_the_librarys(kind, texts):
    rules = cutting_rules(UNPROVEN[kind])
    assert proven_pattern(rules) is None and not pretokens._cuts_at_spaces(rules)
    assert_same(texts, UNPROVEN[kind])


# --- totals --------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["pattern", "composed", "no pre-tokenizer"])
@given(texts=documents)
def test_totals_are_those_of_the_text(mistral, kind, texts):
    fast = with_pattern(LLAMA_3, composed=kind == "composed")
    counted = count_pretokens(texts, mistral if kind == "no pre-tokenizer" else fast)
    assert counted.documents == len(texts)
    assert counted.chars == sum(map(len, texts))
    assert counted.bytes == sum(len(text.encode()) for text in texts)
    assert counted.spaced_words == sum(len(text.split()) for text in texts)
    assert counted.counts.dtype == np.int64
    assert (counted.counts > 0).all()
    assert len(counted.words) == len(set(counted.words)) == len(counted.counts)


# --- order, batches, executors -------------------------------------------------------------------
def everything(counted):
    totals = (counted.chars, counted.bytes, counted.spaced_words, counted.documents)
    return dict(counted), totals


def many_documents():
    """More than fit one batch; some empty, some odd."""
    draw = random.Random(8)
    kinds = ["It's", "a", "  b", "\n", "\u1c89 x", "e\u0301", "12 345", "", "ʕAb"]
    return [" ".join(draw.choices(kinds, k=draw.randrange(4))) for _ in range(50_000)]


@pytest.mark.long
def test_order_and_executor_do_not_matter():
    texts, tokenizer = many_documents(), with_pattern(QWEN, composed=True)
    expected = everything(count_pretokens(texts, tokenizer))
    assert everything(count_pretokens(texts[::-1], tokenizer)) == expected
    assert everything(count_pretokens(iter(texts), tokenizer)) == expected
    with ThreadPoolExecutor(2) as threads:
        assert everything(count_pretokens(iter(texts), tokenizer, executor=threads)) == expected
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as processes:
        assert everything(count_pretokens(texts, tokenizer, executor=processes)) == expected


class Procrastinator(Executor):
    """Does nothing until its result is asked for, and notes how much waited at once."""

    waiting = most = 0

    def submit(self, function, *arguments):
        def result():
            self.waiting -= 1
            return function(*arguments)

        self.waiting += 1
        if function is counting._count_shard:
            self.most = max(self.most, self.waiting)
        return SimpleNamespace(result=result)


def test_documents_stream_through_an_executor():
    """Some batches are held at once, not the corpus: there are 15 batches of 20,000 documents."""
    executor = Procrastinator()
    counted = count_pretokens(repeat("x", 300_000), with_pattern(GPT_2), executor=executor)
    assert dict(counted) == {"x": 300_000}
    assert 2 <= executor.most < 12


@pytest.mark.parametrize("workers", [None, 2])
def test_a_document_that_is_no_text_is_named(workers):
    texts = ["a"] * 45_000 + [None]
    executor = workers and ThreadPoolExecutor(workers)
    with pytest.raises(TypeError, match="^document 45001 is NoneType, not str$"):
        count_pretokens(texts, with_pattern(GPT_2), executor=executor)


# --- exact counts --------------------------------------------------------------------------------
def test_exact_counts_of_a_real_corpus(llama):
    corpus = th.load_corpus("wordfreq:is")
    counted = count_pretokens(corpus, llama)
    assert counted.documents == sum(corpus.counts.values())
    expected = Counter()
    for word, n in corpus.counts.items():
        for piece, _ in llama.pre_tokenizer.pre_tokenize_str(word):
            expected[piece] += n
    assert dict(counted) == expected


# --- input that cannot be counted ----------------------------------------------------------------
NOTHING = r"no text in its \d documents: nothing to count"
SURROGATE = r"lone surrogate \('\\ud800'\).*decode it properly"
UNCOUNTABLE = {
    "one string": ("a text", TypeError, "got one string: put it in a list"),
    "no documents": ([], ValueError, NOTHING),
    "an empty iterator": (iter(()), ValueError, NOTHING),
    "no counts": (SimpleNamespace(counts={}), ValueError, NOTHING),
    "empty documents": (["", "", ""], ValueError, NOTHING),
    "counts of nothing": (SimpleNamespace(counts={"": 3}), ValueError, NOTHING),
    "a surrogate": (["fine", "not \ud800 fine"], ValueError, SURROGATE),
    "bytes in a list": ([b"a"], TypeError, "document 1 is bytes, not str"),
    "bytes": (b"a", TypeError, "document 1 is int, not str"),
}


@pytest.mark.parametrize("kind", ["fast", "slow", "threads"])
@pytest.mark.parametrize(("corpus", "error", "message"), UNCOUNTABLE.values(), ids=UNCOUNTABLE)
def test_what_cannot_be_counted(corpus, error, message, kind):
    tokenizer = UNPROVEN["metaspace"] if kind == "slow" else with_pattern(GPT_2)
    executor = ThreadPoolExecutor(2) if kind == "threads" else None
    with pytest.raises(error, match=message):
        count_pretokens(corpus, tokenizer, executor=executor)


def test_counts_are_no_corpus():
    counted = count_pretokens(["a text"], with_pattern(GPT_2))
    with pytest.raises(TypeError, match="these are counts already, .*: use them as they are"):
        count_pretokens(counted, with_pattern(GPT_2))
    with pytest.raises(TypeError, match="a tokenizer is needed, got str: load one with load_tok"):
        count_pretokens(["a"], "llama-3")


def test_a_tokenizer_that_would_make_a_word_of_every_document():
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    with pytest.raises(ValueError, match="no pre-tokenizer.*give it a pre-tokenizer"):
        count_pretokens(["a b"], tokenizer)
    across = Tokenizer(models.BPE({"a": 0, "▁": 1, "a▁": 2}, [("a", "▁")]))
    across.normalizer = normalizers.Replace(" ", "▁")
    with pytest.raises(ValueError, match="'a▁' cross spaces"):
        count_pretokens(["a b"], across)
    across.normalizer, across.pre_tokenizer = None, pre.Metaspace(split=False)
    with pytest.raises(ValueError, match="'a▁' cross spaces"):
        count_pretokens(["a b"], across)


def test_metaspace_that_does_not_cut_is_cut_before_runs_of_spaces():
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "▁": 2}, []))
    tokenizer.pre_tokenizer = pre.Metaspace(split=False)
    assert dict(count_pretokens(["a  b a"], tokenizer)) == {"▁a": 2, "▁▁b": 1}


def test_parts_and_wrapped_tokenizers_count_alike():
    from transformers import PreTrainedTokenizerFast

    tokenizer = with_pattern(LLAMA_3, composed=True)
    texts = ["It's e\u0301  fine"]
    expected = everything(count_pretokens(texts, tokenizer))
    assert everything(count_pretokens(texts, read_parts(tokenizer))) == expected
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    assert everything(count_pretokens(texts, wrapped)) == expected


def test_documents_mapped_to_counts():
    """As the lecture gives its corpus: each word with how often it occurs."""
    tokenizer = with_pattern(GPT_2)
    corpus = {"cat": 10, "bat": 5, "a cat": 2, "": 3, "never": 0}
    counted = count_pretokens(corpus, tokenizer)
    assert dict(counted) == {"cat": 10, "bat": 5, "a": 2, "Ġcat": 2}
    assert (counted.documents, counted.chars) == (20, 55)
    for n in (-1, 1.5, "2", None):
        with pytest.raises(ValueError, match=f"the document 'bat' has the count {n!r}: give whole"):
            count_pretokens({"bat": n}, tokenizer)


# --- chunks with the space before them ---------------------------------------------------------------
PUTS_META_FIRST = {
    "as mistral": with_rules(AT_META, normalizers.Sequence(META)),
    "metaspace": with_rules(pre.Metaspace()),
    "metaspace, first": with_rules(pre.Metaspace(prepend_scheme="first")),
}
CHUNKS = {" ja": 5, "See": 2, " 2,5": 1, "  x": 1, ".": 3}


@pytest.mark.parametrize("kind", PUTS_META_FIRST)
@pytest.mark.parametrize("options", [{}, {"memory": 1}])
def test_one_space_goes_before_a_tokenizer_that_puts_one_there(kind, options):
    """Chunks have the pre-tokens that they have in running text, and the sizes of it."""
    tokenizer = PUTS_META_FIRST[kind]
    counted = count_pretokens(ChunkCounts(CHUNKS), tokenizer, **options)
    expected = Counter()
    for chunk, n in CHUNKS.items():
        for piece in by_the_library([chunk.removeprefix(" ")], tokenizer):
            expected[piece] += n
    assert dict(counted) == expected and counted["▁ja"] == 5 and "▁▁ja" not in counted
    assert (counted.documents, counted.spaced_words) == (12, 12)
    assert counted.chars == counted.bytes == sum(n * len(chunk) for chunk, n in CHUNKS.items())


@pytest.mark.parametrize("kind", PUTS_META_FIRST)
def test_documents_with_counts_of_a_user_are_left_alone(kind):
    """A mapping of whole documents means them as they are, their leading spaces too."""
    tokenizer = PUTS_META_FIRST[kind]
    repeated = [document for document, n in CHUNKS.items() for _ in range(n)]
    counted = count_pretokens(CHUNKS, tokenizer)
    assert everything(counted) == everything(count_pretokens(repeated, tokenizer))
    assert dict(counted) == by_the_library(repeated, tokenizer)


def test_the_plainest_call(mistral, llama):
    """A word list, a tokenizer that puts ``▁`` before a text, and one that does not."""
    corpus = th.load_corpus("wordfreq:is")
    words, others = (count_pretokens(corpus, tokenizer) for tokenizer in (mistral, llama))
    assert "▁og" in words and not any(word.startswith("▁▁") for word in words)
    assert words["▁og"] == corpus.counts[" og"]
    sizes = [(w.chars, w.bytes, w.documents, w.spaced_words) for w in (words, others)]
    assert sizes[0] == sizes[1]
    assert everything(count_pretokens(corpus.counts, mistral)) == everything(words)


@pytest.mark.parametrize("with_added", [False, True])
def test_chunks_are_measured_as_the_running_text(mistral, with_added):
    """The same tokens as of the text that the chunks are of, and the same bytes; an added token, which
    is looked for in raw text, changes nothing about that."""
    line = "Koer haugub ja koer magab"
    first, *others = line.split(" ")
    chunks = ChunkCounts(Counter([first, *(f" {word}" for word in others)]))
    tokenizer = mistral
    if with_added:
        tokenizer = Tokenizer.from_str(mistral.to_str())
        tokenizer.add_tokens(["haugub"])
    measured, expected = (th.evaluate(tokenizer, text) for text in (chunks, [line]))
    same = ["tokens", "words", "chars", "bytes", "bytes_per_token", "tokens_per_word"]
    assert measured[same].tolist() == expected[same].tolist()


def test_counts_are_exact_as_far_as_they_are_taken():
    """Beyond 2^52 characters, two counts may be one and the same 64-bit float."""
    tokenizer = with_pattern(GPT_2)
    counted = count_pretokens({"abc": 2**50 - 1, "": 1, "de": 1}, tokenizer)
    assert counted["abc"] == 2**50 - 1
    for corpus in ({"abc": 2**50, "d": 1}, {"a": 2**52}, ChunkCounts({" a": 2**51})):
        with pytest.raises(
            ValueError, match=r"more than 2\^52 characters, .*not exact: divide the"
        ):
            count_pretokens(corpus, tokenizer)
