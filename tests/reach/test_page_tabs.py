"""Many tabs of one browser: it has six connections to a server, and each tab follows something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from maestro_state import Maestro
from tests.reach.page_rig import texts
from tests.support.browser import Watched, tabs
from tests.support.served import Served, serving, started
from tests.support.waiting import wait_until

#: What a browser opens at most to one server over HTTP/1.1; of both, more tabs than that.
CONNECTIONS, TABS = 6, 8
#: Takes from a page what tells it that it is not shown.
NEVER_HIDDEN = "Object.defineProperty(Document.prototype, 'hidden', { get: () => false })"


@pytest.fixture
def window(tmp_path: Path, browser: Browser) -> Iterator[BrowserContext]:
    """Return a browser with one window."""
    with tabs(browser.browser_type, tmp_path / "browser") as found:
        yield found


def test_eight_tabs_are_all_live_when_somebody_looks(project: Path, window: BrowserContext):
    """Only the one that is shown has a line; each other one catches up when it is its turn, and has nothing twice."""
    session_id = started(project)
    with serving(project) as server, Maestro(project) as maestro:
        pages, watched = [], []
        for number in range(TABS):
            pages.append(window.new_page())
            watched.append(Watched(pages[-1], server.url))
            show(pages[-1], server, "/" if number == 0 else f"/sessions/{session_id}")
            maestro.messages.add("user", f"message {number}", session_id)
        said = [f"message {number}" for number in range(TABS)]
        for page in pages[1:]:
            page.bring_to_front()
            expect(page.locator(".message")).to_have_count(TABS)
            expect(page.locator("line-state")).to_have_text("live")
            assert texts(page) == said
        pages[0].bring_to_front()
        expect(pages[0].locator("line-state")).to_have_text("live")
        wait_until(lambda: followers(server) == 1, "nobody follows but the tab that is shown")
        maestro.sessions.start("new-one", activate=False)
        expect(pages[0].locator("#sessions .name[data-step]")).to_have_count(2)
    assert [error for one in watched for error in one.errors] == []


def test_tabs_that_keep_their_lines_take_all_connections(project: Path, window: BrowserContext):
    """The control: what never knows that it is hidden has as many lines as there are connections; one more would wait
    for ever.
    """
    session_id = started(project)
    window.add_init_script(NEVER_HIDDEN)
    with serving(project) as server:
        for _ in range(CONNECTIONS):
            show(window.new_page(), server, f"/sessions/{session_id}")
        assert followers(server) == CONNECTIONS


def test_a_tab_behind_is_drawn_and_follows_nothing_yet(project: Path, window: BrowserContext):
    """Opened with a middle click: what it shows is there at once when somebody looks."""
    session_id = started(project)
    with serving(project) as server:
        page = window.new_page()
        show(page, server, "/")
        with window.expect_page() as opened:
            page.locator("#sessions .name[data-step]").click(button="middle")
        behind = opened.value
        wait_until(lambda: behind.evaluate("performance.getEntriesByName('drawn').length"), "it is drawn")
        assert behind.url.endswith(session_id)
        assert behind.evaluate("document.hidden")
        assert followers(server) == 1
        behind.bring_to_front()
        expect(behind.locator("line-state")).to_have_text("live")


def show(page: Page, server: Served, path: str) -> None:
    """Show a page, until it is live."""
    page.bring_to_front()
    page.goto(server.url + path)
    expect(page.locator("line-state")).to_have_text("live")


def followers(server: Served) -> int:
    """Return how many follow events now."""
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith("maestro_stream_followers "))
