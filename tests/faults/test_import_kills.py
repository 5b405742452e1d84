"""An import or a follower that is killed: what is there is whole, the next adds the rest, nothing is there twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from maestro_state import Maestro
from tests.support.histories import ClaudeHistory, json_lines, said, two_turns
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
