"""The page in Chromium: how soon a conversation is drawn, of 200 messages and of 10 000; what those take in memory, and
the longest time that scrolling through them keeps the page from answering."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.rig import Row, rig, row

ROUNDS, LIMIT_MS, LIMIT_MB = 9, 300.0, 100.0
#: A task that keeps a page from answering for longer is seen as a stutter; pixels of a turn of the wheel, and turns.
STUTTER_MS, TURN, TURNS = 100.0, 800, 150
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
          "--disable-component-update", "--disable-sync")  # fmt: skip
_SERVER = """
import sys
from maestro_state.serve import build_app
from maestro_state.serve.options import Options
from maestro_state.local.listening import listen
from maestro_state.serve.server import serve
line = listen("127.0.0.1", 0)
serve(build_app(Options(), project=sys.argv[1]), line, lambda: print(line.getsockname()[1], flush=True))
"""


def measure() -> Iterator[Row]:
    """Yield the figures; none where there is no Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return
    from playwright.sync_api import sync_playwright

    with rig(pinned=False) as bench, sync_playwright() as playwright:
        short, long = bench.session(200), bench.session(10_000)
        server = subprocess.Popen([sys.executable, "-c", _SERVER, str(bench.folder)], stdout=subprocess.PIPE, text=True)
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            yield _drawn(browser, url, short, "200 messages")
            yield _drawn(browser, url, long, "the last 200 of 10 000 messages")
            yield _scrolled(browser, url, long)
            yield _memory(browser, url, long, bench.maestro.messages.since(None, long)[0].id)
        finally:
            browser.close()
            server.terminate()
            server.wait()


def _open(page: Any, url: str, session_id: str) -> None:
    """Show a session. Not by waiting for an expression: the page's policy lets nobody evaluate one again and again."""
    page.goto(f"{url}/sessions/{session_id}")
    page.locator(".message").nth(199).wait_for(state="attached")


def _drawn(browser: Any, url: str, session_id: str, what: str) -> Row:
    """Time from navigation to the mark that the page sets when the conversation is in the document."""
    page, times = browser.new_page(), []
    for _ in range(ROUNDS + 1):
        _open(page, url, session_id)
        assert page.locator(".message").count() == 200
        times.append(page.evaluate("performance.getEntriesByName('drawn')[0].startTime"))
    page.close()
    # The first fetches what all others have.
    figures = {"page": times[1:], "300 ms": [LIMIT_MS] * ROUNDS}
    return row(f"page: {what} drawn after navigation, median", figures, "page", "300 ms", limit=1, unit="ms")


def _scrolled(browser: Any, url: str, session_id: str) -> Row:
    """Longest task while somebody turns the wheel up, as far as some thousand messages; tasks below 50 ms are none."""
    page = browser.new_page()
    _open(page, url, session_id)
    page.evaluate("""() => { globalThis.tasks = [0];
        const note = (found) => found.getEntries().forEach((task) => globalThis.tasks.push(task.duration));
        new PerformanceObserver(note).observe({ type: "longtask" }); }""")
    box = page.locator("[role=log]").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for _ in range(TURNS):
        page.mouse.wheel(0, -TURN)
        page.wait_for_timeout(16)
    longest = page.evaluate("Math.max(...globalThis.tasks)")
    page.close()
    figures = {"page": [longest], "100 ms": [STUTTER_MS]}
    return row("page: longest task while scrolling 10 000 messages", figures, "page", "100 ms", limit=1, unit="ms")


def _memory(browser: Any, url: str, session_id: str, first: str) -> Row:
    """Heap of the page when somebody has scrolled up to the very first message."""
    page = browser.new_page()
    _open(page, url, session_id)
    up = "document.querySelector('[role=log]').scrollTop = 0, document.querySelector('.message').dataset.id"
    while page.evaluate(up) != first:
        page.wait_for_timeout(20)
    cdp = page.context.new_cdp_session(page)
    cdp.send("HeapProfiler.collectGarbage")
    used = cdp.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    page.close()
    figures = {"page": [used], "100 MB": [LIMIT_MB]}
    return row("page: memory with 10 000 messages loaded", figures, "page", "100 MB", limit=1, unit="MB")
