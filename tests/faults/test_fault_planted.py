"""Something else in the place of each of Maestro's files: no command waits for it, follows it or writes through it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from maestro_cli.main import run

from maestro_state import Maestro
from maestro_state.local.embedded import ensure, stop
from maestro_state.local.embedded.paths import data_path
from maestro_state.local.log_files import open_stack_log
from tests.support.embedded_project import supervisors, temporary_project
from tests.support.other_user import flickering, listening_as_another_user
from tests.support.waiting import wait_until

#: Everything below .maestro/ that a command of the embedded stack opens; a * stands for the one file that fits.
NAMES = (
    "server", "server/server.lock", "server/stack.lock", "server/server.log", "server/server.pid", "server/s.sock",
    "server/r.sock", "server/made-here", "server/socket", "server/data-*", "server/data-*/*.incr.aof",
    "server/data-*/*.manifest", "server/appendonlydir", "logs", "logs/stack.log", "config/settings.toml",
    "config/tools.json", "sessions/active", "sessions/index.json", "sessions/.index.lock",
)  # fmt: skip
#: One that reads, one that changes something, one that looks after the server, and one that looks at everything.
COMMANDS = (
    ["session", "list", "--json"],
    ["message", "add", "--role", "user", "--json", "x"],
    ["doctor", "--json"],
    ["stack", "status", "--json"],
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="being another user needs root")
KINDS = ("fifo", "link", "hard link", "folder", "socket")


@pytest.fixture
def project(monkeypatch) -> Iterator[Path]:
    """Give a project with a session, whose server is stopped; none of its commands starts a supervisor."""
    with temporary_project() as root:
        monkeypatch.setattr("maestro_state.local.embedded.supervision._spawn", lambda _root: False)
        monkeypatch.chdir(root)
        with Maestro(root) as maestro:
            maestro.sessions.start("planted")
            maestro.tools.check()
        (root / ".maestro/config/settings.toml").write_text("workers = 2\n")
        stop(root)
        yield root
        monkeypatch.undo()


class Planted:
    """Something in the place of one of Maestro's files, until it is taken away again."""

    def __init__(self, root: Path, name: str) -> None:
        """Move away what is there."""
        self.where = root / ".maestro"
        place, _, last = name.rpartition("/")
        found = list((self.where / place).glob(last)) if "*" in last else []
        self.path = found[0] if found else self.where / name
        self._aside = root / "aside"
        self.is_folder = self.path.is_dir()
        self._had_one = self.path.exists()
        if self._had_one:
            os.rename(self.path, self._aside)
        self.path.parent.mkdir(exist_ok=True)

    def plant(self, kind: str, canary: Path, trap: Path | None) -> bool:
        """Put it there; False where that kind is what belongs there."""
        match kind:
            case "fifo":
                os.mkfifo(self.path)
            case "link":
                self.path.symlink_to(canary.parent if self.is_folder else canary)
            case "hard link":
                os.link(canary, self.path)
            case "folder":
                if self.is_folder:
                    return False
                (self.path / "inside").mkdir(parents=True)
            case "socket":
                assert trap is not None
                os.link(trap, self.path)
        return True

    def take_away(self) -> None:
        """Put back what was there."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)
        if self._had_one:
            os.rename(self._aside, self.path)


def _in_child(work: Callable[[], int], told: Path) -> int:
    """Run something in a process of its own that is given up on when it hangs; return its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            with told.open("w") as sys.stdout:
                sys.stderr = sys.stdout
                code = work()
        finally:
            os._exit(code)
    ended: list[int] = []

    def has_ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            ended.append(status)
        return bool(pid)

    try:
        wait_until(has_ended, "the command ends")
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.waitstatus_to_exitcode(ended[0])


