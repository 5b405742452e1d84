"""Work sessions on disk: trees of our own and of other programs, read as they are and never followed out of."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from maestro_state.clock import from_iso, iso
from maestro_state.errors import InvalidValue, WorkFailed
from maestro_state.fs.handles import Folder
from maestro_state.mirror.layouts import work as layout
from maestro_state.work.tree import Node, tree_of
from tests.support.work_samples import STAMP, crumb, foreign, post

LIMIT = 1 << 20
TOP, CHILD = "0d5d1f5c-2f0b-4a3e-9b0f-1c2d3e4f5a6b", "20260101_120000"


def test_a_foreign_tree_is_read(tmp_path: Path):
    """Another program's folders, with ids by time, missing fields, nulls and unknown ones, are work sessions too."""
    record = {"session_id": TOP, "session_type": "work_track", "status": "running", "colour": "red", "metadata": None}
    foreign(tmp_path, (TOP,), record | {"created": "2026-01-01T12:00:00", "modified": "2026-01-01T13:00:00"})
    foreign(tmp_path, (TOP, CHILD), {})
    post(tmp_path, (TOP, CHILD), "20260101_120000_000001", {"prompt": "p", "cost": None, "extra": [1]}, depth=1)
    found = {one.path: one.record for one in layout.walk(str(tmp_path))}
    assert list(found) == [(TOP,), (TOP, CHILD)]
    assert (found[(TOP,)].session_type, found[(TOP,)].metadata) == ("work_track", {})
    assert found[(TOP,)].created == iso(from_iso("2026-01-01T12:00:00"))
    child = found[(TOP, CHILD)]
    assert (child.session_id, child.parent_session_id, child.session_type) == (CHILD, TOP, "unknown")
    assert child.breadcrumbs_dir == f"docs/sessions/{TOP}/{CHILD}/breadcrumbs"
    (read,) = layout.read_breadcrumbs(str(tmp_path), (TOP, CHILD), limit=LIMIT)
    assert (read.prompt, read.timestamp, read.depth_level, read.cost) == ("p", "20260101_120000_000001", 1, None)
    assert layout.find(str(tmp_path), CHILD) == layout.OnDisk((TOP, CHILD), child)
    assert layout.find(str(tmp_path), "20260101_999999") is None


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b"3", b'{"status": 3}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_record_is_shown_as_such(tmp_path: Path, record: bytes):
    """A session.json that cannot be read does not hide its work session or stop the others."""
    foreign(tmp_path, (TOP,), record)
    foreign(tmp_path, (CHILD,), {"session_type": "fine", "created": "tomorrow", "modified": 3})
    found = {one.path[-1]: one.record for one in layout.walk(str(tmp_path))}
    assert (found[TOP].status, found[CHILD].session_type) == ("unreadable", "fine")
    assert (tmp_path / "docs/sessions" / TOP / "session.json").read_bytes() == record


def test_times_without_a_zone_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What another program wrote without a zone is its clock's time, in summer and in winter."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        foreign(tmp_path, (TOP,), {"created": "2026-01-01T12:00:00", "modified": "2026-07-01T12:00:00"})
        (found,) = layout.walk(str(tmp_path))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.record.created == "2026-01-01T11:00:00.000+00:00"
    assert found.record.modified == "2026-07-01T10:00:00.000+00:00"


def test_a_list_of_what_was_applied_survives_a_torn_line(tmp_path: Path):
    """A line cut by a kill is not counted, and what is noted next starts a line of its own."""
    with layout.open_folder(str(tmp_path), (TOP,), create=True) as folder:
        page = [layout.Accepted(TOP, f"{number}-0", crumb(f"c{number}"), applied=True) for number in (1, 2)]
        layout.note_applied(folder, page[:1])
        file = tmp_path / "docs/sessions" / TOP / ".applied"
        file.write_bytes(file.read_bytes() + b"2-0 c")
        assert layout.applied_to(folder) == "1-0"
        layout.note_applied(folder, page)
        assert layout.applied_ids(str(tmp_path), (TOP,)) == {one.breadcrumb.breadcrumb_id for one in page}


def test_links_are_not_followed(tmp_path: Path):
    """A link in the place of a folder, a record or a breadcrumb leads nowhere, and nothing is written through one."""
    outside = tmp_path / "outside"
    foreign(outside, (TOP,), {"session_type": "secret"})
    post(outside, (TOP,), STAMP, {"prompt": "secret"})
    inside = tmp_path / "inside"
    (inside / "docs/sessions").mkdir(parents=True)
    (inside / "docs/sessions" / TOP).symlink_to(outside / "docs/sessions" / TOP)
    assert list(layout.walk(str(inside))) == []
    with pytest.raises(WorkFailed):
        layout.open_folder(str(inside), (TOP,), create=True)

    foreign(inside, (CHILD,), {})
    (inside / "docs/sessions" / CHILD / "session.json").unlink()
    (inside / "docs/sessions" / CHILD / "session.json").symlink_to(outside / "docs/sessions" / TOP / "session.json")
    (inside / "docs/sessions" / CHILD / "breadcrumbs").symlink_to(outside / "docs/sessions" / TOP / "breadcrumbs")
    (one,) = layout.walk(str(inside))
    assert one.record.session_type != "secret"
    assert layout.read_breadcrumbs(str(inside), (CHILD,), limit=LIMIT) == []
    with layout.open_folder(str(inside), (CHILD,)) as folder, pytest.raises(WorkFailed):
        layout.Filing(folder).add(crumb("x"))
    assert len(list((outside / "docs/sessions" / TOP / "breadcrumbs/0").iterdir())) == 1


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "breadcrumbs", "\0"])
def test_only_ids_become_paths(tmp_path: Path, name: str):
    """A name that is no id opens and makes nothing."""
    with pytest.raises(InvalidValue):
        layout.open_folder(str(tmp_path), (TOP, name), create=True)
    assert list(tmp_path.iterdir()) == []


