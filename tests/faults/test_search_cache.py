"""The index of search is a cache: planted, damaged, of another form, killed in the middle, shared: never in the way."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.search import opening as caches
from maestro_state.search import store
from tests.support.backends import Backend
from tests.support.foreign_archives import write_foreign
from tests.support.waiting import wait_until

SEARCH = """
import sys
from maestro_state import Maestro
with Maestro(sys.argv[1]) as maestro:
    print(maestro.search.find(sys.argv[2]).total)
"""


@pytest.fixture
def maestro(real: Backend) -> Iterator[Maestro]:
    """Return Maestro in a project with one message."""
    with real.open() as opened:
        opened.sessions.start("talk")
        opened.messages.add("user", "an aardvark")
        yield opened


def database(maestro: Maestro) -> Path:
    """Return where the cache is."""
    return maestro.project.root / ".maestro" / "cache" / "search.db"


def total(maestro: Maestro, query: str = "aardvark") -> int:
    """Search anew, as another process does."""
    maestro.search.close()
    caches._looked_into.clear()
    return maestro.search.find(query).total


def plant(path: Path, *, mode: int = 0o600) -> None:
    """Put a cache of the right form with other words in the place of ours."""
    made = path.with_name("planted.db")
    shutil.copy(path, made)
    with sqlite3.connect(made) as planted:
        planted.execute("UPDATE entry SET content = 'planted words'")
        planted.execute("INSERT INTO words (words) VALUES ('rebuild')")
    planted.close()
    os.chmod(made, mode)
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    os.replace(made, path)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_planted_cache_is_not_believed(maestro: Maestro, mode: int):
    """Neither by its form nor by its mode: which one was made here is noted in the user's own folder."""
    assert total(maestro) == 1
    maestro.search.close()
    plant(database(maestro), mode=mode)
    assert (total(maestro), total(maestro, "planted")) == (1, 0)


def test_a_planted_cache_would_be_believed_if_it_was_ours(maestro: Maestro):
    """The control: the same change in the file that was made here is what a search answers from."""
    assert total(maestro) == 1
    maestro.search.close()
    with sqlite3.connect(database(maestro)) as own:
        own.execute("UPDATE entry SET content = 'planted words'")
        own.execute("INSERT INTO words (words) VALUES ('rebuild')")
    own.close()
    assert (total(maestro), total(maestro, "planted")) == (0, 1)


@pytest.mark.parametrize("at", [0, 100, 4096, 20_000])
def test_a_damaged_cache_is_made_anew(maestro: Maestro, at: int):
    """Wherever it is damaged."""
    assert total(maestro) == 1
    maestro.search.close()
    path = database(maestro)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 4096)
    assert total(maestro) == 1


def test_a_trigger_in_it_is_not_obeyed(maestro: Maestro):
    """What has more in it than ours is none of ours."""
    assert total(maestro) == 1
    maestro.search.close()
    with sqlite3.connect(database(maestro)) as own:
        own.execute("CREATE TRIGGER bad AFTER INSERT ON entry BEGIN DELETE FROM entry; END")
    own.close()
    maestro.messages.add("user", "another aardvark")
    assert total(maestro) == 2


def test_another_form_is_made_anew(maestro: Maestro, monkeypatch: pytest.MonkeyPatch):
    """One of a newer or an older Maestro."""
    assert total(maestro) == 1
    before = database(maestro).stat().st_ino
    monkeypatch.setattr(caches, "SCHEMA", caches.SCHEMA + 1)
    assert total(maestro) == 1
    assert database(maestro).stat().st_ino != before or database(maestro).exists()
    with sqlite3.connect(database(maestro)) as own:
        assert own.execute("SELECT count(*) FROM entry").fetchone() == (1,)
    own.close()


