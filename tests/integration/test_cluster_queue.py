"""Runs where the state is on a cluster: the queue is on a server of its own, and without one that is said."""

from __future__ import annotations

import json

import pytest

from maestro_state import Maestro
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
