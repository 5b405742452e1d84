"""Which folder is the project's, seen from one inside it."""

from __future__ import annotations

import os

import pytest

from maestro_state.errors import UsageError
from maestro_state.local.checkouts import find_checkout
from maestro_state.local.project import Project
from tests.support.other_user import UID


@pytest.fixture
def inner(tmp_path):
    """Give a folder two levels down."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    return folder


def test_the_nearest_maestro_folder_counts_before_git(tmp_path, inner):
    """Without either it is the folder itself."""
    assert find_checkout(inner) == str(inner)
    (tmp_path / "a" / ".git").mkdir()
    assert find_checkout(inner) == str(tmp_path / "a")
    (tmp_path / ".maestro").mkdir()
    assert find_checkout(inner) == str(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
def test_another_users_maestro_folder_above_is_not_taken(tmp_path, inner):
    """What is written below a shared folder does not go to whoever made a .maestro in it; one's own place is named."""
    (tmp_path / ".maestro").mkdir()
    assert find_checkout(inner) == str(tmp_path)  # control: one's own counts
    os.chown(tmp_path / ".maestro", UID, UID)
    assert find_checkout(inner) == str(inner)
    assert find_checkout(tmp_path) == str(tmp_path)


def test_a_maestro_folder_in_a_place_of_everybodys_counts_only_there(tmp_path, inner):
    """One that got into /tmp by accident does not become the project of everything below it."""
    (tmp_path / ".maestro").mkdir()
    assert find_checkout(inner) == str(tmp_path)  # control
    tmp_path.chmod(0o1777)
    assert find_checkout(inner) == str(inner)
    assert find_checkout(tmp_path) == str(tmp_path)


def test_the_whole_system_is_no_project_by_accident(monkeypatch):
    """Nothing is begun in / unless somebody names it."""
    monkeypatch.setattr("maestro_state.local.project.is_begun", lambda _: False)
    monkeypatch.setattr(Project, "sessions", lambda *_, **__: pytest.fail("it was begun"))
    with pytest.raises(UsageError, match="whole system"):
        Project("/", is_named=False).begin()
