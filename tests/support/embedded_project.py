"""A project folder for tests of the embedded stack, and a look at the processes that belong to it.

Everything found here works in, or names, one fresh temporary folder: whatever is ended at the end was
started by the test.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from maestro_state.local.embedded.paths import data_path, socket_address
from maestro_state.local.embedded.probe import open_server
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def temporary_project() -> Iterator[Path]:
    """Give a project with a short path, and end every process of it afterwards."""
    root = Path(tempfile.mkdtemp(prefix="m-", dir="/tmp")).resolve()
    try:
        yield root
    finally:
        # Supervisors first: they would restart services. Again and again: one that is killed may just have started
        # another, which was not on the list.
        wait_until(lambda: not end(*supervisors(root)), "the supervisors are gone")
        wait_until(lambda: not end(*processes_in(root)), "every process of the project is gone")
        shutil.rmtree(root)


@pytest.fixture
def ended_project() -> Iterator[Path]:
    """Return a project whose stack starts with the first command, and of which no process is left at the end."""
    with temporary_project() as root:
        yield root


def end(*pids: int) -> int:
    """Kill processes of this test, and collect those that are our children; return how many there were."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return len(pids)


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that only waits to be collected does not."""
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_in(root: Path) -> list[int]:
    """List the processes that work below the folder or name it in their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            where = os.readlink(entry / "cwd")
            named = os.fsencode(root) in (entry / "cmdline").read_bytes()
            if (named or where.startswith(f"{root}/")) and is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def servers(root: Path) -> list[int]:
    """List the server processes that work on the project's data."""
    return [pid for pid in processes_in(root) if _reads(pid, "cwd") == data_path(root)]


def supervisors(root: Path) -> list[int]:
    """List the supervisors of the project; their workers are forks of them."""
    found = {pid: _parent(pid) for pid in processes_in(root) if _is_supervisor(_arguments(pid))}
    return [pid for pid, parent in found.items() if parent not in found]


def _is_supervisor(arguments: bytes) -> bool:
    return b"\0supervisor\0" in arguments or b"maestro_workers.stack" in arguments


def workers(root: Path) -> list[int]:
    """List what the project's supervisors have forked: workers, their guards, a pass over the sessions."""
    found = [pid for pid in processes_in(root) if _is_supervisor(_arguments(pid))]
    return sorted(set(found) - set(supervisors(root)))


def open_files(pid: int) -> set[str]:
    """Return what a process has open; what it closes while one looks is not among it."""
    return {_reads(pid, f"fd/{descriptor}") for descriptor in os.listdir(f"/proc/{pid}/fd")} - {""}


def call(root: Path, *words: str) -> str:
    """Send one command to the project's server."""
    with closing(open_server(socket_address(root))) as link:
        reply = link.call(*words)
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def run_python(code: str, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
    """Start a Python program of the test's own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


def write_program(path: Path, body: str) -> Path:
    """Write an executable Python program."""
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o700)
    return path


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _reads(pid: int, link: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{link}")
    except OSError:
        return ""


def _arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
