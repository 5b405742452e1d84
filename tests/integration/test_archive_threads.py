"""A generation of many files, made by threads: exact and in order, and one file that goes wrong undoes all."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maestro_state.errors import ArchiveFailed, MaestroError
from maestro_state.fs.handles import Folder
from maestro_state.fs.tree import Tree
from maestro_state.local.project import Project
from maestro_state.mirror.home import STAGING, Home
from maestro_state.mirror.parallel_writes import Writers
from maestro_state.mirror.verify import verify
from maestro_state.mirror.writer import replacing
from tests.support.generations import SESSION_ID, contents, generation_of, write_generation

RUNS = 120
#: Files of a generation.
FILES = RUNS + 4

#: Writes generation 2, of which one file after so many others goes wrong.
CHILD = """
import errno, os, signal, sys
from itertools import count
from pathlib import Path
from maestro_state.fs import tree
from tests.support.generations import write_generation
written, write, fault = count(), tree.write_all, sys.argv[3]
def write_all(descriptor, content):
    if next(written) != int(sys.argv[2]):
        write(descriptor, content)
    elif fault == "killed":
        os.write(descriptor, content[:7])
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    elif fault == "garbled":
        write(descriptor, content[:-1] + b"?")
    else:
        write(descriptor, content[: len(content) // 2])
tree.write_all = write_all
write_generation(Path(sys.argv[1]), 2, runs=int(sys.argv[4]))
"""


@pytest.fixture
def template() -> Iterator[Path]:
    """Return a project with generation 1 in place."""
    folder = Path(tempfile.mkdtemp(prefix="m-"))
    write_generation(folder, 1, runs=RUNS)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("fault", "says"),
    [("killed", ""), ("full", "No space left"), ("garbled", "does not hold"), ("short", "does not hold")],
)
def test_a_fault_in_any_thread_leaves_the_old_archive(template: Path, fault: str, says: str):
    """Early, in the middle or at the very end: the flush fails, says why, and the present generation stays whole."""
    for at in (0, 1, FILES // 2, FILES - 2, FILES):
        with tempfile.TemporaryDirectory(prefix="m-") as place:
            root = Path(place) / "p"
            shutil.copytree(template, root, symlinks=True)
            command = [sys.executable, "-c", CHILD, str(root), str(at), fault, str(RUNS)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
            home = Home.of_project(Project(root))
            assert verify(home, SESSION_ID).ok, at
            if at == FILES:  # control: past the last file, nothing goes wrong
                assert (done.returncode, generation_of(root, RUNS)) == (0, 2), done.stderr
                continue
            assert done.returncode, at
            assert says in done.stderr, at
            assert generation_of(root, RUNS) == 1, at
            home.sweep_leftovers()
            assert os.listdir(root / ".maestro/sessions" / STAGING) == [], at
            write_generation(root, 2, runs=RUNS)
            assert generation_of(root, RUNS) == 2, at


def _redirect(top: Path) -> None:
    (top / "runs").rename(top / "aside")
    (top / "runs").symlink_to(top.parents[3] / "canary")


def _exchange(top: Path) -> None:
    top.rename(top.with_name("aside"))
    top.mkdir()


def _empty(top: Path) -> None:
    (top / "runs/0001/output.txt").write_bytes(b"")


@pytest.mark.parametrize("meddle", [_redirect, _exchange, _empty])
def test_what_is_not_as_it_was_left_is_never_put_in_place(template: Path, meddle: Callable[[Path], None]):
    """A link for a folder, another tree, a file that lost its beginning: the present generation stays."""
    canary = template / "canary"
    canary.mkdir()
    with (  # noqa: PT012 - what is written before is part of it
        pytest.raises(MaestroError),
        replacing(Home.of_project(Project(template)), SESSION_ID) as generation,
    ):
        for path, content in contents(2, RUNS).items():
            generation.append(path, content, anew=True)
        generation.written_so_far().close()  # everything that does not grow any more is written
        (top,) = (template / ".maestro/sessions" / STAGING).iterdir()
        meddle(top)
        generation.append("runs/0001/output.txt", b"the end")
        generation.commit(last_id="2-0", written_at="")
    assert generation_of(template, RUNS) == 1
    assert verify(Home.of_project(Project(template)), SESSION_ID).ok
    assert list(canary.iterdir()) == []


def test_a_thread_that_cannot_be_had_leaves_none_behind(template: Path, monkeypatch: pytest.MonkeyPatch):
    """The first thread ends, its handles are given back, and the error is one of ours."""
    gc.collect()  # what earlier tests left is not counted
    handles = len(os.listdir("/proc/self/fd"))
    start = threading.Thread.start
    answers = itertools.cycle([start, None])

    def refuse(thread: threading.Thread) -> None:
        answer = next(answers)
        if answer is None:
            raise RuntimeError("can't start new thread")
        answer(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ArchiveFailed, match="can't start new thread"):
        write_generation(template, 2, runs=RUNS)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("archive")]
    assert len(os.listdir("/proc/self/fd")) <= handles
    assert generation_of(template, RUNS) == 1


def test_what_is_added_to_many_files_stays_in_order(tmp_path: Path):
    """Pieces for many files, in turns and far more than may wait, are in each file whole and one after the other."""
    piece = b"." * 4000
    writers = Writers(lambda: Tree(Folder.open(str(tmp_path))))
    for turn in range(60):
        for number in range(64):
            content = b"%d %02d" % (number, turn) + piece
            writers.write(f"{number}/{number % 2}/pieces", content, at=turn * len(content) or None)
    writers.drain()
    writers.close()
    for number in range(64):
        wanted = b"".join(b"%d %02d" % (number, turn) + piece for turn in range(60))
        assert (tmp_path / f"{number}/{number % 2}/pieces").read_bytes() == wanted


def test_what_was_not_written_yet_is_dropped_at_the_end(tmp_path: Path):
    """Closed without being drained, no thread is left and nothing is written any more."""
    writers = Writers(lambda: Tree(Folder.open(str(tmp_path))))
    for number in range(500):
        writers.write(f"{number}/file", b"x" * 10_000)
    writers.close()
    made = len(os.listdir(tmp_path))
    writers.close()
    writers.drain()
    assert len(os.listdir(tmp_path)) == made < 500
