"""pytest plugin: a test has a session of its own, on a server of its own, which is gone with it.

    def test_my_agent(maestro, maestro_session):
        my_agent(project=maestro.project.path)
        assert [one.content for one in maestro.messages.last()] == ["…"]

Found by pytest wherever Maestro is installed; a test that asks for none of it pays for nothing: all that is imported
here is pytest. Works under xdist: each test has a folder and a server that no other one knows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from maestro_state import AsyncMaestro, Maestro, Recorder, Session


@pytest.fixture(scope="session")
def _maestro_keeper() -> Iterator[subprocess.Popen[bytes]]:
    """Have somebody stop the servers when this process is killed before it can."""
    from maestro_state.startup import command

    words = command("maestro_state.pytest_plugin.cleanup")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True) as keeper:
        yield keeper


@pytest.fixture
def maestro_project(monkeypatch: pytest.MonkeyPatch, _maestro_keeper: subprocess.Popen[bytes]) -> Iterator[Path]:
    """Return a new project with a private server, and no setting from outside; stopped and removed after the test."""
    from maestro_state.local.embedded import ensure, stop

    for name in [name for name in os.environ if name.startswith("MAESTRO_")]:
        monkeypatch.delenv(name)
    # Not below tmp_path: a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="maestro-test-"))
    if _maestro_keeper.stdin is not None:
        _maestro_keeper.stdin.write(os.fsencode(folder) + b"\n")
        _maestro_keeper.stdin.flush()
    # The user's own settings may name a team's server.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    ensure(folder, supervise=False)
    yield folder
    stop(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def maestro(maestro_project: Path) -> Iterator[Maestro]:
    """Return Maestro in a new project."""
    from maestro_state import Maestro

    with Maestro(maestro_project) as opened:
        yield opened


@pytest.fixture
def maestro_session(maestro: Maestro, request: pytest.FixtureRequest) -> Session:
    """Return a new session, named for the test; the project is on it."""
    name = re.sub(r"[^a-z0-9]+", "-", str(request.node.name).lower()).strip("-")[:40]
    return maestro.sessions.start(name or "test")


@pytest.fixture
def maestro_record(maestro: Maestro, maestro_session: Session) -> Recorder:
    """Return a recorder for the test's session."""
    from maestro_state import record

    return record(maestro_session.id, maestro=maestro)


@pytest.fixture
def async_maestro(maestro_project: Path) -> Iterator[AsyncMaestro]:
    """Return an AsyncMaestro in the same project, for tests with any plugin for asyncio: `async with async_maestro`."""
    import asyncio

    from maestro_state import AsyncMaestro

    opened = AsyncMaestro(maestro_project)
    yield opened
    asyncio.run(opened.close())
