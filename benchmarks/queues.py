"""Starting a tool: from asking to the child's first breath, and to knowing that it ended, beside job queues."""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from benchmarks.peers.queues import CHILD, Queue
from benchmarks.rig import Rig, Row, rig

#: Runs of each, taken in turns.
RUNS = 15
NAMES = {"rq": "rq, forking worker", "saq": "saq", "huey": "huey, threads", "arq": "arq"}
#: What one job does there, which is less than a run: no record, no claim, no output kept, nothing to recover.
LESS = "starts the child, keeps nothing"


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig(pinned=False, with_worker=True) as bench, ExitStack() as stack:
        bench.bring_workers()
        bench.maestro.sessions.start("queues", tool=shlex.join(CHILD))
        queues, reasons = {}, {}
        for name in NAMES:
            try:
                queues[name] = stack.enter_context(closing(Queue(name, bench.port)))
            except ImportError as error:
                reasons[name] = f"not installed: {error}"
            except Exception as error:  # noqa: BLE001 - another product may fail in any way; it is shown, not hidden
                reasons[name] = f"{type(error).__name__}: {error}"[:120]
        _ours(bench)  # the first run of a worker imports what it needs
        begun: dict[str, list[float]] = {name: [] for name in ("ours", *queues)}
        known: dict[str, list[float]] = {name: [] for name in ("ours", *queues)}
        for _ in range(RUNS):
            for name in begun:
                asked = time.time_ns()
                started = queues[name].start() if name != "ours" else _ours(bench)
                known[name].append((time.time_ns() - asked) / 1_000_000)
                begun[name].append((started - asked) / 1_000_000)
        for question, figures in (("tool asked for → started", begun), ("tool asked for → end known", known)):
            mine = statistics.median(figures["ours"])
            for name, said in NAMES.items():
                theirs = statistics.median(figures[name]) if name in queues else None
                yield Row(question, said, mine, theirs, "ms", peer=True, note=reasons.get(name, LESS))


def _ours(bench: Rig) -> int:
    run = bench.maestro.runs.start("go")
    bench.maestro.runs.wait(run)
    return int(bench.maestro.runs.output(run.id))
