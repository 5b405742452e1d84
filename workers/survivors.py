"""What is left of runs whose worker and guard were both killed: found by the mark in its environment, and ended.

The mark names the two processes that were to end the run, with their start times, and the process namespace they are
in. Only what belongs to this user and lives in this namespace is looked at, and a mark whose worker or guard lives is
left to them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from maestro_state.logs import get_logger
from workers import tree
from workers.tree import Process

#: The variable that every tool gets, and hands on to what it starts.
MARK = "MAESTRO_RUN_MARK"

#: Seconds after which what does not end is left.
_END_S = 10.0
_PAUSE_S = 0.005

_log = get_logger("maestro.worker")


def place(worker: int, guard: int) -> str:
    """Return the part of a mark that says who is to end its run."""
    return ".".join(str(part) for part in (_namespace(), worker, tree.start_of(worker), guard, tree.start_of(guard)))


def end_survivors() -> int:
    """End what is left of runs that nobody looks after any more; return how many processes that were."""
    mine = os.environ.get(MARK)  # called from within a run itself
    count = _end(lambda mark: mark != mine and _is_orphaned(mark))
    if count:
        _log.warning("survivors_ended", processes=count)
    return count


def end_marked(mark: str) -> int:
    """End everything that carries one mark, and what that started; return how many processes are left."""
    _end(lambda found: found == mark)
    return sum(1 for _ in _marked(lambda found: found == mark))


def _end(is_meant: Callable[[str], bool]) -> int:
    """Kill what carries a mark that is meant until there is none; return how many were killed."""
    killed: set[Process] = set()
    until_s = time.monotonic() + _END_S
    while (found := set(_marked(is_meant))) and time.monotonic() < until_s:
        # What they started without handing the mark on goes first: without its parent it would not be found.
        found |= {each for process in found for each in tree.freeze(process.pid)}
        refused = set(tree.kill(found))
        killed |= found - refused
        if refused == found:
            break
        time.sleep(_PAUSE_S)
    return len(killed)


def _marked(is_meant: Callable[[str], bool]) -> Iterator[Process]:
    ours, namespace, myself = os.geteuid(), _namespace(), os.getpid()
    for process, _, state in tree.processes():
        if state == b"Z" or process.pid == myself:
            continue
        # Gone meanwhile, or not ours to look at.
        with suppress(OSError):
            folder = f"/proc/{process.pid}"
            if os.stat(folder).st_uid == ours and os.readlink(f"{folder}/ns/pid") == namespace:
                mark = _mark_of(folder)
                if mark is not None and is_meant(mark):
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
    return tree.start_of(worker) != worker_start and tree.start_of(guard) != guard_start


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "-"
