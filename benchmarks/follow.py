"""From one terminal's write to the last of 1, 10, 100 others, beside a PING after the same idle pause and beside as
many bare XREAD BLOCK readers. Every follower's every event is checked: none lost, none twice, none out of order.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.rig import Rig, Row, rig

#: Idle time before each event: what a terminal waits through in real life, and long enough for cores to doze.
PAUSE_S = 0.02
#: Events by number of followers.
EVENTS = {1: 50, 10: 80, 100: 15}
#: Limits by number of followers, beside the PING.
LIMITS = {1: 2.0, 10: 4.0, 100: None}

#: Followers without Maestro: what redis-py needs, and what Python needs that only copies bytes off a socket.
_BARE = {"bare": "redis-py XADD → XREAD BLOCK", "socket": "a bare socket's XREAD BLOCK"}

#: Forks so many followers, which share its imports; each says which event it saw, and when, in one write.
_FOLLOWERS = """
import os, sys, time
place, session, count, port = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def say(number):
    os.write(1, b"%d %s %d\\n" % (me, number, time.monotonic_ns()))

def ours():
    from maestro_state import Maestro
    with Maestro(place) as maestro:
        maestro.sessions.read(session)
        say(b"ready")
        for event in maestro.follow.events(session, cursor="start"):
            if event.type == "message.added":
                say(event.data["content"].encode())

def bare():
    import redis
    with redis.Redis(port=port, protocol=2) as raw:
        after = "0-0"
        say(b"ready")
        while True:
            [[_, entries]] = raw.xread({session: after}, block=0)
            for after, fields in entries:
                if fields[b"content"] == b"end":
                    return
                say(fields[b"content"])

def socket():
    import socket
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask = b"*6\\r\\n$5\\r\\nXREAD\\r\\n$5\\r\\nBLOCK\\r\\n$1\\r\\n0\\r\\n$7\\r\\nSTREAMS\\r\\n$6\\r\\nsocket\\r\\n"
        line.sendall(ask + b"$3\\r\\n0-0\\r\\n")
        say(b"ready")
        while True:
            words = line.recv(65536).split(b"\\r\\n")
            if words[-2] == b"end":
                return
            say(words[-2])
            line.sendall(ask + words[6] + b"\\r\\n" + words[7] + b"\\r\\n")

import redis, maestro_state.api.maestro
children = []
for me in range(count):
    child = os.fork()
    if not child:
        {"ours": ours, "bare": bare, "socket": socket}[sys.argv[5]]()
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""


def measure() -> Iterator[Row]:
    """Yield the figures."""
    for count in EVENTS:
        with rig(pinned=False) as bench:
            yield from _delays(bench, count)


@contextmanager
def _followers(bench: Rig, session: str, count: int, kind: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _FOLLOWERS, str(bench.folder), session, str(count), str(bench.port), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as found:
        _seen(found, count, "ready")
        yield found


def _seen(followers: subprocess.Popen[str], count: int, wanted: str) -> int:
    """Wait until each follower has said that it saw an event; return when the last one did."""
    assert followers.stdout
    lines = [followers.stdout.readline().split() for _ in range(count)]
    assert {int(line[0]) for line in lines} == set(range(count)), "a follower saw an event twice, or not at all"
    assert {line[1] for line in lines} == {wanted}, "a follower saw another event than the one that was due"
    return max(int(line[2]) for line in lines)


def _delays(bench: Rig, count: int) -> Iterator[Row]:
    session = bench.maestro.sessions.start("follow").id

    def written(stream: str) -> Callable[[str], object]:
        return lambda content: bench.tcp.xadd(stream, {"role": "user", "content": content})

    writes = {"ours": lambda content: bench.maestro.messages.add("user", content, session)}
    writes |= {kind: written(kind) for kind in _BARE}
    delays: dict[str, list[float]] = {"PING": [], **{kind: [] for kind in writes}}
    with ExitStack() as stack:
        followers = {kind: stack.enter_context(_followers(bench, session if kind == "ours" else kind, count, kind))
                     for kind in writes}  # fmt: skip
        for number in range(EVENTS[count]):
            time.sleep(PAUSE_S)
            start = time.monotonic_ns()
            bench.tcp.ping()
            delays["PING"].append((time.monotonic_ns() - start) / 1000)
            for kind, write in writes.items():
                time.sleep(PAUSE_S)
                start = time.monotonic_ns()
                write(str(number))
                delays[kind].append((_seen(followers[kind], count, str(number)) - start) / 1000)
        bench.maestro.sessions.end(session)
        for kind in _BARE:
            writes[kind]("end")
    name = f"seen by {count} follower{'s' if count > 1 else ''}"
    mine = statistics.median(delays["ours"])
    yield Row(name, "PING after the same pause", mine, statistics.median(delays["PING"]), "µs", LIMITS[count])
    for kind, said in _BARE.items():
        yield Row(name, said, mine, statistics.median(delays[kind]), "µs")