def test_breadcrumbs_are_sorted_and_each_is_there_once(tmp_path: Path):
    """Copies of a breadcrumb under other names count once; damaged files are passed over."""
    foreign(tmp_path, (TOP,), {})
    post(tmp_path, (TOP,), "b", {"breadcrumb_id": "2", "timestamp": "20260101_000002_0"})
    post(tmp_path, (TOP,), "c", {"breadcrumb_id": "1", "timestamp": "2026-01-01T00:00:01"}, depth=7)
    post(tmp_path, (TOP,), "copy", {"breadcrumb_id": "2", "timestamp": "20260101_000002_0"}, depth=7)
    post(tmp_path, (TOP,), "damaged", b'{"prompt": ')
    found = layout.read_breadcrumbs(str(tmp_path), (TOP,), limit=LIMIT)
    assert [one.breadcrumb_id for one in found] == ["1", "2"]


def test_a_strict_reader_of_the_layout_can_read_ours(tmp_path: Path):
    """What is written has exactly the fields of the layout, so that a program that knows only those takes it."""
    with layout.open_folder(str(tmp_path), (TOP,), create=True) as folder, layout.Filing(folder) as filing:
        name = filing.add(crumb("x", depth_level=4))
    assert name == f"breadcrumbs/4/{STAMP}.json"
    stored = json.loads((tmp_path / "docs/sessions" / TOP / name).read_text())
    assert set(stored) == {
        "timestamp", "breadcrumb_id", "prompt", "response", "tools_called", "files_modified", "parent_session_id",
        "depth_level", "model_used", "token_count", "cost", "error",
    }  # fmt: skip
    assert stored["token_count"] == {"input": 3, "output": 2}


def test_records_that_are_each_others_parents_end(tmp_path: Path):
    """A circle in a damaged tree is shown once and does not go round for ever."""
    foreign(tmp_path, (TOP,), {"parent_session_id": CHILD, "created": "1"})
    foreign(tmp_path, (CHILD,), {"parent_session_id": TOP, "created": "2"})
    foreign(tmp_path, ("20270101",), {"parent_session_id": "20270101", "created": "3"})
    nodes: list[Node] = tree_of(one.record for one in layout.walk(str(tmp_path)))
    seen = [record.session_id for node in nodes for _, record in node.walk()]
    assert sorted(seen) == sorted([TOP, CHILD, "20270101"])


def test_moving_into_another_folder_takes_single_names(tmp_path: Path):
    """A file is moved between two open folders, never by a path."""
    (tmp_path / "a").mkdir()
    (tmp_path / "f").write_text("x")
    with Folder.open(str(tmp_path)) as top, top.child("a") as inner:
        top.move("f", "g", into=inner)
        assert inner.status("g") is not None
        assert inner.status("f") is None
        with pytest.raises(WorkFailed):
            inner.move("g", "../f")


def test_filing_is_repeatable_and_numbers_what_is_left_at_the_same_moment(tmp_path: Path):
    """However many share a time, each has its file; filing them again, in part or in another order, adds none."""
    crumbs = [crumb(f"c{number}") for number in range(30)]
    for some in (crumbs[:3], crumbs, crumbs[::-1]):
        with layout.open_folder(str(tmp_path), (TOP,), create=True) as folder, layout.Filing(folder) as filing:
            names = {one.breadcrumb_id: filing.add(one) for one in some}
    assert names["c0"] == f"breadcrumbs/0/{STAMP}.json"
    assert names["c29"] == f"breadcrumbs/0/{STAMP}-30.json"
    found = layout.read_breadcrumbs(str(tmp_path), (TOP,), limit=LIMIT)
    assert len(list((tmp_path / "docs/sessions" / TOP / "breadcrumbs/0").iterdir())) == len(found) == 30
    # a file that cannot be read is passed over, never written over
    post(tmp_path, (TOP,), "20270101_000000_000000", b"")
    with layout.open_folder(str(tmp_path), (TOP,)) as folder, layout.Filing(folder) as filing:
        assert filing.add(crumb("new", timestamp="20270101_000000_000000")).endswith("_000000-2.json")
