"""The playground in a browser: its IDs are Python's, it asks nobody, and it says what it cannot do."""

import json
import random
import re
import time
from urllib.parse import quote

import pytest
from tokenizers import Tokenizer

import tokhelpers as th

from .conftest import AXE, FINDINGS, PATIENCE, ROOT, SHOTS, SITE, TAGS

CATALOGUE = SITE.parent / "catalogue.json"
ENTRIES = json.loads(CATALOGUE.read_text("utf-8")) if CATALOGUE.is_file() else []
NAMES = [entry["name"] for entry in ENTRIES]
RECORDED = ROOT.parent / "shared" / "data" / "tokenizers"
READY = "#playground[data-state=ready]"
NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1100, "height": 900}

RANGES = [
    (0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0x980),
    (0xE00, 0xE80), (0x1E00, 0x1F00), (0x2000, 0x2070), (0x3040, 0x3100), (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A4), (0xFE00, 0xFE10), (0x1F300, 0x1F650), (0x1F3FB, 0x1F400), (0x20000, 0x20100),
]  # fmt: skip
PIECES = [
    "the", "information", "kyllästyä", "vabadena", "of the", "it's", "I'LL", "ﬁ", "12345", "3.14", " ",
    "  ", "\n", "\r\n", "\t", "\n\n  ", "__init__", "(x)", "</s>", "<|x|>", "https://", "—", "👩‍🔬", "🇪🇪",
    "e\u0301", "हिन्दी", "한국어", "中文", "שלום", "Việt", "\u00a0", "\u200b", "…", "½", "ǅ", "İ", "ß",
]  # fmt: skip


def random_strings(n, seed=0):
    """Strings of words, signs, white space and characters of many scripts."""
    rng = random.Random(seed)

    def piece():
        if rng.random() < 0.6:
            return rng.choice(PIECES) + rng.choice(["", " ", " "])
        first, end = rng.choice(RANGES)
        return "".join(chr(rng.randrange(first, end)) for _ in range(rng.randint(1, 6)))

    return ["".join(piece() for _ in range(rng.randint(0, 12))) for _ in range(n)]


def recorded_texts():
    """The texts whose encodings are recorded beside the tokenizers; none without the shared folder."""
    files = RECORDED.glob("*/encodings.json")
    return [row["text"] for file in files for row in json.loads(file.read_text("utf-8"))]


def python_ids(tokenizer, texts):
    encode = tokenizer.encode_batch
    return [encoding.ids for encoding in encode(texts, add_special_tokens=False)]


def differing(page, name, tokenizer, texts):
    """Texts whose IDs in the page are not Python's."""
    found = page.evaluate("([name, texts]) => playground.encode(name, texts)", [name, texts])
    return [
        (text, theirs, ours)
        for text, theirs, ours in zip(texts, found, python_ids(tokenizer, texts), strict=True)
        if theirs != ours
    ]


def wait(page):
    page.locator(READY).wait_for(timeout=PATIENCE)


# A fixed piece of work, of which a laptop does eight in a second. A slower or busier machine may take
# longer for the page, too, in the same proportion: limits are about the page, not about the machine.
WORK = """() => {
  const begun = performance.now(), ids = new Map();
  for (let i = 0; i < 200_000; i++) ids.set(`token ${i}`, i);
  return performance.now() - begun;
}"""
USUAL = 125  # milliseconds


def slowness(page):
    """How many times as long as on a laptop the machine takes now; never less than once."""
    return max(1, sorted(page.evaluate(WORK) for _ in range(3))[1] / USUAL)


def said(page):
    return page.locator("#pg-status").text_content()


def write(page, text):
    page.get_by_label("Text", exact=True).fill(text)
    wait(page)


@pytest.fixture(scope="module")
def llama():
    return th.load_tokenizer("llama-3")


@pytest.fixture(scope="module")
def extended(llama):
    words = ["kyllästyä kirjastossa ystävällisesti hyvää päivää"] * 20
    return th.extend(llama, th.continue_bpe(llama, words, 10))


