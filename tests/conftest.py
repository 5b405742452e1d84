"""Fixtures every test may use: a project of its own, and Maestro on a fake and on a real server, sync and async.

Nothing here reads the developer's environment: HOME and every MAESTRO_* variable are the test's own. After each test
every key left on the server must be declared in keys.py and have a TTL.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.backends import BACKENDS, Backend
from tests.key_leaks import check_keys

# A job in the background of a shell ignores Ctrl-C, and so would every program the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Always the same examples, so that a run that fails is about the change it tests; TEST_EXPLORE=1 looks for new ones.
# None of them is timed: a busy machine is slow at all of them.
settings.register_profile(
    "maestro",
    deadline=None,
    derandomize=not os.environ.get("TEST_EXPLORE"),
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("maestro")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a HOME of its own and no setting from outside."""
    for name in list(os.environ):
        if name.startswith(("MAESTRO_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project() -> Iterator[Path]:
    """Return a new project folder with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="m-"))
    yield folder
    from maestro_state.embedded import stop

    stop(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, project: Path) -> Iterator[Backend]:
    """Return each server in turn: fakeredis for speed, the real embedded one for truth."""
    with BACKENDS[request.param](project) as chosen:
        yield chosen
        check_keys(chosen.raw)


@pytest.fixture
def real(project: Path) -> Iterator[Backend]:
    """Return the real embedded server."""
    with BACKENDS["real"](project) as chosen:
        yield chosen
        check_keys(chosen.raw)
