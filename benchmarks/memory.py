"""What a session and a message weigh on the embedded server, and what a worker weighs that waits for work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.queues import Queue
from benchmarks.rig import Rig, Row, rig

if TYPE_CHECKING:
    from maestro_state._sync.server import Server
    from maestro_state.state.scripts import Call

SESSIONS = 6_000
MESSAGES = 30_000


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        server = bench.maestro.server
        from maestro_state.state.calls import sessions

        def used() -> int:
            return int(bench.tcp.info("memory")["used_memory"])

        ids = [f"memory--{number:06d}" for number in range(SESSIONS)]
        before = used()
        for session_id in ids:
            call = sessions.start_session(server.terms, server.stamp(), session_id, server.terms.ttl_ms,
                                          {"working_directory": "/home/you/project"})  # fmt: skip
            server.run(call)
        empty = used()
        yield Row("a session before its first event", "900 B", (empty - before) / SESSIONS, 900, "B", 1.0)
        for session_id in ids:
            server.run(_first_message(server, session_id))
        yield Row("a session with one event", "2 200 B", (used() - before) / SESSIONS, 2200, "B", 1.0)
        session = bench.session(1)
        before = used()
        body = "x" * 300
        # One by one: ids that lie further apart make the stream's tree a little deeper, as in real life.
        for _ in range(MESSAGES):
            bench.maestro.messages.add("user", body, session)
        yield Row("a message of 300 B", "its own bytes", (used() - before) / MESSAGES, 300 + len("user"), "B", 1.12)
    with rig(pinned=False, with_worker=True) as bench:
        yield _worker(bench)


def _worker(bench: Rig) -> Row:
    bench.bring_workers()
    [ours] = bench.tcp.smembers("rq:workers:maestro")
    with closing(Queue("rq", bench.port)) as queue:
        weights = [_weight(pid) for pid in (int(bench.tcp.hget(ours, "pid")), queue.pid)]
    return Row("a worker that waits", "an rq worker that waits", *weights, "MB", peer=True)


def _weight(pid: int) -> float:
    """Return what a process would free if it left: shared pages count as their share."""
    said = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return int(said.split("\nPss:")[1].split()[0]) / 1000


def _first_message(server: Server, session_id: str) -> Call:
    # Past the index: what is weighed here is the session itself.
    from maestro_state.state.calls.messages import add_message

    return add_message(server.terms, server.stamp(), session_id, "user", "hello", {})
