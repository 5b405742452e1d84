"""No file call is made on the event loop's thread: an audit hook, which sees every one of them, refuses it there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: What the interpreter says of calls that wait for a disk. Hooks cannot be removed: a process of its own has this one.
_GUARD = """
import asyncio, os, sys, threading

REFUSED = {"open", "os.chmod", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir",
           "os.symlink", "os.truncate", "os.utime", "fcntl.flock", "fcntl.lockf", "subprocess.Popen", "os.posix_spawn",
           "tempfile.mkstemp", "tempfile.mkdtemp", "sqlite3.connect"}
loop_thread, seen, elsewhere = None, [], set()

def importing():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False

def guard(event, args):
    if event not in REFUSED:
        return
    if threading.get_ident() != loop_thread:
        elsewhere.add(event)
    elif not importing():
        seen.append((event, str(args[:1])))
        raise RuntimeError(f"{event} {args[:1]} on the thread of the loop")

def guarded(main):
    async def run():
        global loop_thread
        loop_thread = threading.get_ident()
        try:
            await main(sys.argv[1])
        finally:
            loop_thread = None
    sys.addaudithook(guard)
    asyncio.run(run())
    assert not seen, seen
    # Control: the work was done, in other threads.
    assert {"open", "os.rename", "os.mkdir", "fcntl.flock"} <= elsewhere, elsewhere
    print("done")
"""

_EVERYTHING = """
from maestro_state import AsyncMaestro
from maestro_state.models.work import Breadcrumb

async def main(project):
    async with AsyncMaestro(project) as maestro:
        session = await maestro.sessions.start("work", tool="echo", note="first")
        await asyncio.gather(*(maestro.messages.add("user", f"n{number}") for number in range(20)))
        assert len(await maestro.messages.last(5)) == 5
        added = await maestro.context.add("a.py")
        assert [item.drift for item in await maestro.context.list()] == ["same"]
        assert (await maestro.context.show(added.items[0].id))[1] == b"print(1)\\n"
        assert (await maestro.runs.preview("p")).argv
        run = await maestro.runs.start("hello")
        assert [event.type async for event in maestro.runs.follow(run)][-1] == "run.finished"
        assert (await maestro.runs.wait(run)).status == "success"
        assert b"hello" in await maestro.runs.output(run.id)
        assert [one.id for one in await maestro.runs.list()] == [run.id]
        await maestro.sessions.set("context_summary", "second")
        assert (await maestro.sessions.get("context_summary")).value == "second"
        events = [event async for event in maestro.follow.events(cursor="start", until_idle_ms=1)]
        status = await maestro.sessions.status()
        assert len(status.runs) == 1 and status.session.id == await maestro.sessions.resolve("latest")
        other = await maestro.sessions.fork("work", "other")
        assert {row.id for row in await maestro.sessions.list()} == {session.id, other.id}
        await maestro.sessions.switch("work")
        await maestro.archive.checkpoint()
        assert (await maestro.archive.verify()).ok
        assert not await maestro.archive.secrets_all()
        assert (await maestro.archive.export(form="json")).path
        assert await maestro.tools.list() and await maestro.tools.is_installed("echo")
        assert (await maestro.usage()).rows is not None
        assert "fail" not in {check.status for check in await maestro.health.checks()}
        assert (await maestro.stack.status()).running
        assert await maestro.schedule.now_ms()

        meta = await maestro.discussions.start()
        await maestro.discussions.say("why?")
        assert (await maestro.discussions.show()).meta.session_id == meta.session_id
        assert len((await maestro.discussions.list()).rows) == 1

        work = await maestro.work.start("task")
        crumb = Breadcrumb(timestamp="20270101_000000_000000", breadcrumb_id="b1", prompt="p", response="r")
        await maestro.work.add_breadcrumb(work.session_id, crumb)
        assert (await maestro.work.consume(work.session_id)).applied == 1
        await maestro.work.end(work.session_id)
        assert [one async for one in maestro.work.follow(work.session_id, until_idle_ms=1)] == []
        assert len(await maestro.work.breadcrumbs(work.session_id)) == 1

        ended = await maestro.sessions.end()
        await maestro.sessions.abort(other.id, reason="enough")
        await maestro.archive.sweep()
        await maestro.archive.cleanup(dry_run=True)
        keys = maestro.server.terms.keys.session(session.id)
        await maestro.server.connection.calls([("DEL", key) for key in keys])
        # From here on only the disk has it.
        assert (await maestro.sessions.read(session.id)).state == ended.state
        assert len(await maestro.messages.since(ref=session.id)) > 20
        assert (await maestro.sessions.get("context_summary", session.id)).value == "second"
        assert b"hello" in await maestro.runs.output(run.id, session.id)
        again = [event async for event in maestro.follow.events(session.id, cursor="start")]
        assert [event.id for event in again[: len(events)]] == [event.id for event in events]
        await maestro.sessions.delete(session.id)

