"""Has the OpenAI Agents SDK's own tests keep their items in Maestro. Named to pytest with `-p`.

Their tests are as they come. `agents.SQLiteSession` is a `MaestroSession`, in a namespace of its own for every file
that a test names and for every session in memory; so are the sessions that tests of Redis get from their helpers.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import agents
import agents.memory

from maestro_state.adapters.openai_agents import MaestroSession
from maestro_state.local.embedded import ensure, stop

_project = Path(tempfile.mkdtemp(prefix="m-"))
_REDIS = "test_redis_session"


def _finish() -> None:
    stop(_project)
    shutil.rmtree(_project, ignore_errors=True)


def _kept_in(place: str, session_id: str, **options: Any) -> MaestroSession:
    namespace = hashlib.sha256(place.encode()).hexdigest()[:12]
    return MaestroSession(session_id, project=_project, namespace=namespace, **options)


class _AsSQLite(type):
    """What tests call SQLiteSession: makes a MaestroSession, is the class of every one, and has subclasses."""

    def __call__(cls, session_id: str, db_path: Any = ":memory:", *more: Any, **options: Any) -> Any:
        place = uuid.uuid4().hex if str(db_path) == ":memory:" else str(db_path)
        if cls is SQLiteSession:
            return _kept_in(place, session_id, session_settings=options.get("session_settings"))
        return super().__call__(session_id, db_path, *more, **options)

    def __instancecheck__(cls, one: Any) -> bool:
        return isinstance(one, MaestroSession) if cls is SQLiteSession else super().__instancecheck__(one)


class SQLiteSession(MaestroSession, metaclass=_AsSQLite):
    """A session as tests make one."""

    def __init__(self, session_id: str, db_path: Any = ":memory:", *_: Any, session_settings: Any = None) -> None:
        """Take a file that is none."""
        namespace = hashlib.sha256(f"{db_path}{uuid.uuid4()}".encode()).hexdigest()[:12]
        super().__init__(session_id, project=_project, namespace=namespace, session_settings=session_settings)


async def _made(session_id: str | None = None, key_prefix: str = "", ttl: int | None = None) -> MaestroSession:
    return _kept_in(f"redis {key_prefix}", session_id or uuid.uuid4().hex, ttl_seconds=ttl)


def pytest_collection_finish() -> None:
    """Replace the helpers of the tests of Redis, once they are there."""
    for module in [one for name, one in sys.modules.items() if name.endswith(_REDIS)]:
        module._create_redis_session = module._create_test_session = _made
        module._create_owned_redis_session = lambda session_id: _kept_in("owned", session_id)


ensure(_project, supervise=False)
atexit.register(_finish)
for _module in (agents, agents.memory):
    _module.SQLiteSession = SQLiteSession  # type: ignore[assignment, misc]