def test_links_and_folders_in_its_place_are_not_followed(maestro: Maestro, tmp_path: Path):
    """Nothing outside is written to."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    path = database(maestro)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(victim)
    assert total(maestro) == 1
    assert victim.read_bytes() == b"precious"
    maestro.search.close()
    shutil.rmtree(path.parent)
    (tmp_path / "elsewhere").mkdir()
    path.parent.symlink_to(tmp_path / "elsewhere")
    assert total(maestro) == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_file_that_is_removed_while_it_is_open_is_made_anew(maestro: Maestro):
    """By somebody who tidies up."""
    assert maestro.search.find("aardvark").total == 1
    shutil.rmtree(database(maestro).parent)
    assert maestro.search.find("aardvark").total == 1
    assert database(maestro).exists()


def test_archives_of_other_programs_are_found_and_not_changed(maestro: Maestro):
    """By what they hold; one that comes, changes or goes is noticed."""
    sessions = maestro.project.root / ".maestro" / "sessions"
    write_foreign(sessions)

    def seen() -> dict[str, tuple[int, bytes]]:
        files = [path for path in sessions.rglob("*--*/**/*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = seen()
    assert total(maestro, "resposta") == 9
    assert total(maestro, "conteudo") == 10
    assert seen() == before
    (sessions / "desistencia--z9y8x7" / "runs" / "0001" / "output.txt").unlink()
    shutil.rmtree(sessions / "limpeza-antiga--p0q1r2")
    found = maestro.search.find("resposta")
    assert found.total < 9
    assert "limpeza-antiga--p0q1r2" not in {hit.session_id for hit in found.results}


def test_a_damaged_archive_hides_no_other_and_is_named(maestro: Maestro):
    """By every search until it is mended."""
    session = maestro.sessions.read().id
    maestro.sessions.end()
    record = maestro.project.root / ".maestro" / "sessions" / session / "messages.jsonl"
    maestro.sessions.start("other")
    maestro.messages.add("user", "a second aardvark")
    record.write_text("{torn")
    os.utime(record.with_name("manifest.json"))
    for _ in range(2):
        found = maestro.search.find("aardvark")
        assert (found.total, found.skipped) == (1, [session])


def test_many_processes_at_once_find_the_same(maestro: Maestro):
    """The first ones make the index together: no error of a lock, no hit twice."""
    for number in range(30):
        maestro.sessions.start(f"s{number}")
        maestro.messages.add("user", "one more aardvark")
        maestro.sessions.end()
    words = [sys.executable, "-c", SEARCH, str(maestro.project.root), "aardvark"]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
    answers = [process.communicate() for process in started]
    assert answers == [(b"31\n", b"")] * 6


def test_a_killed_indexer_leaves_a_cache_that_goes_on(maestro: Maestro):
    """Killed after its first batch: what it wrote is used, and the rest is read."""
    for number in range(20):
        maestro.sessions.start(f"s{number}")
        maestro.messages.add("user", "one more aardvark")
        maestro.sessions.end()
    program = (
        "import sys, os, signal\nfrom maestro_state import Maestro\nimport maestro_state.search.refresh as c\n"
        "c._BATCH = 5\n"
        "Maestro(sys.argv[1]).search.find('x', progress=lambda done, of: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(maestro.project.root)], check=False)
    assert done.returncode == -signal.SIGKILL
    with sqlite3.connect(database(maestro)) as half:
        written = half.execute("SELECT count(*) FROM session").fetchone()[0]
    half.close()
    assert 0 < written < 20
    inode = database(maestro).stat().st_ino
    assert total(maestro) == 21
    assert database(maestro).stat().st_ino == inode


@pytest.fixture
def stopped(maestro: Maestro, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have somebody hold the index who was stopped in the middle, and nobody wait long for that."""
    for module in (store, caches):
        monkeypatch.setattr(module, "WAIT_S", 0.05)
    total(maestro)
    program = (
        "import fcntl, os, signal, sys\nfile = open(sys.argv[1])\nfcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    lock = database(maestro).with_name("search.lock")
    with subprocess.Popen([sys.executable, "-c", program, str(lock)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        yield
        holder.kill()


def test_an_indexer_that_was_stopped_keeps_nobody_waiting(maestro: Maestro, stopped: None):
    """What is new is found all the same, again and again, and the index is left to its holder."""
    inode = database(maestro).stat().st_ino
    maestro.messages.add("user", "another aardvark")
    assert total(maestro) == 2
    maestro.messages.add("user", "a third aardvark")
    assert maestro.search.find("aardvark").total == 3
    assert database(maestro).stat().st_ino == inode


def test_what_is_deleted_leaves_an_index_that_nobody_lets_go_of(maestro: Maestro, stopped: None):
    """The whole index goes: it is only a cache, and words of what was deleted must not lie on in it."""

    def has_words() -> bool:
        return any(b"aardvark" in path.read_bytes() for path in database(maestro).parent.glob("search.db*"))

    assert has_words()
    session = maestro.sessions.resolve(None)
    maestro.search.close()
    maestro.sessions.delete(session)
    assert not has_words()
    assert total(maestro) == 0


def test_a_project_that_cannot_be_written_is_searched_all_the_same(maestro: Maestro, monkeypatch: pytest.MonkeyPatch):
    """In memory."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "read-only")

    monkeypatch.setattr(type(maestro.project), "folder", refuse)
    assert total(maestro) == 1
    wait_until(lambda: not database(maestro).exists(), "nothing was written")
