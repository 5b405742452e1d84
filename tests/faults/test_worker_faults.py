"""Workers, tools and servers that are killed, stopped or away: every run ends honestly, once, with one output."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state.clock import now_ms
from maestro_state.state.calls.claims import SUSPICION_MS
from tests.support.cli_runs import MAESTRO
from tests.support.embedded_project import is_alive
from tests.support.team_workers import team_of
from tests.support.waiting import wait_until
from tests.support.workshop import NUMBERS, Workshop, wait_dead


def _numbers(output: bytes) -> list[int]:
    return [int(line) for line in output.decode().splitlines(keepends=True) if line.endswith("\n")]


def _running(shop: Workshop, **options) -> tuple:
    """Start a run of the tool that counts, and wait until it counts."""
    tool = shop.tool("numbers", NUMBERS)
    maestro = shop.open()
    maestro.sessions.start("faults", tool=tool)
    run = maestro.runs.start("p", **options)
    pids = shop.wait_for_pids("pids", 2)
    wait_until(lambda: maestro.runs.output(run.id), "the tool has printed")
    return maestro, run, pids


def _let_its_lease_end(maestro, run) -> None:
    """Let as much time pass for a run whose worker is dead as it takes to be sure of that."""
    lease = now_ms() - SUSPICION_MS - 1
    key = maestro.server.terms.keys.of_session(maestro.sessions.read().id, "runs")
    ended = (f"{run.id}:lease", lease, f"{run.id}:suspect", f"{lease} {lease}")
    maestro.server.connection.call("HSET", key, *ended)


def test_a_killed_worker_is_noticed_and_its_run_ends_once(shop: Workshop):
    """kill -9 of the worker: tool and grandchild die, and another worker ends the run."""
    worker = shop.start_worker()
    maestro, run, pids = _running(shop)
    shop.start_worker()
    worker.kill()
    worker.wait()
    _let_its_lease_end(maestro, run)
    wait_dead(pids)
    wait_until(lambda: maestro.sessions.read().state != "executando", "the run is ended")

    ended = maestro.runs.read(run.id)
    assert (ended.status, ended.error) == ("error", "its worker was lost while it ran")
    numbers = _numbers(maestro.runs.output(run.id))
    assert numbers == list(range(len(numbers)))
    record = maestro.sessions.read()
    assert (record.state, record.stats.runs_error) == ("com_saida", 1)


#: Inherits what its descendants leave behind, as the first process of a container does.
INHERITING = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.mark.skipif(sys.platform != "linux", reason="inherits as Linux does")
def test_a_worker_that_is_a_containers_first_process_collects_what_it_inherits(project: Path, tmp_path: Path):
    """A worker is killed, the guard of its run is left behind: nothing stays in the list of processes."""
    with team_of(project, tmp_path) as team:
        # Without tools of this machine: one that is asked for its version is a child too.
        first = team.run([sys.executable, "-c", INHERITING, MAESTRO, "worker"], team.programs("none"))
        script = project / "numbers.py"
        script.write_text(NUMBERS)
        with team.open() as maestro:
            maestro.sessions.start("left", tool=f"{sys.executable} -S {script}")
            run = maestro.runs.start("p")
            wait_until(lambda: maestro.runs.output(run.id), "the tool has printed")
            (worker,) = _children(first.pid)
            (guard,) = _children(worker)
            os.kill(worker, signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{guard}").exists(), "the guard is collected")
            wait_until(lambda: len(_children(first.pid)) == 1, "there is a new worker, and nothing else")
            assert worker not in _children(first.pid)


@pytest.mark.skipif(os.getuid() != 0 or sys.platform != "linux", reason="makes a namespace of processes")
def test_a_containers_first_process_ends_when_told_while_it_starts(project: Path):
    """Before it has reached its server, and so before a worker has handlers of its own."""
    apart = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-P"]
    words = ["-c", "from maestro_cli.entry import main; main()", "worker"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen([*apart, *words], cwd=project, env=os.environ | {"MAESTRO_REDIS_URL": url}) as process:
            try:
                line, _ = silent.accept()
                with line:
                    (first,) = _children(process.pid)
                    os.kill(first, signal.SIGTERM)
                    assert process.wait(60) == 128 + signal.SIGTERM
            finally:
                process.kill()


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_worker_that_was_taken_off_the_list_is_counted_again(shop: Workshop, is_busy: bool):
    """As RQ's upkeep does with one that was silent for ten seconds: its server was away, or the machine slept."""
    shop.start_worker()
    maestro, key = shop.open(), "rq:workers:maestro"
    if is_busy:
        _running(shop)
    (listed,) = maestro.server.connection.call("SMEMBERS", key)
    assert maestro.server.connection.call("SREM", key, listed) == 1
    wait_until(lambda: maestro.runs.workers() == 1, "the worker is counted")
    assert maestro.server.connection.call("SMEMBERS", key) == [listed]


def test_whoever_follows_ends_the_run_when_there_is_no_worker_left(shop: Workshop):
    """With the only worker killed, the follower itself sees to it that nothing stays running for ever."""
    worker = shop.start_worker()
    maestro, run, pids = _running(shop)
    worker.kill()
    worker.wait()
    _let_its_lease_end(maestro, run)
    wait_dead(pids)

    assert maestro.runs.wait(run).status == "error"


