"""From one terminal's write to another terminal's eyes, beside a PING after the same idle pause."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.rig import Rig, Row, rig

#: Idle time before each event: what a terminal waits through in real life, and long enough for cores to doze.
PAUSE_S = 0.02
EVENTS = 60

_FOLLOWER = """
import sys, time
from maestro_state import Maestro
with Maestro(sys.argv[1]) as maestro:
    print("ready", flush=True)
    for event in maestro.follow.events(sys.argv[2], cursor="start"):
        if event.type == "message.added":
            print(time.monotonic_ns(), flush=True)
"""


def measure() -> Iterator[Row]:
    """Yield the figures."""
    for followers, limit in ((1, 2.0), (10, 4.0)):
        with rig(pinned=False) as bench:
            yield _delay(bench, followers, limit)


def _delay(bench: Rig, count: int, limit: float) -> Row:
    session = bench.maestro.sessions.start("follow").id
    command = [sys.executable, "-c", _FOLLOWER, str(bench.folder), session]
    watching = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    for one in watching:
        one.stdout.readline()
    delays, pings = [], []
    for _ in range(EVENTS):
        time.sleep(PAUSE_S)
        start = time.monotonic_ns()
        bench.tcp.ping()
        pings.append(time.monotonic_ns() - start)
        time.sleep(PAUSE_S)
        start = time.monotonic_ns()
        bench.maestro.messages.add("user", "x", session)
        delays.append(max(int(one.stdout.readline()) for one in watching) - start)
    bench.maestro.sessions.end(session)
    for one in watching:
        one.wait()
    name = f"seen by {count} follower{'s' if count > 1 else ''}"
    ours, theirs = statistics.median(delays) / 1000, statistics.median(pings) / 1000
    return Row(name, "PING after the same pause", ours, theirs, "µs", limit)
