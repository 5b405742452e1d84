"""The installed `maestro` command: what each command prints, as a program that reads it sees it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from maestro_cli.main import COMMANDS

from maestro_state.models.session import SETTABLE
from tests.support.cli_runs import maestro_command, printed, refused

RECORD = {
    "id", "slug", "state", "tool_active", "created_at", "updated_at", "counters", "stats", "session_id",
    "user_id", "status", "last_activity", "project_context", "working_directory", "preferences",
    "ttl_seconds",
}  # fmt: skip
ROW = {"id", "slug", "state", "status", "created_at", "updated_at", "active", "archived", "orphan"}


@pytest.mark.usefixtures("served")
def test_the_life_of_a_session(project: Path):
    """start, list, status, switch, get, set, end, abort and delete print what they did and leave with 0."""
    first = printed(project, "session", "start", "Fix the Login", "--note", "since Monday", "--tool", "claude")
    assert set(first) == RECORD | {"notes"}
    assert (first["slug"], first["state"], first["status"]) == ("fix-the-login", "iniciada", "active")
    assert (first["notes"], first["tool_active"], first["session_id"]) == (
        "since Monday",
        "claude",
        first["id"],
    )
    assert set(first["counters"]) == {"run_seq", "ctx_seq"}
    assert set(first["stats"]) == {"runs_total", "runs_success", "runs_error"}
    assert (project / ".maestro/sessions/active").read_text().strip() == first["id"]

    second = printed(project, "session", "start", "other", "--ttl", "60")
    assert second["ttl_seconds"] == 60
    rows = printed(project, "session", "list")["sessions"]
    assert all(set(row) - {"finalized_at", "user_id"} == ROW for row in rows)
    assert {row["id"]: row["active"] for row in rows} == {first["id"]: False, second["id"]: True}
    assert printed(project, "session", "switch", "fix-the-login")["id"] == first["id"]

    status = printed(project, "session", "status")
    assert set(status) == {"session", "context", "runs", "last_output", "attached", "ttl_left"}
    assert status["session"]["id"] == first["id"]
    assert (status["context"], status["runs"], status["last_output"], status["attached"]) == (
        [],
        [],
        None,
        [],
    )
    assert status["ttl_left"] <= 604_800

    was_set = printed(project, "session", "set", "preferences", '{"language": "pt"}', "--if-revision", "0")
    assert was_set == {"field": "preferences", "value": {"language": "pt"}, "revision": 1}
    assert printed(project, "session", "get", "preferences") == was_set
    printed(project, "session", "set", "context_summary", "-", stdin="até aqui".encode())
    assert printed(project, "session", "get", "context_summary")["value"] == "até aqui"

    ended = printed(project, "session", "end")
    assert (ended["state"], ended["status"], "finalized_at" in ended) == ("finalizada", "expired", True)
    aborted = printed(project, "session", "abort", second["id"], "--reason", "wrong branch")
    assert (aborted["state"], aborted["abort_reason"], "aborted_at" in aborted) == (
        "abortada",
        "wrong branch",
        True,
    )
    only = printed(project, "session", "list", "--state", "abortada")["sessions"]
    assert [row["id"] for row in only] == [second["id"]]
    assert printed(project, "session", "delete", second["id"], "--yes") == {"deleted": second["id"]}
    assert [row["id"] for row in printed(project, "session", "list", "--all")["sessions"]] == [first["id"]]


@pytest.mark.usefixtures("served")
def test_messages(project: Path):
    """message add prints the message with its id, messages prints those asked for."""
    printed(project, "session", "start", "talk")
    question = printed(project, "message", "add", "--role", "user", "what is in README?")
    assert set(question) == {"id", "role", "content", "timestamp"}
    call = printed(
        project, "message", "add", "--role", "assistant", "", "--parent", question["id"],
        "--tool-calls", '[{"id": "c1", "tool": "read", "args": {"path": "README.md"}}]',
    )  # fmt: skip
    result = printed(
        project, "message", "add", "--role", "tool", "-", "--parent", call["id"], "--metadata", '{"ms": 3}',
        "--tool-results", '[{"call_id": "c1", "result": "text"}]', stdin=b"two\nlines\n",
    )  # fmt: skip
    assert (result["content"], result["metadata"]) == ("two\nlines\n", {"ms": 3})
    assert result["tool_results"][0]["call_id"] == call["tool_calls"][0]["id"]

    assert printed(project, "messages") == {"messages": [question, call, result]}
    assert printed(project, "messages", "--last", "1") == {"messages": [result]}
    assert printed(project, "messages", "--since", question["id"]) == {"messages": [call, result]}
    printed(project, "session", "set", "context_summary", "they asked about README")
    handed = printed(project, "messages", "--for-model")["messages"]
    assert [(one["role"], one["content"]) for one in handed] == [("system", "they asked about README")]


@pytest.mark.usefixtures("served")
def test_a_terminal_may_be_pinned_to_a_session(project: Path):
    """MAESTRO_SESSION and --session go before the active session, and --session before MAESTRO_SESSION."""
    ids = [printed(project, "session", "start", name)["id"] for name in ("a", "b", "c")]
    assert printed(project, "session", "status")["session"]["id"] == ids[2]
    assert printed(project, "session", "status", env={"MAESTRO_SESSION": "a"})["session"]["id"] == ids[0]
    found = printed(project, "--session", "b", "session", "status", env={"MAESTRO_SESSION": "a"})
    assert found["session"]["id"] == ids[1]
    assert printed(project, "session", "status", ids[0][-6:])["session"]["id"] == ids[0]
    assert printed(project, "session", "status", "latest")["session"]["id"] == ids[2]


@pytest.mark.usefixtures("served")
def test_the_project_is_found_from_below(project: Path):
    """A command in a folder of the project works on the project, also when another folder is current."""
    started = printed(project, "session", "start", "deep")
    below = project / "a" / "b"
    below.mkdir(parents=True)
    assert printed(below, "session", "status")["session"]["id"] == started["id"]
    assert printed(Path("/"), "--project", str(below), "session", "status")["session"]["id"] == started["id"]
    assert not (below / ".maestro").exists()


@pytest.mark.usefixtures("served")
def test_watch_prints_json_lines(project: Path):
    """watch --json prints one document a line, from the start, after an id, and leaves when it is quiet."""
    printed(project, "session", "start", "seen")
    printed(project, "message", "add", "--role", "user", "hello")
    done = maestro_command(project, "watch", "--json", "--from", "start", "--until-idle", "0.05")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events] == ["session.started", "message.added"]
    assert all(set(event) == {"id", "ts", "type", "data"} for event in events)
    again = maestro_command(project, "watch", "--json", "--from", events[0]["id"], "--until-idle", "0.05")
    assert [json.loads(line) for line in again.stdout.splitlines()] == events[1:]


def test_upkeep_commands(project: Path):
    """config, doctor, stack, trust and completion print their documents."""
    settings = printed(project, "config", env={"MAESTRO_TTL_SECONDS": "99"})["settings"]
    assert all(set(row) == {"name", "value", "source"} for row in settings)
    by_name = {row["name"]: row for row in settings}
    assert (by_name["ttl_seconds"]["value"], by_name["ttl_seconds"]["source"]) == (
        99,
        "env MAESTRO_TTL_SECONDS",
    )
    assert by_name["retention_days"]["source"] == "default"
    secret = printed(project, "config", env={"MAESTRO_REDIS_URL": "redis://user:s3cret@localhost"})
    assert "s3cret" not in json.dumps(secret)

    assert printed(project, "stack", "status")["running"] is False
    printed(project, "session", "start", "kept")
    checks = printed(project, "doctor")["checks"]
    assert all(set(check) - {"fix"} == {"name", "status", "detail"} for check in checks)
    judged = {check["name"]: check["status"] for check in checks}
    assert "fail" not in judged.values()
    for name in ("server", "version", "persistence", "eviction", "disk", "index"):
        assert judged[name] == "ok"
    status = printed(project, "stack", "status")
    assert set(status) == {"running", "address", "pid", "workers", "server_version", "serve"}
    assert status["running"] is True
    assert printed(project, "stack", "stop") == {"stopped": True}
    assert printed(project, "stack", "stop") == {"stopped": False}
    assert [row["slug"] for row in printed(project, "session", "list")["sessions"]] == ["kept"]

    for shell in ("bash", "zsh", "fish"):
        assert "_MAESTRO_COMPLETE" in maestro_command(project, "completion", shell).stdout


def test_the_shell_completes_what_this_checkout_knows(project: Path):
    """TAB offers sessions, tools, fields, and the runs and items that are on disk, without waking a server."""
    other = printed(project, "session", "start", "other")["id"]
    session = printed(project, "session", "start", "find me", "--tool", "cat")["id"]
    for _ in range(2):
        printed(project, "context", "add", "--text", "one")
        printed(project, "run", "p", "--dry")
    printed(project, "stack", "stop")
    for line, offered in (
        ("maestro session status ", [session, other]),
        ("maestro session switch fin", [session]),
        ("maestro session switch nothing", []),
        ("maestro use ge", ["gemini"]),
        ("maestro run --tool cod", ["codex"]),
        ("maestro session set ", list(SETTABLE)),
        ("maestro session get pre", ["preferences"]),
        ("maestro show ", ["0002", "0001"]),
        ("maestro cancel 0001", ["0001"]),
        ("maestro context use-output 3", []),
        ("maestro context remove ctx-0001 ctx", ["ctx-0001", "ctx-0002"]),
        ("maestro --session other context show ", []),
        ("maestro --session find-me context show ", ["ctx-0001", "ctx-0002"]),
        ("maestro --session nobody show ", []),
    ):
        words = {"_MAESTRO_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        lines = maestro_command(project, env=words).stdout.split()
        assert [text.partition(",")[2] for text in lines] == offered
    assert printed(project, "stack", "status")["running"] is False


def test_a_cloned_project_may_not_choose_the_server(project: Path):
    """The server a project's file names counts once the file is trusted, and no longer when it changes."""
    (project / ".maestro/config").mkdir(parents=True)
    file = project / ".maestro/config/settings.toml"
    file.write_text('redis_url = "redis://127.0.0.1:1"\nidle_after_seconds = 77\n')

    def source(name):
        rows = printed(project, "config")["settings"]
        return next(row for row in rows if row["name"] == name)["source"]

    assert source("redis_url") == "default"
    assert source("idle_after_seconds") != "default"
    assert "trust" in {check["name"] for check in printed(project, "doctor")["checks"]}
    assert printed(project, "trust")["trusted"]
    assert refused(project, "session", "list")[0] == 5
    file.write_text('redis_url = "redis://127.0.0.1:2"\n')
    assert source("redis_url") == "default"
    assert printed(project, "trust")["trusted"]
    assert printed(project, "trust", "--revoke")["revoked"]
    assert source("redis_url") == "default"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(project: Path, command: str):
    """The help of each command, and of those below it, shows one."""
    words = [[command]]
    if command in ("session", "message", "stack"):
        shown = maestro_command(project, command, "--help").stdout
        rows = [line for line in shown.split("Commands:")[1].splitlines() if re.match(r"  \S", line)]
        assert rows
        words += [[command, row.split()[0]] for row in rows]
    for one in words:
        done = maestro_command(project, *one, "--help")
        assert done.returncode == 0
        assert f"maestro {' '.join(one)}" in done.stdout.split("Example:")[1], one
    assert not (project / ".maestro").exists()
