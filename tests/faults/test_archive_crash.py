"""Killed anywhere, refused anywhere: the archive is the old one or the new one, whole, and the session is never lost.

A child process flushes under strace, which kills it, or makes a call fail, at the n-th call of a kind. Where tracing is
not allowed the same is done by counting calls of `os`.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from maestro_state.local.project import Project
from maestro_state.mirror.home import STAGING, Home
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.verify import verify
from tests.support.generations import SESSION_ID, contents, folder_of, generation_of, generation_read, write_generation

SYSCALLS = ("openat", "write", "linkat", "mkdirat", "renameat2", "renameat", "rename", "fsync", "syncfs", "unlinkat",
            "flock", "unlink", "ftruncate", "close")  # fmt: skip

#: Writes generation `n` of a session: three files that must always agree, one that never changes.
CHILD = """
import sys
from pathlib import Path
from maestro_state.fs import kernel
if "two-step" in sys.argv:
    kernel.libc = lambda name: None
from tests.support.generations import write_generation
print("begin", flush=True)
write_generation(Path(sys.argv[1]), int(sys.argv[2]), in_place="in-place" in sys.argv)
print("done", flush=True)
"""

#: Puts right what a killed one left.
SWEEPER = """
import sys
from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
print("begin", flush=True)
Home.of_project(Project(sys.argv[1])).sweep_leftovers()
print("done", flush=True)
"""

#: The same without generations: each file by itself, atomically. What the tests must be able to catch.
NAIVE = """
import sys
from pathlib import Path
from tests.support.generations import write_naive
print("begin", flush=True)
write_naive(Path(sys.argv[1]), int(sys.argv[2]))
print("done", flush=True)
"""


@functools.cache
def can_trace() -> bool:
    """Tell whether strace works here."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_trace(), reason="no strace here; test_archive_faults.py does it by hand")


@pytest.fixture
def template() -> Path:
    """Return a project with generation 1 in place."""
    folder = Path(tempfile.mkdtemp(prefix="m-"))
    write_generation(folder, 1)
    yield folder
    shutil.rmtree(folder)


def inject(name: str, number: int, what: str) -> tuple[str, ...]:
    """Return what makes the n-th call of a kind go wrong."""
    return ("-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:{what}:when={number}")


