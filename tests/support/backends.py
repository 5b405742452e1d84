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
def _real(project: Path) -> Iterator[Backend]:
    from maestro_state.local.embedded import ensure, socket_path, stop

    ensure(project, supervise=False)
    raw = redis.Redis(unix_socket_path=str(socket_path(project)))
    try:
        yield Backend(
            "real",
            project,
            raw,
            lambda **options: Maestro(project, **options),
            lambda **options: AsyncMaestro(project, **options),
        )
    finally:
        raw.close()
        stop(project)


BACKENDS: dict[str, Any] = {"fake": _fake, "real": _real}
