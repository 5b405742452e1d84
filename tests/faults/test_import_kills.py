"""An import or a follower that is killed: what is there is whole, the next adds the rest, nothing is there twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from maestro_state import Maestro
from maestro_state.fs.handles import Folder
from maestro_state.histories.import_cache import ImportCache
from maestro_state.local.project import Project
from tests.support.histories import ClaudeHistory, json_lines, said, stamp, two_turns
from tests.support.waiting import wait_until

CONVERSATIONS = 150
MAESTRO = str(Path(sys.executable).with_name("maestro"))


def test_a_killed_import_is_simply_run_again(tmp_path: Path):
    """Killed while it writes: every session that is there verifies, and the next import has all of them, once."""
    project = tmp_path / "shop"
    (project / ".maestro").mkdir(parents=True)
    for number in range(CONVERSATIONS):
        two_turns(tmp_path / "c", str(project), f"{number:08d}-0000-4000-8000-000000000000").write()
    environment = {**os.environ, "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    with Maestro(project, environment=environment) as maestro:
        with subprocess.Popen([MAESTRO, "import", "claude"], cwd=project, env=environment) as process:
            wait_until(lambda: len(maestro.places.own.ids()) >= 3, "nothing was imported")
            process.kill()
        there = maestro.places.own.ids()
        assert len(there) < CONVERSATIONS, "it was killed too late to show anything"
        assert maestro.archive.verify_all().ok
        report = maestro.histories.import_("claude")
        assert (len(report.imported), report.errors) == (CONVERSATIONS, [])
        assert there <= maestro.places.own.ids()
        assert {len(said(maestro, one)) for one in maestro.places.own.ids()} == {8}
        assert len(maestro.places.own.ids()) == CONVERSATIONS
        assert maestro.archive.verify_all().ok


#: An import in two processes, whatever its size: prints how many were forked, and what came of it. With a word more the
#: first one is killed at once.
_APART = """
import os, signal, sys
from maestro_state import Maestro
from maestro_state.upkeep import import_histories, process_pool

import_histories._LARGE, import_histories.cores = 1, lambda: 2
fork, forked = os.fork, []

def counted():
    pid = fork()
    if pid:
        forked.append(pid)
        if len(forked) == 1 and sys.argv[2:]:
            os.kill(pid, signal.SIGKILL)
    return pid

process_pool.os.fork = counted
with Maestro(sys.argv[1]) as maestro:
    report = maestro.histories.import_(os.environ.get("TOOL", "claude"))
