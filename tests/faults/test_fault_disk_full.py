"""The disk of the embedded server runs full under six writers, then it is killed: what was acknowledged is there."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from maestro_workers.stack.idleness import Usage

from maestro_state import Maestro
from maestro_state.errors import ServerStorageError, ServerUnavailable
from maestro_state.local import embedded
from maestro_state.local.embedded import fail_stop
from maestro_state.local.embedded.paths import socket_address
from maestro_state.local.embedded.probe import open_server
from tests.support.embedded_project import call, servers, temporary_project
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")

WRITERS = 6
#: Room for some 18 000 messages.
DISK_BYTES = 8 << 20


@pytest.fixture
def disk() -> Iterator[Path]:
    """Give a project on a small disk of its own."""
    with temporary_project() as folder, _small_disk(folder) as mounted:
        try:
            yield mounted
        finally:
            with suppress(ServerUnavailable):
                embedded.stop(mounted)


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of its own that really runs full, unlike memory that only counts."""
    image, mounted = folder / "image", folder / "d"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    made = subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=False, capture_output=True)
    if made.returncode or subprocess.run(["mount", "-o", "loop", image, mounted], check=False).returncode:
        pytest.skip("this system does not let tests mount")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "-l", mounted], check=True)


def _write_until_refused(root: Path) -> dict[str, int]:
    """Let six processes write until the server no longer takes it; return how many each was told are stored."""
    reader, writer = os.pipe()
    children = []
    for number in range(WRITERS):
        child = os.fork()
        if child == 0:
            stored = 0
            with suppress(BaseException), closing(open_server(socket_address(root), timeout_s=60)) as wire:
                while True:
                    wire.call("XADD", f"writer{number}", "*", "message", "x" * 300)
                    stored += 1
            os.write(writer, f"writer{number} {stored}\n".encode())
            os._exit(0)
        children.append(child)
    os.close(writer)
    with open(reader, encoding="ascii") as lines:
        acknowledged = {name: int(count) for name, count in map(str.split, lines)}
    for child in children:
        os.waitpid(child, 0)
    return acknowledged


def _add_messages(maestro: Maestro, count: int) -> None:
    for _ in range(count):
        maestro.messages.add("user", "x" * 500)


def _kill_server(root: Path) -> None:
    for pid in servers(root):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not servers(root), "the server is gone")


@pytest.mark.parametrize("is_guarded", [True, False])
def test_nothing_acknowledged_is_lost_when_the_disk_runs_full(disk, monkeypatch, is_guarded):
    """Of thousands of acknowledged writes none is missing; without the guard (control) the last ones are."""
    if not is_guarded:
        monkeypatch.setattr(fail_stop, "_answer_syncs_at_once", lambda: False)
    (disk / "ballast").write_bytes(os.urandom(1 << 18))
    embedded.ensure(disk, supervise=False)
    acknowledged = _write_until_refused(disk)
    assert sum(acknowledged.values()) > 10_000
    _kill_server(disk)
    (disk / "ballast").unlink()  # a record that was cut short is set aside, which takes some room

    embedded.ensure(disk, supervise=False)
    lost = {name: count - int(call(disk, "XLEN", name)) for name, count in acknowledged.items()}
    if is_guarded:
        assert max(lost.values()) <= 0, lost
    else:
        assert max(lost.values()) > 0, acknowledged


def test_a_full_disk_refuses_writes_answers_reads_and_recovers(disk):
    """The error says what to do; what is there can be read meanwhile, and writes go on when there is room again."""
    embedded.ensure(disk, supervise=False)
    with Maestro(disk) as maestro:
        session = maestro.sessions.start("full")
        maestro.messages.add("user", "before")
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass
        with pytest.raises(ServerStorageError, match="disk is full") as caught:
            _add_messages(maestro, 1000)  # more than the log's last block still takes
        assert caught.value.hint == "free disk space, then try again"
        assert maestro.messages.last(1000)[0].content == "before"
        assert maestro.sessions.read(session.id).slug == "full"

        usage = Usage(lambda: socket_address(disk))
        with embedded.paths.open_data_folder(disk) as folder:
            assert usage.heed_room(folder) is False
            assert {check.name: check.status for check in maestro.health.checks()}["persistence"] == "fail"
            ballast.unlink()
            assert usage.heed_room(folder) is True
            assert usage.heed_room(folder) is None  # nothing new is said twice
        usage.close()
        maestro.messages.add("user", "after")
        assert maestro.messages.last(1)[0].content == "after"


def test_the_guard_is_the_servers_alone(disk):
    """The policy is the one that stops at a failed write; the filter is on the server, and not on who started it."""
    embedded.ensure(disk, supervise=False)
    (pid,) = servers(disk)
    assert "Seccomp:\t2" in Path(f"/proc/{pid}/status").read_text()
    assert "Seccomp:\t0" in Path("/proc/thread-self/status").read_text()
    with Maestro(disk) as maestro:
        assert maestro.server.connection.call("CONFIG", "GET", "appendfsync") == [b"appendfsync", b"always"]
