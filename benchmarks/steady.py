"""Whether what changes is on disk in time: sessions that all change every minute, and schedulers that write them.

`python -m benchmarks.steady [SESSIONS] [SCHEDULERS] [MINUTES]` keeps that up for some minutes, and tells how old the
oldest change was that was not on disk: the first minute, in which everything is new, is left out.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.rig import rig
from maestro_state import AsyncMaestro
from maestro_state.state.calls import messages as message_ops
from maestro_state.state.calls import sessions as session_ops

SESSIONS, SCHEDULERS, MINUTES = 10_000, 2, 3
#: Sessions worked on in one go, and seconds between two notes of what is not on disk.
_BATCH, _EVERY_S = 100, 1.0


async def _start(maestro: AsyncMaestro, ids: list[str]) -> None:
    """Start sessions, many calls in one write."""
    server = maestro.server
    for start in range(0, len(ids), _BATCH):
        calls = [
            session_ops.start_session(server.terms, server.stamp(), one, server.terms.ttl_ms,
                                      {"working_directory": "/home/you/project"})
            for one in ids[start : start + _BATCH]
        ]  # fmt: skip
        await asyncio.gather(*map(server.change, ids[start : start + _BATCH], calls))


async def _change(maestro: AsyncMaestro, ids: list[str], seconds: float) -> int:
    """Add a message to every session once a minute, evenly, for so long; returns how many that were."""
    server, rate, sent, begun_s = maestro.server, len(ids) / 60, 0, time.monotonic()
    while (gone_s := time.monotonic() - begun_s) < seconds:
        due = [ids[number % len(ids)] for number in range(sent, min(int(gone_s * rate), sent + _BATCH))]
        calls = [message_ops.add_message(server.terms, server.stamp(), one, "user", "x" * 400, {}) for one in due]
        await asyncio.gather(*map(server.change, due, calls))
        sent += len(due)
        if len(due) < _BATCH:
            await asyncio.sleep(0.05)
    return sent


async def _note_ages(maestro: AsyncMaestro, seen: list[float]) -> None:
    """Note how old the oldest change is that is not on disk, in seconds, now and again."""
    call = maestro.server.connection.call
    while True:
        await asyncio.sleep(_EVERY_S)
        keys = maestro.server.terms.keys.all_of("dirty")
        oldest = [await call("ZRANGEBYSCORE", key, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1) for key in keys]
        since = [float(row[1] if len(row) > 1 else row[0][1]) for row in oldest if row]
        seen.append(max((time.time() - ms / 1000 for ms in since), default=0.0))


@contextmanager
def _schedulers(folder: Path, count: int) -> Iterator[None]:
    """Run schedulers as a team's machines do."""
    maestro = str(Path(sys.executable).with_name("maestro"))
    running = [
        subprocess.Popen([maestro, "--project", str(folder), "scheduler"], stderr=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait()


async def _keep_up(folder: Path, sessions: int, schedulers: int, minutes: int) -> tuple[float, list[float]]:
    ids, seen = [f"steady--{number:06d}" for number in range(sessions)], []
    async with AsyncMaestro(str(folder)) as maestro:
        await _start(maestro, ids)
        with _schedulers(folder, schedulers):
            await _change(maestro, ids, 60)
            noting = asyncio.create_task(_note_ages(maestro, seen))
            sent = await _change(maestro, ids, 60 * minutes)
            noting.cancel()
    return sent / (60 * minutes), seen


def main() -> None:
    """Keep it up, and say how that went."""
    given = [int(word) for word in sys.argv[1:]]
    sessions, schedulers, minutes = (*given, *(SESSIONS, SCHEDULERS, MINUTES)[len(given) :])
    with rig(pinned=False) as bench:
        rate, seen = asyncio.run(_keep_up(bench.folder, sessions, schedulers, minutes))
        ages = f"{statistics.median(seen):.0f} s old as a rule, {max(seen):.0f} s at most"
        load = f"load {os.getloadavg()[0]:.0f}"
        print(f"{sessions} sessions, {rate:.0f} changes a second, {schedulers} schedulers, {load}")
        print(f"the oldest change that was not on disk: {ages} (MAESTRO_CHECKPOINT_SECONDS: 60)", flush=True)
        bench.tcp.flushall()  # nothing of this is worth being archived when the stack stops


if __name__ == "__main__":
    main()
