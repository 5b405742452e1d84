"""What every question shares: a server of its own on one core, contenders measured in turns, ratios with spread."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis

from maestro_state import Maestro
from maestro_state.embedded import ensure

#: Interleaved rounds; the figure of a contender is the median of its rounds' medians.
ROUNDS = 7


@dataclass(frozen=True)
class Row:
    """One figure: ours beside a reference, and the ratio to reach."""

    question: str
    reference: str
    ours: float
    theirs: float
    unit: str
    limit: float | None = None  #: the ratio must not exceed this
    aim: float | None = None  #: and would better be this
    spread: float = 0.0  #: half the distance between the quartiles of the ratio over the rounds

    @property
    def ratio(self) -> float:
        """Return ours as a multiple of theirs."""
        return self.ours / self.theirs

    @property
    def verdict(self) -> str:
        """Say whether the ratio is where it should be."""
        if self.limit is None:
            return ""
        if self.ratio > self.limit:
            return "missed"
        return "aim" if self.aim is not None and self.ratio <= self.aim else "ok"


@dataclass
class Rig:
    """One server, one project."""

    maestro: Maestro
    tcp: redis.Redis  #: redis-py with hiredis over TCP: the reference
    folder: Path
    port: int
    sessions: list[str] = field(default_factory=list)

    def session(self, messages: int, size: int = 300) -> str:
        """Return a new session with so many messages."""
        session_id = self.maestro.sessions.start(f"bench-{messages}").id
        body = "x" * size
        for _ in range(messages):
            self.maestro.messages.add("user", body, session_id)
        return session_id


@contextmanager
def rig(*, pinned: bool = True, with_worker: bool = False) -> Iterator[Rig]:
    """Start a server for one question; caller and server share one core unless told otherwise.

    Waking an idle core costs more than a whole round trip, and an unpinned process flips between both.
    """
    everywhere = os.sched_getaffinity(0)
    folder = Path(tempfile.mkdtemp(prefix="mb-"))
    try:
        if pinned:
            os.sched_setaffinity(0, {max(everywhere)})
        # Without its worker and scheduler, unless asked for: what they do now and then must not be measured as ours.
        ensure(folder, supervise=with_worker)
        with Maestro(folder) as maestro:
            maestro.sessions.start("warm")
            port = _free_port()
            maestro.server.connection.call("CONFIG", "SET", "port", port)
            with redis.Redis(port=port, protocol=2) as tcp:
                tcp.ping()
                yield Rig(maestro, tcp, folder, port)
            maestro.stack.stop()
    finally:
        os.sched_setaffinity(0, everywhere)
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def race(contenders: dict[str, Callable[[], object]], *, calls: int, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Run contenders in turns; return each one's median call in microseconds, round by round."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for name, call in contenders.items():
            took = []
            for _ in range(calls):
                start = time.perf_counter_ns()
                call()
                took.append(time.perf_counter_ns() - start)
            figures[name].append(statistics.median(took) / 1000)
    gc.unfreeze()
    return figures


def row(question: str, figures: dict[str, list[float]], ours: str, theirs: str, *, limit: float | None = None,
        aim: float | None = None, unit: str = "µs") -> Row:  # fmt: skip
    """Compare two contenders of a race."""
    ratios = sorted(mine / other for mine, other in zip(figures[ours], figures[theirs], strict=True))
    spread = (ratios[-1 - len(ratios) // 4] - ratios[len(ratios) // 4]) / 2
    return Row(question, theirs, statistics.median(figures[ours]), statistics.median(figures[theirs]), unit, limit, aim,
               spread)  # fmt: skip
