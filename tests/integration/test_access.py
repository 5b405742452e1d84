"""Accounts on a team's server: each does its work and nothing else, tenants do not meet, no password shows."""

from __future__ import annotations

import json
import re
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import redis

from maestro_state import Maestro, Terminal
from maestro_state.errors import MaestroError, NotFound, ServerUnavailable
from maestro_state.models.worker import Worker, WorkerTool
from maestro_state.net import connect, parse_url
from maestro_state.net.queue_client import queue_client
from maestro_state.state.calls.health import OLDEST
from tests.support.accounts import guarded
from tests.support.cli_runs import maestro_command, printed, refused

ACCOUNTS = (
    ("ana", "terminal", "left"),
    ("bo", "terminal", "right"),
    ("work", "worker", "left"),
    ("boss", "admin", "left"),
)
HERE = Terminal("me", "here", "tty1", "2027-01-01T00:00:00.000+00:00")

#: What nobody but an admin may do, one of each kind.
FORBIDDEN = [
    ("CONFIG", "GET", "*"), ("CONFIG", "SET", "appendonly", "no"), ("FLUSHALL",), ("FLUSHDB",), ("KEYS", "*"),
    ("RANDOMKEY",), ("DBSIZE",), ("SAVE",), ("SHUTDOWN",), ("MONITOR",), ("ACL", "LIST"),
    ("ACL", "SETUSER", "eve", "on"), ("CLIENT", "LIST"), ("CLIENT", "KILL", "ID", "1"), ("SCRIPT", "FLUSH"),
    ("FUNCTION", "LIST"), ("FUNCTION", "FLUSH"), ("REPLICAOF", "NO", "ONE"), ("MODULE", "LIST"), ("SLOWLOG", "GET"),
    ("SETRANGE", "left:x", "536870911", "x"), ("SETBIT", "left:x", "4294967295", "1"), ("APPEND", "left:x", "x"),
    ("CLIENT", "TRACKING", "ON", "BCAST"), ("CLIENT", "PAUSE", "1000"), ("CLIENT", "NO-EVICT", "ON"),
    ("SWAPDB", "0", "1"), ("MIGRATE", "127.0.0.1", "1", "left:x", "0", "1"), ("CLUSTER", "RESET"), ("LATENCY", "RESET"),
]  # fmt: skip
#: Ways to reach a key of another namespace.
FOREIGN = [
    ("GET", "right:{index}:summaries"), ("HVALS", "right:{index}:summaries"), ("SET", "right:x", "1"),
    ("DEL", "right:{index}:summaries"), ("RENAME", "left:a", "right:a"), ("COPY", "right:{index}:recent", "left:a"),
    ("EVAL", "return redis.call('HVALS', 'right:{index}:summaries')", "0"),
    ("EVAL", "return redis.call('SET', KEYS[1], '1')", "1", "right:x"),
    ("XREAD", "STREAMS", "right:{some--abcdef}:messages", "0"), ("SORT", "left:a", "BY", "right:*"),
    ("RPUSH", "rq:queue:right", "job"), ("HSET", "rq:job:right_some--abcdef_0001_1", "data", "x"),
    ("SET", "rq:queues", "x"), ("SADD", "rq:workers", "x"), ("SET", "rq:suspended", "1"), ("SADD", "rq:groups", "x"),
    ("HSET", "rq:job:left-ux_some--abcdef_0001_1", "data", "x"), ("RPUSH", "rq:queue:left-x", "job"),
    ("PUBLISH", "right", "x"), ("SUBSCRIBE", "right"), ("ZUNIONSTORE", "left:z", "1", "right:{index}:recent"),
]  # fmt: skip

pytestmark = pytest.mark.xdist_group("busy")


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """Run a guarded server for the module."""
    with guarded(tmp_path_factory.mktemp("g"), *ACCOUNTS) as running:
        yield running


