"""What sessions promise, on every server; the async shell is driven here, the sync one in test_sync_shell.py."""

from __future__ import annotations

import pytest

from maestro_state.clock import from_iso
from maestro_state.errors import (
    AmbiguousReference,
    Conflict,
    InvalidName,
    InvalidTransition,
    InvalidValue,
    NoActiveSession,
    SessionExpired,
    SessionNotFound,
)
from maestro_state.models.session import Field
from maestro_state.state.calls.claims import Ended
from tests.support.backends import Backend, Clock


async def test_start_makes_the_record_and_the_active_session(backend: Backend):
    """A started session is iniciada, has the slug of its name, and this checkout is on it."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("Consertar o Lógin!", note="desde segunda")

        assert session.slug == "consertar-o-login"
        assert session.id.startswith("consertar-o-login--")
        assert session.state == "iniciada"
        assert session.status == "active"
        assert session.notes == "desde segunda"
        assert maestro.project.active() == session.id
        assert await maestro.sessions.read() == session


@pytest.mark.parametrize("name", ["", "!!!", "🛒 \u202e", "a" * 10_000, "日" * 60, "a\0b", "a\x1b[31m"])
async def test_a_name_that_is_none_is_refused_and_changes_nothing(backend: Backend, name: str):
    """A name without letter or digit, too long, or with control characters starts nothing."""
    async with backend.open_async() as maestro:
        with pytest.raises(InvalidName):
            await maestro.sessions.start(name)

        assert await maestro.sessions.list() == []
        assert backend.raw.dbsize() == 0


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("日本 Lógin", "日本-login"),
        ("Über Straße", "uber-strasse"),
        ("ПРИВЕТ Мир", "привет-мир"),
        ("हिन्दी भाषा", "हिन्दी-भाषा"),
        ("\u304b\u3099", "が"),  # typed as two, kept as one
    ],
)
async def test_letters_of_any_script_are_kept_and_latin_ones_lose_their_accents(backend: Backend, name: str, slug: str):
    """Such a session is started, found by its name, run in, archived, verified, listed and deleted like any other."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start(name, tool="echo")
        assert session.slug == slug
        assert await maestro.sessions.resolve(slug) == session.id
        run = await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, run.id, "owner")
        await maestro.claims.finish(claim, Ended(status="success"))
        assert (await maestro.sessions.end()).state == "finalizada"
        assert (await maestro.archive.verify(session.id)).ok
        assert [row.id for row in await maestro.sessions.list()] == [session.id]
        assert await maestro.sessions.delete(session.id, trash=True) == session.id
        assert await maestro.sessions.list() == []


async def test_dots_and_slashes_in_a_name_do_not_reach_the_id(backend: Backend):
    """Slashes become dashes; a name that leads out of a folder is refused."""
    async with backend.open_async() as maestro:
        assert (await maestro.sessions.start("src/login v1..2")).slug == "src-login-v1-2"
        for name in ("../../etc/passwd", "a/../b", "..\\x", ".."):
            with pytest.raises(InvalidName):
                await maestro.sessions.start(name)

        assert len(await maestro.sessions.list()) == 1


async def test_namesakes_are_the_others_still_at_work(backend: Backend):
    """Sessions of the same name are named, last active first; those that ended, and other names, are not."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        ids = []
        for name in ("login", "Login", "login-2", "login"):
            ids.append((await maestro.sessions.start(name)).id)
            clock.advance(seconds=1)
        newest = await maestro.sessions.start("login")
        await maestro.sessions.end(ids[0], archive=False)

        assert await maestro.sessions.namesakes(newest) == [ids[3], ids[1]]


async def test_list_shows_the_newest_activity_first(backend: Backend):
    """Sessions are listed by last activity, the active one marked."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        first = await maestro.sessions.start("first")
        clock.advance(seconds=10)
        second = await maestro.sessions.start("second")
        clock.advance(seconds=10)
        await maestro.messages.add("user", "hello", first.id)

        rows = await maestro.sessions.list()
        assert [row.id for row in rows] == [first.id, second.id]
        assert [row.active for row in rows] == [False, True]
        assert [row.id for row in await maestro.sessions.newest(1)] == [first.id]


