"""Clocks that jump by an hour or forty days, and zones that change: nothing ends or goes early, and order stays."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from maestro_state.clock import from_iso, iso
from maestro_state.errors import SessionExpired
from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.retention import clean
from maestro_state.mirror.verify import verify
from maestro_state.models.message import id_order
from maestro_state.state.calls.terms import CLOCK_MARGIN_S
from tests.support.backends import BACKENDS, Clock
from tests.support.seeds import seeded
from tests.support.stored import filler

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
JUMPS_MS = (HOUR_MS, -HOUR_MS, 40 * DAY_MS, -40 * DAY_MS)

#: Zones with a change of the hour, without one, far east and far west, and half an hour off.
ZONES = ("America/New_York", "America/Sao_Paulo", "Pacific/Kiritimati", "Pacific/Midway", "Australia/Lord_Howe", "UTC")
#: An hour before New York and Lord Howe set their clocks forth or back in 2026, in UTC.
CHANGES = ("2026-03-08T06:00:00+00:00", "2026-11-01T05:00:00+00:00", "2026-04-04T14:00:00+00:00")


@pytest.fixture
def in_zone() -> Iterator[object]:
    """Return what puts this process into a time zone."""
    before = os.environ.get("TZ")

    def move(zone: str) -> None:
        os.environ["TZ"] = zone
        time.tzset()

    yield move
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


def test_a_clock_that_jumps_ends_no_session_and_keeps_the_order(real, project: Path):
    """Between terminals an hour and forty days apart no session is frozen or cut short, and ids only grow."""
    chance = seeded()
    with real.open() as right:
        now_ms, keys = right.server.now_ms(), right.server.terms.keys
        sessions = [right.sessions.start(f"jump{number}") for number in range(5)]
        wrongs = [real.open(now_ms=Clock(now_ms + jump)) for jump in JUMPS_MS]
        ids: dict[str, list[str]] = {session.id: [] for session in sessions}
        refused = 0
        for number in range(120):
            session, terminal = chance.choice(sessions), chance.choice([right, *wrongs])
            try:
                ids[session.id].append(terminal.messages.add("user", str(number), session.id).id)
            except SessionExpired:
                refused += 1  # forty days ahead it is over: said, and nothing done
            if number % 20 == 0:
                swept = terminal.archive.sweep()
                assert (swept.finalized, swept.errors) == ([], [])
                assert [path for path in terminal.archive.cleanup().removed if "/sessions/" in path] == []
        for session in sessions:
            assert right.sessions.read(session.id).state == "iniciada"
            assert min(real.raw.pttl(key) for key in keys.session(session.id) if real.raw.exists(key)) > 6 * DAY_MS
            assert [one.id for one in right.messages.since(None, session.id)] == ids[session.id]
            assert ids[session.id] == sorted(ids[session.id], key=id_order)
            assert len(set(ids[session.id])) == len(ids[session.id])
            assert right.messages.add("user", "still working", session.id).content
        assert refused > 0, "control: the jumps are felt"
        for terminal in wrongs:
            terminal.close()


@pytest.mark.parametrize("margin_s", [CLOCK_MARGIN_S, 0], ids=["kept", "control"])
def test_a_server_forty_days_ahead_lets_go_of_nothing_that_is_not_on_disk(real, monkeypatch, margin_s: int):
    """For a moment every key that has less than forty days left is gone; without a margin it is the only copy."""
    monkeypatch.setattr("maestro_state.state.calls.terms.CLOCK_MARGIN_S", margin_s)
    with real.open() as maestro:
        session = maestro.sessions.start("only copy")
        maestro.messages.add("user", "kept")
        for key in real.raw.scan_iter():
            if 0 < real.raw.pttl(key) < 40 * DAY_MS:
                real.raw.delete(key)
        if not margin_s:
            assert not real.raw.exists(maestro.server.terms.keys.of_session(session.id, "session"))
            return
        # Swept in that moment, it is not frozen: this machine's clock says that there is time.
        from maestro_state.upkeep.expiry import Expiry

        expiry = Expiry(maestro.server, maestro.archive._places)
        for key in maestro.server.terms.keys.session(session.id):
            if real.raw.exists(key):
                real.raw.pexpire(key, real.raw.pttl(key) - 40 * DAY_MS)
        assert expiry.freeze_live(session.id, maestro.server.now_ms() + 40 * DAY_MS) == "ALIVE"
        assert maestro.messages.add("user", "and on").content == "and on"
        assert maestro.archive.sweep().checkpointed == [session.id]


def test_by_the_wrong_clock_alone_the_sessions_would_be_over(real):
    """Control: a key with a time to live worked out by a clock forty days ahead or behind is gone at once."""
    with real.open() as maestro:
        started = maestro.sessions.start("kept")
        now_ms = maestro.server.now_ms()
        real.raw.set("naive", "the only copy", pxat=now_ms - 40 * DAY_MS + 7 * DAY_MS)
        assert real.raw.get("naive") is None
        with real.open(now_ms=Clock(now_ms - 40 * DAY_MS)) as behind:
            behind.messages.add("user", "x", started.id)
        assert maestro.sessions.read(started.id).state == "iniciada"


@pytest.fixture
def aged(project: Path) -> tuple[Home, str, int]:
    """Return an archive whose last activity is at a change of the hour; its home, its id and that time."""
    at_ms = from_iso(CHANGES[0])
    with BACKENDS["fake"](project) as backend, backend.open(now_ms=Clock(at_ms)) as maestro:
        session = maestro.sessions.start("aged")
        fill = filler(backend, session.id)
        fill.run(b"goes")
        fill.run(b"last")
        maestro.sessions.end()
    return Home.of_project(Project(str(project))), session.id, at_ms


@pytest.mark.parametrize("zone", ZONES)
def test_a_change_of_the_hour_neither_delays_nor_hastens_retention(aged, in_zone, zone: str):
    """To the hour: before thirty days nothing goes, in no zone; after them the old output goes, in every zone."""
    home, session_id, at_ms = aged
    in_zone(zone)
    for early in (0, HOUR_MS, 29 * DAY_MS, 30 * DAY_MS - HOUR_MS):
        assert clean(home, set(), now_ms=at_ms + early, days=30, dry_run=False).removed == []
    late = clean(home, set(), now_ms=at_ms + 30 * DAY_MS + HOUR_MS, days=30, dry_run=False)
    assert [path.rsplit("/", 2)[1] for path in late.removed] == ["0001"]
    assert verify(home, session_id).ok


@pytest.mark.parametrize("zone", ZONES)
def test_times_are_the_same_in_every_zone(in_zone, zone: str):
    """Around each change of the hour, written times read back as they were and stay in order."""
    in_zone(zone)
    for change in CHANGES:
        start = from_iso(change)
        minutes = [start + minute * 60_000 + 7 for minute in range(-30, 150, 10)]
        texts = [iso(one) for one in minutes]
        assert [from_iso(text) for text in texts] == minutes
        assert texts == sorted(texts)
    assert iso(from_iso(CHANGES[1])) == "2026-11-01T05:00:00.000+00:00"


def test_the_zones_do_change_the_hour(in_zone):
    """Control: in local time the hour of the change is there twice."""
    in_zone("America/New_York")
    start = from_iso(CHANGES[1]) / 1000
    assert time.localtime(start).tm_hour == time.localtime(start + 3600).tm_hour