def use_everything(maestro, project):
    """Go through every verb a terminal has."""
    session = maestro.sessions.start("all verbs", note="n", tool="echo")
    maestro.messages.add("user", "hello")
    maestro.sessions.set("preferences", {"a": 1}, if_revision=0)
    assert maestro.sessions.get("preferences").value == {"a": 1}
    assert maestro.messages.last(1)[0].content == "hello"
    assert len(maestro.messages.since(None)) == 1
    assert maestro.sessions.status().session.id == session.id
    assert maestro.sessions.resolve("latest") == session.id
    assert session.id in [row.id for row in maestro.sessions.list()]
    item = maestro.context.add(b"some context").items[0]
    assert [one.id for one in maestro.context.list()] == [item.id]
    maestro.context.remove(item.id)
    assert maestro.tools.use("echo").tool_active == "echo"
    assert maestro.runs.start("dry", dry=True).status == "dry"
    run = maestro.runs.start("waits for a worker")
    assert maestro.runs.workers() == 0
    assert maestro.runs.cancel(run.id).status == "canceled"
    assert len(maestro.runs.list()) == 2
    assert maestro.budgets.list() == []
    assert maestro.metrics.read().messages >= 1
    work = maestro.work.start("planning")
    assert maestro.work.end(work.session_id).status == "completed"
    maestro.discussions.start()
    maestro.discussions.say("what now?")
    assert maestro.discussions.show().meta.status == "open"
    follower: list = []
    following = threading.Thread(
        target=lambda: follower.extend(maestro.follow.events(session.id, cursor="start", terminal=HERE))
    )
    following.start()
    assert maestro.sessions.end().state == "finalizada"
    following.join(60)
    assert [event.type for event in follower][-1] == "session.finalized"
    gone = maestro.sessions.start("gone")
    assert maestro.sessions.abort(gone.id, reason="over").state == "abortada"
    maestro.sessions.delete(gone.id)
    return session.id


@pytest.mark.parametrize("name", ["ana", "bo", "work", "boss"])
def test_each_account_does_its_work(team, project, name):
    """Every verb works with no more than the account has."""
    space = next(row[2] for row in ACCOUNTS if row[0] == name)
    with Maestro(project, redis_url=team.url(name), namespace=space, user=name) as maestro:
        use_everything(maestro, project)
        checks = {check.name: check.status for check in maestro.health.checks()}
    assert checks["server"] == checks["version"] == checks["eviction"] == checks["access"] == "ok"


@pytest.mark.parametrize("name", ["ana", "work"])
def test_terminals_and_workers_can_do_nothing_else(team, name):
    """Nothing that looks at or changes the server itself is allowed, nor any key of another namespace."""
    with closing(connect(team.url(name))) as wire:
        for command in (*FORBIDDEN, *FOREIGN):
            with pytest.raises(MaestroError, match=r"NOPERM|No permissions|ACL failure"):
                wire.call(*command)
        if name == "ana":
            with pytest.raises(ServerUnavailable, match="NOPERM"):
                wire.call("SCAN", "0")
    # Control: the same commands are understood, and an admin may do them.
    with closing(connect(team.url("boss"))) as wire:
        for command in (("CONFIG", "GET", "appendonly"), ("KEYS", "*"), ("SET", "right:x", "1"), ("ACL", "LIST")):
            wire.call(*command)
        wire.call("DEL", "right:x")


def test_the_oldest_server_understands_the_list(team):
    """One that does not know a command of its access list does not start; the control is one that came later."""
    with closing(connect(team.url("boss"))) as wire:
        since = dict(_commands(wire.call("COMMAND", "DOCS")))
        named = set(re.findall(r" \+([a-z|]+)", "\n".join(map(bytes.decode, wire.call("ACL", "LIST"))))) - {"client"}
    assert len(named) > 60
    assert {name for name in named if since[name] > OLDEST} == set()
    assert since["client|setinfo"] > OLDEST


def _commands(rows):
    """Yield each command and subcommand, and the version in which it came."""
    for name, told in zip(rows[::2], rows[1::2], strict=True):
        said = dict(zip(told[::2], told[1::2], strict=True))
        yield name.decode(), tuple(int(part) for part in said[b"since"].split(b".")[:2])
        yield from _commands(said.get(b"subcommands", []))