print(len(forked), [one.external_id for one in report.imported], {one.status for one in report.imported}, report.errors)
"""


@pytest.mark.parametrize("killed", [(), ("killed",)])
def test_a_large_import_is_taken_by_processes(tmp_path: Path, killed: tuple[str, ...]):
    """All is there once and told in the order of the files, also when one of them is killed; again is nothing."""
    project = tmp_path / "shop"
    (project / ".maestro").mkdir(parents=True)
    ids = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(20)]
    for one in ids:
        two_turns(tmp_path / "c", str(project), one).write()
    environment = {**os.environ, "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}

    def imported() -> str:
        command = [sys.executable, "-c", _APART, str(project), *killed]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    assert imported() == f"2 {ids} {{'new'}} []"
    assert imported() == f"0 {ids} {{'unchanged'}} []"
    with Maestro(project, environment=environment) as maestro:
        assert len(maestro.places.own.ids()) == len(maestro.project.index()) == len(ids)
        assert {len(said(maestro, one)) for one in maestro.places.own.ids()} == {8}
        assert maestro.archive.verify_all().ok


def test_names_last_before_anything_says_that_they_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """New sessions' names are made to last once for all of them, before the index and what was seen tell of them."""
    project = tmp_path / "shop"
    (project / ".maestro").mkdir(parents=True)
    for number in range(20):
        two_turns(tmp_path / "c", str(project), f"{number:08d}-0000-4000-8000-000000000000").write()
    done: list[str] = []

    def noting(kind: type, name: str, said: str, *, below: str = "") -> None:
        method = getattr(kind, name)

        def noted(self: Any, *given: Any, **named: Any) -> Any:
            answer = method(self, *given, **named)
            if str(getattr(self, "path", "")).endswith(below) and (name != "move" or named.get("into")):
                done.append(said)
            return answer

        monkeypatch.setattr(kind, name, noted)

    noting(Folder, "move", "named", below="")
    noting(Folder, "sync", "lasting", below="/sessions")
    noting(Project, "index_add", "listed")
    noting(ImportCache, "save", "noted")
    environment = {**os.environ, "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    with Maestro(project, environment=environment) as maestro:
        maestro.histories.import_("claude")
    assert done.count("named") == 20
    assert done.count("lasting") == 1, "the control: once, not for each"
    assert [one for one in done if one != "named"] == ["lasting", "listed", "noted"]
    assert done[:20] == ["named"] * 20


def test_a_conversation_of_several_files_is_taken_by_one_process(tmp_path: Path):
    """Gemini begins a file each time somebody goes on: of two that name it differently there would be two sessions."""
    project = tmp_path / "shop"
    (project / ".maestro").mkdir(parents=True)
    folder = tmp_path / ".gemini" / "tmp" / "shop" / "chats"
    folder.mkdir(parents=True)
    (folder.parent / ".project_root").write_text(str(project))
    for number in range(7):
        for start in range(2):
            header = {"sessionId": f"{number:08d}-0000", "startTime": stamp(start)}
            asked = {"id": f"m{start}", "timestamp": stamp(start), "type": "user", "content": f"question {start}"}
            path = folder / f"session-2026-11-02T10-0{start}-{number:08d}.jsonl"
            path.write_text(json_lines([header, asked]))
    environment = {**os.environ, "HOME": str(tmp_path), "TOOL": "gemini"}
    command = [sys.executable, "-c", _APART, str(project)]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert told.startswith("2 ["), told
    with Maestro(project, environment=environment) as maestro:
        assert len(maestro.places.own.ids()) == 7
        assert {len(said(maestro, one)) for one in maestro.places.own.ids()} == {2}
        assert maestro.archive.verify_all().ok


def test_a_killed_follower_is_simply_started_again(tmp_path: Path):
    """Killed in the middle of a turn: the next one catches up, and what was said is there once."""
    project = tmp_path / "shop"
    (project / ".maestro").mkdir(parents=True)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}

    def maestro(*words: str) -> str:
        return subprocess.run(
            [MAESTRO, *words], cwd=project, env=environment, check=True, capture_output=True, text=True
        ).stdout

    def texts() -> list[str]:
        return [one["content"] for one in json.loads(maestro("messages", "--last", "50", "--json"))["messages"]]

    history = ClaudeHistory(tmp_path / "c", str(project)).ask("why?")
    history.answer("let me see", answer="msg-1").write()
    maestro("session", "start", "live")
    try:
        command = [MAESTRO, "import", "claude", str(history.path), "--follow"]
        with subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.DEVNULL) as process:
            wait_until(lambda: texts() == ["why?", "let me see"], "it does not follow")
            process.send_signal(signal.SIGKILL)
        history.answer("because", answer="msg-2").ask("and then?").answer("nothing", answer="msg-3")
        with history.path.open("a") as file:
            file.write(json_lines(history.rows[2:]))
        assert "because" not in texts(), "nobody was killed"
        with subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.DEVNULL) as process:
            wait_until(lambda: len(texts()) == 5, "it does not catch up")
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        assert texts() == ["why?", "let me see", "because", "and then?", "nothing"]
        runs = json.loads(maestro("runs", "--json"))["runs"]
        assert len(runs) == 2
        assert runs[1]["status"] == "success"
    finally:
        maestro("stack", "stop")
