"""Commands that change something, handed to the resident process: the same bytes, effects and ends as run in place."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from maestro_cli import entry

from maestro_state import Maestro
from maestro_state.local.embedded import ensure, stop
from tests.integration.test_resident import EITHER_WAY, HANDED_OVER, RUN_HERE, children, everything_on, resident
from tests.support.process_status import catches, state
from tests.support.waiting import wait_until

#: A day's work: what is said, sent, refused, asked on a pipe, and how it ends. {name} is put in by the test.
STORY = [
    (["session", "start", "First day", "--note", "ünï", "--json"], b""),
    (["message", "add", "--role", "user", "why?", "--json"], b""),
    (["message", "add", "--role", "assistant", "-"], "because \x1b[1m é".encode()),
    (["message", "add", "--role", "nobody", "x"], b""),
    (["message", "add", "--role", "user", b"\xff\xfe"], b""),
    (["context", "add", "notes.txt", "--label", "one"], b""),
    (["context", "add", "-", "--json"], b"from a pipe"),
    (["context", "add", "missing/file.txt"], b""),
    (["context", "remove", "ctx-0001"], b""),
    (["context", "clear", "--json"], b""),
    (["use", "echo"], b""),
    (["use", "no-such-tool", "--json"], b""),
    (["run", "--dry", "hello"], b""),
    (["cancel"], b""),
    (["session", "set", "preferences", '{"a": 1}'], b""),
    (["session", "set", "preferences", "{}", "--if-revision", "0"], b""),
    (["session", "sync", "--json"], b""),
    (["session", "delete", "nobody"], b""),
    (["wsession", "start", "task", "--json"], b""),
    (["discuss", "start", "--json"], b""),
    (["discuss", "say", "shall we?"], b""),
    (["session", "end", "--json"], b""),
    (["message", "add", "--role", "user", "too late", "--json"], b""),
    (["session", "start"], b""),
]


def run(code: str, folder: Path, words: list[str | bytes], given: bytes) -> tuple[bytes, bytes, int]:
    """Run one command line with a umask of its own; the number of its process is taken out of what it says."""
    line = ["sh", "-c", 'umask 027; exec "$@"', "sh", sys.executable, "-P", "-c", code, *words]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(line, cwd=folder, **pipes) as process:
        said = process.communicate(given, timeout=60)
    out, error = (part.replace(b"pid %d" % process.pid, b"pid OWN") for part in said)
    return out, error, process.returncode


def timeless(said: bytes, folder: Path) -> str:
    """Take out what differs from one time to the next: ids, times, the folder."""
    text = said.decode(errors="replace").replace(str(folder), "FOLDER")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f-]{17}", "UUID", text)
    text = re.sub(r"--[0-9a-z]{6}\b", "--SUFFIX", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][0-9:.]+Z?(\+00:00)?", "TIME", text)
    text = re.sub(r"\d{13}-\d+", "STREAM-ID", text)
    text = re.sub(r"\b[0-9a-f]{8}\b", "BOUNDARY", text)  # of the parts that a tool is sent
    text = re.sub(r"sha256: [0-9a-f]{64}", "DIGEST", text)  # of a history, which has times in it
    return re.sub(r"\"mtime(_ns)?\":\s*[0-9.]+", "MTIME", text)


@pytest.fixture
def folders():
    """Return two projects alike, each with a server and no stack."""
    made = [Path(tempfile.mkdtemp(prefix="m-")) for _ in range(2)]
    for folder in made:
        (folder / "notes.txt").write_text("some notes")
        os.utime(folder / "notes.txt", (1_700_000_000, 1_700_000_000))
        ensure(folder, supervise=False)
    yield made
    for folder in made:
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def test_handed_over_is_the_same(folders):
    """Each command of a day's work prints and returns the same either way, and leaves the same files and modes."""
    here, there = folders
    with resident(there):
        for words, given in STORY:
            assert entry._may_be_handed_over([str(word) for word in words]), words
            ours, theirs = run(RUN_HERE, here, words, given), run(HANDED_OVER, there, words, given)
            for one, other in zip(ours, theirs, strict=True):
                seen = [timeless(part, folder) if isinstance(part, bytes) else part
                        for part, folder in ((one, here), (other, there))]  # fmt: skip
                assert seen[0] == seen[1], words
    assert _left(here) == _left(there)


