"""Following a session: nothing missed, nothing twice, and hardly any work while nothing happens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest
import redis

from maestro_state import Terminal
from maestro_state.clock import now_ms
from maestro_state.errors import InvalidValue, SessionNotFound
from maestro_state.local import embedded
from maestro_state.state.calls.events import PAGE
from maestro_state.state.calls.terminals import BEAT_MS, SHOWN_MS
from tests.support.backends import Backend, Clock
from tests.support.programs import python, running
from tests.support.waiting import wait_until

MAESTRO = str(Path(sys.executable).with_name("maestro"))
ME = Terminal("me", "here", "tty1", "2027-01-01T00:00:00.000+00:00")


def ids(events):
    """Return the ids of events."""
    return [event.id for event in events]


async def seen(maestro, **options):
    """Return what there is to see."""
    return [event async for event in maestro.follow.events(until_idle_ms=1, **options)]


async def test_every_place_to_join_at_shows_the_rest(backend: Backend):
    """From the start everything is seen; after any event, exactly what came after it."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("places")
        for number in range(10):
            await maestro.messages.add("user", str(number))
            await maestro.sessions.set("preferences", {"n": number})
        whole = await seen(maestro, cursor="start")

        assert [event.type for event in whole] == [
            "session.started",
            *["message.added", "session.updated"] * 10,
        ]
        assert [event.data["content"] for event in whole[1::2]] == [str(number) for number in range(10)]
        for at, event in enumerate(whole):
            assert ids(await seen(maestro, cursor=event.id)) == ids(whole[at + 1 :])
        assert await seen(maestro) == []
        with pytest.raises(InvalidValue):
            await seen(maestro, cursor="yesterday")
        with pytest.raises(SessionNotFound):
            await seen(maestro, ref="other--abcdef")
        assert [event.ts for event in whole] == sorted(event.ts for event in whole)
        assert whole[0].ts == session.created_at


@pytest.mark.parametrize(("first", "second"), [(3 * PAGE, 7), (PAGE, PAGE), (PAGE + 1, 2 * PAGE)])
def test_full_pages_of_two_streams_stay_in_order(real: Backend, first: int, second: int):
    """Streams longer than a page, mixed with another one, come in the order they were written, each once."""
    with real.open(now_ms=Clock()) as maestro:
        session = maestro.sessions.start("pages")
        kinds = ["message.added"] * first + ["session.updated"] * second
        # Spread evenly: every read finds entries of both streams beyond the other's page.
        kinds.sort(
            key=lambda kind, count={"message.added": 0, "session.updated": 0}: _place(kind, count, first, second)
        )
        for number, kind in enumerate(kinds):
            if kind == "message.added":
                maestro.messages.add("user", str(number))
            else:
                maestro.sessions.set("context_summary", str(number))
        found = list(maestro.follow.events(session.id, cursor="start", until_idle_ms=1))
        assert [event.type for event in found[1:]] == kinds
        assert len(set(ids(found))) == len(found)


def _place(kind, count, first, second):
    count[kind] += 1
    return count[kind] / (first if kind == "message.added" else second)


@pytest.mark.parametrize("freeze", ["end", "abort"])
async def test_the_end_of_a_session_ends_its_followers(backend: Backend, freeze: str):
    """A follower that waits sees the session frozen and leaves; a later one sees all and leaves too."""
    async with backend.open_async() as maestro, backend.open_async() as other:
        session = await maestro.sessions.start("ending")

        async def follow():
            return [event async for event in other.follow.events(session.id, cursor="start")]

        waiting = asyncio.create_task(follow())
        await maestro.messages.add("user", "hello", session.id)
        await (maestro.sessions.end() if freeze == "end" else maestro.sessions.abort(reason="no more"))
        whole = await waiting

        assert whole[-1].type == {"end": "session.finalized", "abort": "session.aborted"}[freeze]
        assert ids([event async for event in maestro.follow.events(session.id, cursor="start")]) == ids(whole)
        assert [event async for event in maestro.follow.events(session.id, cursor=whole[-1].id)] == []


def test_a_deleted_session_ends_its_followers(real: Backend, monkeypatch: pytest.MonkeyPatch):
    """A follower of a session that is deleted under it leaves without error."""
    monkeypatch.setattr("maestro_state.state.calls.terminals.BEAT_MS", 50)
    with real.open() as maestro, real.open() as other:
        session = maestro.sessions.start("deleted")
        found: list = []
        follower = threading.Thread(
            target=lambda: found.extend(other.follow.events(session.id, cursor="start", terminal=ME))
        )
        follower.start()
        wait_until(lambda: real.raw.info("clients")["blocked_clients"] == 1, "nobody follows")
        maestro.sessions.delete(session.id)
        follower.join(60)
        assert not follower.is_alive()
        assert [event.type for event in found] == ["session.started"]
        assert not real.raw.exists(*maestro.server.terms.keys.session(session.id))


def test_a_server_killed_under_a_follower_costs_it_nothing(real: Backend):
    """A follower goes on by itself after kill -9 of the server, from where it was."""
    with real.open() as maestro, real.open() as other:
        session = maestro.sessions.start("restarted")
        events = other.follow.events(session.id, cursor="start")
        added = [maestro.messages.add("user", "before").id]
        assert ids(islice(events, 2))[1:] == added
        os.kill(embedded.status(real.project).pid, signal.SIGKILL)
        added.append(maestro.messages.add("user", "after").id)
        assert next(events).id == added[1]
        events.close()


