"""From a tool's write to another terminal's screen, beside a bare XADD in one process and XREAD BLOCK in another."""

from __future__ import annotations

import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.rig import Rig, Row, rig

#: Lines printed, and the pause before each, in seconds.
LINES, PAUSE_S = 40, 0.02

#: What prints the moment it prints at, line by line.
_TOOL = f"""
import os, time
for _ in range({LINES}):
    time.sleep({PAUSE_S})
    os.write(1, b"%d\\n" % time.time_ns())
"""

_WRITER = f"""
import sys, time, redis
raw = redis.Redis(unix_socket_path=sys.argv[1])
raw.ping()
for _ in range({LINES}):
    time.sleep({PAUSE_S})
    raw.xadd("bench:lines", {{"data": b"%d" % time.time_ns()}})
"""

_READER = f"""
import sys, redis
raw = redis.Redis(unix_socket_path=sys.argv[1])
last = "$"
print("ready", flush=True)
for _ in range({LINES}):
    [[_, [[last, entry]]]] = raw.xread({{"bench:lines": last}}, count=1, block=10_000)
    print(entry[b"data"].decode(), flush=True)
"""

_MOMENT = re.compile(rb"\b[0-9]{19}\b")


def measure() -> Iterator[Row]:
    """Yield the figure."""
    with rig(pinned=False, with_worker=True) as bench:
        _watched(bench)  # the stack has workers once a run needs one
        ours, theirs = [], []
        for _ in range(3):
            ours += _watched(bench)
            theirs += _bare(bench)
        figures = [statistics.median(one) / 1000 for one in (ours, theirs)]
        yield Row("tool writes → other terminal", "XADD → XREAD BLOCK", *figures, "µs", 2.0)


def _watched(bench: Rig) -> list[int]:
    """Run a tool, watched by another process; return how long each line took, in nanoseconds."""
    session = bench.maestro.sessions.start("screen", tool=shlex.join([sys.executable, "-S", "-c", _TOOL])).id
    command = [sys.executable, "-c", "from maestro_cli.main import main; main()", "watch", session, "--from", "start"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    watching = subprocess.Popen(command, cwd=bench.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                bufsize=0, env=environment)  # fmt: skip
    watching.stdout.read(1)
    run = bench.maestro.runs.start("go")
    delays = _delays(watching)
    bench.maestro.runs.wait(run)
    watching.terminate()
    watching.wait()
    return delays


def _bare(bench: Rig) -> list[int]:
    path = str(bench.maestro.server.connection.address.path)
    reading = subprocess.Popen([sys.executable, "-c", _READER, path], stdout=subprocess.PIPE, bufsize=0)
    reading.stdout.read(6)
    writing = subprocess.Popen([sys.executable, "-c", _WRITER, path])
    delays = _delays(reading)
    for process in (writing, reading):
        process.wait()
    bench.tcp.delete("bench:lines")
    return delays


def _delays(process: subprocess.Popen[bytes]) -> list[int]:
    delays: list[int] = []
    while len(delays) < LINES and (data := os.read(process.stdout.fileno(), 65536)):
        now = time.time_ns()
        delays += [now - int(moment) for moment in _MOMENT.findall(data)]
    # The first line pays for what is set up once.
    return delays[5:]
