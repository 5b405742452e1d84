"""kill -9 of the server under load: what was acknowledged is there, once, and writers notice a pause."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest
import redis

from maestro_state import Maestro
from maestro_state.errors import SessionNotFound
from maestro_state.local import embedded
from maestro_state.local.embedded import paths
from maestro_state.local.embedded.control import sync_data
from tests.support.embedded_project import temporary_project
from tests.support.key_leaks import check_keys
from tests.support.programs import python
from tests.support.seeds import seeded
from tests.support.servers import valkey
from tests.support.waiting import wait_until

WRITERS = 8
ROUNDS = 5

pytestmark = pytest.mark.xdist_group("busy")


def test_acknowledged_messages_survive_and_no_writer_leaves(tmp_path):
    """8 writers, 5 kills at random moments: nothing acknowledged lost or doubled, order kept, nobody gone."""
    chance = seeded()
    with temporary_project() as project, ExitStack() as stack, Maestro(project) as maestro:
        session = maestro.sessions.start("killed")
        writers = [
            stack.enter_context(python(tmp_path, "write", project, session.id, f"w{number}"))
            for number in range(WRITERS)
        ]
        killed = set()
        for _ in range(ROUNDS):
            goals = [len(writer.lines()) + chance.randint(1, 40) for writer in writers]
            wait_until(
                lambda goals=goals: all(
                    len(writer.lines()) >= goal for writer, goal in zip(writers, goals, strict=True)
                ),
                "the writers do not get on",
            )
            pid = embedded.status(project).pid
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        for writer in writers:
            before = len(writer.lines())
            wait_until(lambda w=writer, b=before: len(w.lines()) > b, "a writer does not come back")
            assert writer.process.poll() is None
        for writer in writers:
            writer.finish()
        found = [message.content for message in maestro.messages.since(None, session.id)]
        for number, writer in enumerate(writers):
            acknowledged = [f"w{number}:{line}" for line in writer.lines()]
            stored = [content for content in found if content.startswith(f"w{number}:")]
            assert stored[: len(acknowledged)] == acknowledged
            # One that was under way when it was asked to leave is finished before it leaves.
            assert len(stored) == len(acknowledged)
        assert len(killed) == ROUNDS
        with redis.Redis(unix_socket_path=str(embedded.socket_path(project))) as raw:
            check_keys(raw)
            assert raw.xlen(maestro.server.terms.keys.of_session(session.id, "messages")) == len(found)


@pytest.mark.parametrize(("append_only", "survives"), [("yes", True), ("no", False)])
def test_it_is_the_append_only_file_that_keeps_them(project, tmp_path, append_only, survives):
    """Control: the same kill without an append-only file loses the session."""
    with (
        valkey(tmp_path, args=["--appendonly", append_only]) as server,
        Maestro(project, redis_url=server.url) as maestro,
    ):
        session = maestro.sessions.start("kept")
        added = [maestro.messages.add("user", str(number)) for number in range(100)]
        server.restart()
        if survives:
            assert maestro.messages.since(None, session.id) == added
        else:
            with pytest.raises(SessionNotFound):
                maestro.messages.since(None, session.id)


def test_what_was_acknowledged_last_survives_too(tmp_path):
    """A server killed the moment it has answered has written what it answered for, however busy its disk."""
    with temporary_project() as project, Maestro(project) as maestro:
        session = maestro.sessions.start("last")
        added = []
        for _ in range(15):
            # The first write after a start is when a server that syncs by itself begins to.
            added += [maestro.messages.add("user", str(number), session.id) for number in range(5)]
            os.kill(embedded.status(project).pid, signal.SIGKILL)
        assert maestro.messages.since(None, session.id) == added


def test_what_was_written_reaches_the_disk_soon(monkeypatch):
    """The supervisor's look syncs the append-only files, and a folder that has none is no error."""
    synced = []
    with temporary_project() as project, paths.open_data_folder(project) as folder:
        sync_data(folder)
        with Maestro(project) as maestro:
            maestro.sessions.start("synced")
        really = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", lambda file: synced.append(_name(file)) or really(file))
        sync_data(folder)
        monkeypatch.undo()
    assert any(name.endswith(".incr.aof") for name in synced)


def _name(file: int) -> str:
    return os.readlink(f"/proc/self/fd/{file}")
