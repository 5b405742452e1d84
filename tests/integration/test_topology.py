"""The compose file's set-up as processes: access list, server over TCP and TLS, workers, clients of different users."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from maestro_state import Maestro
from maestro_state.state.calls.leases import SCHEDULE, read_lease
from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.support.programs import running
from tests.support.topology import PASSWORDS, topology
from tests.support.waiting import wait_until

#: What must be well for a team's server to be relied on.
GOOD = ("server", "version", "persistence", "eviction", "access", "workers", "sweeper", "disk")

#: A tool that tells what it was started with and in, and stays until that was seen.
TELLTALE = """
import os, sys
print(dict(os.environ), sys.argv, "told everything", flush=True)
open("gate").read()
"""

pytestmark = pytest.mark.xdist_group("busy")


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """Run the access job, the server, both workers, the page, and two schedulers, of which one is active."""
    with topology(tmp_path_factory.mktemp("team"), MAESTRO_WORKERS="1", MAESTRO_CHECKPOINT_SECONDS="2") as found:
        for name in ("worker-a", "worker-b"):
            found.start(name)
            found.start("scheduler")
        page = found.start("serve")
        with Maestro(found.folder, environment=found.environment("worker-a")) as maestro:
            server = maestro.server
            wait_until(lambda: maestro.runs.workers() == 2, "the workers do not listen")
            wait_until(lambda: server.fetch(read_lease(server.terms, SCHEDULE)).swept_at, "nobody sweeps")
        wait_until(lambda: page.lines(), "the page is not served")
        yield found


def contents(folder):
    """Return what every file below a folder holds, by its path; the scheduler may be moving some just now."""
    found = {}
    for where, _, names in os.walk(folder):
        for path in (Path(where, name) for name in names):
            with suppress(OSError):
                if path.is_file():
                    found[path] = path.read_bytes()
    return found


def arguments():
    """Return the arguments of every process there is."""
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # gone meanwhile
            found += path.read_bytes() + b"\0"
    return found


def test_two_laptops_share_a_session(team, project):
    """One over TCP, one over TLS with a private authority: each sees what the other does, and who did it."""
    ana, bo = team.client("ana"), team.client("bo", tls=True)
    session = printed(project, "session", "start", "shared", env=ana)["id"]
    watching = [MAESTRO, "--project", str(project), "watch", session, "--json", "--from", "start"]
    with running(team.folder, watching, env=ana) as watcher:
        for number in range(5):
            printed(project, "--session", session, "message", "add", "--role", "user", str(number), env=bo)
        wait_until(lambda: len(watcher.lines()) >= 6, "the other one sees nothing")
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
        found = contents(team.folder / "archive").items()
        return any(path.match(f"{session}/messages.jsonl") and b"a message to keep" in text for path, text in found)

    wait_until(archived, "the session did not get to disk")

    def active():
        said = [program.complained.read_text() for program in team.programs["scheduler"]]
        return [text for text in said if text.rfind("scheduler_active") > text.rfind("scheduler_inactive")]

    # Another test kills the server they share: then they may have changed places.
    wait_until(lambda: len(active()) == 1, "not exactly one scheduler is active")


def test_a_colleague_pulls_what_the_team_archived(team, project, tmp_path):
    """An ended session that the server has let go of comes from the team's disk into another user's checkout."""
    ana, bo = team.client("ana"), team.client("bo", tls=True)
    session = printed(project, "session", "start", "handed-on", env=ana)["id"]
    printed(project, "--session", session, "message", "add", "--role", "user", "read this, bo", env=ana)
    printed(project, "session", "end", session, env=ana)

    def is_on_the_teams_disk():
        found = contents(team.folder / "archive").items()
        records = [text for path, text in found if path.match(f"{session}/session.json")]
        return [json.loads(text)["state"] for text in records] == ["finalizada"]

    wait_until(is_on_the_teams_disk, "no worker archives it on the team's disk")
    admin = redis.Redis(port=team.port, username="admin", password=PASSWORDS["REDIS_ADMIN_PASSWORD"])
    admin.delete(*admin.keys(f"*{{{session}}}*"))
    assert refused(tmp_path, "session", "status", session, env=bo)[0] == 3

    assert printed(tmp_path, "pull", "handed-on", env=bo)["written"] is True
    found = printed(tmp_path, "--session", session, "messages", env=bo)["messages"]
    assert [message["content"] for message in found] == ["read this, bo"]
    assert printed(tmp_path, "verify", session, env=bo)["ok"]


def health(team, name):
    """Run the health check of a container as Docker does: in its folder, with its environment."""
    words = team.program([team.local(word) for word in team.services[name]["healthcheck"]["test"][1:]])
    environment = os.environ | team.environment(name)
    return subprocess.run(words, cwd=team.works_in(name), env=environment, capture_output=True, check=False)


def test_the_health_checks_pass(team, project):
    """Doctor, which is the containers' health check, finds nothing that fails, in each of them and from a laptop."""
    for name in ("worker-a", "worker-b", "scheduler", "serve"):
        done = health(team, name)
        assert done.returncode == 0, done.stdout.decode()
        assert b"duty" in done.stdout
    for folder, used in (
        (team.folder / "archive", team.environment("worker-a")),
        (project, team.client("ana", tls=True)),
    ):
        done = maestro_command(folder, "doctor", "--json", env=used)
        checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
        assert done.returncode == 0, checks
        assert {checks[name]["status"] for name in GOOD} == {"ok"}


