"""The list of sessions in a real browser: live, filtered, searched, by keys, and what it says when there is none."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, Route, expect

from maestro_state import Maestro, record
from maestro_state.models.claim import Ended
from tests.reach.page_rig import Rig, look_now, working
from tests.support.browser import Watched
from tests.support.served import serving


def names(page: Page) -> list[str]:
    """Return the sessions that are shown, from the top down."""
    return page.locator("#sessions .name").evaluate_all("all => all.map(one => one.firstChild.textContent)")


def test_an_empty_list_says_what_to_type(rig: Rig):
    """A newcomer is told the command."""
    page = rig.look()
    expect(page.locator(".empty code")).to_have_text("maestro session start fix-login")


def test_a_folder_in_which_nothing_began_waits_for_its_first_session(project: Path, browser: Browser):
    """Nothing is wrong there: the line is live, every screen says what to type, and the first session appears."""
    with serving(project) as server:
        page = browser.new_page()
        watched = Watched(page, server.url)
        failed: list[str] = []
        page.on("response", lambda answer: failed.append(answer.url) if not answer.ok else None)
        for path in ("/work", "/discussions", "/usage", "/health", "/"):
            page.goto(server.url + path)
            expect(page.locator("line-state")).to_have_text("live")
            expect(page.locator(".fix code" if path == "/health" else ".empty code").first).to_be_visible()
        assert not (project / ".maestro").exists(), "looking makes nothing"
        with Maestro(project) as maestro:
            maestro.sessions.start("the-first")
            expect(page.locator("#sessions .name")).to_have_count(1)
        assert (watched.errors, watched.elsewhere, failed) == ([], [], [])
        assert len(watched.streams) == 5
        page.context.close()


def test_a_session_that_begins_elsewhere_appears(rig: Rig):
    """By one stream; its row is a link, with the state as it is stored and what that means."""
    first = rig.session("first")
    page = rig.look()
    expect(page.locator(f'a[href="/sessions/{first}"]')).to_be_visible()
    expect(page.locator("line-state")).to_have_text("live")
    second = rig.session("second", tool="codex")
    row = page.locator(".row", has=page.locator(f'a[href="/sessions/{second}"]'))
    expect(row.locator(".chip.state")).to_have_text(re.compile("iniciada started"))
    expect(row.locator("[data-tool=codex]")).to_have_text("codex")
    rig.maestro.sessions.delete(second)
    expect(row).to_have_count(0)
    assert len(rig.watched[0].streams) == 1


def test_live_ones_come_first_with_tool_cost_and_activity(rig: Rig):
    """What ended is below; what a run cost is told with the tool that was asked."""
    over, live = rig.session("over"), rig.session("live", tool="claude")
    with working(rig):
        rig.ask("say something", live)
    rig.maestro.sessions.end(over)
    page = rig.look()
    expect(page.locator(".divider")).to_have_text("Ended and archived")
    assert names(page) == ["live", "over"]
    row = page.locator(".row").first
    expect(row.locator(".today")).to_have_text(re.compile(r"\$0\.00"))
    expect(row.locator("svg[role=img]")).to_have_attribute("aria-label", re.compile(r"[1-9]\d* changes"))
    expect(page.locator("#sums")).to_have_text(re.compile(r"1 live · 0 running · \$0\.0"))
    expect(row.locator(".said")).to_have_text("say something")  # what was asked last


def test_what_the_newest_cost_is_not_told_as_all(rig: Rig):
    """More were active today than are asked for their figures: it is said that it is a part."""
    rig.session()
    page = rig.look()
    expect(page.locator("#sums")).to_have_text("1 live · 0 running · $0.00 today")

    def tell_of_more(route: Route) -> None:
        document = route.fetch().json()
        route.fulfill(json=document | {"total": document["total"] + 1})

    page.route("**/v1/overview*", tell_of_more)
    look_now(page)
    expect(page.locator("#sums")).to_have_text("1 live · 0 running · $0.00 or more today")
    page.unroute_all(behavior="wait")  # the page asks now and then, also while it is closed


def test_a_run_whose_end_is_not_in_the_list_is_not_shown_as_running_for_ever(rig: Rig):
    """Who ended it was killed before the list had it, and nobody sweeps: the page looks at the session itself."""
    session_id = rig.session(tool="claude")
    run = rig.maestro.runs.start("p", session_id)
    claim = rig.maestro.claims.claim(session_id, run.id, "worker")
    page = rig.look()
    expect(page.locator("#sums")).to_have_text(re.compile("1 live · 1 running"))
    expect(page.locator("line-state")).to_have_text("live")
    rig.maestro.server.index = lambda *_, **__: True  # killed before that
    rig.maestro.claims.finish(claim, Ended(status="success", size=0))
    assert [row.state for row in rig.maestro.sessions.list()] == ["executando"]
    look_now(page)
    expect(page.locator("#sums")).to_have_text(re.compile("1 live · 0 running"))


def test_a_tool_that_says_nothing_for_a_while_is_not_idle(rig: Rig):
    """Nothing was said for long in either session; in one of them a tool is at work."""
    rig.session("waits")
    rig.maestro.runs.start("p", rig.session("works", tool="claude"))

    def age(route: Route) -> None:
        document = route.fetch().json()
        document["sessions"] = [row | {"status": "idle"} for row in document["sessions"]]
        route.fulfill(json=document)

    page = rig.look("/health")
    page.route("**/v1/overview*", age)
    page.goto(rig.server.url)
    expect(page.locator(".row", has_text="waits").locator(".chip.state")).to_have_text("iniciada started · idle")
    expect(page.locator(".row", has_text="works").locator(".chip.state")).to_have_text("executando running")
    page.unroute_all(behavior="wait")  # the page asks now and then, also while it is closed


def test_a_row_of_a_session_that_is_no_more_goes(rig: Rig):
    """Who deleted it was killed before the list had it, and nobody sweeps: the page looks at the session itself, also
    when it is opened anew.
    """
    kept, deleted = rig.session("kept"), rig.session("deleted")
    page = rig.look()
    expect(page.locator("#sessions .name[data-step]")).to_have_count(2)
    expect(page.locator("line-state")).to_have_text("live")
    rig.maestro.server.unindex = lambda *_, **__: None  # killed before that
    rig.maestro.sessions.delete(deleted)
    for again in (lambda: look_now(page), page.reload):
        again()
        expect(page.locator("#sums")).to_have_text(re.compile("^1 live"))
        expect(page.locator("#sessions .name[data-step]")).to_have_attribute("href", f"/sessions/{kept}")


def test_where_no_tool_was_chosen_the_one_that_was_asked_is_shown(rig: Rig):
    """Agents of one's own choose none, and tell who they are."""
    with record("mine", agent="triage", maestro=rig.maestro) as recorder:
        recorder.user("why does the login fail?")
    page = rig.look()
    expect(page.locator(".row .toolcell")).to_have_text("triage")
    page.locator("#search").fill("triage")
    expect(page.locator("#sessions .name[data-step]")).to_have_count(1)


