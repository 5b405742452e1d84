"""The asking terminal's environment: what a run sees of it, wherever it is carried out, and that nobody else does."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from maestro_workers.run import GONE

from maestro_state import AsyncMaestro, Maestro
from maestro_state.errors import InvalidValue
from maestro_state.local.embedded import ensure
from maestro_state.local.handover import Holder
from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.support.embedded_project import call, end, ended_project, supervisors, workers, write_program
from tests.support.servers import Server, valkey
from tests.support.waiting import wait_until

#: Says what it sees of a variable without saying the value.
LENGTH = "sh -c 'echo ${#ASKED}'"
#: The same, once there is a file to go on with.
PATIENT = "sh -c 'echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ${#ASKED}'"

project = ended_project


def _wait_for(maestro: Maestro, *runs: str) -> list[str]:
    return [maestro.runs.wait(maestro.runs.read(run)).status for run in runs]


def test_a_run_sees_what_is_set_where_it_is_asked_for(project: Path):
    """Not what was set where the stack was started; a program that came on PATH later is found."""
    printed(project, "session", "start", "s", "--tool", LENGTH, env={"ASKED": "1234567"})
    assert printed(project, "run", "p", env={"ASKED": "12"})["output"] == "2\n"
    assert printed(project, "run", "p")["output"] == "0\n"
    places = project / "later"
    places.mkdir()
    write_program(
        places / "claude", 'import json; print(json.dumps({"type": "result", "is_error": False, "result": "x"}))'
    )
    later = {"PATH": f"{places}:{os.environ['PATH']}"}
    assert printed(project, "run", "p", "--tool", "claude", env=later)["status"] == "success"
    url = {"ASKED": "x", "MAESTRO_QUEUE_URL": printed(project, "stack", "status")["address"]}
    shown = printed(project, "run", "p", "--tool", "sh -c 'env | grep -c _URL; exit 0'", "--env", "ASKED", env=url)
    assert shown["output"] == "0\n", "Maestro's own addresses are nobody's business"


def test_a_variable_that_is_not_set_here_is_refused_at_once(project: Path):
    """Nothing is recorded."""
    printed(project, "session", "start", "s", "--tool", "cat")
    code, error = refused(project, "run", "p", "--env", "NOT_SET_HERE")
    assert code == 2
    assert "NOT_SET_HERE is not set in this terminal" in error["message"]
    assert printed(project, "runs")["runs"] == []


def test_asking_keeps_no_event_loop_waiting(project: Path):
    """Whoever is to take the environment may be slow; meanwhile an async program goes on. Its lines are closed."""

    async def ask() -> tuple[str, int]:
        async with AsyncMaestro(project) as maestro:
            await maestro.sessions.start("s", tool="cat")
            loop, went_on = asyncio.get_running_loop(), threading.Event()
            ours, theirs = socket.socketpair()
            holder = Holder("slow", ours)

            def reach() -> list[Holder]:
                loop.call_soon_threadsafe(went_on.set)
                assert went_on.wait(30), "the event loop waits too"
                return [holder]

            maestro.blocking.runs.handover.reach = reach
            with theirs, pytest.raises(InvalidValue) as refusal:
                await maestro.runs.start("p", env=("NOT_SET_HERE",))
            return str(refusal.value), ours.fileno()

    ensure(project, supervise=False)
    said, descriptor = asyncio.run(ask())
    assert "NOT_SET_HERE" in said
    assert descriptor == -1


def test_it_outlives_the_asking_terminal_and_a_lost_worker(project: Path):
    """Detached, and tried again by another worker after kill -9 of the first."""
    printed(project, "session", "start", "s", "--tool", PATIENT)
    run = printed(project, "run", "p", "--detach", "--retries", "1", env={"ASKED": "123"})["id"]
    with Maestro(project) as maestro:
        wait_until(lambda: maestro.runs.output(run), "the tool runs")
        end(*workers(project))
        wait_until(lambda: maestro.claims.recover_run(maestro.sessions.read().id, run) != "alive", "its worker is lost")
        wait_until(lambda: maestro.runs.output(run) == b"begun\n" and workers(project), "another one is at it")
        (project / "go").touch()
        assert _wait_for(maestro, run) == ["success"]
        assert maestro.runs.output(run) == b"begun\n3\n"


def test_without_its_environment_a_run_is_not_begun(project: Path):
    """A supervisor that was killed has taken it along: the run says so, and sees nobody else's."""
    printed(project, "session", "start", "s", "--tool", PATIENT, env={"MAESTRO_WORKERS": "1", "ASKED": "12345"})
    first = printed(project, "run", "p", "--detach", env={"ASKED": "1"})["id"]
    with Maestro(project) as maestro:
        wait_until(lambda: maestro.runs.output(first), "the only worker has something to do")
        waiting = printed(project, "run", "p", "--detach", env={"ASKED": "1"})["id"]
        end(*supervisors(project))
        printed(project, "run", "p", "--detach", "--tool", "cat")
        maestro.runs.wait(maestro.runs.read(waiting))
        found = maestro.runs.read(waiting)
    assert (found.status, found.error) == ("error", GONE)