@pytest.mark.parametrize("name", ["ana", "work"])
def test_nothing_is_sent_that_an_account_may_not(team, project, name):
    """The server's log of refusals, which its operator watches, stays empty: redis-py would say who it is, too."""
    with closing(connect(team.url("boss"))) as boss:
        boss.call("ACL", "LOG", "RESET")
        space = next(row[2] for row in ACCOUNTS if row[0] == name)
        with Maestro(project, redis_url=team.url(name), namespace=space, user=name) as maestro:
            maestro.sessions.start("quiet", tool="echo")
            maestro.runs.start("waits for a worker")
        with closing(queue_client(parse_url(team.url(name)))) as queue:
            queue.ping()
        assert boss.call("ACL", "LOG") == []
        with closing(redis.Redis.from_url(team.url(name))) as other:
            other.ping()
        assert b"client|setinfo" in {entry[7] for entry in boss.call("ACL", "LOG")}, "the control: another client"


def test_a_tenant_cannot_stop_another_by_keys_of_the_queue(team, project):
    """What a tenant may write leaves another's runs alone; control: an admin who writes RQ's shared keys in the old way
    does not stop them either, because nobody reads those any more.
    """
    with closing(connect(team.url("boss"))) as wire:
        for command in (("SET", "rq:queues", "x"), ("SET", "rq:suspended", "1"), ("SET", "rq:workers", "x")):
            wire.call(*command)
        try:
            env = {"MAESTRO_REDIS_URL": team.url("work"), "MAESTRO_NAMESPACE": "left"}
            printed(project, "session", "start", "goes on", env=env)
            asked = maestro_command(project, "run", "--tool", "echo", "--detach", "hello", env=env)
            assert asked.returncode == 0, asked.stderr
            worked = maestro_command(project, "worker", "--burst", env=env)
            assert worked.returncode == 0, worked.stderr
            (run,) = printed(project, "runs", env=env)["runs"]
            assert run["status"] == "success"
        finally:
            wire.call("DEL", "rq:queues", "rq:suspended", "rq:workers")


def test_a_job_that_is_none_of_the_namespaces_ends_no_worker(team, project):
    """A terminal may name anything in its queue: what a worker's account may not even read is refused and passed over,
    also where another worker had taken it and was killed.
    """
    env = {"MAESTRO_REDIS_URL": team.url("work"), "MAESTRO_NAMESPACE": "left"}
    printed(project, "session", "start", "stays", env=env)
    jobs = ["junk", "right_some--abcdef_0001_1", "job:x"]
    with closing(connect(team.url("ana"))) as ana, closing(connect(team.url("work"))) as work:
        ana.call("RPUSH", "rq:queue:left", *jobs)
        work.call("RPUSH", "rq:queue:left:intermediate", "taken", *jobs)
        asked = maestro_command(project, "run", "--tool", "echo", "--detach", "hello", env=env)
        assert asked.returncode == 0, asked.stderr
        worked = maestro_command(project, "worker", "--burst", env=env)
        assert worked.returncode == 0, worked.stderr
        assert [run["status"] for run in printed(project, "runs", env=env)["runs"]] == ["success"]
        assert not work.call("LLEN", "rq:queue:left:intermediate")
    assert "quitting" not in worked.stderr
    assert worked.stderr.count("beyond this worker's account") >= 2


def test_nobody_gets_in_without_a_password(team, project):
    """No password, a wrong one and a name that is not there are refused as what they are."""
    port = team.server.port
    for url in (f"redis://127.0.0.1:{port}", f"redis://ana:wrong-wrong-wrong@127.0.0.1:{port}",
                f"redis://eve:{team.accounts['ana'].password}@127.0.0.1:{port}"):  # fmt: skip
        exit_code, error = refused(project, "session", "list", env={"MAESTRO_REDIS_URL": url})
        assert exit_code == 5
        assert "password" in error["hint"]
        assert "wrong-wrong" not in json.dumps(error)


