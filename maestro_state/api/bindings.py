"""Bindings: the key of another framework stands for one session, made once, gone on with when it has ended."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from maestro_state._sync.bindings import BoundKeys
from maestro_state._sync.server import Server
from maestro_state.clock import new_suffix
from maestro_state.errors import Conflict, MaestroError, NoProject, SessionExists, SessionNotFound
from maestro_state.local.project import Project
from maestro_state.models import binding as names
from maestro_state.models.binding import Bound
from maestro_state.state.calls import bindings as ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from maestro_state.api.sessions import Sessions
    from maestro_state.mirror.places import Places
    from maestro_state.models.session import Session

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
            session = self._record(session_id)
            if session is not None and session.state not in FROZEN and not self._is_behind(session):
                return session_id
            if session is not None:
                self._go_on(bound, session_id)
            elif is_begun:
                self._begin_anew(bound, session_id, ttl_ms)
            elif self._begin(bound, session_id, ttl_ms) and self._hold(bound, session_id, ttl_ms):
                return session_id
        raise Conflict(f"the session of {kind}:{key[:40]} keeps changing", hint="try again")

    def _bound(self, bound: Bound, ttl_ms: int) -> ops.BoundTo:
        """Return what a key is bound to, or bind it: to what it stood for before, else to an id that nobody has."""
        terms = self._server.terms
        found = self._bound_to(bound)
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

    def _record(self, session_id: str) -> Session | None:
        """Return a session's record, once it is frozen if its time is over; None when it is nowhere."""
        try:
            return self._sessions.read(session_id)
        except SessionNotFound:
            return None

    def _state(self, session_id: str) -> str | None:
        session = self._record(session_id)
        return None if session is None else session.state

    def _is_behind(self, session: Session) -> bool:
        """End a session that takes no changes by its record, though the server counted less: a machine whose clock is
        behind made it. Ended, so that it too goes on in the fork. Tells whether it is ended now.
        """
        from maestro_state.upkeep.expiry import Expiry

        if not self._sessions.is_over(session):
            return False
        Expiry(self._server, self._places).freeze(session.id, by_record=True)
        return self._state(session.id) in FROZEN

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

    def _hold(self, bound: Bound, session_id: str, ttl_ms: int) -> bool:
        """See that a key means the session that was just begun for it: it may have been deleted in between. One that it
        does not mean is removed again.
        """
        call = ops.bind_session(self._server.terms, bound, session_id, ttl_ms, is_begun=True, instead_of=session_id)
        if self._server.run(call).session_id == session_id:
            return True
        if self._state(session_id) not in FROZEN:
            with suppress(SessionNotFound):
                self._sessions.delete(session_id)
        return False

    def _go_on(self, bound: Bound, ended: str) -> None:
        """Fork a session that has ended, and have the key mean the fork.

        The fork's id follows from what it is a fork of: all who go on at once fill the same one, with the same.
        """
        session_id, bound_to = _derived(bound, ended), ""
        try:
            ttl_ms = self._fill(bound, session_id, ended)
            move = ops.bind_session(
                self._server.terms, bound, session_id, ttl_ms, is_begun=True, instead_of=ended, only_moves=True
            )
            bound_to = self._server.run(move).session_id
        except MaestroError:
            if self._state(ended) is not None:
                raise
        if bound_to != session_id and self._state(ended) is None:  # deleted meanwhile: so is what was copied of it
            with suppress(SessionNotFound):
                self._sessions.delete(session_id)

    def _fill(self, bound: Bound, session_id: str, ended: str) -> int:
        """Make a fork of a session that has ended, unless it is there; returns its time to live, in milliseconds."""
        from maestro_state.api.fork import UNFINISHED_MS, fill_from, taken_over

        source, terms = self._sessions.source(ended), self._server.terms
        origin, fields = taken_over(source, self._project.path)
        ttl_ms = (origin.ttl_seconds or terms.ttl_ms // 1000) * 1000
        if session_id not in self._places.own.ids():
            unfinished = msgspec.structs.replace(terms, grace_ms=UNFINISHED_MS - ttl_ms)
            filled = fields | {"bound": names.stored(bound)}
            start = session_ops.start_session(unfinished, self._server.stamp(), session_id, ttl_ms, filled)
            with suppress(SessionExists):  # somebody else is at it: who comes last finds it done
                self._server.run(start)
            fill_from(self._server, session_id, source)
        return ttl_ms

    def delete(self, kind: str, key: str) -> bool:
        """Remove every session of a key, live and archived, and the binding; tell whether there was one."""
        bound, deleted = Bound.of(kind, key), set[str]()
        for _ in range(TRIES):
            try:
                found = self._bound_to(bound)
            except NoProject:
                return False
            newest = found.session_id if found else self._unbound(bound)
            # Bound to a fork that somebody made of what is deleted here: all of that is in it.
            if newest is None or (deleted and newest not in {_derived(bound, one) for one in deleted}):
                break
            ids = self._sessions_of(bound, newest)
            for session_id in reversed(ids):  # oldest first: each is found again by what went on from it
                with suppress(SessionNotFound):
                    self._sessions.delete(session_id)
            deleted.update(ids)
            # Last: whoever is killed before finds all of it again.
            if found and self._server.run(ops.unbind_session(self._server.terms, bound, found.session_id)) == "OK":
                break
        return bool(deleted)

    def _sessions_of(self, bound: Bound, newest: str) -> list[str]:
        """Return what a key means, all that it meant before, and its archives: the newest first. What has ended may be
        on the server and in the archive of another machine.
        """
        from maestro_state.mirror.bindings import bound_archives

        found, following = dict[str, None](), newest
        while following and following not in found:
            found[following] = None
            try:
                record = self._sessions.read(following)
            except SessionNotFound:
                break
            following = (record.forked_from or "") if record.bound == bound else ""
        return [*(found | dict.fromkeys(bound_archives(self._places.own, bound)))]


def _derived(bound: Bound, origin: str) -> str:
    """Return the id that follows from what a key stood for."""
    return f"{bound.slug}--{hashlib.sha256(f'{bound.digest}{origin}'.encode()).hexdigest()[:6]}"