guarded(main)
"""

_OTHER_ROOMS = """
import io
from maestro_state import AsyncMaestro

FINAL = {"patch_operations": [{"op_type": "add_track", "data": {"track_name": "Login"}}]}

async def main(project):
    async with AsyncMaestro(project) as maestro:
        session = await maestro.sessions.start("rooms", tool="echo")
        await maestro.context.add("a.py", "a text")
        assert await maestro.context.stale() == []
        await maestro.context.refresh()
        run = await maestro.runs.start("needle")
        assert [one.id for one in await maestro.runs.wait_all([run.id])] == [run.id]
        assert await maestro.runs.prompt(run) == b"needle"
        assert await maestro.runs.sent(run.id) and await maestro.runs.activity(run.id) == []
        await maestro.context.use_output(run.id)
        await maestro.context.remove("ctx-0002")
        await maestro.context.clear()
        assert len(await maestro.messages.for_model()) >= 2
        assert [row.id for row in await maestro.sessions.page(5)] == [session.id]
        assert await maestro.follow.changes("0-0") and await maestro.follow.newest()

        found = await maestro.search.find("needle")
        assert {hit.session_id for hit in found.results} == {session.id}
        await maestro.search.rebuild()
        await maestro.search.close()

        at = await maestro.bindings.ensure("openai", "customer-42")
        assert await maestro.bindings.find("openai", "customer-42") == at
        assert await maestro.bindings.delete("openai", "customer-42")
        await maestro.budgets.set(user="ana", tokens=10)
        assert len(await maestro.budgets.list()) == 1
        await maestro.budgets.remove(user="ana")
        token = await maestro.tokens.add("ana")
        assert await maestro.tokens.check(token.token)
        await maestro.tokens.revoke(token.id)
        await maestro.workers.list()
        assert await maestro.metrics.read()

        name = (await maestro.archive.export(form="json")).path
        with_bytes = io.BytesIO()
        await maestro.archive.write_export(with_bytes, form="md")
        assert b"needle" in with_bytes.getvalue()
        await maestro.histories.import_files([name], dry_run=True)
        await maestro.histories.import_("claude", dry_run=True)

        await maestro.discussions.start()
        await maestro.discussions.done(FINAL)
        assert await maestro.discussions.plan("latest")
        await maestro.discussions.replay("latest")
        await maestro.sweep()
        await maestro.health.repair()
        await maestro.stack.stop()

guarded(main)
"""

_DIRECTLY = """
from maestro_state import AsyncMaestro

async def main(project):
    async with AsyncMaestro(project) as maestro:
        await maestro.sessions.start("work")
        maestro.blocking.sessions.list()

guarded(main)
"""


def _run(project: Path, program: str) -> subprocess.CompletedProcess[str]:
    (project / "a.py").write_text("print(1)\n")
    words = [sys.executable, "-c", _GUARD + program, str(project)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, cwd=project)


@pytest.mark.xdist_group("async_files")
def test_no_file_call_is_made_on_the_loops_thread(project: Path):
    """Sessions, context, messages, runs, archives, discussions, work sessions: all of it through AsyncMaestro."""
    done = _run(project, _EVERYTHING)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.xdist_group("async_files")
def test_no_file_call_is_made_on_the_loops_thread_by_the_other_rooms(project: Path):
    """Search, bindings, budgets, tokens, workers, metrics, histories, exports, replays, the stack's end."""
    done = _run(project, _OTHER_ROOMS)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.xdist_group("async_files")
def test_a_file_call_on_the_loops_thread_is_seen(project: Path):
    """The control: a verb that is called directly trips the hook."""
    done = _run(project, _DIRECTLY)
    assert done.returncode == 1
    assert "on the thread of the loop" in done.stderr
