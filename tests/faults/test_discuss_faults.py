"""Discussions under kills and crowds, with real processes on a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.support.backends import Backend
from tests.support.programs import ROOT, Program, running
from tests.support.waiting import wait_until

TERMINALS, SAID = 4, 20


def terminal(stack: ExitStack, folder: Path, *arguments: object) -> Program:
    """Start a terminal."""
    command = [sys.executable, "-m", "tests.support.discuss_terminal", *map(str, arguments)]
    return stack.enter_context(running(folder, command))


def said(project: Path, discussion_id: str) -> list[str]:
    """Read what was said from the file, past Maestro."""
    path = project / "docs/maestro/sessions/discuss" / discussion_id / "transcript.jsonl"
    return [json.loads(line)["payload"].get("content") for line in path.read_bytes().splitlines()]


def test_a_replay_killed_anywhere_leaves_all_or_nothing(tmp_path: Path):
    """Killed with its group before each call to the system, its child's too, a replay leaves all old files or all new
    ones for everybody to see, and whatever it left is tidied by the next call. Without the child there is a mixture
    until that call; the simple way of writing leaves one for good.
    """
    command = [sys.executable, "-m", "tests.support.discuss_kills", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert found["real"]["mixed"] == []
    assert found["real"]["problems"] == found["in place"]["problems"] == {}
    assert found["real"]["points"] >= 60
    assert len(found["in place"]["mixed"]) == 2
    assert any("mixed" in problems for problems in found["naive"]["problems"].values())


def test_several_terminals_at_once_lose_and_double_nothing(real: Backend, tmp_path: Path):
    """Four terminals talk at the same time: the file has everything once, each in its order, as the server has it."""
    with real.open() as maestro, ExitStack() as stack:
        discussion_id = maestro.discussions.start().session_id
        programs = [terminal(stack, tmp_path, real.project, discussion_id, name, SAID) for name in "abcd"[:TERMINALS]]
        for program in programs:
            program.finish()
        found = said(real.project, discussion_id)
        assert sorted(found) == sorted(f"{name}:{number}" for name in "abcd" for number in range(SAID))
        for name in "abcd":
            assert [one for one in found if one.startswith(name)] == [f"{name}:{number}" for number in range(SAID)]
        stream = real.raw.xrange(maestro.server.terms.keys.discussion(discussion_id)[1])
        assert [json.loads(fields[b"payload"])["content"] for _, fields in stream] == found


def test_a_killed_terminal_loses_nothing_it_was_told_was_kept(real: Backend, tmp_path: Path):
    """Terminals killed while they talk: everything the server took is in the file after the next call, once."""
    with real.open() as maestro, ExitStack() as stack:
        discussion_id = maestro.discussions.start().session_id
        taken: list[str] = []
        for name in "abc":
            program = terminal(stack, tmp_path, real.project, discussion_id, name, 1000)
            wait_until(lambda program=program: len(program.lines()) >= 5, "it has said five things")
            program.kill()
            taken += [f"{name}:{number}" for number in program.lines()]
        maestro.discussions.say("last", discussion_id)
        found = said(real.project, discussion_id)
        assert set(taken) <= set(found)
        assert len(found) == len(set(found))
        assert found[-1] == "last"


def test_replays_at_the_same_time_do_not_overwrite_each_other(real: Backend, tmp_path: Path):
    """Several discussions replayed at once: the plan has what all of them decided."""
    with real.open() as maestro, ExitStack() as stack:
        ids = []
        for number in range(5):
            ids.append(maestro.discussions.start().session_id)
            track = {"op_type": "add_track", "data": {"track_name": f"Track {number}"}}
            phase = {"op_type": "add_phase", "data": {"phase_name": f"Phase {number}", "track_id": f"track-{number}"}}
            maestro.discussions.done({"patch_operations": [track, phase]}, ids[-1])
        programs = [terminal(stack, tmp_path, real.project, one, "replay", 0) for one in [*ids, ids[0]]]
        for program in programs:
            program.finish()
            assert program.lines() == ["REPLAY_OK"]
    for name in ("track", "phase"):
        plan = json.loads((real.project / f"docs/maestro/{name}s.json").read_bytes())
        assert sorted(row[f"{name}_id"] for row in plan[f"{name}s"]) == [f"{name}-{number}" for number in range(5)]
