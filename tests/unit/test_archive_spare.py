"""The generation kept to build the next on: used when it is as it was left, thrown away when it is not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from maestro_state.fs.handles import Folder
from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.spare import SPARES, STALE_S
from maestro_state.mirror.verify import verify
from maestro_state.mirror.writer import replacing
from tests.support.generations import SESSION_ID, contents, folder_of, generation_of, spare_of, write_generation


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what is linked: nothing that never changed, while the spare is used."""
    linked: list[str] = []
    original = Folder.link

    def link(self, name, source, source_name):
        linked.append(name)
        original(self, name, source, source_name)

    monkeypatch.setattr(Folder, "link", link)
    return linked


def test_checkpoints_take_turns_without_linking(kept: Path, links: list[str]):
    """Generation after generation is whole, and nothing that did not change is touched."""
    trees = {folder_of(kept).stat().st_ino, spare_of(kept).stat().st_ino}
    for number in (2, 1, 2, 2, 1):
        write_generation(kept, number, keep_spare=True)
        assert generation_of(kept) == number
        assert verify(Home.of_project(Project(kept)), SESSION_ID).ok
        assert {folder_of(kept).stat().st_ino, spare_of(kept).stat().st_ino} == trees
    assert "ctx-0001.txt" not in links


def _stranger_in_the_archive(project: Path) -> None:
    (folder_of(project) / "NOTES.txt").write_text("mine")


def _stranger_deep_in_the_archive(project: Path) -> None:
    (folder_of(project) / "context/blobs/mine.txt").write_text("mine")


def _name_gone_from_the_spare(project: Path) -> None:
    (spare_of(project) / "context/blobs/ctx-0001.txt").unlink()


def _spare_half_gone(project: Path) -> None:
    shutil.rmtree(spare_of(project) / "context")


def _ledger_damaged(project: Path) -> None:
    Path(f"{spare_of(project)}.json").write_bytes(b"[" * 10_000)


def _ledger_gone(project: Path) -> None:
    Path(f"{spare_of(project)}.json").unlink()


def _another_generation_meanwhile(project: Path) -> None:
    saved = project / "saved"
    spares = spare_of(project).parent
    shutil.copytree(spares, saved)
    write_generation(project, 2)
    shutil.rmtree(spares)
    shutil.move(saved, spares)


def _ledger_is_a_folder(project: Path) -> None:
    ledger = Path(f"{spare_of(project)}.json")
    ledger.unlink()
    (ledger / "inner").mkdir(parents=True)


def _link_in_its_place(project: Path) -> None:
    outside = project / "outside"
    shutil.move(spare_of(project), outside)
    os.symlink(outside, spare_of(project))


@pytest.mark.parametrize(
    "happened",
    [
        _stranger_in_the_archive, _stranger_deep_in_the_archive, _name_gone_from_the_spare, _spare_half_gone,
        _ledger_damaged, _ledger_gone, _another_generation_meanwhile,
        _ledger_is_a_folder, _link_in_its_place,
    ],
)  # fmt: skip
def test_a_spare_that_is_not_as_it_was_left_is_not_used(kept: Path, links: list[str], happened):
    """Whatever came or went in between, the next generation is linked anew, whole, with what others put there."""
    happened(kept)
    strangers = [path.relative_to(folder_of(kept)) for path in folder_of(kept).rglob("*") if path.name in STRANGERS]
    write_generation(kept, 2, keep_spare=True)
    assert "ctx-0001.txt" in links  # control: without the change it is not linked
    assert generation_of(kept) == 2
    assert verify(Home.of_project(Project(kept)), SESSION_ID).ok
    write_generation(kept, 1, keep_spare=True)
    assert [(folder_of(kept) / path).read_text() for path in strangers] == ["mine"] * len(strangers)
    if (kept / "outside").exists():
        assert (kept / "outside/session.json").exists()


STRANGERS = ("NOTES.txt", "mine.txt")


@pytest.mark.parametrize("folder", ["mynotes", "exports/sub", "runs/0001", "mynotes/deep/down"])
def test_what_others_do_in_folders_of_their_own_is_kept(kept: Path, folder: str):
    """A file that comes into a folder nobody knows stays through every generation, and one that goes stays away."""
    theirs = folder_of(kept) / folder

    def checkpoint(*numbers: int) -> None:
        for number in numbers:
            write_generation(kept, number, keep_spare=True)
            assert generation_of(kept) == number

    theirs.mkdir(parents=True)
    (theirs / "a.txt").write_text("a")
    checkpoint(2, 1)
    (theirs / "canary.txt").write_text("canary")
    (theirs / "a.txt").unlink()
    for numbers in ((2,), (1, 2)):
        checkpoint(*numbers)
        assert {path.name: path.read_text() for path in theirs.iterdir()} == {"canary.txt": "canary"}
        Home.of_project(Project(kept)).put_export(SESSION_ID, "page.md", b"page")


