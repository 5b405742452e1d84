"""Slow and dead readers: nothing is trimmed before it was read and archived, and the dead leave nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import redis

from maestro_state.models.session import Terminal
from maestro_state.state.calls.terminals import SHOWN_MS, attach_terminal
from tests.support.backends import Backend, Clock
from tests.support.work_samples import crumb

COUNT = 120

#: A consumer that applies a few breadcrumbs and is killed with the next in hand.
DIES = """
import os, signal, sys
from maestro_state import Maestro
with Maestro(sys.argv[1]) as maestro:
    store = maestro.work._store
    store.batch = 3
    store.apply(sys.argv[2])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def groups_of(raw: redis.Redis) -> list[str]:
    """Return the consumer groups of every stream on the server."""
    return [f"{key}" for key in raw.scan_iter(_type="stream") for _ in raw.xinfo_groups(key)]


def test_a_slow_reader_misses_nothing_that_is_written_to_disk_meanwhile(real: Backend):
    """Checkpoints, sweeps and the end of the session take no entry from under somebody who is a hundred behind."""
    with real.open() as maestro, real.open() as slow:
        session = maestro.sessions.start("slow")
        looking = slow.follow.events(session.id, cursor="start")
        seen = [next(looking)]
        for number in range(COUNT):
            maestro.messages.add("user", str(number))
            if number % 10 == 0:
                maestro.archive.checkpoint()
                maestro.archive.sweep()
                seen.append(next(looking))
        messages = maestro.server.terms.keys.of_session(session.id, "messages")
        assert real.raw.xlen(messages) == COUNT
        maestro.sessions.end()
        seen += looking
        assert [one.data["content"] for one in seen if one.type == "message.added"] == [str(n) for n in range(COUNT)]
        assert groups_of(real.raw) == []


def test_consumers_that_died_leave_neither_gaps_nor_names(real: Backend):
    """Killed in the middle, with checkpoints and sweeps between, consumers leave no entry pending and no group."""
    with real.open() as maestro:
        work_id = maestro.work.start("t").session_id
        for number in range(COUNT):
            maestro.work.add_breadcrumb(work_id, crumb(f"b{number}"))
        for _ in range(4):
            died = subprocess.run([sys.executable, "-c", DIES, str(real.project), work_id],
                                  cwd=Path(__file__).parents[2], check=False)  # fmt: skip
            assert died.returncode == -signal.SIGKILL
            maestro.work.checkpoint(work_id)
            maestro.work.sweep()
        before = maestro.work.read(work_id).applied
        assert before == 12
        assert maestro.work.consume(work_id).applied == COUNT - before
        kept = maestro.work.breadcrumbs(work_id)
        assert [one.breadcrumb.breadcrumb_id for one in kept] == [f"b{number}" for number in range(COUNT)]
        assert all(one.applied for one in kept)
        assert groups_of(real.raw) == []


def test_a_trim_by_length_loses_what_is_pending(real: Backend):
    """Control: in a group of consumers with a limit on the stream's length, what a dead one had taken is gone."""
    raw = real.raw
    raw.xgroup_create("naive", "readers", id="0", mkstream=True)
    for number in range(COUNT):
        raw.xadd("naive", {"n": number})
    raw.xreadgroup("readers", "dead", {"naive": ">"}, count=10)
    raw.xtrim("naive", maxlen=50, approximate=False)
    assert raw.xpending("naive", "readers")["pending"] == 10
    taken = raw.xclaim("naive", "readers", "alive", 0, [one["message_id"] for one in
                       raw.xpending_range("naive", "readers", "-", "+", 10)])  # fmt: skip
    assert len([one for one in taken if one and one[1]]) == 0
    assert len(raw.xinfo_consumers("naive", "readers")) == 2, "and the dead one is still on the list"
    raw.delete("naive")


def test_terminals_that_died_go_when_the_next_one_comes(real: Backend):
    """A hundred that were killed are off the server's list with the first sign of a living one."""
    clock = Clock()
    with real.open(now_ms=clock) as maestro:
        session = maestro.sessions.start("watched")
        attached = maestro.server.terms.keys.of_session(session.id, "attached")
        for number in range(100):
            one = Terminal(user="u", host="h", terminal=f"pid {number}", since="x")
            maestro.server.run(
                attach_terminal(maestro.server.terms, maestro.server.stamp(f"c{number}"), session.id, one)
            )
        assert real.raw.zcard(attached) == 100
        clock.advance(seconds=SHOWN_MS / 1000 + 1)
        alive = Terminal(user="u", host="h", terminal="alive", since="x")
        maestro.server.run(attach_terminal(maestro.server.terms, maestro.server.stamp("alive"), session.id, alive))
        assert real.raw.zcard(attached) == 1
        assert maestro.sessions.status().attached == [alive]
