"""Every page of the site in Chromium: nothing complains, nothing is far away, all can be read."""

import re
from functools import cache
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from bs4 import BeautifulSoup

from .conftest import AXE, FINDINGS, ROOT, SHOTS, SITE, TAGS

PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if path.relative_to(SITE).parts[0] != "_static"
)
each_page = pytest.mark.parametrize("path", PAGES)
BEYOND_PAPER = """
const edge = e => e.getBoundingClientRect().right;
[...document.querySelectorAll("article table, article pre, article img")]
  .filter(e => e.checkVisibility())
  .filter(e => edge(e) > edge(e.closest("article")) + 1 || e.scrollWidth > e.clientWidth + 1)
  .map(e => e.outerHTML.slice(0, 200))
"""
TOO_LONG = """
[...document.querySelectorAll(".cell_input pre, .try-code")]
  .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 200))
"""
# Code is as many elements as it has words, in some twenty colours: one of each is judged, in each ground
ONE_OF_A_KIND = """
const kinds = new Set();
for (const code of document.querySelectorAll(".highlight pre")) {
  const ground = getComputedStyle(code).backgroundColor;
  code.innerHTML = code.innerHTML.replace(/<span class="([^"]*)">([^<]*)<.span>/g, (span, kind, text) =>
    kinds.size < kinds.add(ground + kind).size ? span : text);
}
"""
SCREEN = {"width": 1200, "height": 800}
# The theme lets keys reach what must be scrolled, 0.3 s after the window has got its last size.
THEME_DELAY = 500  # ms
SCROLLED_BY_KEYS = """
[...document.querySelectorAll("pre")].every(
  e => e.tabIndex === 0 || (e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight))
"""


@cache
def read(file):
    """What a page names: its places, and its links and files."""
    page = BeautifulSoup(file.read_text(encoding="utf-8"), "html.parser")

    def values(*names):
        return [tag[name] for name in names for tag in page.find_all(attrs={name: True})]

    return set(values("id", "name")), values("href", "src")


# --- what a page's text names --------------------------------------------------------------------
@each_page
def test_links_and_anchors_lead_somewhere(site, path):
    here = site / path
    _, links = read(here)
    for link in links:
        address, place = urldefrag(link)
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            assert parts.scheme in ("https", "data"), link
            continue
        there = (here.parent / unquote(parts.path)).resolve() if parts.path else here
        assert there.is_file(), link
        is_state = there.name == "playground.html" and place.startswith("t=")
        if place and there.suffix == ".html" and not is_state:
            assert unquote(place) in read(there)[0], link
    assert len(links) > 20


def test_buttons_that_need_the_repository_are_there_where_its_address_is(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "site")
    import conf

    assert conf.repository_options({}) == conf.repository_options({"Repository": ""}) == {}
    options = conf.repository_options({"Repository": "https://example.org/a/b/"})
    assert options["repository_url"] == "https://example.org/a/b"
    assert options["use_edit_page_button"] and {"binderhub_url", "colab_url"} <= set(
        options["launch_buttons"]
    )


# --- in the browser ------------------------------------------------------------------------------
def load_pictures(page):
    """Waits for all pictures, which otherwise load when they come into view."""
    page.evaluate("for (const picture of document.images) picture.loading = 'eager'")
    page.wait_for_load_state("networkidle")
    page.wait_for_function("[...document.images].every(i => i.complete)")


def serious(found):
    """The findings of axe that keep readers out, with the places where they are."""
    return [
        (rule["id"], node["html"][:200], node["failureSummary"])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@each_page
def test_page_loads_whole_fits_and_can_be_read_by_everybody(open_page, path, site):
    page = open_page(path, viewport=SCREEN, color_scheme="light")
    load_pictures(page)
    pictures = page.evaluate("[...document.images].map(i => [i.src, i.complete, i.naturalWidth])")
    assert not [src for src, complete, width in pictures if not (complete and width)]
    asked = [url for url in open_page.asked if not url.startswith("blob:")]  # a worker's source
    names = {urlsplit(url).path.removeprefix("/a/b/") for url in asked}
    assert sum((site / (name or "index.html")).stat().st_size for name in names) < 2_000_000
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.evaluate(TOO_LONG) == []  # code is read without scrolling
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 960})  # A4 between its margins
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(BEYOND_PAPER) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    page.set_viewport_size(SCREEN)
    page.wait_for_timeout(THEME_DELAY)  # before that, it may still judge the printed page
    page.wait_for_function(SCROLLED_BY_KEYS)
    everybody_can_read(page)


def everybody_can_read(page):
    """What axe finds in light and dark colours: nothing that keeps a reader out."""
    assert AXE.is_file(), "axe-core is not installed: npm ci in site"
    page.add_script_tag(path=AXE)
    page.evaluate(ONE_OF_A_KIND)
    found = page.evaluate(f"tags => axe.run(document, {{runOnly: tags, {FINDINGS}}})", TAGS)
    assert not serious(found) and len(found["passes"]) > 10
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    page.evaluate("Promise.all(document.getAnimations().map(fading => fading.finished))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    found = page.evaluate(f"axe.run(document, {{runOnly: ['color-contrast'], {FINDINGS}}})")
    assert not serious(found) and found["passes"]
    hidden = [
        node["html"]
        for rule in found["incomplete"]  # axe takes what cannot be told from its ground for hidden
        for node in rule["nodes"]
        if "1:1 contrast" in node["any"][0]["message"]
    ]
    assert not hidden


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_search_finds_unreachable_and_leads_to_a_whole_page(open_page, site, scheme):
    start = "index.html" if scheme == "http" else (site / "index.html").resolve().as_uri()
    page = open_page(start, viewport=SCREEN)
    page.keyboard.press("Control+k")
    page.keyboard.type("unreachable")
    page.keyboard.press("Enter")
    page.locator("#search-results li").first.wait_for()
    page.get_by_text(re.compile(r"found \d+ page|matching", re.IGNORECASE)).first.wait_for()
    links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
    found = {link.rpartition("/")[2][:2] for link in links}
    assert {"06", "09"} <= found
    page.screenshot(path=SHOTS / f"search_{scheme}.png")
    page.locator("#search-results li a[href*='notebooks/06_']").first.click()
    page.wait_for_url("**/notebooks/06_*")
    load_pictures(page)
    widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert widths and all(widths)


def test_landing_page_shows_the_figure_before_one_scrolls(open_page):
    page = open_page("index.html", viewport=SCREEN)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=SHOTS / "landing.png")
    box = page.locator("figure.drawing img").bounding_box()
    assert box["y"] > 0 and box["y"] + box["height"] <= 800
