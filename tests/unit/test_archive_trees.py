"""Generations that share files: nothing in one is lost or changed by what is done to the other."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.verify import verify
from maestro_state.mirror.writer import replacing
from tests.support.generations import SESSION_ID, folder_of, generation_of, write_generation


@pytest.mark.parametrize("refusal", [errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP])
def test_where_files_take_no_second_name_they_are_copied(project: Path, monkeypatch: pytest.MonkeyPatch, refusal: int):
    """Generation after generation is whole, and what others put there stays, and stays away once it is gone."""

    def link(*_args: object, **_options: object) -> None:
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(os, "link", link)
    write_generation(project, 1, runs=2)
    for path in ("NOTES.txt", "runs/0001/mine.txt"):
        (folder_of(project) / path).write_text("mine")
    for number in (2, 1, 2, 1):
        write_generation(project, number, runs=2)
        assert generation_of(project, 2) == number
        assert verify(Home.of_project(Project(project)), SESSION_ID).ok
        assert {(folder_of(project) / path).read_text() for path in ("NOTES.txt", "runs/0001/mine.txt")} == {"mine"}
    (folder_of(project) / "NOTES.txt").unlink()
    for number in (2, 1):
        write_generation(project, number, runs=2)
        assert not (folder_of(project) / "NOTES.txt").exists()
    assert {path.stat().st_nlink for path in folder_of(project).rglob("*") if path.is_file()} == {1}  # control


@pytest.mark.parametrize("in_place", [False, True])
def test_what_others_write_to_their_file_is_kept(kept: Path, in_place: bool):
    """It is their file, whichever way the next generations are written."""
    notes = folder_of(kept) / "NOTES.txt"
    notes.write_text("first")
    for number in (2, 1):
        write_generation(kept, number, in_place=in_place)
    with notes.open("a") as file:
        file.write(", second")
    for number in (2, 1, 2):
        write_generation(kept, number, in_place=in_place)
        assert notes.read_text() == "first, second"


@pytest.mark.parametrize("in_place", [False, True])
def test_files_made_read_only_are_replaced(kept: Path, in_place: bool):
    """Somebody protects an archive: the next checkpoints go on, with files of their own."""
    for path in folder_of(kept).rglob("*"):
        if path.is_file():
            path.chmod(0o444)
    write_generation(kept, 2, in_place=in_place)
    assert stat.S_IMODE((folder_of(kept) / "session.json").stat().st_mode) == 0o600
    assert verify(Home.of_project(Project(kept)), SESSION_ID).ok


@pytest.mark.parametrize("in_place", [False, True])
def test_a_file_with_a_second_name_is_never_written_over(kept: Path, in_place: bool):
    """Somebody keeps a file under another name: it stays what it was, and so does a link in its place."""
    mine = folder_of(kept) / "session.json"
    before = mine.read_bytes()
    os.link(mine, kept / "second")
    number = mine.stat().st_ino
    write_generation(kept, 2, in_place=in_place)
    assert (kept / "second").read_bytes() == before
    assert mine.stat().st_ino != number
    with Folder.open(str(kept)) as folder:
        os.link(kept / "second", kept / "third")
        os.symlink(kept / "second", kept / "link")
        os.mkfifo(kept / "pipe")
        for name, refusal in (("third", FileExistsError), ("link", OSError), ("pipe", FileExistsError)):
            with pytest.raises(refusal):
                folder.open_own(name)
        assert (kept / "second").read_bytes() == before


@pytest.mark.parametrize("in_place", [False, True])
def test_contents_that_never_change_are_stored_once(project: Path, in_place: bool):
    """Equal ones, in one generation or in several, are one file; a name whose content changes is never among them."""

    def write(last_id: str, files: dict[str, bytes]) -> None:
        with replacing(Home.of_project(Project(project)), SESSION_ID) as generation:
            if in_place and generation.old:
                generation.change_in_place()
            generation.keep_all()
            for path, content in files.items():
                if layout.is_lasting(path):
                    generation.put_lasting(path, content, layout.sha256(content))
                else:
                    generation.put(path, content)
            generation.commit(last_id=last_id, written_at="")
        assert verify(Home.of_project(Project(project)), SESSION_ID).ok

    write("1-0", {"session.json": b"same", "runs/0001/prompt.txt": b"same", "runs/0002/prompt.txt": b"same"})
    write("2-0", {"session.json": b"other", "runs/0003/prompt.txt": b"same", "context/blobs/ctx-0001.txt": b"same"})
    write("3-0", {"session.json": b"same", "runs/0004/sent_context.json": b"same", "runs/0004/prompt.txt": b"new"})
    names = ["runs/0001/prompt.txt", "runs/0002/prompt.txt", "runs/0003/prompt.txt", "context/blobs/ctx-0001.txt",
             "runs/0004/sent_context.json"]  # fmt: skip
    assert {(folder_of(project) / name).read_bytes() for name in names} == {b"same"}
    assert len({(folder_of(project) / name).stat().st_ino for name in names}) == 1
    assert (folder_of(project) / "session.json").stat().st_nlink == 1


@pytest.mark.parametrize("in_place", [False, True])
def test_an_archive_that_is_replaced_while_it_is_verified_is_not_damaged(
    kept: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
):
    """Two checkpoints take apart the very tree that is being looked at: what is in place then is what counts."""
    home, entry, coming = Home.of_project(Project(kept)), Tree.entry, [2, 2]

    def meanwhile(self, path):
        while path != layout.MANIFEST and coming:
            write_generation(kept, coming.pop(), in_place=in_place)
        return entry(self, path)

    monkeypatch.setattr(Tree, "entry", meanwhile)
    assert verify(home, SESSION_ID).ok
    coming += [1, 1]
    monkeypatch.setattr("maestro_state.mirror.verify._TRIES", 1)
    assert not verify(home, SESSION_ID).ok  # control: looked at once, it seems damaged
