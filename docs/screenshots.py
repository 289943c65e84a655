#!/usr/bin/env python3
"""Take the screenshots in docs/images with Chromium, of a small installation that is the same each time."""

import sys
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Browser, ViewportSize

from tests.support.browsers import browser_of, chromium
from tests.support.showcase import Showcase, showcase

IMAGES = Path(__file__).parent / "images"
WIDE, TALL = ViewportSize(width=1320, height=880), ViewportSize(width=1320, height=1120)
SCALE = 0.78
BYTES_MAX = 150_000


def paths(shown: Showcase) -> Mapping[str, str]:
    """Return the paths of the pages by the names of their pictures."""
    return {"overview": "/", "iterations": f"/jobs/{shown.job_id}/iterations", "run": f"/runs/{shown.run_id}"}


def take(browser: Browser, url: str, file: Path, scheme: str) -> None:
    """Take a screenshot of a page after it has loaded."""
    look = "dark" if scheme == "dark" else "light"
    size = TALL if file.name.startswith(("iterations", "run")) else WIDE
    page = browser.new_page(viewport=size, device_scale_factor=SCALE, color_scheme=look)
    response = page.goto(url, wait_until="load")
    if response is None or not response.ok:
        sys.exit(f"{url} cannot be shown: {response and response.status}")
    page.screenshot(path=file)
    page.close()
    if file.stat().st_size > BYTES_MAX:
        sys.exit(f"{file} is larger than {BYTES_MAX:,} bytes.")


def main() -> None:
    program = chromium()
    if program is None:
        sys.exit("Chromium is not found: install it to take the pictures.")
    IMAGES.mkdir(exist_ok=True)
    with showcase() as shown, browser_of(program, "--hide-scrollbars") as browser:
        for name, path in paths(shown).items():
            for scheme in ("light", "dark"):
                take(browser, shown.api.url + path, IMAGES / f"{name}-{scheme}.png", scheme)
    sys.stdout.write(f"The pictures are in {IMAGES}.\n")


if __name__ == "__main__":
    main()