async def test_presence_lasts_while_somebody_looks(backend: Backend):
    """A terminal is shown as attached while it follows, not after it left, nor for long after it died."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("present")
        await maestro.messages.add("user", "hello")
        looking = maestro.follow.events(session.id, cursor="start", terminal=ME)
        for _ in range(2):
            await anext(looking)
        assert (await maestro.sessions.status()).attached == [ME]
        await looking.aclose()
        assert (await maestro.sessions.status()).attached == []

        dead = maestro.follow.events(session.id, cursor="start", terminal=ME)
        for _ in range(2):
            await anext(dead)
        clock.advance(seconds=SHOWN_MS / 1000 - 1)
        assert (await maestro.sessions.status()).attached == [ME]
        clock.advance(seconds=2)
        assert (await maestro.sessions.status()).attached == []
        await dead.aclose()


def test_a_killed_watcher_disappears_with_its_lease(real: Backend, tmp_path: Path):
    """kill -9 of `maestro watch` leaves an entry that ends by itself; Ctrl-C takes it along."""
    now = Clock(0)
    with real.open() as maestro, real.open(now_ms=now) as later:
        session = maestro.sessions.start("watched")
        attached = maestro.server.terms.keys.of_session(session.id, "attached")
        command = [MAESTRO, "--project", str(real.project), "watch", "--json"]

        def is_shown(watcher, to=maestro):
            return f"pid {watcher.process.pid}" in {one.terminal for one in to.sessions.status().attached}

        with running(tmp_path, command) as killed:
            wait_until(lambda: is_shown(killed), "the watcher is not shown")
            killed.kill()
        ((_, ends_at),) = real.raw.zrange(attached, 0, -1, withscores=True)
        now.now_ms = int(ends_at) - 1
        assert is_shown(killed, later)
        now.now_ms = int(ends_at) + 1
        assert not is_shown(killed, later)

        with running(tmp_path, command) as interrupted:
            wait_until(lambda: is_shown(interrupted), "the watcher is not shown")
            interrupted.process.send_signal(signal.SIGINT)
            assert interrupted.process.wait(60) == 130
        assert not is_shown(interrupted)


def test_watch_shows_what_another_process_adds(real: Backend, tmp_path: Path):
    """`maestro watch --json` prints a line per event as it happens, and goes on where it was."""
    with real.open() as maestro:
        session = maestro.sessions.start("live")
        watch = [MAESTRO, "--project", str(real.project), "watch", session.id, "--json", "--from"]
        with running(tmp_path, [*watch, "start"]) as watcher:
            wait_until(lambda: len(watcher.lines()) == 1, "the start is not shown")
            with python(tmp_path, "crowd", real.project, session.id, "c", 1, 5) as other:
                other.finish()
            wait_until(lambda: len(watcher.lines()) == 6, "the messages are not shown")
            watcher.kill()
        shown = [json.loads(line) for line in watcher.lines()]
        maestro.messages.add("user", "missed", session.id)
        with running(tmp_path, [*watch, shown[-1]["id"]]) as watcher:
            wait_until(lambda: len(watcher.lines()) == 1, "what was missed is not shown")
            maestro.sessions.end(session.id)
            watcher.finish()
        shown += [json.loads(line) for line in watcher.lines()]

    assert [event["type"] for event in shown] == [
        "session.started",
        *["message.added"] * 6,
        "session.finalized",
    ]
    assert [event["data"]["content"] for event in shown[1:7]] == [*(f"c.0:{n}" for n in range(5)), "missed"]
    assert all(set(event) == {"id", "ts", "type", "data"} for event in shown)
    assert len({event["id"] for event in shown}) == len(shown)


def commands_in_a_second(server: redis.Redis) -> tuple[int, int]:
    """Count the commands the server gets in one second, without the two that ask, and the beats that had time for."""
    before, begun = server.info("stats")["total_commands_processed"], now_ms()
    wait_until(lambda: now_ms() > begun + 1000, "time does not pass")
    after = server.info("stats")["total_commands_processed"]
    return after - before - 1, 1 + (now_ms() - begun) // BEAT_MS


def test_waiting_costs_the_server_next_to_nothing(real: Backend):
    """Ten followers of a quiet session send nothing while they wait; one that polls does show."""
    with real.open() as maestro, real.open() as polling:
        session = maestro.sessions.start("quiet")
        others = [real.open() for _ in range(10)]
        threads = [threading.Thread(target=lambda one=one: list(one.follow.events(session.id))) for one in others]
        for thread in threads:
            thread.start()
        wait_until(lambda: real.raw.info("clients")["blocked_clients"] == 10, "not all of them wait")
        # Each may look once more within the second, to say that it is still there.
        commands, beats = commands_in_a_second(real.raw)
        assert commands <= 3 * len(others) * beats

        polled = threading.Event()
        threads.append(
            threading.Thread(target=lambda: [polling.messages.last(1, session.id) for _ in iter(polled.is_set, True)])
        )
        threads[-1].start()
        commands, beats = commands_in_a_second(real.raw)
        assert commands > 3 * len(others) * beats
        polled.set()
        maestro.sessions.end()
        for thread in threads:
            thread.join(60)
        for one in others:
            one.close()
        assert not any(thread.is_alive() for thread in threads)
