"""What was deleted is nowhere: not on the server, not in its log, not in archives, caches and logs of the project."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from maestro_workers.stack import erasure as part
from maestro_workers.stack.erasure import GATHER_S, RETRY_S, Erasure

from maestro_state import Maestro
from maestro_state.local.embedded import ensure, erasure, stop
from maestro_state.local.embedded.paths import ERASURE_ASKED, ERASURE_BEGUN
from tests.support.canary import KEYS, Canary
from tests.support.cli_runs import printed
from tests.support.embedded_project import call, end, servers, supervisors
from tests.support.waiting import wait_until

#: Everywhere that a session's text is before it is deleted.
EVERYWHERE = {"server", "sessions", "cache", KEYS}


@pytest.fixture
def server_folder(project: Path) -> Path:
    """Have the project's server run without a supervisor; return its folder."""
    ensure(project, supervise=False)
    return project / ".maestro" / "server"


@contextmanager
def supervised(project: Path) -> Iterator[tuple[Erasure, list[str]]]:
    """Be the part of a supervisor that does it; gives it and what it logs."""
    lines: list[str] = []
    made = Erasure(project, lines.append)
    try:
        yield made, lines
    finally:
        made.close()


def rewrites(project: Path) -> int:
    """Return how often the server has written its log anew."""
    return int(call(project, "INFO", "persistence").split("aof_rewrites:")[1].split()[0])


def test_a_deleted_session_is_nowhere(project):
    """The stack sees to it a little later, without being asked; others stay."""
    canary, other = Canary(project), Canary(project)
    with Maestro(project) as maestro:
        kept = maestro.sessions.start("stays").id
        other.fill(maestro, kept)
        session = maestro.sessions.start("goes").id
        canary.fill(maestro, session)
        assert canary.places() == EVERYWHERE
        printed(project, "session", "delete", session, "--yes")
        assert "server" in canary.places()  # the control: deleting alone does not do it
        wait_until(lambda: not canary.places(), "nothing has it any more")
        assert other.places() == EVERYWHERE
        assert maestro.search.find(other.word).total
        wait_until(lambda: not erasure_marks(project), "the mark is gone too")


def erasure_marks(project: Path) -> set[str]:
    """Return the marks that are there."""
    return {ERASURE_ASKED, ERASURE_BEGUN} & set(os.listdir(project / ".maestro" / "server"))


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_stack_that_is_stopped_does_it_first(project, is_ended):
    """Live or archived: whoever stops the stack right after deleting leaves nothing behind."""
    canary = Canary(project)
    with Maestro(project) as maestro:
        session = maestro.sessions.start("goes").id
        canary.fill(maestro, session)
        if is_ended:
            maestro.sessions.end(session)
        maestro.sessions.delete(session)
        assert canary.places() == {"server"}
        wait_until(lambda: supervisors(project), "somebody looks after the stack")
        assert printed(project, "stack", "stop") == {"stopped": True}
    assert canary.places() == set()


DELETE = """
import os, signal, sys
from maestro_state import Maestro
from maestro_state.upkeep import deletion
deletion.forget = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Maestro(sys.argv[1]).sessions.delete(sys.argv[2])
"""


def test_whoever_deletes_may_be_killed(project, server_folder):
    """The mark is there before anything is deleted; a server that is killed too changes nothing."""
    with Maestro(project) as maestro:
        session = maestro.sessions.start("goes").id
        maestro.messages.add("user", "said", session)
        killed = subprocess.run([sys.executable, "-c", DELETE, str(project), session], check=False, timeout=60)
        assert killed.returncode == -signal.SIGKILL
        assert erasure_marks(project) == {ERASURE_ASKED}
        end(*servers(project))
        ensure(project, supervise=False)
        with supervised(project) as (made, lines):
            wait_until(lambda: made.before_stop(asked=True), "it is done")
        assert lines == ["log_written_anew what_was_deleted=gone"]
        assert not erasure_marks(project)


def test_many_deletions_are_one_rewrite(project, server_folder):
    """Those of some seconds are gathered; one that comes while the log is written is for the next time."""
    with Maestro(project) as maestro, supervised(project) as (made, _):
        ids = [maestro.sessions.start(f"number {number}").id for number in range(20)]
        assert made.tend(0.0) == part.POLL_S
        for session in ids[:-1]:
            maestro.sessions.delete(session)
            assert made.tend(1.0) == GATHER_S
        assert rewrites(project) == 0
        made.tend(1.0 + GATHER_S)  # begun
        assert erasure_marks(project) == {ERASURE_BEGUN}
        maestro.sessions.delete(ids[-1])
        assert erasure_marks(project) == {ERASURE_ASKED, ERASURE_BEGUN}
        now_s = iter(range(100, 10**6))
        wait_until(lambda: made.tend(float(next(now_s))) >= 0 and not erasure_marks(project), "both are done")
        assert rewrites(project) == 2


def test_a_supervisor_that_was_killed_in_the_middle_is_followed_by_another(project, server_folder):
    """What it had begun is done again: nobody knows how far the server got."""
    erasure.ask(project)
    with supervised(project) as (first, _):
        first.tend(0.0)
        first.tend(GATHER_S)
        assert erasure_marks(project) == {ERASURE_BEGUN}
    with supervised(project) as (second, _):
        wait_until(lambda: second.before_stop(asked=True), "it is done")
    assert not erasure_marks(project)
    assert rewrites(project) == 2


def test_a_server_that_is_gone_in_the_middle_leaves_the_mark(project, server_folder):
    """And what it wrote into is removed when the next one has done it."""
    erasure.ask(project)
    with supervised(project) as (made, lines):
        made.tend(0.0)
        made.tend(GATHER_S)
        end(*servers(project))
        left = server_folder / "temp-rewriteaof-1.aof"
        left.write_text("half of it")
        assert made.tend(GATHER_S + 1) == RETRY_S
        assert (len(lines), erasure_marks(project)) == (1, {ERASURE_BEGUN})
        ensure(project, supervise=False)
        wait_until(lambda: made.before_stop(asked=False), "it is done")
    assert not left.exists()


def test_without_room_it_is_put_off(project, server_folder, monkeypatch):
    """Said once, tried again; nobody is kept from stopping the stack."""
    erasure.ask(project)
    monkeypatch.setattr(part, "is_full", lambda _folder, *, beside_bytes: beside_bytes > 0)
    with supervised(project) as (made, lines), Maestro(project) as maestro:
        maestro.sessions.start("something to write")
        made.tend(0.0)
        assert made.tend(GATHER_S) == RETRY_S
        assert made.before_stop(asked=True)
        assert lines == ["log_not_written_anew reason='there is no room for a second one'"]
        assert erasure_marks(project) == {ERASURE_ASKED}
        assert rewrites(project) == 0
        monkeypatch.undo()


def test_what_somebody_put_in_the_place_of_the_mark_is_no_mark(project, server_folder):
    """It asks for nothing, and deleting goes on."""
    (server_folder / ERASURE_ASKED).mkdir()
    with Maestro(project) as maestro, supervised(project) as (made, _):
        maestro.sessions.delete(maestro.sessions.start("goes").id)
        assert made.tend(0.0) == part.POLL_S
        assert made.before_stop(asked=True)


def test_where_there_is_no_private_server_nothing_is_made(tmp_path):
    """A team's server is its operator's."""
    assert erasure.ask(tmp_path)
    assert list(tmp_path.iterdir()) == []
    stop(tmp_path)
