"""What is read as the session a checkout is on, and what is said of a file that is none of ours."""

from __future__ import annotations

import os

import pytest

from maestro_state.errors import FileCorrupt, WorkFailed
from maestro_state.local.project import Project


@pytest.fixture
def active(tmp_path):
    """Give the path of the file, in a project that has none yet."""
    folder = tmp_path / ".maestro" / "sessions"
    folder.mkdir(parents=True)
    return folder / "active"


def test_it_is_what_the_file_names(tmp_path, active):
    """Without the file, and with an empty one, there is none."""
    project = Project(str(tmp_path))
    assert project.active() is None
    active.write_text("\n")
    assert project.active() is None
    active.write_text("fix-login--abc123\n")
    assert project.active() == "fix-login--abc123"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_named(tmp_path, active, make):
    """A pipe does not hang, and a folder is refused with its path."""
    make(active)
    with pytest.raises(FileCorrupt, match=f"^{active} is not a file of Maestro's$"):
        Project(str(tmp_path)).active()


@pytest.mark.parametrize("part", ["active", "."])
def test_a_link_is_not_followed(tmp_path, active, part):
    """Neither the file nor a folder on the way to it; the one that is a link is named."""
    place = active.parent / part
    if part == ".":
        place.rmdir()
    place.symlink_to("/etc/hostname" if part == "active" else "/tmp")
    with pytest.raises(WorkFailed, match=f"^{place} is a link or not a folder"):
        Project(str(tmp_path)).active()
