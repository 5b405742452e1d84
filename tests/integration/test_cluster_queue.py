"""Runs where the state is on a cluster: the queue is on a server of its own, and without one that is said."""

from __future__ import annotations

import json

import pytest

from maestro_state import Maestro
from maestro_state.errors import OverBudget, TooManyRuns
from maestro_state.models.claim import Ended
from maestro_state.models.run import Usage
from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.support.programs import running
from tests.support.servers import valkey
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster")


def test_without_a_queue_the_cause_is_named(project, nodes):
    """A run and a worker are refused with the setting to set; nothing else is, and doctor says it beforehand."""
    env = {"MAESTRO_REDIS_URL": nodes.url}
    printed(project, "session", "start", "no queue", "--tool", "echo", env=env)
    for words in (("run", "hello"), ("run", "hello", "--detach")):
        exit_code, error = refused(project, *words, env=env)
        assert exit_code == 2
        assert "MAESTRO_QUEUE_URL" in error["hint"]
    worker = maestro_command(project, "worker", "--burst", env=env)
    assert worker.returncode == 2
    assert "MAESTRO_QUEUE_URL" in worker.stderr
    done = maestro_command(project, "doctor", "--json", env=env)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["queue"]["status"] == "fail"
    assert "MAESTRO_QUEUE_URL" in checks["queue"]["fix"]
    printed(project, "message", "add", "--role", "user", "still works", env=env)


def test_runs_with_the_queue_elsewhere(project, nodes, tmp_path):
    """Sessions on every node of the cluster run through one queue on a plain server."""
    with valkey(tmp_path) as queue:
        env = {"MAESTRO_REDIS_URL": nodes.url, "MAESTRO_QUEUE_URL": queue.url}
        with (
            running(tmp_path, [MAESTRO, "--project", str(project), "worker"], env=env),
            Maestro(project, redis_url=nodes.url, queue_url=queue.url) as maestro,
        ):
            wait_until(lambda: maestro.runs.workers() == 1, "the worker does not listen")
            started = []
            for number in range(6):
                session = maestro.sessions.start(f"session {number}", tool="echo")
                started.append((session.id, maestro.runs.start(f"prompt {number}", session.id)))
            for number, (session_id, run) in enumerate(started):
                assert maestro.runs.wait(run, session_id).status == "success"
                assert f"prompt {number}".encode() in maestro.runs.output(run.id, session_id)


def test_limits_budgets_and_metrics_hold_on_a_cluster(project, nodes, tmp_path):
    """The ledger is in one place, whichever nodes the sessions are on."""
    with (
        valkey(tmp_path) as queue,
        Maestro(project, redis_url=nodes.url, queue_url=queue.url, user="ana", runs_per_user=2) as maestro,
    ):
        ids = [maestro.sessions.start(f"session {number}", tool="echo").id for number in range(3)]
        for session_id in ids[:2]:
            claim = maestro.claims.claim(session_id, maestro.runs.start("p", session_id).id, "owner")
            assert maestro.ledger.begin(session_id, claim.run) is None
            maestro.messages.add("user", "said", session_id)
        with pytest.raises(TooManyRuns):
            maestro.runs.start("p", ids[2])
        maestro.claims.finish(claim, Ended(status="success", usage=Usage(tokens_input=7)))
        maestro.sweep()
        maestro.budgets.set(user="ana", tokens=7)
        with pytest.raises(OverBudget):
            maestro.runs.start("p", ids[2])
        found = maestro.metrics.read()
        assert (found.counters["tokens|echo|input"], found.sessions["executando"], found.messages) == (7, 1, 4)


def test_the_sweeper_works_on_a_cluster(project, nodes):
    """One pass brings changed sessions of every node to disk, and those that ended with them."""
    env = {"MAESTRO_REDIS_URL": nodes.url, "MAESTRO_NAMESPACE": "swept"}
    with Maestro(project, redis_url=nodes.url, namespace="swept") as maestro:
        ids = [maestro.sessions.start(f"swept {number}").id for number in range(9)]
        for session_id in ids:
            maestro.messages.add("user", "kept", session_id)
    report = printed(project, "sweep", env=env)
    assert report["errors"] == []
    assert set(ids) <= set(report["checkpointed"])
    assert set(ids) <= {path.name for path in (project / ".maestro" / "sessions").iterdir()}
    assert not set(ids) & set(printed(project, "sweep", env=env)["checkpointed"])


def test_the_end_of_a_run_that_nobody_indexed_is_known_after_a_sweep(project, nodes, tmp_path):
    """A worker killed between the two writes, on a server whose keys no sweep walks through."""
    with valkey(tmp_path) as queue, Maestro(project, redis_url=nodes.url, queue_url=queue.url) as maestro:
        session_id = maestro.sessions.start("ended", tool="echo").id
        claim = maestro.claims.claim(session_id, maestro.runs.start("p", session_id).id, "owner")
        maestro.claims.add_outputs(claim, 0, [b"done\n"])
        maestro.archive.checkpoint(session_id)
        maestro.server.index = lambda *_, **__: True  # killed before that
        maestro.claims.finish(claim, Ended(status="success", size=5))
        del maestro.server.index
        assert [row.state for row in maestro.sessions.list()] == ["executando"]  # control
        maestro.sweep()
        assert [row.state for row in maestro.sessions.list()] == ["com_saida"]
        assert maestro.claims.open_sessions() == []
