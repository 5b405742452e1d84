"""Checkpoints change an archive where it is: what others have there stays, and what is interrupted is put right."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from maestro_state.errors import ArchiveFailed, FileCorrupt, MaestroError
from maestro_state.fs import tree
from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.mirror import pending
from maestro_state.mirror.home import STAGING, Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.parcel import contents_of
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.verify import verify
from maestro_state.mirror.view import open_view
from maestro_state.mirror.writer import Generation, replacing
from tests.support.generations import (
    SESSION_ID,
    contents,
    folder_of,
    generation_of,
    generation_read,
    home_of,
    write_generation,
)


def interrupted(project: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
    """Checkpoint, and end as a kill does: before the manifest is in place, or right after it."""
    move, undo = Tree.move, as_killed(monkeypatch)

    def stop(self, path, target):
        if path == layout.MANIFEST and after:
            move(self, path, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Tree, "move", stop)
    with pytest.raises(KeyboardInterrupt):
        write_generation(project, number, in_place=True)
    monkeypatch.setattr(Tree, "move", move)
    undo()


def as_killed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Do without what a process that is not killed does at the end."""
    original = Generation.abandon
    monkeypatch.setattr(Generation, "abandon", lambda self: self._writers.close())
    return lambda: monkeypatch.setattr(Generation, "abandon", original)


def test_a_checkpoint_touches_only_what_changed(kept: Path):
    """The folder stays the same one, and so does every file that only grew or did not change."""
    before = {path: path.stat() for path in folder_of(kept).rglob("*") if path.is_file()}
    folder = folder_of(kept).stat().st_ino
    write_generation(kept, 2, in_place=True)
    assert folder_of(kept).stat().st_ino == folder
    same = {path.name for path, status in before.items() if path.stat().st_ino == status.st_ino}
    assert same == {"ctx-0001.txt", "events.jsonl"}
    write_generation(kept, 1)
    assert folder_of(kept).stat().st_ino != folder  # control: a generation that is swapped in is another folder


@pytest.mark.parametrize("folder", ["", "mynotes", "exports/sub", "runs/0001", "mynotes/deep/down"])
def test_what_others_do_in_the_folder_is_kept(kept: Path, folder: str):
    """A file that somebody puts there stays through every generation as it is, and one that goes stays away."""
    theirs = folder_of(kept) / folder
    theirs.mkdir(parents=True, exist_ok=True)
    (theirs / "a.txt").write_text("a")
    write_generation(kept, 2, in_place=True)
    (theirs / "canary.txt").write_text("canary")
    (theirs / "a.txt").unlink()
    for number, in_place in ((1, True), (2, False), (1, True)):
        write_generation(kept, number, in_place=in_place)
        assert generation_of(kept) == number
        assert {path.name: path.read_text() for path in theirs.glob("*.txt")} == {"canary.txt": "canary"}
        home_of(kept).put_export(SESSION_ID, "page.md", b"page")


@pytest.mark.parametrize("path", ["late.txt", "runs/late.txt", "mynotes/late.txt"])
def test_what_others_put_there_while_a_generation_is_built_is_kept(
    kept: Path, monkeypatch: pytest.MonkeyPatch, path: str
):
    """A file that comes just before the swap is in the generation after it, and in those that follow."""
    late, swap = folder_of(kept) / path, Home.swap

    def swap_late(self, folder, session_id, staged):
        late.parent.mkdir(exist_ok=True)
        late.write_text("late")
        monkeypatch.undo()
        return swap(self, folder, session_id, staged)

    monkeypatch.setattr(Home, "swap", swap_late)
    for number in (2, 1, 2):
        write_generation(kept, number)
        assert generation_of(kept) == number
        assert late.read_text() == "late"


@pytest.mark.parametrize("in_place", [True, False])
def test_a_file_of_others_under_a_name_that_is_ours_later_gives_way(kept: Path, in_place: bool):
    """It stays while nothing of ours has that name; then ours is written, at the first try."""
    path = "outputs/relevant.json"
    (folder_of(kept) / path).write_bytes(b"somebody's")
    for number in (2, 1, 2):
        write_generation(kept, number, in_place=in_place)
    assert (folder_of(kept) / path).read_bytes() == b"somebody's"
    with replacing(home_of(kept), SESSION_ID) as generation:
        if in_place:
            generation.change_in_place()
        for name, content in (contents(1) | {path: b"ours"}).items():
            generation.put(name, content)
        generation.commit(last_id="3-0", written_at="")
    assert (folder_of(kept) / path).read_bytes() == b"ours"
    assert verify(home_of(kept), SESSION_ID).ok


