"""One session in a real browser: what is said and run, as it happens, and everything that can be done from there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from playwright.sync_api import expect

from tests.reach.page_rig import Rig, texts, working
from tests.support.cli_runs import MAESTRO
from tests.support.waiting import wait_until

MARKDOWN = """Look at **this**:

```python
def login(): return None
```

```diff
--- a/x
+++ b/x
@@ -1 +1 @@
-old
+new
```

| a | b |
| - | - |
| 1 | 2 |
"""


def test_what_is_said_anywhere_is_drawn_here(rig: Rig):
    """Two browsers and a terminal in one session: each sees what the others say, in one order."""
    session_id = rig.session()
    pages = [rig.look(f"/sessions/{session_id}") for _ in range(2)]
    for page in pages:
        expect(page.locator("line-state")).to_have_text("live")
    here = [MAESTRO, "--project", str(rig.project), "--session", session_id]
    said = [*here, "message", "add", "--role", "user", "from a terminal"]
    subprocess.run(said, check=True, stdout=subprocess.DEVNULL)
    for page in pages:
        expect(page.locator(".message")).to_have_count(1)
    for number, page in enumerate(pages):
        page.get_by_label("What to ask").fill(f"from browser {number}")
        page.get_by_role("button", name="Say").click()
        for other in pages:
            expect(other.locator(".message")).to_have_count(number + 2)
    expected = ["from a terminal", "from browser 0", "from browser 1"]
    assert [texts(page) for page in pages] == [expected, expected]
    assert [message.content for message in rig.maestro.messages.last(9, session_id)] == expected
    assert [len(watched.streams) for watched in rig.watched] == [1, 1]


def test_markdown_is_shown_with_code_to_copy_and_diffs_as_diffs(rig: Rig):
    """Rendered by the server: strong text, a table, highlighted code, whole lines of a diff."""
    session_id = rig.session()
    rig.maestro.messages.add("assistant", MARKDOWN, session_id, metadata={"tool": "claude"})
    page = rig.look(f"/sessions/{session_id}", permissions=["clipboard-read", "clipboard-write"])
    message = page.locator(".message")
    expect(message.locator("strong")).to_have_text("this")
    expect(message.locator("td")).to_have_text(["1", "2"])
    expect(message.locator(".hl-k").first).to_have_text("def")
    expect(message.locator(".diff-added")).to_have_text("+new\n")
    expect(message.locator(".diff-removed")).to_have_text("-old\n")
    button = message.locator(".code button").first
    # It says so for a moment, which a busy machine misses: the page itself looks out for it.
    button.evaluate(
        "one => { window.said = new Promise((done) => new MutationObserver(() => done(one.textContent))"
        ".observe(one, { childList: true, characterData: true, subtree: true })); }"
    )
    button.click()
    assert page.evaluate("window.said") == "Copied"
    assert page.evaluate("navigator.clipboard.readText()") == "def login(): return None\n"


def test_lines_stay_lines_and_every_script_has_its_direction(rig: Rig):
    """What a tool printed line by line is shown so; code reads from the left in a text that does not."""
    session_id = rig.session()
    rig.maestro.messages.add("assistant", "PASS one\nFAIL two", session_id)
    rig.maestro.messages.add("assistant", "مرحبا\n\n- عنصر\n\n```python\nx = 1\n```\n\nin English", session_id)
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator(".prose")).to_have_count(2)
    assert texts(page)[0] == "PASS one\nFAIL two"
    message = page.locator(".message").last
    assert message.locator(".text").evaluate("one => getComputedStyle(one).direction") == "rtl"
    assert message.locator("pre").evaluate("one => getComputedStyle(one).direction") == "ltr"
    box, item = message.locator(".text").bounding_box(), message.locator("li").bounding_box()
    assert box is not None
    assert item is not None
    assert item["x"] + item["width"] <= box["x"] + box["width"] - 8, "the list's marks are outside of the text"


def test_a_run_that_began_long_ago_has_its_end(rig: Rig):
    """It began before the messages that are drawn first and ended among them; the session takes no more events."""
    session_id = rig.session(tool="claude")
    with working(rig):
        run = rig.maestro.runs.start("wait go", session_id, tool="claude")
        wait_until(lambda: rig.maestro.runs.read(run.id, session_id).status == "running", "the run began")
        rig.fill(session_id, 220)
        (rig.project / "go").touch()
        wait_until(lambda: rig.maestro.runs.read(run.id, session_id).status == "success", "the run ended")
    rig.maestro.sessions.end(session_id)
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator(".message").last).to_contain_text("done")

    def is_run_there() -> bool:
        page.locator("[role=log]").evaluate("box => { box.scrollTop = 0; }")
        return page.locator(".run").count() > 0

    wait_until(is_run_there, "the run is drawn")
    expect(page.locator(".run summary")).to_contain_text("success")


def test_a_tool_is_asked_from_here_and_its_output_streams(rig: Rig):
    """The run appears with what it prints while it goes on, then its answer, its figures and a bar in the plot."""
    session_id = rig.session(tool="claude")
    with working(rig):
        page = rig.look(f"/sessions/{session_id}")
        expect(page.locator(".empty")).to_contain_text("maestro --session")
        page.get_by_label("What to ask").fill("wait go")
        page.get_by_label("Tool", exact=True).select_option("claude")
        page.keyboard.press("Control+Enter")
        expect(page.locator(".run .printed")).to_have_text("working on go")
        expect(page.locator("#state")).to_contain_text("executando running")
        again = rig.look(f"/sessions/{session_id}")
        expect(again.locator(".run .printed")).to_have_text("working on go")
        (rig.project / "go").touch()
        for one in (page, again):
            expect(one.locator(".message.assistant .text")).to_have_text("working on go, done")
            expect(one.locator("#state")).to_contain_text("com_saida has output")
            expect(one.locator(".run summary")).to_contain_text("success")
            expect(one.locator(".message")).to_have_count(2)
        expect(page.locator(".run")).to_have_count(1)
        page.locator(".run summary").click()
        expect(page.locator(".activity")).to_contain_text("Bash pytest -q tests/test_login.py")
        expect(page.locator("figure rect.c")).to_have_count(1)
        page.locator(".run").get_by_role("button", name="Continue").click()
        page.get_by_label("What to ask").fill("say more")
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".message.assistant")).to_have_count(2)
    runs = rig.maestro.runs.list(session_id)
    assert [run.continues for run in runs] == [None, runs[0].id]
    assert runs[0].terminal == "http"


def test_a_session_whose_tool_is_a_command_line_asks_that(rig: Rig):
    """No list has it; it is chosen all the same, and its name is cut where there is no room."""
    tool = "sort --unique --ignore-case --field-separator=x --zero-terminated"
    session_id = rig.session(tool=tool)
    page = rig.look(f"/sessions/{session_id}")
    expect(page.get_by_label("Tool", exact=True)).to_have_value(tool)
    page.goto(f"{rig.server.url}/")
    cell = page.locator(".toolcell .chip")
    expect(cell).to_have_text(tool)
    assert cell.evaluate(
        "one => one.getBoundingClientRect().right <= one.parentElement.getBoundingClientRect().right + 1"
    )


def test_lines_of_an_output_become_context(rig: Rig):
    """A click and a Shift-click choose; exactly those lines are in the item."""
    session_id = rig.session()
    with working(rig):
        rig.ask(r"say one\ntwo\nthree\nfour", session_id)
    page = rig.look(f"/sessions/{session_id}")
    page.locator(".run summary").click()
    page.get_by_role("button", name="Output…").click()
    page.locator(".lines li").nth(1).click()
    page.locator(".lines li").nth(2).click(modifiers=["Shift"])
    expect(page.locator(".lines .chosen")).to_have_text(["two", "three"])
    page.locator(".lines li").nth(0).click(modifiers=["Shift"])
    expect(page.locator(".lines .chosen")).to_have_text(["one", "two"])
    start, end = (page.locator(".lines li").nth(number).bounding_box() for number in (1, 2))
    assert start is not None
    assert end is not None
    page.mouse.move(start["x"] + 80, start["y"] + 8)
    page.mouse.down()
    page.mouse.move(end["x"] + 90, end["y"] + 8)
    page.mouse.up()
    expect(page.locator(".lines .chosen")).to_have_text(["two", "three"])
    page.get_by_role("button", name="Add to context").click()
    expect(page.get_by_role("region", name="Context")).to_contain_text("1 item")
    expect(page.locator(".note").last).to_contain_text("context: output of run 0001 added")
    (item,) = rig.maestro.context.list(session_id)
    assert item.kind == "output"
    assert rig.maestro.context.show(item.id, session_id)[1].decode().strip() == "two\nthree"


def test_context_is_added_shown_with_drift_and_removed(rig: Rig):
    """A file that changed since is marked; a path that leads nowhere is refused with what to do."""
    session_id = rig.session()
    (rig.project / "login.py").write_text("one\n")
    page = rig.look(f"/sessions/{session_id}")
    page.get_by_role("button", name="Add context").click()
    page.get_by_label("Files of the project").fill("nothing.py")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("nothing.py")
    page.get_by_label("Files of the project").fill("login.py")
    page.get_by_role("button", name="Add", exact=True).click()
    panel = page.get_by_role("region", name="Context")
    expect(panel).to_contain_text("login.py")
    (rig.project / "login.py").write_text("another\n")
    rig.maestro.messages.add("user", "see", session_id)
    page.reload()
    expect(panel).to_contain_text("changed since")
    panel.get_by_role("button", name="Take changed files anew").click()
    expect(panel).not_to_contain_text("changed since")
    assert rig.maestro.context.list(session_id)[-1].drift == "same"
    (rig.project / "login.py").write_text("yet another\n")
    page.reload()
    expect(panel).to_contain_text("changed since")
    panel.get_by_role("button", name="login.py").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("another")
    page.keyboard.press("Escape")
    panel.get_by_role("button", name="Take login.py out").click()
    expect(panel).to_contain_text("0 items")
    assert rig.maestro.context.list(session_id) == []


def test_a_session_is_forked_exported_and_ended_from_here(rig: Rig):
    """Each does what the command does; what ended takes no more, and says so."""
    session_id = rig.session()
    rig.maestro.messages.add("user", "keep this", session_id)
    page = rig.look(f"/sessions/{session_id}")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").click()
    assert "keep this" in Path(download.value.path()).read_text()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Fork").click()
    page.get_by_label("Name").fill("second-try")
    page.get_by_role("button", name="Fork").last.click()
    page.wait_for_url("**/sessions/second-try--*")
    expect(page.locator(".message")).to_have_text(re.compile("keep this"))
    page.get_by_role("button", name="End", exact=True).click()
    page.get_by_role("button", name="End session").click()
    expect(page.locator("#state")).to_contain_text("finalizada ended")
    expect(page.locator("line-state")).to_have_text("ended")
    expect(page.get_by_label("What to ask")).to_be_hidden()
    expect(page.locator(".note").last).to_contain_text("the session ended")
    page.reload()
    expect(page.locator(".message")).to_have_text(re.compile("keep this"))
    expect(page.locator("line-state")).to_have_text("ended")


def test_a_session_that_is_deleted_meanwhile_says_so(rig: Rig):
    """What was said can still be read; nothing is offered that cannot be done."""
    session_id = rig.session()
    rig.maestro.messages.add("user", "read me", session_id)
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator("line-state")).to_have_text("live")
    rig.maestro.sessions.delete(session_id)
    expect(page.locator("line-state")).to_have_text("deleted")
    expect(page.get_by_role("alert")).to_contain_text("This session was deleted")
    expect(page.get_by_label("What to ask")).to_be_hidden()
    expect(page.locator("#actions button, .panels button:visible")).to_have_count(0)
    expect(page.locator("#state")).to_have_text("deleted")
    assert texts(page) == ["read me"]


def test_a_terminal_that_is_attached_is_shown(rig: Rig):
    """With who sits there."""
    session_id = rig.session()
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator("line-state")).to_have_text("live")
    argv = [MAESTRO, "--project", str(rig.project), "--session", session_id, "watch", "--json", "--from", "start"]
    watch = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        expect(page.get_by_role("region", name="Attached")).to_contain_text(rig.maestro.settings.user)
    finally:
        watch.kill()
        watch.wait()


def test_a_session_that_is_not_there_says_so(rig: Rig):
    """With the status that programs look at, and a page for people."""
    page = rig.look("/sessions/none--aaaaaa")
    expect(page.locator(".alert")).to_contain_text("none--aaaaaa")
    assert page.locator("line-state").count() == 0  # nothing is followed, so nothing is connecting
    page.get_by_role("link", name="All sessions").click()
    page.wait_for_url(f"{rig.server.url}/")
    page.go_back()
    with rig.server.client() as client:
        assert client.get("/sessions/none--aaaaaa").status_code == 404


def test_a_server_that_was_away_is_caught_up_with(rig: Rig):
    """Killed and started again at the same port: what was said meanwhile is there once, and what comes later too."""
    from tests.support.served import serving

    session_id = rig.session()
    rig.maestro.messages.add("user", "before", session_id)
    page = rig.look(f"/sessions/{session_id}")
    overview = rig.look("/")
    expect(page.locator("line-state")).to_have_text("live")
    rig.server.kill()
    for one in (page, overview):
        expect(one.locator("line-state")).to_have_text("server away, trying again")
    page.get_by_label("What to ask").fill("is anybody there?")
    page.get_by_role("button", name="Say").click()
    expect(page.get_by_role("alert")).to_contain_text("maestro serve")
    rig.maestro.messages.add("user", "meanwhile", session_id)
    rig.session("meanwhile")
    with serving(rig.project, port=rig.server.port):
        expect(page.locator("line-state")).to_have_text("live")
        expect(page.locator(".message")).to_have_count(2)
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_role("button", name="Say").click()
        rig.maestro.messages.add("user", "after", session_id)
        expect(page.locator(".message")).to_have_count(4)
        assert sorted(texts(page)) == ["after", "before", "is anybody there?", "meanwhile"]
        expect(overview.locator("#sessions .name")).to_have_count(2)


def test_what_was_found_is_shown_however_long_ago(rig: Rig):
    """A result of the search leads to the message itself; going on from there, to the newest, all are there once."""
    session_id = rig.session()
    rig.maestro.messages.add("user", "the zebra crossed the road", session_id)
    rig.fill(session_id, 1500)
    page = rig.look()
    page.locator("#search").fill("zebra")
    page.locator("#found a").click()
    found = page.locator(".message.found")
    expect(found).to_contain_text("the zebra crossed the road")
    expect(found).to_be_in_viewport()
    expect(found).to_be_focused()
    expect(page.locator("line-state")).to_have_text("live")
    page.get_by_role("button", name="Newest").click()
    expect(page.locator(".message").last).to_contain_text("message 1499")
    # Another address of the same page leads there too.
    tenth = rig.maestro.messages.last(10, session_id)[0]
    page.evaluate("id => { location.hash = `at=${id}`; }", tenth.id)
    expect(page.locator(".message.found").last).to_be_focused()
    expect(page.locator(".message.found").last).to_contain_text("message 1490")
    page.get_by_role("button", name="Newest").click()
    numbers = [int(text.split()[1]) for text in texts(page) if text.startswith("message")]
    assert numbers == list(range(numbers[0], 1500))


def test_ten_thousand_messages_are_scrolled_to_the_first(rig: Rig):
    """A few hundred are in the document at a time; going up shows each message once, in order, to the very first."""
    session_id = rig.session()
    rig.fill(session_id, 10_000)
    page = rig.look(f"/sessions/{session_id}")
    expect(page.locator(".message").last).to_contain_text("message 9999")
    box = page.locator("[role=log]")
    seen: list[int] = []

    def shown() -> list[int]:
        return [int(text.split()[1]) for text in page.locator(".message .text").all_text_contents()]

    def is_first_there() -> bool:
        numbers = shown()
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "messages are missing or twice"
        assert len(numbers) <= 300
        if not seen or numbers[0] != seen[-1]:
            seen.append(numbers[0])
        box.evaluate("box => { box.scrollTop = 0; }")
        return numbers[0] == 0

    wait_until(is_first_there, "the first message is drawn", 300)
    assert len(seen) > 10
    page.get_by_role("button", name="Newest").click()
    expect(page.locator(".message").last).to_contain_text("message 9999")
