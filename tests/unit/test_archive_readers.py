"""Readers of an archive that is changed under their hands: one generation, no mixture, no damage that is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from maestro_state.fs.tree import Tree
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.parcel import contents_of
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.writer import Generation
from tests.support.generations import SESSION_ID, contents, home_of, write_generation


def change_halfway(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoint generation 2, killed when its manifest is in place and nothing else."""
    move = Tree.move

    def stop(self: Tree, path: str, target: Tree) -> None:
        if path == layout.MANIFEST:
            move(self, path, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tree, "move", stop)
        patch.setattr(Generation, "abandon", lambda self: self._writers.close())
        with pytest.raises(KeyboardInterrupt):
            write_generation(project, 2, in_place=True)


def before(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[], None], *, call: int = 1) -> None:
    """Have the archive changed right before a reader does something for the n-th time."""
    original, count = getattr(ArchivedSession, name), [0]

    def changed(self: ArchivedSession, *args: object) -> object:
        count[0] += 1
        if count[0] == call:
            change()
        return original(self, *args)

    monkeypatch.setattr(ArchivedSession, name, changed)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_change_right_after_the_archive_was_opened_is_noticed(kept: Path, monkeypatch: pytest.MonkeyPatch, call: int):
    """What waits beside it was not there yet when it was looked for."""
    archived, original, count = ArchivedSession(home_of(kept), SESSION_ID), ArchivedSession._tree, [0]

    def opened(self: ArchivedSession) -> object:
        view = original(self)
        count[0] += 1
        if count[0] == call:
            change_halfway(kept, monkeypatch)
        return view

    monkeypatch.setattr(ArchivedSession, "_tree", opened)
    assert archived.contents()[0].notes == "generation 2"
    assert count[0] > call  # control: it was changed


def test_a_generation_that_is_swapped_in_is_read_instead(kept: Path, monkeypatch: pytest.MonkeyPatch):
    """The one that was opened is removed meanwhile: that is no damage."""
    before(monkeypatch, "_session", lambda: write_generation(kept, 2))
    assert ArchivedSession(home_of(kept), SESSION_ID).contents()[0].notes == "generation 2"


def test_an_output_is_not_empty_because_its_generation_was_replaced(kept: Path, monkeypatch: pytest.MonkeyPatch):
    write_generation(kept, 1, runs=1)
    before(monkeypatch, "_read_run", lambda: write_generation(kept, 2, runs=1))
    found = b"".join(ArchivedSession(home_of(kept), SESSION_ID).output("0001"))
    assert found == contents(2, runs=1)["runs/0001/output.txt"]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_archive_that_is_replaced_while_it_is_sent_arrives_whole(kept: Path, after: int):
    """What lasts, and what only grows, is sent from the generation that took its place, to where it went before."""
    sent: dict[str, bytes] = {}
    for number, (path, data) in enumerate(contents_of(home_of(kept), SESSION_ID, 1 << 20), start=1):
        sent[path] = sent.get(path, b"") + data
        if number == after:
            write_generation(kept, 2)
    del sent[layout.MANIFEST]
    assert sent == contents(1)
