"""The plan files: what a stranger's file does, and what a full disk leaves."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from maestro_state.errors import FileCorrupt, WorkFailed
from maestro_state.mirror.layouts.plan import FILES, JOURNAL, PlanFiles, finish_change


def write(root: Path, name: str, content: str) -> Path:
    """Write a file of the plan past Maestro."""
    path = root / "docs/maestro" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"tracks": {}}',
        '{"tracks": [1]}',
        '{"tracks": [{"track_name": "x"}]}',
        '{"tracks": [{"track_id": "a"}, {"track_id": "a"}]}',
        '{"tracks": [{"track_id": "a", "n": NaN}]}',
        '{"tracks": [{"track_id": "\\ud800"}]}',
        '{"tracks": [], "tracks": []}',
    ],
)
def test_a_file_that_is_no_plan_is_refused_and_left_alone(tmp_path: Path, content: str):
    """A plan file Maestro cannot understand is named and never written over."""
    path = write(tmp_path, "tracks.json", content)
    with pytest.raises(FileCorrupt, match=r"tracks\.json"), PlanFiles.hold(tmp_path) as files:
        files.read()
    assert path.read_text() == content


@pytest.mark.parametrize(
    "note",
    [
        "",
        "[]",
        '{"../../../etc/passwd": "0"}',
        '{"tracks.json": 5}',
        '{"tracks.json": "0000"}',
        '{"meta.json": "0000"}',
    ],
)
def test_a_strangers_note_is_not_followed(tmp_path: Path, note: str):
    """A note of a change that Maestro did not leave is refused; nothing is moved or removed."""
    write(tmp_path, JOURNAL, note)
    write(tmp_path, ".tracks.json.next", '{"tracks": []}')
    before = {path.name: path.read_bytes() for path in (tmp_path / "docs/maestro").iterdir()}
    with pytest.raises(FileCorrupt, match="not a change Maestro left"), PlanFiles.hold(tmp_path):
        pass
    assert {path.name: path.read_bytes() for path in (tmp_path / "docs/maestro").iterdir()} == before


def test_only_what_maestro_left_aside_is_removed(tmp_path: Path):
    """Files of a killed change go; everything else in the folder stays, whatever its name."""
    kept = [".hidden", "notes.json", ".tracks.json", "tracks.json.next", ".tasks.json.next.bak", ".other.json.next"]
    left = [".tracks.json.next", "..tasks.json.next.0123456789ab.tmp", "..plan-change.json.0123456789ab.tmp"]
    for name in [*kept, *left]:
        write(tmp_path, name, "x")
    with PlanFiles.hold(tmp_path):
        pass
    assert sorted(path.name for path in (tmp_path / "docs/maestro").iterdir()) == sorted(kept)


def test_a_change_that_was_cut_short_is_finished_by_whoever_comes_by(tmp_path: Path):
    """Killed between two renames, the files are of two plans; the next one to look at discussions ends that."""
    digests = {}
    for name in ("tracks.json", "tasks.json"):
        content = json.dumps({name.removesuffix(".json"): []})
        write(tmp_path, name if name == "tracks.json" else f".{name}.next", content)
        digests[name] = hashlib.sha256(content.encode()).hexdigest()
    write(tmp_path, JOURNAL, json.dumps(digests))
    finish_change(tmp_path)
    assert sorted(path.name for path in (tmp_path / "docs/maestro").iterdir()) == ["tasks.json", "tracks.json"]


def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no room for one more process."""
    monkeypatch.setattr("os.fork", Mock(side_effect=BlockingIOError(errno.EAGAIN, "no more processes")))


def child_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the child between two files."""
    replaying, rename = os.getpid(), os.rename

    def stand_in(source: str, target: str, **options: int) -> None:
        if target == "tasks.json" and os.getpid() != replaying:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target, **options)

    monkeypatch.setattr("os.rename", stand_in)


def nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be told that there is no such child, as where SIGCHLD is ignored."""
    wait = os.waitpid

    def stand_in(child: int, options: int) -> None:
        wait(child, options)
        raise ChildProcessError(errno.ECHILD, "no child")

    monkeypatch.setattr("os.waitpid", stand_in)


