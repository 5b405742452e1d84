"""The supervisor: one per project, stops what nobody uses, and keeps its services running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.local import embedded, handover
from maestro_state.local.embedded.paths import data_path, socket_address
from maestro_state.local.embedded.probe import open_server, read_info
from tests.support.cli_runs import printed
from tests.support.embedded_project import call, end, ended_project, is_alive, run_python, servers, supervisors
from tests.support.waiting import wait_until

WAIT_FOREVER = "import threading; threading.Event().wait()"

SERVICE = f"""
import os, subprocess, sys, threading
root = sys.argv[1]
grandchild = subprocess.Popen([sys.executable, "-c", {WAIT_FOREVER!r}, root])
with open(root + "/pids", "a") as file:
    file.write(f"{{os.getpid()}} {{grandchild.pid}}\\n")
threading.Event().wait()
"""

SUPERVISE = f"""
import sys
from contextlib import closing
from pathlib import Path
from maestro_workers.stack.services import Keeper, ProcessService
from maestro_workers.stack.supervisor import supervise
root = Path(sys.argv[1])
quiet = root / "do-not-stop"
class Reluctant(Keeper):
    def before_stop(self, *, asked):
        return asked or not quiet.exists()
dummy = ProcessService("dummy", [sys.executable, "-c", {SERVICE!r}, str(root)])
parts = lambda loop, log: [Reluctant(dummy, log)]
raise SystemExit(supervise(root, idle_s=float(sys.argv[2]), parts=parts, gone_s=float(sys.argv[3])))
"""

project = ended_project


def start_supervisor(root: Path, *, idle_s: float = 600, gone_s: float = 600) -> subprocess.Popen[bytes]:
    """Start a supervisor with a service that starts a process of its own."""
    return run_python(SUPERVISE, str(root), str(idle_s), str(gone_s))


def service_pids(root: Path) -> list[tuple[int, int]]:
    """List every start of the service so far: its pid and its child's."""
    try:
        lines = (root / "pids").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(int(pid), int(child)) for pid, child in (line.split() for line in lines)]


def stack_log(root: Path) -> str:
    """Return what the supervisors have logged so far."""
    path = root / ".maestro" / "logs" / "stack.log"
    return path.read_text() if path.exists() else ""


def looks(wire) -> int:
    """Count how often the supervisor has looked at the server, without being a new client."""
    row = read_info(wire.call("INFO", "commandstats")).get("cmdstat_client|list", "calls=0,")
    return int(row.split("calls=")[1].split(",")[0])


def test_ensure_starts_exactly_one_supervisor(project):
    """However often ensure is called, one supervisor stays, and a second one exits with 0."""
    for _ in range(5):
        embedded.ensure(project)
    wait_until(lambda: "supervisor_started" in stack_log(project), "a supervisor has started")
    second = subprocess.run(
        [sys.executable, "-P", "-m", "maestro_workers.stack", "--project", str(project)],
        check=False,
        timeout=60,
    )
    assert second.returncode == 0
    wait_until(lambda: len(supervisors(project)) == 1, "one supervisor is left")
    assert stack_log(project).count("supervisor_started") == 1
    assert embedded.supervisor_alive(project)


def test_the_supervisor_of_another_project_is_not_waited_for(project, tmp_path):
    """A program with two projects: what it started for one is on its way for that one only."""
    embedded.ensure(project)
    assert embedded.is_starting(project)
    assert not embedded.is_starting(tmp_path)


def _is_reached(maestro: Maestro) -> bool:
    """Tell whether somebody carries out runs for this server and namespace."""
    holders = handover.reach(maestro.address, maestro.settings.namespace)
    handover.close_all(holders)
    return bool(holders)


def test_a_supervisor_that_works_for_another_namespace_is_not_waited_for(project, monkeypatch):
    """It has loaded, as what it listens at shows: nobody else is on the way. The control: for nobody one would wait."""
    with Maestro(project) as maestro:
        maestro.sessions.start("here")
        embedded.ensure(project)
        wait_until(lambda: _is_reached(maestro), "the supervisor listens")
        monkeypatch.setattr(handover.time, "sleep", lambda _: pytest.fail("waited"))
        assert handover.Handover(maestro.address, "other", str(project)).reach() == []
        monkeypatch.setattr(handover, "_listens_for_others", lambda *_: False)
        with pytest.raises(pytest.fail.Exception, match="waited"):
            handover.Handover(maestro.address, "other", str(project)).reach()


def test_the_log_and_its_folder_are_private(project):
    """Nobody else can read what the supervisor logs."""
    embedded.ensure(project)
    wait_until(lambda: stack_log(project), "the log is there")
    logs = project / ".maestro" / "logs"
    assert (logs.stat().st_mode & 0o777, (logs / "stack.log").stat().st_mode & 0o777) == (0o700, 0o600)


def test_stop_ends_server_and_supervisor(project):
    """After stop nothing of the stack runs."""
    embedded.ensure(project)
    wait_until(lambda: embedded.supervisor_alive(project), "the supervisor has started")
    embedded.stop(project)
    assert not embedded.is_running(project)
    assert not embedded.supervisor_alive(project)
    wait_until(lambda: not servers(project) and not supervisors(project), "both have let go, and so are gone")


