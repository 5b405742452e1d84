"""The servers tests run on: the same calls, the same answers. A fake one for speed, a real one for truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fakeredis
import redis

from maestro_state import AsyncMaestro, Maestro


@dataclass
class Backend:
    """One server and how to open Maestro on it."""

    name: str
    project: Path
    raw: redis.Redis  #: looks at the server past Maestro
    open: Callable[..., Maestro]
    open_async: Callable[..., AsyncMaestro]


class Clock:
    """A clock that tests move."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, *, seconds: float) -> None:
        """Let time pass."""
        self.now_ms += int(seconds * 1000)


@contextmanager
def _fake(project: Path) -> Iterator[Backend]:
    server = fakeredis.FakeServer(version=(7,))

    def open_sync(**options: Any) -> Maestro:
        return Maestro(project, client=fakeredis.FakeRedis(server=server), **options)

    def open_async(**options: Any) -> AsyncMaestro:
        client, blocking = fakeredis.FakeAsyncRedis(server=server), fakeredis.FakeRedis(server=server)
        return AsyncMaestro(project, client=client, blocking_client=blocking, **options)

    yield Backend("fake", project, fakeredis.FakeRedis(server=server), open_sync, open_async)


@contextmanager
def _served(project: Path) -> Iterator[str]:
    from maestro_state.local.embedded import ensure, socket_path, stop

    ensure(project, supervise=False)
    try:
        yield str(socket_path(project))
    finally:
        stop(project)


@contextmanager
def _real(project: Path) -> Iterator[Backend]:
    with _served(project) as path, redis.Redis(unix_socket_path=path) as raw:
        yield Backend(
            "real",
            project,
            raw,
            lambda **options: Maestro(project, **options),
            lambda **options: AsyncMaestro(project, **options),
        )


@contextmanager
def _own_client(project: Path) -> Iterator[Backend]:
    """The real server, reached like a client of the user's own: RESP3, decoded replies, a pool that makes one wait."""
    with _served(project) as path, redis.Redis(unix_socket_path=path) as raw:
        kind, options = redis.UnixDomainSocketConnection, {"path": path, "decode_responses": True, "max_connections": 2}
        client = redis.Redis(connection_pool=redis.BlockingConnectionPool(connection_class=kind, **options))
        later = redis.asyncio.Redis(unix_socket_path=path, decode_responses=True)
        yield Backend(
            "client",
            project,
            raw,
            lambda **options: Maestro(project, client=client, **options),
            lambda **options: AsyncMaestro(project, client=later, **options),
        )
        for one in (client, later):  # never used, so there is nothing to close either
            assert [count for count, _ in one.connection_pool.get_connection_count()] == [0, 0]


BACKENDS: dict[str, Any] = {"fake": _fake, "real": _real, "client": _own_client}
