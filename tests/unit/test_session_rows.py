"""Rows of a list: cheap as stored, and shown field for field as they always were."""

from __future__ import annotations

import msgspec
import pytest

from maestro_state.clock import iso
from maestro_state.mirror.listing import ArchivedSummary
from maestro_state.models.session import SUMMARY_FIELDS
from maestro_state.state.calls.index import IndexEntry, LiveSummary, View, by_activity, list_sessions

NOW, HOUR = 1_794_813_646_734, 3_600_000


def rows_of(*entries: IndexEntry, active: str | None = None) -> list[LiveSummary]:
    """Return rows as they are read from a reply of the server."""
    replies = [[msgspec.json.encode(one) for one in entries], []]
    return list_sessions(replies, View(NOW, HOUR, active)).rows


def entry(name: str, *, quiet_ms: int = 0, state: str = "iniciada", frozen: bool = False) -> IndexEntry:
    seen = NOW - quiet_ms
    return IndexEntry(f"{seen}-0", f"{name}--abcdef", state, seen - HOUR, seen, 10 * HOUR, "ada", None,
                      seen if frozen else None, None)  # fmt: skip


def archived(name: str, quiet_ms: int) -> ArchivedSummary:
    return ArchivedSummary(id=f"{name}--zyxwvu", slug=name, state="com_saida", created_at=iso(NOW - 20 * HOUR),
                           updated_at=iso(NOW - quiet_ms))  # fmt: skip


def test_a_live_row_prints_what_it_always_did():
    """A live row has every field of the list, absent ones left out, in order."""
    [row] = rows_of(entry("fix-login", quiet_ms=5), active="fix-login--abcdef")
    assert row.document() == {
        "id": "fix-login--abcdef",
        "slug": "fix-login",
        "state": "iniciada",
        "status": "active",
        "created_at": iso(NOW - 5 - HOUR),
        "updated_at": "2026-11-16T07:20:46.729+00:00",
        "user_id": "ada",
        "active": True,
        "archived": False,
        "orphan": False,
    }
    assert list(row.document()) == [name for name in SUMMARY_FIELDS if name != "finalized_at"]


def test_liveness_and_end_follow_the_clocks_of_the_list():
    """Status is that of the moment the list was made; only an ended session has a date of its end."""
    quiet, over, ended, aborted = rows_of(
        entry("quiet", quiet_ms=2 * HOUR),
        entry("over", quiet_ms=11 * HOUR),
        entry("ended", state="finalizada", frozen=True),
        entry("aborted", state="abortada", frozen=True),
    )
    assert [row.status for row in (quiet, over, ended, aborted)] == ["idle", "expired", "expired", "expired"]
    assert [row.finalized_at for row in (quiet, over, ended, aborted)] == [None, None, iso(NOW), None]


def test_a_state_of_newer_programs_is_listed_too():
    """One row with an unknown state spoils no list, and shows what it is."""
    known, newer = rows_of(entry("known"), entry("newer", state="suspensa"))
    assert [(row.id, row.state, row.status) for row in (known, newer)] == [
        ("known--abcdef", "iniciada", "active"),
        ("newer--abcdef", "suspensa", "active"),
    ]


def test_rows_are_equal_when_they_show_the_same():
    """Two lists made at different moments are equal while nothing shown has changed, and cannot be written to."""
    [row] = rows_of(entry("one"))
    again = msgspec.structs.replace(row, last_id="1-1", view=row.view._replace(now_ms=NOW + 1))
    assert row == again
    assert hash(row) == hash(again)
    assert repr(row) == repr(again)
    later = msgspec.structs.replace(row, view=row.view._replace(now_ms=NOW + 2 * HOUR))
    assert row != later
    with pytest.raises(AttributeError):
        row.state = "finalizada"  # type: ignore[misc]


@pytest.mark.parametrize("count", [1, 2, 40])
def test_archived_rows_are_put_where_they_belong(count: int):
    """Few archived rows among many, or many, are merged by date; of two at one moment the live one comes first."""
    live = rows_of(*(entry(f"live{number}", quiet_ms=(number * 7919) % 100) for number in range(100)))
    more = [archived(f"old{number}", (number * 31) % 100) for number in range(count)]
    merged = by_activity(live, more)
    expected = sorted([*live, *more], key=lambda row: (row.updated_at, not row.archived), reverse=True)
    assert [row.id for row in merged] == [row.id for row in expected]


def test_an_archived_row_prints_all_its_fields():
    """What the index of a checkout does not know is printed as empty."""
    document = archived("old", 0).document()
    assert list(document) == list(SUMMARY_FIELDS)
    assert (document["status"], document["user_id"], document["finalized_at"]) == ("expired", "", None)
