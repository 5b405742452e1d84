"""Cleaners at the same time, killed anywhere, with a wrong unit or among damaged archives: nothing goes wrongly."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.errors import InvalidValue
from maestro_state.local.project import Project
from maestro_state.mirror.home import STAGING, Home
from maestro_state.mirror.retention import CleanupReport, clean
from maestro_state.mirror.verify import verify
from tests.support.backends import BACKENDS, Clock
from tests.support.cli_runs import maestro_command
from tests.support.seeds import seeded
from tests.support.stored import filler

DAY_MS = 24 * 3600 * 1000
NOW = 1_800_000_000_000

#: Cleans, and kills itself with the n-th call that touches the disk; with n = 0 it says how many there are.
CLEANER = """
import os, signal, sys
from pathlib import Path
from maestro_state.fs import handles
from maestro_state.mirror.home import Home
from maestro_state.mirror.retention import clean
from maestro_state.local.project import Project
root, number, now_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
count = 0
class Mortal:
    def __getattr__(self, name):
        global count
        found = getattr(os, name)
        if name in ("open", "write", "link", "mkdir", "rename", "unlink", "rmdir", "close", "fsync"):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return found
handles.os = Mortal()
report = clean(Home.of_project(Project(root)), set(), now_ms=now_ms, days=30, dry_run=False)
print(count, len(report.removed), report.busy)
"""

#: The same without generations: the files are removed one by one, then the records are written anew.
NAIVE = """
import json, os, signal, sys
from pathlib import Path
for folder in sorted(Path(sys.argv[1], ".maestro/sessions").glob("old*")):
    for run in ("0002", "0003"):
        (folder / "runs" / run / "output.txt").unlink()
        if folder.name.startswith("old1"):
            os.kill(os.getpid(), signal.SIGKILL)
    record = folder / "session.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"cleanup_at": "now"}))
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with four old sessions, of which one is damaged, and one that is young."""
    root = tmp_path_factory.mktemp("cleaners")
    for name, age in (("old1", 40), ("old2", 31), ("old3", 400), ("old4", 40), ("young", 29)):
        with BACKENDS["fake"](root) as backend, backend.open(now_ms=Clock(NOW - age * DAY_MS)) as maestro:
            session = maestro.sessions.start(name)
            fill = filler(backend, session.id)
            fill.item(b"kept for ever")
            fill.promote(fill.run(b"relevant"))
            fill.run(b"goes")
            fill.run(b"goes too", status="error")
            fill.run(b"last")
            maestro.sessions.end()
    (damaged,) = (root / ".maestro/sessions").glob("old4--*")
    (damaged / "runs/0001/output.txt").write_bytes(b"RELEVANT")
    return root


@pytest.fixture
def copy(template: Path, tmp_path: Path) -> Path:
    """Return a project of one's own with those sessions."""
    return copied(template, tmp_path / "project")


def copied(template: Path, root: Path) -> Path:
    shutil.copytree(template, root, symlinks=True)
    return root


def files_of(root: Path) -> dict[str, bytes]:
    """Return what the sessions hold, as far as people put it there: contents, not the records of a cleanup."""
    sessions = root / ".maestro/sessions"
    kept = ("output.txt", "prompt.txt", "meta.json", "ctx-0001.txt", "ctx-0001.json", "messages.jsonl", "events.jsonl")
    return {
        str(path.relative_to(sessions)): path.read_bytes()
        for path in sorted(sessions.rglob("*"))
        if path.name in kept and STAGING not in path.parts
    }


def clean_here(root: Path) -> CleanupReport:
    return clean(Home.of_project(Project(str(root))), set(), now_ms=NOW, days=30, dry_run=False)


def start(root: Path, number: int = 0, code: str = CLEANER) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, str(root), str(number), str(NOW)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)