def test_the_longest_state_leaves_the_tool_its_place(rig: Rig):
    """On a wide screen and a narrow one: no column is written over another."""
    rig.session("first", tool="claude")
    for width in (1440, 1280, 980, 840, 390):
        page = rig.look(viewport={"width": width, "height": 700})
        chip = page.locator(".row .chip.state")
        expect(chip).to_contain_text("iniciada")
        chip.evaluate("one => { one.lastChild.textContent = ' has context · expired'; }")
        chip.locator("b").evaluate("one => { one.textContent = 'com_contexto'; }")
        state, tool = (page.locator(place).evaluate("one => one.getBoundingClientRect().toJSON()")
                       for place in (".row .chip.state", ".row .toolcell"))  # fmt: skip
        assert state["right"] <= tool["left"] or state["bottom"] <= tool["top"], f"with {width} pixels"
        is_cut = "one => one.scrollWidth > one.clientWidth + 1"
        assert not chip.evaluate(is_cut), f"the state is cut with {width} pixels"


def test_of_a_long_name_the_end_is_kept(rig: Rig):
    """It is what tells two sessions of the same name apart; on a desk and on a phone."""
    session_id = rig.session("x" * 60)
    for width in (1280, 390):
        page = rig.look(viewport={"width": width, "height": 700})
        name = page.locator("#sessions .name[data-step]")
        expect(name.locator("small")).to_have_text(session_id[60:])
        ends = name.evaluate("one => [one, one.lastChild].map(each => each.getBoundingClientRect().right)")
        assert ends[1] <= ends[0], f"the end is cut with {width} pixels"
        expect(name.locator("span")).to_have_css("text-overflow", "ellipsis")


