"""Twenty runs, and workers, schedulers and server restarted one after another: none is lost, none is doubled."""

from __future__ import annotations

import pytest

from tests.support.rolling import Rolling
from tests.support.servers import free_port, valkey

pytestmark = pytest.mark.xdist_group("busy")

RUNS = 20


@pytest.fixture
def server(tmp_path):
    """Run a server that keeps what it acknowledged, reached over TCP by workers and by its socket by the test."""
    with valkey(tmp_path, port=free_port(), args=("--appendfsync", "always")) as running:
        yield running


def test_everything_is_restarted_and_every_run_happens_once(server, project):
    """Each worker drains, schedulers take turns, the server comes back: each run began once and ended once."""
    with Rolling(server, project, grace_s=120) as team:
        for _ in range(3):
            team.start_worker()
        for _ in range(2):
            team.start_scheduler()
        runs = team.ask(RUNS)
        for restart in (team.replace_worker, team.replace_scheduler, team.replace_worker, team.restart_server,
                        team.replace_scheduler, team.replace_worker):  # fmt: skip
            team.wait_begun(6)
            restart()
        assert team.begun(), "all were over before everything was restarted"
        assert team.finish(runs) == ["success"] * RUNS
        assert team.effects() == {name: ["begun", "ended"] for name in runs}
        maestro = team.maestro
        for name, (session_id, run_id) in runs.items():
            assert maestro.runs.output(run_id, session_id) == f"did {name}\n".encode()
        for session_id in {session_id for session_id, _ in runs.values()}:
            stats = maestro.sessions.read(session_id).stats
            assert (stats.runs_success, stats.runs_total) == (RUNS // 2, RUNS // 2)


def test_without_draining_runs_are_lost(server, project):
    """Control: workers that give no time end what is under way, and the same count shows it."""
    with Rolling(server, project, grace_s=0) as team:
        for _ in range(2):
            team.start_worker()
        runs = team.ask(4)
        team.wait_begun(4)
        old = team.workers[0]
        old.process.terminate()
        assert old.process.wait(120) == 0
        ended = team.finish(runs)
        assert sorted(ended) == ["error", "error", "success", "success"]
        assert sorted(map(len, team.effects().values())) == [1, 1, 2, 2]