def start(code: str, root: Path, number: int, *trace: str, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", code, str(root), str(number), *more]
    traced = ["strace", "-qq", *trace, *command] if trace else command
    return subprocess.run(traced, capture_output=True, check=False, timeout=60, cwd=Path(__file__).parents[2])


def calls(code: str, template: Path, more: tuple[str, ...]) -> list[tuple[str, int]]:
    """List every call the child makes after it has begun, as name and number among those of its name."""
    with tempfile.TemporaryDirectory(prefix="m-") as place:
        root = Path(place) / "p"
        shutil.copytree(template, root, symlinks=True)
        log = Path(place) / "log"
        traced = start(code, root, 2, "-o", str(log), "-e", f"trace={','.join(SYSCALLS)}", more=more)
        assert traced.returncode == 0, traced.stderr
        counts: Counter[str] = Counter()
        found = []
        begun = False
        for line in log.read_text().splitlines():
            name = re.match(r"(?:\d+ +)?(\w+)\(", line)
            if name is None:
                continue
            counts[name[1]] += 1
            if 'write(1, "done' in line:
                break
            if begun:
                found.append((name[1], counts[name[1]]))
            begun = begun or 'write(1, "begin' in line
        return found


def spread(points: list[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    """Take at most so many points, evenly."""
    return points if len(points) <= most else [points[at * len(points) // most] for at in range(most)]


@pytest.mark.parametrize("more", [(), ("two-step",)], ids=["exchange", "two-step"])
def test_a_kill_at_any_call_leaves_the_old_or_the_new_archive(template: Path, more: tuple[str, ...]):
    """Killed at every system call of a flush, the archive is whole, and the next flush and sweep put all in order."""
    points = spread([point for point in calls(CHILD, template, more) if point[0] != "close"], 42)
    assert len(points) >= 40
    seen: Counter[int | None] = Counter()
    for name, number in points:
        with tempfile.TemporaryDirectory(prefix="m-") as place:
            root = Path(place) / "p"
            shutil.copytree(template, root, symlinks=True)
            killed = start(CHILD, root, 2, *inject(name, number, "signal=SIGKILL"),
                           more=more)  # fmt: skip
            # Python opens a file less now and then (what it has compiled before): the last call is then not reached.
            if b"done" not in killed.stdout:
                seen[generation_of(root)] += 1
            home = Home.of_project(Project(root))
            assert verify(home, SESSION_ID).ok, (name, number)
            home.sweep_leftovers()
            assert os.listdir(root / ".maestro/sessions" / STAGING) == [], (name, number)
            assert not [one for one in os.listdir(root / ".maestro/sessions") if one.endswith(".lock")]
            write_generation(root, 2)
            assert generation_of(root) == 2
            assert ArchivedSession(home, SESSION_ID).record().notes == "generation 2"
    assert seen[None] == 0, seen
    assert seen.total() >= 38, "too few of the calls were reached"
    assert seen[1]
    assert seen[2], "no kill after the swap: the test does not reach it"


@pytest.mark.parametrize("more", [("in-place",), ("in-place", "two-step")], ids=["syncfs", "fsync"])
def test_a_kill_at_any_call_of_a_checkpoint_leaves_the_old_or_the_new_one(template: Path, more: tuple[str, ...]):
    """Changed in place: for who goes by the manifest it is one or the other, for other programs every file is whole,
    and whoever comes next puts all in order.
    """
    (folder_of(template) / "NOTES.txt").write_text("mine")
    found = [point for point in calls(CHILD, template, more) if point[0] != "close"]
    assert not [name for name, _ in found if name == "linkat"]  # control: what did not change is not touched
    seen: Counter[int | None] = Counter()
    mixed = 0
    for name, number in spread(found, 42):
        with tempfile.TemporaryDirectory(prefix="m-") as place:
            root = Path(place) / "p"
            shutil.copytree(template, root, symlinks=True)
            killed = start(CHILD, root, 2, *inject(name, number, "signal=SIGKILL"), more=more)
            home = Home.of_project(Project(root))
            if b"done" not in killed.stdout:
                seen[generation_read(root)] += 1
                mixed += generation_of(root) is None
            assert verify(home, SESSION_ID).ok, (name, number)
            assert ArchivedSession(home, SESSION_ID).record().notes == f"generation {generation_read(root)}"
            assert len(list(ArchivedSession(home, SESSION_ID).events())) == generation_read(root)
            assert_each_is_whole(root)
            was = generation_read(root)
            home.sweep_leftovers()
            assert generation_of(root) == generation_read(root) == was, (name, number)
            assert os.listdir(root / ".maestro/sessions" / STAGING) == [], (name, number)
            for again in (2, 1, 2):
                write_generation(root, again, in_place=True)
                assert generation_of(root) == again, (name, number)
            assert verify(home, SESSION_ID).ok, (name, number)
            assert (folder_of(root) / "NOTES.txt").read_text() == "mine"
    assert seen[None] == 0, seen
    assert seen.total() >= len(spread(found, 42)) - 4, "too few of the calls were reached"
    assert seen[1]
    assert seen[2], "no kill after the change: the test does not reach it"
    assert mixed, "control: file by file it is a mixture at some point"


def assert_each_is_whole(root: Path) -> None:
    """Hold every file of [0]'s layout to what it was and will be."""
    for path, old in contents(1).items():
        if not path.endswith(".jsonl"):
            assert (folder_of(root) / path).read_bytes() in (old, contents(2)[path]), path


@pytest.mark.parametrize("killed_at", ["renameat", "unlinkat"])
def test_a_kill_while_an_interrupted_change_is_put_right(template: Path, killed_at: str):
    """Putting right can itself be interrupted anywhere: the next one goes on."""
    write_at = [point for point in calls(CHILD, template, ("in-place",)) if point[0] == "renameat"]
    start(CHILD, template, 2, *inject("renameat", write_at[1][1], "signal=SIGKILL"), more=("in-place",))
    assert generation_read(template) == 2
    assert generation_of(template) is None  # control: it was interrupted after the change, before the files moved
    points = [point for point in calls(SWEEPER, template, ()) if point[0] == killed_at]
    assert points
    for name, number in points:
        with tempfile.TemporaryDirectory(prefix="m-") as place:
            root = Path(place) / "p"
            shutil.copytree(template, root, symlinks=True)
            start(SWEEPER, root, 2, *inject(name, number, "signal=SIGKILL"))
            assert generation_read(root) == 2, (name, number)
            Home.of_project(Project(root)).sweep_leftovers()
            assert generation_of(root) == 2, (name, number)
            assert verify(Home.of_project(Project(root)), SESSION_ID).ok


def test_the_same_kills_tear_files_replaced_one_by_one(template: Path):
    """Control: atomic replacement of each file by itself mixes two generations under these kills."""
    seen: Counter[int | None] = Counter()
    for name, number in spread(calls(NAIVE, template, ()), 10):
        with tempfile.TemporaryDirectory(prefix="m-") as place:
            root = Path(place) / "p"
            shutil.copytree(template, root, symlinks=True)
            start(NAIVE, root, 2, *inject(name, number, "signal=SIGKILL"))
            seen[generation_read(root)] += 1
    assert seen[None] > 0, seen


@pytest.mark.parametrize("more", [(), ("in-place",)], ids=["swap", "in place"])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_call_that_fails_is_said_and_changes_nothing(template: Path, error: str, more: tuple[str, ...]):
    """With a full or failing disk the flush fails, the archive is whole, nothing is left, and a retry works."""
    wanted = ("write", "openat", "mkdirat", "linkat", "syncfs", "renameat2", "renameat")
    points = [point for point in calls(CHILD, template, more) if point[0] in wanted]
    failed = 0
    for name, number in spread(points, 12):
        with tempfile.TemporaryDirectory(prefix="m-") as place:
            root = Path(place) / "p"
            shutil.copytree(template, root, symlinks=True)
            done = start(CHILD, root, 2, *inject(name, number, f"error={error}"), more=more)
            found = generation_read(root)
            assert found in (1, 2), (name, number)
            assert (found == 2) or done.returncode != 0, (name, number, "success with the old archive")
            failed += done.returncode != 0
            assert verify(Home.of_project(Project(root)), SESSION_ID).ok
            write_generation(root, 2, in_place=bool(more))
            assert generation_of(root) == 2
            Home.of_project(Project(root)).sweep_leftovers()
            assert os.listdir(root / ".maestro/sessions" / STAGING) == []
    assert failed >= 6
