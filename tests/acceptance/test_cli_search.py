"""`maestro search` as people and programs use it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state import Maestro
from tests.support.cli_runs import maestro_command, printed, refused
from tests.support.embedded_project import ended_project

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")

project = ended_project


def test_from_a_message_to_the_command_that_opens_it(project: Path):
    """A document for programs, tabs for pipes, refusals in one line; what a hit names can be run."""
    session = printed(project, "session", "start", "fix login")["id"]
    added = printed(project, "message", "add", "--role", "user", "why does fixLoginCookie fail?\x1b[2J")
    found = printed(project, "search", "login", "cookie")
    assert found["total"] == 1
    (hit,) = found["results"]
    assert set(hit) == {"session_id", "slug", "kind", "entry", "role", "ts", "snippet"}
    assert (hit["session_id"], hit["slug"], hit["kind"], hit["entry"]) == (session, "fix-login", "message", added["id"])
    assert "\x1b" not in maestro_command(project, "search", "login").stdout

    ran = printed(project, "run", "how many wombats?", "--tool", "echo")["id"]
    rows = maestro_command(project, "search", "wombats").stdout.splitlines()
    assert sorted(row.split("\t")[2:4] for row in rows) == [["output", ran], ["prompt", ran]]
    shown = maestro_command(project, "--session", session, "show", ran, "--prompt").stdout
    assert "how many wombats?" in shown

    printed(project, "session", "end")
    assert printed(project, "search", "login", "--archived", "--kind", "message")["total"] >= 1
    assert printed(project, "search", "login", "--live")["total"] == 0
    assert printed(project, "search", "fixLoginCookie", "--session", "fix-login")["results"][-1] == hit
    assert printed(project, "search", "--rebuild") == {"sessions": 1, "entries": 3}
    assert printed(project, "search", "login", "--kind", "note, context")["total"] == 0


def test_the_command_of_an_old_message_shows_it(project: Path):
    """It begins there, however much was said since; live and archived."""
    printed(project, "session", "start", "long")
    for number in range(30):
        printed(project, "message", "add", "--role", "user", f"wombat number{number}")
    for _ in range(2):
        with Maestro(project) as maestro:
            (hit,) = maestro.search.find("number3").results
        shown = printed(project, *hit.command.split()[1:])["messages"]
        assert "wombat number3" in [one["content"] for one in shown[:2]]
        assert len(shown) >= 27
        maestro_command(project, "session", "end", "long")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("search", "***"), 2),
        (("search", "x", "--kind", "letter"), 2),
        (("search", "x", "--limit", "0"), 2),
        (("search", "x", "--since", "soon"), 2),
        (("search", "x", "--rebuild"), 2),
        (("search", "x", "--session", "nobody"), 3),
    ],
)
def test_refusals(project: Path, words: tuple[str, ...], code: int):
    """One line that says what to do next."""
    printed(project, "session", "start", "s")
    left, error = refused(project, *words)
    assert left == code
    assert error["hint"]


def test_the_commands_of_the_page_run(project: Path):
    """As they stand, and the Python too."""
    printed(project, "session", "start", "page")
    for line in re.findall(r"^maestro (.*)$", PAGE, re.MULTILINE):
        done = maestro_command(project, *shlex.split(line))
        assert (done.returncode, done.stderr) == (0, ""), line
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.endswith("message why does «fixLoginCookie» fail?")
    assert re.fullmatch(r"maestro --session find-me--\w{6} messages --since \d+(-\d+)?", second)
