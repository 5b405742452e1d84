"""`maestro doctor` on real servers: open, evicting, not persisting, silent about itself, without its replicas."""

from __future__ import annotations

import json

import pytest

from maestro_state.state.calls.health import parse_info
from tests.support.accounts import guarded
from tests.support.cli_runs import maestro_command, printed
from tests.support.servers import free_port, raw_call, valkey


def doctor(project, url, **settings):
    """Return the exit code, and each check's status and fix by name."""
    env = {"MAESTRO_REDIS_URL": url} | {f"MAESTRO_{name.upper()}": value for name, value in settings.items()}
    done = maestro_command(project, "doctor", "--json", env=env)
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, {check["name"]: (check["status"], check.get("fix")) for check in checks}


def test_a_server_without_password_is_called_open(project, tmp_path):
    """A server on a port that lets a stranger in is said to, even if the address brings a password."""
    with valkey(tmp_path, port=free_port()) as server:
        code, found = doctor(project, server.url)
        assert (code, found["access"][0]) == (0, "warn")
        assert "acl" in found["access"][1]


def test_weak_servers_are_told(project, tmp_path):
    """Eviction and missing persistence are found on the server itself, with what to do; failures leave with 1."""
    with valkey(tmp_path, args=["--appendfsync", "always"]) as server:
        code, found = doctor(project, server.url)
        assert code == 0
        assert {name for name, (status, _) in found.items() if status != "ok"} <= {"workers", "sweeper", "tools"}
        raw_call(server, "CONFIG", "SET", "appendfsync", "everysec")
        code, found = doctor(project, server.url)
        assert (code, found["persistence"][0]) == (0, "warn")
        assert "appendfsync always" in found["persistence"][1]
        used = int(parse_info(raw_call(server, "INFO", "memory").decode())["used_memory"])
        raw_call(server, "CONFIG", "SET", "maxmemory", used)
        assert doctor(project, server.url)[1]["memory"][0] == "warn"
        raw_call(server, "CONFIG", "SET", "appendonly", "no")
        raw_call(server, "CONFIG", "SET", "maxmemory", "100mb")
        raw_call(server, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        code, found = doctor(project, server.url, wait_replicas="1")
    assert code == 1
    assert [found[name][0] for name in ("persistence", "eviction", "replicas")] == ["warn", "fail", "fail"]


def test_a_clock_that_is_not_the_servers_is_told(project, tmp_path):
    """A laptop that woke up in another day says so itself; a project's own server has the same clock anyway."""
    from maestro_state import Maestro
    from maestro_state.clock import now_ms

    def told(clock):
        with Maestro(project, redis_url=server.url, now_ms=clock) as maestro:
            return {check.name: check for check in maestro.health.checks()}["clock"]

    with valkey(tmp_path) as server:
        assert told(now_ms).status == "ok"
        late = told(lambda: now_ms() - 90_000_000)
    assert (late.status, "1 d behind the server" in late.detail) == ("warn", True)


def test_a_server_that_may_not_be_asked_is_still_reached(project, tmp_path):
    """A user without INFO gets a warning that the rest is not known, not the message that the server is down."""
    with guarded(tmp_path, ("ana", "terminal", "maestro"), ("boss", "admin", "maestro")) as team:
        assert doctor(project, team.url("ana"))[1]["version"][0] == "ok"
        from contextlib import closing

        from maestro_state.net import connect

        with closing(connect(team.url("boss"))) as wire:
            wire.call("ACL", "SETUSER", "ana", "-info")
        code, found = doctor(project, team.url("ana"))
        assert code == 0
        assert (found["server"][0], found["server info"][0]) == ("ok", "warn")
        assert "version" not in found


@pytest.mark.parametrize("begun", [False, True])
def test_a_teams_archive_that_cannot_be_written_is_told(project, tmp_path, begun):
    """Also where there is no project, as in the containers, whose health this is; the control is one that can be."""
    with valkey(tmp_path, args=["--appendfsync", "always"]) as server:
        if begun:
            printed(project, "session", "start", "begun", env={"MAESTRO_REDIS_URL": server.url})
        root = tmp_path / "archive"
        for make in (lambda: None, root.touch):
            make()
            code, found = doctor(project, server.url, archive_root=str(root))
            assert (code, found["disk"][0]) == (1, "fail")
            assert "MAESTRO_ARCHIVE_ROOT" in found["disk"][1]
        root.unlink()
        root.mkdir()
        code, found = doctor(project, server.url, archive_root=str(root))
        assert (code, found["disk"][0], list(root.iterdir())) == (0, "ok", [])


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1"])
def test_a_server_that_is_down_is_said_to_be(project, url):
    """The one check that failed is the server's; the disk is looked at all the same."""
    code, found = doctor(project, url)
    assert (code, found["server"][0], found["disk"][0]) == (1, "fail", "ok")
