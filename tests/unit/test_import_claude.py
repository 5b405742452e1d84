"""Claude Code's histories become archived sessions: once, whole, and only added to."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from maestro_state import AsyncMaestro, Maestro
from maestro_state._sync.archived import Archived
from maestro_state.clock import from_iso
from maestro_state.errors import InvalidValue, PathNotFound
from maestro_state.histories import claude
from maestro_state.histories.claude_lines import Line
from tests.support.histories import CLAUDE_ID, ClaudeHistory, archived, json_lines, said, stamp, two_turns

CONVERSATION = [
    ("user", "why does the login fail?"),
    ("assistant", "let me see"),
    ("tool", "login.py"),
    ("assistant", "the cookie is stale"),
    ("user", "fix it"),
    ("assistant", ""),
    ("tool", "done"),
    ("assistant", "fixed"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop" / ".maestro").mkdir(parents=True)
    return tmp_path / "shop"


@pytest.fixture
def maestro(project: Path, tmp_path: Path):
    with Maestro(
        project, environment={"HOME": str(tmp_path / "home"), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    ) as one:
        yield one


def test_a_run_ends_with_its_answer(maestro: Maestro, project: Path, tmp_path: Path):
    """Not when somebody asks the next thing, however long that takes."""
    history = ClaudeHistory(tmp_path / "c", str(project)).ask("why?").answer("so", answer="msg-1")
    history.rows[-1]["message"]["stop_reason"] = "end_turn"
    history.ask("and then?").rows[-1]["timestamp"] = stamp(600)
    history.answer("nothing", answer="msg-2").rows[-1]["timestamp"] = stamp(601)
    history.write()
    (row,) = maestro.histories.import_("claude").imported
    runs = archived(maestro, row.session_id).runs()
    assert [from_iso(one.finished_at) for one in runs] == [from_iso(stamp(2)), from_iso(stamp(601))]


def test_a_conversation_becomes_an_archived_session(maestro: Maestro, project: Path, tmp_path: Path):
    """Messages, a run a turn, tokens each answer once, its own times; the archive verifies."""
    two_turns(tmp_path / "c", str(project)).write()
    report = maestro.histories.import_("claude")
    (row,) = report.imported
    assert (row.status, row.messages, row.runs, report.errors) == ("new", 8, 2, [])
    assert (row.tokens.input, row.tokens.cache_read, row.tokens.cache_write, row.tokens.output) == (40, 12, 8, 16)
    one = archived(maestro, row.session_id)
    assert said(maestro, row.session_id) == CONVERSATION
    record = one.record()
    assert (record.state, record.created_at) == ("finalizada", "2026-11-02T10:00:01.500+00:00")
    assert record.project_context["import"]["external_id"] == CLAUDE_ID
    first, second = one.runs()
    assert (first.status, first.usage.tokens_input, first.usage.tokens_output) == ("success", 30, 8)
    assert (first.usage.tokens_cache_read, first.usage.tokens_cache_write) == (6, 4)
    assert (second.usage.model, second.usage.tool_session) == ("claude-x", CLAUDE_ID)
    assert b"".join(one.output("0001")) == b"the cookie is stale"
    assert one.prompt("0002") == b"fix it"
    done = [event.data for event in one.events() if event.type == "run.activity"]
    assert [(each["kind"], each["summary"]) for each in done] == [
        ("tool_call", "ls src"),
        ("file_change", "src/login.py"),
    ]
    ids = [event.id for event in Archived(one).events()]
    assert len(set(ids)) == len(ids)
    assert maestro.archive.verify_all().ok


def test_again_is_nothing_and_more_is_only_the_new(maestro: Maestro, project: Path, tmp_path: Path):
    """A grown conversation is one more generation; what was there has its ids still."""
    history = two_turns(tmp_path / "c", str(project))
    history.write()
    (row,) = maestro.histories.import_("claude").imported
    before = archived(maestro, row.session_id)
    ids, generation = [one.id for one in before.messages()], before.manifest().generation
    assert [one.status for one in maestro.histories.import_("claude").imported] == ["unchanged"]
    assert archived(maestro, row.session_id).manifest().generation == generation
    history.ask("thanks").answer("any time", answer="msg-5").write()
    (again,) = maestro.histories.import_("claude").imported
    assert (again.session_id, again.status, again.messages, again.runs) == (row.session_id, "updated", 10, 3)
    after = archived(maestro, row.session_id)
    assert [one.id for one in after.messages()][:8] == ids
    assert [one.type for one in after.events()].count("session.finalized") == 1
    assert after.manifest().generation == generation + 1
    assert maestro.archive.verify_all().ok


def test_the_tool_s_files_are_as_they_were(maestro: Maestro, project: Path, tmp_path: Path):
    """Not a byte, not a time: also when they were read last is the tool's."""
    path = two_turns(tmp_path / "c", str(project)).write()
    content = path.read_bytes()
    os.utime(path, ns=(1_000_000_000, 2_000_000_000_000_000_000))
    before = path.stat()
    assert len(maestro.histories.import_("claude").imported) == 1
    after = path.stat()
    assert (after.st_atime_ns, after.st_mtime_ns) == (before.st_atime_ns, before.st_mtime_ns)
    assert path.read_bytes() == content


