"""What every question shares: a server of its own on one core, contenders measured in turns, ratios with spread."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from inspect import iscoroutinefunction as awaited
from pathlib import Path

import redis

from benchmarks.row import Row, row
from maestro_state import Maestro
from maestro_state.errors import MaestroError
from maestro_state.local.embedded import ensure, stop
from maestro_state.state.scripts import Call

#: Interleaved rounds; the figure of a contender is the median of its rounds' medians.
ROUNDS = 15
#: Seconds a contender's turn lasts at most (one call is always made), and all its turns together (two always are).
#: Many short turns: what else the machine does for a moment then hits all contenders alike.
TURN_S, TIMEOUT_S = 0.03, 1.2
#: Messages copied by one call while filling.
_TOGETHER = 10_000

#: Copies the session's last message so many times, under ids that follow on, as the record then says.
_COPIES = """
local entry = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local ms, seq = string.match(entry[1], '^(%d+)-(%d+)$')
for number = 1, tonumber(ARGV[1]) do
  redis.call('XADD', KEYS[2], string.format('%s-%.0f', ms, tonumber(seq) + number), unpack(entry[2]))
end
redis.call('HSET', KEYS[1], 'last_id', string.format('%s-%.0f', ms, tonumber(seq) + tonumber(ARGV[1])))
"""

__all__ = ["ROUNDS", "TIMEOUT_S", "TURN_S", "Rig", "Row", "loop", "race", "rig", "row"]


@dataclass
class Rig:
    """One server, one project."""

    maestro: Maestro
    tcp: redis.Redis  #: redis-py with hiredis over TCP: the reference
    folder: Path
    port: int

    def bring_workers(self, count: int = 1) -> None:
        """Have the stack's own workers come, as they do when runs need them; before that nothing is worth measuring."""
        self.maestro.sessions.start("warm-up", tool="sleep 0.5")
        for run in [self.maestro.runs.start("come") for _ in range(count)]:
            self.maestro.runs.wait(run)

    def session(self, messages: int, size: int = 300) -> str:
        """Return a new session with so many messages: the first one added, the others copies of it on the server."""
        session_id = self.maestro.sessions.start(f"bench-{messages}").id
        key = self.maestro.server.terms.keys.of_session
        self.maestro.messages.add("user", "x" * size, session_id)
        for done in range(1, messages, _TOGETHER):
            count = min(_TOGETHER, messages - done)
            self.tcp.eval(_COPIES, 2, key(session_id, "session"), key(session_id, "messages"), count)
        assert self.tcp.xlen(key(session_id, "messages")) == messages
        return session_id

    def copy(self, keys: Iterable[str], to: Iterable[str]) -> None:
        """Copy what there is under some keys: what was made once as it should be need not be made again."""
        pipe = self.tcp.pipeline(transaction=False)
        for key, other in zip(keys, to, strict=True):
            pipe.copy(key, other, replace=True)
        pipe.execute()

    def send(self, calls: Iterable[Call]) -> None:
        """Run scripts of ours, many in one write: what is not measured need not take its time."""
        pipe = self.tcp.pipeline(transaction=False)
        for number, call in enumerate(calls):
            if not number:
                self.tcp.script_load(call.script.body)
            pipe.evalsha(call.script.sha, len(call.keys), *call.keys, *call.args)
            if number % 500 == 0:
                pipe.execute()
        pipe.execute()


@contextmanager
def rig(*, pinned: bool = True, with_worker: bool = False) -> Iterator[Rig]:
    """Start a server for one question; caller and server share one core unless told otherwise.

    Waking an idle core costs more than a whole round trip, and an unpinned process flips between both.
    """
    everywhere = os.sched_getaffinity(0)
    folder = Path(tempfile.mkdtemp(prefix="mb-"))
    try:
        if pinned:
            os.sched_setaffinity(0, {_quietest(everywhere)})
        # Without its worker and scheduler, unless asked for: what they do now and then must not be measured as ours.
        ensure(folder, supervise=with_worker)
        with Maestro(folder) as maestro:
            maestro.sessions.start("warm")
            port = _free_port()
            maestro.server.connection.call("CONFIG", "SET", "bind", "127.0.0.1")
            maestro.server.connection.call("CONFIG", "SET", "port", port)
            with redis.Redis(port=port, protocol=2) as tcp:
                tcp.ping()
                yield Rig(maestro, tcp, folder, port)
                # What is thrown away next need not be on disk first; syncing it would take seconds.
                with suppress(MaestroError):
                    maestro.server.connection.call("CONFIG", "SET", "appendonly", "no")
    finally:
        stop(folder, timeout_s=60)  # also after a fault or an interrupt: nobody else would
        os.sched_setaffinity(0, everywhere)
        shutil.rmtree(folder, ignore_errors=True)


def _quietest(cores: set[int]) -> int:
    """Return the core that others leave most to us just now."""

    def idle() -> dict[int, int]:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        return {core: int(line.split()[4]) for core in cores for line in lines if line.startswith(f"cpu{core} ")}

    before = idle()
    time.sleep(0.3)
    after = idle()
    return max(sorted(cores), key=lambda core: after[core] - before[core])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def loop() -> asyncio.AbstractEventLoop:
    """Return the one event loop that everything awaited runs in: clients belong to the loop they were opened in."""
    return asyncio.new_event_loop()


def race(contenders: dict[str, Callable[[], object]], *, calls: int, rounds: int = ROUNDS,
         timeout_s: float = TIMEOUT_S) -> dict[str, list[float]]:  # fmt: skip
    """Run contenders in turns; return each one's median call in microseconds, round by round.

    A contender whose turn lasts longer than it should makes fewer calls, one that is very slow fewer rounds. Every
    other round goes backwards: nobody always comes after the same one.
    """
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    spent = dict.fromkeys(contenders, 0)
    gc.collect()
    gc.freeze()
    for number in range(rounds):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            if number > 1 and spent[name] > timeout_s * 10**9:
                continue
            call = contenders[name]
            took = loop().run_until_complete(_turn_awaited(call, calls)) if awaited(call) else _turn(call, calls)
            spent[name] += sum(took)
            figures[name].append(statistics.median(took) / 1000)
    gc.unfreeze()
    return figures


def _turn(call: Callable[[], object], calls: int) -> list[int]:
    took: list[int] = []
    start = time.perf_counter_ns()
    end = start + int(TURN_S * 10**9)
    while len(took) < calls and (not took or start < end):
        start = time.perf_counter_ns()
        call()
        took.append(time.perf_counter_ns() - start)
    return took


async def _turn_awaited(call: Callable[[], Awaitable[object]], calls: int) -> list[int]:
    took: list[int] = []
    start = time.perf_counter_ns()
    end = start + int(TURN_S * 10**9)
    while len(took) < calls and (not took or start < end):
        start = time.perf_counter_ns()
        await call()
        took.append(time.perf_counter_ns() - start)
    return took
