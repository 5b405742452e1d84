"""A repository cannot bring the data a server starts from."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.errors import ServerUnavailable
from maestro_state.local.embedded import ensure, origin, stop, vouch_for_data
from maestro_state.local.embedded.paths import data_path
from tests.support.embedded_project import call, temporary_project


@pytest.fixture
def filled(project: Path) -> Path:
    """Give a project whose stopped server has data."""
    ensure(project, supervise=False)
    call(project, "SET", "key", "value")
    stop(project)
    return project


def test_data_from_elsewhere_is_not_loaded_before_it_is_trusted(project: Path):
    """Copied server data is refused, untouched, and used once its owner says so."""
    with Maestro(project) as maestro:
        session = maestro.sessions.start("made-here")
        maestro.stack.stop()
    clone = project / "clone"
    # Sockets cannot be copied; the resident process leaves one if it had the time to make it.
    shutil.copytree(project / ".maestro", clone / ".maestro", ignore=shutil.ignore_patterns("*.sock"))
    try:
        with Maestro(clone) as maestro, pytest.raises(ServerUnavailable, match="not made here"):
            maestro.sessions.read(session.id)

        assert vouch_for_data(clone)
        with Maestro(clone) as maestro:
            assert maestro.sessions.read(session.id).slug == "made-here"
    finally:
        stop(clone)


def test_own_data_is_loaded_again_without_asking(project: Path):
    """The control: the same data in its own place needs no word."""
    for _ in range(2):
        with Maestro(project) as maestro:
            maestro.sessions.start("again")
            maestro.stack.stop()
    with Maestro(project) as maestro:
        assert len(maestro.sessions.list()) == 2


@pytest.mark.parametrize("guess", ["inode", "nothing", "digest", "zeros", "link"])
def test_no_mark_that_can_be_guessed_is_believed(filled: Path, guess: str, own_home: Path):
    """Neither the inode number, which earlier versions wrote, nor what may be read anywhere makes data one's own."""
    mark = Path(data_path(filled), origin.MARK)
    own = mark.read_bytes()
    (record,) = _records(own_home)
    mark.unlink()
    match guess:
        case "inode":
            mark.write_text(f"{Path(data_path(filled)).stat().st_ino}\n")
        case "digest":
            mark.write_text(record.name)
        case "zeros":
            mark.write_bytes(b"0" * len(own))
        case "link":
            (filled / "elsewhere").write_bytes(own)
            mark.symlink_to(filled / "elsewhere")
    with pytest.raises(
        ServerUnavailable, match="earlier version" if guess == "inode" else "not made here|symlink"
    ) as no:
        ensure(filled, supervise=False)
    assert guess == "link" or "maestro trust" in no.value.hint
    mark.unlink(missing_ok=True)
    mark.write_bytes(own)
    ensure(filled, supervise=False)  # control: it was the mark
    assert call(filled, "GET", "key") == "value"


def test_a_token_that_became_known_counts_in_its_own_folder_only(filled: Path):
    """Whoever publishes a project with its mark gives nobody a way to bring data to another one."""
    with temporary_project() as other:
        shutil.copytree(filled / ".maestro", other / ".maestro")
        with pytest.raises(ServerUnavailable, match="not made here"):
            ensure(other, supervise=False)


def test_a_project_that_was_moved_keeps_its_data(filled: Path):
    """Renaming the project, or a folder above it, asks nothing."""
    moved = filled / "moved"
    moved.mkdir()
    os.rename(filled / ".maestro", moved / ".maestro")
    try:
        ensure(moved, supervise=False)
        assert call(moved, "GET", "key") == "value"
    finally:
        stop(moved)


def test_the_record_is_private_and_holds_no_token(filled: Path, own_home: Path):
    """What lies in the state folder cannot be used to make a mark, and nobody else can read or write it."""
    (record,) = _records(own_home)
    token = Path(data_path(filled), origin.MARK).read_text()
    assert len(token) == 64
    assert token not in record.name + record.read_text()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(data_path(filled), origin.MARK).stat().st_mode) == 0o600
    record.chmod(0o666)
    with pytest.raises(ServerUnavailable, match="not made here"):
        ensure(filled, supervise=False)


def test_a_state_folder_inside_the_project_vouches_for_nothing(filled: Path, own_home: Path, monkeypatch):
    """A project that brings its own records is not believed, and none is kept there."""
    shutil.copytree(own_home / ".local" / "state", filled / "state")
    monkeypatch.setenv("XDG_STATE_HOME", str(filled / "state"))
    with pytest.raises(ServerUnavailable, match="not made here"):
        ensure(filled, supervise=False)
    with pytest.raises(ServerUnavailable, match="no folder outside the project") as caught:
        vouch_for_data(filled)
    assert "XDG_STATE_HOME" in caught.value.hint


def test_a_state_folder_that_cannot_be_written_is_named(project: Path, own_home: Path):
    """The error says where the note would go and what to do."""
    (own_home / ".local").touch()
    with pytest.raises(ServerUnavailable, match=r"cannot note in .*/maestro/servers.*: ") as caught:
        ensure(project, supervise=False)
    assert "XDG_STATE_HOME" in caught.value.hint


