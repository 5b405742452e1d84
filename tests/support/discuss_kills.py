"""Kill a replay before each thing it asks of the operating system, and look at what it left.

`python -m tests.support.discuss_kills FOLDER` does it for the real way of writing, for the same without its
child, and for a naive one, and prints what it saw. A program of its own, without threads, so that it may fork; every
process it kills is its own child, with its group.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maestro_state.discuss.replay import operations_of
from maestro_state.mirror.layouts.discussion import DiscussionFiles
from maestro_state.mirror.layouts.plan import PlanFiles
from maestro_state.models.plan import apply
from tests.support.golden_discussions import FOLDER, plan_files, replay_case

#: A discussion that changes all three plan files, and its project before.
CASE = FOLDER / "mark"
REF = "golden-mark"

CALLS = ("open", "fdopen", "write", "fsync", "rename", "unlink", "mkdir", "ftruncate", "close",
         "fork", "setsid", "waitpid", "_exit")  # fmt: skip


def naive(root: Path, ref: str) -> None:
    """Apply a discussion the simple way: one file after the other, in place."""
    operations = operations_of(DiscussionFiles(root).load(ref))
    with PlanFiles.hold(root) as files:
        changes = files.changes(apply(files.read(), operations)[0])
    for name, content in changes.items():
        descriptor = os.open(root / "docs" / "maestro" / name, os.O_WRONLY | os.O_TRUNC)
        os.write(descriptor, content)
        os.close(descriptor)


def in_place(root: Path, ref: str) -> None:
    """Replay without the child that goes on when the replay is killed."""
    PlanFiles._move_apart = lambda _self, _note: None  # type: ignore[method-assign]
    replay_case(root, ref)


def die_at(number: int) -> None:
    """Arrange for this process and its group to be killed before the n-th call, its children's calls counted too; a
    write is first done by half.
    """
    replaying, seen = os.getpid(), mmap.mmap(-1, 8)
    os.setpgid(0, 0)

    def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(*arguments: Any, **options: Any) -> Any:
            count = int.from_bytes(seen[:], "big") + 1
            seen[:] = count.to_bytes(8, "big")
            if count == number:
                if name == "write":
                    call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.killpg(replaying, signal.SIGKILL)
            return call(*arguments, **options)

        return stand_in

    for name in CALLS:
        setattr(os, name, watched(name, getattr(os, name)))


def killed(root: Path, work: Callable[[Path, str], Any], number: int) -> bool:
    """Run the work in a child that dies at the n-th call; False when it was done before that."""
    child, leave = os.fork(), os._exit
    if child == 0:
        try:
            die_at(number)
            work(root, REF)
        finally:
            leave(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def is_mixed(root: Path, old: dict[str, bytes], new: dict[str, bytes]) -> bool:
    """Look at the plain files as another program does, once nobody is at work on them."""
    folder = os.open(root / "docs" / "maestro", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH)
        plain = {name: content for name, content in plan_files(root).items() if not name.startswith(".")}
        return plain not in (old, new)
    finally:
        os.close(folder)


def look(root: Path, old: dict[str, bytes], new: dict[str, bytes]) -> list[str]:
    """Return what is wrong with what a killed replay left, after the next call."""
    problems = []
    try:
        with PlanFiles.hold(root):
            pass
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return [f"the next call failed: {error}"]
    if plan_files(root) not in (old, new):
        problems.append("mixed")
    outcome = replay_case(root, REF)
    if outcome.get("result") != "REPLAY_OK" or plan_files(root) != new:
        problems.append(f"not repeatable: {outcome}")
    left = [path.name for path in (root / "docs" / "maestro").iterdir() if path.name.startswith(".")]
    if left:
        problems.append(f"left behind: {left}")
    transcript = DiscussionFiles(root).load(REF).transcript
    if transcript.damaged or transcript.torn is not None or len(transcript.finals) != 1:
        problems.append("transcript damaged")
    return problems


def main(folder: Path) -> dict[str, Any]:
    """Kill each way of writing at every point."""
    new = {path.name: path.read_bytes() for path in sorted((CASE / "after").iterdir())}
    found: dict[str, Any] = {}
    for name, work in (("real", replay_case), ("in place", in_place), ("naive", naive)):
        number, problems, mixed = 0, {}, []
        while True:
            number += 1
            root = folder / f"{name}-{number}"
            shutil.copytree(CASE / "before", root)
            old = plan_files(root)
            if not killed(root, work, number):
                break
            if is_mixed(root, old, new):
                mixed.append(number)
            if wrong := look(root, old, new):
                problems[number] = wrong
            shutil.rmtree(root)
        found[name] = {"points": number - 1, "mixed": mixed, "problems": problems}
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