def _finds(folder: Path, value: bytes) -> list[str]:
    """List the files below a folder, and the arguments of processes, that hold a value."""
    found = []
    for place in [*folder.rglob("*"), *Path("/proc").glob("[0-9]*/cmdline")]:
        try:
            if place.is_file() and value in place.read_bytes():
                found.append(str(place))
        except OSError:
            continue  # a process that has ended
    return found


def _keys_holding(project: Path, value: str) -> list[str]:
    """List the keys of the server that hold a value, whatever they are."""
    search = """
    local found = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
      local kind = redis.call('TYPE', key).ok
      local reads = {string = {'GET', key}, hash = {'HGETALL', key}, set = {'SMEMBERS', key},
                     list = {'LRANGE', key, 0, -1}, zset = {'ZRANGE', key, 0, -1}, stream = {'XRANGE', key, '-', '+'}}
      if string.find(cjson.encode(redis.call(unpack(reads[kind]))), ARGV[1], 1, true) then found[#found + 1] = key end
    end
    return table.concat(found, ' ')"""
    return call(project, "EVAL", search, "0", value).split()


def test_nobody_writes_it_down(project: Path, own_home: Path):
    """Not in a file, a log, the archive, the server's own, a key, an argument or the supervisor's environment."""
    secret = secrets.token_hex(20)
    printed(project, "session", "start", "s", "--tool", PATIENT, env={"ASKED": secret})
    run = printed(project, "run", "p", "--detach", env={"ASKED": secret, "MAESTRO_LOG_LEVEL": "debug"})["id"]
    with Maestro(project) as maestro:
        wait_until(lambda: maestro.runs.output(run), "the tool runs")
        tools = [pid for pid in Path("/proc").glob("[0-9]*") if _has(pid / "environ", secret.encode())]
        assert tools, "control: the tool itself sees it, and this would find it"
        (supervisor,) = supervisors(project)
        assert not _has(Path(f"/proc/{supervisor}/environ"), secret.encode())
        assert _keys_holding(project, secret) == []
        assert _keys_holding(project, "begun"), "control: what the tool printed is found"
        (project / "go").touch()
        assert _wait_for(maestro, run) == ["success"]
        assert maestro.runs.output(run) == b"begun\n40\n"
        printed(project, "session", "end")
    printed(project, "export")
    assert _finds(project, secret.encode()) == []
    assert _finds(own_home, secret.encode()) == []
    assert _finds(project, b"begun"), "control: the archive has what the tool printed"


def _has(path: Path, value: bytes) -> bool:
    try:
        return value in path.read_bytes()
    except OSError:
        return False


