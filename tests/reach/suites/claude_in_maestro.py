"""Has the Claude Agent SDK's own tests keep their transcripts in Maestro. Named to pytest with `-p`.

Their tests are as they come; `claude_agent_sdk.InMemorySessionStore` is a `MaestroSessionStore`, each in a namespace of
its own.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import claude_agent_sdk

from maestro_state.adapters.claude_agent import MaestroSessionStore
from maestro_state.local.embedded import ensure, stop

_project = Path(tempfile.mkdtemp(prefix="m-"))


def _finish() -> None:
    stop(_project)
    shutil.rmtree(_project, ignore_errors=True)


class InMemorySessionStore(MaestroSessionStore):
    """A store as the tests make one."""

    def __init__(self, **options: Any) -> None:
        """Take nothing."""
        self._place: Any = {"project": _project, "namespace": uuid.uuid4().hex[:12]}
        super().__init__(**self._place, **options)

    def _look(self, ask: Callable[[MaestroSessionStore], Awaitable[Any]]) -> Any:
        """Ask a store of another loop: tests look into this one between two steps of theirs."""

        async def asked() -> Any:
            async with MaestroSessionStore(**self._place) as store:
                return await ask(store)

        with ThreadPoolExecutor(1) as threads:
            return threads.submit(lambda: asyncio.run(asked())).result()

    def get_entries(self, key: Any) -> Any:
        """Return what is stored."""
        return self._look(lambda store: store.load(key)) or []

    @property
    def size(self) -> int:
        """How many transcripts there are."""

        async def count(store: MaestroSessionStore) -> int:
            return len([one for one in await store.maestro.sessions.list() if one.bound_to])

        return int(self._look(count))


ensure(_project, supervise=False)
atexit.register(_finish)
claude_agent_sdk.InMemorySessionStore = InMemorySessionStore  # type: ignore[misc, assignment]
