"""The embedded server starts once, whatever happens around it, and only for its user."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from maestro_state.fs import locks
from maestro_state.local import embedded
from maestro_state.local.embedded import server
from maestro_state.local.embedded.binary import find_binary
from maestro_state.local.embedded.paths import data_path
from tests.support.embedded_project import (
    call,
    end,
    ended_project,
    is_alive,
    open_files,
    run_python,
    servers,
    write_program,
)
from tests.support.waiting import wait_until

ENSURE_WHEN_TOLD = """
import sys
from pathlib import Path
from maestro_state.local import embedded
root = Path(sys.argv[1])
sys.stdout.write("waiting\\n"); sys.stdout.flush()
sys.stdin.readline()
embedded.ensure(root, supervise=False, binary=sys.argv[2] if len(sys.argv) > 2 else None)
print(embedded.status(root).pid)
"""

project = ended_project


def launch_without_lock(root: Path) -> None:
    """Start a server the way somebody without the lock would."""
    data = data_path(root)
    own = (("dir", data), ("unixsocket", f"{data}/s.sock"), ("logfile", f"{data}/server.log"))
    pairs = (*server.SERVER_ARGUMENTS, *own)
    words = [word for name, value in pairs for word in (f"--{name}", value)]
    subprocess.run([str(find_binary()), *words], cwd=data, check=True)


def test_twenty_first_commands_at_once_share_one_server(project):
    """Twenty processes that all find no server end up on the same one."""
    starters = [run_python(ENSURE_WHEN_TOLD, str(project)) for _ in range(20)]
    for starter in starters:
        assert starter.stdout.readline() == b"waiting\n"
    for starter in starters:
        starter.stdin.write(b"\n")
        starter.stdin.flush()
    pids = [int(starter.communicate(timeout=60)[0]) for starter in starters]
    assert [starter.returncode for starter in starters] == [0] * 20
    assert servers(project) == [pids[0]]
    assert set(pids) == {pids[0]}


def test_without_the_lock_two_servers_share_the_data(project):
    """Control: nothing but the lock keeps a second server from the same files."""
    Path(data_path(project)).mkdir(parents=True)
    launch_without_lock(project)
    launch_without_lock(project)
    wait_until(lambda: len(servers(project)) == 2, "both servers run")


def test_a_second_ensure_finds_the_first_server(project):
    """Calling ensure again changes nothing."""
    first = embedded.ensure(project, supervise=False)
    pid = embedded.status(project).pid
    assert embedded.ensure(project, supervise=False) == first == embedded.socket_path(project)
    assert embedded.status(project).pid == pid
    assert servers(project) == [pid]


def test_leftovers_of_a_killed_server_do_not_matter(project):
    """A stale socket, pid and lock file are simply replaced."""
    data = Path(data_path(project))
    data.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(data / "s.sock"))
    (data / "server.pid").write_text(f"{os.getpid()}\n")
    (data / "server.lock").touch()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(data / "s.sock"))  # control: what is there is dead
    embedded.ensure(project, supervise=False)
    assert call(project, "PING") == "PONG"


@pytest.mark.parametrize("appendonly", ["yes", "no"])
def test_acknowledged_writes_survive_kill_9(project, monkeypatch, appendonly):
    """Every answered write is there after kill -9; without the append-only file (control) none is."""
    changed = {**dict(server.SERVER_ARGUMENTS), "appendonly": appendonly}
    monkeypatch.setattr(server, "SERVER_ARGUMENTS", tuple(changed.items()))
    embedded.ensure(project, supervise=False)
    for number in range(500):
        assert call(project, "SET", f"key{number}", "value") == "OK"
    killed = embedded.status(project).pid
    os.kill(killed, signal.SIGKILL)
    embedded.ensure(project, supervise=False)
    assert embedded.status(project).pid != killed
    assert call(project, "DBSIZE") == ("500" if appendonly == "yes" else "0")


def test_a_starter_killed_halfway_leaves_no_mess(project):
    """When the starter is killed while its server comes up, the next command gets that server."""
    begun, go = project / "begun", project / "go"
    slow = write_program(
        project / "slow-server",
        f"import os, sys, pathlib, threading\npathlib.Path({str(begun)!r}).touch()\n"
        f"while not os.path.exists({str(go)!r}): threading.Event().wait(0.01)\n"
        f"os.execv({str(find_binary())!r}, ['valkey-server', *sys.argv[1:]])\n",
    )
    first = run_python(ENSURE_WHEN_TOLD, str(project), str(slow))
    first.stdin.write(b"\n")
    first.stdin.flush()
    wait_until(begun.exists, "the server program has been started")
    first.kill()
    first.communicate()
    second = run_python(ENSURE_WHEN_TOLD, str(project))
    second.stdin.write(b"\n")
    second.stdin.flush()
    assert second.stdout.readline() == b"waiting\n"
    go.touch()
    out, _ = second.communicate(timeout=60)
    # The process that went into the background as this one may take a moment to leave: its starter was killed.
    wait_until(lambda: servers(project) == [int(out)], "there is one server, and it is the second one's")


def test_a_deleted_lock_file_does_not_bring_a_second_server(project):
    """A server whose lock file was removed by hand is still the only one."""
    embedded.ensure(project, supervise=False)
    pid = embedded.status(project).pid
    Path(data_path(project), "server.lock").unlink()
    embedded.ensure(project, supervise=False)
    assert servers(project) == [pid]


def test_only_this_user_can_reach_it(project):
    """The folder and the socket are 0700, and nothing listens on the network."""
    data = Path(data_path(project))
    data.mkdir(parents=True)
    data.chmod(0o777)
    path = embedded.ensure(project, supervise=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert {entry.stat().st_mode & 0o077 for entry in data.rglob("*")} == {0}
    pid = embedded.status(project).pid
    held = open_files(pid)
    assert any(name.startswith("socket:") for name in held)
    for table in ("tcp", "tcp6"):
        rows = Path("/proc/net", table).read_text().splitlines()[1:]
        assert not {f"socket:[{row.split()[9]}]" for row in rows} & held


def test_the_server_holds_nothing_of_its_starter(project):
    """It has no file of the starter's open but the lock, and none of its environment."""
    leak = "import os; os.set_inheritable(os.open('/etc/hostname', 0), True)\n"
    code = leak + ENSURE_WHEN_TOLD
    starter = run_python(code, str(project), env={**os.environ, "SOME_TOKEN": "secret"})
    out, _ = starter.communicate(b"\n", timeout=60)
    pid = int(out.split()[-1])
    held = open_files(pid)
    assert f"{data_path(project)}/server.lock" in held
    assert "/etc/hostname" not in held
    assert b"SOME_TOKEN" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_very_deep_project_gets_its_socket_elsewhere(project, monkeypatch):
    """A path too long for a socket works, also from a terminal with another runtime folder."""
    runtime = project / "r"
    runtime.mkdir()
    deep = project.joinpath(*["d" * 50] * 5)
    deep.mkdir(parents=True)
    near = Path(data_path(deep), "s.sock")
    with socket.socket(socket.AF_UNIX) as probe, pytest.raises(OSError, match="too long"):
        probe.bind(str(near))  # control: the place of other projects is not possible here
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    path = embedded.ensure(deep, supervise=False)
    assert runtime in path.parents
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path, *path.parents[:2])] == [0o700] * 3
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert embedded.ensure(deep, supervise=False) == path
    embedded.stop(deep)
    assert not embedded.is_running(deep)


