"""What killed processes, and others, left beside an archive: nothing in it stands in anybody's way for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from maestro_state.local.project import Project
from maestro_state.mirror.home import STAGING, Home, next_name
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.verify import verify
from tests.support.generations import SESSION_ID, contents, folder_of, generation_of, write_generation


def home_of(project: Path) -> Home:
    return Home.of_project(Project(project))


def staging_of(project: Path) -> Path:
    return project / ".maestro/sessions" / STAGING


def interrupt(project: Path) -> Path:
    """Leave what a checkpoint leaves that was killed before its moment; return the folder of what waits."""
    waiting = staging_of(project) / next_name(SESSION_ID)
    (waiting / "context").mkdir(parents=True)
    (waiting / layout.SESSION).write_bytes(contents(2)[layout.SESSION])
    with (folder_of(project) / layout.EVENTS).open("ab") as events:
        events.write(b"not counted yet\n")
    return waiting


@pytest.mark.parametrize("path", [layout.SESSION, layout.ACTIVE, layout.EVENTS])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_file_among_what_waits_stands_in_nobodys_way(kept: Path, tmp_path: Path, kind: str, path: str):
    """A link or a pipe there is nothing Maestro left: the archive is read, written and swept as if it were not."""
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    planted = interrupt(kept) / path
    planted.unlink(missing_ok=True)
    if kind == "link":
        planted.symlink_to(outside)
    else:
        os.mkfifo(planted)
    assert verify(home_of(kept), SESSION_ID).ok
    write_generation(kept, 2, in_place=True)
    assert generation_of(kept) == 2
    assert outside.read_text() == "theirs"
    assert os.listdir(staging_of(kept)) == []


def test_a_file_with_a_second_name_is_not_cut(kept: Path, tmp_path: Path):
    """Whose it is nobody can tell: it stays as long as it is, and verify says so."""
    interrupt(kept)
    events = folder_of(kept) / layout.EVENTS
    os.link(events, tmp_path / "theirs")
    size = events.stat().st_size
    home_of(kept).sweep_leftovers()
    assert os.listdir(staging_of(kept)) == []  # control: it was put right
    assert (tmp_path / "theirs").stat().st_size == size
    assert [one.path for one in verify(home_of(kept), SESSION_ID).damaged] == [layout.EVENTS]
