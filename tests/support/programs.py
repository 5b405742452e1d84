"""Programs that tests run as processes of their own, and how they are started and ended.

`python -m tests.support.programs NAME ARGUMENTS…`. Each one prints a line per thing the server acknowledged, to a
file, so that what it knew is still known after it was killed; closing its standard input asks it to leave.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
#: What a sweeper prints that has come to where it is to be killed.
STILL = "-- still --"


@dataclass
class Program:
    """One running program."""

    process: subprocess.Popen[bytes]
    said: Path  #: what it has printed
    complained: Path  #: its standard error

    def lines(self) -> list[str]:
        """Return the whole lines printed so far."""
        text = self.said.read_text()
        return text[: text.rfind("\n") + 1].splitlines()

    def ask_to_leave(self) -> None:
        """Close its standard input."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def finish(self, timeout_s: float = 60.0) -> None:
        """Wait for it to leave by itself, without complaint."""
        self.ask_to_leave()
        left_with = self.process.wait(timeout_s)
        assert left_with == 0, f"left with {left_with}: {self.complained.read_text()}"

    def kill(self) -> None:
        """Kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(
    folder: Path, command: list[str], *, env: dict[str, str] | None = None, cwd: Path = ROOT
) -> Iterator[Program]:
    """Run a command of the test's own; kill it at the end if it is still there."""
    name = f"p{os.urandom(4).hex()}"
    said, complained = folder / f"{name}.out", folder / f"{name}.err"
    with said.open("wb") as out, complained.open("wb") as err:
        process = subprocess.Popen(
            command, cwd=cwd, env=os.environ | (env or {}), stdin=subprocess.PIPE, stdout=out, stderr=err
        )
    program = Program(process, said, complained)
    try:
        yield program
    finally:
        program.ask_to_leave()
        if process.poll() is None:
            program.kill()


def python(folder: Path, name: str, *arguments: object):
    """Run one of the programs below."""
    return running(folder, [sys.executable, "-m", "tests.support.programs", name, *map(str, arguments)])


def _asked_to_leave() -> threading.Event:
    asked = threading.Event()

    def wait() -> None:
        sys.stdin.buffer.read()
        asked.set()

    threading.Thread(target=wait, daemon=True).start()
    return asked


def write(project: str, session_id: str, name: str) -> None:
    """Add messages until asked to leave; print the number of each acknowledged one."""
    from maestro_state import Maestro

    asked, number = _asked_to_leave(), 0
    with Maestro(project) as maestro:
        while not asked.is_set():
            maestro.messages.add("user", f"{name}:{number}", session_id)
            print(number, flush=True)
            number += 1


def bind(project: str, key: str, name: str) -> None:
    """Write batches of three under a framework's key until asked to leave; print the number of each acknowledged."""
    from maestro_state.adapters.binding import Adapter, Entries

    asked = _asked_to_leave()

    async def write() -> None:
        async with Adapter(project=project) as adapter:
            thread, number = adapter.binding("openai", key), 0
            while not asked.is_set():
                step = Entries()
                for part in range(3):
                    step.message("user", f"{name}:{number}:{part}")
                await thread.write(step.set(name, str(number)))
                print(number, flush=True)
                number += 1

    asyncio.run(write())


def crowd(project: str, session_id: str, name: str, terminals: str, count: str) -> None:
    """Be several terminals, each with a connection of its own, adding messages at once."""
    from maestro_state import AsyncMaestro

    async def one(terminal: int) -> None:
        async with AsyncMaestro(project) as maestro:
            for number in range(int(count)):
                await maestro.messages.add("user", f"{name}.{terminal}:{number}", session_id)

    async def all_of_them() -> None:
        await asyncio.gather(*(one(terminal) for terminal in range(int(terminals))))

    asyncio.run(all_of_them())


def follow(project: str, session_id: str, cursor: str) -> None:
    """Print the id and content of every event until the session ends."""
    from maestro_state import Maestro

    with Maestro(project) as maestro:
        for event in maestro.follow.events(session_id, cursor=cursor):
            print(event.id, event.type, event.data.get("content", ""), flush=True)


def rewrite(project: str, prefix: str, count: str) -> None:
    """Put rows into index.json, one rewrite each."""
    from maestro_state.local.project import IndexRow, Project

    when = "2027-01-01T00:00:00.000+00:00"
    for number in range(int(count)):
        Project(Path(project)).index_put(IndexRow(f"{prefix}--{number:06}", prefix, "iniciada", when, when))


def schedule(project: str) -> None:
    """Be a scheduler with quick beats and a long lease that prints the number of its lease at each pass."""
    from maestro_workers import scheduler

    from maestro_state import Maestro
    from maestro_state.state.calls.leases import LEASE_MS, SCHEDULE

    LEASE_MS[SCHEDULE] = 600_000
    scheduler.BEAT_S = 0.1

    def sweep(maestro: Maestro) -> bool:
        fence = maestro.server.connection.call("HGET", maestro.server.terms.keys.lease(SCHEDULE)[0], "fence")
        print(fence.decode(), flush=True)
        return True

    work = scheduler.Work(sweep, lambda _: True, lambda _: True)
    scheduler.Scheduler(lambda: Maestro(project, checkpoint_seconds=1), work, _asked_to_leave()).run()


def sweep(project: str, stops_after: str) -> None:
    """Sweep the shards once, printing each session that is on disk; after so many, print STILL in the middle of a shard
    and go no further.
    """
    from maestro_state import Maestro
    from maestro_state.upkeep.checkpoint import Checkpoint, Checkpoints

    def say(line: str) -> None:
        os.write(1, f"{line}\n".encode())  # by one call: several threads say something

    written, write, still = [], Checkpoints.checkpoint, threading.Event()

    def checkpoint(self: Checkpoints, session_id: str) -> Checkpoint:
        if len(written) >= int(stops_after):
            say(STILL)
            still.wait()
        done = write(self, session_id)
        written.append(session_id)
        say(session_id)
        return done

    Checkpoints.checkpoint = checkpoint  # type: ignore[method-assign]
    with Maestro(project) as maestro:
        maestro.archive.sweep_shards()


if __name__ == "__main__":
    programs = {
        "write": write,
        "bind": bind,
        "crowd": crowd,
        "follow": follow,
        "rewrite": rewrite,
        "schedule": schedule,
        "sweep": sweep,
    }
    programs[sys.argv[1]](*sys.argv[2:])
