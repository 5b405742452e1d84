"""From asking for a run to its tool's first breath, beside RQ's own forking worker starting the same child; and a large
output, beside the same tool writing into `cat > file`.
"""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.rig import Rig, Row, rig

RUNS = 30
#: Bytes of the large output, and how often it is made.
OUTPUT_BYTES, OUTPUTS = 100_000_000, 3

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
        _await_worker(bench)
        yield _to_start(bench)
        yield _throughput(bench)


def _await_worker(bench: Rig) -> None:
    while not bench.maestro.runs.workers():
        time.sleep(0.05)


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


def _throughput(bench: Rig) -> Row:
    code = (
        "import os\nblock = b'a line of sixty-four characters, as a tool might print it ....\\n' * 1024\n"
        f"for _ in range({OUTPUT_BYTES} // len(block)): os.write(1, block)"
    )
    tool = shlex.join([sys.executable, "-S", "-c", code])
    bench.maestro.sessions.start("large", tool=tool)
    target = bench.folder / "output"
    ours, theirs = [], []
    for _ in range(OUTPUTS):
        begun = time.perf_counter()
        run = bench.maestro.runs.start("go")
        while bench.maestro.runs.read(run.id).status not in ("success", "error"):
            time.sleep(0.01)
        ours.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        subprocess.run(["sh", "-c", f"{tool} | cat > {shlex.quote(str(target))}"], check=True)
        theirs.append(time.perf_counter() - begun)
    figures = [statistics.median(one) * 1000 for one in (ours, theirs)]
    return Row("100 MB of output", "tool | cat > file", *figures, "ms", 2.0)