def test_typing_filters_and_searches(rig: Rig):
    """Rows at once, what was said in all sessions soon after; states by a click."""
    login = rig.session("fix-login")
    rig.session("dark-mode")
    rig.maestro.messages.add("user", "the zebra crossed the road", login)
    page = rig.look()
    expect(page.locator("#sessions .name")).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("dark")
    expect(page.locator("#sessions .name")).to_have_count(1)
    page.locator("#search").fill("zebra")
    expect(page.locator("#found")).to_contain_text("the zebra crossed the road")
    expect(page.locator("#found a")).to_have_attribute("href", re.compile(f"/sessions/{login}#at=.*"))
    page.locator("#search").fill("")
    rig.maestro.sessions.end(login)
    page.get_by_role("button", name="ended").click()
    expect(page.locator("#sessions .name")).to_have_count(1)
    expect(page.get_by_role("button", name="ended")).to_be_focused()
    rig.maestro.sessions.end(rig.session("another"))
    expect(page.locator("#sessions .name")).to_have_count(2)
    expect(page.get_by_role("button", name="ended")).to_be_focused()


def test_who_comes_back_from_a_result_finds_the_others_again(rig: Rig):
    """What was searched for is in the address; so is nothing, when nothing is."""
    session_id = rig.session("fix-login")
    for road in ("road", "river"):
        rig.maestro.messages.add("user", f"the zebra crossed the {road}", session_id)
    page = rig.look()
    page.locator("#search").fill("zebra")
    page.locator("#found a").first.click()
    page.wait_for_url("**/sessions/**")
    page.go_back()
    expect(page.locator("#search")).to_have_value("zebra")
    expect(page.locator("#found li")).to_have_count(2)
    page.locator("#search").fill("")
    page.wait_for_url(f"{rig.server.url}/")
    expect(page.locator("#sessions .name[data-step]")).to_have_count(1)


def test_keys_lead_through_the_page(rig: Rig):
    """j and k along the rows, Enter opens, ? explains, Esc goes out, g and a letter to another screen."""
    rig.session("one")
    two = rig.session("two")
    page = rig.look()
    expect(page.locator("#sessions .name[data-step]")).to_have_count(2)  # those of the script, which keys move along
    for key in "jjk":
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.firstChild.textContent") == "two"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next, previous")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sessions/{two}")
    page.keyboard.press("g")
    page.keyboard.press("u")
    page.wait_for_url("**/usage")


def test_dark_or_light_is_remembered(rig: Rig):
    """As the system is, until somebody chooses; then as chosen, on every page."""
    page = rig.look(color_scheme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Dark or light").click()
    light = page.evaluate(ground)
    assert dark != light
    page.goto(f"{rig.server.url}/usage")
    assert page.evaluate(ground) == light


def test_a_session_is_started_from_here(rig: Rig):
    """And shown at once; a name that is none is refused with what to do, and nothing is lost."""
    page = rig.look()
    page.get_by_role("button", name="New session").click()
    page.get_by_label("Name").fill("///")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Name").fill("from-the-page")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/sessions/from-the-page--*")
    assert [row.slug for row in rig.maestro.sessions.list()] == ["from-the-page"]


def test_a_token_is_exchanged_at_the_door(project, browser):
    """Without one the page asks for it; a wrong one is refused with a word."""
    from tests.reach.page_rig import rigged

    with rigged(project, browser, "--require-auth") as rig:
        session_id = rig.session()
        with Maestro(project) as maestro:
            token = maestro.tokens.add("ana").token
        page = rig.look(f"/sessions/{session_id}")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("This token does not count")).to_be_visible()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("log")).to_be_visible()
        page.get_by_label("What to ask").fill("hello from ana")
        page.get_by_role("button", name="Say").click()
        expect(page.locator(".message")).to_contain_text("hello from ana")
        assert rig.maestro.messages.last(1, session_id)[0].user == "ana"
