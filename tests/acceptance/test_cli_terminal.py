"""What people see and answer on a terminal, and what a path they type there means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.acceptance.test_cli_runs import Screen
from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.support.embedded_project import temporary_project
from tests.support.waiting import wait_until


@pytest.fixture
def project() -> Iterator[Path]:
    """Return a project whose stack, with its worker, starts with the first command."""
    with temporary_project() as folder:
        (folder / "sub").mkdir()
        yield folder


def program(path: Path, body: str) -> None:
    """Write a program that can be started."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_program_named_by_its_path_is_the_one_that_is_seen(project: Path):
    """A relative path counts from where it is typed, at start, use, run and dry run, and holds from every folder."""
    sub = project / "sub"
    for folder in (project, sub):
        program(folder / "who.sh", f'echo "{folder.name} $* in $PWD"')
    printed(project, "session", "start", "paths", "--tool", "./who.sh")
    assert printed(sub, "run", "p")["output"] == f"{project.name}  in {project}\n"

    assert printed(sub, "use", "./who.sh 'two words'")["tool_active"] == "./sub/who.sh 'two words'"
    assert printed(project, "run", "p")["output"] == f"sub two words in {project}\n"
    dry = printed(project, "run", "p", "--dry")
    assert dry["preview"]["argv"] == [str(sub / "who.sh"), "two words"]

    assert printed(sub, "run", "p", "--tool", "../who.sh up")["tool"] == "./who.sh up"
    (project / "who.sh").unlink()
    code, error = refused(sub, "use", "../who.sh")
    assert (code, error["code"]) == (3, "unknown_tool")
    assert "no such file" in error["message"]
    (project / "who.sh").write_text("echo me")
    code, error = refused(sub, "use", "../who.sh")
    assert (code, error["code"], error["hint"]) == (3, "unknown_tool", "chmod +x ../who.sh")
    (project / "who.sh").unlink()

    # Where the working directory is only on the workers, the checkout stands for it and the worker decides.
    printed(project, "session", "set", "working_directory", str(project / "elsewhere"))
    assert printed(sub, "use", "./who.sh")["tool_active"] == "./sub/who.sh"
    (project / "elsewhere" / "sub").mkdir(parents=True)
    program(project / "elsewhere" / "sub" / "who.sh", "echo elsewhere")
    assert printed(sub, "run", "p")["output"] == "elsewhere\n"
    outside = printed(project, "use", "sub/who.sh")["tool_active"]
    assert outside == str(sub / "who.sh")  # seen from there it is outside


def test_no_is_an_answer_and_a_frozen_session_asks_nothing(project: Path):
    """Answered no, it is said that nothing was done and the command exits with 1; what cannot be is not asked."""
    session = printed(project, "session", "start", "asked", "--tool", "cat")["id"]
    for words, question, said in (
        (("run", "p", "--confirm"), b"Send this?", b"nothing sent"),
        (("session", "delete", session), b"for good?", b"nothing removed"),
    ):
        screen = Screen(project, *words)
        screen.wait_for(question)
        screen.press(b"n\n")
        assert screen.end() == 1, words
        assert said in screen.seen
    assert printed(project, "runs")["runs"] == []
    assert printed(project, "session", "status", session)["session"]["id"] == session

    printed(project, "session", "end")
    screen = Screen(project, "run", "p", "--confirm")
    assert screen.end() == 4
    assert b"Send this?" not in screen.seen
    assert b"finalizada" in screen.seen


def test_ending_says_what_it_waits_for(project: Path):
    """A terminal is told that runs are waited for, a pipe is not; waiting and canceling are not one thing."""
    program(project / "held.sh", "until [ -e go ]; do sleep 0.02; done")
    printed(project, "session", "start", "waits", "--tool", "./held.sh")
    printed(project, "run", "p", "--detach")
    assert refused(project, "session", "end", "--wait", "--cancel")[0] == 2
    assert refused(project, "session", "end")[0] == 4
    screen = Screen(project, "session", "end", "--wait", "--no-wait")
    screen.wait_for(b"waiting for open runs to end")
    assert printed(project, "session", "status")["session"]["state"] == "executando"
    (project / "go").touch()
    assert screen.end() == 0
    assert printed(project, "runs")["runs"][0]["status"] == "success"


def test_a_watcher_who_leaves_is_told_how_to_go_on(project: Path):
    """Ctrl-C exits with 130 and the event to go on from, which brings what happened since, and nothing else."""
    session = printed(project, "session", "start", "watched")["id"]
    printed(project, "message", "add", "--role", "user", "before")
    for words in (("watch",), ("watch", "--from", "start")):
        screen = Screen(project, *words)
        wait_until(lambda: printed(project, "session", "status")["attached"], "it is attached")
        if "start" in words:  # it is attached before it has shown what there was
            screen.wait_for(b"since ('watch',)")
        screen.press(b"\x03")
        assert screen.end() == 130
        (told,) = [line for line in screen.seen.decode().splitlines() if line.startswith("left; go on with: ")]
        printed(project, "message", "add", "--role", "user", f"since {words}")
        command = told.removeprefix("left; go on with: maestro ").split()
        assert command[:2] == ["watch", session]
        came = maestro_command(project, *command, "--until-idle", "0.2", "--json").stdout.splitlines()
        assert [json.loads(line)["data"]["content"] for line in came] == [f"since {words}"]

    printed(project, "run", "p", "--tool", "echo ''")
    everything = ("watch", "--from", "start", "--until-idle", "0.2")
    assert "0001 ✓ success" in (shown := maestro_command(project, *everything).stdout)
    assert "0001 │" not in shown  # a line of nothing is nothing to see
    assert '"run.output"' in maestro_command(project, *everything, "--json").stdout


