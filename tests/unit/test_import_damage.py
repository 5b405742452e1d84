"""Histories that are damaged, hostile, or of a form that nobody has seen yet: named, and no other is hidden by them."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from maestro_state import Maestro
from maestro_state.histories.followed_conversations import file_name
from maestro_state.local.embedded import is_starting, stop, supervisor_alive
from maestro_state.models.message import id_order
from maestro_state.models.strict_json import DEPTH_MAX, is_deeper
from tests.support.databases import llm, opencode
from tests.support.histories import CLAUDE_ID, CODEX_ID, archived, codex_rows, json_lines, said, stamp, two_turns
from tests.support.waiting import wait_until

OTHER_ID = "0c0c0c0c-0000-4000-8000-000000000003"


@pytest.fixture
def maestro(tmp_path: Path):
    (tmp_path / "shop" / ".maestro").mkdir(parents=True)
    environment = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "c"), "CODEX_HOME": str(tmp_path / "x")}
    with Maestro(tmp_path / "shop", environment=environment) as one:
        yield one


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [a_link_to_nowhere, a_link_to_itself, a_pipe])
def test_what_cannot_be_opened_hides_no_other(maestro: Maestro, tmp_path: Path, make: Callable[[Path], None]):
    """It is named once, by its path; those before and after it in the folder are imported, with --since too."""
    first = two_turns(tmp_path / "c", maestro.project.path)
    odd = first.folder / "0b-odd.jsonl"
    first.write()
    two_turns(tmp_path / "c", maestro.project.path, OTHER_ID).write()
    assert len(maestro.histories.import_("claude", dry_run=True).imported) == 2
    make(odd)
    for more in ({"since": "1h"}, {}):
        report = maestro.histories.import_("claude", **more)
        assert len(report.imported) == 2
        assert [one.path for one in report.errors] == [str(odd)]
        assert str(odd) not in report.errors[0].reason


@pytest.mark.parametrize("tool", ["claude", "codex", "gemini", "qwen", "opencode", "llm"])
def test_a_pipe_that_is_named_is_not_waited_for(maestro: Maestro, tmp_path: Path, tool: str):
    """Nobody writes to it: it is no file, for every tool."""
    os.mkfifo(tmp_path / "pipe")
    report = maestro.histories.import_(tool, [tmp_path / "pipe"])
    assert [(one.path, one.reason) for one in report.errors] == [(str(tmp_path / "pipe"), "is not a file")]


def test_a_sub_agent_that_cannot_be_read_leaves_its_conversation(maestro: Maestro, tmp_path: Path):
    """Who asked it is imported, and so are the other sub-agents; its file is named."""
    history = two_turns(tmp_path / "c", maestro.project.path)
    folder = history.write().with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-1.jsonl").symlink_to("/nowhere/at/all")
    row = {"type": "user", "uuid": "u1", "timestamp": stamp(1), "message": {"role": "user", "content": "count"}}
    (folder / "agent-2.jsonl").write_text(json_lines([row]))
    report = maestro.histories.import_("claude")
    ((session, child),) = [(one, one.children) for one in report.imported]
    assert (session.messages, len(child)) == (8, 1)
    assert [one.path for one in report.errors] == [str(folder / "agent-1.jsonl")]


def test_an_attachment_of_another_form_is_passed_over(maestro: Maestro, tmp_path: Path):
    """A later version of the tool may write what is not known here."""
    history = two_turns(tmp_path / "c", maestro.project.path)
    history.rows.append({"type": "attachment", "uuid": "a1", "attachment": {"type": {"is": "queued_command"}}})
    odd = {"queued_command": 1, "type": 7}
    history.rows.append({"type": "attachment", "uuid": "a2", "parentUuid": "a1", "attachment": odd})
    history.write()
    report = maestro.histories.import_("claude")
    assert ([one.messages for one in report.imported], report.errors) == ([8], [])


@pytest.mark.parametrize("odd", ["9999-12-31T23:59:59Z", "0001-01-02T00:00:00Z", 253402300799000, -1, "soon"])
@pytest.mark.parametrize("at", [0, 1])
def test_a_time_that_no_entry_can_have_is_none(maestro: Maestro, tmp_path: Path, odd: Any, at: int):
    """Before there was time or after the last id: it is as late as what came before, and the archive can be read."""
    history = two_turns(tmp_path / "c", maestro.project.path)
    history.rows[at]["timestamp"] = odd
    history.write()
    (row,) = maestro.histories.import_("claude").imported
    assert len(archived(maestro, row.session_id).messages()) == 8
    assert all(0 <= id_order(one.id)[0] < 2e12 for one in archived(maestro, row.session_id).messages())


@pytest.mark.parametrize("depth", [3, 101, 975])
def test_arguments_that_are_nested_deeply_can_be_read_again(maestro: Maestro, tmp_path: Path, depth: int):
    """Deeper than what is kept as it is, they are text: no reader of the archive gives up on them."""
    history = two_turns(tmp_path / "c", maestro.project.path).ask("deep?")
    history.answer(history.call("Odd", "call-9", value="NESTED"), answer="msg-9")
    path = history.write()
    path.write_text(path.read_text().replace('"NESTED"', '{"a":' * depth + "1" + "}" * depth))
    (row,) = maestro.histories.import_("claude").imported
    (call,) = archived(maestro, row.session_id).messages()[-1].tool_calls
    assert list(call["args"]) == (["value"] if depth == 3 else ["arguments"])
    assert not is_deeper(call, DEPTH_MAX + 2)


def test_broken_lines_are_counted_where_nobody_says_anything(maestro: Maestro, tmp_path: Path):
    """The first twenty are named, all others counted."""
    (tmp_path / "odd.jsonl").write_text("{broken\n" * 50)
    report = maestro.histories.import_("claude", [tmp_path / "odd.jsonl"])
    assert [one.reason for one in report.errors[19:]] == ["line 20: not JSON", "30 more lines cannot be read"]


def test_an_id_that_is_a_path_leads_nowhere(maestro: Maestro, tmp_path: Path):
    """Gemini's sub-agents are in a folder of the conversation's id: only below it are they looked for."""
    secret = tmp_path / "secret" / "one.jsonl"
    secret.parent.mkdir()
    said_there = {"id": "m1", "timestamp": stamp(1), "type": "user", "content": "not for you"}
    secret.write_text(json_lines([{"sessionId": "s", "startTime": stamp(0)}, said_there]))
    chats = tmp_path / "tmp" / "p" / "chats"
    chats.mkdir(parents=True)
    (chats / "inside").mkdir()
    (chats / "inside" / "one.jsonl").write_bytes(secret.read_bytes())
    asked = {"id": "m1", "timestamp": stamp(2), "type": "user", "content": "hello"}
    found = {}
    for number, external_id in enumerate([str(secret.parent), "../../../secret", "inside"]):
        path = chats / f"session-2026-{number}.jsonl"
        path.write_text(json_lines([{"sessionId": external_id, "startTime": stamp(0)}, asked]))
        (row,) = maestro.histories.import_("gemini", [path]).imported
        found[external_id] = len(row.children)
    assert found == {str(secret.parent): 0, "../../../secret": 0, "inside": 1}


def changed(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for one in statements:
            connection.execute(one)
        connection.commit()
    return path


OPENCODE_ODDITIES = [
    "UPDATE session SET time_updated = 'soon', title = x'ff00'",
    "UPDATE session SET title = CAST(x'ff41' AS TEXT)",
    "UPDATE message SET data = CAST(x'7bff' AS TEXT) WHERE id = 'msg_ses_a_2'",
    "UPDATE part SET data = CAST(x'ff' AS TEXT)",
    "UPDATE session SET directory = 7",
]


def test_a_part_that_is_damaged_is_named(maestro: Maestro, tmp_path: Path):
    """What is beside it in the conversation is imported."""
    damage = "UPDATE part SET data = CAST(x'ff' AS TEXT) WHERE id = 'prt_msg_ses_a_2_0'"
    path = opencode(tmp_path / "opencode.db", maestro.project.path)
    report = maestro.histories.import_("opencode", [changed(path, damage)])
    assert [said(maestro, row.session_id)[0] for row in report.imported] == [("user", "ask a child")]
    assert [one.reason for one in report.errors] == ["line 2: part prt_msg_ses_a_2_0 is not JSON"]


#: As they stand in a file: half a character that takes two, alone; whole ones and backslashes stay.
HALVES = [
    (r"cut \ud83d", "cut \ufffd"),
    (r"\uDE00 began before", "\ufffd began before"),
    (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
    (r"\ud83d and \\ud83d", "\ufffd and \\ud83d"),
]


@pytest.mark.parametrize(("written", "read"), HALVES)
@pytest.mark.parametrize("tool", ["claude", "opencode", "llm"])
def test_half_a_character_hides_nothing_else(maestro: Maestro, tmp_path: Path, tool: str, written: str, read: str):
    """Programs that cut a text where their own counting ends write such; the text is there but for that character."""
    question = f"HERE {read}"
    if tool == "claude":
        one = two_turns(tmp_path / "c", maestro.project.path)
        one.rows[0]["message"]["content"] = "HERE"
        path = one.write()
        path.write_text(path.read_text().replace("HERE", f"HERE {written}"))
    elif tool == "opencode":
        path = opencode(tmp_path / "opencode.db", maestro.project.path)
        changed(path, f"UPDATE part SET data = replace(data, 'ask a child', 'HERE {written}')")
    else:
        row = {"id": "r1", "conversation_id": "c1", "prompt": "HERE", "response": "there", "datetime_utc": stamp(1)}
        path = tmp_path / "logs.json"
        path.write_text(json.dumps([row]).replace("HERE", f"HERE {written}"))
    report = maestro.histories.import_(tool, [path])
    assert report.errors == []
    assert said(maestro, report.imported[0].session_id)[0] == ("user", question)


@pytest.mark.parametrize("statement", OPENCODE_ODDITIES)
def test_odd_values_in_opencode_s_database(maestro: Maestro, tmp_path: Path, statement: str):
    """Whatever is in a column: the conversation is read as far as it tells one, and the archive is whole."""
    path = changed(opencode(tmp_path / "opencode.db", maestro.project.path), statement)
    report = maestro.histories.import_("opencode", [path])
    for row in report.imported:
        assert archived(maestro, row.session_id).contents()
    assert report.imported or report.errors
    assert maestro.archive.verify_all().ok


def test_a_conversation_that_is_damaged_hides_no_other_of_its_database(maestro: Maestro, tmp_path: Path):
    """An archive that cannot be added to is named; the conversation beside it is imported."""
    path = opencode(tmp_path / "opencode.db", maestro.project.path)
    (first,) = maestro.histories.import_("opencode", [path]).imported
    changed(
        path,
        "INSERT INTO session SELECT 'ses_z', NULL, directory, 'Another', 1893613600000, 1893613600000"
        " FROM session WHERE id = 'ses_a'",
        "INSERT INTO message SELECT 'msg_z', 'ses_z', time_created, 0, data FROM message WHERE id = 'msg_ses_a_1'",
        "INSERT INTO part SELECT 'prt_z', 'msg_z', 'ses_z', 0, 0, data FROM part WHERE id = 'prt_msg_ses_a_1_0'",
    )
    (Path(maestro.places.own.path_of(first.session_id)) / "maestro.json").write_text("{}")
    report = maestro.histories.import_("opencode", [path])
    assert [one.external_id for one in report.imported] == ["ses_z"]
    assert len(report.errors) == 1


def test_sub_agents_of_sub_agents_however_deep(maestro: Maestro, tmp_path: Path):
    """Two thousand of them, each started by the one before; and two that are each other's."""
    path = opencode(tmp_path / "opencode.db", maestro.project.path)
    with closing(sqlite3.connect(path)) as connection:
        for number in range(2000):
            row = (f"ses_{number}", f"ses_{number - 1}" if number else "ses_b", "/elsewhere", "Deep", number, number)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
        for one, other in (("ses_c", "ses_d"), ("ses_d", "ses_c")):
            row = (one, other, maestro.project.path, "Round", 1, 1)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
            told = "INSERT INTO message SELECT ?, ?, 1, 1, data FROM message WHERE id = 'msg_ses_a_1'"
            connection.execute(told, (f"msg_{one}", one))
            told = "INSERT INTO part SELECT ?, ?, ?, 1, 1, data FROM part WHERE id = 'prt_msg_ses_a_1_0'"
            connection.execute(told, (f"prt_{one}", f"msg_{one}", one))
        connection.commit()
    report = maestro.histories.import_("opencode", [path])
    assert [(one.external_id, len(one.children)) for one in report.imported] == [("ses_a", 1), ("ses_c", 1)]


