"""What is piped into `maestro run`, and what it is told about files and the conversation, at the command line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.support.embedded_project import temporary_project
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def project() -> Iterator[Path]:
    """Return a project whose stack starts with the first command."""
    with temporary_project() as folder:
        yield folder


def start(project: Path, name: str) -> None:
    """Put the checkout on a session of its own."""
    printed(project, "session", "start", name, "--tool", "cat")


def test_what_is_piped_in_is_sent_along(project: Path):
    """A pipe and a file are a part of the run; - and --stdin are the prompt; /dev/null and nothing are nothing."""
    start(project, "pipes")
    ran = printed(project, "run", "explain", "--no-history", stdin=b"+ a line\n")
    assert "<<<item stdin" in ran["output"]
    assert "+ a line\n" in ran["output"]
    assert (ran["prompt_source"], ran["context_refs"]) == ("cli", [])
    sent = printed(project, "show", ran["id"], "--context")
    assert [(row["id"], row["role"], row["kind"]) for row in sent["context"]] == [("stdin", "stdin", "text")]

    (project / "file.txt").write_text("from a file\n")
    with (project / "file.txt").open("rb") as file:
        words = [MAESTRO, "run", "--no-history", "explain"]
        assert "from a file" in subprocess.run(words, cwd=project, stdin=file, capture_output=True, text=True).stdout
    for words in (["-"], ["--stdin"]):
        ran = printed(project, "run", *words, "--no-history", stdin=b"the prompt")
        assert (ran["output"], ran["prompt_source"]) == ("the prompt", "stdin")
    plain = subprocess.run(
        [MAESTRO, "run", "--no-history", "alone"], cwd=project, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert plain.stdout == b"alone"
    assert printed(project, "run", "alone", "--no-history", stdin=b"")["output"] == "alone"
    assert refused(project, "run", "x", stdin=b"x" * 2000, env={"MAESTRO_MAX_BLOB_BYTES": "1000"})[0] == 2


def test_a_standard_input_that_never_ends(project: Path):
    """With --no-stdin it is left alone; without, a terminal is told what is waited for."""
    start(project, "endless")
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [MAESTRO, "run", "--no-stdin", "--no-history", "go"], cwd=project, stdin=reading, capture_output=True
        )
        assert done.stdout == b"go"
        mine, theirs = pty.openpty()
        waiting = subprocess.Popen(
            [MAESTRO, "run", "go"], cwd=project, stdin=reading, stdout=subprocess.PIPE, stderr=theirs
        )
        os.close(theirs)
        said = b""

        def told() -> bool:
            nonlocal said
            said += os.read(mine, 4096)
            return b"\n" in said

        wait_until(told, "the terminal is told")
        assert b"waiting for standard input" in said
        assert b"--no-stdin" in said
        assert len(said.splitlines()[0]) < 80  # notes are not wrapped: this one fits on a narrow terminal
        os.write(writing, b"at last\n")
        os.close(writing)
        writing = -1
        assert b"at last" in waiting.communicate()[0]
        os.close(mine)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def test_the_next_tool_has_seen_it(project: Path):
    """History is handed on unless that is not wanted, and --dry shows it."""
    start(project, "talk")
    printed(project, "run", "the question", "--tool", "sh -c 'echo the answer'")
    dry = printed(project, "run", "--dry", "what do you think of that?")["preview"]["stdin"]
    assert dry.index("the question") < dry.index("the answer") < dry.index("what do you think of that?")
    assert "the answer" not in printed(project, "run", "--dry", "--no-history", "and?")["preview"]["stdin"]
    last = printed(project, "run", "--dry", "--history", "1", "and?")["preview"]["stdin"]
    assert "the answer" in last
    assert "the question" not in last
    none = printed(project, "run", "--dry", "and?", env={"MAESTRO_HISTORY_BYTES": "0"})["preview"]["stdin"]
    assert none == "and?"
    assert refused(project, "run", "--history", "1", "--no-history", "x")[0] == 2
    watched = maestro_command(project, "watch", "--from", "start", "--until-idle", "0.1").stdout
    assert watched.count("│ the answer") == 1


def test_files_that_changed_are_named_before_the_run(project: Path):
    """The file's old content is sent, and that is said; --refresh takes it as it is."""
    start(project, "stale")
    (project / "notes.txt").write_text("before\n")
    printed(project, "context", "add", "notes.txt")
    (project / "notes.txt").write_text("after, and longer\n")
    ran = maestro_command(project, "run", "--no-history", "p")
    assert "notes.txt has changed since it was added as ctx-0001" in ran.stderr
    assert "before" in ran.stdout
    refreshed = maestro_command(project, "run", "--no-history", "--refresh", "p")
    assert refreshed.stderr == ""
    assert "after, and longer" in refreshed.stdout
    items = json.loads(maestro_command(project, "context", "list", "--all", "--json").stdout)["items"]
    assert [(item["id"], item["state"]) for item in items] == [("ctx-0001", "removed"), ("ctx-0002", "active")]


def test_a_secret_is_refused_at_the_command_line(project: Path):
    """Exit 2 with rule and line for a named file; left out of a folder and named; --force adds it."""
    start(project, "secrets")
    (project / "conf").mkdir()
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    (project / "conf/deploy.ini").write_text(f"[aws]\nkey = {key}\n")
    (project / "conf/plain.ini").write_text("[plain]\n")
    code, error = refused(project, "context", "add", "conf/deploy.ini")
    assert (code, error["code"]) == (2, "secret_found")
    assert "line 2" in error["message"]
    assert key not in json.dumps(error)
    added = maestro_command(project, "context", "add", "conf")
    assert (added.returncode, "skipped conf/deploy.ini: looks as if" in added.stderr) == (0, True)
    assert len(printed(project, "context", "add", "--force", "conf/deploy.ini")["items"]) == 1
