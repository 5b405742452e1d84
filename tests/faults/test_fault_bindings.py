"""Keys of other frameworks under faults: kills of writers, of the server and of who goes on with what has ended."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack
from typing import Any

import pytest

from maestro_state import Maestro
from maestro_state.adapters.binding import Adapter, Entries
from maestro_state.local import embedded
from tests.support.backends import Backend
from tests.support.embedded_project import temporary_project
from tests.support.programs import Program, python
from tests.support.waiting import wait_until

WRITERS = 4

pytestmark = pytest.mark.xdist_group("busy")


class Killed(BaseException):
    """Stands for kill -9: nothing here catches it."""


def get_on(writers: list[Program], more: int = 5) -> None:
    """Wait until every writer has written some more."""
    goals = [len(writer.lines()) + more for writer in writers]
    wait_until(
        lambda: all(len(one.lines()) >= goal for one, goal in zip(writers, goals, strict=True)),
        "the writers do not get on",
    )


async def read(project: Any, key: str) -> tuple[list[str], dict[str, bytes]]:
    """Return what a new process reads under a key."""
    async with Adapter(project=project) as adapter:
        thread = adapter.binding("openai", key)
        return [one.content for one in await thread.messages()], await thread.kept()


def test_killed_writers_leave_whole_batches(tmp_path):
    """Writers, the server and the session itself are ended under load: all that was acknowledged is there, once."""
    with temporary_project() as project, ExitStack() as stack, Maestro(project) as maestro:
        writers = [stack.enter_context(python(tmp_path, "bind", project, "t", f"w{one}")) for one in range(WRITERS)]
        get_on(writers)
        first = maestro.bindings.find("openai", "t")
        maestro.sessions.end(first)
        get_on(writers)
        os.kill(embedded.status(project).pid, signal.SIGKILL)
        get_on(writers)
        second = maestro.bindings.find("openai", "t")
        writers[0].kill()
        maestro.sessions.end(second)
        get_on(writers[1:])
        for writer in writers[1:]:
            writer.finish()

        third = maestro.bindings.find("openai", "t")
        assert maestro.sessions.read(third).forked_from == second
        assert maestro.sessions.read(second).forked_from == first
        found, kept = asyncio.run(read(project, "t"))
        for number, writer in enumerate(writers):
            mine = [content for content in found if content.startswith(f"w{number}:")]
            whole = [f"w{number}:{turn}:{part}" for turn in range(len(mine) // 3) for part in range(3)]
            assert mine == whole
            # One that was under way when its writer was killed may be there, whole.
            assert len(writer.lines()) <= len(mine) // 3 <= len(writer.lines()) + 1
            assert int(kept[f"w{number}"]) == len(mine) // 3 - 1


def dies_after(maestro: Maestro, calls: int) -> None:
    """Have a Maestro end at its next call to the server after so many."""
    connection = maestro.server.connection
    left = iter(range(calls))

    def guarded(original: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if next(left, None) is None:
                raise Killed
            return original(*args, **options)

        return call

    for name in ("call", "calls"):
        setattr(connection, name, guarded(getattr(connection, name)))


@pytest.mark.parametrize("what", ["made", "gone on with"])
def test_whoever_is_killed_is_followed(real: Backend, what: str):
    """Killed at any call while a session is made, or gone on with: the next one gets one session with everything."""
    contents = [str(number) for number in range(1200)]  # more than one call takes over

    async def write(key: str, said: list[str]) -> None:
        async with Adapter(project=real.project) as adapter:
            step = Entries()
            for content in said:
                step.message("user", content)
            await adapter.binding("openai", key).write(step.set("head", b"kept"))

    deaths = 0
    for calls in range(100):
        key = f"{what} {calls}"
        wanted = ["last"] if what == "made" else [*contents, "last"]
        with Maestro(real.project) as maestro:
            if what != "made":
                asyncio.run(write(key, contents))
                maestro.sessions.end(maestro.bindings.find("openai", key))
        with Maestro(real.project) as dying:
            assert dying.settings
            dies_after(dying, calls)
            try:
                dying.bindings.ensure("openai", key)
            except Killed:
                deaths += 1
            else:
                break
        asyncio.run(write(key, ["last"]))
        found, kept = asyncio.run(read(real.project, key))
        assert found == wanted, f"killed after {calls} calls"
        assert kept == {"head": b"kept"}
        with Maestro(real.project) as maestro:
            rows = [row for row in maestro.sessions.list() if row.bound_to and row.bound_to.key == key]
            assert len(rows) == (1 if what == "made" else 2)
    assert deaths > (2 if what == "made" else 8), "the control: it did die, at many places"
