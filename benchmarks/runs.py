"""From asking for a run to its tool's first breath, beside RQ's own forking worker starting the same child; a large
output, beside the same tool writing into `cat > file` and into bare entries; many runs at once, beside the ideal.
"""

from __future__ import annotations

import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from maestro_workers.invoke import PIECE_BYTES
from maestro_workers.output import BATCH_BYTES

from benchmarks.rig import Rig, Row, rig, row
from maestro_state.clock import from_iso

RUNS = 30
#: Messages of the long history, and the milliseconds that handing its end on may add to a run's start.
MESSAGES, HISTORY_MS = 10_000, 2.0
#: Bytes of the large output, and how often it is made.
OUTPUT_BYTES, OUTPUTS = 100_000_000, 5
#: Runs at once, and how long each one's tool takes, in seconds.
CROWD, TOOL_S = 20, 0.5

#: A child that says when it was started.
CHILD = ["date", "+%s%N"]

_RQ_WORKER = """
import sys, redis
from rq import Queue, Worker
import benchmarks.runs  # before the fork: each job would import it anew
raw = redis.Redis(port=int(sys.argv[1]))
Worker([Queue("plain", connection=raw)], connection=raw, log_job_description=False).work(logging_level="ERROR")
"""


def start_child() -> str:
    """Start the child as a job of RQ's does."""
    return subprocess.run(CHILD, capture_output=True, text=True, check=True).stdout


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig(pinned=False, with_worker=True) as bench:
        bench.bring_workers()
        yield _to_start(bench)
        yield _after_history(bench)
        yield from _throughput(bench)
        yield from _crowd(bench)


def _to_start(bench: Rig) -> Row:
    from rq import Queue

    bench.maestro.sessions.start("runs", tool=shlex.join(CHILD))
    worker = subprocess.Popen([sys.executable, "-c", _RQ_WORKER, str(bench.port)], env=os.environ)
    queue = Queue("plain", connection=bench.tcp)
    ours, theirs = [], []
    for _ in range(RUNS + 2):
        begun = time.time_ns()
        run = bench.maestro.runs.start("go")
        bench.maestro.runs.wait(run)
        ours.append(int(bench.maestro.runs.output(run.id)) - begun)
        begun = time.time_ns()
        job = queue.enqueue(start_child)
        while not job.is_finished:
            time.sleep(0.005)
        theirs.append(int(job.return_value()) - begun)
    worker.terminate()
    worker.wait()
    figures = [statistics.median(one[2:]) / 1_000_000 for one in (ours, theirs)]
    return Row("run asked for → tool started", "RQ's forking worker", *figures, "ms", 1.1, 0.5)


def _after_history(bench: Rig) -> Row:
    """Start runs in a long session and in a new one in turns: what is handed on has a bounded size."""
    maestro = bench.maestro
    sessions = [bench.session(MESSAGES), maestro.sessions.start("new").id]
    took: list[list[float]] = [[], []]
    for _ in range(RUNS + 2):
        for session, times in zip(sessions, took, strict=True):
            begun = time.time_ns()
            run = maestro.runs.start("go", session, tool=shlex.join(CHILD))
            maestro.runs.wait(run, session)
            times.append((int(maestro.runs.output(run.id, session)) - begun) / 1_000_000)
    long_ms, new_ms = (statistics.median(times[2:]) for times in took)
    limit = 1 + HISTORY_MS / new_ms
    return Row(f"the same after {MESSAGES} messages", "a new session", long_ms, new_ms, "ms", limit)


def _throughput(bench: Rig) -> Iterator[Row]:
    code = (
        "import os\nblock = b'a line of sixty-four characters, as a tool might print it ....\\n' * 1024\n"
        f"for _ in range({OUTPUT_BYTES} // len(block)): os.write(1, block)"
    )
    argv = [sys.executable, "-S", "-c", code]
    target = shlex.quote(str(bench.folder / "output"))
    figures: dict[str, list[float]] = {"ours": [], "tool | cat > file": [], "bare XADD of the same": []}
    for number in range(OUTPUTS):
        session = bench.maestro.sessions.start("large", tool=shlex.join(argv)).id
        with _timed(figures["ours"]):
            run = bench.maestro.runs.start("go")
            while bench.maestro.runs.read(run.id).status not in ("success", "error"):
                time.sleep(0.01)
        # What follows a run, its checkpoint on disk, must not be measured as the others', nor as the next one's.
        bench.maestro.archive.checkpoint(session)
        with _timed(figures["tool | cat > file"]):
            subprocess.run(["sh", "-c", f"{shlex.join(argv)} | cat > {target}"], check=True)
        key = f"bench:output:{number}"
        with _timed(figures["bare XADD of the same"]):
            _store(bench, key, argv)
        bench.maestro.server.connection.call("DEL", key)
        bench.maestro.sessions.delete(session)
    for reference, limit in (("tool | cat > file", 2.0), ("bare XADD of the same", None)):
        yield row("100 MB of output", figures, "ours", reference, limit=limit, unit="ms")


@contextmanager
def _timed(figures: list[float]) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    figures.append((time.perf_counter() - begun) * 1000)


def _store(bench: Rig, key: str, argv: list[str]) -> None:
    """Put a tool's output into a stream with nothing else done to it: what no run can be faster than."""
    tool = subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0)
    together = BATCH_BYTES // PIECE_BYTES
    while pieces := [piece for _ in range(together) if (piece := tool.stdout.read(PIECE_BYTES))]:
        bench.maestro.server.connection.calls([("XADD", key, "*", "data", piece) for piece in pieces])
    tool.wait()


def _crowd(bench: Rig) -> Iterator[Row]:
    """Ask for many runs at once; none may wait or take longer than its share."""
    workers = bench.maestro.settings.workers
    bench.bring_workers(workers)
    bench.maestro.sessions.start("crowd", tool=f"sleep {TOOL_S}")
    begun = time.perf_counter()
    runs = [bench.maestro.runs.start(f"run {number}") for number in range(CROWD)]
    ended = [bench.maestro.runs.wait(run) for run in runs]
    whole_ms = (time.perf_counter() - begun) * 1000
    took = [from_iso(run.finished_at) - from_iso(run.started_at) for run in ended]
    ideal_ms = math.ceil(CROWD / workers) * TOOL_S * 1000
    yield Row(f"{CROWD} runs on {workers} workers, all", "their tools alone", whole_ms, ideal_ms, "ms", 1.25)
    yield Row(f"{CROWD} runs at once, the slowest", "the median one", max(took), statistics.median(took), "ms", 1.25)
