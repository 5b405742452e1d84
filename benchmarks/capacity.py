"""What a team's server holds and serves: a model of bytes and commands, checked by filling a server and working on it.

`python -m benchmarks.capacity [SESSIONS] [TERMINALS]` fills a server with live sessions, then lets terminals work on
them at once, and compares what the model says with what the server says. Prints the arithmetic for larger teams.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from benchmarks.rig import Rig, Row, rig
from maestro_state import AsyncMaestro, Maestro
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import messages as message_ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.upkeep.scheduler_lease import BEAT_S

SESSIONS = 10_000
TERMINALS = 200
#: Messages of an average session, and their size in bytes.
MESSAGES = 20
MESSAGE_BYTES = 400
#: What each terminal does in the simulation: messages, with a read of the last ones after every fifth.
ACTIONS = 100
#: Sessions that change before each sweep; and what a team of 10 000 that all change every minute needs.
SWEPT = 2000
NEEDED = "10 000 a minute"
#: Sessions started in one go.
_BATCH = 100


@dataclass(frozen=True)
class Model:
    """Bytes on the server."""

    session: int = 900  #: the record, before anything happened
    stream: int = 1_150  #: a stream with its first entry, in nodes of 1 KiB
    index: int = 480  #: a row of the index: summary, three orders, and a move while that is remembered
    message: float = 1.03  #: of its own bytes, role and content

    def bytes_of(self, messages: int, size: int) -> float:
        """Return what one session takes."""
        return self.session + self.index + (self.stream if messages else 0) + messages * (size + 4) * self.message


#: Commands a short run costs the server, those inside scripts counted: start, claim, output, end, and RQ's own.
RUN_COMMANDS = 360
#: Runs carried out to check that.
RUNS = 20


async def _fill(rig_: Rig, sessions: int) -> list[str]:
    """Start sessions with messages, many calls in one write: what is measured is what they leave behind."""
    ids = [f"capacity--{number:06d}" for number in range(sessions)]
    body = "x" * MESSAGE_BYTES
    async with AsyncMaestro(rig_.folder) as maestro:
        server = maestro.server

        async def one(session_id: str) -> None:
            call = session_ops.start_session(server.terms, server.stamp(), session_id, server.terms.ttl_ms,
                                             {"working_directory": "/home/you/project"})  # fmt: skip
            await server.change(session_id, call)
            with server.sequence() as sequence:
                for _ in range(MESSAGES):
                    stamp = server.stamp(sequence.next_key())
                    await server.change(session_id, message_ops.add_message(server.terms, stamp, session_id, "user",
                                                                            body, {}))  # fmt: skip

        for start in range(0, sessions, _BATCH):
            await asyncio.gather(*(one(session_id) for session_id in ids[start : start + _BATCH]))
    return ids


def _terminals(folder: str, ids: list[str], count: int, results: multiprocessing.Queue[list[float]]) -> None:
    """Be several terminals, each with a connection of its own and a session of its own to work in."""

    async def one(number: int) -> list[float]:
        took = []
        async with AsyncMaestro(folder) as maestro:
            session_id = ids[number % len(ids)]
            for action in range(ACTIONS):
                start = time.perf_counter()
                if action % 5 == 4:
                    await maestro.messages.last(20, session_id)
                else:
                    await maestro.messages.add("user", "x" * MESSAGE_BYTES, session_id)
                took.append(time.perf_counter() - start)
        return took

    async def all_of_them() -> list[float]:
        return [took for each in await asyncio.gather(*(one(number) for number in range(count))) for took in each]

    results.put(asyncio.run(all_of_them()))


@contextmanager
def _in_charge(folder: str) -> Iterator[None]:
    """Be the scheduler that is active, and do nothing."""
    stopping, begun = threading.Event(), threading.Event()

    def be() -> None:
        with Maestro(folder) as maestro:
            while (lease := maestro.schedule.take()).fence is None:
                stopping.wait(0.1)
            begun.set()
            while not stopping.wait(BEAT_S):
                maestro.schedule.take(lease)

    thread = threading.Thread(target=be)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def measure(sessions: int = SESSIONS, terminals: int = TERMINALS) -> Iterator[Row]:
    """Yield what the model says beside what the server says."""
    model = Model()
    # In a team other machines write sessions to disk; here that would be measured too, so somebody else is in charge.
    with rig(pinned=False, with_worker=True) as bench, _in_charge(str(bench.folder)):

        def used() -> int:
            return int(bench.tcp.info("memory")["used_memory"])

        before = used()
        ids = asyncio.run(_fill(bench, sessions))
        held = (used() - before) / sessions
        yield Row(f"a session of {MESSAGES} messages", "the model", held, model.bytes_of(MESSAGES, MESSAGE_BYTES),
                  "B", 1.1)  # fmt: skip
        keys = chain(*bench.maestro.server.terms.keys.shards)
        index = sum(bench.tcp.memory_usage(key, samples=0) or 0 for key in keys)
        yield Row("its row in the index", "the model", index / sessions, model.index, "B", 1.1)
        calls = int(bench.tcp.info("stats")["total_commands_processed"])
        took, seconds = _work(bench, ids, terminals)
        commands = int(bench.tcp.info("stats")["total_commands_processed"]) - calls
        yield Row(f"{terminals} terminals: actions a second", "10 s⁻¹ each", len(took) / seconds, 10 * terminals, "")
        yield Row("  of which the slowest of 100", "50 ms", statistics.quantiles(took, n=100)[98] * 1000, 50, "ms")
        yield Row("  commands an action, in scripts too", "5", commands / len(took), 5, "", 1.1)
        yield Row("  commands of a run, in scripts too", "the model", _run_commands(bench), RUN_COMMANDS, "", 1.2)
        server = bench.maestro.server
        start = time.perf_counter()
        listed = index_ops.all_sessions(server.fetch_all(index_ops.all_rows(server.terms)))
        yield Row(f"listing {len(listed)}", "100 ms", (time.perf_counter() - start) * 1000, 100, "ms", 1.0)
        start = time.perf_counter()
        bench.maestro.sessions.page(50)
        yield Row("  a page of 50 of them", "20 ms", (time.perf_counter() - start) * 1000, 20, "ms", 1.0)
        bench.tcp.flushall()  # nothing of this is worth being archived when the stack stops
    yield from _sweeps()


def _sweep(folder: str, results: multiprocessing.Queue[int]) -> None:
    """Be one of several sweepers; tell how many sessions it wrote."""
    with Maestro(folder) as maestro:
        results.put(len(maestro.archive.sweep_shards().checkpointed))


def _sweeps() -> Iterator[Row]:
    """Yield how many sessions, changed since they were last written, are checkpointed in a second, and by how many."""
    with rig(pinned=False) as bench:
        ids = asyncio.run(_fill(bench, SWEPT))
        bench.maestro.archive.sweep()
        for sweepers in (1, 2, 4):
            for session_id in ids:
                bench.maestro.messages.add("user", "more", session_id)
            results: multiprocessing.Queue[int] = multiprocessing.Queue()
            own = [multiprocessing.Process(target=_sweep, args=(str(bench.folder), results)) for _ in range(sweepers)]
            start = time.perf_counter()
            for one in own:
                one.start()
            written = sum(results.get(timeout=600) for _ in own)
            seconds = time.perf_counter() - start
            for one in own:
                one.join()
            assert written == len(ids), f"{written} of {len(ids)} were written"
            yield Row(f"checkpointed a second, {sweepers} sweeping", NEEDED, written / seconds, 10_000 / 60, "s⁻¹")


def _run_commands(bench: Rig) -> float:
    """Return what a short run of the built-in tool costs, from asking for it to its output."""
    maestro = bench.maestro
    session = maestro.sessions.start("runs", tool="echo").id
    maestro.runs.wait(maestro.runs.start("first", session), session)
    before = int(bench.tcp.info("stats")["total_commands_processed"])
    for number in range(RUNS):
        maestro.runs.wait(maestro.runs.start(f"prompt {number}", session), session)
    return (int(bench.tcp.info("stats")["total_commands_processed"]) - before) / RUNS


def _work(bench: Rig, ids: list[str], terminals: int) -> tuple[list[float], float]:
    """Let terminals work at once, in two processes; return how long each action took, and all of them together."""
    results: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    halves = [terminals // 2, terminals - terminals // 2]
    workers = [
        multiprocessing.Process(target=_terminals, args=(str(bench.folder), ids[place::2], count, results))
        for place, count in enumerate(halves)
    ]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    took = [one for _ in workers for one in results.get(timeout=600)]
    seconds = time.perf_counter() - start
    for worker in workers:
        worker.join()
    return took, seconds


def arithmetic() -> list[tuple[int, str]]:
    """Return how much memory so many live sessions take, of 20 messages of 400 B and of 200 of 1 KB."""
    model = Model()
    small, large = model.bytes_of(20, 400), model.bytes_of(200, 1000)
    return [(count, f"{count * small / 2**30:.3f} to {count * large / 2**30:.2f} GiB")
            for count in (100, 10_000, 1_000_000)]  # fmt: skip


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    rows = list(measure(*numbers))
    for row in rows:
        print(f"{row.question:<36} {row.ours:>12.1f} {row.unit:<3} {row.ratio:>6.2f} × {row.reference} {row.verdict}")
    for sessions_, memory in arithmetic():
        print(f"{sessions_:>9} live sessions: {memory}")
    if "--json" in sys.argv:
        print(json.dumps([vars(row) for row in rows]))