LLM_ODDITIES: list[dict[str, Any]] = [
    {"duration_ms": "x", "resolved_model": {"a": 1}},
    {"tool_calls": 7, "tool_results": True},
    {"conversation_name": ["a"], "prompt": 5, "response": None},
    {"token_details": "{", "input_tokens": None},
]


@pytest.mark.parametrize("odd", LLM_ODDITIES)
def test_odd_values_in_printed_logs(maestro: Maestro, tmp_path: Path, odd: dict[str, Any]):
    """Also a row that tells no tokens at all, as earlier versions printed."""
    row = {"id": "r1", "conversation_id": "c1", "prompt": "hello", "response": "there", "datetime_utc": stamp(1)}
    (tmp_path / "logs.json").write_text(json.dumps([row | odd]))
    report = maestro.histories.import_("llm", [tmp_path / "logs.json"])
    assert ([one.messages for one in report.imported], report.errors) == ([2], [])
    assert archived(maestro, report.imported[0].session_id).contents()


def test_odd_values_in_llm_s_database(maestro: Maestro, tmp_path: Path):
    """A text that is none, a length that is no number."""
    path = changed(
        llm(tmp_path / "logs.db"),
        "UPDATE responses SET duration_ms = 'long', response = CAST(x'ff41' AS TEXT) WHERE id = 'resp-1'",
    )
    (row,) = maestro.histories.import_("llm", [path]).imported
    assert said(maestro, row.session_id)[-1] == ("assistant", "\ufffdA")


