"""The boxes "Try it here" in a browser: they print what CPython prints, and survive what it would."""

import pytest
from test_boxes import NUMBERS, cpython, read_boxes, read_exercises

from .conftest import AXE, FINDINGS, PATIENCE, TAGS, opening


@pytest.fixture(scope="session")
def path(site):
    """The address of a notebook's page below the site's, by its number."""

    def of(number):
        pages = [*site.glob(f"{number}_*.html"), *site.glob(f"notebooks/{number}_*.html")]
        (found,) = [page for page in pages if "try-box" in page.read_text(encoding="utf-8")]
        return found.relative_to(site).as_posix()

    return of


class Box:
    """A box on a page."""

    def __init__(self, page, n=0):
        self.page = page
        self.box = page.locator(".try-box").nth(n)
        self.code, self.output, self.status, self.stop = (
            self.box.locator(f".try-{name}") for name in ("code", "output", "status", "stop")
        )

    def press(self, name):
        self.box.get_by_role("button", name=name, exact=True).click()

    def wait(self, text, timeout=PATIENCE):
        self.status.get_by_text(text).wait_for(timeout=timeout)

    def start(self, code=None):
        if code is not None:
            self.code.fill(code)
        self.press("Run")

    def run(self, code=None):
        """Runs the code, as it is or another, and returns what stands in the output."""
        self.start(code)
        self.wait("Done in")
        return self.output.text_content()


@pytest.fixture
def box(open_page, path):
    """The first box of notebook 01."""
    return Box(open_page(path("01")))


@pytest.fixture(scope="module")
def same_box(browser, address, path):
    """The same, with its page and Python, for all tests after which it goes on: loading takes long."""
    with opening(browser, address) as open_:
        yield Box(open_(path("01")))


@pytest.mark.parametrize("number", NUMBERS)
def test_every_box_prints_what_cpython_prints(open_page, path, tmp_path, number):
    page, boxes = open_page(path(number)), read_boxes(number) + read_exercises(number)
    assert page.locator(".try-box").count() == len(boxes) >= 2
    for n, box in enumerate(boxes):
        shown = Box(page, n)
        assert shown.code.input_value() == box["code"]
        assert shown.run() == cpython(box["code"], tmp_path)


def test_the_page_to_try_cuts_the_readers_text(open_page, tmp_path):
    (box,) = read_boxes("try")
    shown = Box(open_page("try.html"))
    assert shown.run() == cpython(box["code"], tmp_path)
    typed = box["code"].replace("kyllästyä", "שלום")
    assert shown.run(typed) == cpython(typed, tmp_path) != cpython(box["code"], tmp_path)


def test_nothing_is_loaded_before_run_and_an_edit_changes_the_output(
    box, open_page, site, tmp_path
):
    box.page.wait_for_load_state("networkidle")
    assert not [url for url in open_page.asked if "pyodide" in url or "worker.js" in url]
    before, code, printed = len(open_page.asked), box.code.input_value(), box.run()
    files = [url.partition("/a/b/")[2].partition("?")[0] for url in open_page.asked[before:]]
    size = sum((site / name).stat().st_size for name in files)
    assert size > 10_000_000 and sorted(files) == sorted(set(files))
    changed = code.replace('"bag": 12', '"bag": 25')
    assert box.run(changed) == cpython(changed, tmp_path) != printed
    box.press("Reset")
    assert box.code.input_value() == code and box.run() == printed


@pytest.mark.parametrize("loop", ["while True: pass", "n = 0\nwhile True: n += 1; print(n)"])
def test_endless_loop_is_stopped_and_the_next_run_works(box, loop):
    other = Box(box.page, 1)
    assert box.stop.is_hidden()
    box.start("print('before')\n" + loop)
    box.output.get_by_text("before").wait_for(timeout=PATIENCE)  # shown while the loop goes on
    other.press("Run")
    other.wait("is still running: stop it first")
    box.press("Stop")
    box.wait("Stopped")
    assert box.stop.is_hidden() and box.output.text_content().startswith("before\n")
    assert box.run("print('after')") == "after\n"
    assert other.run("print('other')") == "other\n"


