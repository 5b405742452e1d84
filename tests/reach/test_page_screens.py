"""The other screens, every screen for those who do not see it, and what must never run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from maestro_state.models.work import breadcrumb_of
from maestro_state.models.work_names import stamp_of
from maestro_state.models.worker import Worker, WorkerTool
from tests.reach.page_rig import Rig, rigged, violations, working
from tests.support.browser import Watched
from tests.support.waiting import wait_until

SCREENS = ("/", "/work", "/discussions", "/usage", "/health")

HOSTILE = (
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "<svg onload='window.hit = 1'><script>window.hit = 1</script></svg>",
    "[a](javascript:window.hit=1) [b](data:text/html,<script>window.hit=1</script>) [c](JaVaScRiPt:window.hit=1)",
    '![i](x"onerror="window.hit=1)',
    "<iframe srcdoc='<script>parent.hit = 1</script>'></iframe>",
    "```<script>window.hit=1</script>\n<script>window.hit=1</script>\n```",
    "<a href='javascript:window.hit=1' id=x onclick='window.hit=1'>x</a>",
    "\x1b[31mred\x1b]0;title\x07 \u202egnirts lacirra\u202c",
    "x" * 100_000,
    "</div></article><h1 style='position:fixed'>over everything</h1>",
)


def fill(rig: Rig) -> str:
    """Make something for every screen to show; return the session."""
    session_id = rig.session("fix-login", tool="claude")
    (rig.project / "login.py").write_text("one\n")
    rig.maestro.context.add(str(rig.project / "login.py"), ref=session_id)
    (rig.project / "login.py").write_text("two\n")
    with working(rig):
        rig.ask(
            r"say Look:\n\n```python\ndef f(): return 'x'  # why\n```\n\n```diff\n-a\n+b\n```\n\n| a |\n| - |\n| 1 |",
            session_id,
        )
    rig.maestro.messages.add("tool", "called", session_id, tool_calls=[{"id": "1", "name": "Bash"}])
    rig.maestro.sessions.end(rig.session("over"))
    work = rig.maestro.work.start("task", related_entity={"name": "Login"})
    child = rig.maestro.work.start("phase", parent=work.session_id, related_entity={"name": "Cause"})
    crumb = {
        "prompt": "why?",
        "response": "so",
        "model_used": "m",
        "token_count": {"input": 5, "output": 7},
        "cost": 0.25,
    }
    made = breadcrumb_of(crumb, timestamp=stamp_of(1_700_000_000_000), breadcrumb_id="one", depth_level=1)
    rig.maestro.work.add_breadcrumb(child.session_id, made)
    rig.maestro.work.consume(child.session_id)
    discussion = rig.maestro.discussions.start(kind="track", ref="login")
    rig.maestro.discussions.say("Which **tasks**?", discussion.session_id)
    rig.maestro.discussions.done({"patch_operations": []}, discussion.session_id)
    return session_id


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_finds_nothing_on_any_screen(rig: Rig, scheme: str):
    """With and without dialogs, on a desk and on a phone."""
    session_id = fill(rig)
    found = {}
    for width in (1280, 390):
        page = rig.look(color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce")
        for path in (*SCREENS, f"/sessions/{session_id}", "/sessions/none--aaaaaa"):
            page.goto(rig.server.url + path)
            if path != "/sessions/none--aaaaaa":
                expect(page.locator("line-state")).to_have_text("live")
            if path in SCREENS[1:]:
                expect(page.locator("#content[aria-busy=false]")).to_be_attached()
            if path.endswith(session_id):
                expect(page.locator(".hl-k").first).to_be_attached()
                expect(page.locator("#actions button").first).to_be_attached()
            found[path, width] = violations(page)
            nav = page.locator("nav").evaluate("one => one.scrollWidth - one.clientWidth")
            assert nav <= 0, f"a screen is out of sight on {path} with {width} pixels"
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is {wide} pixels wider than the screen of {width}"
            page.keyboard.press("?")
            found[path, width, "keys"] = violations(page)
            page.keyboard.press("Escape")
    assert {place: what for place, what in found.items() if what} == {}


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_finds_nothing_in_dialogs_either(rig: Rig, scheme: str):
    """Each with what it shows when it is filled, and with a refusal in it."""
    session_id = fill(rig)
    found = {}
    page = rig.look(f"/sessions/{session_id}", color_scheme=scheme, reduced_motion="reduce")
    for name in ("Fork", "Export", "End", "Give up", "Add context"):
        page.get_by_role("button", name=name, exact=True).click()
        if name == "Add context":
            page.get_by_role("button", name="Add", exact=True).click()
            expect(page.get_by_role("alert")).to_contain_text("Name a file")
        found[name] = violations(page)
        page.keyboard.press("Escape")
    for region, row in (("Runs", "claude"), ("Context", "login.py")):
        page.get_by_role("region", name=region).get_by_role("button", name=row).first.click()
        expect(page.get_by_role("dialog").locator(".lines")).to_be_visible()
        found[region] = violations(page)
        page.keyboard.press("Escape")
    for path, row in (("/discussions", "#sessions .name"), ("/work", ".tree li button")):
        page.goto(rig.server.url + path)
        page.locator(row).first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        if path == "/discussions":
            expect(page.get_by_role("dialog")).to_contain_text("nothing is changed yet")
            expect(page.get_by_role("dialog").locator(".code").last).to_be_visible()
        found[path] = violations(page)
    assert {place: what for place, what in found.items() if what} == {}


def test_usage_work_discussions_and_health_are_shown(rig: Rig):
    """Plots with their numbers, a tree with what it cost together, a replay plan, checks."""
    fill(rig)
    page = rig.look("/usage")
    expect(page.get_by_role("figure", name="Cost by day")).to_be_visible()
    expect(page.locator(".third").first.locator("li")).to_contain_text(["claude"])
    days = page.get_by_role("figure", name="Cost by day").locator("tbody tr")
    expect(days).to_have_count(30)  # the time that was chosen, not only the days on which something ran
    page.set_viewport_size({"width": 1024, "height": 800})
    model = page.locator(".third .label", has_text="claude-opus-5")
    assert model.evaluate("one => one.scrollWidth <= one.clientWidth"), "the model's name is cut"
    page.get_by_role("button", name="7 days").click()
    expect(days).to_have_count(7)
    expect(page.locator("#sums")).to_contain_text("1 run")
    page.goto(f"{rig.server.url}/work")
    expect(page.locator(".tree li .node").first).to_contain_text("$0.2500")
    expect(page.locator(".tree ul ul .node")).to_contain_text("Cause")
    page.get_by_role("button", name="Cause").focus()
    rig.maestro.work.start("task", related_entity={"name": "Another"})
    expect(page.get_by_role("button", name="Another")).to_be_visible()
    expect(page.get_by_role("button", name="Cause")).to_be_focused()
    page.get_by_role("button", name="Cause").click()
    expect(page.get_by_role("dialog")).to_contain_text("why?")
    page.goto(f"{rig.server.url}/discussions")
    page.locator("#sessions .name").click()
    expect(page.get_by_role("dialog").locator("strong")).to_have_text("tasks")
    final = page.get_by_role("dialog").locator(".code").last
    expect(final.locator(".hl-nt").first).to_have_text('"patch_operations"')
    assert final.evaluate("one => getComputedStyle(one).borderStyle") == "solid"  # as in a conversation
    expect(page.get_by_role("region", name="Replay plan")).to_contain_text("0 operations, nothing is changed yet")
    page.goto(f"{rig.server.url}/health")
    expect(page.locator("#content")).to_contain_text("No worker runs now")
    expect(page.locator("#content")).to_contain_text("persistence")
    assert len([one for one in rig.watched[0].streams if one.endswith("from=now")]) == 4
    worker = Worker(
        id="w1", host=HOSTILE[1], pid=1, since="2026-01-01T00:00:00.000+00:00", runs_at_once=2, project="/srv/app",
        tools=[WorkerTool("claude", "2.0.0"), WorkerTool(HOSTILE[0])], labels=["gpu"],
    )  # fmt: skip
    shown = page.get_by_role("list", name="Workers")

    def is_shown() -> bool:
        rig.maestro.workers.announce(worker)
        page.reload()
        expect(page.locator("#content[aria-busy=false]")).to_be_attached()
        return shown.count() > 0

    wait_until(is_shown, "the worker is shown")
    told = shown.inner_text()  # once: who announces nothing is soon taken for gone
    for text in (HOSTILE[1], "0 of 2 runs now", "claude", HOSTILE[0], "gpu", "/srv/app"):
        assert text in told


def test_what_is_spent_under_a_work_session_is_counted_in_it_at_once(rig: Rig):
    """Only the one at the bottom changed: the figures of all above it are read anew."""
    top = rig.maestro.work.start("task", related_entity={"name": "Login"})
    under = rig.maestro.work.start("phase", parent=top.session_id, related_entity={"task": "T-17", "step": 2})
    page = rig.look("/work")
    expect(page.locator(".tree li button")).to_have_text(["Login", "task T-17 · step 2"])
    expect(page.locator(".tree li .node").first).to_contain_text("$0.00")
    crumb = {"prompt": "why?", "response": "so", "token_count": {"input": 5, "output": 7}, "cost": 0.25}
    made = breadcrumb_of(crumb, timestamp=stamp_of(1_700_000_000_000), breadcrumb_id="one", depth_level=1)
    rig.maestro.work.add_breadcrumb(under.session_id, made)
    rig.maestro.work.consume(under.session_id)
    for place in (".tree ul ul .node", ".tree li .node"):
        expect(page.locator(place).first).to_contain_text("$0.2500")


def test_looking_at_a_discussion_leaves_nothing_in_it(project: Path, browser: Browser):
    """Who may only read sees the plan too: nothing is tried or recorded. What a dry run recorded is named so."""
    with rigged(project, browser, "--read-only") as rig:
        discussion = rig.maestro.discussions.start(kind="track", ref="login").session_id
        rig.maestro.discussions.done(
            {"patch_operations": [{"op_type": "add_track", "data": {"track_name": "Login"}}]}, discussion
        )
        before = rig.maestro.discussions.show(discussion).transcript.events
        page = rig.look("/discussions")
        page.locator("#sessions .name").click()
        plan = page.get_by_role("region", name="Replay plan")
        expect(plan).to_contain_text("1 operation, nothing is changed yet")
        expect(plan).to_contain_text("docs/maestro/tracks.json")
        assert rig.maestro.discussions.show(discussion).transcript.events == before
        assert not (project / "docs/maestro/tracks.json").exists()
        rig.maestro.discussions.replay(discussion, dry_run=True)
        page.reload()
        page.locator("#sessions .name").click()
        expect(page.get_by_role("dialog")).to_contain_text("planned, nothing was changed")


def test_empty_screens_say_what_to_type(rig: Rig):
    """Each names the command that fills it."""
    page = rig.look()
    for path, command in (
        ("/work", "maestro wsession start"),
        ("/discussions", "maestro discuss start"),
        ("/usage", "maestro run"),
    ):
        page.goto(rig.server.url + path)
        expect(page.locator(".empty code")).to_contain_text(command)


def test_nothing_that_is_said_ever_runs(rig: Rig):
    """Whatever a session holds is text: in messages, outputs, names, notes, activity, context and search.

    The control at the end: in a document without all this the same text does run.
    """
    session_id = rig.session("hostile", note=HOSTILE[0])
    for text in HOSTILE:
        for role in ("user", "assistant"):
            rig.maestro.messages.add(
                role, text, session_id, metadata={"tool": HOSTILE[1]}, tool_calls=[{"id": "1", "name": text[:200]}]
            )
    # What other programs keep with a message may have any shape.
    for odd in ({"tool": 5, "run": {"a": 1}}, {"tool": {"name": HOSTILE[1]}}, {"tool": "", "run": [HOSTILE[1]]}):
        rig.maestro.messages.add("assistant", "odd", session_id, metadata=odd)
    rig.maestro.context.add(HOSTILE[2], ref=session_id, kind="text", note=HOSTILE[1])
    with working(rig):
        rig.ask(f"say {HOSTILE[0]} {HOSTILE[1]}", session_id)
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator(".message")).to_have_count(2 * len(HOSTILE) + 5)
    for number in range(0, 2 * len(HOSTILE) + 5, 4):
        page.locator(".message").nth(number).scroll_into_view_if_needed()
    expect(page.locator(".message .text").first).to_have_class("text prose")
    assert page.locator(".message .text").nth(0).inner_text() == HOSTILE[0]
    assert "onerror" in page.locator(".message .text").nth(2).inner_text()
    log = page.locator("[role=log]")
    assert (
        log.locator(
            "script, img, iframe, svg, style, [onclick], [onerror], [onload], [style]:not([aria-hidden])"
        ).count()
        == 0
    )
    assert log.locator("a[href]").evaluate_all("all => all.map(one => one.protocol)").count("javascript:") == 0
    assert "\x1b" not in log.inner_text()
    assert "\u202e" not in log.inner_text()
    for entity in (HOSTILE[1], {"a": HOSTILE[0]}, [5], " ", "x" * 5000):
        rig.maestro.work.start("task", related_entity={"name": entity})
    rig.maestro.discussions.start(kind="track", ref=HOSTILE[1])
    rig.maestro.discussions.say(HOSTILE[0])
    page.goto(f"{rig.server.url}/work")
    expect(page.locator(".tree .node button")).to_have_count(5)
    shown = [text.strip() for text in page.locator(".tree .node button").all_inner_texts()]
    # Those that began in the same millisecond stand in no order of theirs.
    assert sorted(shown) == sorted([HOSTILE[1], f'{{"a":"{HOSTILE[0]}"}}', "[5]", "task", "x" * 160])
    page.goto(f"{rig.server.url}/discussions")
    page.locator("#sessions .name").click()
    expect(page.get_by_role("dialog").locator(".prose")).to_contain_text(HOSTILE[0])
    page.goto(f"{rig.server.url}/")
    page.locator("#search").fill("window")
    expect(page.locator("#found li").first).to_be_visible()
    assert page.evaluate("window.hit") is None
    bare = Watched(rig.browser.new_page(), rig.server.url).page
    bare.set_content(HOSTILE[1])
    bare.wait_for_function("window.hit === 1")
    bare.close()


def test_the_policy_refuses_what_the_page_does_not_do(rig: Rig):
    """Inline scripts, evaluated ones, handlers in attributes, HTML that no policy made: the browser refuses them."""
    page = rig.look()
    tried = page.evaluate(
        """() => {
            const found = {};
            const attempt = (name, call) => {
                try { call(); found[name] = 'done'; } catch (error) { found[name] = error.name; }
            };
            const box = document.createElement('div');
            attempt('html', () => { box['inner' + 'HTML'] = '<b>x</b>'; });
            attempt('policy', () => trustedTypes.createPolicy('other', {}));
            attempt('text', () => { box.textContent = '<b>x</b>'; });
            return JSON.stringify(found);
        }"""
    )
    assert json.loads(tried) == {"html": "TypeError", "policy": "TypeError", "text": "done"}
    rig.watched[0].errors.clear()  # what the browser says of it