def test_a_turn_that_codex_says_failed(maestro: Maestro, tmp_path: Path):
    """Its end tells the error, and nothing was answered: it is no success."""
    rows = codex_rows(maestro.project.path)[:6]
    failed = {"type": "task_complete", "turn_id": "turn-a", "last_agent_message": None}
    rows.append({"timestamp": stamp(9), "type": "event_msg", "payload": failed | {"error": {"message": "status 401"}}})
    (tmp_path / "x" / "sessions").mkdir(parents=True)
    (tmp_path / "x" / "sessions" / f"rollout-{CODEX_ID}.jsonl").write_text(json_lines(rows))
    (row,) = maestro.histories.import_("codex").imported
    (run,) = archived(maestro, row.session_id).runs()
    assert (run.status, run.error) == ("error", "status 401")


def test_a_long_title_names_its_session(maestro: Maestro, tmp_path: Path):
    """Its beginning does, up to a whole word."""
    title = "Answer of the model. Turns: 3. Seen: one and two and three and four, and then some more"
    path = changed(opencode(tmp_path / "opencode.db", maestro.project.path), f"UPDATE session SET title = '{title}'")
    (row,) = maestro.histories.import_("opencode", [path]).imported
    assert row.session_id.rpartition("--")[0] == "answer-of-the-model-turns-3-seen-one-and"


