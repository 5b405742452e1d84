"""A stack of which all but the server was killed: the next command brings it back, and nothing is shown wrongly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.clock import now_ms
from maestro_state.local.embedded import is_running, socket_address, supervisor_alive
from maestro_state.state.calls.claims import SUSPICION_MS
from tests.support.cli_runs import MAESTRO, maestro_command, printed
from tests.support.embedded_project import end, ended_project, is_alive, processes_in, servers, supervisors, workers
from tests.support.waiting import wait_until

WAITS = "sh -c 'echo begun; while [ ! -e go ]; do sleep 0.05; done'"

project = ended_project


def _looking(project: Path) -> Maestro:
    """Open Maestro so that it starts nothing."""
    return Maestro(project, redis_url=f"unix://{socket_address(project)}")


def _kill_all_but_the_server(project: Path) -> None:
    found = [pid for pid in processes_in(project) if pid not in servers(project)]
    for pid in found:
        with suppress(ProcessLookupError):  # the workers go with their supervisor
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, found)), "they are gone")


def _let_its_lease_end(maestro: Maestro, run: str) -> None:
    """Let as much time pass as it takes for an owner to count as gone."""
    lease = now_ms() - SUSPICION_MS - 1
    key = maestro.server.terms.keys.of_session(maestro.sessions.read().id, "runs")
    maestro.server.connection.call("HSET", key, f"{run}:lease", lease)


@pytest.mark.parametrize("command", [("session", "list"), ("message", "add", "--role", "user", "x")])
def test_the_next_command_of_any_kind_brings_everything_back(project: Path, command: tuple[str, ...]):
    """Supervisor, workers and resident killed together: the run that was under way ends honestly, the next one runs."""
    printed(project, "session", "start", "s", "--tool", WAITS)
    run = printed(project, "run", "p", "--detach")["id"]
    with _looking(project) as maestro:
        wait_until(lambda: maestro.runs.output(run), "the tool runs")
        _kill_all_but_the_server(project)
        wait_until(lambda: not supervisor_alive(project), "a child that was just being forked is gone too")
        _let_its_lease_end(maestro, run)
        wait_until(lambda: maestro.runs.read(run).status == "error", "it is shown as lost")  # the server is young yet
        shown = maestro.runs.read(run)
        assert shown.error == "its worker was lost while it ran"
        record = maestro.server.connection.call(
            "HGET", maestro.server.terms.keys.of_session(maestro.sessions.read().id, "runs"), f"{run}:status"
        )
        assert record == b"running", "control: nobody has ended it yet"
        printed(project, *command)
        wait_until(lambda: supervisor_alive(project), "a supervisor is back")
        wait_until(lambda: maestro.sessions.read().state == "com_saida", "the run has ended")
        assert maestro.runs.read(run).error == shown.error
        assert len(supervisors(project)) == 1
    (project / "go").touch()
    assert printed(project, "run", "p")["status"] == "success"


def test_a_run_that_will_be_tried_again_is_shown_as_waiting(project: Path):
    """With a retry left it is pending, one that was to be canceled is canceled: what they will be found to be."""
    printed(project, "session", "start", "s", "--tool", WAITS)
    again = printed(project, "run", "p", "--detach", "--retries", "1")["id"]
    canceled = printed(project, "run", "p", "--detach")["id"]
    with _looking(project) as maestro:
        wait_until(lambda: maestro.runs.output(again) and maestro.runs.output(canceled), "the tools run")
        for pid in workers(project):  # they neither renew their leases nor hear of the cancel
            os.kill(pid, signal.SIGSTOP)
        maestro.runs.cancel(canceled)
        for run in (again, canceled):
            _let_its_lease_end(maestro, run)
        wait_until(lambda: maestro.runs.read(again).status == "pending", "its owner counts as gone")
        assert {run.id: run.status for run in maestro.runs.list()} == {again: "pending", canceled: "canceled"}


def test_workers_come_as_runs_need_them_and_a_hung_one_blocks_nobody(project: Path):
    """Nothing runs, no worker; four runs at once, four of them; what is above the limit waits behind the others."""
    printed(project, "session", "start", "s", "--tool", WAITS, env={"MAESTRO_WORKERS": "4"})
    wait_until(lambda: supervisor_alive(project), "the stack is there")
    assert printed(project, "stack", "status")["workers"] == 0
    runs = [printed(project, "run", "p", "--detach")["id"] for _ in range(6)]
    with _looking(project) as maestro:
        wait_until(lambda: all(maestro.runs.output(run) for run in runs[:4]), "four are under way")
        assert maestro.runs.workers() == 4
        assert [maestro.runs.ahead(run) for run in runs] == [None, None, None, None, 0, 1]
        (project / "go").touch()
        assert [maestro.runs.wait(maestro.runs.read(run)).status for run in runs] == ["success"] * 6


def test_watching_neither_keeps_the_stack_nor_starts_it(project: Path):
    """An open watch lets the stack idle out and be stopped, says so, and goes on when a command has started it."""
    idle = {"MAESTRO_STACK_IDLE_SECONDS": "2"}
    printed(project, "session", "start", "s", env=idle)
    with subprocess.Popen([MAESTRO, "watch", "--json"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=os.environ | idle) as watcher:  # fmt: skip
        try:
            assert b"the stack was stopped" in watcher.stderr.readline()
            assert not is_running(project)
            printed(project, "message", "add", "--role", "user", "back")
            assert b"the stack is back" in watcher.stderr.readline()
            assert b'"back"' in watcher.stdout.readline()
            end(*supervisors(project))
            printed(project, "stack", "stop")
            assert b"the stack was stopped" in watcher.stderr.readline()
            assert not is_running(project)
        finally:
            watcher.kill()


def test_a_supervisor_that_does_not_start_is_told_of(project: Path, tmp_path: Path):
    """Runs would wait for ever: doctor says so, and the log says why."""
    (tmp_path / "sitecustomize.py").write_text("import sys\n'supervisor' in sys.orig_argv and sys.exit('no room')")
    printed(project, "session", "start", "s", "--tool", "echo", env={"PYTHONPATH": str(tmp_path)})
    done = maestro_command(project, "doctor", "--json", env={"PYTHONPATH": str(tmp_path)})
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, found["stack"]["status"]) == (1, "fail")
    assert (project / ".maestro" / "logs" / "stack.log").read_text().endswith("no room\n")
    done = maestro_command(project, "doctor", "--json")  # control: it was what kept it from starting
    assert (done.returncode, "stack" in done.stdout.split()) == (0, False)
