"""A tool that starts processes in every way that gets away from a group, and the ways in which its run can end.

`python -m tests.support.tree_kills 200` ends that many runs of each kind and says how many processes survived.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from maestro_workers import orphans
from maestro_workers.guard import Guard
from maestro_workers.invoke import Finished, Invocation, invoke

from tests.support.embedded_project import is_alive
from tests.support.waiting import wait_until

#: In sessions of their own, let go of by their parents, with an environment of their own, and three deep. A sleep may
#: be given in several parts: one of them is a number that only this tree has.
TOOL = """
setsid sleep 9999 "$0" &
(setsid sh -c 'sleep 9998 "$0" & exit' "$0" &)
env -i "$(command -v setsid)" "$(command -v sleep)" 9997 "$0" &
bash -c 'bash -c "tail -f \\"$0\\"; :" "$0"; :' "$1" &
echo up
wait
sleep 9996 "$0"
"""
#: How many of them stay, whatever becomes of the shells between.
LEAVES = 4

_OWNER = """
import os, sys
from tests.support.tree_kills import call
from maestro_workers import orphans
from maestro_workers.guard import Guard
orphans.MARK, orphans.LEVELS = sys.argv[3], tuple(map(int, sys.argv[4:6]))
guard = Guard(alone=True)
if not os.fork():  # as one that tells of the last run: it lives until the test lets go of its input
    os.read(0, 1)
    os._exit(0)
print(guard.pid, flush=True)
call(sys.argv[1], sys.argv[2], guard, lambda: None)
"""


class Lost(Exception):
    """The server is away, and the claim with it."""


class Tree:
    """One tool's processes, known by a number in their arguments."""

    def __init__(self, folder: str) -> None:
        self.number = f"0.{secrets.randbelow(10**12):012}"
        self.file = str(Path(folder) / self.number)
        Path(self.file).touch()

    def leaves(self) -> list[int]:
        """Return which of them are alive, shells not counted."""
        return [pid for pid, words in _command_lines() if self._is_leaf(words)]

    def _is_leaf(self, words: list[str]) -> bool:
        return bool(words) and words[0].endswith(("sleep", "tail")) and words[-1] in (self.number, self.file)

    def is_up(self) -> bool:
        """Say whether all of them are there."""
        return len(self.leaves()) == LEAVES

    def end(self) -> None:
        """Kill what is left."""
        for pid in self.leaves():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _command_lines() -> list[tuple[int, list[str]]]:
    found = []
    for name in os.listdir("/proc"):
        with suppress(ValueError, OSError):
            words = Path(f"/proc/{int(name)}/cmdline").read_bytes().rstrip(b"\0")
            found.append((int(name), words.decode(errors="replace").split("\0")))
    return found


def argv(number: str, file: str) -> list[str]:
    """Return the tool's command."""
    return ["/bin/sh", "-c", TOOL, number, file]


def call(
    number: str, file: str, guard: Guard | None, on_beat: Callable[[], str | None], timeout_s: float = 600
) -> Finished:
    """Run the tool."""
    environment = {"PATH": os.environ["PATH"]}
    return invoke(
        Invocation(argv(number, file), b"", "/", environment, timeout_s, lambda _: None, on_beat, 0.02, guard)
    )


def cancel(tree: Tree) -> None:
    """Cancel the run."""
    call(tree.number, tree.file, None, lambda: "canceled" if tree.is_up() else None)


def time_out(tree: Tree) -> None:
    """Let the run take too long; a busy machine gets more time to have something that can survive."""
    seen: list[bool] = []
    timeout_s = 0.5
    while not any(seen):
        call(tree.number, tree.file, None, lambda: seen.append(tree.is_up()), timeout_s)
        timeout_s *= 2


def lose_server(tree: Tree) -> None:
    """Take the server away, so that the run cannot be kept."""

    def beat() -> str | None:
        if tree.is_up():
            raise Lost
        return None

    with suppress(Lost):
        call(tree.number, tree.file, None, beat)


def kill_worker(tree: Tree) -> None:
    """Kill -9 the process that called the tool; a child that it has beside the guard lives on."""

    def kill(owner: subprocess.Popen[bytes], _: int) -> None:
        owner.kill()
        wait_until(lambda: not tree.leaves(), "something survives")

    _with_owner(tree, kill)


def kill_guard(tree: Tree) -> None:
    """Kill -9 the guard alone."""
    _with_owner(tree, lambda _, guard: os.kill(guard, signal.SIGKILL))


def kill_group(tree: Tree) -> None:
    """Kill the tool's process group and nothing else, which is not enough."""
    tool = subprocess.Popen(argv(tree.number, tree.file), stdout=subprocess.DEVNULL, start_new_session=True)
    wait_until(tree.is_up, "the tool has not started everything")
    os.killpg(tool.pid, signal.SIGKILL)
    tool.wait()


def kill_both(tree: Tree) -> None:
    """Kill -9 the worker and its guard: the guard first, stopped before, so that neither can do anything."""

    def kill(owner: subprocess.Popen[bytes], guard: int) -> None:
        os.kill(owner.pid, signal.SIGSTOP)
        os.kill(guard, signal.SIGKILL)
        owner.kill()
        wait_until(lambda: not is_alive(guard), "the guard is still there")

    _with_owner(tree, kill)


def _with_owner(tree: Tree, kill: Callable[[subprocess.Popen[bytes], int], None]) -> None:
    """Have a process call the tool, and kill what is to be killed when everything is there."""
    words = [sys.executable, "-c", _OWNER, tree.number, tree.file, orphans.MARK, *map(str, orphans.LEVELS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        guard = int(owner.stdout.readline())
        wait_until(tree.is_up, "the tool has not started everything")
        kill(owner, guard)
        owner.wait()


#: Every way in which a run is ended.
ENDS = {"cancel": cancel, "timeout": time_out, "server away": lose_server, "worker killed": kill_worker,
        "guard killed": kill_guard}  # fmt: skip


def main(count: int) -> int:
    """End many runs of each kind; return how many processes survived, those of the control not counted."""
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, end in {**ENDS, "control: group killed": kill_group}.items():
            left = 0
            for _ in range(count):
                tree = Tree(folder)
                end(tree)
                if end is kill_worker:
                    with suppress(AssertionError):
                        wait_until(lambda tree=tree: not tree.leaves(), "something survives")
                left += len(tree.leaves())
                tree.end()
            print(f"{name}: {left} orphans of {count * LEAVES}")
            survived += left if end is not kill_group else 0
    return survived


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])) > 0)
