"""A time to live that passes while nobody looks: the session is still there, nothing comes back headless."""

from __future__ import annotations

import pytest

from maestro_state import Maestro, Terminal
from maestro_state.clock import iso, now_ms
from maestro_state.errors import InvalidTransition, SessionNotFound
from maestro_state.state.keys import NAMES
from tests.support.backends import Clock
from tests.support.servers import raw_call, valkey
from tests.support.waiting import wait_until

SESSIONS = 20
ME = Terminal("me", "here", "tty1", "2027-01-01T00:00:00.000+00:00")


def test_sessions_outlive_a_stop_longer_than_their_time(project, tmp_path):
    """Sessions whose time passed while the server was down are there after it starts, on it or on disk: readable, and
    frozen since then.
    """
    begun = now_ms()
    with valkey(tmp_path) as server, Maestro(project, redis_url=server.url) as maestro:
        # Control first, so that its time is over no later than theirs.
        raw_call(server, "SET", "control", "1", "PX", 2000)
        ids = []
        # Whoever writes has a clock that stands still: however slow this machine is, they are not over before.
        with Maestro(project, redis_url=server.url, now_ms=Clock(begun)) as writer:
            for number in range(SESSIONS):
                session_id = writer.sessions.start(f"session {number}", ttl_seconds=2).id
                writer.messages.add("user", f"in {session_id}", session_id)
                ids.append(session_id)
                if number % 2:
                    writer.archive.checkpoint(session_id)  # these the server lets go
        server.kill()
        over = now_ms() + 2001
        wait_until(lambda: now_ms() > over, "time does not pass")
        server.restart()

        assert raw_call(server, "GET", "control") is None, "the control key outlived its TTL: nothing was proved"
        assert {row.id for row in maestro.sessions.list()} == set(ids)
        for session_id in ids:
            found = maestro.sessions.read(session_id)
            assert (found.status, found.state, found.finalized_at) == ("expired", "finalizada", iso(begun + 2000))
            assert [one.content for one in maestro.messages.last(5, session_id)] == [f"in {session_id}"]
            with pytest.raises(InvalidTransition, match="finalizada"):
                maestro.messages.add("user", "too late", session_id)


def later_calls(maestro, session_id):
    """Do everything that writes; a refusal is an answer too."""
    outcomes = []
    for call in (
        lambda: list(maestro.follow.events(session_id, cursor="start", until_idle_ms=1, terminal=ME)),
        lambda: maestro.messages.add("user", "late", session_id),
        lambda: maestro.sessions.set("preferences", {"a": 1}, session_id),
        lambda: maestro.sessions.end(session_id),
    ):
        try:
            call()
            outcomes.append("done")
        except SessionNotFound:
            outcomes.append("not found")
    return outcomes


@pytest.mark.parametrize("lost", NAMES["session"])
def test_a_key_that_expires_alone_leaves_no_fragment(backend, lost):
    """Whichever key of a session expires by itself, later calls leave no key without a TTL or a record."""
    with backend.open(now_ms=Clock()) as maestro:
        session = maestro.sessions.start("partly")
        keys = maestro.server.terms.keys
        maestro.messages.add("user", "early")
        maestro.sessions.set("preferences", {})
        looking = maestro.follow.events(session.id, cursor="start", terminal=ME)
        assert [next(looking).type for _ in range(2)] == ["session.started", "message.added"]
        victim = keys.of_session(session.id, lost)
        backend.raw.pexpireat(victim, 1)
        assert not backend.raw.exists(victim)
        left = {key for key in keys.session(session.id) if backend.raw.exists(key)}

        outcomes = later_calls(maestro, session.id)

        now_there = {key for key in keys.session(session.id) if backend.raw.exists(key)}
        if lost == "session":
            assert outcomes == ["not found"] * 4
            assert now_there == left
        else:
            assert outcomes == ["done"] * 4
            assert keys.of_session(session.id, "session") in now_there
        assert all(backend.raw.pttl(key) > 0 for key in now_there)
        looking.close()


def test_plain_writes_bring_back_a_headless_session(backend):
    """Control: the same writes without the scripts' check do leave keys without record and TTL."""
    with backend.open() as maestro:
        session = maestro.sessions.start("plain")
        keys = [maestro.server.terms.keys.of_session(session.id, name) for name in ("session", "messages")]
        backend.raw.pexpireat(keys[0], 1)
        backend.raw.hset(keys[0], "last_activity", 1)
        backend.raw.xadd(keys[1], {"role": "user"})
        assert [backend.raw.pttl(key) for key in keys] == [-1, -1]
        assert backend.raw.hgetall(keys[0]) == {b"last_activity": b"1"}
        backend.raw.delete(*keys)