def test_a_folder_in_the_way_of_a_file_is_said_before_anything_changes(kept: Path):
    """The archive is as it was, and the folder too."""
    (folder_of(kept) / "outputs/relevant.json/theirs").mkdir(parents=True)
    with pytest.raises(MaestroError), replacing(home_of(kept), SESSION_ID) as generation:  # noqa: PT012
        generation.change_in_place()
        for name, content in (contents(2) | {"outputs/relevant.json": b"ours"}).items():
            generation.put(name, content)
        generation.commit(last_id="3-0", written_at="")
    assert generation_of(kept) == 1
    assert verify(home_of(kept), SESSION_ID).ok
    assert os.listdir(folder_of(kept).parent / STAGING) == []


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_change_is_finished_or_undone(kept: Path, monkeypatch: pytest.MonkeyPatch, after: bool):
    """Until somebody takes the lock, readers see one generation; afterwards, every program does."""
    interrupted(kept, monkeypatch, 2, after=after)
    assert generation_of(kept) is None  # control: file by file it is a mixture
    wanted = 2 if after else 1
    assert generation_read(kept) == wanted
    archived = ArchivedSession(home_of(kept), SESSION_ID)
    assert archived.record().notes == archived.contents()[0].notes == f"generation {wanted}"
    assert len(list(archived.events())) == wanted
    assert verify(home_of(kept), SESSION_ID).ok
    with home_of(kept).locked(SESSION_ID):
        assert generation_of(kept) == wanted
    assert os.listdir(folder_of(kept).parent / STAGING) == []


