"""Where things are on the page: nothing is torn, covered or pushed away, on a desk, a small screen and a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from maestro_state import Maestro
from tests.reach.page_rig import Rig, rigged

DESK, SMALL, PHONE = 1440, 1024, 390


def box(found: Locator) -> dict[str, float]:
    """Return where an element is."""
    edges: dict[str, float] = found.evaluate("one => one.getBoundingClientRect().toJSON()")
    return edges


@pytest.mark.parametrize("width", [DESK, 1200, SMALL])
def test_a_sessions_name_is_not_cut_for_what_is_beside_it(rig: Rig, width: int):
    """The columns are as wide as what is in them, and the same in every row; what is left is the name's."""
    for name in ("fix-the-first-login", "speed-up-search"):
        rig.session(name, tool="claude")
    rig.maestro.sessions.end(rig.session("over"))
    page = rig.look(viewport={"width": width, "height": 800})
    expect(page.locator("#sessions .name[data-step]")).to_have_count(3)
    assert page.locator(".name").evaluate_all("all => all.map(one => one.scrollWidth > one.clientWidth)") == [False] * 3
    for column in (".chip.state", ".toolcell", ".user"):
        lefts = page.locator(f".row {column}").evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
        assert len(set(lefts)) == 1, f"{column} is not one column"


@pytest.mark.parametrize("width", [DESK, SMALL, PHONE])
def test_what_sends_is_on_one_line(rig: Rig, width: int):
    """Say and Run are beside each other, at the end of the box, and what can be done with the session in one row."""
    page = rig.look(f"/sessions/{rig.session()}", viewport={"width": width, "height": 800})
    expect(page.get_by_label("Tool", exact=True).locator("option").first).to_be_attached()
    say, run = (box(page.get_by_role("button", name=name, exact=True)) for name in ("Say", "Run"))
    assert say["top"] == run["top"]
    assert box(page.locator("ask-box .box"))["right"] - run["right"] < 16
    expect(page.locator("#actions button").first).to_be_attached()
    buttons = page.locator("#actions button:visible")
    tops = buttons.evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    assert len(set(tops)) == 1
    if width == SMALL:
        assert box(page.locator("#actions"))["top"] < box(page.locator("h1"))["bottom"], "they have a row of their own"


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_way_to_the_newest_covers_nothing_one_writes(rig: Rig, width: int):
    """However much somebody wrote already."""
    session_id = rig.session()
    rig.fill(session_id, 60)
    page = rig.look(f"/sessions/{session_id}", viewport={"width": width, "height": 800})
    expect(page.locator(".message").last).to_contain_text("message 59")
    page.get_by_label("What to ask").fill("a line\n" * 20)
    page.locator("[role=log]").evaluate("box => { box.scrollTop = 0; }")
    newest = page.get_by_role("button", name="Newest")
    expect(newest).to_be_visible()
    above = box(page.locator("ask-box .box"))["top"] - box(newest)["bottom"]
    assert 0 <= above < 48


def test_words_in_a_wide_table_stay_whole(rig: Rig):
    """It scrolls by itself; the page does not."""
    session_id = rig.session()
    cells = " | ".join(f"consequence-{number}" for number in range(14))
    rig.maestro.messages.add("assistant", f"| {cells} |\n|{' - |' * 14}\n| {cells} |", session_id)
    page = rig.look(f"/sessions/{session_id}", viewport={"width": PHONE, "height": 800})
    expect(page.locator(".prose td")).to_have_count(14)
    lines = """all => all.map((one) => {
        const range = document.createRange();
        range.selectNodeContents(one);
        return new Set([...range.getClientRects()].map((rect) => rect.top)).size;
    })"""
    assert set(page.locator(".prose :is(td, th)").evaluate_all(lines)) <= {1, 2}, "words are torn apart"
    assert page.locator(".prose .scrolls").evaluate("one => one.scrollWidth > one.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_frame_stays_as_it_is_when_the_line_breaks(rig: Rig):
    """On a phone too there is room for what is said then."""
    page = rig.look(viewport={"width": PHONE, "height": 800})
    expect(page.locator("line-state")).to_have_text("live")
    before = box(page.locator(".top"))["height"]
    rig.server.kill()
    expect(page.locator("line-state")).to_have_text("server away, trying again")
    assert box(page.locator(".top"))["height"] == before


def test_who_signed_in_has_the_same_frame_on_a_phone(project: Path, browser: Browser):
    """With all that it then says: one row of signs, one of screens."""
    with rigged(project, browser, "--require-auth") as rig:
        with Maestro(project) as maestro:
            token = maestro.tokens.add("somebody-with-a-long-name", role="read").token
        page = rig.look(viewport={"width": PHONE, "height": 800})
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_text("read only")).to_be_visible()
        expect(page.locator("line-state")).to_have_text("live")  # its styles are there then, too
        tops = page.locator(".top > :not(nav):visible").evaluate_all(
            "all => all.map((one) => { const box = one.getBoundingClientRect(); return (box.top + box.bottom) / 2; })"
        )
        assert max(tops) - min(tops) < 8, "the signs at the top are in more than one row"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_long_names_stay_where_they_belong(rig: Rig):
    """Of a tool, a run, a work session: whatever somebody called it, the screen does not become wider."""
    session_id, name = rig.session(), "x" * 300
    for role in ("user", "assistant"):
        rig.maestro.messages.add(role, "said", session_id, metadata={"tool": name, "run": name})
    rig.maestro.work.start("task", related_entity={"name": name})
    for width in (DESK, PHONE):
        page = rig.look(f"/sessions/{session_id}", viewport={"width": width, "height": 800})
        expect(page.locator(".message")).to_have_count(2)
        is_wider = page.locator(".message").evaluate_all("all => all.map(one => one.scrollWidth > one.clientWidth)")
        assert is_wider == [False, False], f"with {width} pixels"
        assert box(page.locator(".message > header").first)["height"] < 96, "its tool takes more than a line"
        page.goto(f"{rig.server.url}/work")
        expect(page.locator(".tree .node button")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"with {width} pixels"


@pytest.mark.parametrize("width", [720, 320])
def test_everything_is_in_sight_twice_and_four_times_as_large(rig: Rig, width: int):
    """A desk's screen has half the room then, or a quarter: every screen can be chosen, none scrolls to the side."""
    session_id, parent = rig.session(tool="claude"), None
    for depth in range(6):
        parent = rig.maestro.work.start("step", parent=parent, related_entity={"name": f"Deeper {depth}"}).session_id
    page = rig.look(viewport={"width": width, "height": 640})
    for path in ("/", f"/sessions/{session_id}", "/work", "/discussions", "/usage", "/health"):
        page.goto(rig.server.url + path)
        expect(page.locator("line-state")).to_have_text("live")
        if path == "/work":
            expect(page.locator(".tree li .node")).to_have_count(6)
        for what, box in (("the page", "document.documentElement"), ("its screens", "document.querySelector('nav')")):
            if what == "the page" or width == 720:
                assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth"), f"{what}: {path}"
