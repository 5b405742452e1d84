"""Backup and restore as the compose file has them: taken while everybody writes, restored elsewhere, nothing lost."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state import Maestro
from tests.support.cli_runs import printed
from tests.support.programs import running
from tests.support.topology import PASSWORDS, Topology, topology
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("busy")

#: Writes numbered messages, each printed once the server has acknowledged it, checkpointing now and then, until asked
#: to leave by the end of its standard input.
WRITER = """
import sys, threading
from maestro_state import Maestro
gone = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), gone.set()), daemon=True).start()
with Maestro(sys.argv[1]) as maestro:
    session = maestro.sessions.start(sys.argv[2])
    print(session.id, flush=True)
    number = 0
    while not gone.is_set():
        maestro.messages.add("user", f"message {number}", session.id)
        print(number, flush=True)
        number += 1
        if number % 40 == 0:
            maestro.archive.checkpoint(session.id)
"""
PROGRAM = Path(__file__).parents[2] / "deploy/backup.py"
LISTING = "data/appendonlydir/appendonly.aof.manifest"


def do(team: Topology, name: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a container that leaves by itself."""
    words = [*team.command(name), *more]
    return subprocess.run(words, cwd=team.folder, capture_output=True, text=True, check=False)


def contents(maestro: Maestro, session_id: str) -> list[str]:
    """Return what the messages of a session say."""
    return [message.content for message in maestro.messages.since(None, session_id)]


@pytest.fixture
def team(tmp_path):
    """Run the server as the file says."""
    (tmp_path / "one").mkdir()
    with topology(tmp_path / "one") as found:
        yield found


def test_a_backup_taken_while_writing_has_all_that_was_acknowledged_before(team, project, tmp_path):
    """Also across a rewrite of the server's log; restored elsewhere, archives verify and sessions go on."""
    environment = team.environment("worker-a")
    words = [sys.executable, "-P", "-c", WRITER, str(project)]
    with Maestro(project, environment=environment) as maestro:
        ended = maestro.sessions.start("ended before")
        maestro.messages.add("user", "kept", ended.id)
        maestro.sessions.end(ended.id)
    with (
        running(team.folder, [*words, "first"], env=environment) as one,
        running(team.folder, [*words, "second"], env=environment) as two,
    ):
        writers = (one, two)
        wait_until(lambda: all(len(writer.lines()) > 100 for writer in writers), "nobody writes")
        rewritten = _rewrite(team)
        before = {writer.lines()[0]: len(writer.lines()) - 1 for writer in writers}
        for _ in range(3):
            saved = do(team, "backup")
            assert saved.returncode == 0, saved.stderr
        assert rewritten() >= 1
        # Control: they went on writing all the while, so the backups were taken in the middle of it.
        wait_until(
            lambda: all(len(writer.lines()) - 1 > before[writer.lines()[0]] for writer in writers), "not writing"
        )
        for writer in writers:
            writer.finish()
    (tmp_path / "two").mkdir()
    with topology(tmp_path / "two", starts=False) as again:
        os.rename(again.folder / "backup", again.folder / "none")
        os.symlink(team.folder / "backup", again.folder / "backup")
        restored = do(again, "restore")
        assert restored.returncode == 0, restored.stderr
        again.start_server()
        with Maestro(project, environment=again.environment("worker-a")) as maestro:
            for session_id, count in before.items():
                found = contents(maestro, session_id)
                assert found == [f"message {number}" for number in range(len(found))]
                assert len(found) >= count > 100
                maestro.messages.add("user", "and on", session_id)
                maestro.archive.checkpoint(session_id)
                assert maestro.archive.verify(session_id).ok
            assert contents(maestro, ended.id) == ["kept"]
        checked = printed(project, "verify", "--all", env=again.environment("worker-a"))
        assert checked["ok"] is True, json.dumps(checked)[:2000]
        refused = do(again, "restore")
        assert refused.returncode == 1
        assert "is not empty" in refused.stderr


def _rewrite(team: Topology):
    """Have the server rewrite its log; return what tells how often it has."""
    import redis

    admin = redis.Redis(port=team.port, username="admin", password=PASSWORDS["REDIS_ADMIN_PASSWORD"])
    before = admin.info("persistence")["aof_rewrites"]
    admin.bgrewriteaof()
    return lambda: admin.info("persistence")["aof_rewrites"] - before


