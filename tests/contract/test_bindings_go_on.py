"""A framework's key goes on in a whole fork, also where clocks are days off, forks are slow, or somebody is killed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from maestro_state.adapters.binding import Adapter, Entries
from maestro_state.clock import from_iso, now_ms
from maestro_state.errors import SessionExpired
from maestro_state.state.calls import checkpoints as archiving
from tests.support.backends import Backend, Clock
from tests.support.passing import AGO_S, TTL_S

DAY_MS = 24 * 3600 * 1000


async def test_who_made_it_may_be_days_behind(backend: Backend):
    """A session that is over by its record alone is refused to a terminal. The next write goes on in a fork, and so
    does whoever made it.
    """
    wrong = Clock(now_ms() - 8 * DAY_MS)
    async with (
        backend.open_async(now_ms=wrong) as behind,
        backend.open_async() as right,
        Adapter(maestro=behind) as theirs,
        Adapter(maestro=right) as ours,
    ):
        slow, thread = theirs.binding("openai", "t"), ours.binding("openai", "t")
        await slow.write(Entries().message("user", "a").set("head", b"1"))
        first = await slow.find()
        with pytest.raises(SessionExpired):  # the control
            await right.messages.add("user", "x", first)

        others = [ours.binding("openai", "t") for _ in range(4)]
        await asyncio.gather(*(one.write(Entries().message("user", "b")) for one in (thread, *others)))
        await slow.write(Entries().message("user", "c"))
        assert (await slow.pop()).content == "c"
        await slow.write(Entries().message("user", "d"))
        await thread.write(Entries().message("user", "e"))

        second = await thread.find()
        assert (await slow.find(), (await right.sessions.read(second)).forked_from) == (second, first)
        assert (await right.sessions.read(first)).state == "finalizada"
        assert [one.content for one in await slow.messages()] == ["a", *"bbbbb", "d", "e"]
        assert await slow.kept() == {"head": b"1"}
        await right.messages.add("user", "from a terminal", second)


async def test_who_writes_may_be_days_ahead(backend: Backend):
    """By the server's clock there is time left: its session goes on, and is not over for others either way."""
    async with (
        backend.open_async() as right,
        backend.open_async(now_ms=Clock(now_ms() + 40 * DAY_MS)) as ahead,
        Adapter(maestro=right) as ours,
        Adapter(maestro=ahead) as theirs,
    ):
        thread, fast = ours.binding("openai", "t"), theirs.binding("openai", "t")
        await thread.write(Entries().message("user", "a"))
        first = await thread.find()
        with pytest.raises(SessionExpired):  # the control
            await ahead.messages.add("user", "x", first)

        await fast.write(Entries().message("user", "b"))
        await thread.write(Entries().message("user", "c"))
        assert (await fast.pop()).content == "c"
        await fast.write(Entries().message("user", "d"))

        assert [one.content for one in await thread.messages()] == ["a", "b", "d"]
        record = await right.sessions.read(await thread.find())
        assert (record.id, record.state) == (first, "iniciada")
        assert from_iso(record.last_activity) < now_ms() + DAY_MS


class Ticking(Clock):
    """A clock that goes on by a second whenever it is looked at."""

    def __call__(self) -> int:
        self.advance(seconds=1)
        return self.now_ms


@pytest.mark.parametrize("how", ["slowly", "after a kill", "let go meanwhile"])
async def test_a_fork_is_whole_or_none(backend: Backend, monkeypatch, how: str):
    """Made for longer than its time to live, or begun by somebody who is killed, or of what the server lets go of
    meanwhile: it has all that its origin has.
    """
    monkeypatch.setattr("maestro_state.api.fork._CALL_ROWS", 1)
    clock = Ticking(now_ms() - 1000 * AGO_S)
    async with backend.open_async(now_ms=clock) as maestro, Adapter(maestro=maestro, ttl_seconds=TTL_S) as adapter:
        thread, step = adapter.binding("openai", "t"), Entries()
        for number in range(2 * TTL_S):
            step.message("user", str(number)).set(f"kept {number}", b"1")
        await thread.write(step)
        first = await thread.find()
        if how == "slowly":
            clock.now_ms = now_ms() - 1000 * AGO_S
        await maestro.sessions.end(first)
        await maestro.archive.checkpoint(first)
        calls = []

        def interrupted(fill):
            def then(*args, **options):
                calls.append(1)
                if len(calls) == TTL_S:
                    if how == "after a kill":
                        clock.advance(seconds=2 * TTL_S)
                        raise OSError("killed")
                    if how == "let go meanwhile":
                        backend.raw.delete(*maestro.server.terms.keys.session(first))
                return fill(*args, **options)

            return then

        monkeypatch.setattr(archiving, "fill_session", interrupted(archiving.fill_session))
        with suppress(OSError):
            await thread.write(Entries().message("user", "last"))
        if how == "after a kill":
            await thread.write(Entries().message("user", "last"))

        assert len(calls) > TTL_S  # the control
        assert [one.content for one in await thread.messages()] == [*map(str, range(2 * TTL_S)), "last"]
        assert len(await thread.kept()) == 2 * TTL_S
        record = await maestro.sessions.read(await thread.find())
        assert (record.forked_from, record.state) == (first, "iniciada")
