"""The sync Maestro does what the async one does: one compact run through every verb, on every server."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from maestro_state import AsyncMaestro, Maestro, Terminal
from maestro_state.errors import Conflict, InvalidTransition, NoActiveSession, SessionExpired, SessionNotFound
from tests.support.backends import Backend, Clock
from tools import facade, unasync

ME = Terminal("me", "here", "tty1", "2027-01-01T00:00:00.000+00:00")


def test_a_whole_life(backend: Backend):
    """Start, talk, set, follow, list, switch, end, abort, delete: the same answers as the async shell's."""
    clock = Clock()
    with backend.open(now_ms=clock) as maestro:
        with pytest.raises(NoActiveSession):
            maestro.sessions.read()
        session = maestro.sessions.start("Whole life", note="short", tool="claude", task_id="t1")
        assert (session.slug, session.notes, session.tool_active, session.task_id) == (
            "whole-life", "short", "claude", "t1",
        )  # fmt: skip
        question = maestro.messages.add("user", "why?", metadata={"n": 1})
        answer = maestro.messages.add("assistant", "because", parent_id=question.id)
        assert maestro.messages.since() == [question, answer]
        assert maestro.messages.last(1) == [answer]
        assert maestro.messages.since(question.id) == [answer]

        assert maestro.sessions.set("context_summary", "asked", if_revision=0).revision == 1
        with pytest.raises(Conflict):
            maestro.sessions.set("context_summary", "again", if_revision=0)
        assert maestro.sessions.get("context_summary").value == "asked"
        assert [one.content for one in maestro.messages.for_model()] == ["asked"]

        events = list(maestro.follow.events(cursor="start", until_idle_ms=1, terminal=ME))
        assert [event.type for event in events] == [
            "session.started", "message.added", "message.added", "session.updated",
        ]  # fmt: skip
        status = maestro.sessions.status()
        assert (status.session.id, status.attached) == (session.id, [])

        clock.advance(seconds=5)
        other = maestro.sessions.start("other")
        assert [row.id for row in maestro.sessions.list()] == [other.id, session.id]
        assert [row.id for row in maestro.sessions.newest(1)] == [other.id]
        assert maestro.sessions.switch("whole-life").id == session.id
        assert maestro.sessions.resolve() == session.id
        assert maestro.sessions.end().state == "finalizada"
        assert maestro.sessions.abort(other.id, reason="no need").abort_reason == "no need"
        for frozen in (session.id, other.id):
            with pytest.raises(InvalidTransition):
                maestro.messages.add("user", "late", frozen)
        assert maestro.sessions.delete(session.id) == session.id
        with pytest.raises(SessionNotFound):
            maestro.sessions.read(session.id)


async def test_both_shells_find_the_same_health(real: Backend):
    """Checks of the sync shell are those of the async one."""
    async with real.open_async() as later:
        with real.open() as maestro:
            checked = [(check.name, check.status) for check in maestro.health.checks()]
        assert [(check.name, check.status) for check in await later.health.checks()] == checked
    assert "fail" not in {status for _, status in checked}


def test_what_one_shell_writes_the_other_reads(backend: Backend):
    """Both shells are on the same session at once, and a session expires for both."""
    clock = Clock()
    with backend.open(now_ms=clock, ttl_seconds=100) as maestro, backend.open(now_ms=clock) as other:
        maestro.sessions.start("shared")
        added = maestro.messages.add("user", "hello")
        assert other.messages.since() == [added]
        clock.advance(seconds=100)
        for one in (maestro, other):
            assert one.sessions.read().status == "expired"
            with pytest.raises(SessionExpired):
                one.messages.add("user", "late")


ROOMS = ("sessions", "archive", "messages", "context", "tools", "runs", "claims", "queue", "follow", "schedule",
         "health", "work", "stack", "discussions")  # fmt: skip


@pytest.mark.parametrize("room", ROOMS)
def test_both_shells_have_the_same_verbs(project: Path, room: str):
    """Every public verb of the async shell is there in the sync one, with the same parameters."""

    def verbs(maestro: Maestro | AsyncMaestro) -> dict[str, list[str]]:
        found = inspect.getmembers(getattr(maestro, room), inspect.ismethod)
        return {name: list(inspect.signature(verb).parameters) for name, verb in found if name[0] != "_"}

    assert verbs(Maestro(project)) == verbs(AsyncMaestro(project)) != {}


def test_the_sync_shell_is_up_to_date():
    """The generated files are what the generator writes now."""
    assert unasync.main(check=True) == 0
    assert facade.main(check=True) == 0
