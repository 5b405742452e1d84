"""The lives of sessions as a Hypothesis state machine: each rule does a thing to a session and to its model,
and looks whether both agree. Which server it runs on is for a subclass to say.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
import redis
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    precondition,
    rule,
)

from maestro_state import Maestro, Terminal
from maestro_state.clock import from_iso
from maestro_state.errors import SessionNotFound
from maestro_state.state.calls.terminals import attach_terminal, detach_terminal
from tests.property.session_model import FROZEN, LEASE_MS, Modelled
from tests.support.backends import Clock
from tests.support.key_leaks import check_keys

#: Values a field may get, by field.
VALUES = {"preferences": [{}, {"a": 1}, {"b": [None, "é"]}], "context_summary": ["", "so far", "\x1b[0m"]}
#: Far longer than a life takes: keys live by the server's own clock, which goes on while the machine is busy.
TTLS_S = [600, 1800, 86_400]
#: Steps of time, in seconds: within a second, over the idle time, over a time to live, and back.
STEPS_S = [0.2, 1, 59, 599, 901, 90_000, -30]


class SessionLife(RuleBasedStateMachine):
    """Sessions and their model side by side."""

    sessions = Bundle("sessions")
    most_sessions = 6

    def __init__(self) -> None:
        super().__init__()
        self.project = Path(tempfile.mkdtemp(prefix="m-"))
        self.clock = Clock()
        self.model: dict[str, Modelled] = {}
        self.commands = 0

    # What differs between the servers.

    def connect(self) -> None:
        """Open Maestro on the server."""
        raise NotImplementedError

    raw: redis.Redis  #: looks at the server past Maestro
    maestro: Maestro

    @initialize()
    def begin(self) -> None:
        """Open the first client."""
        self.connect()

    # The rules.

    @precondition(lambda self: len(self.model) < self.most_sessions)
    @rule(target=sessions, name=st.sampled_from(["fix", "fix", "Ação!"]), ttl=st.sampled_from(TTLS_S))
    def start(self, name, ttl):
        """A session starts."""
        session = self.maestro.sessions.start(name, ttl_seconds=ttl)
        assert session.id not in self.model
        self.model[session.id] = Modelled(session.id, ttl * 1000, self.clock(), self.clock())
        assert self.maestro.project.active() == session.id
        return session.id

    @rule(session_id=sessions, content=st.text(max_size=20).filter(lambda text: text.isprintable()))
    def add_message(self, session_id, content):
        """A message is added."""
        it, now = self.model[session_id], self.clock()
        self.commands += 1
        idempotency_key = f"command-{self.commands}"
        added = self.expect(
            it.refusal(now),
            lambda: self.maestro.messages.add("user", content, session_id, idempotency_key=idempotency_key),
        )
        if added:
            assert not it.messages or order(added.id) > order(it.messages[-1][0])
            it.add(now, added.id, content, idempotency_key)

    @rule(session_id=sessions)
    def repeat_message(self, session_id):
        """The last message is sent once more, as after a lost reply."""
        it = self.model[session_id]
        if it.last_command is None or abs(self.clock() - it.last_command[1]) > 30_000:
            return
        idempotency_key, _, message_id = it.last_command
        again = self.expect(
            SessionNotFound if it.is_gone else None,
            lambda: self.maestro.messages.add("user", "again", session_id, idempotency_key=idempotency_key),
        )
        assert again is None or again.id == message_id

    @rule(
        session_id=sessions,
        name=st.sampled_from(sorted(VALUES)),
        which=st.integers(0, 2),
        seen=st.sampled_from(["any", "present", "stale"]),
    )
    def set_field(self, session_id, name, which, seen):
        """A field is replaced, by somebody who saw its revision, an old one, or does not care."""
        it, now, value = self.model[session_id], self.clock(), VALUES[name][which]
        if_revision = {"any": None, "present": it.revision(name), "stale": it.revision(name) + 1}[seen]
        found = self.expect(
            it.set_refusal(now, name, if_revision),
            lambda: self.maestro.sessions.set(name, value, session_id, if_revision=if_revision),
        )
        if found:
            it.set(now, name, value)
            assert found.revision == it.revision(name)

    @rule(session_id=sessions, name=st.sampled_from(["tty1", "tty2"]))
    def attach(self, session_id, name):
        """A terminal looks."""
        it, now, server = self.model[session_id], self.clock(), self.maestro.server
        call = attach_terminal(server.terms, server.stamp(), session_id, terminal(name))
        if self.expect(it.refusal(now), lambda: server.change(session_id, call)):
            it.touch(now)
            it.attached = {one: it.attached[one] for one in it.looking(now)} | {name: now + LEASE_MS}

    @rule(session_id=sessions, name=st.sampled_from(["tty1", "tty2"]))
    def detach(self, session_id, name):
        """A terminal leaves."""
        self.maestro.server.run(detach_terminal(self.maestro.server.terms, session_id, terminal(name)))
        self.model[session_id].attached.pop(name, None)

    @rule(session_id=sessions)
    def end(self, session_id):
        """A session is finished."""
        it, now = self.model[session_id], self.clock()
        if self.expect(it.refusal(now), lambda: self.maestro.sessions.end(session_id)):
            it.freeze(now, "finalizada", "session.finalized")

    @rule(session_id=sessions, reason=st.sampled_from(["", "enough"]))
    def abort(self, session_id, reason):
        """A session is given up."""
        it, now = self.model[session_id], self.clock()
        if self.expect(it.refusal(now), lambda: self.maestro.sessions.abort(session_id, reason=reason)):
            it.freeze(now, "abortada", "session.aborted", reason)

    @rule(target=sessions, session_id=consumes(sessions), keep=st.booleans())
    def delete(self, session_id, keep):
        """A session is deleted; calls on it may go on."""
        it = self.model[session_id]
        if self.expect(SessionNotFound if it.is_gone else None, lambda: self.maestro.sessions.delete(session_id)):
            self.model[session_id] = Modelled(session_id, it.ttl_ms, it.created_at, it.last_activity, is_gone=True)
            assert self.maestro.project.active() != session_id
        return session_id if keep else multiple()

    @rule(seconds=st.sampled_from(STEPS_S))
    def pass_time(self, seconds):
        """Time passes, or a clock is set back."""
        self.clock.advance(seconds=seconds)

    @rule()
    def come_back(self):
        """The client goes and another one comes."""
        self.maestro.close()
        self.connect()

    @rule(session_id=sessions)
    def look(self, session_id):
        """A session is all that the model says of it."""
        it, now, room = self.model[session_id], self.clock(), self.maestro.sessions
        if it.is_gone:
            self.expect(SessionNotFound, lambda: room.read(session_id))
            assert not self.raw.exists(*self.maestro.server.terms.keys.session(session_id))
            return
        found = room.status(session_id)
        record = found.session
        assert (record.state, record.status, record.abort_reason) == (it.state, it.status(now), it.reason)
        assert {one.terminal for one in found.attached} == it.looking(now)
        messages = self.maestro.messages.since(None, session_id)
        assert [(message.id, message.content) for message in messages] == it.messages
        for name in VALUES:
            field = room.get(name, session_id)
            assert field.revision == it.revision(name)
            assert (field.value or None) == (it.fields.get(name, (None, 0))[0] or None)

    @rule()
    def list_all(self):
        """The index says what the model says, at most a second late about activity."""
        now = self.clock()
        living = {it.id: it for it in self.model.values() if not it.is_gone}
        entries = {row.id: row for row in self.maestro.sessions.list(everything=True)}
        assert set(entries) == set(living)
        for it in living.values():
            row = entries[it.id]
            assert row.state == it.state
            late_ms = it.last_activity - ms(row.updated_at)
            assert 0 <= late_ms < 1000
            assert row.status in (it.status(now), it.status(now + late_ms))
        newest = [row.id for row in self.maestro.sessions.newest(len(living) or 1)]
        assert set(newest) == set(living)

    # What holds at the end of every life.

    def teardown(self) -> None:
        """Look at everything once more."""
        try:
            if not hasattr(self, "maestro"):
                return
            self.list_all()
            for it in self.model.values():
                self.look(session_id=it.id)
                if it.state in FROZEN:
                    events = list(self.maestro.follow.events(it.id, cursor="start"))
                    assert [event.type for event in events] == it.events
                    assert [order(event.id) for event in events] == sorted({order(event.id) for event in events})
            check_keys(self.raw)
        finally:
            if hasattr(self, "maestro"):
                self.maestro.close()
                self.raw.flushall()
            shutil.rmtree(self.project)

    @staticmethod
    def expect(error, call):
        """Make a call that must raise this error, or none; return its result, or None."""
        if error is None:
            return call()
        with pytest.raises(error):
            call()
        return None


def terminal(name: str) -> Terminal:
    """Return a terminal of this name."""
    return Terminal("me", "here", name, "2027-01-01T00:00:00.000+00:00")


def order(entry_id: str) -> tuple[int, ...]:
    """Return an id as something that sorts."""
    return tuple(int(part) for part in entry_id.split("-"))


def ms(text: str) -> int:
    """Return a time as milliseconds."""
    return from_iso(text)
