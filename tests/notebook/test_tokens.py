"""Tokens shown: HTML and plain text say the same, whatever the text."""

import re
from copy import deepcopy
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st
from tokenizers import Tokenizer, models, normalizers, processors
from transformers import PreTrainedTokenizerFast

import tokhelpers as th
from tokhelpers.notebook.tokens import LIMIT, STYLES, _readable

ODD = "aB <>&\"'0\n\t\r▁Ġ#é\u0301\u0301\u0301\u0903न्שع"
ODD += "\u202e\u200b\u200d\u3164\ufe0f\u2800\x00\x85\ufeff😀한␣↵⇥⟨⟩⟦⟧⟪⟫◌"
PATHOLOGICAL = [
    "<script>alert(1)</script>",
    "</code></table><img src=x onerror=alert(1)>",
    "&lt;b&gt; &amp; \"quoted\" 'too'",
    "<!-- x --><![CDATA[y]]>",
    "שלום, abc עולם 123",
    "\u202eright to left\u202c",
    "Z" + "\u0335\u0321\u034d\u0301" * 50,
    "👩\u200d👩\u200d👧 \U0001f1eb\U0001f1ee ❤\ufe0f",
    "\x00\x07\x1b[31mred\x1b[0m\x7f",
    "<|eot_id|> [UNK] <0x41>",
    "⟨E2 96⟩ ⟦new⟧ ⟪x⟫ ␣↵⇥ ◌",
    "\U0010ffff\ue000\ufffe",
]
ANY = st.text(max_size=60) | st.text(st.sampled_from(ODD), max_size=60)
ANY |= st.sampled_from(PATHOLOGICAL)


class Page:
    """What a parser makes of the HTML, in which each tag is closed, as XML asks for."""

    def __init__(self, html):
        page = ElementTree.fromstring(f"<page>{html}</page>")
        self.tags = {element.tag for element in page.iter()} - {"page"}
        self.attributes = {name for element in page.iter() for name in element.attrib}
        self.tokens = ["".join(token.itertext()) for token in page.iter("bdi")]
        self.rows = [[cell.text for cell in row][:-1] for row in page.iter("tr")]
        self.notes = [note.text for note in page.iter("div")]


@pytest.fixture(scope="module")
def encoders(llama, mistral):
    words = list(th.load_corpus("wordfreq:en", chars=20_000))
    return {
        "llama": llama,
        "mistral": mistral,
        "bytes": th.train_byte_level_bpe(words, vocab_size=400),
        "wordpiece": th.train_wordpiece(words, vocab_size=300),
        "<i>uni & gram</i>": th.train_unigram(words, vocab_size=600),
        "adapted": th.AdaptBPE(llama, ["Ġkyll"]),
    }


def same_facts(shown):
    """The page, after comparing HTML and plain text with each other."""
    page = Page(shown._repr_html_())
    assert page.tags <= {"table", "tr", "th", "td", "code", "bdi", "small", "div"}
    assert page.attributes <= {"style", "title", "dir", "scope"}
    lines = str(shown).split("\n")
    assert lines[len(page.rows) :] == page.notes
    tokens = []
    for row, line in zip(page.rows, lines, strict=False):
        for cell in row:  # the label, if there is one, and how many tokens there are
            assert line.startswith(cell)
            line = line[len(cell) :].lstrip(" ")
        parted = re.findall(r"(?:⟨[^⟩]*⟩|\S)+", line)  # a space inside ⟨ ⟩ parts bytes
        tokens += [token.strip("\u2068\u2069") for token in parted]
    assert tokens == page.tokens
    return page


def unread(form):
    """The bytes behind a readable form."""
    raw = b""
    for number, byte, sign in re.findall(r"⟨U\+([0-9A-F]+)⟩|⟨([0-9A-F ]+)⟩|(.)", form, re.DOTALL):
        if number:
            raw += chr(int(number, 16)).encode("utf-8")
        elif byte:
            raw += bytes.fromhex(byte)
        elif sign not in "◌⟦⟧⟪⟫":
            raw += {"␣": " ", "↵": "\n", "⇥": "\t"}.get(sign, sign).encode()
    return raw


@given(text=ANY)
def test_any_text_is_shown_whole_and_alike(encoders, text):
    shown = th.show_tokens(text, **encoders)
    assert [label for label, _ in same_facts(shown).rows] == [*encoders]
    for c in shown.plain.replace("\u2068", "").replace("\u2069", "").replace("\n", ""):
        assert c.isprintable(), f"U+{ord(c):04X}"  # no control, no white space but the plain one
    assert not re.search(r"[\u200b-\u200f\u202a-\u202e\ufe0f\u3164]", shown.plain + shown.html)
    for name in ("llama", "mistral", "bytes", "adapted"):  # these lose nothing
        page = same_facts(th.show_tokens(text, encoders[name]))
        joined = b"".join(map(unread, page.tokens)).decode()
        if name == "mistral":
            assert joined == (" " + text if text else "").replace("▁", " ")
        else:
            assert joined == text