#: A supervisor that is held while it loads, before it has its lock, until it gets a line; it would wait for ever then.
LOADING = """
import sys
from pathlib import Path
from maestro_workers.stack.supervisor import supervise
print("loading", flush=True)
sys.stdin.readline()
raise SystemExit(supervise(Path(sys.argv[1]), idle_s=1e6, parts=lambda loop, log: [], gone_s=1e6))
"""


def test_a_supervisor_that_was_still_loading_when_the_stack_stopped_leaves(project):
    """Nobody can ask it to, so it looks itself: the server it was started for is gone."""
    embedded.ensure(project, supervise=False)
    loading = run_python(LOADING, str(project))
    assert loading.stdout.readline() == b"loading\n"
    embedded.stop(project)
    assert is_alive(loading.pid)  # the control: stopping has missed it
    loading.communicate(b"\n", timeout=60)
    assert loading.returncode == 0
    assert not embedded.supervisor_alive(project)


def test_a_supervisor_that_was_loading_stays_for_a_server_that_was_started_again(project):
    """Stopped and started again meanwhile: it is the one that the new server has."""
    embedded.ensure(project, supervise=False)
    loading = run_python(LOADING, str(project))
    loading.stdout.readline()
    embedded.stop(project)
    embedded.ensure(project, supervise=False)
    loading.stdin.write(b"\n")
    loading.stdin.flush()
    wait_until(lambda: "supervisor_started" in stack_log(project), "it is at work")
    embedded.stop(project)
    loading.communicate(timeout=60)
    assert loading.returncode == 0


def test_an_unused_stack_stops_itself_and_keeps_the_data(project, monkeypatch):
    """After the idle time server and supervisor are gone, and the next command finds everything."""
    monkeypatch.setenv("MAESTRO_STACK_IDLE_SECONDS", "1")
    embedded.ensure(project, supervise=False)
    call(project, "SET", "key", "value")  # before anybody counts how long nothing happens
    embedded.ensure_supervisor(project)
    wait_until(lambda: not servers(project) and not supervisors(project), "the stack has stopped")
    assert "server_stopped_idle" in stack_log(project)
    embedded.ensure(project, supervise=False)
    assert call(project, "GET", "key") == "value"


def test_a_stack_with_a_client_does_not_stop(project, monkeypatch):
    """Control: somebody connected, however quiet, keeps the stack up; it stops once they have left."""
    monkeypatch.setenv("MAESTRO_STACK_IDLE_SECONDS", "1")
    embedded.ensure(project, supervise=False)
    with closing(open_server(socket_address(project))) as wire:
        embedded.ensure_supervisor(project)
        # A look each quarter of the idle time: twelve are three idle times.
        wait_until(lambda: looks(wire) >= 12, "the supervisor has looked for three idle times")
        assert servers(project)
    wait_until(lambda: not servers(project), "the stack has stopped")


def test_a_part_may_put_off_the_stop(project):
    """While a part objects the stack stays up; when it no longer does, the stack stops."""
    embedded.ensure(project, supervise=False)
    (project / "do-not-stop").touch()
    with start_supervisor(project, idle_s=0.4) as supervisor:
        wait_until(lambda: "stop_put_off by=dummy" in stack_log(project), "the part was asked")
        assert servers(project)
        (project / "do-not-stop").unlink()
        assert supervisor.wait(60) == 0
    # What it killed it does not wait for, unless it is its own child.
    wait_until(lambda: not servers(project), "the server is gone")
    for pids in service_pids(project):
        wait_until(lambda pids=pids: not any(map(is_alive, pids)), "the service and its child are gone")


def test_a_killed_service_is_started_again(project):
    """A service that dies is back under a new pid."""
    embedded.ensure(project, supervise=False)
    with start_supervisor(project) as supervisor:
        wait_until(lambda: len(service_pids(project)) == 1, "the service has started")
        os.kill(service_pids(project)[0][0], signal.SIGKILL)
        wait_until(lambda: len(service_pids(project)) == 2, "the service is back")
        assert "service_ended name=dummy" in stack_log(project)
        supervisor.terminate()


def test_sigterm_ends_services_and_what_they_started_but_not_the_server(project):
    """A supervisor told to leave takes its services' whole process groups along."""
    embedded.ensure(project, supervise=False)
    with start_supervisor(project) as supervisor:
        wait_until(lambda: service_pids(project), "the service has started")
        supervisor.terminate()
        assert supervisor.wait(60) == 0
    (pids,) = service_pids(project)
    assert not is_alive(pids[0])
    # Its group was killed; the child of a process that is gone is nobody's to wait for.
    wait_until(lambda: not is_alive(pids[1]), "the service's child is gone")
    assert len(servers(project)) == 1
    assert not embedded.supervisor_alive(project)


