"""What changes in any session is told in one order, from any place on; reading it changes nothing."""

from __future__ import annotations

from maestro_state.state.calls.index import forget_session
from tests.support.backends import Backend


async def test_changes_are_told_in_order_and_once(backend: Backend):
    """A session that changed more than once is told the last time; one that is gone, as gone."""
    async with backend.open_async() as maestro:
        begin = await maestro.follow.newest_change()
        first, second = [(await maestro.sessions.start(name)).id for name in ("one", "two")]
        found = await maestro.follow.changes(begin)
        assert [(one.session_id, one.row.state) for one in found] == [(first, "iniciada"), (second, "iniciada")]
        assert await maestro.follow.changes(found[0].id) == found[1:]
        await maestro.context.add("a text", ref=first, kind="text")
        await maestro.sessions.delete(second)
        later = await maestro.follow.changes(found[-1].id)
        assert [(one.session_id, one.row and one.row.state) for one in later] == [
            (first, "com_contexto"),
            (second, None),
        ]
        assert await maestro.follow.changes(later[-1].id) == []
        assert await maestro.follow.newest_change() == later[-1].id


async def test_a_sweep_tells_what_it_finds_gone(backend: Backend):
    """A session whose keys went by themselves, and that no archive has: who follows hears it from the sweep."""
    async with backend.open_async() as maestro:
        gone = (await maestro.sessions.start("gone")).id
        place = await maestro.follow.newest_change()
        backend.raw.delete(*maestro.server.terms.keys.session(gone))
        await maestro.sweep()
        assert [(one.session_id, one.row) for one in await maestro.follow.changes(place)] == [(gone, None)]


async def test_that_one_went_is_told_once(backend: Backend):
    """Not for what changed before it went, read too late to be seen; nor again when the write was sent again."""
    async with backend.open_async() as maestro:
        begin = await maestro.follow.newest_change()
        session_id = (await maestro.sessions.start("one")).id
        changed = await maestro.follow.newest_change()
        await maestro.sessions.delete(session_id)
        went = await maestro.follow.newest_change()
        await maestro.server.unindex(session_id)
        assert await maestro.follow.newest_change() == went
        other = (await maestro.sessions.start("two")).id
        # As if the page ended behind the first change: it is passed over, and what comes behind is told.
        assert [(one.id, one.row) for one in await maestro.follow.changes(changed)][:1] == [(went, None)]
        told = await maestro.follow.changes(begin)
        assert [(one.session_id, one.row is None) for one in told] == [(session_id, True), (other, False)]
        assert await maestro.follow.changes(told[-1].id, wait_ms=1) == []


async def test_that_one_went_is_told_by_a_server_that_forgot_its_scripts(backend: Backend):
    """As after a restart: it is not told before the row has gone."""
    async with backend.open_async() as maestro:
        session_id = (await maestro.sessions.start("one")).id
        await maestro.server.connection.call("SCRIPT", "FLUSH")
        other = (await maestro.sessions.start("two")).id  # which has it know how changes are told
        begin = await maestro.follow.newest_change()
        await maestro.server.unindex(session_id)
        (went,) = await maestro.follow.changes(begin)
        assert (went.session_id, went.row) == (session_id, None)
        assert other in await maestro.sessions.rows([session_id, other])


async def test_a_change_without_its_row_is_passed_over(backend: Backend):
    """Who reads between the end of a row and that it is told gets neither an empty answer nor it twice."""
    async with backend.open_async() as maestro:
        begin = await maestro.follow.newest_change()
        session_id = (await maestro.sessions.start("one")).id
        server = maestro.server
        await server.run(forget_session(server.terms, session_id))
        assert await maestro.follow.changes(begin) == []
        await server.unindex(session_id)
        assert [(one.session_id, one.row) for one in await maestro.follow.changes(begin)] == [(session_id, None)]


async def test_a_place_before_what_is_kept_is_said_to_be(backend: Backend):
    """Whoever was away for too long knows, and reads the list."""
    async with backend.open_async() as maestro:
        assert not await maestro.follow.has_changes_since("0-0")
        await maestro.sessions.start("one")
        place = await maestro.follow.newest_change()
        await maestro.sessions.start("two")
        assert await maestro.follow.has_changes_since(place)
        assert not await maestro.follow.has_changes_since("0-0")


async def test_the_last_messages_before_one(backend: Backend):
    """Read backwards, a page at a time; nothing is before everything."""
    async with backend.open_async() as maestro:
        session_id = (await maestro.sessions.start("one")).id
        ids = [(await maestro.messages.add("user", str(number), session_id)).id for number in range(5)]
        assert [one.id for one in (await maestro.messages.last(2, session_id, before=ids[4]))] == ids[2:4]
        assert (await maestro.messages.last(2, session_id, before=ids[0])) == []