def _look(canary: Path) -> list[tuple]:
    """Return all about a canary and its folder that writing, replacing or opening up would change."""
    found = [canary.parent, *sorted(canary.parent.iterdir())]
    return [
        (path.name, status.st_mode, status.st_size, status.st_mtime_ns, path.is_file() and path.read_bytes())
        for path in found
        for status in [path.lstat()]
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_planted_is_waited_for_followed_or_written_through(project, tmp_path, kind):
    """For each name and command: it ends, with one line if with an error, and no canary is changed or trap reached."""
    if kind == "socket" and os.geteuid() != 0:
        pytest.skip("being another user needs root")
    canary = project / "canary" / "file"
    canary.parent.mkdir(mode=0o755)
    canary.write_text("untouched")
    told = tmp_path / "told"
    failures = []
    with listening_as_another_user(_accept) if kind == "socket" else _nothing() as trap:
        for name in NAMES:
            planted = Planted(project, name)
            try:
                if not planted.plant(kind, canary, trap):
                    continue
                before = _look(canary)
                # What looks at everything takes longest, and opens nothing in another way for another kind.
                for words in COMMANDS if kind in ("fifo", "link") else COMMANDS[:2]:
                    code = _in_child(lambda words=words: run(words), told)
                    text = told.read_text()
                    if not _is_clear(code, text) or _look(canary) != before:
                        failures.append((name, words[:2], code, text[-300:], _look(canary) == before))
            finally:
                planted.take_away()
                stop(project)
        if trap is not None:
            assert not trap.with_name("reached").exists()
    assert failures == []


def test_without_anything_planted_the_commands_work(project, tmp_path):
    """The control: each of these commands succeeds in the project as it is, also after all that."""
    for words in COMMANDS:
        code = _in_child(lambda words=words: run(words), tmp_path / "told")
        told = (tmp_path / "told").read_text()
        # That no supervisor can be started here, doctor says.
        assert (code, told.count('"fail"')) == ((1, 1) if words[0] == "doctor" else (0, 0)), told


@needs_root
def test_a_link_to_another_users_socket_is_refused_by_every_command(project, tmp_path):
    """Nothing is said to the server of another user, whose reply could be a run to carry out."""
    with listening_as_another_user(_accept) as trap:
        path = Path(data_path(project), "s.sock")
        path.symlink_to(trap)
        for words in COMMANDS:
            code = _in_child(lambda words=words: run(words), tmp_path / "told")
            assert _is_clear(code, (tmp_path / "told").read_text()), words
            assert code, words
        assert not trap.with_name("reached").exists()
        with socket.socket(socket.AF_UNIX) as line:  # control: whoever follows the link gets there
            line.connect(str(path))
            wait_until(lambda: trap.with_name("reached").exists(), "the other user has been reached")
        path.unlink()


@needs_root
def test_a_socket_that_flickers_leads_no_command_astray(project, tmp_path):
    """While the name of the server's socket changes to a link and back, commands reach their own server or none."""
    ensure(project, supervise=False)
    own, path = Path(data_path(project), "own"), Path(data_path(project), "s.sock")
    os.link(path, own)
    codes = set()
    with listening_as_another_user(_accept) as trap, flickering(path, own, trap):
        for _ in range(30):
            codes.add(_in_child(lambda: run(["session", "list", "--json"]), tmp_path / "told"))
        assert not trap.with_name("reached").exists()
    own.unlink()
    assert codes <= {0, 5}
    assert _in_child(lambda: run(["session", "list", "--json"]), tmp_path / "told") == 0  # it was the flickering


@pytest.mark.parametrize("name", ["stack.log", "."])
@pytest.mark.parametrize("kind", ["fifo", "link", "hard link"])
def test_the_stack_comes_up_without_its_log(project, name, kind):
    """Whatever has the log's place: the supervisor can do without, and writes nothing there."""
    canary = project / "canary" / "file"
    canary.parent.mkdir()
    canary.write_text("untouched")
    planted = Planted(project, f"logs/{name}" if name != "." else "logs")
    planted.plant(kind, canary, None)
    log = open_stack_log(project)
    os.write(log, b"something")
    os.close(log)
    assert canary.read_text() == "untouched"
    planted.take_away()
    log = open_stack_log(project)  # control: it was what was planted
    os.write(log, b"something")
    os.close(log)
    assert (project / ".maestro/logs/stack.log").read_bytes().endswith(b"something")


def test_a_supervisor_writes_its_pid_into_nothing_else(tmp_path):
    """A second name of somebody's file in the place of its lock: the supervisor leaves, the file stays as it was."""
    with temporary_project() as root:
        ensure(root, supervise=False)
        canary = root / "canary"
        canary.write_text("untouched")
        lock = Path(data_path(root), "stack.lock")
        os.link(canary, lock)
        from maestro_workers.stack.supervisor import main

        assert _in_child(lambda: main(["--project", str(root)]), tmp_path / "told") == 5
        assert canary.read_text() == "untouched"
        assert supervisors(root) == []


def _is_clear(code: int, text: str) -> bool:
    """Tell whether a command said what it has to say: a document, or one line that says what to do."""
    lines = [line for line in text.splitlines() if not line.startswith("maestro: ")]  # warnings are for people
    with suppress(ValueError):
        found = [json.loads(line) for line in lines]
        errors = [one["error"] for one in found if "error" in one]
        if code == 0 or (code == 1 and "checks" in found[0]):
            return not errors
        return code in range(1, 6) and len(errors) == len(found) == 1 and bool(errors[0]["hint"])
    return False


def _accept(listener: socket.socket) -> None:
    listener.accept()
    Path(listener.getsockname()).with_name("reached").touch()


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
