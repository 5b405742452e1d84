"""Who looks at the page, signed in or only reading, and what they wrote when the line broke at the wrong moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from maestro_state import Maestro
from tests.reach.page_rig import Rig, rigged, texts, violations
from tests.support.waiting import wait_until


def test_who_may_only_read_is_offered_nothing_else(project: Path, browser: Browser):
    """Neither by a server that only reads nor by a token that does; everything can be looked at and taken along."""
    with rigged(project, browser, "--read-only") as rig:
        session_id = rig.session()
        rig.maestro.messages.add("user", "look", session_id)
        page = rig.look(f"/sessions/{session_id}")
        expect(page.locator("#actions button")).to_have_text(["Details", "Export"])
        expect(page.get_by_role("region", name="Context")).to_contain_text("Nothing was sent along")
        expect(page.locator(".message")).to_have_count(1)  # asked for apart from what is beside it
        assert page.locator("ask-box, .panels button").count() == 0
        assert texts(page) == ["look"]
        page.goto(f"{rig.server.url}/")
        expect(page.locator("line-state")).to_have_text("live")
        expect(page.get_by_text("read only")).to_be_visible()
        assert page.get_by_role("button", name="New session").count() == 0


def test_where_nothing_can_be_said_nobody_is_told_to_say_something(project: Path, browser: Browser):
    """A session that is over, and one that is only looked at: what to type is told where it does something."""
    with rigged(project, browser, "--read-only") as rig:
        over, live = rig.session("over"), rig.session("live")
        rig.maestro.sessions.end(over)
        page = rig.look()
        for session_id, told in ((over, "Nothing was said"), (live, "Nothing was said yet")):
            page.goto(f"{rig.server.url}/sessions/{session_id}")
            expect(page.locator(".empty")).to_have_text(told)


def test_who_signed_in_is_named_and_can_sign_out(project: Path, browser: Browser):
    """A token that only reads signs in too; afterwards its cookie opens nothing."""
    with rigged(project, browser, "--require-auth") as rig:
        with Maestro(project) as maestro:
            token = maestro.tokens.add("ana", role="read").token
        page = rig.look()
        assert page.locator("nav, line-state").count() == 0
        expect(page.get_by_label("Token")).to_be_focused()
        assert violations(page) == []
        page.keyboard.type(token)
        page.keyboard.press("Enter")
        expect(page.get_by_text("read only")).to_be_visible()
        expect(page.locator("line-state")).to_have_text("live")  # from then on its buttons do something
        cookies = page.context.cookies()
        page.get_by_role("button", name="Sign out ana").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.context.add_cookies(cookies)  # type: ignore[arg-type]
        page.goto(rig.server.url)
        expect(page.get_by_label("Token")).to_be_visible()


def test_a_link_that_was_used_already_hides_nothing(rig: Rig):
    """The code of `serve --open` counts once; who opens the link again sees the list all the same."""
    rig.session("still-there")
    page = rig.look("/#signin=used-already")
    expect(page.locator("line-state")).to_have_text("live")
    expect(page.locator("#sessions .name[data-step]")).to_have_count(1)
    assert page.url == f"{rig.server.url}/"


def test_a_link_of_another_site_leads_here_by_a_second_click(rig: Rig):
    """What comes from elsewhere is refused, with a page that says so and leads to what was meant."""
    session_id = rig.session()
    path = f"/sessions/{session_id}"
    page = rig.look("/")
    page.goto("about:blank")
    page.set_content(f'<a href="{rig.server.url}{path}">look at this</a>')
    page.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Opened from another site")
    assert page.get_by_role("log").count() == 0
    assert violations(page) == []
    page.get_by_role("link", name=path).click()
    expect(page.get_by_role("log")).to_be_visible()


def test_an_address_that_leads_nowhere_is_answered_with_a_page(rig: Rig):
    """For a person, who can go on from there; a program is told what it is told everywhere."""
    page = rig.look("/session/mistyped")
    expect(page.locator(".alert")).to_have_text("There is no page at this address.")
    assert violations(page) == []
    page.get_by_role("link", name="All sessions").click()
    expect(page.locator("line-state")).to_have_text("live")
    with rig.server.client() as client:
        assert client.get("/session/mistyped").json()["error"]["code"] == "not_found"


def test_what_one_began_to_write_is_there_again(rig: Rig):
    """After the page was loaded anew; and not after it was said."""
    page = rig.look(f"/sessions/{rig.session()}")
    page.get_by_label("What to ask").fill("half a thought")
    page.reload()
    expect(page.get_by_label("What to ask")).to_have_value("half a thought")
    expect(page.locator("line-state")).to_have_text("live")
    page.get_by_role("button", name="Say").click()
    expect(page.get_by_label("What to ask")).to_have_value("")
    page.reload()
    expect(page.locator(".message")).to_have_count(1)
    expect(page.get_by_label("What to ask")).to_have_value("")


@pytest.mark.parametrize("meanwhile", ["waited", "loaded the page again"])
def test_a_second_try_says_it_once(rig: Rig, meanwhile: str):
    """The server took it and the answer was lost: who presses the button again has said it once.

    The control: the same words, said anew after an answer, are said again.
    """
    session_id = rig.session()
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator("line-state")).to_have_text("live")

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    say(page, lose)
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    if meanwhile != "waited":
        page.reload()
        expect(page.locator("line-state")).to_have_text("live")
    expect(page.get_by_label("What to ask")).to_have_value("only once")
    page.get_by_role("button", name="Say").click()
    expect(page.get_by_label("What to ask")).to_have_value("")
    assert [one.content for one in rig.maestro.messages.last(9, session_id)] == ["only once"]
    say(page)
    expect(page.locator(".message")).to_have_count(2)


@pytest.mark.parametrize("instead", ["", "something else"])
def test_what_was_given_up_is_no_second_try(rig: Rig, instead: str):
    """The answer was lost, and one saw that it was said: who empties the box, or says something else, says it anew."""
    session_id = rig.session()
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator("line-state")).to_have_text("live")

    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    say(page, lose)
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.get_by_label("What to ask").fill(instead)
    if instead:
        page.get_by_role("button", name="Say").click()
        expect(page.get_by_label("What to ask")).to_have_value("")
    say(page)
    expect(page.get_by_label("What to ask")).to_have_value("")
    said = [one.content for one in rig.maestro.messages.last(9, session_id)]
    assert said == ["only once", *([instead] if instead else []), "only once"]


def test_who_is_faster_than_the_server_says_it_here(rig: Rig):
    """The page is there before it knows anything of the session: what is sent then is said in this one."""
    session_id = rig.session()
    page = rig.look()
    held: list[Route] = []
    page.route(f"**/v1/sessions/{session_id}", lambda route: held.append(route), times=1)
    page.goto(f"{rig.server.url}/sessions/{session_id}")
    page.get_by_label("What to ask").fill("first")
    page.get_by_role("button", name="Say").click()
    expect(page.get_by_label("What to ask")).to_have_value("")
    assert [one.content for one in rig.maestro.messages.last(9, session_id)] == ["first"]
    # Asking the page something is what has Playwright hand over what the page asked.
    wait_until(lambda: page.evaluate("true") and held, "the page asked for the session")
    for route in held:
        route.continue_()
    expect(page.locator(".message")).to_have_count(1)


def say(page: Page, lose: object = None) -> None:
    """Say something, for which the line may be made to break."""
    if lose is not None:
        page.route("**/messages", lose, times=1)  # type: ignore[arg-type]
    page.get_by_label("What to ask").fill("only once")
    page.get_by_role("button", name="Say").click()
