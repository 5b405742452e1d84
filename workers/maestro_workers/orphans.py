"""What is left of runs whose worker and guard were both killed: found by the marks it carries, and ended.

The mark in its environment names the two processes that were to end the run, with their start times, and the process
namespace they are in; one whose worker or guard lives is left to them. Programs that clear their environment lose it
(`env -i`, daemons, sandboxes), so there is a second one that they hand on without knowing: a limit on real-time
scheduling so large that it limits nothing, and which only root can raise again. It is the guard's number and start.
Only what belongs to this user and lives in this namespace is looked at.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from maestro_state.local.logs import get_logger
from maestro_state.local.process_tree import ZOMBIE, Process, processes, start_of
from maestro_workers import process_ending

#: The variable that every tool gets, and hands on to what it starts.
MARK = "MAESTRO_RUN_MARK"

#: The second mark, where the system has it: from the top how deep runs are within runs, a process, and when it started.
_LIMIT: int | None = getattr(resource, "RLIMIT_RTTIME", None)
_START_BITS, _PLACE_BITS = 34, 56
_START, _PLACE = (1 << _START_BITS) - 1, (1 << _PLACE_BITS) - 1
#: The least and the highest level. Nobody who wants a limit asks for one this large: microseconds, of 146 000 years.
LEVELS = (64, 127)

#: Seconds after which what does not end is given up on.
_END_S = 10.0
_PAUSE_S = 0.005

_log = get_logger("maestro.worker")


def place(worker: int, guard: int) -> str:
    """Return the part of a mark that says who is to end its run."""
    return ".".join(str(part) for part in (_namespace(), worker, start_of(worker), guard, start_of(guard)))


def mark_by_limit() -> None:
    """Put the second mark on this process, a guard, and so on everything it starts; nothing where there is none."""
    if _LIMIT is None:
        return
    now = resource.getrlimit(_LIMIT)[1]
    # Within a run of another stack: only a lower number is taken.
    level = (now >> _PLACE_BITS) - 1 if _is_mark(now) else LEVELS[1]
    mark = level << _PLACE_BITS | _limit_of(os.getpid(), start_of(os.getpid()) or 0)
    if _is_mark(mark):
        with suppress(OSError, ValueError):  # not allowed here: then there is the first mark only
            resource.setrlimit(_LIMIT, (mark, mark))


def end_survivors() -> int:
    """End what is left of runs that nobody looks after any more; return how many processes that were."""
    # Called from within a run, that run is left alone.
    mine, my_limit = os.environ.get(MARK), resource.getrlimit(_LIMIT)[1] if _LIMIT is not None else None

    def is_left(folder: str) -> bool:
        limit, mark = _read_limit(folder), _mark_of(folder)
        is_left_by_guard = limit is not None and limit != my_limit and _is_without_guard(limit)
        return is_left_by_guard or (mark is not None and mark != mine and _is_orphaned(mark))

    count = _end(is_left)
    if count:
        _log.info("survivors_ended", processes=count)
    return count


def end_marked(mark: str) -> int:
    """End everything that carries a mark or was started by its guard; return how many processes are left."""
    guard = _limit_of(*map(int, mark.split(".")[3:5]))

    def is_meant(folder: str) -> bool:
        limit = _read_limit(folder)
        return (limit is not None and limit & _PLACE == guard) or _mark_of(folder) == mark

    _end(is_meant)
    return sum(1 for _ in _marked(is_meant))


def _end(is_meant: Callable[[str], bool]) -> int:
    """Kill what is meant, by its folder in /proc, until there is none; return how many were killed."""
    killed: set[Process] = set()
    until_s = time.monotonic() + _END_S
    while (found := set(_marked(is_meant))) and time.monotonic() < until_s:
        # What they started without handing the mark on goes first: without its parent it would not be found.
        found |= {each for process in found for each in process_ending.freeze(process.pid)}
        refused = set(process_ending.kill(found))
        killed |= found - refused
        if refused == found:
            break
        time.sleep(_PAUSE_S)
    return len(killed)


def _marked(is_meant: Callable[[str], bool]) -> Iterator[Process]:
    ours, namespace, myself = os.geteuid(), _namespace(), os.getpid()
    for process, _, state in processes():
        if state == ZOMBIE or process.pid == myself:
            continue
        # Gone meanwhile, or not ours to read.
        with suppress(OSError):
            folder = f"/proc/{process.pid}"
            is_near = os.stat(folder).st_uid == ours and os.readlink(f"{folder}/ns/pid") == namespace
            if is_near and is_meant(folder):
                yield process


def _mark_of(folder: str) -> str | None:
    with open(f"{folder}/environ", "rb") as file:
        environment = b"\0" + file.read()
    _, found, rest = environment.partition(b"\0" + MARK.encode() + b"=")
    return rest.partition(b"\0")[0].decode(errors="replace") if found else None


def _is_orphaned(mark: str) -> bool:
    """Say whether neither the worker nor the guard that a mark names is alive."""
    parts = mark.split(".")
    if len(parts) != 6 or parts[0] != _namespace() or not all(part.isdigit() for part in parts[1:5]):
        return False
    worker, worker_start, guard, guard_start = map(int, parts[1:5])
    return start_of(worker) != worker_start and start_of(guard) != guard_start


def _limit_of(pid: int, started: int) -> int:
    return pid << _START_BITS | started & _START


def _read_limit(folder: str) -> int | None:
    """Return the second mark of a process; None when it has none."""
    with open(f"{folder}/limits", "rb") as file:
        found = next((line.split()[-2] for line in file if line.startswith(b"Max realtime timeout")), b"")
    return int(found) if found.isdigit() and _is_mark(int(found)) else None


def _is_mark(limit: int) -> bool:
    return LEVELS[0] <= limit >> _PLACE_BITS <= LEVELS[1]


def _is_without_guard(limit: int) -> bool:
    started = start_of((limit & _PLACE) >> _START_BITS)
    return started is None or started & _START != limit & _START


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "-"
