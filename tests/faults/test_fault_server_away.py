"""A server that is away for twenty seconds, across heartbeats and across the end of a run."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
import redis
from maestro_workers.rq_adapter.worker import ALIVE_S

from maestro_state.local.embedded import ensure, socket_path
from maestro_state.state.calls.claims import LEASE_MS
from tests.support.embedded_project import is_alive, servers
from tests.support.programs import running
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop

# By itself: it mostly waits, and another test uses the time.
pytestmark = pytest.mark.xdist_group("away")

#: Seconds the server is away.
OUTAGE_S = float(os.environ.get("MAESTRO_TEST_OUTAGE_S", "20"))

#: Says that it has begun, goes on when a file is there, and leaves a mark each time it is called.
SLOW = """
import os, sys, time
name = sys.argv[1]
open(f"starts-{name}", "a").write("x")
print("one", flush=True)
while not os.path.exists(f"go-{name}"):
    time.sleep(0.05)
print("two", flush=True)
"""

#: RQ's own worker with the same kind of job.
PLAIN = """
import sys, redis
from rq import Queue, SimpleWorker
raw = redis.Redis(unix_socket_path=sys.argv[1])
SimpleWorker([Queue("plain", connection=raw)], connection=raw).work(burst=True)
"""


def _enqueue_plain(shop: Workshop, tool: str) -> str:
    """Give RQ's own worker a job that calls the tool."""
    from rq import Queue

    with redis.Redis(unix_socket_path=str(socket_path(shop.project))) as raw:
        queue = Queue("plain", connection=raw)
        return queue.enqueue("os.system", f"cd {shop.project} && {tool} plain >/dev/null", job_timeout=-1).id


def test_a_server_that_is_away_changes_nothing_for_a_run(shop: Workshop):
    """Workers stay, each tool is called once, and results are stored when the server is back; RQ's own are not."""
    tool = shop.tool("slow", SLOW)
    for _ in range(3):
        shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("away")
    runs = {name: maestro.runs.start("p", tool=f"{tool} {name}") for name in ("during", "after")}
    for run in runs.values():
        wait_until(lambda run=run: maestro.runs.output(run.id) == b"one\n", "the tool has begun")
    job = _enqueue_plain(shop, tool)
    plain_command = [sys.executable, "-c", PLAIN, str(socket_path(shop.project))]
    with running(shop.project, plain_command) as plain:
        wait_until((shop.project / "starts-plain").exists, "RQ's own worker has begun")
        (pid,) = servers(shop.project)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), "the server is gone")
        assert max(LEASE_MS / 1000, ALIVE_S) < OUTAGE_S, "claims and heartbeats must run out meanwhile"
        away_until = time.monotonic() + OUTAGE_S
        for name in ("during", "plain"):
            (shop.project / f"go-{name}").touch()
        wait_until(lambda: time.monotonic() >= away_until, "the outage is over", OUTAGE_S + 5)
        ensure(shop.project, supervise=False)
        (shop.project / "go-after").touch()
        for name, run in runs.items():
            wait_until(lambda run=run: maestro.runs.read(run.id).status != "running", f"{name} has ended")

        for name, run in runs.items():
            ended = maestro.runs.read(run.id)
            assert (ended.status, ended.error) == ("success", None), name
            assert maestro.runs.output(run.id) == b"one\ntwo\n"
            assert (shop.project / f"starts-{name}").read_text() == "x"
        assert all(worker.poll() is None for worker in shop.workers)
        again = maestro.runs.start("p", tool="cat")
        wait_until(lambda: maestro.runs.read(again.id).status == "success", "the workers go on")

        # Control: RQ's own worker did not survive the end of its job, and the job never heard that it was done.
        wait_until(lambda: plain.process.poll() is not None, "RQ's own worker has left")
        with redis.Redis(unix_socket_path=str(socket_path(shop.project))) as raw:
            assert raw.hget(f"rq:job:{job}", "status") == b"started"
