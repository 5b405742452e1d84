"""A hundred terminals on one session: how fast they append together, beside a hundred raw redis-py clients, and whether
each of them sees every event in the same order, which is checked while they all write and all look.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import redis

from benchmarks.append import LIMIT
from benchmarks.peers import BODY
from benchmarks.rig import Rig, Row, rig
from maestro_state import Maestro

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

TERMINALS = 100
#: Messages of each terminal when their rate is taken, and when all of them look on.
MESSAGES, MESSAGES_SEEN = 50, 5
ROUNDS = 2
_FORK = multiprocessing.get_context("fork")


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig(pinned=False) as bench:
        sha = bench.tcp.script_load(LIMIT)
        session = bench.maestro.sessions.start("crowded").id
        rates: dict[str, list[float]] = {"ours": [], "EVALSHA": []}
        for _ in range(ROUNDS):
            for kind, found in rates.items():
                found.append(_rate(bench, kind, session, sha))
        stored = bench.tcp.xlen(bench.maestro.server.terms.keys.of_session(session, "messages"))
        assert stored == ROUNDS * TERMINALS * MESSAGES, f"{stored} messages are there"
        mine, script = (statistics.median(rates[kind]) for kind in rates)
        ratios = sorted(ours / theirs for ours, theirs in zip(rates["ours"], rates["EVALSHA"], strict=True))
        said = f"{TERMINALS} terminals append: messages a second"
        yield Row(said, f"{TERMINALS} redis-py clients, EVALSHA", mine, script, "s⁻¹", least=0.7,
                  spread=(ratios[-1] - ratios[0]) / 2)  # fmt: skip
        yield _same_order(bench)


def _rate(bench: Rig, kind: str, session: str, sha: str) -> float:
    """Let a hundred processes append at once; return how many messages they stored a second."""
    ready, times = _FORK.Barrier(TERMINALS + 1), _FORK.Queue()
    arguments = (kind, str(bench.folder), bench.port, session, sha, ready, times)
    terminals = [_FORK.Process(target=_append, args=arguments) for _ in range(TERMINALS)]
    for one in terminals:
        one.start()
    ready.wait(60)
    begun = time.monotonic()
    ended = max(times.get(timeout=60) for _ in terminals)
    for one in terminals:
        one.join()
    return TERMINALS * MESSAGES / (ended - begun)


def _append(kind: str, folder: str, port: int, session: str, sha: str, ready: Barrier, times: Any) -> None:
    if kind == "ours":
        with Maestro(folder) as maestro:
            maestro.sessions.read(session)  # connected, as the raw clients are
            ready.wait(60)
            for _ in range(MESSAGES):
                maestro.messages.add("user", BODY, session)
            times.put(time.monotonic())
        return
    with redis.Redis(port=port, protocol=2) as raw:
        raw.ping()
        ready.wait(60)
        for _ in range(MESSAGES):
            raw.evalsha(sha, 2, "limit:{9}", "limit:{9}:h", "user", BODY, "1800000000000", "1000000")
        times.put(time.monotonic())


def _same_order(bench: Rig) -> Row:
    """Let a hundred terminals write and read at once; count how many saw all that is stored, in its order."""
    session = bench.maestro.sessions.start("watched").id
    ready, seen = _FORK.Barrier(TERMINALS + 1), _FORK.Queue()
    terminals = [
        _FORK.Process(target=_write_and_follow, args=(str(bench.folder), session, ready, seen))
        for _ in range(TERMINALS)
    ]
    for one in terminals:
        one.start()
    ready.wait(60)
    digests = [seen.get(timeout=60) for _ in terminals]
    for one in terminals:
        one.join()
    stored = [message.id for message in bench.maestro.messages.since(None, session)]
    assert len(stored) == TERMINALS * MESSAGES_SEEN
    same = digests.count(_digest(stored))
    said = f"{TERMINALS} terminals see every event in one order"
    return Row(said, "all of them", same, TERMINALS, "", least=1.0)


def _write_and_follow(folder: str, session: str, ready: Barrier, seen: Any) -> None:
    with Maestro(folder) as maestro:
        maestro.sessions.read(session)
        ready.wait(60)
        # A second process of this terminal writes while this one follows.
        writer = os.fork()
        if not writer:
            for number in range(MESSAGES_SEEN):
                maestro.messages.add("user", str(number), session)
            os._exit(0)
        ids = []
        for event in maestro.follow.events(session, cursor="start", until_idle_ms=20_000):
            if event.type == "message.added":
                ids.append(event.id)
            if len(ids) == TERMINALS * MESSAGES_SEEN:
                break
        os.waitpid(writer, 0)
        seen.put(_digest(ids))


def _digest(ids: list[str]) -> str:
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()
