"""The resident process: a command handed to it is the command run here, only sooner."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import pytest
from maestro_cli import entry
from maestro_cli.main import maestro as root_command

from maestro_state import Maestro
from maestro_state.local.embedded import ensure
from tests.support.programs import ROOT
from tests.support.waiting import wait_until

RUN_HERE = "import sys; from maestro_cli.main import run; sys.exit(run(sys.argv[1:]))"
EITHER_WAY = "from maestro_cli.entry import main; main()"
#: Cannot run a command here: whatever it prints, the resident process printed, however long a busy machine took.
HANDED_OVER = (
    "import sys; sys.modules['maestro_cli.main'] = None\n"
    "from maestro_cli import entry; entry._TIMEOUT_S = 60.0; entry.main()"
)
RESIDENT = "from maestro_cli import resident; resident._TIMEOUT_S = 60.0; resident.main()"


def command(code: str, folder: Path, *words: str | bytes, env: dict[str, str] | None = None):
    """Run one command line as a process; return what it printed and its exit code."""
    line = [sys.executable, "-P", "-c", code, *words]
    done = subprocess.run(line, cwd=folder, env=os.environ | (env or {}), capture_output=True, timeout=60)
    return done.stdout, done.stderr, done.returncode


@contextmanager
def resident(project: Path):
    """Run the resident process of a project."""
    line = [sys.executable, "-P", "-c", RESIDENT, "--project", str(project)]
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL)
    try:
        wait_until((project / entry.SOCKET).exists, "nobody listens")
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def filled(project):
    """Return a project that has something to read, and a server without the stack's own resident process."""
    ensure(project, supervise=False)
    with Maestro(project) as maestro:
        session = maestro.sessions.start("read me")
        maestro.messages.add("user", "h\u00e9llo \x1b[31mred", session.id)
        maestro.context.add("some text", kind="text")
        maestro.work.start("task")
    return project


@pytest.fixture
def talkative(filled):
    """Return the project with more messages than a pipe takes."""
    with Maestro(filled) as maestro:
        session = maestro.sessions.read(None).id
        for _ in range(40):
            maestro.messages.add("user", "x" * 100_000, session)
    return filled


def test_handed_over_is_the_same(filled):
    """What a command prints and returns is what it would here, byte for byte: data, documents and refusals."""
    lines = [[*words.split(), *more] for words in sorted(entry.READS) for more in ([], ["--json"])]
    lines += [["messages", "--nonsense"], ["session", "status", "nobody"], ["show", "7", "--json"], ["runs", "--help"]]
    with resident(filled):
        for line in lines:
            here, over = command(RUN_HERE, filled, *line), command(HANDED_OVER, filled, *line)
            assert (timeless(over[0]), *over[1:]) == (timeless(here[0]), *here[1:])


def timeless(printed: bytes) -> bytes:
    """Take out what is another a second later: how long ago something was, how long it will be kept."""
    return re.sub(rb"just now|[0-9]+ [a-z]+ ago|\"ttl_left\":[0-9]+", b"", printed)


def test_it_knows_what_the_command_would(filled):
    """Folder, environment, words of any bytes, encoding and terminal are the caller's."""
    inner = filled / "inner"
    inner.mkdir()
    with resident(filled):
        for words, env in (
            (["session", "get", ""], {}),
            (["session", "get", b"\xff\xfe"], {}),
            (["messages"], {"PYTHONIOENCODING": "ascii:backslashreplace"}),
            (["messages"], {"MAESTRO_SESSION": "nobody--000000"}),
            (["--session", "nobody--000000", "messages"], {}),
            (["messages"], {"MAESTRO_TTL_SECONDS": "never"}),
        ):
            here = command(RUN_HERE, inner, *words, env=env)
            assert command(HANDED_OVER, inner, *words, env=env) == here
        ours, theirs = pty.openpty()
        line = [sys.executable, "-P", "-c", HANDED_OVER, "messages"]
        subprocess.run(line, cwd=inner, env=os.environ | {"TERM": "xterm"}, stdin=theirs, stdout=theirs, timeout=60)
        os.close(theirs)
        seen = everything_on(ours).decode()
        assert "\u241b[31mred" in seen  # a person is looking: what was stored is harmless
        assert "\x1b[31m" not in seen
        os.close(ours)


def everything_on(terminal: int) -> bytes:
    """Read what reached a terminal, until nobody is left at its other end."""
    seen = b""
    with suppress(OSError):  # how a terminal says so
        while part := os.read(terminal, 65536):
            seen += part
    return seen


