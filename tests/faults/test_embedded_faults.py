"""When the embedded server cannot run, the error says why and what to do; stopping it is always safe."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from maestro_state.errors import ServerStorageError, ServerUnavailable
from maestro_state.local import embedded
from maestro_state.local.embedded import server
from maestro_state.local.embedded.paths import data_path
from tests.support.embedded_project import call, ended_project, servers, write_program
from tests.support.waiting import wait_until

project = ended_project


@pytest.mark.parametrize("linked", [".maestro", ".maestro/server"])
def test_a_symlink_out_of_the_project_is_refused(project, linked):
    """Nothing is started or written through a symlink a project brings along."""
    target = project / "elsewhere"
    target.mkdir()
    (project / linked).parent.mkdir(exist_ok=True)
    (project / linked).symlink_to(target)
    with pytest.raises(ServerUnavailable, match="is a symlink"):
        embedded.ensure(project, supervise=False)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("name", ["server.lock", "server.log", "server.pid", "appendonlydir/x.manifest"])
def test_a_symlink_among_the_data_is_refused(project, name):
    """Neither Maestro nor the server writes to what a symlink among the data names."""
    victim = project / "victim"
    planted = Path(data_path(project), name)
    planted.parent.mkdir(parents=True)
    planted.symlink_to(victim)
    with pytest.raises(ServerUnavailable, match=planted.name):
        embedded.ensure(project, supervise=False)
    assert not victim.exists()
    planted.unlink()
    embedded.ensure(project, supervise=False)  # control: it was the symlink


def test_a_file_in_place_of_the_folder_is_named(project):
    """The error says which path is in the way."""
    (project / ".maestro").touch()
    with pytest.raises(ServerUnavailable, match=r"\.maestro is a file") as caught:
        embedded.ensure(project, supervise=False)
    assert "MAESTRO_REDIS_URL" in caught.value.hint


def test_a_runtime_folder_of_somebody_else_is_refused(project, monkeypatch):
    """A socket is never put into a folder another user prepared or can enter."""
    runtime = project / "r"
    taken = runtime / f"maestro-{os.geteuid()}"
    taken.mkdir(parents=True)
    deep = project.joinpath(*["d" * 50] * 5)
    deep.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    taken.chmod(0o777)
    with pytest.raises(ServerUnavailable, match="only you can open"):
        embedded.ensure(deep, supervise=False)
    taken.chmod(0o700)
    embedded.ensure(deep, supervise=False)  # control: it was the permissions


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import sys; sys.exit('no libssl.so.3 \\x1b[31mhere')", r"no libssl\.so\.3 \[31mhere"),
        ("import sys; open('server.log', 'w').write('1:M 1 Jan # on fire\\n'); sys.exit(1)", "on fire"),
        ("", "no reason"),
    ],
)
def test_a_server_that_dies_at_once_gives_its_reason(project, body, reason):
    """The last words of a server that did not come up are in the error, without control characters."""
    program = write_program(project / "broken-server", body)
    with pytest.raises(ServerUnavailable, match=reason) as caught:
        embedded.ensure(project, binary=program, supervise=False)
    assert caught.value.hint
    embedded.ensure(project, supervise=False)  # and the next attempt is not in its way


def test_damaged_data_is_named_and_left_alone(project):
    """A server that cannot read its data says so, and nothing of it is thrown away."""
    embedded.ensure(project, supervise=False)
    call(project, "SET", "key", "value")
    embedded.stop(project)
    (log,) = Path(data_path(project)).glob("data-*/*.incr.aof")
    damaged = b"garbage\r\n" + log.read_bytes()
    log.write_bytes(damaged)
    with pytest.raises(ServerUnavailable, match="damaged at byte 0"):
        embedded.ensure(project, supervise=False)
    assert log.read_bytes() == damaged


def test_a_program_that_never_starts_is_ended(project, monkeypatch):
    """A program that hangs is given up on and killed."""
    monkeypatch.setattr(server, "START_S", 0.5)
    program = write_program(project / "hanging-server", "import threading; threading.Event().wait()")
    with pytest.raises(ServerUnavailable, match="did not start"):
        embedded.ensure(project, binary=program, supervise=False)
    assert servers(project) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_an_honest_error(project):
    """With no room for its files the server does not start, and the error says so."""
    disk = project / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False)
    if mounted.returncode != 0:
        pytest.skip("this system does not let tests mount")
    try:
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        with pytest.raises(ServerStorageError, match="No space left on device"):
            embedded.ensure(disk, supervise=False)
        filler.unlink()
        embedded.ensure(disk, supervise=False)  # control: it was the room
        embedded.stop(disk)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_project_is_an_honest_error(project):
    """On a read-only disk the error names the folder and the way around."""
    disk = project / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(disk)], check=False).returncode != 0:
        pytest.skip("this system does not let tests mount")
    try:
        with pytest.raises(ServerUnavailable, match="Read-only file system") as caught:
            embedded.ensure(disk, supervise=False)
        assert "MAESTRO_REDIS_URL" in caught.value.hint
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_stop_keeps_everything_and_may_be_repeated(project):
    """After stop the server is gone and its data is there at the next start."""
    embedded.ensure(project, supervise=False)
    call(project, "SET", "key", "value")
    embedded.stop(project)
    embedded.stop(project)
    assert not embedded.is_running(project)
    wait_until(lambda: servers(project) == [], "it has let go of its lock, and so is gone in a moment")
    embedded.ensure(project, supervise=False)
    assert call(project, "GET", "key") == "value"


def test_looking_and_stopping_create_nothing(project):
    """Status, is_running and stop leave an untouched project untouched."""
    found = embedded.status(project)
    assert (found.running, found.pid, found.server_version) == (False, None, None)
    assert not embedded.is_running(project)
    assert not embedded.supervisor_alive(project)
    embedded.stop(project)
    assert list(project.iterdir()) == []


def test_status_says_who_the_server_is(project):
    """Address, pid and version are the running server's own."""
    path = embedded.ensure(project, supervise=False)
    found = embedded.status(project)
    assert found.address == f"unix://{path}"
    assert [found.pid] == servers(project)
    assert found.server_version[0].isdigit()


def test_a_server_that_lost_its_socket_is_named_and_can_be_stopped(project, monkeypatch):
    """A live server nobody can reach is not joined by a second one; stop ends it."""
    path = embedded.ensure(project, supervise=False)
    pid = embedded.status(project).pid
    path.unlink()
    monkeypatch.setattr(server, "START_S", 0.3)  # only now: it had to start
    with pytest.raises(ServerUnavailable, match="no socket") as caught:
        embedded.ensure(project, supervise=False)
    assert "stack stop" in caught.value.hint
    assert servers(project) == [pid]
    embedded.stop(project)
    wait_until(lambda: servers(project) == [], "the server is gone")


def test_a_server_that_does_not_answer_is_not_replaced(project, monkeypatch):
    """A stopped process still owns the data: ensure reports it and starts no other."""
    embedded.ensure(project, supervise=False)
    pid = embedded.status(project).pid
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(server, "START_S", 0.3)  # only now: it had to start, and to say who it is
    monkeypatch.setattr("maestro_state.local.embedded.probe.ANSWER_S", 0.2)
    try:
        with pytest.raises(ServerUnavailable, match="does not answer"):
            embedded.ensure(project, supervise=False)
        with pytest.raises(ServerUnavailable, match="did not stop"):
            embedded.stop(project, timeout_s=0.2)
        assert servers(project) == [pid]
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: servers(project) == [], "it hears that it was asked to stop")
