"""Histories of Gemini CLI, Qwen Code, opencode and llm: each in its own form, all told alike."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from maestro_state import Maestro
from maestro_state.clock import from_iso
from maestro_state.histories.readers import reader_of
from maestro_state.local.embedded import is_starting, stop, supervisor_alive
from maestro_state.models.imports import Imported
from tests.support.databases import llm, opencode
from tests.support.histories import archived, json_lines, said, stamp
from tests.support.waiting import wait_until


@pytest.fixture
def maestro(tmp_path: Path):
    shop = tmp_path / "shop"
    (shop / ".maestro").mkdir(parents=True)
    environment = {"HOME": str(tmp_path), "LLM_USER_PATH": str(tmp_path / "llm")}
    with Maestro(shop, environment=environment) as one:
        yield one
    # Reading what was imported asks the server first, and a supervisor that is on its way hears no stop.
    wait_until(lambda: supervisor_alive(shop) or not is_starting(shop), "the supervisor is on its way")
    stop(shop)


def imported(maestro: Maestro, tool: str, **more: Any) -> Imported:
    report = maestro.histories.import_(tool, **more)
    assert report.errors == []
    (row,) = report.imported
    assert maestro.archive.verify_all().ok
    return row


def gemini(tmp_path: Path, root: str, rows: list[dict[str, Any]]) -> Path:
    digest = hashlib.sha256(root.encode()).hexdigest()
    path = tmp_path / ".gemini" / "tmp" / digest / "chats" / "session-2026-11-02T10-00-aaaa.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"sessionId": "gem-1", "projectHash": digest, "startTime": stamp(0), "kind": "main"}
    path.write_text(json_lines([header, *rows]))
    return path


def gemini_rows() -> list[dict[str, Any]]:
    call = {"id": "c1", "name": "write_file", "args": {"file_path": "a.py"}, "status": "success",
            "result": [{"functionResponse": {"id": "c1", "response": {"output": "written"}}}]}  # fmt: skip
    tokens = {"input": 50, "output": 8, "cached": 10, "thoughts": 4, "tool": 0, "total": 62}
    return [
        {"id": "m0", "timestamp": stamp(1), "type": "user", "content": [{"text": "<session_context>today is"}]},
        {"id": "m1", "timestamp": stamp(2), "type": "user", "content": [{"text": "write a.py"}]},
        {"id": "m2", "timestamp": stamp(3), "type": "gemini", "content": "", "model": "gemini-x"},
        {"id": "m2", "timestamp": stamp(3), "type": "gemini", "content": "on it", "model": "gemini-x", "tokens": tokens,
         "toolCalls": [call]},
        {"$set": {"lastUpdated": stamp(4), "summary": "Writing a.py"}},
        {"id": "m3", "timestamp": stamp(5), "type": "user", "content": "no, stop"},
        {"$rewindTo": "m3"},
        {"id": "m4", "timestamp": stamp(6), "type": "user", "content": "thanks"},
        {"id": "m5", "timestamp": stamp(7), "type": "gemini", "content": "done", "tokens": tokens, "model": "gemini-x"},
    ]  # fmt: skip


def test_gemini_is_a_log_of_changes(maestro: Maestro, tmp_path: Path):
    """A message told again counts once, its own first words are no question, what was rewound stays."""
    gemini(tmp_path, maestro.project.path, gemini_rows())
    row = imported(maestro, "gemini")
    assert said(maestro, row.session_id) == [
        ("user", "write a.py"),
        ("assistant", "on it"),
        ("tool", "written"),
        ("user", "no, stop"),
        ("user", "thanks"),
        ("assistant", "done"),
    ]
    assert (row.tokens.input, row.tokens.cache_read, row.tokens.output, row.tokens.reasoning) == (80, 20, 24, 8)
    assert row.runs == 3


def test_gemini_after_everything_was_replaced(maestro: Maestro, tmp_path: Path):
    """`$set.messages` takes the place of all there were in the file, not in the session."""
    rows = gemini_rows()
    gemini(tmp_path, maestro.project.path, rows[:5])
    first = imported(maestro, "gemini")
    gemini(tmp_path, maestro.project.path, [{"$set": {"messages": rows[7:]}}])
    again = imported(maestro, "gemini")
    assert (again.session_id, again.status, again.messages, again.runs) == (first.session_id, "updated", 5, 2)
    assert again.tokens.input == 80


def test_gemini_that_has_a_file_a_start_is_one_conversation(maestro: Maestro, tmp_path: Path):
    """Going on may begin another file: what both have is there once, and told in one row."""
    first = gemini(tmp_path, maestro.project.path, gemini_rows())
    more = {"id": "m6", "timestamp": stamp(8), "type": "user", "content": "and the rest"}
    header = first.read_text().splitlines(keepends=True)[0]
    first.with_name("session-2026-11-02T10-01-aaaa.jsonl").write_text(header + json_lines([*gemini_rows()[1:2], more]))
    row = imported(maestro, "gemini")
    assert (row.status, row.messages, row.runs) == ("new", 7, 4)
    again = imported(maestro, "gemini")
    assert (again.session_id, again.status, again.messages) == (row.session_id, "unchanged", 7)


def test_gemini_without_the_head_of_its_history(maestro: Maestro, tmp_path: Path):
    """Another gemini that starts takes a history away in which nothing was said: it begins anew without its id."""
    session = "2e19c538-70eb-4f35-8424-a756998a4c82"
    folder = tmp_path / ".gemini" / "tmp" / "shop" / "chats"
    folder.mkdir(parents=True)
    (folder.parent / ".project_root").write_text(maestro.project.path)
    (folder / "session-2026-11-02T10-00-2e19c538.jsonl").write_text(json_lines(gemini_rows()[1:]))
    asked = [{"sessionId": one, "messageId": 0, "type": "user", "message": "write a.py"}
             for one in ("2e19c538", session, "5bca6649-43be-415d-adfb-b822b262ec0e")]  # fmt: skip
    (folder.parent / "logs.json").write_text(json.dumps(asked))
    assert imported(maestro, "gemini").external_id == session
    (folder.parent / "logs.json").write_text("{damaged")
    found = reader_of("gemini").conversations(next(reader_of("gemini").files(str(folder))))
    assert [one.external_id for one in found] == ["session-2026-11-02T10-00-2e19c538"]


def test_gemini_that_was_interrupted(maestro: Maestro, tmp_path: Path):
    """It notes that for the person who pressed the key; other such notes end nothing."""
    rows = [
        *gemini_rows(),
        {"id": "m6", "timestamp": stamp(8), "type": "user", "content": "and the rest"},
        {"id": "m7", "timestamp": stamp(9), "type": "info", "content": "Tip: press ? for help"},
    ]
    gemini(tmp_path, maestro.project.path, rows)
    first = imported(maestro, "gemini")
    assert archived(maestro, first.session_id).runs()[-1].status == "error"  # the control: nobody answered
    rows.append({"id": "m8", "timestamp": stamp(10), "type": "info", "content": "Request cancelled."})
    gemini(tmp_path, maestro.project.path, rows)
    again = imported(maestro, "gemini")
    assert (again.status, again.messages) == ("updated", first.messages)
    assert archived(maestro, again.session_id).runs()[-1].status == "canceled"


def test_gemini_that_was_resumed(maestro: Maestro, tmp_path: Path):
    """Going on tells all of it again, at the time of that and without its tokens: each keeps what it was."""
    rows = gemini_rows()
    again = [{"id": row["id"], "type": row["type"], "content": [{"text": row["content"]}], "timestamp": stamp(60)}
             for row in (rows[3], rows[8])]  # fmt: skip
    asked = {"id": "m1", "type": "user", "content": [{"text": "write a.py"}], "timestamp": stamp(60)}
    header = {"sessionId": "gem-1", "startTime": stamp(60), "kind": "main"}
    gemini(tmp_path, maestro.project.path, [*rows, header, {"$set": {"messages": [asked, *again]}}])
    row = imported(maestro, "gemini")
    assert (row.tokens.input, row.tokens.output, row.messages, row.runs) == (80, 24, 6, 3)
    runs = maestro.runs.list(row.session_id)
    assert [from_iso(one.started_at) for one in runs] == [from_iso(stamp(at)) for at in (2, 5, 6)]
    assert {one.usage.model for one in runs if one.status == "success"} == {"gemini-x"}


def qwen_rows(cwd: str) -> list[dict[str, Any]]:
    def row(number: int, kind: str, **more: Any) -> dict[str, Any]:
        return {"uuid": f"q{number}", "timestamp": stamp(number), "type": kind, "cwd": cwd, "version": "0.15.0", **more}

    def told(number: int, response: str, sent: int) -> dict[str, Any]:
        event = {"event.name": "qwen-code.api_response", "response_id": response, "model": "qwen-x",
                 "input_token_count": sent, "output_token_count": 7, "cached_content_token_count": 5,
                 "thoughts_token_count": 2, "total_token_count": sent + 7}  # fmt: skip
        return row(number, "system", subtype="ui_telemetry", systemPayload={"uiEvent": event})

    usage = {"promptTokenCount": 60, "candidatesTokenCount": 7, "thoughtsTokenCount": 2, "totalTokenCount": 67,
             "cachedContentTokenCount": 5}  # fmt: skip
    call = {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}}}
    answer = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": "a.py"}}}
    return [
        row(1, "user", message={"role": "user", "parts": [{"text": "list them"}]}),
        told(2, "r1", 60),
        row(3, "assistant", model="qwen-x", usageMetadata=usage,
            message={"role": "model", "parts": [{"text": "hm", "thought": True}, call]}),
        row(4, "tool_result", message={"role": "user", "parts": [answer]}),
        told(5, "hidden", 30),
        row(6, "assistant", model="qwen-x", usageMetadata=usage,
            message={"role": "model", "parts": [{"text": "a.py"}]}),
        told(7, "r2", 60),
    ]  # fmt: skip


def test_qwen_counts_hidden_calls_and_no_answer_twice(maestro: Maestro, tmp_path: Path):
    """What telemetry tells beside an answer is the answer's; what it tells alone is a call of its own."""
    path = tmp_path / ".qwen" / "projects" / "shop" / "chats" / "qwen-1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json_lines(qwen_rows(maestro.project.path)))
    row = imported(maestro, "qwen")
    assert said(maestro, row.session_id) == [
        ("user", "list them"),
        ("assistant", ""),
        ("tool", "a.py"),
        ("assistant", "a.py"),
    ]
    assert (row.tokens.input, row.tokens.cache_read, row.tokens.output, row.tokens.reasoning) == (135, 15, 21, 6)


