"""What pages of a list promise, on every server: all of them together are the list, each session that stays once."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from maestro_state import Maestro
from maestro_state.errors import InvalidValue, Refused
from maestro_state.state.calls.index import IndexEntry, index_session, share_of
from maestro_state.state.calls.index_pages import Cursor, place_of
from maestro_state.state.keys import shard_of
from maestro_state.state.scripts import load
from tests.support.backends import Backend, Clock

MANY = 36
DAY_S = 24 * 3600


def walked(maestro: Maestro, limit: int, between: Callable[[], object] = lambda: None, **wanted: object) -> list[str]:
    """Read a list page by page, with something done between two pages; return the ids as they came."""
    ids, cursor = [], None
    while True:
        page = maestro.sessions.page(limit, cursor, **wanted)
        assert len(page) <= limit
        ids += [row.id for row in page]
        cursor = page.cursor
        if cursor is None:
            return ids
        between()


def filled(backend: Backend, maestro: Maestro, clock: Clock, count: int = MANY) -> list[str]:
    """Start sessions a second apart; of the first third the disk alone has each second one."""
    ids = []
    for number in range(count):
        clock.advance(seconds=1)
        ids.append(maestro.sessions.start(f"session {number}", activate=False).id)
    for number, session_id in enumerate(ids[: count // 3]):
        clock.advance(seconds=1)
        maestro.sessions.end(session_id)
        if number % 2:
            backend.raw.delete(*maestro.server.terms.keys.session(session_id))
    return ids


def test_all_pages_are_the_list(backend: Backend):
    """Live and archived sessions come in the order of the list, and the last page says that it is the last."""
    clock = Clock()
    with backend.open(now_ms=clock) as maestro:
        ids = filled(backend, maestro, clock)
        listed = [row.id for row in maestro.sessions.list()]
        assert sorted(listed) == sorted(ids)
        for limit in (7, MANY - 1, MANY, 1000):
            assert walked(maestro, limit) == listed
        assert [row.document() for row in maestro.sessions.page(5)] == [
            row.document() for row in maestro.sessions.list()[:5]
        ]


def test_sessions_of_one_moment_are_told_apart(backend: Backend):
    """With all at the same millisecond no page repeats or passes over one, or goes on for ever."""
    with backend.open(now_ms=Clock()) as maestro:
        ids = {maestro.sessions.start(f"session {number}", activate=False).id for number in range(40)}
        found = walked(maestro, 3)
        assert (len(found), set(found)) == (40, ids)


def test_sessions_that_come_go_and_change_meanwhile(backend: Backend):
    """Whatever happens between two pages, each session that was there all the time is on exactly one of them."""
    clock, chosen = Clock(), random.Random(5)
    with backend.open(now_ms=clock) as maestro:
        ids = filled(backend, maestro, clock)
        live, gone = ids[MANY // 3 :], set()

        def meanwhile() -> None:
            clock.advance(seconds=1)
            for session_id in chosen.sample([one for one in live if one not in gone], 5):
                maestro.messages.add("user", "and on", session_id)
            maestro.sessions.start("new", activate=False)
            over, deleted = chosen.sample([one for one in live if one not in gone], 2)
            # One leaves the server for the disk in between: it stays.
            maestro.sessions.end(over)
            backend.raw.delete(*maestro.server.terms.keys.session(over))
            live.remove(over)
            maestro.sessions.delete(deleted)
            gone.add(deleted)
            maestro.archive.sweep()

        found = walked(maestro, 6, meanwhile)
        stayed = set(ids) - gone
        assert len(found) == len(set(found))
        assert stayed <= set(found)
        assert len(gone) > 3


def test_going_on_by_activity_alone_would_miss_one(backend: Backend):
    """Control: one that changes before its page comes has gone up, past where the next page begins."""
    clock = Clock()
    with backend.open(now_ms=clock) as maestro:
        ids = filled(backend, maestro, clock, 12)
        first = maestro.sessions.page(3)
        clock.advance(seconds=1)
        maestro.messages.add("user", "and on", ids[4])
        assert ids[4] not in {row.id for row in first}
        naive = [row.id for row in maestro.sessions.list() if row.updated_at < first[-1].updated_at]
        assert ids[4] not in naive
        assert ids[4] in {row.id for row in maestro.sessions.page(20, first.cursor)}


def test_pages_of_some(backend: Backend):
    """State and user are asked for on every page, old archives only with all; those left out are counted at the end."""
    clock = Clock()
    with backend.open(now_ms=clock) as maestro:
        ids = filled(backend, maestro, clock)
        for wanted in ({"state": "finalizada"}, {"state": "abortada"}, {"user": "nobody"}, {"state": "iniciada"}):
            assert walked(maestro, 4, **wanted) == [row.id for row in maestro.sessions.list(**wanted)]
        assert len(walked(maestro, 4, state="finalizada")) == MANY // 3
        for session_id in ids[10:]:
            maestro.sessions.delete(session_id)
        maestro.archive.sweep()
        for session_id in ids[:10]:
            backend.raw.delete(
                *maestro.server.terms.keys.session(session_id), *maestro.server.terms.keys.index(session_id)
            )
        clock.advance(seconds=31 * DAY_S)
        new = maestro.sessions.start("new").id
        assert walked(maestro, 4) == [new]
        assert maestro.sessions.page(4).older == maestro.sessions.list().older == 10
        assert walked(maestro, 4, everything=True) == [row.id for row in maestro.sessions.list(everything=True)]


BAD_CURSORS = (
    "x", "é", "a" * 5000, "W10", Cursor(2, 1, "2026", "x--abcdef").encode(),
    Cursor(1, -1, "2026", "x--abcdef").encode(), Cursor(1, 1, "2026", "../../etc").encode(),
    Cursor(1, 1, "2026-99-99T00:00:00.000+00:00", "x--abcdef").encode(),
)  # fmt: skip


def test_what_is_no_cursor_is_refused(backend: Backend):
    """With one line, and nothing is read by it."""
    with backend.open() as maestro:
        maestro.sessions.start("x")
        for cursor in BAD_CURSORS:
            with pytest.raises(InvalidValue, match="not the cursor of a list"):
                maestro.sessions.page(5, cursor)
        for limit in (0, -1, 10_001):
            with pytest.raises(InvalidValue, match="a page has 1 to"):
                maestro.sessions.page(limit)


def test_a_cursor_of_long_ago_is_refused_rather_than_wrong(backend: Backend):
    """When more has moved since than is remembered, nobody can tell what was shown: it says so."""
    clock = Clock()
    with backend.open(now_ms=clock) as maestro:
        filled(backend, maestro, clock, 12)
        cursor = maestro.sessions.page(3).cursor
        assert maestro.sessions.page(3, cursor)  # control: it is good until then
        for key in maestro.server.terms.keys.all_of("moves")[:-1]:
            backend.raw.delete(key)
            pipe = backend.raw.pipeline()
            for _ in range(5000):
                pipe.xadd(key, {"other--abcdef": "1"})
            pipe.pexpire(key, 60_000)
            pipe.execute()
            break
        with pytest.raises(Refused, match="changed too much since"):
            maestro.sessions.page(3, cursor)
        assert maestro.sessions.page(3)
        assert "MOVES_MAX = 5000" in load("page_sessions").body


def test_dates_of_other_programs_have_a_place():
    """A date that is written otherwise is put where its moment is; one that is none, at the end, or first as ever."""
    assert place_of("2026-11-16T06:00:00+02:00", "x").at == "2026-11-16T04:00:00.000+00:00"
    assert [place_of(said, "x").at for said in ("9999", "", "yesterday?")] == ["9999", "", "9999"]


def test_the_newest_may_all_be_in_one_shard(backend: Backend):
    """Each shard is asked for its part of the newest first; where that is not enough, for all."""
    with backend.open() as maestro:
        terms = maestro.server.terms
        ids = [one for one in (f"x--{number:06d}" for number in range(1000)) if shard_of(one) == 3][:40]
        for at, session_id in enumerate(ids, start=1_000_000):
            entry = IndexEntry(f"{at}-0", session_id, "iniciada", at, at, 10**9, "", None, None, None)
            maestro.server.run(index_session(terms, entry))
        assert share_of(terms, 30) < 30  # control: the first answer does not have them all
        assert [row.id for row in maestro.sessions.newest(30)] == ids[:9:-1]


async def test_awaited_pages_are_the_same(backend: Backend):
    """The asyncio face has the same verb."""
    async with backend.open_async() as maestro:
        ids = {(await maestro.sessions.start(f"session {number}")).id for number in range(5)}
        first = await maestro.sessions.page(3)
        rest = await maestro.sessions.page(3, first.cursor)
        assert {row.id for row in (*first, *rest)} == ids
        assert (len(first), len(rest), rest.cursor) == (3, 2, None)