def test_special_and_added_tokens_are_marked(encoders, llama):
    assert str(th.show_tokens("a<|eot_id|>b", llama)).split("\n") == [
        "3 tokens  a ⟪<|eot_id|>⟫ b",
        "⟪ ⟫ special or added tokens",
    ]
    assert "⟪[UNK]⟫" in str(th.show_tokens("한", encoders["wordpiece"]))
    longer = deepcopy(encoders["bytes"])
    longer.add_tokens(["Ġvwx"])  # it is stored as it is, not as bytes
    longer.add_special_tokens(["<end>"])
    lines = str(th.show_tokens("Ġvwx<end>", base=encoders["bytes"], longer=longer)).split("\n")
    assert lines[1:] == [
        "longer  2 tokens  ⟦⟪Ġvwx⟫⟧ ⟪<end>⟫",
        "⟦ ⟧ not in the vocabulary of base; ⟪ ⟫ special or added tokens; "
        "⟨ ⟩ bytes, or the number of a character",
    ]


def test_new_tokens_are_those_that_the_first_lacks(llama, qwen, mistral):
    longer = th.extend(llama, th.Extension(tokens=["ĠkyllÃ¤"]))
    adapted = th.AdaptBPE(llama, ["ĠkyllÃ¤"])
    lines = str(th.show_tokens(" kyllä on", base=llama, longer=longer, adapted=adapted)).split("\n")
    assert lines == [
        "base     4 tokens  ␣k yll ä ␣on",
        "longer   2 tokens  ⟦␣kyllä⟧ ␣on",
        "adapted  2 tokens  ⟦␣kyllä⟧ ␣on",
        "⟦ ⟧ not in the vocabulary of base",
    ]
    assert "⟦" not in str(th.show_tokens(" kyllä on", longer, llama))
    mixed = str(th.show_tokens("שלום", llama=llama, mistral=mistral, qwen=qwen))
    assert "(not asked of mistral: tokens are written in another notation there)" in mixed
    assert ["⟦" in line for line in mixed.split("\n")[:3]] == [False, False, True]


def test_marks_stand_on_a_circle_and_do_not_pile_up(mistral):
    assert str(th.show_tokens("e\u0301", mistral)).split("\n") == [
        "2 tokens  ␣e ◌\u0301",
        "◌ carries a combining mark",
    ]
    form = _readable("Z" + 5 * "\u0301")
    assert form == "Z\u0301\u0301◌\u0301\u0301◌\u0301"


# --- long texts, none, and what fails ----------------------------------------------------------------
def test_a_million_characters_are_cut(encoders):
    text = "word 한국어\n\u0301" * 100_000
    shown = th.show_tokens(text, **encoders)
    same_facts(shown)
    assert f"the first {LIMIT:,} of {len(text):,} characters" in shown.plain.split("\n")[-1]
    alone = Page(th.show_tokens(text, encoders["llama"]).html)
    assert b"".join(map(unread, alone.tokens)).decode() == text[:LIMIT]


def test_nothing_is_never_a_blank(encoders):
    for line in str(th.show_tokens("", **encoders)).split("\n"):
        assert line.endswith("0 tokens, the text is empty")
    dropping = Tokenizer(models.BPE({"a": 0}, []))
    assert str(th.show_tokens("b", dropping)) == "0 tokens, nothing of the text is left"
    assert "nothing of the text is left" in th.show_tokens("b", dropping)._repr_html_()


def test_the_text_is_shown_as_it_became_with_nothing_around_it(encoders):
    odd = deepcopy(encoders["bytes"])
    odd.add_special_tokens(["<s>"])
    odd.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", odd.token_to_id("<s>"))]
    )
    odd.normalizer = normalizers.Lowercase()
    odd.enable_padding(length=50)
    assert odd.encode("Q").tokens[:2] == ["<s>", "q"] and len(odd.encode("Q")) == 50
    wrapped = PreTrainedTokenizerFast(tokenizer_object=odd)
    assert str(th.show_tokens("Q", odd)) == str(th.show_tokens("Q", wrapped)) == "1 token  q"
    odd.enable_truncation(2)
    assert "2 tokens, more are cut off: the tok" in str(th.show_tokens("xyz!", odd))


def test_what_is_no_text_or_no_tokenizer_is_refused(llama):
    with pytest.raises(TypeError, match="expected text as one string, got bytes"):
        th.show_tokens(b"bytes", llama)
    with pytest.raises(ValueError, match="text contains lone surrogate U.D800; fix its decoding"):
        th.show_tokens("a\ud800b", llama)
    with pytest.raises(ValueError, match="no tokenizer to show tokens of"):
        th.show_tokens("text")
    with pytest.raises(TypeError, match="a tokenizer is needed, got int"):
        th.show_tokens("text", 3)


def test_kinds_of_tokens_differ_without_colour():
    """Whether the colours can be read is seen on the site's pages, in tests/browser."""
    widths = {kind: re.search(r"border:(\w+ \w+)", style)[1] for kind, style in STYLES.items()}
    assert len({widths["even"], widths["added"], widths["new"]}) == 3


def test_an_adaptbpe_encoder_is_shown_with_its_own_tokens(llama):
    adapted = th.AdaptBPE(llama, ["ĠkyllÃ¤"])
    text = " kyllästyä"
    assert adapted.ids_and_overflow(text) == (adapted.ids(text), False)
    assert adapted.ids(text) != llama.encode(text, add_special_tokens=False).ids
    assert f"{len(adapted.ids(text))} tokens" in repr(th.show_tokens(text, adapted=adapted))
