"""JupyterLab, as `make lab` opens it: notebooks run to their end, and their controls change what is shown."""

import json
import os
import signal
import socket
import subprocess
import time
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from test_project import code

from tools.student import read, without_outputs, write

from .conftest import PATIENCE, ROOT, SHOTS

SETTINGS = {  # no question after another host, and all cells in the page, also those out of view
    "apputils-extension/notification": {"checkForUpdates": False, "fetchNews": "false"},
    "notebook-extension/tracker": {"windowingMode": "none"},
}
NOTEBOOK = ROOT / "notebooks" / "01_bpe_by_hand.ipynb"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of JupyterLab, started by `make lab` in a copy."""
    folder = tmp_path_factory.mktemp("lab")
    for name in (".venv", "Makefile", "requirements.txt", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    # without its outputs, so that what is seen is what has run
    write(folder / "notebooks" / NOTEBOOK.name, without_outputs(read(NOTEBOOK)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {
        "ServerApp": {"open_browser": False, "port": port, "port_retries": 0, "allow_root": True},
        "IdentityProvider": {"token": ""},
    }
    (folder / "config").mkdir()
    (folder / "config" / "jupyter_server_config.json").write_text(json.dumps(config))
    for name, settings in SETTINGS.items():
        file = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(settings))
    env = {
        **{name: value for name, value in os.environ.items() if name != "MAKEFLAGS"},
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "TOKHELPERS_FIGURES": str(folder / "figures"),
        "TOKHELPERS_MEASURED": str(folder / "measured"),
    }
    command = ["make", "-o", ".venv/ready", "lab"]  # .venv is made already
    with open(folder / "log", "w") as log:
        made = subprocess.Popen(
            command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}/"
    try:
        wait_for(address, made, folder / "log")
        yield address
    finally:
        os.killpg(made.pid, signal.SIGTERM)
        made.wait(30)


def wait_for(address, made, log):
    """Waits until the server answers."""
    for _ in range(120):
        try:
            return urlopen(address + "api").close()
        except URLError:
            assert made.poll() is None, log.read_text()
            time.sleep(0.5)
    raise TimeoutError(log.read_text())


@pytest.fixture
def page(browser, lab):
    """The notebook in JupyterLab, after all of its cells have run."""
    asked, said = [], []
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{lab}lab/workspaces/by_hand/tree/{NOTEBOOK.name}")
    page.locator(".jp-NotebookPanel .jp-CodeCell").first.wait_for(timeout=60_000)
    wait_for_kernel(page, lab)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    wait_for_cells(page)
    yield page
    context.close()
    assert not said
    assert not [url for url in asked if not url.startswith((lab, "data:", "blob:"))]


def wait_for_kernel(page, lab):
    """Waits until the notebook's kernel is at rest and the page knows it: else it asks for one."""
    ready = page.get_by_text("Python 3 (ipykernel) | Idle", exact=True)
    for _ in range(120):
        sessions = page.request.get(lab + "api/sessions").json()
        states = [s["kernel"]["execution_state"] for s in sessions]
        if states == ["idle"] and ready.is_visible():
            return page.wait_for_timeout(1_000)
        page.wait_for_timeout(500)
    raise TimeoutError(f"the kernel is not ready: {states}")


def wait_for_cells(page):
    """Waits until every code cell has run, and looks for the figures."""
    from playwright.sync_api import expect

    cells = code(NOTEBOOK)
    numbers = page.locator(".jp-CodeCell .jp-InputPrompt")
    expect(numbers).to_have_text([f"[{n}]:" for n, _ in enumerate(cells, 1)], timeout=PATIENCE)
    drawn = [out for cell in cells for out in cell["outputs"] if "image/png" in out.get("data", {})]
    pictures = page.locator(".jp-OutputArea-output.jp-RenderedImage img")
    # a cell has its number before its last output is there
    expect(pictures).to_have_count(len(drawn), timeout=10_000)
    assert min(pictures.evaluate_all("all => all.map(image => image.naturalWidth)")) > 200


def test_slider_of_01_shows_each_merge(page):
    handle = page.locator(".widget-slider .noUi-handle").first
    shown = page.locator(".jp-OutputArea .widget-html-content").first
    number = page.locator(".widget-readout").first
    before = shown.inner_text()
    assert number.inner_text() == "3" and "pairs:" in before
    handle.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(SAYS.replace("===", "!=="), arg=before)
    assert number.inner_text() == "4"
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(SAYS, arg=before)
    shown.evaluate("place => place.scrollIntoView({block: 'center'})")
    page.screenshot(path=SHOTS / "lab_01_widget.png")


SAYS = "text => document.querySelector('.widget-html-content').innerText === text"
