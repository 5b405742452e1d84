"""A server without memory left: it refuses, it never forgets, and Maestro says so before and after."""

from __future__ import annotations

import json

import pytest
import redis

from maestro_state import Maestro
from maestro_state.errors import ServerStorageError, SessionNotFound
from tests.support.backends import Clock
from tests.support.cli_runs import maestro_command
from tests.support.key_leaks import check_keys
from tests.support.servers import valkey

SESSIONS = 200
MEMORY = ["--maxmemory", "8mb"]


def add_for_ever(maestro, session_id, added, size):
    """Add messages as long as the server takes them."""
    while True:
        added.append(maestro.messages.add("user", f"{len(added):08}" + "x" * size, session_id))


def fill(maestro, session_id, size=4000):
    """Add messages until the server refuses; return those it took."""
    added: list = []
    with pytest.raises(ServerStorageError) as refused:
        add_for_ever(maestro, session_id, added, size)
    assert refused.value.exit_code == 5
    assert "OOM" in str(refused.value)
    return added


def keep_full(raw):
    """Leave the server far above its limit: what it gives back in the course of time, such as buffers for a disk that
    was busy, makes no room.
    """
    raw.config_set("maxmemory", "4mb")


def test_no_session_is_lost_and_nothing_is_half_done(project, tmp_path):
    """With 8 MB and noeviction all 200 sessions live, the writer gets an error, what failed left no trace."""
    with (
        valkey(tmp_path, args=[*MEMORY, "--maxmemory-policy", "noeviction"]) as server,
        redis.Redis(unix_socket_path=server.socket) as raw,
        Maestro(project, redis_url=server.url) as maestro,
    ):
        ids = [maestro.sessions.start(f"session {number}").id for number in range(SESSIONS)]
        keys, target = maestro.server.terms.keys, ids[0]
        added = fill(maestro, target)
        assert len(added) > 100

        assert {row.id for row in maestro.sessions.list()} == set(ids)
        assert sum(bool(maestro.sessions.read(session_id)) for session_id in ids) == SESSIONS
        assert maestro.messages.since(None, target) == added
        assert raw.hget(keys.of_session(target, "session"), "last_id").decode() == added[-1].id
        keep_full(raw)

        before = {key: raw.dump(key) for key in raw.scan_iter()}
        for attempt in (
            lambda: maestro.messages.add("user", "y" * 4000, ids[1]),
            lambda: maestro.sessions.set("context_summary", "y" * 4000, ids[2]),
            lambda: maestro.sessions.end(ids[3]),
            lambda: maestro.sessions.abort(ids[4], reason="y"),
            lambda: maestro.sessions.start("one more"),
        ):
            with pytest.raises(ServerStorageError):
                attempt()
        assert {key: raw.dump(key) for key in raw.scan_iter()} == before
        assert maestro.project.active() == ids[-1]

        # What frees memory still works, and then everything does.
        for session_id in ids[100:150]:
            maestro.sessions.delete(session_id)
        raw.config_set("maxmemory", "16mb")
        assert maestro.messages.add("user", "again", target).content == "again"
        check_keys(raw)


def test_what_was_stored_is_never_reported_as_refused(project, tmp_path):
    """When the memory ends between a message and its line in the index, the message counts."""
    ticking = Clock()

    def now_ms():
        ticking.advance(seconds=2)  # so that every message is also indexed
        return ticking()

    with (
        valkey(tmp_path, args=[*MEMORY, "--maxmemory-policy", "noeviction"]) as server,
        Maestro(project, redis_url=server.url, now_ms=now_ms) as maestro,
    ):
        session = maestro.sessions.start("brim")
        added = fill(maestro, session.id) + fill(maestro, session.id, size=1)
        assert maestro.messages.since(None, session.id) == added


def test_a_server_that_evicts_loses_sessions(project, tmp_path):
    """Control: the same writes under allkeys-lru cost sessions."""
    with (
        valkey(tmp_path, args=[*MEMORY, "--maxmemory-policy", "allkeys-lru"]) as server,
        Maestro(project, redis_url=server.url) as maestro,
    ):
        ids = [maestro.sessions.start(f"session {number}").id for number in range(SESSIONS)]
        alive = SESSIONS
        for number in range(4000):
            try:
                maestro.messages.add("user", f"{number:08}" + "x" * 4000, ids[number % 10])
            except SessionNotFound:
                alive -= 1
                break
        assert alive < SESSIONS


@pytest.mark.parametrize(
    ("policy", "limit", "judged", "exits_with"),
    [
        ("noeviction", "8mb", "ok", 0),
        ("allkeys-lru", "8mb", "fail", 1),
        ("volatile-lru", "8mb", "fail", 1),
        ("volatile-ttl", "8mb", "fail", 1),
        ("allkeys-lru", "0", "warn", 0),
    ],
)
def test_doctor_says_so_beforehand(project, tmp_path, policy, limit, judged, exits_with):
    """doctor fails on a server that would evict sessions, warns of one that might, and names the way out."""
    with valkey(tmp_path, args=["--maxmemory", limit, "--maxmemory-policy", policy]) as server:
        done = maestro_command(project, "doctor", "--json", env={"MAESTRO_REDIS_URL": server.url})
        assert done.returncode == exits_with
        found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
        assert found["eviction"]["status"] == judged
        assert ("noeviction" in found["eviction"].get("fix", "")) is (judged != "ok")


def test_doctor_warns_of_a_server_without_persistence(project, tmp_path):
    """A server that keeps nothing on disk is a warning with what to do; one that does is not."""
    for append_only, judged in (("no", "warn"), ("yes", "ok")):
        with valkey(tmp_path, args=["--appendonly", append_only, "--appendfsync", "always"]) as server:
            done = maestro_command(project, "doctor", "--json", env={"MAESTRO_REDIS_URL": server.url})
            found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
            assert found["persistence"]["status"] == judged


def test_the_command_line_says_it_in_one_line(project, tmp_path):
    """A command refused for want of memory exits with 5 and one line."""
    args = [*MEMORY, "--maxmemory-policy", "noeviction"]
    with (
        valkey(tmp_path, args=args) as server,
        redis.Redis(unix_socket_path=server.socket) as raw,
        Maestro(project, redis_url=server.url) as maestro,
    ):
        session = maestro.sessions.start("full")
        fill(maestro, session.id)
        keep_full(raw)
        done = maestro_command(
            project, "message", "add", "--role", "user", "x" * 5000, env={"MAESTRO_REDIS_URL": server.url}
        )
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.count("\n") == 1
    assert "maestro doctor" in done.stderr
