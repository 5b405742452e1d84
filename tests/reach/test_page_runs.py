"""Runs in the page: what they print and cost, and how they are ended from there."""

from __future__ import annotations

from playwright.sync_api import Route, expect

from tests.reach.page_rig import Rig, working


def test_a_cost_that_no_tool_told_is_not_zero(rig: Rig):
    """The tokens are shown without it; what a tool told is shown, also where that is nothing."""
    session_id = rig.session(tool="claude")
    with working(rig):
        rig.ask("say something", session_id)
    told: dict[str, float] = {}

    def tell(route: Route) -> None:
        document = route.fetch().json()
        del document["runs"][0]["usage"]["cost"]
        document["runs"][0]["usage"] |= told
        route.fulfill(json=document)

    page = rig.look()
    page.route(f"**/v1/sessions/{session_id}", tell)
    panel = page.get_by_role("region", name="Cost and tokens by run")
    page.goto(f"{rig.server.url}/sessions/{session_id}")
    expect(panel.locator("rect.a")).to_have_count(1)
    assert "$" not in panel.locator("h2").inner_text()
    told["cost"] = 0.0024
    page.reload()
    expect(panel.locator("rect.c")).to_have_count(1)
    lefts = panel.locator("svg, svg text").evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
    assert min(lefts) == lefts[0], "what is told beside the axis is outside of the plot"
    told["cost"] = 0.0
    page.reload()
    expect(panel.locator("h2")).to_contain_text("$0.00")
    page.unroute_all(behavior="wait")  # the page asks now and then, also while it is closed


def test_what_a_terminal_acts_on_is_left_out_also_in_pieces(rig: Rig):
    """A run prints a colour, and the line breaks in the middle of its code."""
    session_id = rig.session()
    tool = rig.workshop.tool(
        "painter",
        "import os, time\n"
        "for piece in (b'red: \\x1b[3', b'1mrose\\x1b[0m'):\n"
        "    os.write(1, piece)\n"
        "    while not os.path.exists('next'): time.sleep(0.02)\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n",
    )
    with working(rig):
        rig.maestro.runs.start("paint", session_id, tool=tool)
        page = rig.look(f"/sessions/{session_id}")
        expect(page.locator(".run .printed")).to_contain_text("red:")
        (rig.project / "next").touch()
        expect(page.locator(".run .printed")).to_have_text("red: rose")
        (rig.project / "go").touch()
        expect(page.locator(".run summary")).to_contain_text("success")


def test_a_run_is_canceled_from_here(rig: Rig):
    """The tool is ended, and the page says so."""
    session_id = rig.session(tool="claude")
    with working(rig):
        page = rig.look(f"/sessions/{session_id}")
        page.get_by_label("What to ask").fill("wait for-ever")
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".run .printed")).to_have_text("working on for-ever")
        page.get_by_role("button", name="Cancel run").click()
        expect(page.locator(".run summary")).to_contain_text("canceled")
        expect(page.get_by_role("region", name="Runs")).to_contain_text("canceled")
        assert page.get_by_role("region", name="Cost and tokens by run").count() == 0, "it told nothing"
    assert rig.maestro.runs.list(session_id)[0].status == "canceled"


def test_a_session_is_ended_together_with_a_run_that_began_meanwhile(rig: Rig):
    """Nothing ran when the page was opened: what is offered is what is right now."""
    session_id = rig.session(tool="claude")
    with working(rig):
        page = rig.look(f"/sessions/{session_id}")
        expect(page.get_by_role("region", name="Runs")).to_contain_text("None yet")
        rig.maestro.runs.start("wait for-ever", session_id, tool="claude")
        expect(page.get_by_role("region", name="Runs")).to_contain_text("wait for-ever")
        page.get_by_role("button", name="End", exact=True).click()
        page.get_by_label("cancel the runs that are open").check()
        page.get_by_role("button", name="End session").click()
        expect(page.locator("#state")).to_contain_text("finalizada ended")
        page.locator(".run summary").click()
        expect(page.get_by_role("button", name="Output…")).to_be_visible()
        assert page.get_by_role("button", name="Continue").count() == 0, "nothing goes on in a session that is over"
    assert rig.maestro.runs.list(session_id)[0].status == "canceled"
