"""Bindings: the key of another framework stands for one session, made once, gone on with when it has ended."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from maestro_state._sync.bindings import BoundKeys
from maestro_state._sync.server import Server
from maestro_state.clock import new_suffix
from maestro_state.errors import Conflict, SessionExists, SessionNotFound
from maestro_state.local.project import Project
from maestro_state.models import bound as names
from maestro_state.models.bound import Bound
from maestro_state.state.calls import bindings as ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from maestro_state.api.sessions import Sessions
    from maestro_state.mirror.places import Places

#: How often a key is looked up again when its session ends, moves or goes while it is looked at.
TRIES = 20


class Bindings(BoundKeys):
    """Keys of other frameworks, each bound to one session."""

    def __init__(self, server: Server, places: Places, sessions: Sessions, project: Project) -> None:
        """Take the sessions, to go on with those that have ended."""
        super().__init__(server, places)
        self._sessions = sessions
        self._project = project

    def ensure(self, kind: str, key: str, *, ttl_seconds: int | None = None) -> str:
        """Return a session to write to under a key: found, made, or a fork of one that has ended.

        However many ask at once, they get the same one. Whoever is killed here has done nothing, or what the next one
        goes on with.
        """
        bound = Bound.of(kind, key)
        ttl_ms = session_ops.check_ttl(ttl_seconds) if ttl_seconds is not None else self._server.terms.ttl_ms
        self._project.begin()
        for _ in range(TRIES):
            session_id, is_begun = self._bound(bound, ttl_ms)
            state = self._state(session_id)
            if state is not None and state not in FROZEN:
                return session_id
            if state is not None:
                self._go_on(bound, session_id)
            elif is_begun:
                self._begin_anew(bound, session_id, ttl_ms)
            elif self._begin(bound, session_id, ttl_ms):
                return session_id
        raise Conflict(f"the session of {kind}:{key[:40]} keeps changing", hint="try again")

    def _bound(self, bound: Bound, ttl_ms: int) -> ops.BoundTo:
        """Return what a key is bound to, or bind it: to what it stood for before, else to an id that nobody has."""
        terms = self._server.terms
        found: ops.BoundTo | None = self._server.fetch(ops.read_binding(terms, bound))
        if found:
            return found
        before = self._unbound(bound)
        call = ops.bind_session(terms, bound, before or self._new_id(bound), ttl_ms, is_begun=before is not None)
        bound_to: ops.BoundTo = self._server.run(call)
        return bound_to

    def _begin_anew(self, bound: Bound, gone: str, ttl_ms: int) -> None:
        """Bind a key to another session than one that was there and is not within reach: deleted, or only in the
        archive of another machine. That id is never used again; the next one follows from it, so that all who
        begin anew at once begin the same.
        """
        session_id = _derived(bound, f"{gone} anew")
        self._begin(bound, session_id, ttl_ms, forked_from=gone)
        self._server.run(
            ops.bind_session(self._server.terms, bound, session_id, ttl_ms, is_begun=True, instead_of=gone)
        )

    def _new_id(self, bound: Bound) -> str:
        archived = self._places.own.ids()
        while (chosen := f"{bound.slug}--{new_suffix()}") in archived:
            pass
        return chosen

    def _state(self, session_id: str) -> str | None:
        """Return a session's state, once it is frozen if its time is over; None when it is nowhere."""
        try:
            return self._sessions.read(session_id).state
        except SessionNotFound:
            return None

    def _begin(self, bound: Bound, session_id: str, ttl_ms: int, *, forked_from: str | None = None) -> bool:
        """Make the session that a key is bound to; one that is there by now is looked at again."""
        fields: dict[str, str | None] = {
            "working_directory": self._project.checkout,
            "project": self._project.path,
            "bound": names.stored(bound),
            "forked_from": forked_from,
        }
        call = session_ops.start_session(self._server.terms, self._server.stamp(), session_id, ttl_ms, fields)
        try:
            self._server.change(session_id, call)
        except SessionExists:
            return False
        return True

    def _go_on(self, bound: Bound, ended: str) -> None:
        """Fork a session that has ended, and have the key mean the fork.

        The fork's id follows from what it is a fork of: all who go on at once fill the same one, with the same.
        """
        from maestro_state.api.fork import UNFINISHED_MS, fill_from, taken_over

        session_id, terms = _derived(bound, ended), self._server.terms
        source = self._sessions.source(ended)
        origin, fields = taken_over(source, self._project.path)
        ttl_ms = (origin.ttl_seconds or terms.ttl_ms // 1000) * 1000
        if session_id not in self._places.own.ids():
            unfinished = msgspec.structs.replace(terms, grace_ms=UNFINISHED_MS - ttl_ms)
            filled = fields | {"bound": names.stored(bound)}
            start = session_ops.start_session(unfinished, self._server.stamp(), session_id, ttl_ms, filled)
            with suppress(SessionExists):  # somebody else is at it: who comes last finds it done
                self._server.run(start)
            fill_from(self._server, session_id, source)
        self._server.run(ops.bind_session(terms, bound, session_id, ttl_ms, is_begun=True, instead_of=ended))

    def delete(self, kind: str, key: str) -> bool:
        """Remove every session of a key, live and archived, and the binding; tell whether there was one."""
        from maestro_state.mirror.bound import bound_archives

        bound = Bound.of(kind, key)
        if self.find(kind, key) is None:
            return False
        found: ops.BoundTo | None = self._server.fetch(ops.read_binding(self._server.terms, bound))
        ids = dict.fromkeys([*([found.session_id] if found else []), *bound_archives(self._places.own, bound)])
        if not ids and (unbound := self._unbound(bound)):
            ids[unbound] = None
        for session_id in ids:
            try:
                self._sessions.delete(session_id)
            except SessionNotFound:
                continue
        if found:  # last: whoever is killed before finds all of it again
            self._server.run(ops.unbind_session(self._server.terms, bound, found.session_id))
        return bool(ids)


def _derived(bound: Bound, origin: str) -> str:
    """Return the id that follows from what a key stood for."""
    return f"{bound.slug}--{hashlib.sha256(f'{bound.digest}{origin}'.encode()).hexdigest()[:6]}"
