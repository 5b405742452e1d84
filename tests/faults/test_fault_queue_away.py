"""A queue on a server of its own, which is killed: runs, sweeps and workers go on, and say what they could not do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from maestro_workers.admission import Admission
from maestro_workers.profile import Profile
from msgspec.structs import replace

from maestro_state.errors import ServerUnavailable
from tests.support.cli_runs import maestro_command, printed, refused
from tests.support.servers import Server, raw_call, valkey
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop

#: Prints a line, and the rest when it is told to.
WAITS = """
import os, time
print("begun", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
for number in range(1000):
    print(number)
"""
OUTPUT = b"begun\n" + b"".join(b"%d\n" % number for number in range(1000))

#: Our worker, but with the heartbeat in the run's own thread, over the client that waits for its server.
IN_TURN = """
import sys
from maestro_workers.rq_adapter import worker
from maestro_workers.worker import main
def beat(self):
    if self._job is not None:
        self.maintain_heartbeats(self._job)
    return self._stop_reason
worker.RunWorker._beat = beat
main(["--project", sys.argv[1]])
"""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Server]:
    """Return a second server, for the queue alone."""
    with valkey(tmp_path) as server:
        yield server


def _begun(shop: Workshop, queue: Server):
    """Start a run, and wait until its tool prints."""
    maestro = shop.open(queue_url=queue.url)
    session = maestro.sessions.start("apart", tool=shop.tool("waits", WAITS))
    run = maestro.runs.start("p")
    wait_until(lambda: maestro.runs.output(run.id) == b"begun\n", "the tool has begun")
    return maestro, session, run


def _ended(maestro, run) -> bool:
    return maestro.runs.read(run.id).status not in ("pending", "running")


def test_a_run_goes_on_while_the_queue_is_away_and_its_worker_takes_the_next(shop: Workshop, queue: Server):
    """The claim is kept, the output is whole and the run ends well; then the worker waits for its queue."""
    worker = shop.start_worker(MAESTRO_QUEUE_URL=queue.url)
    maestro, session, run = _begun(shop, queue)
    queue.kill()
    wait_until(lambda: b"not_tended" in shop.log.read_bytes(), "the worker noticed")
    for _ in range(2):  # a claim that is not renewed is suspected at the first look and lost at the second
        assert maestro.claims.recover_run(session.id, run.id) == "alive"
    (shop.project / "go").touch()
    wait_until(lambda: _ended(maestro, run), "the run has ended")

    ended = maestro.runs.read(run.id)
    assert (ended.status, ended.error) == ("success", None)
    assert maestro.runs.output(run.id) == OUTPUT
    assert maestro.sessions.read(session.id).state == "com_saida"
    with pytest.raises(OSError, match="refused"):  # control: it is away to the end
        raw_call(queue, "PING")
    assert worker.poll() is None
    queue.restart()
    again = maestro.runs.start("q", session.id, tool="cat")
    wait_until(lambda: _ended(maestro, again), "the next run was taken")
    assert maestro.runs.output(again.id).endswith(b"q")
    assert worker.poll() is None


def test_heartbeats_in_the_runs_own_thread_would_have_ended_it(shop: Workshop, queue: Server):
    """Control: waiting for the queue, the worker renews nothing, and its run is taken for lost."""
    with shop.log.open("ab") as log:
        command = [sys.executable, "-c", IN_TURN, str(shop.project)]
        environment = os.environ | {"MAESTRO_QUEUE_URL": queue.url}
        shop.workers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    maestro, session, run = _begun(shop, queue)
    queue.kill()
    wait_until(lambda: maestro.claims.recover_run(session.id, run.id) == "error", "the run is lost")
    assert maestro.runs.read(run.id).error == "its worker was lost while it ran"


@pytest.mark.parametrize("when", ["during a run", "after a run"])
def test_a_worker_told_to_leave_does_not_wait_for_its_queue(shop: Workshop, queue: Server, when: str):
    """With the queue away, SIGTERM ends the run and the worker, or the worker that only waits to tell RQ of the end."""
    worker = shop.start_worker(MAESTRO_QUEUE_URL=queue.url, MAESTRO_STOP_GRACE_SECONDS="0")
    maestro, _, run = _begun(shop, queue)
    queue.kill()
    if when == "after a run":
        (shop.project / "go").touch()
        wait_until(lambda: b"run_finished" in shop.log.read_bytes(), "the run has ended")
        assert worker.poll() is None  # control: it waits
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(60) == 0
    log = shop.log.read_text()
    assert "queue_not_told" in log
    assert "Traceback" not in log
    ended = maestro.runs.read(run.id)
    if when == "after a run":
        assert ended.status == "success"
    else:
        assert (ended.status, ended.error) == ("error", "its worker was stopped while it ran")


def test_a_sweep_writes_to_disk_what_needs_no_queue(shop: Workshop, queue: Server):
    """With a run that waits and the queue away, changes are checkpointed, the queue is named, the lease is left."""
    maestro = shop.open(queue_url=queue.url)
    waiting = maestro.sessions.start("waiting", tool="cat")
    run = maestro.runs.start("p")
    queue.kill()
    dirty = maestro.sessions.start("dirty")
    env = {"MAESTRO_QUEUE_URL": queue.url}
    for _ in range(2):  # at once: nobody has to wait until the lease of the first one runs out
        maestro.messages.add("user", "more", dirty.id)
        done = maestro_command(shop.project, "sweep", "--json", env=env)
        report = json.loads(done.stdout)
        assert done.returncode == 1
        assert report["busy"] is None
        assert dirty.id in report["checkpointed"]
        assert [failure["id"] for failure in report["errors"]] == ["queue"]
        assert "MAESTRO_QUEUE_URL" in report["errors"][0]["reason"]
    assert maestro.archive.verify(dirty.id).ok
    assert maestro.runs.read(run.id, waiting.id).status == "pending"
    said = maestro_command(shop.project, "sweep", env=env).stderr
    assert queue.socket in said

    queue.restart()
    assert printed(shop.project, "sweep", env=env)["errors"] == []


def test_an_unreachable_server_is_named_by_its_own_setting(shop: Workshop, queue: Server, tmp_path: Path):
    """A queue that is away is MAESTRO_QUEUE_URL's, state that is away is MAESTRO_REDIS_URL's."""
    maestro = shop.open()
    maestro.sessions.start("x", tool="cat")
    queue.kill()
    code, error = refused(shop.project, "run", "--detach", "p", env={"MAESTRO_QUEUE_URL": queue.url})
    assert (code, error["code"]) == (ServerUnavailable.exit_code, ServerUnavailable.code)
    assert "MAESTRO_QUEUE_URL" in error["hint"]
    assert "MAESTRO_REDIS_URL" not in error["hint"]
    assert maestro.runs.list()[-1].status == "canceled"
    _, error = refused(shop.project, "session", "list", env={"MAESTRO_REDIS_URL": f"unix://{tmp_path}/nobody"})
    assert "MAESTRO_REDIS_URL" in error["hint"]


def test_a_run_is_not_given_up_because_its_other_jobs_cannot_be_withdrawn(shop: Workshop, queue: Server):
    """What waits for workers of another kind is left there: whoever takes it finds nothing to do."""
    maestro = shop.open(queue_url=queue.url)
    session, profile = maestro.sessions.start("apart", tool="echo"), Profile.of(maestro)
    run = maestro.runs.start("p")
    taking = Admission(maestro, None, profile)
    assert not taking.leaves_to_others(session.id, run.id)
    others = profile.described("other", "2026-01-01T00:00:00.000+00:00", 1)
    assert maestro.workers.announce(replace(others, queue="00000000"))
    queue.kill()
    maestro.queue.is_routed = True
    with pytest.raises(ServerUnavailable):  # control: they are there, and cannot be
        maestro.queue.withdraw(maestro.claims.waiting(session.id, run.id), profile.queue)
    taking.tell_others()
