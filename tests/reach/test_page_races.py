"""Answers and events that reach a real browser late, or in another order than they were made: the newest is shown."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.reach.page_rig import Rig
from tests.support.waiting import wait_until


def test_a_list_that_is_older_than_an_event_takes_nothing_away(rig: Rig):
    """A session that began while the list was on its way stays; what the list alone has comes."""
    over = rig.session("over")
    rig.maestro.sessions.end(over)
    page = rig.look("/health")
    held = _hold(page, re.compile(r"/v1/sessions$"))
    page.goto(rig.server.url)
    _wait_for(page, held, 1)
    old = held[0].fetch()
    late = rig.session("late")
    expect(page.locator(f'a[href="/sessions/{late}"]')).to_be_visible()
    held[0].fulfill(response=old)
    # Looked at in the very frame that has what only the list tells.
    shown = page.wait_for_function("""over => {
        const links = [...document.querySelectorAll("#sessions .name")].map(one => one.getAttribute("href"));
        return links.includes("/sessions/" + over) && links;
    }""", arg=over).json_value()  # fmt: skip
    assert sorted(shown) == sorted([f"/sessions/{over}", f"/sessions/{late}"])


def test_an_event_that_is_older_than_what_was_read_brings_nothing_back(rig: Rig):
    """It is on its way here while the list already tells what came after it."""
    first = rig.session("first")
    row = next(one.document() for one in rig.maestro.sessions.list() if one.id == first)
    older = row | {"state": "executando", "updated_at": "2020-01-01T00:00:00.000Z"}
    other = row | {"id": "another--0000", "slug": "another"}
    page = rig.look("/health")
    streams = _hold(page, "**/v1/events*")
    page.goto(rig.server.url)
    _wait_for(page, streams, 1)
    streams[0].fulfill(body=_stream(), content_type="text/event-stream")  # it ends at once, and is asked for again
    expect(page.locator("#sums")).to_have_text(re.compile("1 live"))
    _wait_for(page, streams, 2)
    _hold(page, re.compile(r"/v1/(overview.*|sessions)$"))  # nobody reads it again
    streams[1].fulfill(body=_stream(older, other), content_type="text/event-stream")
    expect(page.locator("#sessions .row")).to_have_count(2)
    expect(page.locator(".row", has_text="first").locator(".chip.state")).to_have_text(re.compile("iniciada started"))
    page.unroute_all(behavior="ignoreErrors")


def test_a_change_that_was_made_by_a_server_that_stopped_is_made_once(rig: Rig):
    """It was done, and the answer was that nobody knows: a second try is the same request."""
    session_id = rig.session()
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator("line-state")).to_have_text("live")
    lost: list[Any] = []

    def stop(route: Route) -> None:
        lost.append(route.fetch().status)
        error = {"code": "stopping", "message": "the server stops", "hint": "ask again"}
        route.fulfill(status=503, json={"error": error})

    page.route("**/messages", stop, times=1)
    page.get_by_label("What to ask").fill("say it once")
    page.get_by_role("button", name="Say").click()
    expect(page.locator("ask-box .alert")).to_contain_text("the server stops")
    page.get_by_role("button", name="Say").click()
    expect(page.get_by_label("What to ask")).to_have_value("")
    assert lost == [201]
    assert [one.content for one in rig.maestro.messages.last(9, session_id)] == ["say it once"]


def test_of_two_times_the_one_chosen_last_is_shown(rig: Rig):
    """However long the figures of the other one take."""
    page = rig.look("/usage")
    expect(page.locator(".empty")).to_be_visible()
    held = _hold(page, re.compile(r"/v1/usage\?.*since=7d"))
    page.get_by_role("button", name="7 days").click()
    _wait_for(page, held, 4)
    page.get_by_role("button", name="90 days").click()
    expect(page.get_by_role("button", name="90 days")).to_have_attribute("aria-pressed", "true")
    for route in held:
        answer = route.fetch().json()
        route.fulfill(json=answer | {"total": answer["total"] | {"cost": 77.0}})
    page.evaluate("() => fetch('/v1/health').then(() => new Promise(requestAnimationFrame))")
    expect(page.locator("#sums")).to_contain_text("$0.00")


def test_who_types_before_the_list_is_there_is_not_told_that_there_is_none(rig: Rig):
    """What was typed counts when it comes."""
    rig.session("fix-login")
    rig.session("dark-mode")
    page = rig.look("/health")
    held = _hold(page, "**/v1/overview*")
    page.goto(rig.server.url)
    _wait_for(page, held, 1)
    page.get_by_role("searchbox").fill("dark")
    assert page.locator(".empty").count() == 0
    expect(page.locator("#sessions .name")).to_have_count(2)
    held[0].continue_()
    expect(page.locator("#sessions .name")).to_have_count(1)
    page.unroute_all(behavior="ignoreErrors")


def test_what_was_asked_before_a_session_was_deleted_brings_nothing_back(rig: Rig):
    """Its answer comes when the page knows already that there is nothing to do with it any more."""
    session_id = rig.session()
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator("line-state")).to_have_text("live")
    held = _hold(page, re.compile(rf"/v1/sessions/{session_id}$"))
    page.evaluate("document.dispatchEvent(new Event('tick'))")
    _wait_for(page, held, 1)
    old = held[0].fetch()
    rig.maestro.sessions.delete(session_id)
    expect(page.locator("#state")).to_have_text("deleted")
    held[0].fulfill(response=old)
    page.evaluate("() => fetch('/v1/health').then(() => new Promise(requestAnimationFrame))")
    expect(page.locator("#state")).to_have_text("deleted")
    expect(page.locator("#actions button")).to_have_count(0)


def _hold(page: Page, pattern: str | re.Pattern[str]) -> list[Route]:
    """Return the requests that nobody answers from now on, but for who takes them from here."""
    held: list[Route] = []
    page.route(pattern, lambda route: held.append(route))
    return held


def _wait_for(page: Page, held: list[Route], count: int) -> None:
    # Asking the page something is what has Playwright hand over what the page asked.
    wait_until(lambda: page.evaluate("true") and len(held) >= count, f"the page asked {count} times")


def _stream(*rows: dict[str, Any]) -> str:
    events = (json.dumps({"type": "session.changed", "data": row}) for row in rows)
    return "retry: 1000\n\n" + "".join(f"event: session.changed\ndata: {event}\n\n" for event in events)
