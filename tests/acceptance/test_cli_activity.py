"""What an agent does while it runs, at the command line; a stand-in says what was recorded of the real tool."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.cli_runs import maestro_command, printed
from tests.support.embedded_project import ended_project

RECORDED = Path(__file__).parent.parent / "recorded" / "claude"

#: Says what was recorded of the call its prompt names; one that was ended while it ran goes on running.
CLAUDE = f"""#!{sys.executable} -IS
import json, sys, time
told = json.load(open("{RECORDED}/" + sys.stdin.read().split()[-1] + ".json"))
for line in told["stdout"]:
    print(json.dumps(line), flush=True)
if told["exit_code"] is None:
    time.sleep(600)
sys.exit(told["exit_code"])
"""

project = ended_project


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the stand-in is `claude`."""
    program = tmp_path / "claude"
    program.write_text(CLAUDE)
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_activity_is_an_event_a_file_and_part_of_the_breadcrumb(project: Path, env: dict[str, str]):
    """Calls and changed files are seen live and afterwards, in the archive and in the work session."""
    printed(project, "session", "start", "acts", "--tool", "claude", env=env)
    cookie = printed(project, "wsession", "start", "task", env=env)["session_id"]
    ran = printed(project, "run", "--cookie", cookie, "write", env=env)
    assert ran["output"].count("Question") == 1
    expected = [("tool_call", "Write", "/place/project/made.txt"), ("file_change", "Write", "/place/project/made.txt")]

    watched = maestro_command(project, "watch", "--json", "--from", "start", "--until-idle", "0", env=env).stdout
    events = [json.loads(line) for line in watched.splitlines()]
    acts = [one["data"] for one in events if one["type"] == "run.activity"]
    assert [(one["kind"], one["name"], one["summary"]) for one in acts] == expected
    assert all(one["run"] == ran["id"] for one in acts)

    session = printed(project, "session", "sync", env=env)["session_id"]
    file = project / ".maestro" / "sessions" / session / "runs" / ran["id"] / "activity.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["kind"], one["name"], one["summary"]) for one in lines] == expected
    assert printed(project, "verify", env=env)["ok"]

    crumb = printed(project, "wsession", "breadcrumbs", cookie, env=env)["breadcrumbs"][0]
    assert [one["tool"] for one in crumb["tools_called"]] == ["Write"]
    assert [one["path"] for one in crumb["files_modified"]] == ["/place/project/made.txt"]


def test_a_success_with_a_refused_permission_says_so(project: Path, env: dict[str, str]):
    """The answer is there, exit 0, and what was refused is said to people and programs."""
    printed(project, "session", "start", "refused", "--tool", "claude", env=env)
    told = maestro_command(project, "run", "denied", env=env)
    assert told.returncode == 0
    assert "it was refused permission for Write /place/project/made.txt" in told.stderr
    assert "refused permission" in printed(project, "show", "1", "--meta", env=env)["run"]["warning"]
    assert "warning" not in printed(project, "run", "answer", env=env)


def test_a_tool_that_keeps_trying_is_ended_with_the_reason(project: Path, env: dict[str, str]):
    """The retries are seen while they happen; when the time is over the error is the API's, not the clock's."""
    printed(project, "session", "start", "trying", "--tool", "claude", env=env)
    told = maestro_command(project, "run", "--timeout", "5", "refused-401", env=env)
    assert told.returncode == 1
    assert "trying again: the API answered 401" in told.stderr
    assert "the API answered 401 (authentication_failed), attempt 5 of 10; it was ended after 5 s" in told.stderr