def test_a_file_that_went_with_an_interrupted_change_is_gone(kept: Path, monkeypatch: pytest.MonkeyPatch):
    """Also while it is still there: a reader that goes by the manifest does not see it."""
    path = "outputs/last_output.json"

    def write(*, with_it: bool) -> None:
        with replacing(home_of(kept), SESSION_ID) as generation:
            generation.change_in_place()
            generation.keep_all()
            if with_it:
                generation.put(path, layout.pretty({"run_id": "0001", "timestamp": "now"}))
            else:
                generation.leave_out(path)
            generation.commit(last_id="3-0", written_at="")

    write(with_it=True)
    assert (ArchivedSession(home_of(kept), SESSION_ID).last_output() or {})["run_id"] == "0001"
    put = pending._put_in_place
    undo = as_killed(monkeypatch)
    monkeypatch.setattr(pending, "_put_in_place", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write(with_it=False)
    undo()
    monkeypatch.setattr(pending, "_put_in_place", put)
    assert (folder_of(kept) / path).exists()  # control
    assert ArchivedSession(home_of(kept), SESSION_ID).last_output() is None
    assert verify(home_of(kept), SESSION_ID).ok
    home_of(kept).sweep_leftovers()
    assert not (folder_of(kept) / path).exists()


@pytest.mark.parametrize("kind", ["link", "file", "deep", "foreign files"])
def test_what_others_put_in_the_place_of_what_waits_changes_nothing(kept: Path, kind: str):
    """A link is not followed, and a file is put in place only if the manifest knows it by its digest."""
    outside = kept / "outside"
    outside.mkdir()
    (outside / "session.json").write_text("canary")
    (outside / ".gone.json").write_text('["session.json", "../../../outside/session.json", "NOTES.txt"]')
    (folder_of(kept) / "NOTES.txt").write_text("mine")
    place = folder_of(kept).parent / STAGING / f"{SESSION_ID}.next"
    if kind == "link":
        place.symlink_to(outside)
    elif kind == "file":
        place.write_text("a file")
    elif kind == "deep":
        (place / "/".join("abcdefghijkl")).mkdir(parents=True)
    else:
        shutil.copytree(outside, place)
    assert generation_read(kept) == 1
    assert verify(home_of(kept), SESSION_ID).ok
    write_generation(kept, 2, in_place=True)
    assert generation_of(kept) == 2
    assert (folder_of(kept) / "NOTES.txt").read_text() == "mine"
    assert sorted(os.listdir(outside)) == [".gone.json", "session.json"]
    assert os.listdir(folder_of(kept).parent / STAGING) == []


def test_a_file_with_a_second_name_does_not_grow_in_place(kept: Path):
    """Somebody keeps the events under another name, as a replaced generation in the trash does: they stay as they
    were there.
    """
    os.link(folder_of(kept) / "events.jsonl", kept / "second")
    write_generation(kept, 2, in_place=True)
    assert generation_of(kept) == 2
    assert (kept / "second").read_bytes() == contents(1)["events.jsonl"]


@pytest.mark.parametrize("damage", [b"", b"x", None])
def test_a_damaged_file_is_not_added_to(kept: Path, damage: bytes | None):
    """Cut, changed or longer than it was written: the checkpoint says so, and nothing is changed."""
    events = folder_of(kept) / "events.jsonl"
    events.write_bytes(events.read_bytes() + b"more" if damage is None else damage)
    found = events.read_bytes()
    with pytest.raises(FileCorrupt), replacing(home_of(kept), SESSION_ID) as generation:  # noqa: PT012
        generation.change_in_place()
        generation.append("events.jsonl", b"{}\n")
    assert events.read_bytes() == found
    assert not verify(home_of(kept), SESSION_ID).ok


def test_what_cannot_be_written_to_is_said_and_cut_off_again(kept: Path, monkeypatch: pytest.MonkeyPatch):
    """The disk takes half of what a file grows by: it has what it had, and the next checkpoint works."""
    write = tree.write_all

    def half(descriptor, content):
        write(descriptor, content[: len(content) // 2])

    monkeypatch.setattr(tree, "write_all", half)
    with pytest.raises(ArchiveFailed):
        write_generation(kept, 2, in_place=True)
    monkeypatch.setattr(tree, "write_all", write)
    assert generation_of(kept) == 1
    write_generation(kept, 2, in_place=True)
    assert generation_of(kept) == 2


def test_a_reader_sees_one_generation_whatever_comes_meanwhile(kept: Path, monkeypatch: pytest.MonkeyPatch):
    """The record and the rest are of one generation, though the archive is changed between the two."""
    read, coming = ArchivedSession._own, [2]

    def meanwhile(self, tree, manifest):
        while coming:
            write_generation(kept, coming.pop(), in_place=True)
        return read(self, tree, manifest)

    monkeypatch.setattr(ArchivedSession, "_own", meanwhile)
    assert ArchivedSession(home_of(kept), SESSION_ID).contents()[0].notes == "generation 2"
    coming.append(1)
    monkeypatch.setattr("maestro_state.mirror.view._TRIES", 1)
    assert ArchivedSession(home_of(kept), SESSION_ID).contents()[0].notes == "generation 2"  # control: read once


def test_lines_that_are_not_counted_yet_are_not_read(kept: Path):
    """Whoever opened the archive before a checkpoint began reads no half of a line that it adds."""
    with open_view(home_of(kept), SESSION_ID) as view:
        with (folder_of(kept) / "events.jsonl").open("ab") as file:
            file.write(b'{"id": "2-0", "ty')
        assert b"".join(view.pieces("events.jsonl") or ()) == contents(1)["events.jsonl"]


def test_what_an_earlier_version_kept_is_removed(kept: Path):
    """Its spare trees, which share files with the archive: the archive goes on, and the sweep takes them away."""
    spare = folder_of(kept).parent / ".spare"
    shutil.copytree(folder_of(kept), spare / SESSION_ID, copy_function=os.link)
    (spare / f"{SESSION_ID}.json").write_text("{}")
    write_generation(kept, 2, in_place=True)
    assert generation_of(kept) == 2
    assert (spare / SESSION_ID / "events.jsonl").read_bytes() == contents(1)["events.jsonl"]  # it had a second name
    assert home_of(kept).sweep_leftovers() == [".spare"]
    assert not spare.exists()
    write_generation(kept, 1, in_place=True)
    assert generation_of(kept) == 1


@pytest.mark.parametrize("kind", ["link", "file"])
def test_something_else_under_that_name_is_left_alone(kept: Path, kind: str):
    """Neither followed nor removed."""
    outside = kept / "outside"
    outside.mkdir()
    (outside / "canary").write_text("canary")
    spare = folder_of(kept).parent / ".spare"
    if kind == "file":
        spare.write_text("a file")
    else:
        spare.symlink_to(outside)
    assert home_of(kept).sweep_leftovers() == []
    assert home_of(kept).move_to_trash(SESSION_ID)
    assert os.listdir(outside) == ["canary"]
    assert spare.is_symlink() or spare.read_text() == "a file"


def test_a_session_that_goes_takes_what_was_kept_of_it_along(kept: Path):
    """Removed or in the trash, nothing of it stays beside the sessions."""
    for gone in (home_of(kept).remove, home_of(kept).move_to_trash):
        write_generation(kept, 1)
        (folder_of(kept).parent / ".spare" / SESSION_ID).mkdir(parents=True)
        gone(SESSION_ID)
        assert not (folder_of(kept).parent / ".spare").exists()


def test_the_folder_is_opened_without_following_a_link(kept: Path):
    """A run's folder that became a link out of the project is not written through."""
    outside = kept / "outside"
    outside.mkdir()
    (folder_of(kept) / "runs").rmdir()
    (folder_of(kept) / "runs").symlink_to(outside)
    with pytest.raises(MaestroError), replacing(home_of(kept), SESSION_ID) as generation:  # noqa: PT012
        generation.change_in_place()
        generation.keep_all()
        generation.put("runs/0001/output.txt", b"secret")
        generation.commit(last_id="3-0", written_at="")
    assert os.listdir(outside) == []
    assert generation_of(kept) == 1
    with Folder.open(str(folder_of(kept))) as folder:
        assert folder.kinds()["runs"] == "other"


def test_what_is_sent_is_of_one_generation(kept: Path):
    """A checkpoint in the middle of sending an archive changes nothing of what is sent."""
    sending = contents_of(home_of(kept), SESSION_ID, 16)
    sent = [next(sending)]
    write_generation(kept, 2, in_place=True)
    sent += sending
    found: dict[str, bytes] = {}
    for path, piece in sent:
        found[path] = found.get(path, b"") + piece
    manifest = layout.decode_manifest(found.pop(layout.MANIFEST), SESSION_ID)
    assert found == contents(1)
    assert {path: layout.sha256(content) for path, content in found.items()} == {
        path: entry.sha256 for path, entry in manifest.files.items()
    }
    assert generation_of(kept) == 2  # control