async def test_references(backend: Backend):
    """A full id, a unique slug, a unique suffix and `latest` find a session; others are refused with a reason."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        with pytest.raises(NoActiveSession):
            await maestro.sessions.resolve()
        one = await maestro.sessions.start("one")
        clock.advance(seconds=5)
        two = await maestro.sessions.start("two")
        other = await maestro.sessions.start("two")

        assert await maestro.sessions.resolve(one.id) == one.id
        assert await maestro.sessions.resolve("one") == one.id
        assert await maestro.sessions.resolve(two.id[-6:]) == two.id
        assert await maestro.sessions.resolve("latest") in (two.id, other.id)
        with pytest.raises(AmbiguousReference) as ambiguous:
            await maestro.sessions.resolve("two")
        assert sorted([two.id, other.id]) == ambiguous.value.candidates
        with pytest.raises(SessionNotFound):
            await maestro.sessions.resolve("three")
        with pytest.raises(SessionNotFound):
            await maestro.sessions.read("three--abcdef")


async def test_frozen_accepts_nothing_more(backend: Backend):
    """An ended and an aborted session refuse every change and can still be read."""
    async with backend.open_async() as maestro:
        ended = await maestro.sessions.end((await maestro.sessions.start("a")).id)
        aborted = await maestro.sessions.abort((await maestro.sessions.start("b")).id, reason="wrong branch")

        assert (ended.state, aborted.state, aborted.abort_reason) == ("finalizada", "abortada", "wrong branch")
        assert (bool(ended.finalized_at), bool(ended.aborted_at)) == (True, False)
        assert (bool(aborted.finalized_at), bool(aborted.aborted_at)) == (False, True)
        for session in (ended, aborted):
            with pytest.raises(InvalidTransition):
                await maestro.messages.add("user", "late", session.id)
            with pytest.raises(InvalidTransition):
                await maestro.sessions.end(session.id)
            with pytest.raises(InvalidTransition):
                await maestro.sessions.set("preferences", {}, session.id)
            assert await maestro.sessions.read(session.id) == session


async def test_two_clocks(backend: Backend):
    """Quiet makes a session idle, then expired; expired refuses changes, while its keys live on through the grace."""
    clock = Clock()
    settings = {"ttl_seconds": 100, "idle_after_seconds": 10, "dirty_grace_seconds": 1000}
    async with backend.open_async(now_ms=clock, **settings) as maestro:
        session = await maestro.sessions.start("clocks")
        assert session.status == "active"
        clock.advance(seconds=10)
        assert (await maestro.sessions.read()).status == "idle"
        await maestro.messages.add("user", "still here")
        assert (await maestro.sessions.read()).status == "active"
        clock.advance(seconds=100)
        assert (await maestro.sessions.read()).status == "expired"
        with pytest.raises(SessionExpired):
            await maestro.messages.add("user", "too late")
        assert [message.content for message in await maestro.messages.last()] == ["still here"]
        left = backend.raw.pttl(maestro.server.terms.keys.of_session(session.id, "messages"))
        assert 1_000_000 < left <= 1_100_000


async def test_activity_renews_every_key_together_and_reading_none(backend: Backend):
    """After an activity all keys of a session expire at the same moment; a read moves none of them."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("ttl", ttl_seconds=500)
        await maestro.sessions.set("preferences", {"a": 1})
        keys = [key for key in maestro.server.terms.keys.session(session.id) if backend.raw.exists(key)]
        for key in keys:
            backend.raw.pexpire(key, 5000)
        await maestro.sessions.status()
        await maestro.messages.last()
        assert all(backend.raw.pttl(key) <= 5000 for key in keys)

        clock.advance(seconds=2)
        await maestro.messages.add("user", "hello")
        keys.append(maestro.server.terms.keys.of_session(session.id, "messages"))
        assert len({backend.raw.pexpiretime(key) for key in keys}) == 1
        assert all(backend.raw.pttl(key) > 500_000 for key in keys)


async def test_nothing_brings_a_vanished_session_back(backend: Backend):
    """After its keys are gone, no call writes a fragment of a session."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("gone")
        backend.raw.delete(*maestro.server.terms.keys.session(session.id))
        for attempt in (
            lambda: maestro.messages.add("user", "x"),
            lambda: maestro.sessions.set("preferences", {}),
            lambda: maestro.sessions.end(),
            lambda: maestro.sessions.abort(reason="x"),
        ):
            with pytest.raises(SessionNotFound):
                await attempt()
        assert not backend.raw.exists(*maestro.server.terms.keys.session(session.id))


async def test_a_clock_that_goes_back_takes_nothing_back(backend: Backend):
    """Ids and times of a session never go backwards, whatever a terminal's clock says."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        await maestro.sessions.start("back")
        clock.advance(seconds=60)
        first = await maestro.messages.add("user", "one")
        before = await maestro.sessions.read()
        clock.advance(seconds=-3600)
        second = await maestro.messages.add("user", "two")

        assert [message.id for message in await maestro.messages.since()] == [first.id, second.id]
        assert (await maestro.sessions.read()).last_activity == before.last_activity


async def test_compare_and_set(backend: Backend):
    """A field is replaced only by whoever saw its present revision."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("cas")
        assert (await maestro.sessions.get("preferences")).revision == 0
        assert (await maestro.sessions.set("preferences", {"a": 1}, if_revision=0)).revision == 1
        with pytest.raises(Conflict):
            await maestro.sessions.set("preferences", {"a": 2}, if_revision=0)
        found = await maestro.sessions.get("preferences")
        assert (found.value, found.revision) == ({"a": 1}, 1)
        with pytest.raises(InvalidValue):
            await maestro.sessions.set("state", "finalizada")
        with pytest.raises(InvalidValue):
            await maestro.sessions.set("preferences", "not an object")


async def test_task_and_time_to_live_can_be_set_later(backend: Backend):
    """The time to live counts at once, for the keys and the index too; what is none is refused."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("later", ttl_seconds=100, task_id="T-1")
        assert (await maestro.sessions.get("task_id")).value == "T-1"
        await maestro.sessions.set("task_id", "T-2")
        assert (await maestro.sessions.set("ttl_seconds", "5000", if_revision=0)).value == 5000
        assert await maestro.sessions.get("ttl_seconds") == Field("ttl_seconds", 5000, 1)
        read = await maestro.sessions.read()
        assert (read.task_id, read.ttl_seconds) == ("T-2", 5000)
        deadline = backend.raw.zscore(maestro.server.terms.keys.of_index("deadlines", session.id), session.id)
        assert deadline == from_iso(read.last_activity) + 5_000_000
        for value in (0, -1, "x", "1.5", "٣", True, 10**12):
            with pytest.raises(InvalidValue):
                await maestro.sessions.set("ttl_seconds", value)


async def test_delete_leaves_nothing(backend: Backend):
    """A deleted session is gone from the server, the index and the checkout."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("gone")
        await maestro.messages.add("user", "x")
        await maestro.sessions.delete("gone")

        assert not backend.raw.exists(*maestro.server.terms.keys.session(session.id))
        assert await maestro.sessions.list(everything=True) == []
        assert maestro.project.active() is None
        with pytest.raises(SessionNotFound):
            await maestro.sessions.delete(session.id)
