"""Where socket and data are, and which folders are refused."""

from __future__ import annotations

import gc
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from maestro_state.errors import ServerUnavailable
from maestro_state.local.embedded import paths


@pytest.fixture
def deep(tmp_path, monkeypatch):
    """Give a project whose path is too long for a socket, and a runtime folder of the test's own."""
    project = tmp_path.joinpath(*["d" * 80] * 3)
    project.mkdir(parents=True)
    # Not below tmp_path, which may itself be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="m-") as runtime:
        monkeypatch.setattr(paths, "MAX_SOCKET_BYTES", len(runtime) + 60)
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield project


def test_a_short_path_has_its_socket_inside_the_project(tmp_path, monkeypatch):
    """The socket lies beside the data, and a symlinked way to the project leads to the same one."""
    monkeypatch.setattr(paths, "MAX_SOCKET_BYTES", 4096)
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    assert paths.socket_path(tmp_path / "alias") == tmp_path / "real" / ".maestro" / "server" / "s.sock"


def test_the_length_that_decides_is_counted_in_bytes(tmp_path):
    """A path whose characters fit and whose bytes do not is too long."""
    base = len(str(tmp_path)) + len("//.maestro/server/s.sock")
    project = tmp_path / ("é" * max(1, paths.MAX_SOCKET_BYTES - base))
    assert paths.socket_path(project).parent != project / ".maestro" / "server"


def test_two_deep_projects_do_not_share_a_socket(deep):
    """The place elsewhere is named after the whole path."""
    other = deep.parent / "other"
    assert paths.socket_path(deep).parent.parent == paths.socket_path(other).parent.parent
    assert paths.socket_path(deep) != paths.socket_path(other)


def test_a_note_leads_back_to_the_socket(deep, monkeypatch):
    """Without the runtime folder in the environment the socket is found where it was put."""
    with paths.open_socket_folder(deep):
        path = paths.socket_path(deep)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    with paths.open_data_folder(deep) as folder:
        paths.note_socket(folder, str(path))
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert paths.socket_path(deep) == path
    path.unlink()
    assert paths.socket_path(deep) != path  # control: a note about nothing is not believed


def test_a_note_cannot_lead_anywhere_else(deep, tmp_path):
    """A project's own file never chooses which socket is opened."""
    expected = paths.socket_path(deep)
    trap = tmp_path / "trap.sock"
    trap.touch()
    with paths.open_data_folder(deep) as folder:
        paths.note_socket(folder, str(trap))
    assert paths.socket_path(deep) == expected


def test_made_folders_are_private(deep):
    """Every folder on the way to socket and data is this user's alone."""
    with paths.open_socket_folder(deep), paths.open_data_folder(deep):
        folders = [*paths.socket_path(deep).parents[:2], deep / ".maestro", deep / ".maestro" / "server"]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 4


def test_a_symlink_in_the_runtime_folder_is_refused(deep, tmp_path):
    """A prepared symlink does not move the socket."""
    Path(os.environ["XDG_RUNTIME_DIR"], f"maestro-{os.geteuid()}").symlink_to(tmp_path)
    with pytest.raises(ServerUnavailable, match="only you can open"):
        paths.socket_path(deep)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away needs root")
@pytest.mark.parametrize("given", [".maestro", ".maestro/server"])
def test_a_folder_of_another_user_is_refused(tmp_path, given):
    """Data is not put where somebody else is in charge."""
    (tmp_path / given).mkdir(parents=True)
    os.chown(tmp_path / given, 12345, 12345)
    with pytest.raises(ServerUnavailable, match="belongs to another user"), paths.open_data_folder(tmp_path):
        pass


def test_opening_without_creating_creates_nothing(tmp_path):
    """Looking at an untouched project leaves it untouched."""
    assert paths.open_folder(tmp_path, paths.SERVER_FOLDER, create=False) is None
    assert list(tmp_path.iterdir()) == []


def test_no_file_stays_open_after_a_refusal(tmp_path):
    """Folder handles are closed on every way out."""
    (tmp_path / ".maestro").mkdir()
    (tmp_path / ".maestro" / "server").touch()
    gc.collect()  # what earlier tests left is not counted
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        with pytest.raises(ServerUnavailable, match="is a file"), paths.open_data_folder(tmp_path):
            pass
    assert len(os.listdir("/dev/fd")) <= before
