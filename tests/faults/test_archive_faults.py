"""Nothing the server forgets is lost: time that passes while all is off, appends against a freeze, flushes at once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import redis

from maestro_state import Maestro
from maestro_state.errors import Refused
from maestro_state.local.project import Project
from maestro_state.mirror.home import STAGING, Home
from maestro_state.mirror.verify import verify
from tests.support.generations import SESSION_ID, generation_of, write_generation
from tests.support.servers import valkey
from tests.support.stored import Filler
from tests.support.waiting import wait_until


def opened(project: Path, url: str, **settings) -> Maestro:
    return Maestro(project, redis_url=url, **settings)


def test_time_that_passes_while_the_server_is_off_loses_nothing(project: Path, tmp_path: Path):
    """Sessions whose time ran out while all was off are on the server or on disk: the written ones and the others."""
    with valkey(tmp_path) as server:
        raw = redis.Redis(unix_socket_path=server.socket)
        with opened(project, server.url, ttl_seconds=600, dirty_grace_seconds=3600) as maestro:
            checkpointed = maestro.sessions.start("checkpointed")
            maestro.messages.add("user", "written", checkpointed.id)
            maestro.archive.checkpoint(checkpointed.id)
            frozen = maestro.sessions.start("frozen")
            maestro.sessions.end(frozen.id)
            dirty = maestro.sessions.start("dirty")
            maestro.messages.add("user", "acknowledged", dirty.id)
            naive = "naive-without-grace"
            raw.set(naive, "the only copy", px=1)  # control: what a bare TTL does
            for session in (checkpointed, frozen):
                for key in maestro.server.terms.keys.session(session.id):
                    raw.pexpireat(key, 1)  # as if the machine had slept
            server.restart()
            assert raw.get(naive) is None, "the control must lose its only copy"
            rows = {row.slug for row in maestro.sessions.list()}
            assert rows == {"checkpointed", "frozen", "dirty"}
            for session in (checkpointed, frozen, dirty):
                assert maestro.sessions.status(session.id).session.id == session.id
            assert [one.content for one in maestro.messages.since(None, checkpointed.id)] == ["written"]
            assert [one.content for one in maestro.messages.since(None, dirty.id)] == ["acknowledged"]
            raw.hset(maestro.server.terms.keys.of_session(dirty.id, "session"), "last_activity", 1)
            raw.zadd(maestro.server.terms.keys.of_index("deadlines", dirty.id), {dirty.id: 1})
            for key in maestro.server.terms.keys.session(dirty.id):
                raw.pexpire(key, 3_599_000)
            assert maestro.archive.sweep().finalized == [dirty.id]
            assert [one.content for one in maestro.messages.since(None, dirty.id)] == ["acknowledged"]
            assert maestro.archive.verify(dirty.id).ok
        raw.close()


def test_an_append_against_a_freeze_is_archived_or_refused(real, project: Path):
    """Of all messages that race with end and flush, each acknowledged one is in the archive."""
    rounds, chooser = 200, random.Random(7)
    lost, refused = [], 0
    for number in range(rounds):
        with real.open() as maestro, real.open() as other:
            session = maestro.sessions.start(f"race{number}")
            acknowledged: list[str] = []
            stop = threading.Event()

            def append(other=other, session=session, acknowledged=acknowledged, stop=stop):
                while not stop.is_set():
                    try:
                        acknowledged.append(other.messages.add("user", "x", session.id).id)
                    except Refused:
                        stop.set()
                        return

            thread = threading.Thread(target=append)
            thread.start()
            for _ in range(chooser.randrange(3)):
                maestro.archive.checkpoint(session.id)
            maestro.sessions.end(session.id)
            thread.join()
            refused += stop.is_set()
            real.raw.delete(*maestro.server.terms.keys.session(session.id))
            kept = {message.id for message in maestro.messages.since(None, session.id)}
            lost += [one for one in acknowledged if one not in kept]
    assert lost == []
    assert refused == rounds


def test_reading_then_deleting_loses_what_comes_between(real, tmp_path: Path):
    """Control: written to a file and then deleted, a stream loses acknowledged entries under the same appends."""
    lost, rounds = 0, 0
    while not lost and rounds < 200:
        rounds += 1
        acknowledged: list[bytes] = []
        stop = threading.Event()

        def append(acknowledged=acknowledged, stop=stop):
            with redis.Redis(connection_pool=real.raw.connection_pool) as own:
                while not stop.is_set():
                    acknowledged.append(own.xadd("naive", {"content": "x"}))

        thread = threading.Thread(target=append)
        thread.start()
        wait_until(lambda acknowledged=acknowledged: len(acknowledged) > 5, "appends are under way")
        archived = {entry_id for entry_id, _ in real.raw.xrange("naive")}
        with (tmp_path / "naive").open("wb") as file:
            file.write(b"\n".join(sorted(archived)))
            file.flush()
            os.fsync(file.fileno())
        real.raw.delete("naive")
        stop.set()
        thread.join()
        archived |= {entry_id for entry_id, _ in real.raw.xrange("naive")}
        real.raw.delete("naive")
        lost += len(set(acknowledged) - archived)
    assert lost > 0


FLUSHER = """
import sys
from pathlib import Path
from tests.support.generations import write_generation
from maestro_state.errors import ArchiveBusy
done = 0
while done < 15:
    try:
        write_generation(Path(sys.argv[1]), 1 + done % 2)
        done += 1
    except ArchiveBusy:
        pass