def test_two_tenants_do_not_meet(team, project, tmp_path):
    """Every verb with the other tenant's ids finds nothing, and the other tenant's namespace is refused outright."""
    with Maestro(project, redis_url=team.url("ana"), namespace="left", user="ana") as ana:
        secret = ana.sessions.start("ours alone")
        ana.messages.add("user", "a secret of the left")
        cookie = ana.work.start("planning").session_id
        discussion = ana.discussions.start().session_id
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    verbs = {
        "read": lambda m: m.sessions.read(secret.id),
        "status": lambda m: m.sessions.status(secret.id),
        "switch": lambda m: m.sessions.switch(secret.id),
        "end": lambda m: m.sessions.end(secret.id),
        "abort": lambda m: m.sessions.abort(secret.id, reason="r"),
        "delete": lambda m: m.sessions.delete(secret.id),
        "get": lambda m: m.sessions.get("preferences", secret.id),
        "set": lambda m: m.sessions.set("preferences", {}, secret.id),
        "add": lambda m: m.messages.add("user", "hello", secret.id),
        "follow": lambda m: list(m.follow.events(secret.id, cursor="start", until_idle_ms=1)),
        "context": lambda m: m.context.add(b"text", ref=secret.id),
        "items": lambda m: m.context.list(secret.id),
        "run": lambda m: m.runs.start("prompt", secret.id, tool="echo"),
        "runs": lambda m: m.runs.list(secret.id),
        "use": lambda m: m.tools.use("echo", secret.id),
        "cookie": lambda m: m.work.read(cookie),
        "end cookie": lambda m: m.work.end(cookie),
        "discussion": lambda m: m.discussions.show(discussion),
        "say": lambda m: m.discussions.say("hello", discussion),
        "last": lambda m: m.messages.last(5, secret.id),
        "since": lambda m: m.messages.since(None, secret.id),
        "slug": lambda m: m.sessions.resolve("ours-alone"),
        "suffix": lambda m: m.sessions.resolve(secret.id[-6:]),
    }
    with Maestro(theirs, redis_url=team.url("bo"), namespace="right", user="bo") as bo:
        for verb in verbs.values():
            with pytest.raises(NotFound):
                verb(bo)
        assert secret.id not in [row.id for row in bo.sessions.list(everything=True)]
    with Maestro(theirs, redis_url=team.url("bo"), namespace="left", user="ana") as posing:
        for verb in (*verbs.values(), lambda m: m.sessions.list()):
            with pytest.raises(ServerUnavailable, match="does not let Maestro in") as kept_out:
                verb(posing)
            assert kept_out.value.hint.endswith(", and MAESTRO_NAMESPACE, which its rights are for")
    with Maestro(project, redis_url=team.url("ana"), namespace="left", user="ana") as ana:
        assert ana.sessions.read(secret.id).state == "iniciada"
        assert [message.content for message in ana.messages.last(5, secret.id)] == ["a secret of the left"]


def test_users_of_one_namespace_are_told_apart_not_kept_apart(team, project):
    """Sessions carry who started them, lists can be narrowed to one user, and changes by others say so."""
    left = {"MAESTRO_REDIS_URL": team.url("ana"), "MAESTRO_NAMESPACE": "left"}
    ana, bo = left | {"MAESTRO_USER": "ana"}, left | {"MAESTRO_USER": "bo"}
    of_ana = printed(project, "session", "start", "of ana", env=ana)
    of_bo = printed(project, "session", "start", "of bo", env=bo)

    def listed(*words, env):
        rows = printed(project, "session", "list", *words, env=env)["sessions"]
        return {row["id"] for row in rows} & {of_ana["id"], of_bo["id"]}

    assert listed(env=ana) == {of_ana["id"], of_bo["id"]}
    assert listed("--mine", env=ana) == listed("--user", "ana", env=bo) == {of_ana["id"]}
    assert listed("--mine", env=bo) == {of_bo["id"]}
    assert refused(project, "session", "list", "--mine", "--user", "bo", env=ana)[0] == 2
    for env in (ana, bo):
        printed(project, "--session", of_ana["id"], "message", "add", "--role", "user", "hi", env=env)
    watched = maestro_command(
        project, "watch", of_ana["id"], "--json", "--from", "start", "--until-idle", "0.1", env=ana
    )
    events = map(json.loads, watched.stdout.splitlines())
    assert [event["data"].get("user") for event in events if event["type"] == "message.added"] == [None, "bo"]


