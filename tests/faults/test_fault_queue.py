"""A worker killed between taking a job and starting it; workers of RQ's own on our queue; a second queue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from maestro_workers.rq_adapter.worker import RunWorker
from maestro_workers.run import Workshop as RunShop

from maestro_state.errors import ConfigError
from maestro_state.local.embedded import socket_path
from maestro_state.net.url import parse_url
from maestro_state.state.calls import queue as queueing
from tests.support.cli_runs import maestro_command
from tests.support.workshop import Workshop

#: A worker of ours that kills itself at one point of taking a job.
DIES = """
import os, signal, sys
from rq.queue import Queue
from maestro_workers.rq_adapter import worker
from maestro_workers.worker import main
point, root = sys.argv[1:]
def die():
    os.kill(os.getpid(), signal.SIGKILL)
if point == "taken":
    take = Queue.lmove.__func__
    Queue.lmove = classmethod(lambda cls, *args: take(cls, *args) and die())
else:
    worker.RunWorker.perform_job = lambda self, job, queue: die()
main(["--project", root])
"""

#: RQ's own worker: on how many queues, with which serializer, killing itself when it has taken a job or not.
PLAIN = """
import os, signal, sys, redis
from rq import Queue, SimpleWorker, Worker
from rq.serializers import DefaultSerializer, JSONSerializer
address, names, serializer, kind, dies = sys.argv[1:]
def die():
    os.kill(os.getpid(), signal.SIGKILL)
if dies == "dies":
    take, pop = Queue.lmove.__func__, Queue.lpop.__func__
    Queue.lmove = classmethod(lambda cls, *args: take(cls, *args) and die())
    Queue.lpop = classmethod(lambda cls, *args, **more: pop(cls, *args, **more) and die())
raw = redis.Redis(unix_socket_path=address)
serializer = JSONSerializer if serializer == "json" else DefaultSerializer
queues = [Queue(name, connection=raw, serializer=serializer) for name in names.split(",")]
worker = (Worker if kind == "forking" else SimpleWorker)(queues, connection=raw, serializer=serializer)
for _ in range(2):
    worker.run_maintenance_tasks()
worker.work(burst=True)
"""


def _plain(shop: Workshop, names: str, serializer: str, *, kind: str = "simple", dies: bool = False) -> int:
    words = [str(socket_path(shop.project)), names, serializer, kind, "dies" if dies else "lives"]
    done = subprocess.run([sys.executable, "-c", PLAIN, *words], cwd=shop.project, capture_output=True, check=False)
    return done.returncode


def _start(shop: Workshop, raw: redis.Redis):
    """Start a run of a tool that leaves a mark each time it is called; its job waits."""
    tool = shop.tool("once", "open('starts', 'a').write('x')\nprint('done')")
    maestro = shop.open()
    maestro.sessions.start("taken", tool=tool)
    run = maestro.runs.start("p")
    assert raw.llen("rq:queue:maestro") == 1
    return maestro, run


@pytest.mark.parametrize("point", ["taken", "prepared"])
def test_a_worker_killed_before_it_starts_the_tool_loses_nothing(
    shop: Workshop, raw: redis.Redis, point: str, monkeypatch: pytest.MonkeyPatch
):
    """Killed with the job in hand, the run is in the queue again after two looks, and carried out once."""
    maestro, run = _start(shop, raw)
    died = subprocess.run([sys.executable, "-c", DIES, point, str(shop.project)], capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert raw.llen("rq:queue:maestro") == 0
    assert not (shop.project / "starts").exists()
    with monkeypatch.context() as patch:
        # How long after the first look the second counts. Not below: whoever waits looks too, and a job that the next
        # worker took a moment ago is not lost.
        patch.setattr(queueing, "TAKEN_MS", 0)
        for _ in range(2):
            maestro.claims.recover()
    assert raw.llen("rq:queue:maestro") == 1
    shop.start_worker()

    assert maestro.runs.wait(run).status == "success"
    assert (shop.project / "starts").read_text() == "x"
    assert raw.llen("rq:queue:maestro") == 0


@pytest.mark.parametrize("names", ["maestro", "maestro,other"])
def test_rqs_own_worker_loses_the_job_it_had_taken(shop: Workshop, raw: redis.Redis, names: str):
    """Control: after the same kill another worker of RQ's, with its upkeep, finds nothing to do on one queue or two."""
    _start(shop, raw)
    assert _plain(shop, names, "json", dies=True) == -signal.SIGKILL
    assert _plain(shop, names, "json") == 0

    assert not (shop.project / "starts").exists()
    assert raw.llen("rq:queue:maestro") == 0
    # On one queue its id is still in a list that nobody takes jobs from; on two it is nowhere any more.
    assert raw.llen("rq:queue:maestro:intermediate") == (1 if names == "maestro" else 0)


@pytest.mark.parametrize("kind", ["simple", "forking"])
def test_rqs_own_worker_carries_our_run_out(shop: Workshop, raw: redis.Redis, kind: str):
    """With the JSON serializer and in the project's folder, a worker without our guards runs the same job."""
    maestro, run = _start(shop, raw)
    assert _plain(shop, "maestro", "json", kind=kind) == 0

    assert maestro.runs.read(run.id).status == "success"
    assert maestro.runs.output(run.id) == b"done\n"
    assert (shop.project / "starts").read_text() == "x"


def test_rqs_default_worker_cannot_read_our_job_and_the_run_waits_for_one_that_can(shop: Workshop, raw: redis.Redis):
    """A pickling worker fails the job; the run's record is not touched, and the next look wakes a worker of ours."""
    maestro, run = _start(shop, raw)
    assert _plain(shop, "maestro", "pickle") == 0
    assert raw.zcard("rq:failed:maestro") == 1  # control: it had taken the job
    assert maestro.runs.read(run.id).status == "pending"
    shop.start_worker()

    assert maestro.runs.wait(run).status == "success"
    assert (shop.project / "starts").read_text() == "x"


@pytest.mark.parametrize("names", [["maestro", "other"], ("maestro",), "maestro,other", "maestro other", "", None])
def test_a_worker_refuses_to_listen_on_more_than_one_queue(shop: Workshop, raw: redis.Redis, names: object):
    """Whatever is not the name of one queue is refused before the worker listens."""
    address = parse_url(f"unix://{socket_path(shop.project)}")
    with pytest.raises(ConfigError, match="one queue"):
        RunWorker(names, RunShop(str(shop.project)), address, name="two")  # type: ignore[arg-type]
    assert raw.smembers("rq:workers") == set()


def test_the_command_refuses_two_queues(project: Path):
    """A namespace that would be two queues' names is refused with what is wrong, and nothing starts."""
    done = maestro_command(project, "worker", "--burst", env={"MAESTRO_NAMESPACE": "one,two"})
    assert done.returncode == 2
    assert "namespace" in done.stderr
    assert not os.path.exists(socket_path(project))
