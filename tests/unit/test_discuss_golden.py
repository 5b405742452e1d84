"""Replay is deterministic: the golden discussions give the same bytes, again, and in every environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state.mirror.layouts.discussion import DiscussionFiles
from maestro_state.models.discussion import read_transcript
from tests.support.golden_discussions import CASES, FOLDER, digests, plan_files, replay_case

NAMES = [case.name for case in CASES]


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_discussion_gives_the_stored_bytes_and_again_nothing(name: str, tmp_path: Path):
    """The first replay leaves the stored files and outcome; a second one has the same result and changes nothing."""
    case, root = FOLDER / name, tmp_path / "project"
    shutil.copytree(case / "before", root)
    stored = json.loads((case / "outcome.json").read_text(encoding="utf-8"))

    outcome = json.loads(json.dumps(replay_case(root, stored["ref"])).replace(str(tmp_path), ""))
    assert outcome == stored["outcome"]
    wanted = {path.name: path.read_bytes() for path in sorted((case / "after").glob("*"))}
    assert plan_files(root) == wanted

    again = replay_case(root, stored["ref"])
    assert again.get("result") == outcome.get("result")
    assert again.get("changed_files", []) == []
    assert plan_files(root) == wanted


def test_the_stored_cases_are_those_of_the_list():
    """Every case is stored, at least twenty of them, and nothing else is."""
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(NAMES)
    assert len(NAMES) >= 20


def test_originals_of_older_formats_stay_as_they_are(tmp_path: Path):
    """Replaying a legacy discussion writes the canonical one beside it and changes no byte of the original."""
    for name in ("artifact-object", "artifact-list", "work-session"):
        root = tmp_path / name
        shutil.copytree(FOLDER / name / "before", root)
        originals = {path: path.read_bytes() for path in root.rglob("*.json")}
        replay_case(root, json.loads((FOLDER / name / "outcome.json").read_text(encoding="utf-8"))["ref"])
        assert {path: path.read_bytes() for path in originals} == originals
        assert len(DiscussionFiles(root).ids()) == 1


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "4242", "TZ": "America/Sao_Paulo", "LC_ALL": "POSIX", "PYTHONUTF8": "0"},
        {"PYTHONHASHSEED": "7", "TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "pt_BR.UTF-8"},
    ],
)
def test_no_environment_changes_a_byte(environment: dict[str, str]):
    """Another hash seed, time zone and locale: everything a replay leaves behind, transcripts too, is the same."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.support.golden_discussions", "digests", str(FOLDER)],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(found.stdout) == digests(FOLDER)


@pytest.mark.parametrize("depth", [90, 120, 500, 960, 100_000])
def test_how_deep_a_line_may_be_does_not_depend_on_who_reads(tmp_path: Path, depth: int):
    """A line nested beyond the limit is damaged, whatever stack it is read on; below it, it is read."""
    line = b'{"ts": "2026-01-02T03:04:05.1", "type": "error", "payload": {"message": "m", "x": %b}}' % (
        b"[" * depth + b"]" * depth
    )

    def read(frames: int) -> bool:
        return read(frames - 1) if frames else not read_transcript(line + b"\n" + line).damaged

    assert {read(0), read(700)} == {depth < 100}


def test_ten_megabytes_are_replayed_and_read_back(tmp_path: Path):
    """A transcript of 10 MB, one message of it 4 MB, is replayed like any other."""
    case, root = FOLDER / "chain", tmp_path / "project"
    shutil.copytree(case / "before", root)
    transcript = root / "docs/maestro/sessions/discuss/golden-chain/transcript.jsonl"
    first, final = transcript.read_bytes().splitlines(keepends=True)
    long = first.replace(b'"hi"', b'"' + b"\\u00e9\\n" * 500_000 + b'"')
    transcript.write_bytes(long + first.replace(b"hi", b"x" * 1000) * 5500 + final)
    assert transcript.stat().st_size > 9_500_000

    assert replay_case(root, "golden-chain")["result"] == "REPLAY_OK"
    assert plan_files(root) == {path.name: path.read_bytes() for path in (case / "after").glob("*")}
    events = DiscussionFiles(root).load("golden-chain").transcript.events
    assert len(events) == 5503
    assert events[0].payload["content"] == "é\n" * 500_000
