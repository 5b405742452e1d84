"""The page while a server is away, its own or the one behind it: it says so, and goes on when that is back."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from maestro_state import Maestro
from tests.reach.page_rig import Rig, look_now, texts, violations
from tests.support.browser import Watched
from tests.support.served import Served, serving
from tests.support.servers import Server, free_port
from tests.support.waiting import wait_until

AWAY = "server away, trying again"


@pytest.fixture
def state_server(tmp_path: Path) -> Iterator[Server]:
    """Return a server of a team's: nobody starts it again but us."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = Server(folder, free_port(), [])
    server.start()
    yield server
    server.stop()


class Looking:
    """Somebody with several pages of one server open."""

    def __init__(self, browser: Browser, server: Served) -> None:
        self.context, self.server, self.watched = browser.new_context(), server, list[Watched]()

    def open(self, path: str) -> Page:
        """Open another page."""
        page = self.context.new_page()
        self.watched.append(Watched(page, self.server.url))
        page.goto(self.server.url + path)
        return page

    def close(self) -> None:
        """Close them all; nothing may have gone wrong in any."""
        self.context.close()
        assert [error for one in self.watched for error in one.errors] == []


def test_pages_tell_that_the_state_server_is_away_and_when_it_is_back(
    project: Path, browser: Browser, state_server: Server
):
    """The stream of events stays open meanwhile; what is said afterwards comes once."""
    with (
        Maestro(project, redis_url=state_server.url) as maestro,
        serving(project, env={"MAESTRO_REDIS_URL": state_server.url}) as server,
    ):
        session_id = maestro.sessions.start("fix-login").id
        maestro.messages.add("user", "before", session_id)
        looking = Looking(browser, server)
        pages = [looking.open(path) for path in (f"/sessions/{session_id}", "/", "/usage", "/health", "/work")]
        for page in pages:
            expect(page.locator("line-state")).to_have_text("live")
        state_server.kill()
        for page in pages:
            look_now(page)
            expect(page.locator("line-state")).to_have_text(AWAY)
        state_server.start()
        for page in pages:
            expect(page.locator("line-state")).to_have_text("live")
        maestro.messages.add("user", "after", session_id)
        expect(pages[0].locator(".message")).to_have_count(2)
        assert texts(pages[0]) == ["before", "after"]
        looking.close()


def test_a_page_that_is_opened_meanwhile_shows_itself_afterwards(project: Path, browser: Browser, state_server: Server):
    """Until then it is a page too. Whose token it is nobody can know then: they are told no address."""
    with (
        Maestro(project, redis_url=state_server.url) as maestro,
        serving(project, env={"MAESTRO_REDIS_URL": state_server.url}) as server,
        serving(project, "--require-auth", env={"MAESTRO_REDIS_URL": state_server.url}) as guarded,
    ):
        session_id = maestro.sessions.start("fix-login").id
        maestro.messages.add("user", "still here", session_id)
        door = Looking(browser, guarded)
        page = door.open("/")
        page.get_by_label("Token").fill(maestro.tokens.add("ana").token)
        page.keyboard.press("Enter")
        expect(page.locator("line-state")).to_have_text("live")
        state_server.kill()
        looking = Looking(browser, server)
        session, sessions, usage = (looking.open(path) for path in (f"/sessions/{session_id}", "/", "/usage"))
        for page in (session, sessions):
            expect(page.get_by_role("heading", level=1)).to_have_text("The state server is away")
            expect(page.locator("line-state")).to_have_text(AWAY)
            assert violations(page) == []
        expect(usage.get_by_role("alert")).to_contain_text("cannot reach")
        asked = door.open("/")
        expect(asked.get_by_role("heading", level=1)).to_have_text("The state server is away")
        assert str(state_server.port) not in asked.content()
        with server.client() as client:
            assert client.get("/").status_code == 503
            assert client.get("/v1/events").status_code == 503
        state_server.start()
        expect(session.locator(".message")).to_contain_text("still here")
        expect(sessions.locator("#sessions .name")).to_have_count(1)
        expect(usage.locator(".empty")).to_be_visible()
        expect(asked.locator("#sessions .name")).to_have_count(1)
        door.close()
        looking.close()


