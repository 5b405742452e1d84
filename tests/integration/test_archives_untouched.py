"""Reading changes nothing on disk: not a byte, a time or a file of any archive, by whichever command, for a day."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from maestro_workers.scheduler import the_work

from maestro_state import Maestro
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.scripts import Query
from maestro_state.upkeep import scheduler_lease, work_store
from tests.support.backends import Backend, Clock
from tests.support.cli_runs import maestro_command, printed
from tests.support.embedded_project import call, ended_project
from tests.support.foreign_archives import seen, write_foreign
from tests.support.stored import filler
from tests.support.waiting import wait_until
from tools.reference import commands

DAY_MS = 24 * 3600 * 1000

#: Every command that only reads, on a session and on the whole project.
OF_A_SESSION = [
    ["status"], ["session", "status"], ["runs"], ["wait"], ["context", "list"], ["context", "list", "--all"],
    ["context", "show", "ctx-0001"], ["messages"], ["session", "get", "preferences"],
    ["session", "get", "context_summary"], ["show"], ["show", "1"], ["show", "1", "--prompt"],
    ["show", "1", "--context"], ["show", "1", "--meta"], ["watch", "--from", "start", "--until-idle", "0.05"],
]  # fmt: skip
OF_ALL = [
    ["session", "list"], ["session", "list", "--all"], ["session", "list", "--state", "com_saida"], ["usage"],
    ["session", "list", "--mine"], ["verify", "--all"], ["cleanup", "--dry-run", "--days", "0"], ["stack", "status"],
    ["cleanup", "--dry-run", "--foreign", "--days", "0"], ["config"], ["doctor"], ["tool", "list"],
    ["wsession", "list"], ["wsession", "tree"], ["wsession", "stats"], ["wsession", "show"], ["wsession", "timeline"],
    ["wsession", "breadcrumbs"], ["discuss", "list"], ["discuss", "show", "none"], ["completion", "bash"],
    ["acl"], ["search", "first"], ["token", "list"], ["budget", "list"], ["workers"],
]  # fmt: skip
#: Commands that change something, or run until they are stopped; `export` and `verify REF` are called below.
OTHERS = {
    "cancel", "context add", "context clear", "context refresh", "context remove", "context use-output", "discuss done",
    "discuss migrate", "discuss replay", "discuss say", "discuss start", "export", "import", "mcp", "mcp install",
    "message add", "open", "pull", "run", "budget set", "budget remove",
    "serve", "token add", "token revoke",
    "scheduler", "session abort", "session delete", "session end", "session fork", "session set", "session start",
    "session switch", "session sync", "stack stop", "sweep", "tool check", "trust", "use", "work", "worker",
    "wsession breadcrumb add", "wsession end", "wsession pause", "wsession resume", "wsession start",
}  # fmt: skip

project = ended_project


def archived(maestro: Maestro, backend: Backend | None, raw, name: str, state: str) -> str:
    """Archive a session of our own with two runs, and have the server let go of it."""
    session = maestro.sessions.start(name)
    fill = filler(backend, session.id)
    fill.item(b"an item\n")
    fill.run(b"first\n", prompt=b"explain")
    fill.run(b"last\n")
    if state == "finalizada":
        maestro.sessions.end()
    elif state == "abortada":
        maestro.sessions.abort(reason="x")
    else:
        maestro.archive.checkpoint()
    raw.delete(*maestro.server.terms.keys.session(session.id), *maestro.server.terms.keys.index(session.id))
    return session.id


def test_every_command_is_read_only_or_known_to_change_something():
    """A new command has to say which it is: the next test goes over all that only read."""
    known = {words.removeprefix("maestro ") for words, _ in commands()}
    reading = {name for name in known for words in (*OF_A_SESSION, *OF_ALL) if " ".join(words).startswith(name)}
    assert reading | OTHERS >= known
    assert known | {"wait", "serve"} >= OTHERS


def test_no_read_command_changes_an_archive(project: Path, tmp_path: Path):
    """With the whole stack up, cleanup overdue and each session years old: everything is as it was. A cleanup that is
    told to, which is the control, changes it.
    """
    sessions = project / ".maestro/sessions"
    foreign = write_foreign(sessions)
    before = {one: seen(sessions / one) for one in foreign}
    for words in OF_ALL:
        done = maestro_command(project, *words)
        assert done.returncode in (0, 3) or words[0] in ("doctor", "acl"), (words, done.stderr)  # 3: no such thing
    for session_id in foreign[:2]:
        for words in OF_A_SESSION:
            done = maestro_command(project, "--session", session_id, *words)
            assert done.returncode == 0 or words[0] == "show", (session_id, words, done.stderr)
        for form in ("md", "json"):
            printed_at = tmp_path / f"{session_id}.{form}"
            maestro_command(project, "export", session_id, "--format", form, "--output", str(printed_at))
            assert printed_at.stat().st_size > 100
        assert printed(project, "verify", session_id)["ok"]

    def is_noted(field: str) -> bool:
        return int(call(project, "HEXISTS", "maestro:{schedule}:lease", field)) == 1

    wait_until(lambda: is_noted("swept_at"), "the stack's scheduler has done its work")
    assert not is_noted("cleaned_at")
    assert {one: seen(sessions / one) for one in foreign} == before
    assert {path.name for path in sessions.iterdir() if not path.name.startswith(".")} == set(foreign)

    asked = printed(project, "cleanup", "--foreign", "--days", "0")
    assert len(asked["removed"]) == 3
    assert (
        [one for one in foreign if seen(sessions / one) != before[one]]
        == [one for one in foreign if json.loads((sessions / one / "session.json").read_text()).get("cleanup_at")]
        != []
    )


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give a clock that the server goes by too."""
    from maestro_state.clock import now_ms

    clock = Clock(now_ms())
    # Each module by itself: one that is imported meanwhile would keep the moved clock for every test to come.
    for module in (archiving, work_store, scheduler_lease):
        monkeypatch.setattr(module, "read_time", lambda: Query(("TIME",), lambda reply: clock.now_ms))
    return clock


@pytest.mark.parametrize("setting", ["off", "on"])
def test_a_day_of_the_stack_changes_no_archive(real: Backend, moved: Clock, setting: str):
    """31 days later, every hour for a day: archives of our own and of others are as they were. With MAESTRO_CLEANUP=on,
    which is the control, exactly the ended sessions of our own lose their old outputs.
    """
    sessions = real.project / ".maestro/sessions"
    with real.open(now_ms=moved) as maestro:
        own = {state: archived(maestro, real, real.raw, state, state) for state in ("finalizada", "abortada")}
        open_id = archived(maestro, real, real.raw, "open", "com_saida")
    foreign = write_foreign(sessions)
    before = {one: seen(sessions / one) for one in (*own.values(), *foreign)}
    outputs = {path: path.read_bytes() for path in sessions.rglob("output.txt") if ".staging" not in path.parts}
    moved.advance(seconds=31 * 24 * 3600)
    work = the_work(cleans=False)
    with real.open(now_ms=moved, cleanup=setting) as maestro:
        for _ in range(24):
            moved.advance(seconds=3600)
            assert work.sweep(maestro)
            work.cleanup(maestro)
        assert {row.id for row in maestro.sessions.list(everything=True)} == {*before, open_id}
    after = {one: seen(sessions / one) for one in before}
    assert [one for one in foreign if after[one] != before[one]] == []
    gone = {path for path, content in outputs.items() if not path.exists() or path.read_bytes() != content}
    if setting == "off":
        assert after == before
        assert gone == set()
    else:
        assert gone == {sessions / one / "runs/0001/output.txt" for one in own.values()}