@pytest.fixture
def team(tmp_path: Path, project: Path) -> Iterator[tuple[Server, dict[str, str]]]:
    """Return a server that a team shares, and the setting that leads to it."""
    with valkey(tmp_path) as server:
        yield server, {"MAESTRO_REDIS_URL": server.url}


def test_a_teams_worker_on_this_machine_is_handed_it_too(project: Path, team):
    """`maestro worker` listens where the asking terminal looks; told to stop it lets the run end."""
    _, env = team
    printed(project, "session", "start", "s", "--tool", PATIENT, env=env)
    own = {name: value for name, value in os.environ.items() if name != "ASKED"}
    with (
        subprocess.Popen([MAESTRO, "worker"], cwd=project, env=own | env) as worker,
        Maestro(project, redis_url=env["MAESTRO_REDIS_URL"]) as maestro,
    ):
        try:
            wait_until(lambda: maestro.runs.workers() == 1, "the worker listens")
            run = printed(project, "run", "p", "--detach", env=env | {"ASKED": "1234"})["id"]
            wait_until(lambda: maestro.runs.output(run), "the tool runs")
            worker.send_signal(signal.SIGTERM)
            (project / "go").touch()
            assert _wait_for(maestro, run) == ["success"]
            assert maestro.runs.output(run) == b"begun\n4\n"
            assert worker.wait(60) == 0
        finally:
            worker.kill()


def test_a_worker_elsewhere_uses_its_own(project: Path, team):
    """Its own variables, of which those that are asked for and not set there end the run with that reason."""
    _, env = team
    printed(project, "session", "start", "s", "--tool", LENGTH, env=env)
    with Maestro(project, redis_url=env["MAESTRO_REDIS_URL"]) as maestro:
        seen = maestro.runs.start("p", env=("ASKED",))
        unset = maestro.runs.start("p", env=("NOT_SET_THERE",))
        assert seen.holders == []
        maestro_command(project, "worker", "--burst", env=env | {"ASKED": "123456789"})
        assert maestro.runs.output(maestro.runs.wait(seen).id) == b"9\n"
        ended = maestro.runs.wait(unset)
    assert ended.status == "error"
    assert "NOT_SET_THERE is not set on" in ended.error
    assert "MAESTRO_SECRETS_FILE" in ended.error, "what to do about it"


def test_a_run_is_left_to_the_machine_that_has_its_environment(project: Path, team):
    """While a worker there lives no other takes it; when none does any more, it ends with the reason."""
    _, env = team
    printed(project, "session", "start", "s", "--tool", LENGTH, env=env)
    with Maestro(project, redis_url=env["MAESTRO_REDIS_URL"]) as maestro:
        keys = maestro.server.terms.keys
        run = maestro.runs.start("p")
        runs = keys.of_session(maestro.sessions.read().id, "runs")
        record = maestro.server.connection.call("HGET", runs, run.id).decode()
        elsewhere = record[:-1] + ',"holders":["0badcafe"]}'
        maestro.server.connection.call("HSET", runs, run.id, elsewhere)
        other = f"rq:worker:{keys.namespace}@elsewhere-1-0badcafe"
        maestro.server.connection.call("SADD", keys.queue_workers, other)
        maestro.server.connection.call("SET", other, "", "PX", 600_000)
        maestro_command(project, "worker", "--burst", env=env)
        assert maestro.runs.read(run.id).status == "pending"
        maestro.server.connection.call("DEL", other)
        maestro.claims.recover()
        maestro_command(project, "worker", "--burst", env=env)
        ended = maestro.runs.wait(run)
    assert (ended.status, ended.error) == ("error", GONE)


def test_a_stack_that_is_only_a_server_leaves_the_environment_alone(project: Path):
    """Control: where nobody listens a run is recorded without a holder."""
    ensure(project, supervise=False)
    with Maestro(project) as maestro:
        maestro.sessions.start("s", tool="cat")
        assert maestro.runs.start("p").holders == []