@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_a_retried_run_has_the_output_of_one_attempt(shop: Workshop, fault: str):
    """A worker killed, or stopped and continued as a zombie: the second attempt's output is the only one."""
    worker = shop.start_worker()
    maestro, run, pids = _running(shop, retries=1)
    first_length = len(_numbers(maestro.runs.output(run.id)))
    (shop.project / "pids").unlink()
    shop.start_worker()
    os.kill(worker.pid, signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
    if fault == "killed":
        worker.wait()
        _let_its_lease_end(maestro, run)
    else:
        # Control: the zombie's tool is alive and printing when the second attempt begins.
        wait_until(lambda: maestro.claims.recover_run(maestro.sessions.read().id, run.id) != "alive", "lease over")
        assert is_alive(pids[0])
    shop.wait_for_pids("pids", 2)
    wait_until(lambda: len(_numbers(maestro.runs.output(run.id))) > 20, "the second attempt prints")
    if fault == "stopped":
        os.kill(worker.pid, signal.SIGCONT)
        wait_until(lambda: b"claim_lost" in shop.log.read_bytes(), "the zombie was refused")
    wait_dead(pids)
    before = len(_numbers(maestro.runs.output(run.id)))
    wait_until(lambda: len(_numbers(maestro.runs.output(run.id))) > before + 20, "the second attempt goes on")
    maestro.runs.cancel(run.id)
    ended = maestro.runs.wait(run)

    assert ended.status == "canceled"
    numbers = _numbers(maestro.runs.output(run.id))
    assert numbers == list(range(len(numbers)))
    assert first_length > 0


@pytest.mark.parametrize("fault", ["tool killed", "timeout", "canceled"])
def test_a_tool_that_is_killed_leaves_nothing_and_its_output_stays(shop: Workshop, fault: str):
    """Killed from outside, out of time, or canceled from another terminal: no survivors, all lines kept, a reason."""
    shop.start_worker()
    maestro, run, pids = _running(shop, timeout_s=4 if fault == "timeout" else 600)
    if fault == "tool killed":
        os.kill(pids[0], signal.SIGKILL)
    if fault == "canceled":
        shop.open().runs.cancel(run.id)
    ended = maestro.runs.wait(run)
    wait_dead(pids)

    assert ended.status == ("canceled" if fault == "canceled" else "error")
    assert {"tool killed": "killed", "timeout": "longer than 4 s", "canceled": "canceled"}[fault] in ended.error
    numbers = _numbers(maestro.runs.output(run.id))
    assert numbers == list(range(len(numbers)))
    assert ended.output_ref.size == len(maestro.runs.output(run.id))


def test_the_run_goes_on_when_its_terminal_dies(shop: Workshop):
    """kill -9 of the command that started it: the worker carries the run to its end."""
    shop.start_worker()
    tool = shop.tool("wait", "import os, time\nprint('begun', flush=True)\n"
                             "while not os.path.exists('go'): time.sleep(0.02)\nprint('done')")  # fmt: skip
    maestro = shop.open()
    maestro.sessions.start("terminal", tool=tool)
    terminal = subprocess.Popen([sys.executable, "-c", "from maestro_cli.main import main; main()", "run", "p"],
                                cwd=shop.project, stdout=subprocess.PIPE)  # fmt: skip
    assert terminal.stdout.readline() == b"begun\n"
    terminal.kill()
    terminal.wait()
    terminal.stdout.close()
    (shop.project / "go").touch()
    ended = maestro.runs.wait(maestro.runs.list()[-1])

    assert ended.status == "success"
    assert maestro.runs.output(ended.id) == b"begun\ndone\n"


@pytest.mark.parametrize("how", ["deleted", "aborted"])
def test_a_session_taken_away_ends_its_tool_and_not_the_worker(shop: Workshop, how: str):
    """Deleting or aborting a session while a run is under way ends the tool at once; the worker takes the next run."""
    shop.start_worker()
    maestro, run, pids = _running(shop)
    if how == "deleted":
        maestro.sessions.delete(maestro.sessions.read().id)
    else:
        maestro.sessions.abort(reason="enough")
        assert maestro.runs.read(run.id).status == "canceled"
    wait_dead(pids)
    maestro.sessions.start("next", tool="cat")

    assert maestro.runs.wait(maestro.runs.start("p")).status == "success"


def test_a_server_without_memory_ends_the_run_with_that_reason(shop: Workshop):
    """Output the server cannot take ends the tool; once there is memory again the run says why it ended."""
    shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("memory", tool="sh -c 'yes | head -c 30000000; sleep 600'")
    connection = maestro.server.connection
    connection.call("CONFIG", "SET", "maxmemory", 12_000_000)
    run = maestro.runs.start("p")
    wait_until(lambda: b"run_given_up" in shop.log.read_bytes(), "the worker gave up")
    connection.call("CONFIG", "SET", "maxmemory", 0)
    ended = maestro.runs.wait(run)

    assert ended.status == "error"
    assert "lost" in ended.error or "could not take" in ended.error
    assert 0 < ended.output_ref.size < 30_000_000


def test_the_queue_may_be_on_a_server_of_its_own(shop: Workshop, tmp_path: Path):
    """With MAESTRO_QUEUE_URL the job waits there and the state stays where it is."""
    import redis

    from tests.support.servers import valkey

    with valkey(tmp_path) as queue_server:
        address = queue_server.url
        shop.start_worker(MAESTRO_QUEUE_URL=address)
        maestro = shop.open(queue_url=address)
        maestro.sessions.start("queue", tool="cat")
        ended = maestro.runs.wait(maestro.runs.start("elsewhere"))
        raw = redis.Redis.from_url(address)
        there = {key for key in raw.scan_iter() if key.startswith(b"maestro")}
        raw.close()

    assert ended.status == "success"
    assert there == set()