KEEP = """
globalThis.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    workers.push(this);
  }
};
globalThis.workers = [];
"""
SEND = """
const last = workers.at(-1), printed = {text: "late\\n", kind: "plain"};
last.dispatchEvent(new ErrorEvent("error", {message: "Uncaught NoGilError"}));
last.dispatchEvent(new MessageEvent("message", {data: printed}));
"""


def test_what_a_stopped_worker_still_sends_is_ignored(box):
    # Chromium ended a worker that printed without end two seconds after terminate(). In 14 of 30
    # stops Pyodide's clean-up failed there meanwhile, and this error came to the page.
    box.page.evaluate(KEEP)
    box.press("Run")
    box.press("Stop")  # while Python is loading
    box.page.evaluate(SEND)  # while there is no worker
    assert box.status.text_content() == "Stopped"
    box.start("print(1)")
    box.page.evaluate(SEND.replace("at(-1)", "at(-2)"))  # while the next one runs
    assert "Python could not be loaded" not in box.status.text_content()
    box.wait("Done in")
    assert box.output.text_content() == "1\n"


def test_error_of_the_worker_ends_the_run_and_python_is_loaded_anew(box):
    box.page.evaluate(KEEP)
    box.run("print(1)")
    box.page.evaluate(SEND)  # while nothing runs
    assert "Done in" in box.status.text_content()
    box.start("while True: pass")
    box.wait("Running")
    box.page.evaluate(SEND)
    assert box.status.text_content() == "Python broke off: Uncaught NoGilError"
    assert box.run("print(2)") == "2\n"
    assert box.page.evaluate("workers.length") == 3


def without_marks(text):
    """A traceback without the ~^~ below its lines: later versions of Python mark calls too."""
    return [line for line in text.splitlines() if not line or line.strip(" ~^")]


@pytest.mark.parametrize(
    "code",
    [
        "x = 1\n\nprint('before')\n1 / 0",
        "def f(n):\n    return 1 / n\n\n\nprint('ä')\nf(0)",
        "print('never'\nx = 1",
        "input()",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('two') from e",
    ],
)
def test_traceback_shows_in_place_as_cpython_shows_it(same_box, tmp_path, code):
    shown = same_box.run(code)
    assert without_marks(shown) == without_marks(cpython(code, tmp_path))
    error = same_box.output.locator(".try-error")
    assert error.count() == 1 and shown.endswith(error.text_content())
    assert same_box.run("print('next')") == "next\n"


def test_error_of_the_textbook_names_its_line(same_box):
    shown = same_box.run("import textbook\ntextbook.train_bpe('cat', 9)")
    assert 'File "box.py", line 2' in shown and 'textbook.py", line' in shown
    assert "TypeError: words is one string" in shown.splitlines()[-1]


def test_endless_recursion_is_an_error_like_any_other(same_box):
    shown = same_box.run("def f():\n    f()\n\n\nf()")
    assert "more times]" in shown and "RecursionError" in shown
    assert same_box.run("print('next')") == "next\n"


def test_each_run_begins_anew(same_box):
    other = Box(same_box.page, 1)
    same_box.run("import sys, textbook\nx = 1\ntextbook.train_bpe = None\nsys.stdout = None")
    assert "NameError: name 'x' is not defined" in same_box.run("x")
    assert other.run("from textbook import *\nprint(train_bpe(['ab'], 3))").startswith("({'a'")
    assert other.run("print(__name__, 'x' in globals())") == "__main__ False\n"
    assert len(same_box.page.workers) == 1


def test_python_that_breaks_off_is_loaded_anew(box, open_page):
    box.start("import os\nos.abort()")
    box.wait("Python broke off: RuntimeError")
    assert box.run("print('next')") == "next\n"
    assert open_page.said
    open_page.said.clear()  # Pyodide reports its end there


