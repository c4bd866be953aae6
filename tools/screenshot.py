"""`make screenshot` keeps the built landing page as site/_static/landing.png, for the README."""

import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]


def main():
    """Takes the picture, 1200 by 800 pixels, in light colours, and keeps 64 of them."""
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 800}, color_scheme="light")
        page.goto(
            (ROOT / "build" / "site" / "html" / "index.html").as_uri(), wait_until="networkidle"
        )
        taken = page.screenshot(animations="disabled")
        browser.close()
    small = Image.open(io.BytesIO(taken)).convert("RGB").quantize(64)
    small.save(ROOT / "site" / "_static" / "landing.png", optimize=True)


if __name__ == "__main__":
    main()