"""


def test_flushes_of_one_session_at_once_do_not_collide(project: Path):
    """Three processes that write generations of one archive leave it whole, with nothing beside it."""
    write_generation(project, 1)
    children = [
        subprocess.Popen([sys.executable, "-c", FLUSHER, str(project)], cwd=Path(__file__).parents[2]) for _ in range(3)
    ]
    while any(child.poll() is None for child in children):
        assert generation_of(project) in (1, 2, None)  # None: it was swapped while we compared
    assert [child.returncode for child in children] == [0, 0, 0]
    assert generation_of(project) in (1, 2)
    assert verify(Home.of_project(Project(project)), SESSION_ID).ok
    assert os.listdir(project / ".maestro/sessions" / STAGING) == []


def test_two_flushes_in_one_process_wait_for_each_other(real, project: Path):
    """Threads that flush the same session all succeed, and the archive has everything."""
    with real.open() as maestro:
        session = maestro.sessions.start("busy")
        fill = Filler(real.raw, maestro.server.terms.keys, session.id)
        for _ in range(20):
            fill.run(b"x" * 1000)
        results = []

        def flush():
            with real.open() as own:
                results.append(own.archive.checkpoint(session.id).current)

        threads = [threading.Thread(target=flush) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 5
        assert maestro.archive.verify(session.id).ok


def test_a_short_write_and_a_quota_leave_the_session_on_the_server(real, project: Path):
    """With files limited to four kilobytes the flush fails in words; without the limit it works."""
    with real.open() as maestro:
        session = maestro.sessions.start("quota")
        fill = Filler(real.raw, maestro.server.terms.keys, session.id)
        fill.item(os.urandom(100_000))
        maestro.archive.checkpoint()
        fill.item(os.urandom(200_000))
        code = (
            "import resource, signal, sys\n"
            "from maestro_state import Maestro\n"
            "from maestro_state.errors import ArchiveFailed\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "with Maestro(sys.argv[1]) as maestro:\n"
            "    maestro.sessions.read()\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
            "    try:\n"
            "        maestro.archive.checkpoint()\n"
            "    except ArchiveFailed as error:\n"
            "        print(error)\n"
        )
        told = subprocess.run([sys.executable, "-c", code, str(project)], capture_output=True, text=True, check=True,
                              cwd=Path(__file__).parents[2])  # fmt: skip
        assert "could not be written" in told.stdout
        assert maestro.archive.verify().ok
        assert len(maestro.sessions.status().context) == 2
        assert os.listdir(project / ".maestro/sessions" / STAGING) == []
        assert maestro.archive.checkpoint().current
        assert maestro.archive.verify().ok


def test_nothing_is_trimmed_by_a_flush(real, project: Path):
    """After checkpoints and while somebody reads slowly, every entry is still in the streams."""
    with real.open() as maestro:
        session = maestro.sessions.start("slow")
        for number in range(50):
            maestro.messages.add("user", str(number))
            if number % 10 == 0:
                maestro.archive.checkpoint()
        assert real.raw.xlen(maestro.server.terms.keys.of_session(session.id, "messages")) == 50
        maestro.sessions.end()
        seen = [event.data["content"] for event in maestro.follow.events(session.id, cursor="start")
                if event.type == "message.added"]  # fmt: skip
        assert seen == [str(number) for number in range(50)]
