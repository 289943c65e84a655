#!/usr/bin/env python3
"""Take the screenshots in docs/images with Chromium: each page in light, in dark and on a phone.

They show a small installation that is the same each time.
"""

import base64
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize

from redraft.operations.jobs import queries
from tests.support.browsers import browser_of, chromium
from tests.support.showcase import Showcase, beat, showcase

IMAGES = Path(__file__).parent / "images"
BYTES_MAX = 150_000
_QUALITY = 0.82


@dataclass(frozen=True)
class Look:
    """One of the ways in which each page is shown."""

    name: str
    size: ViewportSize
    scale: float
    is_dark: bool = False


LOOKS = (
    Look("light", ViewportSize(width=1320, height=1000), 0.78),
    Look("dark", ViewportSize(width=1320, height=1000), 0.78, is_dark=True),
    Look("phone", ViewportSize(width=390, height=844), 1),
)
# The browser itself writes WebP, which is a third as large as PNG
_TO_WEBP = """async ([png, quality]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""


def paths(shown: Showcase) -> Mapping[str, str]:
    """Return the paths of the pages by the names of their pictures."""
    job, run = f"/jobs/{shown.job_id}", f"/runs/{shown.run_id}"
    call = next(each.id for each in queries.list_calls(shown.services, shown.job_id) if each.type == "evaluate")
    return {
        "overview": "/",
        "jobs": "/jobs",
        "job": job,
        "iterations": f"{job}/iterations",
        "trace": f"{job}/calls",
        "call": f"{job}/calls/{call}",
        "events": f"{job}/events",
        "new": f"/new?from={shown.job_id}",
        "ratings": "/ratings",
        "runs": "/runs",
        "run": run,
        "items": f"{run}/items",
        "comparison": f"/runs/compare?baseline={shown.baseline_id}&run={shown.run_id}",
        "dataset": f"/datasets/{shown.dataset_id}",
        "settings": "/settings",
        "api": "/docs",
    }


def take(browser: Browser, url: str, name: str, look: Look, encoder: Page) -> None:
    """Take a screenshot of a page after it has loaded."""
    scheme = "dark" if look.is_dark else "light"
    page = browser.new_page(viewport=look.size, device_scale_factor=look.scale, color_scheme=scheme)
    response = page.goto(url, wait_until="load")
    if response is None or not response.ok:
        sys.exit(f"{url} cannot be shown: {response and response.status}")
    png = base64.b64encode(page.screenshot()).decode()
    page.close()
    file = IMAGES / f"{name}-{look.name}.webp"
    file.write_bytes(base64.b64decode(encoder.evaluate(_TO_WEBP, [png, _QUALITY])))
    if file.stat().st_size > BYTES_MAX:
        sys.exit(f"{file} is larger than {BYTES_MAX:,} bytes.")


def main() -> None:
    program = chromium()
    if program is None:
        sys.exit("Chromium is not found: install it to take the pictures.")
    IMAGES.mkdir(exist_ok=True)
    with showcase() as shown, browser_of(program, "--hide-scrollbars") as browser:
        encoder = browser.new_page()
        for name, path in paths(shown).items():
            for look in LOOKS:
                beat(shown.services)
                take(browser, shown.api.url + path, name, look, encoder)
    sys.stdout.write(f"The pictures are in {IMAGES}.\n")


if __name__ == "__main__":
    main()
