"""Work in several processes: reading histories is work for a core, and there are more of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from threading import active_count
from typing import TypeVar, cast

from maestro_state.fs.kernel import libc

R = TypeVar("R")

_PR_SET_PDEATHSIG = 1


def cores() -> int:
    """Return how many processes can work at once; one where there are threads, whose locks a fork would keep shut."""
    if active_count() > 1 or not hasattr(os, "sched_getaffinity"):
        return 1
    return len(os.sched_getaffinity(0))


def shared_out(sizes: dict[int, int], together: Callable[[int], object], count: int) -> list[list[int]]:
    """Return as many shares of about the same size, each in order; what belongs together is in one."""
    groups: dict[object, list[int]] = {}
    for number in sizes:
        groups.setdefault(together(number), []).append(number)
    shares: list[list[int]] = [[] for _ in range(count)]
    filled = [0] * count
    for group in sorted(groups.values(), key=lambda one: -sum(sizes[number] for number in one)):
        least = filled.index(min(filled))
        shares[least] += group
        filled[least] += sum(sizes[number] for number in group)
    return [sorted(share) for share in shares if share]


def in_processes(
    shares: Sequence[list[int]], work: Callable[[list[int]], Iterable[tuple[int, R]]]
) -> Iterator[tuple[int, R]]:
    """Yield what work gives, as it comes, from a process for each share. What one that died had not told by then is
    not yielded: the caller does that itself.
    """
    children: dict[Connection, int] = {}
    try:
        for share in shares:
            hearing, telling = Pipe(duplex=False)
            parent = os.getpid()
            try:
                pid = os.fork()
            except OSError:
                break  # no room for one more process
            if pid == 0:
                _tell(parent, telling, work, share)
            telling.close()
            children[hearing] = pid
        while children:
            for one in cast(list[Connection], wait(list(children))):
                try:
                    told: tuple[int, R] = one.recv()
                except (EOFError, OSError):
                    _end(one, children)
                else:
                    yield told
    finally:
        for one in list(children):
            os.kill(children[one], signal.SIGKILL)
            _end(one, children)


def _tell(
    parent: int, telling: Connection, work: Callable[[list[int]], Iterable[tuple[int, R]]], share: list[int]
) -> None:
    """Work in a child, which ends here: with its parent, never before it because somebody pressed Ctrl-C."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if (prctl := libc("prctl")) is not None:
            prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() == parent:
            for told in work(share):
                telling.send(told)
    finally:
        os._exit(0)


def _end(hearing: Connection, children: dict[Connection, int]) -> None:
    hearing.close()
    with suppress(ChildProcessError):  # where SIGCHLD is ignored
        os.waitpid(children.pop(hearing), 0)