@pytest.mark.parametrize("folder", [".opened", ".ran"])
@pytest.mark.parametrize("sessions", [[], ["../../.."], ["nobody--aaaaaa"], [""], 5])
def test_what_lies_about_of_conversations_hides_none(maestro: Maestro, tmp_path: Path, folder: str, sessions: Any):
    """Notes about where a conversation was said may come from elsewhere: one that names no session is none."""
    two_turns(tmp_path / "c", maestro.project.path).write()
    note = Path(maestro.project.path) / ".maestro" / "sessions" / folder / file_name("claude", CLAUDE_ID)
    note.parent.mkdir(parents=True)
    told = {"tool": "claude", "external_id": CLAUDE_ID, "sessions": sessions, "since_ms": 0, "is_over": False}
    note.write_text(json.dumps(told))
    (row,) = maestro.histories.import_("claude").imported
    assert (row.status, row.messages) == ("new", 8)
    shop = maestro.project.root  # where the notes say is asked of a server
    wait_until(lambda: supervisor_alive(shop) or not is_starting(shop), "the supervisor is on its way")
    stop(shop)


def test_what_a_session_may_have_is_not_imported_while_nobody_can_say(tmp_path: Path):
    """With the server away it is named as an error: imported, it would be there twice once the server is back."""
    (tmp_path / "shop" / ".maestro").mkdir(parents=True)
    environment = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    with Maestro(tmp_path / "shop", environment=environment, redis_url="redis://127.0.0.1:1/0") as maestro:
        maestro.server.connection.retry_s = 0.0
        two_turns(tmp_path / "c", maestro.project.path).write()
        two_turns(tmp_path / "c", maestro.project.path, OTHER_ID).write()
        note = Path(maestro.project.path) / ".maestro" / "sessions" / ".ran" / file_name("claude", CLAUDE_ID)
        note.parent.mkdir(parents=True)
        note.write_text(json.dumps({"sessions": ["fix-login--aaaaaa"]}))
        report = maestro.histories.import_("claude")
        assert [one.external_id for one in report.imported] == [OTHER_ID]
        assert [Path(one.path).stem for one in report.errors] == [CLAUDE_ID]
        assert len(maestro.places.own.ids()) == 1
