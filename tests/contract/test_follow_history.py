"""A tool's own conversation in a live session: within moments, each turn a run, nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.upkeep.own_runs import FOLLOWED
from tests.support.backends import Backend
from tests.support.histories import CLAUDE_ID, CODEX_ID, ClaudeHistory, codex_rows, json_lines
from tests.support.waiting import wait_until


@contextmanager
def following(backend: Backend, session_id: str, tool: str, path: Path) -> Iterator[threading.Event]:
    """Follow a history from another thread, with a connection of its own."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def follow() -> None:
        try:
            with backend.open() as maestro:
                maestro.histories.follow(tool, path, session_id, is_over=stop.is_set)
        except BaseException as error:  # noqa: BLE001 - told by whoever waits for it
            failed.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


def append(history: ClaudeHistory, count: int) -> None:
    """Write the last rows of a history, as the tool does."""
    with history.path.open("a") as file:
        file.write(json_lines(history.rows[-count:]))


@pytest.fixture
def history(tmp_path: Path) -> ClaudeHistory:
    one = ClaudeHistory(tmp_path / "claude", "/shop")
    one.ask("why?").write()
    return one


def said(maestro: Maestro, session_id: str) -> list[tuple[str, str]]:
    return [(one.role, one.content) for one in maestro.messages.since(None, session_id)]


def statuses(maestro: Maestro, session_id: str) -> list[str]:
    return [run.status for run in maestro.runs.list(session_id)]


def test_a_turn_is_a_run_with_what_it_did_and_used(backend: Backend, history: ClaudeHistory):
    """The question starts it, calls are activity, the answer is a message, and quiet ends it with its tokens."""
    with backend.open() as maestro:
        session = maestro.sessions.start("live")
        with following(backend, session.id, "claude", history.path):
            wait_until(lambda: said(maestro, session.id) == [("user", "why?")], "the question is not there")
            history.answer(history.call("Bash", "c1", command="ls"), answer="msg-1").result("c1", "a.py")
            append(history, 2)
            wait_until(lambda: len(said(maestro, session.id)) == 3, "the call and its result are not there")
            assert maestro.runs.read("1", session.id).status == "running"
            history.answer("because", answer="msg-2")
            append(history, 1)
            wait_until(lambda: maestro.runs.read("1", session.id).status == "success", "the turn has not ended")
        run = maestro.runs.read("1", session.id)
        assert (run.usage.tokens_input, run.usage.tokens_output, run.usage.tool_session) == (30, 8, CLAUDE_ID)
        assert (run.usage.tokens_cache_read, run.usage.tokens_cache_write) == (6, 4)
        assert maestro.runs.output("1", session.id) == b"because"
        (done,) = maestro.runs.activity("1", session.id)
        assert (done.data["kind"], done.data["summary"]) == ("tool_call", "ls")
        assert said(maestro, session.id)[-1] == ("assistant", "because")


def test_where_counters_stand_that_a_tool_counts_on(backend: Backend, tmp_path: Path):
    """A run that goes on from there is told all of them whole: each has what was there before."""
    path = tmp_path / f"rollout-2026-11-02T10-00-00-{CODEX_ID}.jsonl"
    path.write_text(json_lines(codex_rows("/shop")))
    with backend.open() as maestro:
        session = maestro.sessions.start("live")
        with following(backend, session.id, "codex", path):
            wait_until(lambda: statuses(maestro, session.id) == ["success", "canceled"], "the turns have not ended")
        usage = maestro.runs.read("1", session.id).usage
        assert (usage.tokens_input, usage.tokens_cache_read, usage.tokens_reasoning) == (230, 140, 5)
        assert usage.counters == {
            "tokens_input": 230, "tokens_output": 30, "tokens_cache_read": 140, "tokens_cache_write": 0,
            "tokens_reasoning": 5,
        }  # fmt: skip


def test_a_follower_goes_on_where_another_stopped(backend: Backend, history: ClaudeHistory):
    """What the session has is known by the tool's ids; rewound and torn histories change nothing that was said."""
    with backend.open() as maestro:
        session = maestro.sessions.start("live")
        history.answer("because", answer="msg-1").write()
        for _ in range(2):
            with following(backend, session.id, "claude", history.path):
                wait_until(lambda: statuses(maestro, session.id) == ["success"], "the turn has not ended")
        assert said(maestro, session.id) == [("user", "why?"), ("assistant", "because")]
        del history.rows[1:]
        history.ask("and then?").answer("nothing", answer="msg-2").write()
        with history.path.open("a") as file:
            file.write('{"type":"assistant","mess')
        with following(backend, session.id, "claude", history.path):
            wait_until(lambda: statuses(maestro, session.id) == ["success"] * 2, "the second turn has not ended")
        assert said(maestro, session.id)[2:] == [("user", "and then?"), ("assistant", "nothing")]


def test_a_turn_under_way_ends_with_its_follower(backend: Backend, history: ClaudeHistory):
    """Nothing stays running: who stops following says so. No worker would ever carry such a run out."""
    with backend.open() as maestro:
        session = maestro.sessions.start("live")
        with following(backend, session.id, "claude", history.path):
            wait_until(lambda: maestro.runs.list(session.id), "the turn has not begun")
        run = maestro.runs.read("1", session.id)
        assert (run.status, run.error) == ("canceled", "no longer followed")
        assert run.env == [FOLLOWED]


def test_nothing_to_follow(backend: Backend, tmp_path: Path):
    """Where there is no conversation yet it waits, until told to stop."""
    with backend.open(environment={"HOME": str(tmp_path)}) as maestro:
        maestro.sessions.start("live")
        assert maestro.histories.follow("codex", is_over=lambda: True) == 0
