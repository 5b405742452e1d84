"""Keys of other frameworks under faults: kills of writers, of the server and of who goes on with what has ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
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


def happens_after(maestro: Maestro, calls: int, what: Callable[[], Any]) -> list[int]:
    """Have something happen before a Maestro's next call to the server after so many; returns a list, filled then."""
    connection, made, happened = maestro.server.connection, count(), list[int]()

    def followed(original: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if next(made) == calls:
                happened.append(calls)
                what()
            return original(*args, **options)

        return call

    for name in ("call", "calls"):
        setattr(connection, name, followed(getattr(connection, name)))
    return happened


@pytest.mark.parametrize("is_let_go", [False, True])
@pytest.mark.parametrize("is_deleted_within", [False, True])
def test_what_is_deleted_does_not_come_back(real: Backend, is_deleted_within: bool, is_let_go: bool):
    """Deleted between any two calls of whoever goes on with it, or gone on with between any two of the deletion: what
    was there before is nowhere, under no key.
    """

    async def write(key: str) -> None:
        async with Adapter(project=real.project) as adapter:
            await adapter.binding("openai", key).write(Entries().message("user", f"canary {key}").set("at", key))

    for calls in range(100):
        key = f"t{calls}"
        asyncio.run(write(key))
        with Maestro(real.project) as maestro, Maestro(real.project) as other:
            ended = maestro.bindings.find("openai", key)
            maestro.sessions.end(ended)
            for name in real.raw.scan_iter(f"*{ended}*") if is_let_go else ():
                real.raw.delete(name)
            within = other.bindings.delete if is_deleted_within else other.bindings.ensure
            happened = happens_after(maestro, calls, lambda within=within, key=key: within("openai", key))  # type: ignore[misc]
            (maestro.bindings.ensure if is_deleted_within else maestro.bindings.delete)("openai", key)
        if not happened:
            break
        assert asyncio.run(read(real.project, key)) == ([], {}), f"after {calls} calls"
        streams = real.raw.scan_iter(f"*openai-{key}-*:messages")
        assert [name for name in streams if real.raw.xlen(name)] == [], f"after {calls} calls"
    assert 4 < calls < 100, "the control: it did happen, at many places"


def test_what_is_begun_for_a_key_is_what_it_means(real: Backend):
    """Deleted, and begun by another, between any two calls of whoever begins: there is one session, the key's."""
    for calls in range(100):
        key = f"t{calls}"
        with Maestro(real.project) as maestro, Maestro(real.project) as other:

            def meanwhile(key: str = key, other: Maestro = other) -> None:
                other.bindings.delete("openai", key)
                other.bindings.ensure("openai", key)

            happened = happens_after(maestro, calls, meanwhile)
            maestro.bindings.ensure("openai", key)
            if not happened:
                break
            meant = maestro.bindings.ensure("openai", key)
            assert other.bindings.find("openai", key) == other.bindings.ensure("openai", key) == meant
            there = [name.decode() for name in real.raw.scan_iter(f"maestro:{{openai-{key}-*}}")]
            assert there == [f"maestro:{{{meant}}}"], f"after {calls} calls"
    assert 4 < calls < 100, "the control: it did happen, at many places"