def test_opencode_from_its_database(maestro: Maestro, tmp_path: Path):
    """Children are sessions of their own with their own cost; the call that started each is known."""
    path = opencode(tmp_path / ".local" / "share" / "opencode" / "opencode.db", maestro.project.path)
    before = {one.name: one.stat().st_mtime_ns for one in path.parent.iterdir()}
    row = imported(maestro, "opencode")
    assert said(maestro, row.session_id) == [("user", "ask a child"), ("assistant", "it said two"), ("tool", "two")]
    (child,) = row.children
    assert said(maestro, child) == [("user", "say two"), ("assistant", "two")]
    assert (row.cost, row.tokens.output, row.tokens.cache_write) == (0.75, 14, 2)
    assert archived(maestro, row.session_id).runs()[0].usage.cost == 0.25
    assert archived(maestro, child).record().project_context["import"]["tool_call_id"] == "call_1"
    assert {one.name: one.stat().st_mtime_ns for one in path.parent.iterdir()} == before


def test_opencode_from_an_export(maestro: Maestro, tmp_path: Path):
    """What `opencode export` wrote is the same conversation."""
    info = {"id": "ses_x", "title": "Exported", "directory": maestro.project.path}
    parts = [{"type": "text", "text": "hello"}]
    messages = [{"info": {"id": "m1", "role": "user", "time": {"created": 1793613600000}}, "parts": parts}]
    (tmp_path / "one.json").write_text(json.dumps({"info": info, "messages": messages}))
    row = imported(maestro, "opencode", paths=[tmp_path / "one.json"])
    assert (row.external_id, said(maestro, row.session_id)) == ("ses_x", [("user", "hello")])