@pytest.fixture
def saved(tmp_path) -> Path:
    """Return a folder with a server's log and an archive, and a backup of them."""
    log = tmp_path / "data/appendonlydir"
    log.mkdir(parents=True)
    (tmp_path / LISTING).write_text(
        "file appendonly.aof.2.base.rdb seq 2 type b\n"
        "file appendonly.aof.1.incr.aof seq 1 type h\n"
        "file appendonly.aof.2.incr.aof seq 2 type i\n"
    )
    (log / "appendonly.aof.2.base.rdb").write_bytes(b"base")
    (log / "appendonly.aof.2.incr.aof").write_bytes(b"more")
    session = tmp_path / "archive/shop/sessions/a--000000"
    session.mkdir(parents=True)
    (session / "manifest.json").write_text("{}")
    (session / "runs").mkdir()
    os.mkfifo(session / "runs/pipe")  # by a tool, say, which is the workers' user
    (session.parent / ".staging").mkdir()
    for left in (".restoring", "lost+found"):
        (tmp_path / "archive" / left).mkdir()
        (tmp_path / "archive" / left / "x").write_text("not of an archive")
    (tmp_path / "backup").mkdir()
    assert copied(tmp_path, "save", "--to").returncode == 0
    return tmp_path


def words_of(folder: Path, verb: str, where: str) -> list[str]:
    """Return the call of the program on the folders of a test."""
    words = [verb, where, str(folder / "backup"), "--data", str(folder / "data"), "--archive", str(folder / "archive")]
    return [sys.executable, str(PROGRAM), *words]


def copied(folder: Path, verb: str, where: str, *more: str, **options) -> subprocess.CompletedProcess[str]:
    """Call the program on the folders of a test."""
    words = [*words_of(folder, verb, where), *more]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def no_room() -> None:
    """Let a process write files of so many bytes only, as on a disk that is nearly full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def moved(saved: Path) -> tuple[Path, Path]:
    """Return another machine with nothing but the backups, and the one that there is."""
    other = saved / "other"
    other.mkdir()
    os.rename(saved / "backup", other / "backup")
    (backup,) = (other / "backup").iterdir()
    return other, backup


def test_what_is_not_needed_is_not_in_it(saved: Path):
    """Neither what the server is about to remove, nor what is being built."""
    (backup,) = (saved / "backup").iterdir()
    listed = json.loads((backup / "backup.json").read_text())["files"]
    assert set(listed) == {
        LISTING,  # and nothing of what a restore left that was killed
        "data/appendonlydir/appendonly.aof.2.base.rdb",
        "data/appendonlydir/appendonly.aof.2.incr.aof",
        "archive/shop/sessions/a--000000/manifest.json",
    }
    manifest = (backup / LISTING).read_text()
    assert "type h" not in manifest
    assert manifest.count("file ") == 2


def test_a_damaged_backup_is_not_restored(saved: Path):
    """It is named, and nothing is written; the control is the same backup undamaged."""
    other, backup = moved(saved)
    file = backup / "data/appendonlydir/appendonly.aof.2.incr.aof"
    file.write_bytes(b"m0re")
    done = copied(other, "restore", "--from")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not what was written" in done.stderr
    assert not (other / "data").exists()
    file.write_bytes(b"more")
    assert copied(other, "restore", "--from").returncode == 0
    assert (other / "data/appendonlydir/appendonly.aof.2.incr.aof").read_bytes() == b"more"


def without(name: str):
    """Return what takes a file out of a backup's list."""
    return lambda document: document | {"files": {key: row for key, row in document["files"].items() if key != name}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: [], "cannot be read"),
        (lambda document: document | {"files": []}, "cannot be read"),
        (lambda document: document | {"files": {LISTING: "no digest"}}, "cannot be read"),
        (lambda document: document | {"files": {}}, "does not name the server's append-only file"),
        (without(LISTING), "does not name the server's append-only file"),
        (lambda document: document | {"version": 2}, "was written by another version"),
        (lambda document: document | {"files": document["files"] | {"archive/../../x": document["files"][LISTING]}},
         "lacks archive/../../x"),
    ],
)  # fmt: skip
def test_a_backup_whose_list_is_not_one_is_not_restored(saved: Path, change, said: str):
    """One line, and nothing is written: half of a team's work must not pass for all of it."""
    other, backup = moved(saved)
    listing = backup / "backup.json"
    text = listing.read_text()
    listing.write_text(json.dumps(change(json.loads(text))))
    done = copied(other, "restore", "--from")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr
    assert {path.name for path in other.iterdir()} == {"backup"}
    listing.write_text(text)
    assert copied(other, "restore", "--from").returncode == 0, "the control: the same one, whole"


