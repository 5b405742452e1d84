"""The longest time an event loop is kept from its turn while 50 sessions start, add files and end at once, beside the
same number of tasks that have files written by bare asyncio.to_thread.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

from benchmarks.rig import Row, rig, row
from maestro_state import AsyncMaestro

SESSIONS, FILES, SIZE = 50, 5, 20 * 1024
ROUNDS = 5
#: How often the loop should have its turn, in seconds.
BEAT_S = 0.001


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig(pinned=False) as bench:
        (bench.folder / "files").mkdir()
        for number in range(FILES):
            (bench.folder / f"files/{number}").write_bytes(os.urandom(SIZE))
        figures: dict[str, list[float]] = {"AsyncMaestro": [], "bare asyncio.to_thread": []}
        for _ in range(ROUNDS):
            figures["AsyncMaestro"].append(asyncio.run(_stall(lambda: _sessions(bench.folder))))
            figures["bare asyncio.to_thread"].append(asyncio.run(_stall(lambda: _bare(bench.folder))))
        question = f"longest stall of a loop, {SESSIONS} sessions"
        yield row(question, figures, "AsyncMaestro", "bare asyncio.to_thread", unit="ms")


async def _stall(work: Callable[[], Awaitable[None]]) -> float:
    """Return the longest time in milliseconds that a task had to wait beyond the time it asked for."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(BEAT_S)
            longest = max(longest, time.perf_counter() - asked - BEAT_S)

    beating = asyncio.create_task(beat())
    await work()
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating
    return longest * 1000


async def _sessions(project: Path) -> None:
    async with AsyncMaestro(project) as maestro:

        async def live(number: int) -> None:
            session = await maestro.sessions.start(f"stall-{number}")
            await maestro.context.add("files", ref=session.id, folder=project)
            await maestro.sessions.end(session.id)

        await asyncio.gather(*(live(number) for number in range(SESSIONS)))


async def _bare(folder: Path) -> None:
    """Write as many files, durably, as an archive of each session has."""
    content = os.urandom(SIZE)

    def write(number: int) -> None:
        for name in range(FILES):
            draft = folder / f"bare-{number}-{name}.draft"
            with draft.open("wb") as file:
                file.write(content)
                os.fsync(file.fileno())
            draft.replace(folder / f"bare-{number}-{name}")

    await asyncio.gather(*(asyncio.to_thread(write, number) for number in range(SESSIONS)))