def test_llm_from_its_database(maestro: Maestro, tmp_path: Path):
    """It knows no projects: taken when told. Instructions are said once."""
    llm(tmp_path / "llm" / "logs.db")
    assert maestro.histories.import_("llm").left_out == 1
    row = imported(maestro, "llm", any_project=True)
    assert said(maestro, row.session_id) == [
        ("system", "be brief"),
        ("user", "say pong"),
        ("assistant", "pong 0"),
        ("user", "again"),
        ("assistant", "pong 1"),
    ]
    assert (row.runs, row.tokens.input, row.tokens.cache_read, row.tokens.output) == (2, 104, 16, 24)


def test_llm_logs_and_database_are_one_conversation(maestro: Maestro, tmp_path: Path):
    """What `llm logs --json` printed and the database say the same: the second import has nothing new."""
    path = llm(tmp_path / "llm" / "logs.db")
    imported(maestro, "llm", paths=[path])
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM responses")]
    (tmp_path / "logs.json").write_text(json.dumps(rows))
    assert imported(maestro, "llm", paths=[tmp_path / "logs.json"]).status == "unchanged"


def test_a_database_in_use_is_read_with_its_log(maestro: Maestro, tmp_path: Path):
    """What is only in the log beside it counts too, and neither file is touched."""
    path = llm(tmp_path / "llm" / "logs.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE responses SET response = 'from the log' WHERE id = 'resp-1'")
        connection.commit()
        kept = tmp_path / "copy"
        shutil.copytree(path.parent, kept)
    (kept / "logs.db-shm").unlink()
    row = imported(maestro, "llm", paths=[kept / "logs.db"])
    assert said(maestro, row.session_id)[-1] == ("assistant", "from the log")
    assert sorted(one.name for one in kept.iterdir()) == ["logs.db", "logs.db-wal"]


@pytest.mark.parametrize("tool", ["opencode", "llm", "gemini", "qwen", "codex", "claude"])
def test_a_file_that_is_no_history_is_named(maestro: Maestro, tmp_path: Path, tool: str):
    """Garbage of any kind: an error with its path, or nothing in it; never a session, never a traceback."""
    for content in (b"\xff\x00garbage\n{]", b"", b"[1,2]", b"SQLite format 3\0rest", b'{"info":7}', b'[{"id":"\xe9"}]'):
        (tmp_path / "odd.jsonl").write_bytes(content)
        report = maestro.histories.import_(tool, [tmp_path / "odd.jsonl"])
        assert report.imported == []
        assert {one.path for one in report.errors} <= {str(tmp_path / "odd.jsonl")}
        if content.startswith(b"\xff"):
            assert report.errors