def test_what_cannot_be_restored_whole_is_not_there_at_all(saved: Path):
    """A server that is started on a full disk must not find half of a log; with room it is restored."""
    log = saved / "data/appendonlydir/appendonly.aof.2.incr.aof"
    log.write_bytes(b"more" * 1000)
    assert copied(saved, "save", "--to", "--keep", "1").returncode == 0
    other, _ = moved(saved)
    done = copied(other, "restore", "--from", preexec_fn=no_room)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "nothing was kept of it" in done.stderr
    assert [*(other / "data").iterdir(), *(other / "archive").iterdir()] == []
    # One that is killed cannot clear away what it put together; the next one does.
    (other / "archive/lost+found").mkdir()  # as on a new disk
    (other / "data/.restoring/appendonlydir").mkdir(parents=True)
    (other / "archive/.restoring/shop").mkdir(parents=True)
    assert copied(other, "restore", "--from").returncode == 0, "what is left of it is not what was there"
    assert {path.name for folder in ("data", "archive") for path in (other / folder).iterdir()} == {
        "appendonlydir",
        "lost+found",
        "shop",
    }
    assert (other / "data/appendonlydir/appendonly.aof.2.incr.aof").read_bytes() == log.read_bytes()
    again = copied(other, "restore", "--from")
    assert (again.returncode, "is not empty" in again.stderr) == (1, True)


def test_a_full_disk_keeps_the_backups_that_there_are(saved: Path):
    """And says in one line what to do."""
    (whole,) = (saved / "backup").iterdir()
    (saved / "data/appendonlydir/appendonly.aof.2.incr.aof").write_bytes(b"more" * 1000)
    done = copied(saved, "save", "--to", "--keep", "1", preexec_fn=no_room)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "nothing was kept of it" in done.stderr
    assert list((saved / "backup").iterdir()) == [whole]


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (
            lambda folder: (folder / "data/appendonlydir/appendonly.aof.manifest").write_text("what?\n"),
            "not understood",
        ),
        (lambda folder: (folder / "archive").rename(folder / "elsewhere"), "is not a folder"),
        (lambda folder: (folder / "backup").rename(folder / "elsewhere"), "is not a folder"),
    ],
)
def test_what_cannot_be_saved_is_said_and_leaves_nothing(saved: Path, break_it, said: str):
    """One line, exit 1, and no half of a backup."""
    break_it(saved)
    done = copied(saved, "save", "--to")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr
    if (saved / "backup").is_dir():
        assert len(list((saved / "backup").iterdir())) == 1


def test_a_session_that_is_deleted_meanwhile_stops_no_backup(saved: Path, monkeypatch, capsys):
    """Seen in its folder and gone when it is its turn; the control: the other one is in the backup."""
    spec = importlib.util.spec_from_file_location("maestro_backup", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    backup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backup)
    gone = saved / "archive/shop/sessions/b--000000"
    gone.mkdir()
    copy = backup._Saving._save_whole

    def and_delete(self, source, target):
        copy(self, source, target)
        if gone.exists():
            gone.rmdir()

    monkeypatch.setattr(backup._Saving, "_save_whole", and_delete)
    assert backup.main(words_of(saved, "save", "--to")[2:]) == 0
    said = capsys.readouterr().out.removeprefix("saved ").strip()
    assert [path.name for path in Path(said, "archive/shop/sessions").iterdir()] == ["a--000000"]


def test_only_so_many_are_kept(saved: Path):
    """The oldest go."""
    (first,) = (saved / "backup").iterdir()
    for _ in range(2):
        assert copied(saved, "save", "--to", "--keep", "2").returncode == 0
    left = [path.name for path in (saved / "backup").iterdir()]
    assert len(left) == 2
    assert first.name not in left


def test_a_clock_that_was_set_back_does_not_cost_the_backup_just_made(saved: Path):
    """Names tell the time: one that is older by its name, and was made now, stays."""
    (first,) = (saved / "backup").iterdir()
    first.rename(first.with_name("29990101T000000Z"))
    done = copied(saved, "save", "--to", "--keep", "1")
    assert [path.name for path in (saved / "backup").iterdir()] == [Path(done.stdout.split()[1]).name]


def test_half_of_a_backup_goes_with_the_next_one(saved: Path):
    """One that is killed leaves half of it, which counts for nothing; two at once are refused."""
    backups = saved / "backup"
    (whole,) = backups.iterdir()
    log = saved / "data/appendonlydir/appendonly.aof.2.incr.aof"
    log.unlink()
    os.mkfifo(log)  # which nobody writes: it waits there
    killed = subprocess.Popen(words_of(saved, "save", "--to"))
    try:
        wait_until(lambda: len(list(backups.iterdir())) == 2, "it has begun")
        second = copied(saved, "save", "--to")
        assert (second.returncode, second.stderr.count("\n")) == (1, 1)
        assert "another backup is being written" in second.stderr
    finally:
        killed.kill()
        killed.wait()
    log.unlink()
    log.write_bytes(b"more")
    (half,) = (path for path in backups.iterdir() if path != whole)
    assert not (half / "backup.json").exists(), "the control: it is half of one"
    assert copied(saved, "save", "--to").returncode == 0
    assert not half.exists()
    assert len([path for path in backups.iterdir() if (path / "backup.json").exists()]) == 2