def test_the_lock_outlives_its_starter_and_not_the_server(project):
    """Once the server is killed its lock is free, with nothing to clean up."""
    embedded.ensure(project, supervise=False)
    folder = os.open(data_path(project), os.O_RDONLY)
    try:
        assert locks.try_lock(folder, "server.lock") is None
        end(*servers(project))
        wait_until(lambda: not locks.is_locked(folder, "server.lock"), "the lock is free")
    finally:
        os.close(folder)


def test_a_rewrite_that_outlives_its_server_is_waited_for(project):
    """A child of a killed server still has the data open: the next server starts when it is done."""
    embedded.ensure(project, supervise=False)
    for number in range(300):
        call(project, "SET", f"key{number}", "value")
    killed = embedded.status(project).pid
    call(project, "CONFIG", "SET", "rdb-key-save-delay", "10000")
    call(project, "BGREWRITEAOF")
    wait_until(lambda: len(servers(project)) == 2, "the rewrite has its own process")
    (rewrite,) = set(servers(project)) - {killed}
    os.kill(rewrite, signal.SIGSTOP)
    os.kill(killed, signal.SIGKILL)
    folder = os.open(data_path(project), os.O_RDONLY)
    try:
        wait_until(lambda: not is_alive(killed), "the server is gone")
        assert locks.is_locked(folder, "server.lock")  # control: there is something to wait for
    finally:
        os.close(folder)
    waiting = run_python(ENSURE_WHEN_TOLD, str(project))
    waiting.stdin.write(b"\n")
    waiting.stdin.flush()
    assert waiting.stdout.readline() == b"waiting\n"
    os.kill(rewrite, signal.SIGCONT)
    out, _ = waiting.communicate(timeout=60)
    wait_until(lambda: servers(project) == [int(out)], "the rewrite is gone, and there is one server")
    assert call(project, "DBSIZE") == "300"


WRITE_UNTIL_CUT_OFF = """
import sys
from contextlib import closing
from maestro_state.local.embedded.probe import open_server
with closing(open_server(sys.argv[1])) as wire:
    for number in range(10**9):
        try:
            wire.call("SADD", sys.argv[2], str(number))
        except OSError:
            break
print(number)
"""


def test_writers_lose_nothing_acknowledged_when_the_server_is_killed_under_them(project):
    """Under load, in every round, each write that was answered is there after kill -9 and restart."""
    for turn in range(3):
        path = embedded.ensure(project, supervise=False)
        names = [f"writer{turn}.{number}" for number in range(4)]
        writers = [run_python(WRITE_UNTIL_CUT_OFF, str(path), name) for name in names]
        for name in names:
            wait_until(lambda name=name: int(call(project, "SCARD", name)) > 100, "the writer is busy")
        os.kill(embedded.status(project).pid, signal.SIGKILL)
        acknowledged = [int(writer.communicate(timeout=60)[0]) for writer in writers]
        embedded.ensure(project, supervise=False)
        kept = [int(call(project, "SCARD", name)) for name in names]
        # A write whose answer was cut off may be there: one more, never one less.
        assert all(have - told in (0, 1) for have, told in zip(kept, acknowledged, strict=True))


def test_a_server_killed_while_starting_is_started_again(project):
    """Being killed before the first answer is bad luck, not a broken server."""
    unlucky = project / "unlucky"
    program = write_program(
        project / "flaky-server",
        "import os, sys, signal\n"
        f"if not os.path.exists({str(unlucky)!r}):\n"
        f"    open({str(unlucky)!r}, 'w')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"os.execv({str(find_binary())!r}, ['valkey-server', *sys.argv[1:]])\n",
    )
    embedded.ensure(project, binary=program, supervise=False)
    assert unlucky.exists()
    assert len(servers(project)) == 1
