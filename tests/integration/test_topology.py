"""The compose file's set-up as processes: access list, server over TCP and TLS, workers, clients of different users."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import redis

from maestro_state import Maestro
from maestro_state.ops.scheduling import read_schedule
from tests.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.programs import running
from tests.topology import PASSWORDS, topology
from tests.waiting import wait_until

#: What must be well for a team's server to be relied on.
GOOD = ("server", "version", "persistence", "eviction", "access", "workers", "sweeper", "disk")

pytestmark = pytest.mark.xdist_group("busy")


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """Run the access job, the server, two worker containers and two schedulers, of which one is active."""
    with topology(tmp_path_factory.mktemp("team"), MAESTRO_WORKERS="1", MAESTRO_CHECKPOINT_SECONDS="2") as found:
        for _ in range(2):
            found.start("worker")
            found.start("scheduler")
        with Maestro(found.folder, environment=found.environment("worker")) as maestro:
            server = maestro.server
            wait_until(lambda: maestro.runs.workers() == 2, "the workers do not listen", 30.0)
            wait_until(lambda: server.fetch(read_schedule(server.terms)).swept_at, "nobody sweeps", 30.0)
        yield found


def arguments_of(pid):
    """Return the arguments of a process and of everything it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    return own + b"".join(arguments_of(int(child)) for child in children)


def test_two_laptops_share_a_session(team, project):
    """One over TCP, one over TLS with a private authority: each sees what the other does, and who did it."""
    ana, bo = team.client("ana"), team.client("bo", tls=True)
    session = printed(project, "session", "start", "shared", env=ana)["id"]
    watching = [MAESTRO, "--project", str(project), "watch", session, "--json", "--from", "start"]
    with running(team.folder, watching, env=ana) as watcher:
        for number in range(5):
            printed(project, "--session", session, "message", "add", "--role", "user", str(number), env=bo)
        wait_until(lambda: len(watcher.lines()) >= 6, "the other one sees nothing", 20.0)
        events = [json.loads(line) for line in watcher.lines()]
    assert [event["data"].get("content") for event in events[1:6]] == ["0", "1", "2", "3", "4"]
    assert {event["data"]["user"] for event in events[1:6]} == {"bo"}
    rows = {row["id"]: row for row in printed(project, "session", "list", "--user", "ana", env=bo)["sessions"]}
    assert rows[session]["user_id"] == "ana"


def test_workers_of_the_team_carry_out_a_run(team, project):
    """A run that one laptop starts is carried out by a worker container, and the other laptop reads its output."""
    ana, bo = team.client("ana"), team.client("bo", tls=True)
    session = printed(project, "session", "start", "run", "--tool", "echo", env=ana)["id"]
    ran = printed(project, "--session", session, "run", "hello from a laptop", env=ana)
    assert ran["status"] == "success"
    shown = printed(project, "--session", session, "show", "last", env=bo)
    assert "hello from a laptop" in shown["output"]


def test_the_scheduler_brings_a_session_to_disk(team, project):
    """What a laptop writes is in the archive on the team's volume without anybody asking for it."""
    ana = team.client("ana")
    session = printed(project, "session", "start", "swept", env=ana)["id"]
    printed(project, "--session", session, "message", "add", "--role", "user", "a message to keep", env=ana)

    def archived():
        found = list((team.folder / "archive").rglob("messages.jsonl"))
        return any(session in str(path) and "a message to keep" in path.read_text() for path in found)

    wait_until(archived, "the session did not get to disk", 30.0)
    said = [program.complained.read_text() for program in team.programs["scheduler"]]
    assert sum("scheduler_active" in text for text in said) == 1


def test_a_colleague_pulls_what_the_team_archived(team, project, tmp_path):
    """An ended session that the server has let go of comes from the team's disk into another user's checkout."""
    ana, bo = team.client("ana"), team.client("bo", tls=True)
    session = printed(project, "session", "start", "handed-on", env=ana)["id"]
    printed(project, "--session", session, "message", "add", "--role", "user", "read this, bo", env=ana)
    printed(project, "session", "end", session, env=ana)

    def is_on_the_teams_disk():
        found = [path for path in (team.folder / "archive").rglob("session.json") if path.parent.name == session]
        return [json.loads(path.read_bytes())["state"] for path in found] == ["finalizada"]

    wait_until(is_on_the_teams_disk, "no worker archives it on the team's disk", 20.0)
    admin = redis.Redis(port=team.port, username="admin", password=PASSWORDS["REDIS_ADMIN_PASSWORD"])
    admin.delete(*admin.keys(f"*{{{session}}}*"))
    assert refused(tmp_path, "session", "status", session, env=bo)[0] == 3

    assert printed(tmp_path, "pull", "handed-on", env=bo)["written"] is True
    found = printed(tmp_path, "--session", session, "messages", env=bo)["messages"]
    assert [message["content"] for message in found] == ["read this, bo"]
    assert printed(tmp_path, "verify", session, env=bo)["ok"]


def test_the_health_checks_pass(team, project):
    """Doctor, which is the image's health check, finds nothing that fails, from a laptop and in a container."""
    env = team.environment("worker")
    for folder, used in ((team.folder / "archive", env), (project, team.client("ana", tls=True))):
        done = maestro_command(folder, "doctor", "--json", env=used)
        checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
        assert done.returncode == 0, checks
        assert {checks[name]["status"] for name in GOOD} == {"ok"}


def test_no_password_is_in_an_argument_or_a_log(team, project):
    """What every process was started with, and everything they said, is free of the passwords."""
    secrets = [password.encode() for password in PASSWORDS.values()]
    for programs in team.programs.values():
        for program in programs:
            seen = b"" if program.process.poll() is not None else arguments_of(program.process.pid)
            said = program.said.read_bytes() + program.complained.read_bytes()
            assert not [secret for secret in secrets if secret in seen + said]
    users = (team.folder / "access" / "users.acl").read_bytes()
    assert not [secret for secret in secrets if secret in users]
    # Control: the arguments are really those of the processes.
    assert b"--count" in arguments_of(team.programs["worker"][0].process.pid)


def test_strangers_are_kept_out(team, project):
    """Without the certificate's authority, without a password or with a wrong one nobody gets in."""
    good = team.client("eve", tls=True)["MAESTRO_REDIS_URL"]
    for url in (
        good.partition("?")[0],
        f"redis://127.0.0.1:{team.port}",
        good.replace(PASSWORDS["REDIS_TERMINAL_PASSWORD"], "0" * 48),
    ):
        exit_code, error = refused(project, "session", "list", env={"MAESTRO_REDIS_URL": url})
        assert (exit_code, error["code"]) == (5, "server_unavailable")
        assert PASSWORDS["REDIS_TERMINAL_PASSWORD"] not in json.dumps(error)


def test_killing_the_server_loses_nothing(team, project):
    """kill -9 and a new container on the same volume: what was acknowledged is there."""
    ana = team.client("ana")
    session = printed(project, "session", "start", "kept", env=ana)["id"]
    for number in range(10):
        printed(project, "--session", session, "message", "add", "--role", "user", str(number), env=ana)
    server = team.programs["redis"].pop()
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    again = team.start("redis")
    wait_until(lambda: "Ready to accept connections" in again.said.read_text(), "the server does not come back", 20.0)
    found = printed(project, "--session", session, "messages", env=ana)["messages"]
    assert [message["content"] for message in found] == [str(number) for number in range(10)]
