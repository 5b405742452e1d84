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
import redis
from hypothesis import HealthCheck, settings

from maestro_state.local.embedded import socket_path
from tests.support.backends import BACKENDS, Backend
from tests.support.key_leaks import check_keys
from tests.support.servers import Cluster, cluster, raw_call
from tests.support.workshop import Workshop

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


#: Tests of more than five seconds. Begun first: one that is begun last keeps only its own worker busy.
LONG = (
    "test_a_server_that_is_away_changes_nothing_for_a_run",
    "test_lives_on_a_",
    "test_bad_input_gets_one_line_and_changes_nothing",
    "test_a_kill_at_any_call",
    "test_an_append_against_a_freeze_is_archived_or_refused",
    "test_killed_consumers_apply_each_breadcrumb_exactly_once",
    "test_handed_over_is_the_same",
    "test_nothing_planted_is_waited_for",
    "test_a_retried_run_has_the_output_of_one_attempt",
    "test_heartbeats_in_the_runs_own_thread_would_have_ended_it",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long tests; the others stay in their order of chance."""
    items.sort(key=lambda item: not item.name.startswith(LONG))


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
    from maestro_state.local.embedded import stop

    stop(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def served(project: Path) -> None:
    """Have the project's server run, and nothing else of the stack: what a test does not look at takes no time."""
    from maestro_state.local.embedded import ensure

    ensure(project, supervise=False)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, project: Path) -> Iterator[Backend]:
    """Return each server in turn: fakeredis for speed, the real embedded one for truth, and as a client's own."""
    with BACKENDS[request.param](project) as chosen:
        yield chosen
        check_keys(chosen.raw)


@pytest.fixture
def real(project: Path) -> Iterator[Backend]:
    """Return the real embedded server."""
    with BACKENDS["real"](project) as chosen:
        yield chosen
        check_keys(chosen.raw)


@pytest.fixture(scope="session")
def shared_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run one cluster for all tests that need one: it takes two seconds to agree that it is whole."""
    with cluster(tmp_path_factory.mktemp("c")) as running:
        yield running


@pytest.fixture
def nodes(shared_nodes: Cluster) -> Cluster:
    """Return the cluster with nothing on it. Its tests are one xdist group, so that they come one after the other."""
    for node in shared_nodes.nodes:
        raw_call(node, "FLUSHALL")
    return shared_nodes


@pytest.fixture
def shop(project: Path) -> Iterator[Workshop]:
    """Return a project with a server, and no worker yet."""
    with Workshop(project) as shop:
        yield shop


@pytest.fixture
def raw(shop: Workshop) -> Iterator[redis.Redis]:
    """Return a client that may look at anything on the project's server, and write it."""
    with redis.Redis(unix_socket_path=str(socket_path(shop.project))) as client:
        yield client
