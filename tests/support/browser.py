"""A real browser for tests: the system's Chromium, driven by Playwright, new and empty each time."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, BrowserType, Page

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
#: Why tests are skipped that need one.
MISSING = "no chromium on this machine: apt-get install chromium"
#: Longest wait, which costs nothing when all is well.
_TIMEOUT_MS = 120_000
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start a browser; its folder is a new one, and gone with it."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(_FLAGS), headless=True, timeout=_TIMEOUT_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def tabs(started_by: BrowserType, folder: Path) -> Iterator[BrowserContext]:
    """Start a browser with one window, whose tabs are shown one at a time, as people's are.

    Playwright has each page think that it is shown; a browser that it did not start is left as it is when asked to.
    """
    assert CHROMIUM is not None
    options = ("--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}")
    process = subprocess.Popen([CHROMIUM, *_FLAGS, *options, "about:blank"], stderr=subprocess.DEVNULL)
    try:
        port = folder / "DevToolsActivePort"
        wait_until(lambda: port.is_file() and port.read_text().strip(), "the browser is there")
        url = f"http://127.0.0.1:{port.read_text().split()[0]}"
        browser = started_by.connect_over_cdp(url, no_defaults=True, timeout=_TIMEOUT_MS)
        yield browser.contexts[0]
        browser.close()
    finally:
        process.terminate()
        process.wait()


class Watched:
    """A page, and what went wrong in it: errors of scripts, refusals of the policy, whatever it asked elsewhere."""

    def __init__(self, page: Page, url: str) -> None:
        """Take a page of the server at `url`."""
        self.page = page
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.streams: list[str] = []
        page.set_default_timeout(_TIMEOUT_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._said)
        page.on("request", lambda request: self._asked(request, url))

    def _said(self, message: Any) -> None:
        # A server that is away is nothing that a page does wrong.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def _asked(self, request: Any, url: str) -> None:
        if not request.url.startswith((url, "blob:", "data:")):
            self.elsewhere.append(request.url)
        if "/events" in request.url:
            self.streams.append(request.url)