def test_an_interrupt_reaches_the_command(talkative):
    """Ctrl-C, or the end of the terminal, ends the command where it runs, and nothing else."""
    with resident(talkative) as process:
        for number, left_with in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            # More than a pipe takes, and nobody reads it: the command is in the middle of writing.
            line = [sys.executable, "-P", "-c", HANDED_OVER, "messages", "--json"]
            caller = subprocess.Popen(line, cwd=talkative, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert caller.stdout.read(1) == b"{"
            wait_until(lambda: children(process.pid), "nobody runs it")
            caller.send_signal(number)
            assert caller.wait(60) == left_with
            wait_until(lambda: not children(process.pid), "it goes on")
            caller.stdout.close()
            assert b"Traceback" not in caller.stderr.read()
            caller.stderr.close()
        assert process.poll() is None


def children(pid: int) -> list[str]:
    """Return the processes that a process has forked and that are alive."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_newer_code_is_run_here(filled, tmp_path, monkeypatch):
    """When the code on disk is newer the command runs here, and the resident process leaves to be started anew."""
    for package in ("cli/maestro_cli", "maestro_state", "workers/maestro_workers"):
        shutil.copytree(ROOT / package, tmp_path / Path(package).name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with resident(filled) as process:
        assert command(HANDED_OVER, filled, "messages", "--json")[2] == 0
        os.utime(tmp_path / "maestro_cli" / "entry.py")
        assert command(EITHER_WAY, filled, "messages", "--json")[2] == 0
        wait_until(lambda: process.poll() is not None, "it goes on with old code")


def test_without_it_commands_run_here(filled):
    """Nobody there, nobody listening any more, nobody answering: the command runs here."""
    wanted = command(RUN_HERE, filled, "messages", "--json")
    assert command(EITHER_WAY, filled, "messages", "--json") == wanted
    with resident(filled) as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert command(EITHER_WAY, filled, "messages", "--json") == wanted
    assert (filled / entry.SOCKET).exists()
    assert command(EITHER_WAY, filled, "messages", "--json") == wanted


def test_nobody_else_gets_the_environment(filled, tmp_path):
    """A folder that others may write to, a link, or a listener of another user: nothing is handed over."""
    folder = filled / ".maestro" / "server"
    wanted = command(RUN_HERE, filled, "messages", "--json")
    with resident(filled):
        folder.chmod(0o777)
        assert command(HANDED_OVER, filled, "messages", "--json")[2] != 0
        assert command(EITHER_WAY, filled, "messages", "--json") == wanted
        folder.chmod(0o700)
        (folder / "r.sock").rename(folder / "other.sock")
        (folder / "r.sock").symlink_to("other.sock")
        assert command(HANDED_OVER, filled, "messages", "--json")[2] != 0
        (folder / "other.sock").rename(folder / "r.sock")
        assert command(HANDED_OVER, filled, "messages", "--json") == wanted  # the control
    if os.getuid() == 0:
        assert _heard_by_another_user(filled) == b""


def _heard_by_another_user(project: Path) -> bytes:
    """Let a process of another user listen on the socket; return what it was sent."""
    path = project / entry.SOCKET
    path.unlink()
    reader, writer = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            listener.listen()  # the kernel remembers who did this
            os.write(writer, b"!")
            line, _ = listener.accept()
            os.write(writer, line.recv(65536))
            os._exit(0)
        assert os.read(reader, 1) == b"!"
        command(EITHER_WAY, project, "messages")
        os.waitpid(child, 0)
        os.close(writer)
        with open(reader, "rb") as heard:
            return heard.read()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams_are_the_same(filled, closed):
    """With a stream closed the command runs here, and says what it would without a resident process."""

    def closing(code):
        line = ["sh", "-c", f'exec "$0" -P -c "$1" messages --json {closed}', sys.executable, code]
        done = subprocess.run(line, cwd=filled, capture_output=True, timeout=60)
        return done.stdout, done.stderr, done.returncode

    with resident(filled):
        assert closing(EITHER_WAY) == closing(RUN_HERE)
        assert closing(RUN_HERE)[2] == (1 if closed == ">&-" else 0)
        assert b"Traceback" not in closing(EITHER_WAY)[1]


def test_a_full_disk_is_said_once(filled):
    """Handed over or not, a command whose output nobody can keep says why, and nothing else."""

    def printing(code):
        with open("/dev/full", "wb") as full:
            line = [sys.executable, "-P", "-c", code, "messages", "--json"]
            done = subprocess.run(line, cwd=filled, stdout=full, stderr=subprocess.PIPE, timeout=60)
        return done.stderr, done.returncode

    with resident(filled):
        said, code = printing(HANDED_OVER)
    assert code == 1
    assert said.count(b"\n") == 1
    assert b"No space left" in said


def test_a_variable_without_a_name_is_no_obstacle(filled):
    """Some programs hand one down; no program can set one."""
    with resident(filled):
        printed, said, code = command(HANDED_OVER, filled, "messages", "--json", env={"": "x"})
    assert (said, code) == (b"", 0)
    assert b"red" in printed


def test_a_command_that_is_killed_says_so(talkative):
    """When the process that runs it is killed in the middle, the caller says so and exits with 1."""
    with resident(talkative) as process:
        line = [sys.executable, "-P", "-c", HANDED_OVER, "messages", "--json"]
        caller = subprocess.Popen(line, cwd=talkative, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert caller.stdout.read(1) == b"{"
        wait_until(lambda: children(process.pid), "nobody runs it")
        os.kill(int(children(process.pid)[0]), signal.SIGKILL)
        said = caller.communicate(timeout=60)[1]
        assert caller.returncode == 1
        assert json.loads(said)["error"]["hint"] == "run it again"


def test_the_stack_brings_it_along(project):
    """The first command starts the stack, and with it the resident process that later ones are handed to."""
    with Maestro(project) as maestro:
        maestro.sessions.start("first")
    wait_until((project / entry.SOCKET).exists, "the stack has no resident process")
    wait_until(lambda: command(HANDED_OVER, project, "session", "list")[2] == 0, "it does not answer")


def test_the_tables_name_every_command():
    """Every command is in one table; those that only read ask for no confirmation."""
    tables = (entry.READS, entry.CHANGES, entry.SERVES, entry.HERE)
    named = [words for table in tables for words in table]
    assert len(named) == len(set(named))
    known = dict(_commands(root_command, ()))
    assert {" ".join(words.split()[:2]) for words in known} == set(named)
    for words in entry.READS:
        assert not {"yes", "confirm"} & {option.name for option in known[words].params}, words


def _commands(command: click.Command, words: tuple[str, ...]):
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    if command.invoke_without_command and words:
        yield " ".join(words), command
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _commands(found, (*words, name))