@pytest.fixture(scope="module")
def file(llama, extended, tmp_path_factory):
    """A page of its own, as a file: Llama 3, its extension, and a tokenizer of another notation."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    th.notebook.write_playground(path, "llama-3", "mistral-v1", finnish=extended)
    return path.as_uri()


# --- the IDs -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_of_python(open_page, name, llama, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "site")
    from playground import OURS

    tokenizer = OURS[name][0](llama) if name in OURS else th.load_tokenizer(name)
    page = open_page(f"playground.html#t={name}&x=")
    wait(page)
    texts = random_strings(1_000) + recorded_texts()
    assert differing(page, name, tokenizer, texts) == []
    assert "differ" not in said(page)


@pytest.mark.parametrize("name", NAMES)
def test_a_tokenizer_is_ready_within_two_seconds(open_page, name):
    def seconds():
        page = open_page(f"playground.html#t={name}&x=")
        wait(page)
        return page.evaluate("playground.times")[name] / 1_000 / slowness(page)

    assert any(seconds() < 2 for _ in range(3))


@pytest.mark.parametrize("folder", ["smollm2", "phi-3-mini", "roberta-base"])
def test_a_file_of_the_hub_that_is_opened_has_the_ids_of_python(open_page, file, folder):
    path = RECORDED / folder / "tokenizer.json"
    if not path.is_file():
        pytest.skip("the shared tokenizers are not there")
    page = open_page(file)
    wait(page)
    page.locator("#pg-file").set_input_files(path)
    page.locator(".pg-name").get_by_text("tokenizer", exact=True).wait_for(timeout=PATIENCE)
    texts = random_strings(300) + recorded_texts()
    assert differing(page, "tokenizer", Tokenizer.from_file(str(path)), texts) == []


# --- what is shown -------------------------------------------------------------------------------
def test_tokens_and_measures_are_those_of_python(open_page, file, llama, extended):
    page, text = open_page(file), "hyvää päivää, kirjastossa ystävällisesti 🤷🏽"
    wait(page)
    write(page, text)
    rows = page.locator("#pg-rows section")
    assert page.locator(".pg-name").all_text_contents() == ["llama-3", "mistral-v1", "finnish"]
    for n, tokenizer in ((0, llama), (2, extended)):
        shown = rows.nth(n).locator(".pg-token").evaluate_all("all => all.map(e => +e.dataset.id)")
        assert shown == tokenizer.encode(text, add_special_tokens=False).ids
        measures = th.evaluate(tokenizer, [text])
        cells = page.locator("tbody tr").nth(n).locator("td").all_text_contents()
        assert cells[:3] == [
            f"{measures.tokens:.0f}",
            f"{measures.bytes_per_token:.2f}",
            f"{measures.tokens_per_word:.2f}",
        ]
    plain = th.show_tokens(text, llama).plain.splitlines()[0].split("tokens")[1]
    strings = rows.nth(0).locator(".pg-token").all_text_contents()
    assert " ".join(strings) == plain.strip()
    assert rows.nth(0).locator(".pg-new").count() == 0
    new = rows.nth(2).locator(".pg-new").evaluate_all("all => all.map(e => +e.dataset.id)")
    assert new and all(i >= llama.get_vocab_size() for i in new)
    assert "that llama-3 lacks" in page.locator("#pg-legend").text_content()


def test_keys_move_through_the_tokens_and_tell_id_bytes_and_merge(open_page, file, llama):
    page = open_page(file)
    wait(page)
    write(page, "information 🤷🏽<|eot_id|>")
    row = page.locator("#pg-rows section").first
    detail = row.locator(".pg-detail")
    row.locator(".pg-token").first.focus()
    assert (
        "ID 1660" in (text := detail.text_content())
        or str(llama.encode("information").ids[0]) in text
    )
    assert "69 6E 66 6F 72 6D 61 74 69 6F 6E" in text and "merged from" in text
    left, right = row.locator(".pg-detail code").all_text_contents()[-2:]
    assert left + right == "information"
    page.keyboard.press("ArrowRight")
    assert "␣⟨F0 9F" in row.locator(".pg-token").nth(1).text_content()
    assert "20 F0 9F" in detail.text_content()
    page.keyboard.press("End")
    assert "added token" in detail.text_content()
    assert row.locator(".pg-added").text_content() == "<|eot_id|>"
    page.keyboard.press("Home")
    assert "information" in detail.text_content()
    page.locator("#pg-rows section").nth(1).locator(".pg-token").first.hover()
    assert "ID" in page.locator(".pg-detail").nth(1).text_content()


def test_the_state_is_in_the_address(open_page, file):
    text = "päivää & 50 % #1 = x,y\n🙂"
    page = open_page(f"{file}#t=finnish,llama-3&x={quote(text)}")
    wait(page)
    assert page.get_by_label("Text", exact=True).input_value() == text
    assert page.locator(".pg-name").all_text_contents() == ["finnish", "llama-3"]
    page.get_by_role("checkbox", name="mistral-v1").check()
    wait(page)
    page.locator(".pg-name").get_by_text("mistral-v1").wait_for()
    other = open_page(page.evaluate("location.href"))
    wait(other)
    assert other.locator(".pg-name").all_text_contents() == ["finnish", "llama-3", "mistral-v1"]
    assert other.get_by_label("Text", exact=True).input_value() == text
    other.evaluate("location.hash = '#t=%E0%A4%A&x=%'")  # damaged
    wait(other)


@pytest.mark.parametrize("name", ["Eight languages", "Code", "Numbers", "Emoji"])
def test_examples_are_shown(open_page, file, name):
    page = open_page(file)
    wait(page)
    page.get_by_role("button", name=name).click()
    wait(page)
    assert page.locator(".pg-token").count() > 20


# --- files that cannot be used, and long texts ----------------------------------------------------
BROKEN = {
    "cut.json": (b'{"model": {"vocab": {"a": 0', "damaged"),
    "noise.json": (bytes(range(256)) * 9, "damaged"),
    "foreign.json": (b'{"name": "site", "private": true}', "not a tokenizer.json"),
    "list.json": (b"[1, 2]", "not a tokenizer.json"),
    "null.json": (b"null", "not a tokenizer.json"),
    "kind.json": (b'{"model": {"type": "Fancy", "vocab": {"a": 0}}}', "of type Fancy"),
    "merge.json": (
        b'{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}',
        "cannot be used",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_or_foreign_file_is_one_sentence(open_page, file, name):
    content, told = BROKEN[name]
    page = open_page(file)
    wait(page)
    before = page.locator(".pg-name").all_text_contents()
    given = {"name": name, "mimeType": "application/json", "buffer": content}
    page.locator("#pg-file").set_input_files(given)
    page.locator("#pg-status").get_by_text(told).wait_for(timeout=PATIENCE)
    assert re.fullmatch(rf"{re.escape(name)}: [^\n]+\.", said(page))
    write(page, "the next text")
    assert page.locator(".pg-name").all_text_contents() == before
    assert page.locator(".pg-token").count() > 5


DROP = """
content => {
  const data = new DataTransfer();
  data.items.add(new File([content], "dropped.json"));
  for (const kind of ["dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
}
"""


def test_a_file_is_dropped_onto_the_page(open_page, file):
    page, tokenizer = open_page(file), th.train_byte_level_bpe(["bag bat bat"], vocab_size=258)
    wait(page)
    page.evaluate(DROP, tokenizer.to_str())
    page.locator(".pg-name").get_by_text("dropped").wait_for(timeout=PATIENCE)
    assert differing(page, "dropped", tokenizer, ["bat bag", *random_strings(50)]) == []


GAPS = """
globalThis.longest = 0;
let last = performance.now();
setInterval(() => {
  longest = Math.max(longest, performance.now() - last);
  last = performance.now();
}, 20);
"""


def test_a_long_text_is_cut_and_does_not_freeze_the_page(open_page, file, llama):
    page = open_page(file)
    wait(page)
    text = "The quick brown fox, kyllästyä 12345 🙂. " * 3_000
    page.evaluate(GAPS)
    page.get_by_label("Text", exact=True).fill(text)
    begun = time.time()
    wait(page)
    took, slower = time.time() - begun, slowness(page)
    assert took < 60 * slower and page.evaluate("longest") < 1_500 * slower  # milliseconds
    assert "Only the first 100,000 characters are tokenized" in said(page)
    count = len(llama.encode(text[:100_000], add_special_tokens=False).ids)
    assert page.locator("tbody td").first.text_content() == f"{count:,}"
    assert page.locator("#pg-rows section").first.locator(".pg-token").count() == 2_000
    page.get_by_role("button", name="Show more").first.click()
    wait(page)
    assert page.locator("#pg-rows section").first.locator(".pg-token").count() == 4_000
    assert "x=" not in page.evaluate("location.hash")


# --- who can read it -----------------------------------------------------------------------------
@pytest.mark.parametrize("place", ["site", "file"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 390])
def test_axe_finds_nothing(open_page, file, place, scheme, width):
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in site")
    view = WIDE if width == 1100 else NARROW
    page = open_page(
        file if place == "file" else "playground.html", viewport=view, color_scheme=scheme
    )
    wait(page)
    write(page, "hyvää päivää, kirjastossa 🤷🏽\n<|eot_id|> x\u200d")
    page.locator(".pg-token").nth(2).hover()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=SHOTS / f"playground_{place}_{scheme}_{width}.png", full_page=True)
    if place == "file":  # the policy of the page allows no script from elsewhere
        page.evaluate(AXE.read_text("utf-8"))
    else:
        page.add_script_tag(path=AXE)
    page.set_viewport_size(
        {"width": width, "height": 20_000}
    )  # the theme's bar covers nothing then
    rules = f"{{runOnly: tags, rules: {{'target-size': {{enabled: true}}}}, {FINDINGS}}}"
    found = page.evaluate(f"tags => axe.run('#playground', {rules})", TAGS)
    assert len(found["passes"]) > 10
    doubts = [rule for rule in found["incomplete"] if rule["id"] == "color-contrast"]
    nodes = [node for rule in found["violations"] + doubts for node in rule["nodes"]]
    findings = [(node["html"][:200], node["failureSummary"]) for node in nodes]
    # a sign such as ␣ is no letter, of which axe would measure the contrast
    assert not [found for found in findings if "only non-text characters" not in found[1]]


def test_the_library_is_the_one_of_the_lock_file():
    from tokhelpers.notebook.playground import LIBRARY, PAGE

    name, version, licence = LIBRARY
    lock = json.loads((ROOT / "site" / "package-lock.json").read_text("utf-8"))
    pinned = lock["packages"][f"node_modules/{name}"]
    assert (pinned["version"], pinned["license"]) == (version, licence)
    installed = ROOT / "site" / "node_modules" / name
    if not installed.is_dir():
        pytest.skip("npm ci in site")
    assert (PAGE / "tokenizers.min.cjs").read_bytes() == (
        installed / "dist" / "tokenizers.min.cjs"
    ).read_bytes()
    assert (PAGE / "tokenizers.LICENSE").read_bytes() == (installed / "LICENSE").read_bytes()