@pytest.mark.parametrize("path", ["late.txt", "runs/late.txt", "mynotes/late.txt"])
@pytest.mark.parametrize("keep_spare", [True, False])
def test_what_others_put_there_while_a_generation_is_built_is_kept(
    kept: Path, monkeypatch: pytest.MonkeyPatch, path: str, keep_spare: bool
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
        write_generation(kept, number, keep_spare=keep_spare)
        assert generation_of(kept) == number
        assert late.read_text() == "late"


def test_a_file_of_others_under_a_name_that_is_ours_later_gives_way(kept: Path):
    """It was carried along while nothing of ours had that name; then ours is written, at the first try."""
    path = "outputs/relevant.json"
    (folder_of(kept) / path).write_bytes(b"somebody's")
    for number in (2, 1, 2):
        write_generation(kept, number, keep_spare=True)
    assert (folder_of(kept) / path).read_bytes() == b"somebody's"
    with replacing(Home.of_project(Project(kept)), SESSION_ID) as generation:
        for name, content in (contents(1) | {path: b"ours"}).items():
            generation.put(name, content)
        generation.commit(last_id="3-0", written_at="", keep_spare=True)
    assert (folder_of(kept) / path).read_bytes() == b"ours"
    assert verify(Home.of_project(Project(kept)), SESSION_ID).ok


def test_a_folder_of_others_ends_the_taking_turns_only_while_it_is_there(kept: Path, links: list[str]):
    """A session goes without a spare while others have a folder in it, and with one again afterwards."""
    theirs = folder_of(kept) / "mynotes"
    theirs.mkdir()
    (theirs / "a.txt").write_text("a")
    write_generation(kept, 2, keep_spare=True)
    assert not spare_of(kept).exists()
    shutil.rmtree(theirs)
    for number in (1, 2):
        write_generation(kept, number, keep_spare=True)
    links.clear()
    write_generation(kept, 1, keep_spare=True)
    assert "ctx-0001.txt" not in links
    assert not theirs.exists()


@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_something_else_in_the_place_of_spares_stops_nothing(project: Path, kind: str):
    """A link or a file where spares go is neither followed nor touched: every generation is linked anew."""
    outside = project / "outside"
    outside.mkdir()
    (outside / "canary").write_text("canary")
    home = Home.of_project(Project(project))
    with home.sessions(create=True):
        spares = project / ".maestro/sessions" / SPARES
    if kind == "file":
        spares.write_text("a file")
    else:
        spares.symlink_to(outside if kind == "link" else project / "nowhere")
    for number in (1, 2, 1, 2):
        write_generation(project, number, keep_spare=True)
        assert generation_of(project) == number
    assert home.sweep_leftovers() == []
    assert os.listdir(project / ".maestro/sessions/.staging") == []
    assert os.listdir(outside) == ["canary"]
    assert not (project / "nowhere").exists()
    assert home.move_to_trash(SESSION_ID)
    assert spares.is_symlink() or spares.read_text() == "a file"


def test_what_changed_in_the_present_one_is_never_written_through_the_spare(kept: Path):
    """A file with two names is replaced, not written to: the one before stays what it was."""
    before = {path: path.read_bytes() for path in folder_of(kept).rglob("*") if path.is_file()}
    write_generation(kept, 2, keep_spare=True)
    after = {path: path.read_bytes() for path in spare_of(kept).rglob("*") if path.is_file()}
    assert sorted(before.values()) == sorted(after.values())


def test_spares_go_with_their_session_and_with_time(kept: Path):
    """The last generation, removal and the trash take the spare along; the sweep takes one that is not used."""
    home = Home.of_project(Project(kept))
    write_generation(kept, 2)
    assert os.listdir(kept / ".maestro/sessions" / SPARES) == []
    write_generation(kept, 1, keep_spare=True)
    assert home.sweep_leftovers() == []
    ledger = f"{spare_of(kept)}.json"
    os.utime(ledger, times=(os.stat(ledger).st_mtime - 2 * STALE_S,) * 2)
    assert home.sweep_leftovers() == [f"{SPARES}/{SESSION_ID}"]
    for gone in (home.remove, home.move_to_trash):
        for number in (1, 2):
            write_generation(kept, number, keep_spare=True)
        gone(SESSION_ID)
        assert os.listdir(kept / ".maestro/sessions" / SPARES) == []