def _left(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the files that a project has, their modes, and the words of those that are JSON."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = timeless(str(path.relative_to(folder)).encode(), folder)
        if "/server" in name or "export" in name or "__pycache__" in name or path.is_socket():
            continue
        content = ""
        if path.suffix == ".json":
            found_there = json.loads(path.read_text())
            names = sorted(found_there) if isinstance(found_there, dict) else [sorted(row) for row in found_there]
            content = timeless(json.dumps(names).encode(), folder)
        found[name] = (oct(path.stat().st_mode), content)
    return found


def test_names_that_mean_another_file_elsewhere_are_not_handed_over(folders):
    """What a shell offers as /dev/fd/N is a file of the caller's own process."""
    folder = folders[0]
    run(RUN_HERE, folder, ["session", "start", "files"], b"")
    with resident(folder):
        line = [shutil.which("bash"), "-c", '"$0" -P -c "$1" context add --file <(echo inside) --json', sys.executable]
        done = subprocess.run([*line, EITHER_WAY], cwd=folder, capture_output=True, timeout=60)
    here = subprocess.run([*line, RUN_HERE], cwd=folder, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (here.returncode, here.stderr)


def test_a_command_whose_caller_is_killed_ends(folders):
    """It waits for a pipe that nobody writes to; with its caller it is gone, and nothing was changed."""
    folder = folders[0]
    with Maestro(folder) as maestro:
        maestro.sessions.start("quiet")
        with resident(folder) as process:
            line = [sys.executable, "-P", "-c", HANDED_OVER, "message", "add", "--role", "user", "-"]
            with subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE) as caller:
                wait_until(lambda: children(process.pid), "nobody runs it")
                caller.kill()
                caller.wait()
                wait_until(lambda: not children(process.pid), "it goes on")
        assert maestro.messages.last(10) == []


def test_a_command_outlives_the_resident_process(folders):
    """The stack may stop it, or new code may take its place: a command that is under way goes on to its end."""
    folder = folders[0]
    with Maestro(folder) as maestro:
        maestro.sessions.start("goes on")
        with resident(folder) as process:
            line = [sys.executable, "-P", "-c", HANDED_OVER, "message", "add", "--role", "user", "-"]
            with subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as caller:
                wait_until(lambda: children(process.pid), "nobody runs it")
                runner = int(children(process.pid)[0])
                wait_until(lambda: os.getpgid(runner) == runner, "it is in the resident's group")
                process.kill()
                process.wait()
                caller.communicate(b"said")
            assert caller.returncode == 0
        assert [message.content for message in maestro.messages.last(10)] == ["said"]


def test_a_change_that_is_cut_off_is_not_done_twice(folders):
    """When the process that runs it is killed, nobody knows: it says so, exits with 1, and does nothing itself."""
    folder = folders[0]
    with Maestro(folder) as maestro:
        maestro.sessions.start("once")
        with resident(folder) as process:
            line = [sys.executable, "-P", "-c", EITHER_WAY, "message", "add", "--role", "user", "-"]
            pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
            with subprocess.Popen(line, cwd=folder, **pipes) as caller:
                wait_until(lambda: children(process.pid), "nobody runs it")
                # Only one that has become the caller has its words: before, it would be run here.
                runner = int(children(process.pid)[0])
                wait_until(lambda: _has_stdin_of(runner, caller.pid), "it was not handed over")
                os.kill(runner, signal.SIGKILL)
                said = caller.communicate(b"twice?")[1]
        assert caller.returncode == 1
        assert b"check before you run it again" in said
        assert maestro.messages.last(10) == []


def _has_stdin_of(runner: int, caller: int) -> bool:
    return os.readlink(f"/proc/{runner}/fd/0") == os.readlink(f"/proc/{caller}/fd/0")


def test_a_question_is_asked_on_the_callers_terminal(folders):
    """What asks, asks there, and the answer that is typed there counts."""
    folder = folders[0]
    with Maestro(folder) as maestro:
        session = maestro.sessions.start("to be deleted").id
        with resident(folder):
            ours, theirs = pty.openpty()
            line = [sys.executable, "-P", "-c", HANDED_OVER, "session", "delete", session]
            caller = subprocess.Popen(
                line, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
            )
            os.close(theirs)
            os.write(ours, b"y\n")
            assert caller.wait(60) == 0
            everything_on(ours)
            os.close(ours)
        assert session not in [row.id for row in maestro.sessions.list()]


def test_ctrl_z_stops_the_command_too(folders):
    """Stopped and continued with its caller."""
    folder = folders[0]
    with Maestro(folder) as maestro:
        maestro.sessions.start("stops")
        with resident(folder) as process:
            line = [sys.executable, "-P", "-c", HANDED_OVER, "message", "add", "--role", "user", "-"]
            # In a group that is somebody's: an orphaned one is not stopped by the terminal.
            with subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as caller:
                wait_until(lambda: children(process.pid), "nobody runs it")
                runner = int(children(process.pid)[0])
                wait_until(lambda: _has_stdin_of(runner, caller.pid), "it was not handed over")
                wait_until(lambda: catches(caller.pid, signal.SIGTSTP), "it does not listen")
                caller.send_signal(signal.SIGTSTP)
                wait_until(lambda: state(caller.pid) == state(runner) == "T", "they are not both stopped")
                caller.send_signal(signal.SIGCONT)
                wait_until(lambda: "T" not in (state(caller.pid), state(runner)), "they do not go on")
                caller.communicate(b"later")
            assert caller.returncode == 0
        assert [message.content for message in maestro.messages.last(10)] == ["later"]


@pytest.mark.parametrize("words", [["run", "-", "--tool", "echo"], ["message", "add", "--role", "user", "-"]])
def test_a_closed_standard_input_is_no_pipe(folders, words):
    """What is to be read from it is refused in one line that says so, as it is on a terminal."""
    line = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-P", "-c", RUN_HERE]
    subprocess.run([*line, "session", "start", "closed"], cwd=folders[0], check=True, capture_output=True, timeout=60)
    done = subprocess.run([*line, *words], cwd=folders[0], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"reads from a pipe, and there is none" in done.stderr