@pytest.mark.parametrize("happens", [no_process, child_killed, nobody_asks])
def test_a_change_is_whole_whatever_becomes_of_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: Callable[[pytest.MonkeyPatch], None]
):
    """What the child did not move is moved in place, and nothing is left aside."""
    happens(monkeypatch)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with PlanFiles.hold(tmp_path) as files:
        files.commit({f"{name}.json": json.dumps({name: []}).encode() for name in files.read()})
    assert sorted(path.name for path in (tmp_path / "docs/maestro").iterdir()) == sorted(FILES.values())
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask


def test_where_nothing_was_cut_short_nothing_is_made(tmp_path: Path):
    """Looking for a change to finish makes no folder."""
    finish_change(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_fields_of_others_are_kept(tmp_path: Path):
    """What a record or a file holds beside Maestro's fields stays; known fields come first, the others by name."""
    write(tmp_path, "tracks.json", json.dumps({"tracks": [{"z": 1, "track_id": "a", "b": 2}], "version": 3}))
    with PlanFiles.hold(tmp_path) as files:
        plan = files.read()
        assert files.changes(plan) == {}
        plan = {**plan, "tracks": [{**plan["tracks"][0], "status": "done"}]}
        files.commit(files.changes(plan))
    stored = json.loads((tmp_path / "docs/maestro/tracks.json").read_text())
    assert list(stored) == ["tracks", "version"]
    assert list(stored["tracks"][0].items()) == [("track_id", "a"), ("status", "done"), ("b", 2), ("z", 1)]


def test_a_link_in_place_of_the_plan_is_not_followed(tmp_path: Path):
    """Neither a linked folder nor a linked file leads anywhere."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "one/docs").symlink_to(tmp_path / "outside")
    with pytest.raises(WorkFailed, match="does not follow"), PlanFiles.hold(tmp_path / "one"):
        pass
    write(tmp_path / "outside", "secret.json", '{"tracks": []}')
    write(tmp_path / "two", "x", "")
    (tmp_path / "two/docs/maestro/tracks.json").symlink_to(tmp_path / "outside/docs/maestro/secret.json")
    with pytest.raises(WorkFailed, match="does not follow"), PlanFiles.hold(tmp_path / "two") as files:
        files.read()


_FULL = """
import resource, sys
from pathlib import Path
from maestro_state.errors import WorkFailed
from maestro_state.mirror.layouts.discussion import DiscussionFiles
from tests.support.golden_discussions import replay_case
root, ref, limit = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    print(replay_case(root, ref).get("result"))
except WorkFailed as error:
    print("refused", error)
"""


@pytest.mark.parametrize("limit", [1, 100, 160, 250, 350])
def test_a_full_disk_changes_nothing(tmp_path: Path, limit: int):
    """When files cannot grow, a replay fails, no plan file is changed and the transcript is not damaged; with room
    again it is done.
    """
    import shutil

    from maestro_state.mirror.layouts.discussion import DiscussionFiles
    from tests.support.golden_discussions import FOLDER, plan_files, replay_case

    root = tmp_path / "project"
    shutil.copytree(FOLDER / "mark" / "before", root)
    before, events = plan_files(root), DiscussionFiles(root).load("golden-mark").transcript.events
    ran = subprocess.run(
        [sys.executable, "-c", _FULL, str(root), "golden-mark", str(limit)],
        cwd=Path(__file__).parent.parent.parent, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.startswith("refused")
    transcript = DiscussionFiles(root).load("golden-mark").transcript
    assert (transcript.damaged, transcript.torn) == ((), None)
    assert transcript.events[: len(events)] == events
    # With room for the plan but not for the record of it, the plan is whole and new.
    after = {path.name: path.read_bytes() for path in (FOLDER / "mark" / "after").iterdir()}
    assert plan_files(root) == (before if limit < 350 else after)
    assert replay_case(root, "golden-mark")["result"] == "REPLAY_OK"
