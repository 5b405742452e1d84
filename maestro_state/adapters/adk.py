"""Sessions of Google's Agent Development Kit, kept in Maestro.

    service = MaestroSessionService()
    runner = Runner(agent=agent, app_name="shop", session_service=service)

Or `adk web --session_service_uri maestro:`. A session of ADK is one of Maestro, bound to `app/user/id`; its events are
messages. What is of the app or the user outlives it, in sessions bound to `app` and `app/user`.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from operator import itemgetter
from typing import Any
from urllib.parse import unquote, urlsplit

from maestro_state.adapters import adk_events as form
from maestro_state.adapters.adk_events import APP, KIND, TEMP, USER
from maestro_state.adapters.binding import Adapter, Binding, Entries, settled
from maestro_state.adapters.items import reader
from maestro_state.adapters.lru_cache import LRUCache
from maestro_state.adapters.view import View
from maestro_state.clock import from_iso, new_suffix
from maestro_state.errors import Conflict, InvalidValue, SessionNotFound
from maestro_state.local.settings import NAMES
from maestro_state.models.binding import joined, parts_of
from maestro_state.models.message import Message

try:
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events.event import Event
    from google.adk.platform import time as platform_time
    from google.adk.platform import uuid as platform_uuid
    from google.adk.sessions.base_session_service import (
        BaseSessionService,
        GetSessionConfig,
        ListSessionsResponse,
    )
    from google.adk.sessions.session import Session
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise ImportError("this needs Google's ADK: pip install 'maestro-state[adk]'") from error

log = logging.getLogger("maestro_state.adk")

#: What is kept of a session: when it was made, its state as a log of changes, the time of its last event, which write
#: was the last one, and which event.
CREATED, STATE, UPDATED, REVISION, LAST = "created", "state", "updated", "revision", "last"
#: Changes of the app's and the user's state that an event brings, until they are made.
OWED = "owed"
_HEAD = [CREATED, STATE, UPDATED, REVISION, OWED]
_LISTED = [STATE, UPDATED, REVISION]
#: What a Maestro is made with beside its settings.
_OPTIONS = (
    *("project", "maestro", "ttl_seconds", "session", "environment"),
    *("now_ms", "client_name", "client", "blocking_client"),
)
#: Keys whose sessions are remembered.
_REMEMBERED = 4096
#: What a handle is told that is behind; who looks for it in ADK's errors looks for "modified in storage".
_STALE = "The session has been modified in storage since it was read; read it again."
#: How often a note is taken out again when others write meanwhile; whoever reads the session next does it else.
_TRIES = 5


class _Known:
    """What is known of a key; whether it still holds is found out by the step that writes."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.created: bytes | None = None
        self.state = form.Growth()