def test_an_answer_cut_in_the_middle_is_completed(maestro: Maestro, project: Path, tmp_path: Path):
    """An import while Claude Code writes takes what is there; the rest comes with the next, tokens once."""
    history = two_turns(tmp_path / "c", str(project))
    whole = history.write().read_text()
    lines = whole.splitlines(keepends=True)
    history.path.write_text("".join(lines[:3]) + lines[3][:20])
    (row,) = maestro.histories.import_("claude").imported
    assert (row.messages, row.tokens.input) == (2, 10)
    history.path.write_text(whole)
    (again,) = maestro.histories.import_("claude").imported
    assert (again.tokens.input, again.runs) == (40, 2)
    texts = [text for _, text in said(maestro, row.session_id)]
    assert texts.count("let me see") == 1
    calls = [call["id"] for one in archived(maestro, row.session_id).messages() for call in one.tool_calls or ()]
    assert calls == ["call-1", "call-2"]


def test_what_was_seen_stays_once_when_the_history_is_rewritten(maestro: Maestro, project: Path, tmp_path: Path):
    """Rewound or compacted: earlier lines go from the file, not from the session."""
    history = two_turns(tmp_path / "c", str(project))
    history.write()
    (row,) = maestro.histories.import_("claude").imported
    del history.rows[:5]
    history.ask("summary of all", isCompactSummary=True).ask("go on").answer("gone on", answer="msg-9").write()
    (again,) = maestro.histories.import_("claude").imported
    assert said(maestro, row.session_id) == [
        *CONVERSATION,
        ("system", "summary of all"),
        ("user", "go on"),
        ("assistant", "gone on"),
    ]
    assert (again.runs, again.tokens.input) == (3, 50)


def test_sub_agents_are_sessions_of_their_own(maestro: Maestro, project: Path, tmp_path: Path):
    """Found beside the conversation; the parent names them, and the tokens of both are told together."""
    history = ClaudeHistory(tmp_path / "c", str(project))
    history.ask("delegate").answer(history.call("Agent", "call-9", prompt="count"), answer="msg-1")
    history.result("call-9", "two").answer("it is two", answer="msg-2").write()
    agents = history.path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    child = ClaudeHistory(tmp_path / "x", str(project), "agent-7").ask("count", isSidechain=True)
    child.answer("two", answer="msg-c", isSidechain=True)
    (agents / "agent-7.jsonl").write_text(json_lines(child.rows))
    (agents / "agent-7.meta.json").write_text(json.dumps({"toolUseId": "call-9", "description": "count it"}))
    (row,) = maestro.histories.import_("claude").imported
    (child_id,) = row.children
    assert said(maestro, child_id) == [("user", "count"), ("assistant", "two")]
    told = archived(maestro, child_id).record().project_context["import"]
    assert (told["parent"], told["tool_call_id"]) == (row.session_id, "call-9")
    assert row.tokens.input == 30
    assert [one.status for one in maestro.histories.import_("claude").imported] == ["unchanged"]


def test_sub_agents_among_the_lines_of_earlier_versions(maestro: Maestro, project: Path, tmp_path: Path):
    """A chain of sidechain lines in the conversation's own file is a child."""
    history = two_turns(tmp_path / "c", str(project))
    for number, (kind, text) in enumerate((("user", "count"), ("assistant", "two"))):
        message = {"id": f"side-{number}", "role": kind, "model": "claude-x", "content": text}
        history.rows.append({"type": kind, "isSidechain": True, "uuid": f"s-{number}", "message": message,
                             "parentUuid": f"s-{number - 1}" if number else None, "timestamp": stamp(50),
                             "cwd": str(project)})  # fmt: skip
    history.write()
    (row,) = maestro.histories.import_("claude").imported
    assert said(maestro, row.session_id) == CONVERSATION
    assert said(maestro, row.children[0]) == [("user", "count"), ("assistant", "two")]


