"""Names of work sessions and breadcrumbs: what may become part of a path, and what times look like."""

from __future__ import annotations

import pytest

from maestro_state.errors import AmbiguousReference, InvalidValue, WorkSessionNotFound
from maestro_state.models.work_names import (
    derived_id,
    file_stamp,
    is_breadcrumb_file,
    is_depth,
    is_work_id,
    moment_ms,
    pick_work,
    stamp_ms,
    stamp_of,
)

UUID = "0d5d1f5c-2f0b-4a3e-9b0f-1c2d3e4f5a6b"


@pytest.mark.parametrize("name", [UUID, UUID.upper(), "20261116_093000", "20261116T093000Z", "20261116-093000_123456"])
def test_uuids_and_times_are_ids(name: str):
    """Our own ids and those that other programs made from a time may name a folder."""
    assert is_work_id(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../" + UUID, UUID + "/x", "breadcrumbs", "rejected", "a" * 36, "2026", "20261116_" + "1" * 60,
     "20261116{x}", "20261116\0", "20261116:1", UUID + "\n", "２０２６１１１６"],
)  # fmt: skip
def test_nothing_else_is_an_id(name: str):
    """What could leave the folder, break a key or be something else's name is no id."""
    assert not is_work_id(name)


@pytest.mark.parametrize("name", ["a.json.tmp", ".a.json", "a.txt", "json", ".json", "a" * 300 + ".json"])
def test_files_on_their_way_are_not_breadcrumbs(name: str):
    """Hidden files and other endings are left alone."""
    assert not is_breadcrumb_file(name)
    assert is_breadcrumb_file("20261116_093000_000001.json")
    assert is_depth("0")
    assert not is_depth("rejected")


@pytest.mark.parametrize("at_ms", [0, 1, 999, 1_794_000_000_123, 4_102_444_800_000])
def test_times_come_back(at_ms: int):
    """A breadcrumb's time is read as it was written, to the millisecond."""
    assert stamp_ms(stamp_of(at_ms)) == at_ms


def test_forms_of_time():
    """Fractions may be short, ISO times are understood, and both name a file the same way."""
    assert stamp_ms("20261116_093000_5") == stamp_ms("20261116_093000_500000") == stamp_ms("2026-11-16T09:30:00.5")
    assert stamp_ms("20261116_093000") == stamp_ms("2026-11-16T10:30:00+01:00")
    assert file_stamp("2026-11-16T09:30:00") == "20261116_093000_000000"
    for wrong in ("", "now", "20261301_000000_0", "20261116_250000_0", "20261116_093000_1234567", "9" * 400):
        with pytest.raises(InvalidValue):
            stamp_ms(wrong)


def test_since_takes_times_and_spans():
    """A filter is given a time, a date, or how long ago."""
    now = stamp_ms("20261116_120000")
    assert moment_ms("2h", now) == stamp_ms("20261116_100000")
    assert moment_ms("1d", now) == stamp_ms("20261115_120000")
    assert moment_ms("30min", now) == stamp_ms("20261116_113000")
    assert moment_ms("2026-11-16", now) == stamp_ms("20261116_000000")
    with pytest.raises(InvalidValue):
        moment_ms("soon", now)


def test_references():
    """A whole id, the beginning of one, or latest; too short and shared beginnings are refused."""
    ids = [UUID, "0d5d1f5c-9999-4a3e-9b0f-1c2d3e4f5a6b", "20261116_093000"]
    assert pick_work("latest", ids) == UUID
    assert pick_work(UUID[:10], ids) == UUID
    assert pick_work("20261116_093000", ids) == "20261116_093000"
    with pytest.raises(AmbiguousReference):
        pick_work("0d5d1f5c", ids)
    for wrong in ("0d5", "zzzz", ""):
        with pytest.raises(WorkSessionNotFound):
            pick_work(wrong, ids)
    with pytest.raises(WorkSessionNotFound):
        pick_work("latest", [])


def test_derived_ids_follow_the_content():
    """The same content has the same id, any other another one."""
    assert derived_id(b"a", b"b") == derived_id(b"a", b"b")
    assert len({derived_id(b"a", b"b"), derived_id(b"ab"), derived_id(b"a"), derived_id()}) == 4
