"""Producers and consumers of breadcrumbs that are killed at random, as processes of their own.

`python -m tests.support.work_programs KIND PROJECT WORK COUNT SEED` runs two producers and four consumers until COUNT
breadcrumbs are applied, starting each again when it dies, and prints how many died. Killing is kill -9 by itself,
right before or right after a call: what a call does on the server is never half done, so these are all the places.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

import redis

from maestro_state import Maestro
from maestro_state.local.embedded import socket_path
from maestro_state.state.calls.breadcrumbs import wait_for_more
from tests.support.work_samples import crumb

PRODUCERS, CONSUMERS = 2, 4
DIES = 0.02
WAIT_MS = 20


def mortal(call: Callable[..., Any], chance: random.Random) -> Callable[..., Any]:
    """Return the call with a chance of death before and after it."""

    def attempt(*args: Any, **options: Any) -> Any:
        fate = chance.random()
        if fate < DIES / 2:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = call(*args, **options)
        if fate > 1 - DIES / 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return attempt


def produce(project: str, work_id: str, name: int, count: int, chance: random.Random) -> None:
    """Add this producer's breadcrumbs, from a little before where it had got to: it may not know its last answer."""
    with Maestro(project) as maestro:
        known = maestro.work.breadcrumbs(work_id)
        done = sum(one.breadcrumb.breadcrumb_id.startswith(f"p{name}-") for one in known)
        maestro.server.connection.script = mortal(maestro.server.connection.script, chance)
        for number in range(max(0, done - 3), count):
            maestro.work.add_breadcrumb(work_id, crumb(f"p{name}-{number}", cost=0.001))


def consume(project: str, work_id: str, count: int, chance: random.Random) -> None:
    """Apply, a few at a time, until all are."""
    with Maestro(project) as maestro:
        store = maestro.work._store
        store.batch = 3
        maestro.server.connection.script = mortal(maestro.server.connection.script, chance)
        while (work := maestro.work.read(work_id)).applied < count:
            while store.apply(work_id):
                pass
            wait = wait_for_more(maestro.server.terms, work_id, work.cursor, "$", WAIT_MS)
            maestro.server.connection.block(*wait, block_ms=WAIT_MS)


def consume_naively(project: str, work_id: str, name: int, count: int, chance: random.Random) -> None:
    """Control: effect first, acknowledgement after it, each in a call of its own."""
    with redis.Redis(unix_socket_path=str(socket_path(project))) as server:
        acknowledge = mortal(server.xack, chance)
        while server.scard("naive:seen") < count:
            for after in ("0", ">"):
                found = server.xreadgroup("all", f"c{name}", {"naive": after}, count=1)
                for entry_id, _ in found[0][1] if found else []:
                    server.rpush("naive:log", entry_id)
                    server.sadd("naive:seen", entry_id)
                    acknowledge("naive", "all", entry_id)
    del work_id


def run(kind: str, project: str, work_id: str, count: int, seed: int) -> int:
    """Keep everybody running until all have left by themselves; return how many were killed."""
    jobs: list[Callable[[random.Random], None]] = []
    if kind == "ours":
        share = count // PRODUCERS
        jobs += [lambda chance, name=name: produce(project, work_id, name, share, chance) for name in range(PRODUCERS)]
        jobs += [lambda chance: consume(project, work_id, count, chance)] * CONSUMERS
    else:
        jobs += [
            lambda chance, name=name: consume_naively(project, work_id, name, count, chance)
            for name in range(CONSUMERS)
        ]
    running: dict[int, Callable[[random.Random], None]] = {}
    killed = 0
    while jobs or running:
        while jobs:
            job = jobs.pop()
            pid = os.fork()
            if pid == 0:
                job(random.Random(seed * 100_003 + killed * 31 + len(running)))
                os._exit(0)
            running[pid] = job
        pid, status = os.wait()
        job = running.pop(pid)
        if os.WIFSIGNALED(status):
            killed += 1
            jobs.append(job)
        elif os.waitstatus_to_exitcode(status) != 0:
            for other in running:
                os.kill(other, signal.SIGKILL)
            raise SystemExit(f"a {kind} process failed")
    return killed


if __name__ == "__main__":
    print(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