def test_many_sub_agents_among_the_lines_are_each_read_by_themselves(
    maestro: Maestro, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Lines are read a few times in all, not all of them once more for each chain; chains may be mixed."""
    history = two_turns(tmp_path / "c", str(project))
    for part, kind in enumerate(("user", "assistant")):
        for number in range(40):
            message = {"id": f"side-{number}", "role": kind, "model": "claude-x", "content": f"{kind} {number}"}
            history.rows.append({"type": kind, "isSidechain": True, "uuid": f"s-{number}-{part}", "message": message,
                                 "parentUuid": f"s-{number}-0" if part else None, "timestamp": stamp(50),
                                 "cwd": str(project)})  # fmt: skip
    path = history.write()
    path.write_text(path.read_text().replace("\n", "\n\n"))  # blank lines are no lines
    read = []
    decode = claude.read_line

    def counted(line: bytes) -> Line:
        read.append(line)
        return decode(line)

    monkeypatch.setattr(claude, "read_line", counted)
    (row,) = maestro.histories.import_("claude").imported
    assert said(maestro, row.session_id) == CONVERSATION
    children = [said(maestro, one) for one in row.children]
    assert children == [[("user", f"user {n}"), ("assistant", f"assistant {n}")] for n in range(40)]
    assert len(read) < 5 * len(history.rows), "each chain costs a pass over the file"


def test_damage_is_said_and_stops_nothing(maestro: Maestro, project: Path, tmp_path: Path):
    """Broken lines are counted and named, a torn end is passed over, every other conversation is read."""
    other = "0c0c0c0c-0000-4000-8000-000000000003"
    path = two_turns(tmp_path / "c", str(project)).write()
    two_turns(tmp_path / "c", str(project), other).write()
    lines = path.read_text().splitlines(keepends=True)
    lines[2:2] = ["{broken\n", '{"type": 7}\n']
    path.write_text("".join(lines) + '{"type":"user","mess')
    report = maestro.histories.import_("claude")
    assert {one.messages for one in report.imported} == {8}
    assert [(one.path, one.reason.split(":")[0]) for one in report.errors] == [
        (str(path), "line 3"),
        (str(path), "line 4"),
    ]
    assert maestro.histories.import_("claude").errors == report.errors


@pytest.mark.parametrize("damage", [b"\xff", b"[" * 5000 + b"]" * 5000])
def test_what_a_sub_agent_told_that_cannot_be_decoded_stops_nothing(
    maestro: Maestro, project: Path, tmp_path: Path, damage: bytes
):
    """What a line keeps beside its message is read only when it is wanted: it may be broken where the line is not."""
    history = two_turns(tmp_path / "c", str(project))
    path = history.result("call-9", "done").ask("and then?").write()
    last = path.read_bytes().replace(b'"toolUseResult":{"stdout":"done"}', b'"toolUseResult":{"agentId":"%s"}' % damage)
    path.write_bytes(last)
    two_turns(tmp_path / "c", str(project), "0c0c0c0c-0000-4000-8000-000000000003").write()
    report = maestro.histories.import_("claude")
    assert len(report.imported) == 2


def test_only_this_project_unless_told(maestro: Maestro, project: Path, tmp_path: Path):
    """Conversations of other folders are left out and counted; a file that is named is always taken."""
    two_turns(tmp_path / "c", str(project / "src")).write()
    path = two_turns(tmp_path / "c", "/elsewhere", "0d0d0d0d-0000-4000-8000-000000000004").write()
    report = maestro.histories.import_("claude")
    assert (len(report.imported), report.left_out) == (1, 1)
    assert len(maestro.histories.import_("claude", [path]).imported) == 1
    assert len(maestro.histories.import_("claude", any_project=True).imported) == 2


def test_a_project_that_is_reached_through_a_link(maestro: Maestro, project: Path, tmp_path: Path):
    """A conversation that was held in a folder of it, by whichever name; a folder that is no path is none of it."""
    (project / "src").mkdir()
    (tmp_path / "short").symlink_to(project)
    two_turns(tmp_path / "c", str(tmp_path / "short" / "src")).write()
    for number, odd in enumerate((".", "", f"{project}\0", f"{tmp_path}/short\0", "../shop")):
        history = two_turns(tmp_path / "c", "/elsewhere", f"0d0d0d0d-0000-4000-8000-00000000000{number}")
        history.rows = [row | {"cwd": odd} for row in history.rows]
        history.write()
    report = maestro.histories.import_("claude")
    assert ([one.external_id for one in report.imported], report.left_out) == ([CLAUDE_ID], 5)


def test_a_trial_run_writes_nothing(maestro: Maestro, project: Path, tmp_path: Path):
    """With dry_run all is told, and no file is made."""
    two_turns(tmp_path / "c", str(project)).write()
    report = maestro.histories.import_("claude", dry_run=True)
    assert [(one.status, one.messages) for one in report.imported] == [("new", 8)]
    assert not list((project / ".maestro").rglob("*.json*"))


def test_what_was_typed_while_a_tool_was_called(maestro: Maestro, project: Path, tmp_path: Path):
    """It comes in one line with the tool's result, and is said once; what Claude Code adds for the model is not."""
    history = two_turns(tmp_path / "c", str(project))
    for number, text in ((3, "use the new key"), (7, "<system-reminder>be brief</system-reminder>")):
        history.rows[number]["message"]["content"].append({"type": "text", "text": text})
    history.write()
    (row,) = maestro.histories.import_("claude").imported
    assert said(maestro, row.session_id) == [*CONVERSATION[:3], ("user", "use the new key"), *CONVERSATION[3:]]
    assert (row.messages, row.runs) == (9, 2)
    history.ask("thanks").answer("welcome", answer="msg-5").write()
    (again,) = maestro.histories.import_("claude").imported
    assert again.status == "updated"
    assert len(said(maestro, row.session_id)) == 11


def test_interrupted_turns_and_commands(maestro: Maestro, project: Path, tmp_path: Path):
    """A turn that was stopped is canceled, one without an answer an error; what is typed to the tool itself no run."""
    history = ClaudeHistory(tmp_path / "c", str(project))
    history.ask("long work").answer("begun", answer="msg-1").ask("[Request interrupted by user]")
    history.ask("<command-name>/clear</command-name><command-args></command-args>")
    history.ask("Caveat: nothing", isMeta=True).ask("anybody there?").write()
    (row,) = maestro.histories.import_("claude").imported
    runs = archived(maestro, row.session_id).runs()
    assert [(one.status, one.error) for one in runs] == [
        ("canceled", "interrupted"),
        ("error", "the history ends before an answer"),
    ]
    assert ("user", "/clear") in said(maestro, row.session_id)


@pytest.mark.parametrize(("is_answered", "name"), [(False, "why"), (True, "review")])
def test_a_command_names_a_session_if_it_is_answered(
    maestro: Maestro, project: Path, tmp_path: Path, is_answered: bool, name: str
):
    """What begins every conversation after another is no name for any."""
    command = (
        "<command-name>/review</command-name><command-message>review</command-message><command-args></command-args>"
    )
    history = ClaudeHistory(tmp_path / "c", str(project)).ask(command)
    if is_answered:
        history.answer("all well", answer="msg-0")
    history.ask("why?").answer("so", answer="msg-1").write()
    (row,) = maestro.histories.import_("claude").imported
    assert row.session_id.startswith(f"{name}--")


def test_a_deleted_session_is_imported_again(maestro: Maestro, project: Path, tmp_path: Path):
    """What remembers unchanged files is no truth: the archives are."""
    two_turns(tmp_path / "c", str(project)).write()
    (row,) = maestro.histories.import_("claude").imported
    maestro.places.own.remove(row.session_id)
    (again,) = maestro.histories.import_("claude").imported
    assert (again.session_id, again.status) == (row.session_id, "new")
    (project / ".maestro" / "sessions" / ".imports.json").write_text("{damaged")
    assert [one.status for one in maestro.histories.import_("claude").imported] == ["unchanged"]


def test_bad_input_is_refused(maestro: Maestro, tmp_path: Path):
    """A tool that is none, a path that is not there, a time that is none."""
    with pytest.raises(InvalidValue):
        maestro.histories.import_("../claude")
    with pytest.raises(PathNotFound):
        maestro.histories.import_("claude", [tmp_path / "nowhere"])
    with pytest.raises(InvalidValue):
        maestro.histories.import_("claude", since="yesterdayish")


async def test_the_same_awaited(project: Path, tmp_path: Path):
    """AsyncMaestro has the same verbs."""
    two_turns(tmp_path / "c", str(project)).write()
    environment = {"HOME": str(tmp_path / "home"), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    async with AsyncMaestro(project, environment=environment) as maestro:
        (row,) = (await maestro.histories.import_("claude")).imported
        assert (row.status, row.messages) == ("new", 8)


def test_a_first_turn_whose_lines_come_in_any_order(maestro: Maestro, tmp_path: Path):
    """Claude Code writes an interactive conversation's first answer before its question: each follows its parent."""
    history = two_turns(tmp_path / "claude", maestro.project.path)
    in_order = history.rows
    history.rows = [in_order[1], in_order[2], in_order[0], *in_order[3:]]
    report = maestro.histories.import_("claude", [history.write()])
    assert said(maestro, report.imported[0].session_id)[:2] == [
        ("user", "why does the login fail?"),
        ("assistant", "let me see"),
    ]
    assert report.imported[0].runs == 2