def test_what_could_not_be_read_is_read_when_the_state_server_is_back(
    project: Path, browser: Browser, state_server: Server
):
    """Also where nothing changes afterwards, and the stream of events was there all the time."""
    with (
        Maestro(project, redis_url=state_server.url) as maestro,
        serving(project, env={"MAESTRO_REDIS_URL": state_server.url}) as server,
    ):
        maestro.sessions.start("fix-login")
        looking = Looking(browser, server)
        usage, health = looking.open("/usage"), looking.open("/health")
        expect(usage.locator(".empty")).to_be_visible()
        expect(health.locator("#sums")).to_have_text(re.compile("all is well|to look at"))
        state_server.kill()
        usage.get_by_role("button", name="7 days").click()
        expect(usage.get_by_role("alert")).to_contain_text("cannot reach")
        look_now(health)
        expect(health.locator("#sums")).to_have_text(re.compile("not all could be asked|to look at"))
        look_now(usage)
        expect(usage.locator("line-state")).to_have_text(AWAY)
        state_server.start()
        expect(usage.locator(".empty")).to_be_visible()
        expect(health.locator(".figures")).to_be_visible()
        looking.close()


class Unanswered:
    """What a page asks and nobody answers, until it is mended."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page, self._lost, self._is_mended = page, list[Route](), False
        page.clock.install()
        page.route(re.compile(pattern), self._pass_on)

    def _pass_on(self, route: Route) -> None:
        if self._is_mended:
            route.continue_()
        else:
            self._lost.append(route)

    def wait_for(self) -> None:
        """Wait until something was asked; then mend it, long afterwards. What was asked before is never answered."""
        # Asking the page something is what has Playwright hand over what the page asked.
        wait_until(lambda: self._page.evaluate("true") and bool(self._lost), "the page asked")
        self._is_mended = True
        self._page.clock.fast_forward(61_000)


@pytest.mark.parametrize("unanswered", ["/timeline", "/v1/sessions/[^/]+$", "/v1/.*events"])
def test_an_answer_that_never_comes_is_not_waited_for(rig: Rig, unanswered: str):
    """Over a line that nobody cut, of a server that hangs: it is asked anew, and the page goes on."""
    session_id = rig.session()
    rig.maestro.messages.add("user", "still here", session_id)
    page = rig.look("/health")
    expect(page.locator("line-state")).to_have_text("live")
    asked = Unanswered(page, unanswered)
    page.goto(f"{rig.server.url}/sessions/{session_id}")
    asked.wait_for()
    expect(page.locator("line-state")).to_have_text("live")
    rig.maestro.messages.add("user", "and later", session_id)
    expect(page.locator(".message")).to_have_count(2)
    expect(page.locator("#state .chip")).to_contain_text("iniciada")
    page.unroute_all(behavior="ignoreErrors")


def test_whoever_reads_is_told_that_no_answer_comes(rig: Rig):
    """Every screen reads so, the list its figures too: what is read one after the other goes on with the next."""
    rig.session()
    page = rig.look()
    expect(page.locator("line-state")).to_have_text("live")
    asked = Unanswered(page, "/v1/overview")
    page.evaluate("""() => {
        import("/static/api.js").then(api => api.get("/v1/overview")).catch(error => { window.told = error.code; });
    }""")
    asked.wait_for()
    wait_until(lambda: page.evaluate("window.told") == "away", "it is told")
    look_now(page)
    expect(page.locator("#sums")).to_have_text(re.compile("1 live"))
    page.unroute_all(behavior="ignoreErrors")


def test_a_line_that_went_silent_is_told_and_caught_up_with(rig: Rig):
    """As on a laptop that slept: nobody ended the connection, and nothing comes over it any more."""
    session_id = rig.session()
    rig.maestro.messages.add("user", "before", session_id)
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator("line-state")).to_have_text("live")
    rig.server.process.send_signal(signal.SIGSTOP)
    try:
        rig.maestro.messages.add("user", "meanwhile", session_id)
        expect(page.locator("line-state")).to_have_text(AWAY)
    finally:
        rig.server.process.send_signal(signal.SIGCONT)
    expect(page.locator("line-state")).to_have_text("live")
    rig.maestro.messages.add("user", "after", session_id)
    expect(page.locator(".message")).to_have_count(3)
    assert texts(page) == ["before", "meanwhile", "after"]
