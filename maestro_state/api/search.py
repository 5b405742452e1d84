"""Search: over everything that sessions say, live and archived, each hit once.

The cache has what archives say. What the server has beyond it is read from there when somebody asks, and kept: a
search costs what is new since the last one.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from maestro_state._sync.archived import Archived
from maestro_state._sync.server import Server
from maestro_state._sync.source import Live
from maestro_state.errors import InvalidValue, MaestroError, NoProject, ServerUnavailable, SessionNotFound
from maestro_state.local.checkouts import is_begun
from maestro_state.local.registry import projects, remember
from maestro_state.mirror.places import Places
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.models.search import KINDS, Found, Rebuilt
from maestro_state.models.work_names import moment_ms
from maestro_state.search.entries import Reading, Seen, read_new
from maestro_state.search.opening import in_memory, open_store
from maestro_state.search.query import Question, ask, merged
from maestro_state.search.refresh import CatchingUp, Progress
from maestro_state.search.store import Known, Store
from maestro_state.search.words import terms
from maestro_state.state.calls import index
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from maestro_state.api.sessions import Sessions

#: Most hits that are told.
LIMIT_MAX = 1000

#: How connections are named that do not keep another project's server running, and how long they try to reach it.
_ONLOOKER = "maestro-stack-watch"
_RETRY_S = 0.5

#: Sessions whose new entries are put into the cache together.
_BATCH = 100

#: States that do not change any more, as the server has them.
_FROZEN = tuple(str(state).encode() for state in FROZEN)

#: What is asked of every session.
_FIELDS = ("last_id", "filling", "state", "archived_id")

T = TypeVar("T")

_seen = msgspec.json.Decoder(Seen).decode


class Search:
    """Finds what was said, asked, answered, added and noted."""

    def __init__(self, server: Server, sessions: Sessions, places: Places, environment: Mapping[str, str]) -> None:
        """Take the server, what finds a session by its reference, and where archives and the user's folders are."""
        self._server = server
        self._sessions = sessions
        self._places = places
        self._environment = environment
        self._opened: Store | None = None
        self._ids: list[str] = []  #: of sessions that the server had the last time
        self._turn = threading.RLock()

    def find(
        self,
        query: str,
        *,
        limit: int = 20,
        kinds: Collection[str] = (),
        session: str | None = None,
        live: bool | None = None,
        since: str | None = None,
        rank: bool = False,
        everywhere: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Found:
        """Find what has all these words, "phrases" and prefixes*, newest first; with `rank` the best ones first.

        `kinds` are some of message, prompt, output, context and note; `live` is True for sessions that the server has,
        False for those that only the disk has; `since` a time, a date, or how long ago (`7d`). `everywhere` searches
        all projects of this user that are there. `progress` hears how many archives of how many were read, when there
        are new ones.
        """
        question = self._question(query, limit, kinds, since)
        question = question._replace(is_live=live, by_rank=rank)
        if everywhere and session is not None:
            raise InvalidValue("a session is in one project", hint="leave out either --session or --everywhere")
        if everywhere:
            return self._find_everywhere(question, progress)
        if not is_begun(self._places.project.path):
            return Found([], 0)
        remember(self._places.project.path, self._environment)
        if session is not None:
            question = question._replace(session_id=self._sessions.resolve(session))
        return self._find_here(question, self._on_server(needed=live is not False), progress)

    def _find_here(
        self, question: Question, on_server: dict[str, str], progress: Progress | None, project: str | None = None
    ) -> Found:
        return self._with_store(lambda store: self._find(store, question, on_server, progress, project))

    def _find_everywhere(self, question: Question, progress: Progress | None) -> Found:
        """Ask each project by itself: what cannot be read in one hides no other."""
        own, found = self._places.project.path, []
        if is_begun(own):
            remember(own, self._environment)
            on_server = self._on_server(needed=question.is_live is not False)
            found.append(self._find_here(question, on_server, progress, own))
        for root in projects(self._environment):
            if root == own:
                continue
            try:
                found.append(self._find_elsewhere(root, question, progress))
            except (MaestroError, OSError):
                found.append(Found([], 0, [root]))
        return merged(found, question)

    def _find_elsewhere(self, root: str, question: Question, progress: Progress | None) -> Found:
        """Search another project; its server is asked if it runs, and never started."""
        from pathlib import Path

        from maestro_state.api.maestro import Maestro
        from maestro_state.local.embedded import is_running

        options: dict[str, Any] = {"environment": self._environment, "now_ms": self._server.now_ms}
        with Maestro(root, **options) as there:
            has_own_server = there.settings.redis_url is None
            if not has_own_server or not is_running(Path(root)):
                # On a server that projects share, what is live was found there already.
                return there.search._find_here(question, {}, progress, root)  # noqa: SLF001 - one of our own kind
            address = f"unix://{there.address.path}"
        with Maestro(root, redis_url=address, client_name=_ONLOOKER, **options) as there:
            there.server.connection.retry_s = _RETRY_S
            search = there.search
            return search._find_here(question, search._on_server(needed=False), progress, root)  # noqa: SLF001

    def rebuild(self, *, progress: Callable[[int, int], None] | None = None) -> Rebuilt:
        """Throw the cache away and make it anew. Takes as long as reading every archive."""
        self._places.project.check_begun()
        on_server = self._on_server(needed=False)
        with self._turn:
            self._reopen(anew=True)
            return self._with_store(lambda store: self._rebuilt(store, on_server, progress))

    def close(self) -> None:
        """Close the cache. Repeatable."""
        with self._turn:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _question(self, query: str, limit: int, kinds: Collection[str], since: str | None) -> Question:
        if not 1 <= limit <= LIMIT_MAX:
            raise InvalidValue(f"the limit must be between 1 and {LIMIT_MAX}, not {limit}", hint="--limit 20")
        for kind in kinds:
            if kind not in KINDS:
                raise InvalidValue(f"'{kind[:20]}' is not a kind", hint=", ".join(KINDS))
        since_ms = None if since is None else moment_ms(since, self._server.now_ms())
        return Question(terms(query), frozenset(kinds or KINDS), since_ms=since_ms, limit=limit)

    def _with_store(self, work: Callable[[Store], T]) -> T:
        """Do something with the cache; with a new one if it turns out to be damaged."""
        with self._turn:
            if self._opened is None or not self._opened.is_current():
                self._reopen()
            try:
                return work(cast(Store, self._opened))
            except sqlite3.DatabaseError:
                self._reopen(anew=True)
            except TimeoutError:  # whoever changes it was stopped in the middle: from now on done without
                self.close()
                self._opened = in_memory()
            try:
                return work(cast(Store, self._opened))
            except (sqlite3.DatabaseError, TimeoutError):  # a full disk, say: what a cache is for is done without
                self.close()
            with in_memory() as store:
                return work(store)

    def _reopen(self, *, anew: bool = False) -> None:
        self.close()
        self._opened = open_store(self._places.project, self._environment, anew=anew)

    def _find(
        self,
        store: Store,
        question: Question,
        on_server: dict[str, str],
        progress: Progress | None,
        project: str | None,
    ) -> Found:
        self._catch_up(store, on_server, progress)
        return ask(store, question, project)

    def _rebuilt(self, store: Store, on_server: dict[str, str], progress: Progress | None) -> Rebuilt:
        self._catch_up(store, on_server, progress)
        counts = (store.count("session"), store.count("entry"))
        return Rebuilt(*counts)

    def _catch_up(self, store: Store, on_server: dict[str, str], progress: Progress | None) -> None:
        CatchingUp(store, self._places.own, self._archived).archives(on_server, progress)
        self._read_live(store, on_server)

    def _archived(self, session_id: str) -> Archived:
        return Archived(ArchivedSession(self._places.own, session_id))

    def _on_server(self, *, needed: bool) -> dict[str, str]:
        """Return the sessions that the server has, and the id of what last happened in each.

        Asked of the sessions themselves: the index may be a second behind.
        """
        try:
            rows = self._ask_server()
        except NoProject:
            return {}
        except ServerUnavailable as error:
            if needed:
                raise ServerUnavailable(
                    str(error), hint="maestro search --archived searches what is on disk"
                ) from error
            return {}
        found = {}
        for one, (last_id, filling, state, archived_id) in rows.items():
            # One that is over and on disk is archived, though the server keeps it for another minute.
            is_over = state in _FROZEN and last_id == archived_id and self._is_on_disk(one)
            if last_id and not filling and not is_over:
                found[one] = last_id.decode()
        return found

    def _ask_server(self) -> dict[str, list[bytes | None]]:
        """Ask about every session in one round trip, if they are those of the last time; else in two."""
        terms, connection = self._server.terms, self._server.connection

        def about(ids: list[str]) -> list[tuple[str, ...]]:
            return [("HMGET", terms.keys.of_session(one, "session"), *_FIELDS) for one in ids]

        listing, before = [query.command for query in index.all_rows(terms)], self._ids
        found = connection.calls([*listing, *about(before)])
        known = dict(zip(before, found[len(listing) :], strict=True))
        self._ids = ids = [entry.id for entry in index.all_sessions(found[: len(listing)])]
        missing = [one for one in ids if one not in known]
        if missing:
            known.update(zip(missing, connection.calls(about(missing)), strict=True))
        return {one: known[one] for one in ids}

    def _is_on_disk(self, session_id: str) -> bool:
        try:
            self._archived(session_id)
        except (MaestroError, OSError):
            return False
        return True

    def _read_live(self, store: Store, on_server: dict[str, str]) -> None:
        """Read what is new on the server."""
        known = store.known_live()
        if all(one in known and _seen(known[one].seen).last_id == last for one, last in on_server.items()):
            return
        with store.changing():
            known = store.known_live()  # somebody else may have read it meanwhile
            changed = [
                (one, last)
                for one, last in on_server.items()
                if one not in known or _seen(known[one].seen).last_id != last
            ]
            for start in range(0, len(changed), _BATCH):
                with store.transaction():
                    for session_id, last_id in changed[start : start + _BATCH]:
                        self._read_one(store, session_id, last_id, known.get(session_id))

    def _read_one(self, store: Store, session_id: str, last_id: str, known: Known | None) -> None:
        before = _seen(known.seen) if known else Seen()
        there = store.entries(known.number) if known else {}
        try:
            reading = read_new(Live(self._server, session_id), before, there)
        except SessionNotFound:
            return
        except ServerUnavailable:
            raise
        except MaestroError:
            reading = Reading([], before, [""])  # damaged: others are found all the same
        seen = msgspec.structs.replace(reading.seen, last_id=last_id)
        if known is None:
            store.forget(session_id)  # what its archive said
        number = store.put(
            session_id,
            is_live=True,
            is_whole=not reading.unreadable,
            seen=msgspec.json.encode(seen).decode(),
        )
        read = {(row.kind, row.entry) for row in reading.entries}
        store.remove(place for row, place in there.items() if row in read or row[0] == "note")
        store.add((number, row) for row in reading.entries)
