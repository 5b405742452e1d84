"""Session services of google-adk. Their verbs are only offered awaited."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from benchmarks.peers import BODY
from benchmarks.rig import Rig, loop

APP, USER = "bench", "you"


def event() -> Event:
    """Return what a message is there."""
    return Event(author="user", content=types.Content(role="user", parts=[types.Part(text=BODY)]))


def _in_memory(_: Path) -> Any:
    return InMemorySessionService()


def _sqlite(path: Path) -> Any:
    return SqliteSessionService(str(path))


def _database(path: Path) -> Any:
    return DatabaseSessionService(f"sqlite+aiosqlite:///{path}")


class _Service:
    """One service in a place of its own."""

    def __init__(self, open_service: Any, bench: Rig) -> None:
        self.path = bench.folder / f"adk-{uuid.uuid4().hex[:8]}.db"
        self.service = open_service(self.path)

    def run(self, coroutine: Any) -> Any:
        return loop().run_until_complete(coroutine)

    def close(self) -> None:
        """Close its files, where it has any."""
        if isinstance(self.service, DatabaseSessionService):
            self.run(self.service.close())


class _History(_Service):
    def __init__(self, open_service: Any, bench: Rig, messages: int) -> None:
        super().__init__(open_service, bench)
        self.session = self.run(self.service.create_session(app_name=APP, user_id=USER, session_id="one"))
        self.run(self.append())
        # One by one this would take minutes: the rest are copies of the first, where the service keeps it.
        if isinstance(self.service, InMemorySessionService):
            stored = self.service.sessions[APP][USER]["one"]
            # Very long ones are only added to, which looks at ids alone: one event in all places is enough.
            more = messages - 1
            stored.events += [event() for _ in range(more)] if more < 10_000 else [event()] * more
        else:
            self._copy_row(messages - 1)

    def _copy_row(self, count: int) -> None:
        with sqlite3.connect(self.path) as file:
            rows = file.execute("SELECT * FROM events")
            columns, first = [one[0] for one in rows.description], rows.fetchone()
            place = columns.index("id")
            copies = ((*first[:place], str(uuid.uuid4()), *first[place + 1 :]) for _ in range(count))
            file.executemany(f"INSERT INTO events VALUES ({','.join('?' * len(columns))})", copies)

    async def append(self) -> Any:
        return await self.service.append_event(self.session, event())

    async def last(self) -> Any:
        recent = GetSessionConfig(num_recent_events=20)
        found = await self.service.get_session(app_name=APP, user_id=USER, session_id="one", config=recent)
        return found.events

    async def all(self) -> Any:
        return (await self.service.get_session(app_name=APP, user_id=USER, session_id="one")).events


class _List(_Service):
    def __init__(self, open_service: Any, bench: Rig, sessions: int) -> None:
        super().__init__(open_service, bench)
        self.run(self.service.create_session(app_name=APP, user_id=USER, session_id="first"))
        if isinstance(self.service, InMemorySessionService):
            self.run(self._create(sessions - 1))
        else:
            self._copy_row(sessions - 1)

    async def _create(self, count: int) -> None:
        for number in range(count):
            await self.service.create_session(app_name=APP, user_id=USER, session_id=f"s{number}")

    def _copy_row(self, count: int) -> None:
        with sqlite3.connect(self.path) as file:
            rows = file.execute("SELECT * FROM sessions")
            columns, first = [one[0] for one in rows.description], rows.fetchone()
            place = columns.index("id")
            copies = ((*first[:place], f"s{number}", *first[place + 1 :]) for number in range(count))
            file.executemany(f"INSERT INTO sessions VALUES ({','.join('?' * len(columns))})", copies)

    async def all(self) -> Any:
        return (await self.service.list_sessions(app_name=APP, user_id=USER)).sessions


class InMemory(_History):
    """InMemorySessionService: gone with its process, seen by no other."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open it with so many events."""
        super().__init__(_in_memory, bench, messages)


class SQLite(_History):
    """SqliteSessionService."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open it with so many events."""
        super().__init__(_sqlite, bench, messages)


class Database(_History):
    """DatabaseSessionService on SQLite."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open it with so many events."""
        super().__init__(_database, bench, messages)


class ListInMemory(_List):
    """InMemorySessionService with many sessions."""

    def __init__(self, bench: Rig, sessions: int) -> None:
        """Open it with so many sessions."""
        super().__init__(_in_memory, bench, sessions)


class ListSQLite(_List):
    """SqliteSessionService with many sessions."""

    def __init__(self, bench: Rig, sessions: int) -> None:
        """Open it with so many sessions."""
        super().__init__(_sqlite, bench, sessions)


class ListDatabase(_List):
    """DatabaseSessionService with many sessions."""

    def __init__(self, bench: Rig, sessions: int) -> None:
        """Open it with so many sessions."""
        super().__init__(_database, bench, sessions)