def test_a_password_shows_nowhere(team, project):
    """Not in config, errors, logs or the arguments of any process, with debugging on and off."""
    secret = team.accounts["ana"].password
    for debug in ("0", "1"):
        env = {"MAESTRO_REDIS_URL": team.url("ana"), "MAESTRO_NAMESPACE": "left", "MAESTRO_DEBUG": debug,
               "MAESTRO_LOG_LEVEL": "debug"}  # fmt: skip
        wrong_space = env | {"MAESTRO_NAMESPACE": "right"}
        wrong_port = env | {"MAESTRO_REDIS_URL": re.sub(r":\d+$", ":1", team.url("ana"))}
        for words, used in (
            (("config",), env), (("config", "--json"), env), (("doctor",), env), (("session", "start", "x"), env),
            (("session", "list"), wrong_space), (("session", "list"), wrong_port), (("doctor",), wrong_port),
        ):  # fmt: skip
            done = maestro_command(project, *words, env=used)
            assert secret not in done.stdout + done.stderr, words
    found = [path for path in project.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert found == []
    assert secret not in (Path(team.server.folder) / "server.log").read_text()
    # Control: it is what lets us in.
    assert secret in team.url("ana")


def test_the_access_list_is_written_by_the_command(project, tmp_path):
    """The command takes passwords from the environment only, writes digests, and names what is missing."""
    path = tmp_path / "users.acl"
    env = {"REDIS_ANA_PASSWORD": "0123456789abcdef", "REDIS_BO_B_PASSWORD": "fedcba9876543210"}
    done = maestro_command(project, "acl", "--terminal", "ana", "--terminal", "bo-b", "--output", str(path), env=env)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert [line.split()[1] for line in text.splitlines()] == ["default", "ana", "bo-b"]
    # Off, without a password, and with its rights: some servers read their own file back as this user.
    assert text.splitlines()[0].split()[2:] == ["off", "resetpass", "~*", "&*", "+@all"]
    assert not any(password in text for password in env.values())
    for words, environment, hint in (
        (["--terminal", "eve"], env, "REDIS_EVE_PASSWORD"),
        (["--terminal", "ana"], {"REDIS_ANA_PASSWORD": "short"}, "at least 16"),
        (["--terminal", "default"], {"REDIS_DEFAULT_PASSWORD": "0123456789abcdef"}, "letters, digits"),
        (["--terminal", "a b"], {"REDIS_A B_PASSWORD": "0123456789abcdef"}, "letters, digits"),
    ):
        failed = maestro_command(project, "acl", *words, env=environment)
        assert (failed.returncode, hint in failed.stderr) == (2, True), failed.stderr
        assert "short" not in failed.stderr.replace("too short", "")


def test_a_terminal_cannot_say_that_it_is_a_worker(team, tmp_path):
    """Runs go where the list of workers says: a terminal reads it, and neither adds a row to it nor takes one away."""
    row = Worker(id="abcdef01", host="h", pid=1, since="2027-01-01T00:00:00.000+00:00", runs_at_once=1, project="/p",
                 tools=[WorkerTool("claude", "1")], queue="0badf00d")  # fmt: skip
    with (
        Maestro(tmp_path, redis_url=team.url("work"), namespace="left") as worker,
        Maestro(tmp_path, redis_url=team.url("ana"), namespace="left") as terminal,
    ):
        assert worker.workers.announce(row), "the control: a worker's account may"
        for change in (
            lambda: terminal.workers.announce(msgspec.structs.replace(row, id="abcdef02")),
            lambda: terminal.workers.sign_off(row.id),
        ):
            with pytest.raises(ServerUnavailable, match=r"NOPERM|No permissions|ACL failure|may not"):
                change()
        assert [one.id for one in terminal.workers.list()] == [row.id]
        worker.workers.sign_off(row.id)
        assert terminal.workers.list() == []