def test_services_die_with_a_killed_supervisor(project):
    """After kill -9 of the supervisor no service is left, and a new supervisor can start."""
    embedded.ensure(project, supervise=False)
    with start_supervisor(project) as supervisor:
        wait_until(lambda: service_pids(project), "the service has started")
        supervisor.kill()
    wait_until(lambda: not is_alive(service_pids(project)[0][0]), "the service is gone")
    embedded.ensure(project)
    wait_until(lambda: embedded.supervisor_alive(project), "a new supervisor looks after the project")


def test_an_ordinary_child_survives_its_killed_parent(project):
    """Control: without being bound to its parent, a child in its own session lives on."""
    code = (
        "import subprocess, sys, threading\n"
        f"command = [sys.executable, '-c', {WAIT_FOREVER!r}, sys.argv[1]]\n"
        "child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\nthreading.Event().wait()\n"
    )
    with run_python(code, str(project)) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    assert is_alive(child)
    end(child)


def test_the_supervisor_stays_when_the_server_is_killed_and_restarted(project):
    """Services survive a server that comes back; the supervisor looks after the new one."""
    embedded.ensure(project, supervise=False)
    with start_supervisor(project, idle_s=8) as supervisor:
        with closing(open_server(socket_address(project))):  # so that it does not stop for idling before that
            wait_until(lambda: service_pids(project), "the service has started")
        end(*servers(project))
        embedded.ensure(project)
        with closing(open_server(socket_address(project))) as wire:
            wait_until(lambda: looks(wire) > 0, "the supervisor looks at the new server")
        assert supervisors(project) == [supervisor.pid]
        assert len(service_pids(project)) == 1
        supervisor.terminate()


def test_the_supervisor_leaves_when_the_server_stays_away(project):
    """With no server to look after, it ends its services and itself."""
    embedded.ensure(project, supervise=False)
    # Somebody is connected: it does not stop for idling, however long the service takes to start.
    with closing(open_server(socket_address(project))), start_supervisor(project, idle_s=2, gone_s=0.5) as supervisor:
        wait_until(lambda: service_pids(project), "the service has started")
        end(*servers(project))
        assert supervisor.wait(60) == 0
    assert "server_gone" in stack_log(project)
    assert not is_alive(service_pids(project)[0][0])


def test_a_leaving_supervisor_notices_a_server_that_came_back(project):
    """One that gave up while a server was being started goes on, since nobody else was started for it."""
    embedded.ensure(project, supervise=False)
    with start_supervisor(project, gone_s=0) as supervisor:
        wait_until(lambda: "server_came_back" in stack_log(project), "it gave up and saw the server")
        wait_until(lambda: stack_log(project).count("supervisor_started") > 1, "it goes on")
        supervisor.terminate()
        assert supervisor.wait(60) == 0


def test_a_removed_project_folder_ends_its_stack(project):
    """When somebody deletes .maestro, the server that lost its files does not stay behind."""
    embedded.ensure(project, supervise=False)
    with start_supervisor(project, idle_s=2) as supervisor:
        with closing(open_server(socket_address(project))) as wire:
            wait_until(lambda: looks(wire) > 0, "the supervisor is connected")
        lost = servers(project)
        shutil.rmtree(project / ".maestro")
        assert supervisor.wait(60) == 0
    wait_until(lambda: not any(is_alive(pid) for pid in lost), "the server is gone")


def test_a_supervisor_that_cannot_start_is_no_error(project, monkeypatch):
    """Without a supervisor the command still has its server."""
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    embedded.ensure(project)
    assert call(project, "PING") == "PONG"
    assert not embedded.ensure_supervisor(project)


def test_code_of_the_project_is_not_run_as_supervisor(project, monkeypatch):
    """A project that brings a package named like ours does not get it executed."""
    fake = project / "maestro_workers"
    fake.mkdir()
    (fake / "__init__.py").touch()
    (fake / "stack.py").write_text(f"open({str(project / 'owned')!r}, 'w')\n")
    monkeypatch.chdir(project)
    subprocess.run([sys.executable, "-m", "maestro_workers.stack"], check=True)
    assert (project / "owned").exists()  # control: the plain way would run it
    (project / "owned").unlink()
    embedded.ensure(project)
    wait_until(lambda: "supervisor_started" in stack_log(project), "the real supervisor has started")
    assert not (project / "owned").exists()
    assert Path(data_path(project), "stack.lock").read_text().strip().isdigit()


@pytest.mark.parametrize(("level", "said"), [("info", [("0001", "4bf92f3577b34da6a3ce929d0e0e4736")]), ("error", [])])
def test_what_workers_say_is_in_the_stacks_log(project: Path, level: str, said: list[tuple[str, str]]):
    """With the ids of the trace; as much of it as the stack was started with."""
    env = {"MAESTRO_LOG_LEVEL": level, "TRACEPARENT": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    printed(project, "session", "start", "s", env=env)
    printed(project, "run", "p", "--tool", "echo", env=env)
    printed(project, "stack", "stop", env=env)
    lines = (project / ".maestro/logs/stack.log").read_text().splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    assert [(one["run"], one["trace_id"]) for one in events if one["event"] == "run_finished"] == said