def test_output_is_cut_and_says_so(same_box):
    note = "\nOutput cut at 20,000 characters.\n"
    assert same_box.run("print('x' * 20_000, end='')") == "x" * 20_000
    assert same_box.run("print('x' * 50_000)") == "x" * 20_000 + note
    assert same_box.run("for n in range(30_000): print('ä')") == "ä\n" * 10_000 + note
    shown = same_box.run("for n in range(30_000): print('ä')\n1 / 0")
    assert note in shown and shown.endswith("ZeroDivisionError: division by zero\n")


def test_keyboard_is_enough(box):
    page = box.page
    box.code.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("while True: pass")
    page.keyboard.press("Control+Enter")
    box.wait("Running")
    assert box.code.input_value() == "while True: pass"
    for name in ("Run", "Stop"):  # Tab leaves the code
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == name
    page.keyboard.press("Enter")
    box.wait("Stopped")
    assert page.evaluate("document.activeElement.textContent") == "Run"
    assert page.get_by_label("Code", exact=True).count() == page.locator(".try-box").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_page_is_readable(open_page, path, scheme):
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in site")
    narrow = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    page = open_page(path("01"), **narrow)
    box = Box(page)
    box.run("print('x' * 200)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box.run("print('x')\n1 / 0")
    page.set_viewport_size({"width": 390, "height": 20_000})  # the theme's bar covers nothing then
    box.code.scroll_into_view_if_needed()
    page.add_script_tag(path=AXE)
    rules = f"{{runOnly: tags, rules: {{'target-size': {{enabled: true}}}}, {FINDINGS}}}"
    found = page.evaluate(f"tags => axe.run('#try-it-here', {rules})", TAGS)
    assert len(found["passes"]) > 10
    doubts = [rule for rule in found["incomplete"] if rule["id"] == "color-contrast"]
    nodes = [node for rule in found["violations"] + doubts for node in rule["nodes"]]
    assert not [(node["html"], node["failureSummary"]) for node in nodes]


def test_page_from_a_file_says_that_it_needs_a_server(open_page, path, site):
    page = open_page((site / path("01")).resolve().as_uri())
    for n in range(page.locator(".try-box").count()):
        box = Box(page, n)
        assert "open the page from a web server" in box.status.inner_text()
        assert box.box.get_by_role("button", name="Run").is_disabled()


def test_missing_files_are_told(box, open_page):
    box.page.route("**/pyodide.mjs", lambda route: route.abort())
    box.press("Run")
    box.wait("Python could not be loaded")
    box.page.unroute("**/pyodide.mjs")
    box.page.route("**/textbook.py", lambda route: route.fulfill(status=404))
    box.press("Run")
    box.wait("textbook.py is not served (status 404)")
    box.page.unroute("**/textbook.py")
    assert box.run("print(1)") == "1\n"
    open_page.said.clear()  # the browser names the two files that were kept from it


def test_what_a_check_keeps_is_there_on_another_page(open_page, address, path):
    answer = "def merge(tokens, pair):\n    return textbook.merge(tokens, pair)"
    check = 'checks.check(merge, ("joined", [["a"], ("a", "t")], ["a"]), keep=True)'
    page = open_page(path("01"))

    def run(number, code):
        page.goto(address + path(number), timeout=PATIENCE)  # the same reader goes on
        return Box(page).run(f"import checks\nimport textbook\n{code}")

    said = run("01", f"{answer}\nprint({check})")
    assert said == "Right: the case holds. It is saved in mytok.py for later lessons.\n"
    printed = run("04", "print(checks.mytok(textbook))")
    assert (
        "The textbook's version is used: " in printed and "NameError" in printed
    )  # its cell imports nothing
    right = answer.replace("    return", "    import textbook\n\n    return")
    run("01", f"{right}\nprint({check})")
    printed = run("04", "print(checks.mytok(textbook))")
    assert printed.startswith("Your own version is used: merge.\n")
