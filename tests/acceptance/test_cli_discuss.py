"""`maestro discuss …` as its users run it: what it prints, what it leaves, how it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli_runs import maestro_command, printed, refused
from tests.support.golden_discussions import FOLDER

pytestmark = pytest.mark.usefixtures("served")

FINAL = {
    "patch_operations": [
        {"op_type": "add_track", "data": {"track_name": "Login"}},
        {"op_type": "add_phase", "data": {"phase_name": "Core", "track_id": "login"}},
    ]
}


def test_a_discussion_on_the_command_line(project: Path):
    """start, say, done, replay, list and show print their documents; the second replay changes nothing."""
    meta = printed(project, "discuss", "start", "--kind", "track", "--ref", "login")
    assert meta["context"]["ref"] == "login"
    discussion_id = meta["session_id"]
    event = printed(project, "discuss", "say", "-", stdin="plan é\n".encode())
    assert (event["type"], event["payload"]) == ("user_message", {"content": "plan é\n"})
    printed(project, "discuss", "say", "--role", "assistant", "--discussion", discussion_id[:8], "thinking")
    closed = printed(project, "discuss", "done", "-", stdin=json.dumps(FINAL).encode())
    assert (closed["status"], closed["final_json_present"], closed["initial_prompt"]) == ("closed", True, "plan é\n")

    planned = printed(project, "discuss", "replay", discussion_id, "--dry-run")
    assert (planned["result"], planned["dry_run"], planned["ops_count"]) == ("REPLAY_OK", True, 2)
    assert not (project / "docs/maestro/tracks.json").exists()
    applied = printed(project, "discuss", "replay", discussion_id)
    assert [row["changed"] for row in applied["operations"]] == [True, True]
    before = (project / "docs/maestro/tracks.json").read_bytes()
    again = printed(project, "discuss", "replay", discussion_id)
    assert (again["result"], again["ops_count"], again["changed_files"]) == ("REPLAY_OK", 2, [])
    assert (project / "docs/maestro/tracks.json").read_bytes() == before

    assert [row["session_id"] for row in printed(project, "discuss", "list")["discussions"]] == [discussion_id]
    shown = printed(project, "discuss", "show", discussion_id)
    assert [event["type"] for event in shown["events"]] == [
        "user_message", "assistant_message", "final_json", "replay_run", "replay_run", "replay_run"
    ]  # fmt: skip


def test_refusals_have_their_exit_codes(project: Path):
    """Nothing there 3, bad input 2, not in this state 4, a failed replay 1: each says what to do."""
    code, error = refused(project, "discuss", "say", "hello")
    assert (code, error["code"]) == (3, "no_open_discussion")
    assert refused(project, "discuss", "show", "nothing")[0] == 3
    assert refused(project, "discuss", "migrate", "no/such/path")[0] == 3
    discussion_id = printed(project, "discuss", "start", "--contract", "task")["session_id"]
    code, error = refused(project, "discuss", "replay", discussion_id)
    assert (code, error["code"]) == (4, "no_final_json")
    assert "discuss done" in error["hint"]
    assert refused(project, "discuss", "done", "no-such-file.json")[0] == 3
    for text in ("", "{", '{"patch_operations": [NaN]}', json.dumps(FINAL)):
        code, error = refused(project, "discuss", "done", "-", stdin=text.encode())
        assert code == 2
    assert error["message"].startswith("operation 1 (add_track)")
    missing = {"op_type": "mark_done", "data": {"item_id": "nothing"}}
    printed(project, "discuss", "done", "-", stdin=json.dumps({"patch_operations": [missing]}).encode())
    assert refused(project, "discuss", "say", "late", "--discussion", discussion_id)[0] == 4
    assert refused(project, "discuss", "done", "-", stdin=b'{"patch_operations": []}')[0] == 4

    failed = maestro_command(project, "discuss", "replay", discussion_id, "--json")
    assert failed.returncode == 1
    document = json.loads(failed.stdout)
    assert (document["result"], document["ops_count"], document["operations"]) == ("REPLAY_FAIL", 0, [])
    assert "nothing" in document["error"]
    assert json.loads(failed.stderr)["error"]["code"] == "replay_failed"
    types = [event["type"] for event in printed(project, "discuss", "show", discussion_id)["events"]]
    assert types == ["error", "final_json", "error", "replay_run"]
    told = maestro_command(project, "discuss", "replay", discussion_id).stdout
    lines = [
        "? operation 1 (mark_done): item_id: there is no task 'nothing'",
        "REPLAY_FAIL  0 operations, nothing applied",
    ]
    assert told.splitlines() == lines


def test_a_plan_that_lacks_what_it_refers_to_names_each(project: Path):
    """A replay that fails only for what is not there names every such thing, not the first alone; what the list makes
    itself is no such thing.
    """
    operations = [
        {"op_type": "add_phase", "data": {"phase_id": "core", "phase_name": "Core", "track_id": "alpha"}},
        {"op_type": "add_task", "data": {"task_id": "cut", "task_name": "Cut", "phase_id": "core"}},
        {"op_type": "edit_task_fields", "data": {"task_id": "gone", "fields": {"status": "doing"}}},
        {"op_type": "move_task", "data": {"task_id": "cut", "target_phase_id": "nowhere"}},
    ]
    final = json.dumps({"patch_operations": operations}).encode()
    discussion_id = printed(project, "discuss", "start")["session_id"]
    printed(project, "discuss", "done", "-", stdin=final)
    failed = maestro_command(project, "discuss", "replay", discussion_id, "--dry-run", "--json")
    assert failed.returncode == 1
    missing = json.loads(failed.stdout)["missing"]
    assert [(one["operation"], one["kind"], one["id"]) for one in missing] == [
        (1, "track", "alpha"),
        (3, "task", "gone"),
        (4, "phase", "nowhere"),
    ]
    assert not (project / "docs/maestro/tasks.json").exists()


def test_the_status_of_a_task_is_a_field_like_others(project: Path):
    """`edit_task_fields` sets a status and a phase; replayed again nothing changes."""
    operations = [
        {"op_type": "add_track", "data": {"track_id": "t", "track_name": "T"}},
        {"op_type": "add_phase", "data": {"phase_id": "p", "phase_name": "P", "track_id": "t"}},
        {"op_type": "add_phase", "data": {"phase_id": "q", "phase_name": "Q", "track_id": "t"}},
        {"op_type": "add_task", "data": {"task_id": "a", "task_name": "A", "phase_id": "p"}},
        {"op_type": "edit_task_fields", "data": {"task_id": "a", "fields": {"status": "in_progress", "phase_id": "q"}}},
    ]
    discussion_id = printed(project, "discuss", "start")["session_id"]
    printed(project, "discuss", "done", "-", stdin=json.dumps({"patch_operations": operations}).encode())
    assert printed(project, "discuss", "replay", discussion_id)["result"] == "REPLAY_OK"
    (task,) = json.loads((project / "docs/maestro/tasks.json").read_text())["tasks"]
    assert (task["status"], task["phase_id"]) == ("in_progress", "q")
    assert printed(project, "discuss", "replay", discussion_id)["changed_files"] == []


def test_a_tool_answers(project: Path):
    """A tool is handed the conversation and its answer is said; one that fails is on record and exits with 1."""
    discussion_id = printed(project, "discuss", "start", "--contract", "task")["session_id"]
    assert refused(project, "discuss", "say", "--tool", "echo", "hello")[0] == 3  # no session for the run
    printed(project, "session", "start", "talk")
    assert refused(project, "discuss", "say", "--tool", "no-such-tool", "hello")[0] == 3
    assert printed(project, "discuss", "show")["events"] == []

    answer = printed(project, "discuss", "say", "--tool", "echo", "plan the login")
    assert answer["type"] == "assistant_message"
    assert answer["payload"]["content"].rstrip().endswith("User: plan the login")
    assert "- move_task {task_id, source_phase_id?, target_phase_id}" in answer["payload"]["content"]
    assert "add_track" not in answer["payload"]["content"]
    assert refused(project, "discuss", "say", "--tool", "false", "and then")[0] == 1
    shown = printed(project, "discuss", "show", discussion_id)
    assert [event["type"] for event in shown["events"]] == [
        "user_message", "assistant_message", "user_message", "error"
    ]  # fmt: skip
    assert shown["engine"] == "echo"
    assert len(printed(project, "runs")["runs"]) == 2


def test_a_torn_line_is_skipped_and_said(project: Path):
    """Replay goes on after a torn last line and says so; a damaged line elsewhere fails it."""
    for name in ("torn-tail", "damaged-line", "surrogates"):
        shutil.copytree(FOLDER / name / "before", project, dirs_exist_ok=True)
    torn = maestro_command(project, "discuss", "replay", "golden-torn-tail")
    assert (torn.returncode, "last line" in torn.stdout) == (0, True)
    damaged = maestro_command(project, "discuss", "replay", "golden-damaged-line")
    assert (damaged.returncode, "line 1" in damaged.stderr) == (1, True)
    for options in ((), ("--json",)):
        shown = maestro_command(project, "discuss", "show", "golden-surrogates", *options)
        assert (shown.returncode, "\\ud83d" in shown.stdout) == (0, True)


def test_migrating_older_formats(project: Path):
    """Everything that can be converted is, the rest is reported with its reason; again, nothing is left to do."""
    for name in ("artifact-list", "work-session"):
        shutil.copytree(FOLDER / name / "before", project, dirs_exist_ok=True)
    work = project / "docs/sessions/22222222-2222-4333-8444-555555555555"
    work.mkdir()
    (work / "session.json").write_text(json.dumps({"session_id": work.name, "session_type": "work_task"}))
    (project / "docs/maestro/ai/artifacts/broken_results.json").write_text("{")
    originals = {path: path.read_bytes() for path in (project / "docs").rglob("*.json")}

    planned = printed(project, "discuss", "migrate", "--dry-run")
    assert not (project / "docs/maestro/sessions").exists()
    report = printed(project, "discuss", "migrate")
    assert report["migrated"] == planned["migrated"]
    assert [row["session_id"] for row in report["migrated"]] == [
        "discuss_global_20260102_030405", "11111111-2222-4333-8444-555555555555"
    ]  # fmt: skip
    reasons = {Path(row["from"]).name: row["reason"] for row in report["skipped"]}
    assert "not JSON" in reasons["broken_results.json"]
    assert "work_task" in reasons[work.name]
    again = printed(project, "discuss", "migrate")
    assert again["migrated"] == []
    assert len(again["skipped"]) == 4
    named = printed(project, "discuss", "migrate", str(work))
    assert [row["session_id"] for row in named["migrated"]] == [work.name]
    assert {path: path.read_bytes() for path in originals} == originals
    assert len(printed(project, "discuss", "list")["discussions"]) == 3
