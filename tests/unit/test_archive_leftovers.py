"""What killed processes, and others, left beside an archive: nothing in it stands in anybody's way for ever."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from maestro_state.errors import ArchiveFailed, WorkFailed
from maestro_state.fs.handles import Folder
from maestro_state.mirror.home import STAGING, Home, next_name
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.verify import verify
from maestro_state.mirror.writer import replacing
from tests.support.generations import SESSION_ID, contents, folder_of, generation_of, home_of, write_generation


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


def test_what_cannot_be_put_right_does_not_keep_others_from_it(kept: Path):
    """A folder in the place of one session's lock, or of its file: the leftovers of others are swept all the same."""
    others = ("another--abcdef", "zebra--abcdef")
    (kept / ".maestro/sessions" / f".{others[0]}.lock").mkdir()
    for session_id in others:
        (staging_of(kept) / f"{session_id}.{'0' * 12}").mkdir()
    waiting = interrupt(kept)
    (waiting / layout.SESSION).write_bytes((folder_of(kept) / layout.SESSION).read_bytes())
    (folder_of(kept) / layout.SESSION).unlink()
    (folder_of(kept) / layout.SESSION).mkdir()
    assert home_of(kept).sweep_leftovers() == [f"{others[1]}.{'0' * 12}"]
    (folder_of(kept) / layout.SESSION).rmdir()
    assert home_of(kept).sweep_leftovers() == [SESSION_ID]  # control: nothing that waited was dropped meanwhile
    assert verify(home_of(kept), SESSION_ID).ok


def test_a_sweep_takes_nothing_from_whoever_got_the_lock_meanwhile(kept: Path, monkeypatch: pytest.MonkeyPatch):
    """The lock's file that it opened is removed by its holder, and the next one has another of that name."""
    held: list[int] = []
    name, building = f".{SESSION_ID}.lock", staging_of(kept) / f"{SESSION_ID}.{'0' * 12}"
    lock = kept / ".maestro/sessions" / name
    original = Folder._open_lock

    def late(self: Folder, wanted: str) -> int:
        opened = original(self, wanted)
        if wanted == name and not held:
            lock.unlink()
            held.append(os.open(lock, os.O_RDWR | os.O_CREAT))
            fcntl.flock(held[0], fcntl.LOCK_EX)
        return opened

    building.mkdir()
    monkeypatch.setattr(Folder, "_open_lock", late)
    assert home_of(kept).sweep_leftovers() == []
    assert building.is_dir()
    assert lock.exists()
    os.close(held[0])
    assert home_of(kept).sweep_leftovers() == [building.name]  # control: nobody has it any more
    assert not lock.exists()


def replace_with_less(project: Path) -> None:
    """Put a generation in place that has not all of the one before, which goes to the trash."""
    with replacing(home_of(project), SESSION_ID) as generation:
        generation.put(layout.SESSION, contents(2)[layout.SESSION])
        generation.commit(last_id="2-0", written_at="2026-01-01T00:00:00.000+00:00", keep_replaced=True)


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt, WorkFailed("no trash"), OSError(28, "full")])
def test_what_a_generation_replaces_and_has_not_is_never_lost(
    kept: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exchange: bool
):
    """Killed after the swap, or with a trash that takes nothing: the next sweep puts it there."""

    def fail(*_: object) -> str:
        raise error

    if not exchange:
        monkeypatch.setattr(Folder, "exchange", lambda *_: False)
    before = (folder_of(kept) / layout.EVENTS).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Home, "put_into_trash", fail)
        with pytest.raises((KeyboardInterrupt, WorkFailed, ArchiveFailed)):
            replace_with_less(kept)
    assert verify(home_of(kept), SESSION_ID).ok
    assert not (folder_of(kept) / layout.EVENTS).exists()  # control: the new one is in place, without it
    home_of(kept).sweep_leftovers()
    assert os.listdir(staging_of(kept)) == []
    assert (kept / ".maestro/trash" / SESSION_ID / layout.EVENTS).read_bytes() == before


def test_a_lock_that_cannot_be_checked_is_not_kept(kept: Path, monkeypatch: pytest.MonkeyPatch):
    """Nobody would ever let go of it: this process could not write the archive any more, nor could others."""

    def fail(*_: object) -> bool:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("maestro_state.fs.handles.is_current", fail)
        with pytest.raises(ArchiveFailed):
            write_generation(kept, 2, in_place=True)
    write_generation(kept, 2, in_place=True)
    assert generation_of(kept) == 2
