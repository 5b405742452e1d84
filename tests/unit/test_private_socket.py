"""Sockets of one user: nobody else's is connected to, however its name is swapped."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from maestro_state.errors import ServerUnavailable
from maestro_state.fs import private_socket
from tests.support.other_user import UID, flickering, listening_as_another_user
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="being another user needs root")


@pytest.fixture
def place():
    """Give a folder with a short path, and its handle."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/tmp") as name:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield Path(name), folder
        finally:
            os.close(folder)


def test_one_listens_and_another_connects(place):
    """What was put in place is this user's alone, is found at once and says who listens."""
    path, folder = place
    with private_socket.listen(folder, "a.sock") as listener:
        assert stat.S_IMODE((path / "a.sock").lstat().st_mode) == 0o600
        with private_socket.connect(folder, "a.sock") as line, listener.accept()[0] as other:
            line.sendall(b"x")
            assert other.recv(1) == b"x"
            assert private_socket.peer_uid(line) == private_socket.peer_uid(other) == os.geteuid()
    assert os.listdir(path) == ["a.sock"]


def test_the_next_listener_takes_the_name_over(place):
    """A socket that was left behind, or a link in its place, is replaced and never followed."""
    path, folder = place
    private_socket.listen(folder, "a.sock").close()
    with pytest.raises(ConnectionRefusedError):
        private_socket.connect(folder, "a.sock")
    (path / "b.sock").symlink_to(path / "elsewhere")
    for name in ("a.sock", "b.sock"):
        with private_socket.listen(folder, name), private_socket.connect(folder, name):
            pass
    assert not (path / "elsewhere").exists()


def test_what_cannot_be_listened_at_leaves_nothing_behind(place):
    """A folder in the name's place is refused, and no half-made socket stays."""
    path, folder = place
    (path / "a.sock").mkdir()
    with pytest.raises(OSError, match="directory"):
        private_socket.listen(folder, "a.sock")
    assert os.listdir(path) == ["a.sock"]


@pytest.mark.parametrize("kind", ["link", "fifo", "file", "folder"])
def test_what_is_no_socket_is_not_connected_to(place, kind):
    """Each kind is refused at once, with its reason; a link also when it leads to a socket of one's own."""
    path, folder = place
    match kind:
        case "link":
            (path / "a.sock").symlink_to("own.sock")
        case "fifo":
            os.mkfifo(path / "a.sock")
        case "file":
            (path / "a.sock").touch()
        case "folder":
            (path / "a.sock").mkdir()
    with private_socket.listen(folder, "own.sock"):
        with pytest.raises(PermissionError, match="it is a link" if kind == "link" else "no socket"):
            private_socket.connect(folder, "a.sock")
        private_socket.connect(folder, "own.sock").close()  # control: the socket itself is fine


def test_a_name_that_is_not_there_says_so(place):
    """Nobody there is told from somebody else there."""
    with pytest.raises(FileNotFoundError):
        private_socket.connect(place[1], "a.sock")


@needs_root
def test_another_users_socket_is_refused_also_when_its_file_is_made_ours(place):
    """The owner of the file is looked at, and the owner of the process that listens."""
    path, folder = place
    with listening_as_another_user() as trap:
        os.link(trap, path / "a.sock")
        with pytest.raises(PermissionError, match="belongs to another user"):
            private_socket.connect(folder, "a.sock")
        os.chown(path / "a.sock", os.geteuid(), -1)
        with pytest.raises(PermissionError, match="another user's process"):
            private_socket.connect(folder, "a.sock")
        with socket.socket(socket.AF_UNIX) as fooled:
            fooled.connect(str(path / "a.sock"))  # control: a plain connect gets there
            assert private_socket.peer_uid(fooled) != os.geteuid()


@needs_root
def test_a_name_that_flickers_never_leads_to_another_user(place):
    """While a name changes between one's own socket and a link to another's, only one's own is ever reached."""
    path, folder = place
    with (
        private_socket.listen(folder, "own.sock", backlog=4096),
        listening_as_another_user() as trap,
        flickering(path / "a.sock", path / "own.sock", trap),
    ):
        # Control: who looks first and connects then is led astray.
        wait_until(lambda: _whose(lambda: _looked_at_first(path / "a.sock")) == UID, "the other user is reached")
        reached = {_whose(lambda: private_socket.connect(folder, "a.sock")) for _ in range(1000)}
    assert reached <= {os.geteuid(), None}


def test_a_folder_of_links_is_refused_by_path(place):
    """A link on the way is refused with one line that names the path."""
    path, _ = place
    (path / "real").mkdir(mode=0o700)
    (path / "real" / "server").mkdir(mode=0o700)
    inner = os.open(path / "real" / "server", os.O_RDONLY)
    (path / ".maestro").symlink_to("real")
    with private_socket.listen(inner, "s.sock"):
        os.close(inner)
        with pytest.raises(ServerUnavailable, match=r"server/s\.sock is not connected to: \.maestro is a link"):
            private_socket.connect_path(str(path / ".maestro" / "server" / "s.sock"))
        private_socket.connect_path(str(path / "real" / "server" / "s.sock")).close()  # control
        (path / "real" / "server").chmod(0o770)
        with pytest.raises(FileNotFoundError, match="others may write"):
            private_socket.connect_path(str(path / "real" / "server" / "s.sock"))


def _looked_at_first(path: Path) -> socket.socket:
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(str(path))
    except OSError:
        line.close()
        raise
    return line


def _whose(connect: Callable[[], socket.socket]) -> int | None:
    """Return whose process is at the other end, None when nobody was connected to."""
    with suppress(OSError), connect() as line:
        return private_socket.peer_uid(line)
    return None
