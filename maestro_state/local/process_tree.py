"""Other processes, as far as /proc tells: who started whom, and what they do. Where there is none, nothing is known."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

ZOMBIE = b"Z"


class Process(NamedTuple):
    """A process and when it started: a number alone may be another's a moment later."""

    pid: int
    started: int


def processes() -> Iterator[tuple[Process, int, bytes]]:
    """Go over all processes: which, its parent, its state. Nothing where there is no /proc."""
    for pid in _pids():
        if (found := _read(pid)) is not None:
            yield found


def start_of(pid: int) -> int | None:
    """Return when a process started, in the kernel's own units; None when there is none."""
    found = _read(pid)
    return None if found is None or found[2] == ZOMBIE else found[0].started


def identity(pid: int) -> str | None:
    """Return what tells a process from a later one of the same number; None for one that is gone."""
    started = start_of(pid)
    return None if started is None else f"{pid}:{started}"


def below(root: int) -> list[Process]:
    """Return the living processes below one."""
    children: dict[int, list[tuple[Process, bytes]]] = {}
    for process, parent, state in processes():
        children.setdefault(parent, []).append((process, state))
    found: list[Process] = []
    parents = [root]
    while parents:
        for process, state in children.pop(parents.pop(), ()):
            parents.append(process.pid)
            if state != ZOMBIE:
                found.append(process)
    return found


def tree_of(pid: int) -> set[int]:
    """Return a process and all that descend from it."""
    return {pid, *(process.pid for process in below(pid))}


def open_files(pids: Iterable[int]) -> Iterator[str]:
    """Yield the paths of what processes have open."""
    for pid in pids:
        with suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    yield os.readlink(f"/proc/{pid}/fd/{number}")


def running(program: str) -> Iterator[int]:
    """Yield the processes of this user that run a program: by its name, or an interpreter with its file."""
    for pid in _pids():
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == os.geteuid():
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    first, *rest = file.read(4096).split(b"\0")
                script = next((word for word in rest if not word.startswith(b"-")), b"")
                if program in (os.path.basename(os.fsdecode(first)), os.path.basename(os.fsdecode(script))):
                    yield pid


def folder_of(pid: int) -> str | None:
    """Return where a process works."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def started_ms(pid: int) -> int | None:
    """Return when a process began, by this machine's clock."""
    started = start_of(pid)
    try:
        with open("/proc/stat", "rb") as file:
            booted_s = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
    except (OSError, StopIteration, ValueError):
        return None
    return None if started is None else booted_s * 1000 + started * 1000 // os.sysconf("SC_CLK_TCK")


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _read(pid: int) -> tuple[Process, int, bytes] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            # The name comes second, in brackets, and may hold brackets and blanks itself.
            fields = file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None  # gone meanwhile
    return Process(pid, int(fields[19])), int(fields[1]), fields[0]