def test_a_watcher_who_joins_sees_what_was_asked(project: Path):
    """Of a run that is open already it is shown who asked what, then what it does from now on."""
    program(project / "held.sh", "until [ -e go ]; do sleep 0.02; done; echo the cookie")
    printed(project, "session", "start", "joined", "--tool", "./held.sh")
    printed(project, "run", "why does it fail?", "--detach")
    screen = Screen(project, "watch", "--until-idle", "60")
    screen.wait_for(b"why does it fail?")
    (project / "go").touch()
    screen.wait_for(b"the cookie")
    screen.wait_for(b"success")
    screen.press(b"\x03")
    screen.end()
    assert screen.seen.count(b"why does it fail?") == 1


def test_a_watcher_is_told_of_another_session_and_another_tool(project: Path):
    """Whoever watches the active session hears that the checkout moved on, and back, and that a tool was chosen."""
    first = printed(project, "session", "start", "first")["id"]
    screen = Screen(project, "watch")
    screen.wait_for(b"watching")
    wait_until(lambda: printed(project, "session", "status")["attached"], "it is attached")
    printed(project, "use", "echo", env={"MAESTRO_USER": "ana"})
    screen.wait_for(b"ana chose echo: runs of this session use it from now on")
    second = printed(project, "session", "start", "second")["id"]
    screen.wait_for(f"the active session is now {second}; you still watch".encode())
    printed(project, "session", "switch", first)
    screen.wait_for(f"{first}, which you watch, is this checkout's active".encode())
    screen.press(b"\x03")
    assert screen.end() == 130


def test_a_name_that_is_live_already_is_started_with_a_hint(project: Path):
    """The other one is named with the command that goes there; one that has ended is not."""
    first = printed(project, "session", "start", "twin")["id"]
    second = maestro_command(project, "session", "start", "Twin")
    assert second.returncode == 0
    assert second.stdout.startswith("twin--")
    assert first in second.stderr
    assert f"maestro session switch {first}" in second.stderr
    printed(project, "session", "end")
    printed(project, "session", "end", first)
    assert printed(project, "session", "start", "twin")["slug"] == "twin"  # and nothing on stderr
    short, long = printed(project, "status"), printed(project, "session", "status")
    assert short.pop("ttl_left") >= long.pop("ttl_left")  # a moment passes between the two
    assert short == long


def test_paths_are_completed_by_the_shell(project: Path):
    """A real bash completes a file of this folder at TAB; zsh and fish are told to do the same."""
    (project / "quarrelsome.txt").write_text("x")
    (project / "quarry").mkdir()
    setup = f'PATH="{Path(MAESTRO).parent}:$PATH"; source <(maestro completion bash); echo rea""dy\n'
    screen = Screen(project, program=["bash", "--norc", "--noprofile", "-i"])
    screen.press(setup.encode())
    screen.wait_for(b"ready")
    screen.press(b"maestro context add quarrel\t")
    screen.wait_for(b"quarrelsome.txt")
    screen.press(b"\x15maestro --project quar\t")
    screen.wait_for(b"quarry/")
    screen.press(b"\x15exit\n")
    screen.end()
    for words, kind in (("context add ", "file"), ("run --file ", "file"), ("--project ", "dir")):
        line = f"maestro {words}"
        asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()))}
        zsh = maestro_command(project, env={**asked, "_MAESTRO_COMPLETE": "zsh_complete"})
        assert zsh.stdout.split()[0] == kind
        fish = maestro_command(project, env={**asked, "COMP_CWORD": "", "_MAESTRO_COMPLETE": "fish_complete"})
        assert fish.stdout.startswith(f"{kind},")


def test_an_option_behind_its_place_is_told_where_it_goes(project: Path):
    """--session and --project after a command name the place they belong; other unknown options do not."""
    for words, place in (
        (("show", "0001", "--session", "second"), "maestro --session REF show …"),
        (("session", "list", "--project=."), "maestro --project DIR session list …"),
    ):
        code, error = refused(project, *words)
        assert code == 2
        assert error["hint"].endswith(f"goes before the command: {place}")
    assert refused(project, "show", "--nonsense")[1]["hint"] == "maestro show --help"
    assert "Choose from: bash, zsh, fish" in maestro_command(project, "completion").stderr


def test_lists_fit_a_terminal_of_80_columns(project: Path, monkeypatch: pytest.MonkeyPatch):
    """Ids of sessions keep their end, discussions show the beginning that means them, and an empty list says why."""
    session = printed(project, "session", "start", "login fails since monday when the release went out for all")["id"]
    discussion = printed(project, "discuss", "start", "--kind", "track", "--ref", "login")["session_id"]
    printed(project, "discuss", "say", "x" * 200)
    seen = {}
    for words in (("session", "list"), ("discuss", "list")):
        screen = Screen(project, *words)
        assert screen.end() == 0
        seen[words] = click.unstyle(screen.seen.decode())
        assert max(len(line) for line in seen[words].splitlines()) <= 80
    assert f"…{session[-8:]}" in seen["session", "list"]
    assert discussion[:8] in seen["discuss", "list"]
    assert discussion not in seen["discuss", "list"]
    assert printed(project, "discuss", "show", discussion[:8])["session_id"] == discussion
    assert discussion in maestro_command(project, "discuss", "list").stdout

    for words, said in (
        (("--user", "nobody"), b"no session of nobody; 1 other session is there"),
        (("--mine",), b"no session of yours; 1 other session is there"),
        (("--state", "abortada"), b"no session in state abortada; 1 other session is there"),
    ):
        monkeypatch.setenv("MAESTRO_USER", "someone-else")
        screen = Screen(project, "session", "list", *words)
        assert screen.end() == 0
        assert said in screen.seen