def check(root: Path, before: dict[str, bytes], report: CleanupReport | None) -> None:
    """Assert that exactly what may go has gone, all that stays is whole, and the damaged one was named."""
    after, home = files_of(root), Home.of_project(Project(str(root)))
    gone = {path for path in before if path not in after}
    assert {path.split("--")[0] + path[path.index("/") :] for path in gone} == {
        f"{name}/runs/{run}/output.txt" for name in ("old1", "old2", "old3") for run in ("0002", "0003")
    }
    assert all(after[path] == content for path, content in before.items() if path in after)
    damaged = next(one for one in home.ids() if one.startswith("old4--"))
    assert [one for one in sorted(home.ids()) if not verify(home, one).ok] == [damaged]
    if report is not None:
        assert [one.id for one in report.damaged] == [damaged]


def test_a_cleaner_killed_anywhere_is_finished_by_the_next(template: Path, tmp_path: Path):
    """kill -9 at random calls: what is there is whole, and a second cleanup removes exactly what may go."""
    chance, before = seeded(), files_of(template)
    whole = start(copied(template, tmp_path / "whole"))
    said, _ = whole.communicate(timeout=60)
    count, removed, _ = said.split()
    assert removed == "6"
    points = sorted(chance.sample(range(int(count) // 20, int(count)), 12))
    roots = [copied(template, tmp_path / str(point)) for point in points]
    killed = [start(root, point) for root, point in zip(roots, points, strict=True)]
    assert [one.wait(60) for one in killed] == [-signal.SIGKILL] * len(points)
    interrupted = 0
    for one, root in zip(killed, roots, strict=True):
        one.stdout.close()
        home = Home.of_project(Project(str(root)))
        assert len([session for session in home.ids() if not verify(home, session).ok]) == 1, "only the damaged one"
        interrupted += files_of(root) != files_of(tmp_path / "whole")
        check(root, before, clean_here(root))
        home.sweep_leftovers()
        assert os.listdir(root / ".maestro/sessions" / STAGING) == []
    assert interrupted > 0, "no kill came before the end"


def test_removing_files_one_by_one_leaves_a_damaged_archive(copy: Path):
    """Control: the same kill of a cleaner without generations leaves an archive that is neither old nor new."""
    killed = start(copy, code=NAIVE)
    assert killed.wait(60) == -signal.SIGKILL
    killed.stdout.close()
    home = Home.of_project(Project(str(copy)))
    assert len([one for one in home.ids() if not verify(home, one).ok]) == 2


def test_cleaners_at_once_remove_everything_once(template: Path, copy: Path):
    """Of three at the same time one cleans and the others say that they do not, or find nothing more to do."""
    cleaners = [start(copy) for _ in range(3)]
    said = [one.communicate(timeout=60)[0].split() for one in cleaners]
    assert [one.returncode for one in cleaners] == [0, 0, 0]
    assert sum(int(removed) for _, removed, _ in said) == 6
    check(copy, files_of(template), None)
    assert clean_here(copy).removed == []


@pytest.mark.parametrize("days", ["30d", "2592000", "-1", "1.5", "NaN"])
def test_a_retention_in_the_wrong_unit_removes_nothing(copy: Path, days: str):
    """Seconds, milliseconds, fractions and words are refused in the setting and on the command line."""
    before = files_of(copy)
    env = {"MAESTRO_REDIS_URL": "redis://127.0.0.1:1"}
    by_option = maestro_command(copy, "cleanup", "--days", days, "--json", env=env)
    by_setting = maestro_command(copy, "cleanup", "--json", env=env | {"MAESTRO_RETENTION_DAYS": days})
    for done in (by_option, by_setting):
        assert done.returncode == 2, (done.stdout, done.stderr)
        assert json.loads(done.stderr)["error"]["code"] in ("usage", "config", "config_error", "invalid_value")
    assert files_of(copy) == before


def test_days_that_no_calendar_has_are_refused_in_the_api_too(copy: Path):
    """Below zero and above a hundred years: InvalidValue before anything is asked of a server."""
    with Maestro(copy, redis_url="redis://127.0.0.1:1") as maestro:
        for days in (-1, 36_501, 2_592_000_000):
            with pytest.raises(InvalidValue):
                maestro.archive.cleanup(days=days)
