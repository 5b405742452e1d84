"""`session list --limit N [--cursor C]`, as a terminal and a script see it."""

from __future__ import annotations

from pathlib import Path

import click

from tests.acceptance.test_cli_runs import Screen
from tests.support.cli_runs import printed, refused


def test_a_script_reads_all_pages(project: Path):
    """The cursor of each page leads to the next, null ends it; without --limit the list is whole."""
    ids = [printed(project, "session", "start", f"s{number}")["id"] for number in range(5)]
    found, more = [], ()
    while True:
        page = printed(project, "session", "list", "--limit", "2", *more)
        found += [row["id"] for row in page["sessions"]]
        if page["cursor"] is None:
            break
        more = ("--cursor", page["cursor"])
    assert found == ids[::-1]
    whole = printed(project, "session", "list")
    assert ([row["id"] for row in whole["sessions"]], whole["cursor"]) == (found, None)
    assert printed(project, "session", "list", "--limit", "2", "--state", "abortada") == {
        "sessions": [],
        "cursor": None,
    }


def test_a_person_is_told_how_to_go_on(project: Path):
    """The line below a page is what to add to see the next one."""
    for number in range(3):
        printed(project, "session", "start", f"s{number}")
    screen = Screen(project, "session", "list", "--limit", "2")
    assert screen.end() == 0
    seen = click.unstyle(screen.seen.decode())
    assert ("s2--" in seen, "s0--" in seen) == (True, False)
    words = seen.split("more: add ")[1].split()
    last = Screen(project, "session", "list", "--limit", "2", *words)
    assert last.end() == 0
    assert b"s0--" in last.seen
    assert b"more:" not in last.seen


def test_what_cannot_be_a_page_is_refused(project: Path):
    """One line each, and what to do."""
    printed(project, "session", "start", "x")
    for words in (("--limit", "0"), ("--limit", "x"), ("--cursor", "x"), ("--limit", "2", "--cursor", "x")):
        code, error = refused(project, "session", "list", *words)
        assert (code, "\n" in error["message"]) == (2, False), words
    assert "not the cursor of a list" in error["message"]
    assert error["hint"]
