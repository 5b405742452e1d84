"""Rows that were kept are the rows that would be read, whatever happened to the archives meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maestro_state.local.project import Project
from maestro_state.mirror import listing
from maestro_state.mirror.home import Home
from maestro_state.mirror.listing import CACHE, archived_rows

WHEN = "2026-01-02T03:04:05.000+00:00"
#: Of one length, so that a change in place shows in no size.
STATES = ("com_saida", "iniciada_", "abortada_")
IDS = [f"one--{number:06}" for number in range(5)]


@pytest.fixture(autouse=True)
def kept_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep rows of few sessions too."""
    monkeypatch.setattr(listing, "CACHED_FROM", 1)


def record(state: str) -> str:
    return json.dumps({"state": state.strip("_"), "created_at": WHEN, "updated_at": WHEN, "x": "_" * state.count("_")})


def settle(path: Path) -> None:
    """Let a file be old enough to be told from its successor."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - 10**9))


def rows_of(project: Project) -> list[tuple[str, str, bool, bool]]:
    found = archived_rows(project, Home.of_project(project), IDS[0], {IDS[1]})
    return sorted((row.id, row.state, row.orphan, row.active) for row in found.rows)


CHANGE = st.tuples(st.sampled_from(["write", "replace", "damage", "remove", "index", "link", "list"]),
                   st.sampled_from(IDS), st.sampled_from(STATES), st.booleans())  # fmt: skip


def change(folder: Path, what: str, session_id: str, state: str, is_settled: bool) -> None:
    path = folder / session_id / "session.json"
    if what == "remove":
        shutil.rmtree(path.parent, ignore_errors=True)
        return
    if what == "index":
        row = {"id": session_id, "slug": "one", "state": "finalizada", "created_at": WHEN, "updated_at": WHEN}
        (folder / "index.json").write_text(json.dumps({"sessions": [row]}))
        return
    path.parent.mkdir(exist_ok=True)
    if what == "replace" or path.is_symlink():
        path.unlink(missing_ok=True)
    if what == "link":
        path.unlink(missing_ok=True)
        path.symlink_to("/etc/hostname")
        return
    path.write_text("{" if what == "damage" else record(state))
    if is_settled:
        settle(path)


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGE, max_size=25))
def test_kept_rows_are_what_is_on_disk(changes):
    """After any changes, in place and of the same size too, a list with kept rows is a list without."""
    with tempfile.TemporaryDirectory() as root:
        project, folder = Project(root), Path(root, ".maestro/sessions")
        folder.mkdir(parents=True)
        for what, *rest in changes:
            if what == "list":
                kept = rows_of(project)
                aside = (folder / CACHE).read_bytes() if (folder / CACHE).exists() else None
                (folder / CACHE).unlink(missing_ok=True)
                assert rows_of(project) == kept
                if aside is not None:
                    (folder / CACHE).write_bytes(aside)
            else:
                change(folder, what, *rest)
        kept = rows_of(project)
        (folder / CACHE).unlink(missing_ok=True)
        assert rows_of(project) == kept


def test_without_a_look_at_the_files_kept_rows_would_be_wrong(project: Path, monkeypatch: pytest.MonkeyPatch):
    """Control: the same kept rows, believed without their stamps, show a state that is over."""
    folder = project / ".maestro/sessions"
    folder.mkdir(parents=True)
    change(folder, "write", IDS[2], "com_saida", True)
    assert [row[1] for row in rows_of(Project(str(project)))] == ["com_saida"]
    change(folder, "write", IDS[2], "abortada_", True)
    monkeypatch.setattr(listing, "_holds", lambda folder, cache: True)
    assert [row[1] for row in rows_of(Project(str(project)))] == ["com_saida"]
    monkeypatch.undo()
    assert [row[1] for row in rows_of(Project(str(project)))] == ["abortada"]


@pytest.mark.parametrize("content", [b"", b"\xff" * 50, b"\x95\x01\x90\x90\x93\x00\x00\x00\x91\x01"])
def test_a_damaged_cache_is_only_missing(project: Path, content: bytes):
    """Whatever is in its place, rows are read from the records."""
    folder = project / ".maestro/sessions"
    folder.mkdir(parents=True)
    change(folder, "write", IDS[2], "com_saida", True)
    (folder / CACHE).write_bytes(content)
    assert [row[1] for row in rows_of(Project(str(project)))] == ["com_saida"]
    (folder / CACHE).unlink()
    (folder / CACHE).mkdir()
    assert [row[1] for row in rows_of(Project(str(project)))] == ["com_saida"]


def test_few_sessions_leave_no_trace(project: Path, monkeypatch: pytest.MonkeyPatch):
    """Below so many sessions nothing is written by listing them."""
    monkeypatch.undo()
    folder = project / ".maestro/sessions"
    folder.mkdir(parents=True)
    change(folder, "write", IDS[2], "com_saida", True)
    rows_of(Project(str(project)))
    assert os.listdir(folder) == [IDS[2]]
