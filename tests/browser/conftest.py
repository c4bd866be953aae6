"""The built site over loopback, below a path, in Debian's Chromium."""

import os
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("TOKHELPERS_SITE", ROOT / "build" / "site" / "html"))
SHOTS = ROOT / "build" / "browser"  # screenshots, to be looked at
AXE = ROOT / "site" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 180_000  # milliseconds: a page takes long on a machine that does three other things
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]  # the rules of WCAG, level AA
# axe then names one place of each rule that is kept, not all
FINDINGS = "resultTypes: ['violations', 'incomplete']"


class BelowPath(SimpleHTTPRequestHandler):
    """Serves a folder below /a/b/, and nothing elsewhere."""

    def translate_path(self, path):
        below = path.removeprefix("/a/b")
        return super().translate_path(below if below != path else "/there-is-no-such-file")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def site():
    """The folder of the built site."""
    if not (SITE / "_static" / "try" / "worker.js").is_file():
        pytest.skip(f"there is no site with boxes in {SITE.name}: make site")
    return SITE


@pytest.fixture(scope="session")
def address(site):
    """The site's address while the tests run."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(BelowPath, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/a/b/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser():
    """Chromium, without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as play:
        open_tokenizer = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield open_tokenizer
        open_tokenizer.close()


@contextmanager
def opening(browser, address):
    """Opens pages of the site with an empty cache; none may complain or ask another host."""
    said, asked, contexts = [], [], []

    def failed(request):
        if "ERR_ABORTED" not in request.failure:  # a page that was left
            said.append(f"{request.url}: {request.failure}")

    def open_(path, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        contexts[-1].on("request", lambda request: asked.append(request.url))
        contexts[-1].on("requestfailed", failed)
        page.goto(path if "://" in path else address + path, timeout=PATIENCE)
        return page

    open_.said, open_.asked = said, asked
    yield open_
    for context in contexts:
        context.close()
    assert not said
    assert not [url for url in asked if not url.startswith((address, "file:", "data:", "blob:"))]


@pytest.fixture
def open_page(browser, address):
    """A function that opens pages, each for this test alone."""
    with opening(browser, address) as open_:
        yield open_