def test_data_that_git_put_in_its_place_is_not_loaded(project: Path, monkeypatch):
    """Git replaces files that are ignored without a word: what a pull writes among one's own data is refused."""
    monkeypatch.chdir(project)
    umask = os.umask(0o022)
    try:
        upstream, clone = project / "upstream", project / "clone"
        upstream.mkdir()
        _git(upstream, "init", "-q", "-b", "main")
        _git(upstream, "commit", "-q", "--allow-empty", "-m", "first")
        _git(project, "clone", "-q", str(upstream), str(clone))
        ensure(clone, supervise=False)
        (clone / ".maestro" / ".gitignore").write_text("*\n")
        stop(clone)
        ensure(clone, supervise=False)  # control: it is one's own until then
        stop(clone)
        (log,) = Path(data_path(clone)).glob("data-*/*.incr.aof")
        evil = upstream / log.relative_to(clone)
        evil.parent.mkdir(parents=True)
        evil.write_bytes(b"*3\r\n$3\r\nSET\r\n$4\r\nevil\r\n$1\r\n1\r\n")
        _git(upstream, "add", "-f", ".")
        _git(upstream, "commit", "-q", "-m", "second")
        _git(clone, "pull", "-q")
        assert log.read_bytes() == evil.read_bytes()  # control: git did that
        with pytest.raises(ServerUnavailable, match="not written by its server"):
            ensure(clone, supervise=False)
        assert vouch_for_data(clone)
        ensure(clone, supervise=False)
        assert call(clone, "GET", "evil") == "1"
        stop(clone)
    finally:
        os.umask(umask)


def test_a_pull_cannot_name_the_data_of_who_keeps_everything_private(project: Path, monkeypatch):
    """With umask 077 git's files have the server's own mode: they are not loaded, because their names are not known."""
    monkeypatch.chdir(project)
    umask = os.umask(0o077)
    try:
        upstream, clone = project / "upstream", project / "clone"
        evil = upstream / ".maestro" / "server" / origin.DATA
        _git(project, "init", "-q", "-b", "main", str(upstream))
        _git(upstream, "commit", "-q", "--allow-empty", "-m", "first")
        _git(project, "clone", "-q", str(upstream), str(clone))
        ensure(clone, supervise=False)
        call(clone, "SET", "own", "1")
        (clone / ".maestro" / ".gitignore").write_text("*\n")
        stop(clone)
        (data,) = Path(data_path(clone)).glob("data-*")
        shutil.copytree(data, evil)  # all that a stranger could know from a project of their own
        (log,) = evil.glob("*.incr.aof")
        log.write_bytes(b"*3\r\n$3\r\nSET\r\n$4\r\nevil\r\n$1\r\n1\r\n")
        _git(upstream, "add", "-f", ".")
        _git(upstream, "commit", "-q", "-m", "second")
        _git(clone, "pull", "-q")
        assert Path(data_path(clone), origin.DATA, log.name).read_bytes() == log.read_bytes()
        ensure(clone, supervise=False)
        assert (call(clone, "GET", "own"), call(clone, "EXISTS", "evil")) == ("1", "0")
        stop(clone)
        shutil.rmtree(data)  # control: laid out as by earlier versions it would have been loaded
        ensure(clone, supervise=False)
        assert call(clone, "EXISTS", "evil") == "1"
        stop(clone)
    finally:
        os.umask(umask)


def test_data_of_earlier_versions_moves_to_its_own_name(project: Path):
    """What is one's own is found where it was, by whoever looks first, and is under the new name from then on."""
    ensure(project, supervise=False)
    call(project, "SET", "key", "value")
    stop(project)
    (data,) = Path(data_path(project)).glob("data-*")
    data.rename(data.with_name(origin.DATA))
    ensure(project, supervise=False)
    assert call(project, "GET", "key") == "value"
    stop(project)
    assert data.is_dir()
    assert vouch_for_data(project)  # a new mark is a new name
    decoy = data.with_name("data-decoy")
    decoy.mkdir()
    (decoy / "file").touch()
    mark = Path(data_path(project), origin.MARK)
    kept = mark.read_bytes()
    mark.unlink()
    with pytest.raises(ServerUnavailable, match="not made here"):  # without its mark it is not taken for an empty one
        ensure(project, supervise=False)
    with pytest.raises(ServerUnavailable, match="more than one"):
        vouch_for_data(project)
    mark.write_bytes(kept)
    mark.chmod(0o600)
    ensure(project, supervise=False)
    assert call(project, "GET", "key") == "value"
    assert not data.exists()
    (now,) = (path for path in data.parent.glob("data-*") if path != decoy)
    assert vouch_for_data(project)  # while it runs: nothing moves under it
    assert now.is_dir()
    mark.unlink()
    with pytest.raises(ServerUnavailable, match="a server runs"):
        vouch_for_data(project)
    stop(project)


def test_a_home_folder_can_be_a_project(monkeypatch):
    """The state folder is inside the project then, and nobody can bring one without bringing the other."""
    with temporary_project() as home:
        monkeypatch.setenv("HOME", str(home))
        ensure(home, supervise=False)
        call(home, "SET", "key", "value")
        stop(home)
        ensure(home, supervise=False)
        assert call(home, "GET", "key") == "value"


def _git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def _records(home: Path) -> list[Path]:
    return list((home / ".local" / "state" / "maestro" / "servers").iterdir())
