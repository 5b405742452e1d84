"""Forking a session of 1 000 messages and 20 files, live and archived, beside copying the same on the server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count

from benchmarks.rig import ROUNDS, Rig, Row, rig, row

MESSAGES, FILES, SIZE = 1_000, 20, 20 * 1024


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig(pinned=False) as bench:
        (bench.folder / "files").mkdir()
        for number in range(FILES):
            (bench.folder / f"files/{number:02d}").write_bytes(os.urandom(SIZE))
        live, archived = bench.session(MESSAGES), bench.session(MESSAGES)
        for session in (live, archived):
            bench.maestro.context.add("files", ref=session, folder=bench.folder)
        bench.maestro.sessions.end(archived)
        bench.tcp.delete(*bench.maestro.server.terms.keys.session(archived))
        numbers = count()
        figures: dict[str, list[float]] = {"live": [], "archived": [], "redis-py, the same keys": []}
        for _ in range(ROUNDS):
            for name, origin in (("live", live), ("archived", archived)):
                figures[name].append(_took(lambda origin=origin: _fork(bench, origin, next(numbers))))
            figures["redis-py, the same keys"].append(_took(lambda: _copy(bench, live, next(numbers))))
        yield row("fork a live session", figures, "live", "redis-py, the same keys", unit="ms")
        yield row("restore an archived one", figures, "archived", "redis-py, the same keys", unit="ms")


def _took(call: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1_000_000


def _fork(bench: Rig, origin: str, number: int) -> None:
    forked = bench.maestro.sessions.fork(origin, f"fork-{number}")
    assert forked.counters.ctx_seq == FILES


def _copy(bench: Rig, origin: str, number: int) -> None:
    """Read what a fork takes along and write it under other names, as a client would without Maestro."""
    key = bench.maestro.server.terms.keys.of_session
    messages = bench.tcp.xrange(key(origin, "messages"))
    pipe = bench.tcp.pipeline(transaction=False)
    for entry_id, fields in messages:
        pipe.xadd(f"copy:{number}", fields, id=entry_id)
    pipe.execute()
    for name in ("items", "blobs"):
        bench.tcp.hset(f"copy:{number}:{name}", mapping=bench.tcp.hgetall(key(origin, name)))