@pytest.mark.parametrize(
    ("duty", "said"), [("worker", "no worker of"), ("scheduler", "nobody has swept"), ("serve", "nothing serves")]
)
def test_a_container_that_does_not_do_its_work_is_unhealthy(team, project, duty, said):
    """Control: in a namespace where nobody works, each check fails, and says why."""
    namespace = {"MAESTRO_NAMESPACE": f"idle-{duty}", "MAESTRO_REDIS_URL": admins_url(team)}
    done = maestro_command(project, "doctor", "--as", duty, "--port", "9", env=namespace)
    assert done.returncode == 1
    assert said in done.stdout


def admins_url(team):
    """Return the address of the server for somebody who may do everything."""
    return f"redis://admin:{PASSWORDS['REDIS_ADMIN_PASSWORD']}@127.0.0.1:{team.port}"


def test_the_page_serves_the_teams_sessions(team, project):
    """With a token that somebody in the container makes, over the one port; without, nobody gets in."""
    ana = team.client("ana")
    session = printed(project, "session", "start", "paged", env=ana)["id"]
    made = printed(team.works_in("serve"), "token", "add", "ana", env=team.environment("serve"))
    base = f"http://localhost:{team.serve_port}/v1/sessions"
    url, token = f"{base}/{session}", {"Authorization": f"Bearer {made['token']}"}
    asked = urllib.request.Request(url, headers=token)
    with urllib.request.urlopen(asked) as answer:
        assert session in answer.read().decode()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url)

    # One that is started there: its runs work among the checkouts, not among the archives.
    asked = urllib.request.Request(base, b'{"name": "from-the-page"}', {**token, "Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        started = json.load(answer)["id"]
    printed(project, "--session", started, "run", "--tool", "pwd", "where?", env=ana)
    shown = printed(project, "--session", started, "show", "last", env=ana)
    assert shown["output"] == f"{team.folder / 'projects'}\n"


def test_no_password_shows(team, project):
    """Not in the arguments of any process while everything is under way, nor in what programs, tools and files say."""
    secrets = [password.encode() for password in PASSWORDS.values()]
    ana = team.client("ana", tls=True)
    (project / "telltale.py").write_text(TELLTALE)
    os.mkfifo(project / "gate")
    tool = f"{sys.executable} telltale.py"
    session = printed(project, "session", "start", "secrets", "--tool", tool, env=ana)["id"]
    words = [MAESTRO, "--project", str(project), "--session", session]
    with (
        running(team.folder, [*words, "watch", "--json", "--from", "start"], env=ana) as watcher,
        running(team.folder, [*words, "run", "--no-stdin", "tell"], env=ana | {"MAESTRO_LOG_LEVEL": "debug"}) as ran,
    ):
        wait_until(lambda: "told everything" in watcher.said.read_text(), "the tool does not run")
        seen = arguments()
        (project / "gate").write_text("")
        # Control: the arguments are those of our processes, and the tool's are among them.
        assert all(word in seen for word in (b"--count", b"scheduler", b"telltale.py", session.encode()))
        assert ran.process.wait(60) == 0, ran.complained.read_text()
    assert not [secret for secret in secrets if secret in seen]
    for folder in (team.folder, project):
        found = contents(folder)
        assert found
        assert [path for path, text in found.items() for secret in secrets if secret in text] == []
    # What they said was among the files.
    assert {one.said.parent for programs in team.programs.values() for one in programs} == {team.folder}


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
    wait_until(lambda: "Ready to accept connections" in again.said.read_text(), "the server does not come back")
    found = printed(project, "--session", session, "messages", env=ana)["messages"]
    assert [message["content"] for message in found] == [str(number) for number in range(10)]