class MaestroSessionService(Adapter, BaseSessionService):  # type: ignore[misc]  # the framework may not be installed
    """A session service of ADK, on Maestro's server and archive."""

    def __init__(self, uri: str | None = None, *, on_conflict: str = "append", **options: Any) -> None:
        """Take `project`, `maestro`, `ttl_seconds` and settings; nothing is opened yet.

        `uri` is what `adk web --session_service_uri` is given: `maestro:` or `maestro:/path`. What else ADK passes is
        let be. With `on_conflict="reject"` an event for a session that was read before others wrote is refused.
        """
        if on_conflict not in ("append", "reject"):
            raise InvalidValue(f"on_conflict '{str(on_conflict)[:40]}' is unknown", hint="one of append, reject")
        if uri is not None and (folder := _folder(uri)):
            options.setdefault("project", folder)
        taken = {*_OPTIONS, *NAMES}
        super().__init__(**{name: value for name, value in options.items() if name in taken})
        self.on_conflict = on_conflict
        self._known = LRUCache(lambda key: _Known(self.binding(KIND, key)), _REMEMBERED)

    def _of(self, *parts: str) -> _Known:
        return self._known.of(joined(*parts))

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Make a session; raises AlreadyExistsError for an id that is taken."""
        chosen = (session_id or "").strip() or platform_uuid.new_uuid()
        known = self._of(app_name, user_id, chosen)
        taken = AlreadyExistsError(f"Session with id {chosen} already exists.")
        if session_id and CREATED in await View(known.binding).read([CREATED]):
            raise taken
        now, revision, delta = platform_time.get_time(), new_suffix(), form.scoped(_plain(state or {}))
        known.created = f"{now!r} {revision}".encode()
        step = Entries().expect(CREATED, None).set(CREATED, known.created).set(UPDATED, repr(now))
        step.set(REVISION, revision).set(STATE, form.change(delta[""]))
        owed = _owed(step, revision, delta)
        try:
            await settled(known.binding.write(step))
        except Conflict as conflict:
            known.created = None
            raise taken from conflict
        await self._pay(known, app_name, user_id, owed)
        return _session(
            (app_name, user_id, chosen), await self._merged(app_name, user_id, delta[""]), [], now, revision
        )

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its state and events, or only the latest ones where the config says so."""
        key = (app_name, user_id, (session_id or "").strip())
        known = self._of(*key)
        view = View(known.binding)
        found = await view.read(_HEAD)
        if CREATED not in found:
            return None
        if found.get(OWED):
            await self._pay(known, app_name, user_id, found[OWED])
        events = await self._events(known.binding, config or GetSessionConfig())
        state = await self._merged(app_name, user_id, known.state.read(found.get(STATE, b"")))
        return _session(key, state, events, float(found[UPDATED]), found[REVISION].decode())

    async def _events(self, binding: Binding, config: GetSessionConfig) -> list[Event]:
        """Read the events that are asked for, and hardly more."""
        wanted, after = config.num_recent_events, config.after_timestamp
        if wanted is None and after is None:
            events = await binding.items(_read, _event_of)
            return [event for event in events if event is not None]
        window = wanted if wanted is not None else 16
        while window > 0:
            messages = await binding.messages(last=window)
            found = [event for event in map(_event_of, messages) if event is not None]
            recent = found if wanted is None else found[-wanted:]
            chosen = _since(recent, after)
            is_all = len(messages) < window
            if (
                is_all
                or (wanted is not None and len(found) >= wanted)
                or (wanted is None and len(chosen) < len(recent))
            ):
                return chosen
            window *= 4
        return []

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """List the sessions of an app or of one of its users, live and archived, the most recent one last."""
        of_app = joined(app_name)
        of_user = of_app if user_id is None else joined(app_name, user_id)
        own, below = (of_app, of_user), of_user + "/"
        rows: dict[str, Any] = {}
        for row in await self.maestro.sessions.list(everything=True):
            bound = row.bound_to
            if bound is None or bound.kind != KIND or row.orphan:
                continue
            key = bound.key
            if not key.startswith(below) and key not in own:
                continue
            # Of a session that was gone on with in a fork, the fork is the one that counts.
            if key not in rows or from_iso(rows[key].updated_at) < from_iso(row.updated_at):
                rows[key] = row
        kept = dict(zip(rows, await self.kept_in([row.id for row in rows.values()], _LISTED), strict=True))
        # What is of the app and its users is in sessions of theirs, which are among them and have no time of an event.
        shared: dict[str, dict[str, Any]] = {}
        found: list[tuple[float, str, str, dict[str, bytes]]] = []
        for key, one in kept.items():
            if UPDATED in one:
                _, user, session_id = parts_of(key)
                found.append((float(one[UPDATED]), user, session_id, one))
                if user not in shared:
                    states = (_state(kept.get(of, {})) for of in (of_app, joined(app_name, user)))
                    shared[user] = form.shared(*states)
        found.sort(key=itemgetter(0, 1, 2))
        sessions = [
            _session((app_name, user, session_id), _state(one) | shared[user], [], updated, one[REVISION].decode())
            for updated, user, session_id, one in found
        ]
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session with its archive; what is of the app or the user stays."""
        key = (app_name, user_id, (session_id or "").strip())
        known = self._of(*key)
        self._known.forget(joined(*key))
        await settled(known.binding.delete())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return what is of a user, whatever sessions there are."""
        return await self._shared(app_name, user_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event and what it changes of the state; an equal one again is nothing."""
        if event.partial:
            return event
        key = (session.app_name, session.user_id, session.id)
        known = self._of(*key)
        if known.created is None:
            known.created = (await View(known.binding).read([CREATED])).get(CREATED)
        if known.created is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        delta = event.actions.state_delta if event.actions and event.actions.state_delta else {}
        passing = {name: value for name, value in delta.items() if name.startswith(TEMP)}
        event = self._trim_temp_delta_state(event)
        item, changed, revision = _item(event), form.scoped(_plain(delta)), new_suffix()
        role, text, parts = form.said(item)
        known_by = form.known_by(item)
        step = Entries().expect(CREATED, known.created).expect(known_by, None)
        if self.on_conflict == "reject":
            _expect_unchanged(step, session)
        step.set(known_by, b"1").message(role, text, metadata=form.metadata_of(item), **parts)
        step.set(UPDATED, repr(event.timestamp)).set(REVISION, revision).set(LAST, known_by)
        if changed[""]:
            step.append(STATE, line := form.change(changed[""]))
            step.event("state.changed", keys=json.dumps([*changed[""]]))
            known.state.added(line)
        owed = _owed(step, revision, changed)
        try:
            await settled(known.binding.write(step, begins=False))
        except SessionNotFound as gone:
            known.created = None
            raise SessionNotFoundError(f"Session {session.id} not found.") from gone
        except Conflict as conflict:
            if await self._has(known, known_by):
                return event
            raise StaleSessionError(_STALE) from conflict
        await self._pay(known, session.app_name, session.user_id, owed)
        await self._shorten(known)
        session.state.update(passing)
        session.last_update_time = event.timestamp
        session._storage_update_marker = revision  # noqa: SLF001  # ADK's own place for it
        return self._commit_event_to_session(session, event)

    async def _has(self, known: _Known, event_name: str) -> bool:
        """Tell whether an event is there; raises SessionNotFoundError when the session is not, or is another one."""
        found = await View(known.binding).read([CREATED, event_name])
        if found.get(CREATED) == known.created:
            return event_name in found
        known.created = None
        raise SessionNotFoundError(f"Session of key {known.binding.bound.key} not found.")

    async def _pay(self, known: _Known, app_name: str, user_id: str, owed: bytes) -> None:
        """Make the changes of shared states that events brought, each once; who is killed meanwhile leaves the note."""
        for line in owed.splitlines(keepends=True):
            revision, app, user = json.loads(line)
            paid, targets = f"paid {revision}", []
            for target, delta in ((self._of(app_name), app), (self._of(app_name, user_id), user)):
                if delta:
                    targets.append(target)
                    step = Entries().expect(paid, None).set(paid, b"1").append(STATE, change := form.change(delta))
                    with suppress(Conflict):  # somebody else did
                        await settled(target.binding.write(step))
                        target.state.added(change)
            if await self._cross_out(known, line):
                for target in targets:
                    await target.binding.write(Entries().drop(paid))
                    await self._shorten(target)

    async def _cross_out(self, known: _Known, line: bytes) -> bool:
        """Take what was done out of what is owed; not of a session that has ended, which is not gone on with for it."""
        for _ in range(_TRIES):
            view = View(known.binding)
            owed = (await view.read([OWED])).get(OWED, b"")
            left = owed.replace(line, b"")
            if view.is_archived or left == owed:
                return False
            step = Entries().expect(OWED, owed)
            with suppress(Conflict):  # more came in between
                try:
                    await settled(known.binding.write(step.set(OWED, left) if left else step.drop(OWED), begins=False))
                except SessionNotFound:
                    return False  # deleted, and its note with it
                return True
        return False

    async def _shorten(self, known: _Known) -> None:
        """Make one change of many, now and then."""
        if not known.state.is_long():
            return
        log = (await View(known.binding).read([STATE])).get(STATE, b"")
        try:
            step = Entries().expect(STATE, log).set(STATE, form.change(form.state_of(log)))
            await known.binding.write(step, begins=False)
        except (Conflict, InvalidValue, SessionNotFound):
            return  # somebody writes: next time; or it is too much for one value

    async def _shared(self, *parts: str) -> dict[str, Any]:
        known = self._of(*parts)
        return known.state.read((await View(known.binding).read([STATE])).get(STATE, b""))

    async def _merged(self, app_name: str, user_id: str, state: dict[str, Any]) -> dict[str, Any]:
        """Return a session's state together with that of its app and its user."""
        app, user = await self._shared(app_name), await self._shared(app_name, user_id)
        return state | form.shared(app, user)

    async def maestro_id(self, *, app_name: str, user_id: str, session_id: str) -> str | None:
        """Return the id of the Maestro session; None when there is none."""
        return await self._of(app_name, user_id, session_id.strip()).binding.find()


def _folder(uri: str) -> str | None:
    """Return the folder that an address names; None for the project of the current folder."""
    address = urlsplit(uri)
    if address.scheme != "maestro":
        raise InvalidValue(f"'{uri[:80]}' is no address of Maestro", hint="maestro: or maestro:/path/of/a/project")
    return unquote(address.netloc + address.path) or None


def _state(kept: dict[str, bytes]) -> dict[str, Any]:
    return form.state_of(kept.get(STATE, b""))


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state as JSON has it; what JSON has no form for, as text, which is said: it comes back as another."""
    as_text: set[str] = set()

    def described(value: Any) -> str:
        as_text.add(type(value).__name__)
        return str(value)

    found: dict[str, Any] = to_jsonable_python(state, fallback=described)
    if as_text:
        log.warning("JSON has no form for some values of the state, kept as text: %s", ", ".join(sorted(as_text)))
    return found


def _item(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = event.model_dump(mode="json", exclude_none=True, fallback=str)
    return found


def _owed(step: Entries, revision: str, changed: dict[str, dict[str, Any]]) -> bytes:
    """Note in a step what it changes of shared states, which are elsewhere; returns the note."""
    if not changed[APP] and not changed[USER]:
        return b""
    note = json.dumps([revision, changed[APP], changed[USER]], default=str).encode() + b"\n"
    step.append(OWED, note)
    return note


def _expect_unchanged(step: Entries, session: Session) -> None:
    """Have a step refused when the session was written to since it was read."""
    marker = session._storage_update_marker  # noqa: SLF001
    if marker is not None:
        step.expect(REVISION, marker)
    else:  # made by hand, or by another service: its last event must be the last one
        step.expect(LAST, form.known_by(_item(session.events[-1])) if session.events else None)


_EMPTY = Session(app_name="", user_id="", id="", state={}, events=[], last_update_time=0.0)


def _session(key: Any, state: dict[str, Any], events: list[Event], updated: float, revision: str) -> Session:
    app_name, user_id, session_id = key
    values = {"app_name": app_name, "user_id": user_id, "id": session_id, "state": state, "events": events}
    # All of it is what we made ourselves: a copy takes a third of what it takes to have it looked at.
    found = _EMPTY.model_copy(update=values | {"last_update_time": updated})
    found._storage_update_marker = revision  # noqa: SLF001
    return found


def _event_of(message: Message) -> Event | None:
    return _event(form.item_of(message))


def _event(item: Any) -> Event | None:
    return Event.model_validate(item) if isinstance(item, dict) else None


_item_in = reader(KIND, form.item_of)


def _read(entry: list[Any]) -> Event | None:
    """Read an event from what is stored, at once: a thousand items that wait for it cost the collector a tenth more."""
    return _event(_item_in(entry))


def _since(events: list[Event], after: float | None) -> list[Event]:
    """Return the events behind the last one that is too old."""
    if after is None:
        return events
    begin = next((number + 1 for number in range(len(events) - 1, -1, -1) if events[number].timestamp < after), 0)
    return events[begin:]
