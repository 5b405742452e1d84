"""The whole command line with a terminal's account, a worker beside it with its own, and another tenant's ids."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from maestro_cli.main import run

from maestro_state.net import connect
from tests.support.accounts import guarded
from tests.support.cli_runs import MAESTRO
from tests.support.programs import running
from tools.reference import commands

#: Every command once, in an order in which each can do its work; words in braces are filled in.
ANAS = [
    "session start one --tool echo", "session list --mine", "session status", "status", "session switch one",
    "session set preferences {preferences}", "session get preferences", "message add --role user secret", "messages",
    "context add a.txt", "context list", "context show ctx-0001", "context refresh", "use echo", "tool list",
    "tool check echo", "run hello", "wait", "runs", "workers", "usage", "show last", "context use-output last",
    "context remove ctx-0001", "context clear", "watch --from start --until-idle 0.01", "session sync", "export",
    "verify", "cleanup --dry-run", "sweep", "config", "doctor", "trust", "acl --terminal ana", "completion bash",
    "search secret", "token add ana", "token list --json", "token revoke {token}",
    "budget list", "import llm --dry-run", "mcp install claude --print",
    "session fork one two", "session abort two --reason over", "session delete two --yes", "session switch one",
    "discuss start", "discuss say hello", "discuss list", "discuss show", "discuss done {final}",
    "discuss replay latest", "discuss migrate", "wsession start planning",
    "wsession breadcrumb add --prompt p --response r --cookie {cookie}", "work {cookie} --once",
    "wsession breadcrumbs {cookie}", "wsession timeline {cookie}", "wsession stats {cookie}",
    "wsession pause {cookie}", "wsession resume {cookie}", "wsession list", "wsession show {cookie}", "wsession tree",
    "wsession end {cookie}",
]  # fmt: skip
#: What there is to refuse, with the exit code: nothing to cancel, a session that lives here, a server that is not the
#: project's own, budgets that others keep, and work that takes a worker's account.
REFUSED = {
    "cancel": 4, "pull one": 4, "stack status": 4, "stack stop": 4, "worker --burst": 5, "worker --count 2": 5,
    "budget set --user ana --cost 100": 4, "budget remove --user ana": 4,
}  # fmt: skip
#: `scheduler` never ends by itself; what it does is `sweep` and `cleanup`. `open` is of a terminal.
ENDLESS = {"scheduler", "serve", "mcp", "open"}
#: Commands on what the other tenant has.
FOREIGN = [
    "session status {id}", "session switch {id}", "session end {id}", "session abort {id} --reason r",
    "session delete {id} --yes", "session sync {id}", "session fork {id} mine", "session get preferences {id}",
    "--session {id} session set preferences {preferences}", "--session {id} message add --role user hello",
    "--session {id} messages", "--session {id} context add text", "--session {id} context list",
    "--session {id} context show ctx-0001", "--session {id} context clear", "--session {id} context remove ctx-0001",
    "--session {id} context refresh", "--session {id} context use-output last", "--session {id} use echo",
    "--session {id} run hello --tool echo", "--session {id} runs", "--session {id} show last",
    "--session {id} cancel 0001", "watch {id} --from start --until-idle 0.01", "export {id}", "verify {id}",
    "session status {id6}", "session status {slug}",
    "discuss show {discussion}", "discuss say hello --discussion {discussion}",
    "discuss done {final} --discussion {discussion}", "discuss replay {discussion}",
    "wsession show {cookie}", "wsession end {cookie}", "wsession pause {cookie}", "wsession resume {cookie}",
    "wsession stats {cookie}", "wsession timeline {cookie}", "wsession breadcrumbs {cookie}", "work {cookie} --once",
    "wsession breadcrumb add --prompt p --response r --cookie {cookie}", "wsession start planning --parent {cookie}",
]  # fmt: skip

pytestmark = pytest.mark.xdist_group("busy")


@pytest.fixture
def team(tmp_path):
    """Run a server with two tenants."""
    accounts = [
        ("ana", "terminal", "left"),
        ("work", "worker", "left"),
        ("bo", "terminal", "right"),
        ("boss", "admin", "left"),
    ]
    with guarded(tmp_path, *accounts) as found:
        yield found


@pytest.fixture
def terminal(team, monkeypatch, capsys, tmp_path):
    """Return how to run a command line as somebody, in a folder and a namespace; each in this process, for speed."""
    final = tmp_path / "final.json"
    final.write_text('{"patch_operations": []}')
    words = {"preferences": '{"a":1}', "final": str(final)}

    def call(folder, user, space, line, **values):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("MAESTRO_REDIS_URL", team.url(user))
        monkeypatch.setenv("MAESTRO_NAMESPACE", space)
        monkeypatch.setenv("MAESTRO_USER", user)
        monkeypatch.setenv("REDIS_ANA_PASSWORD", team.accounts["ana"].password)
        code = run([word.format(**words | values) if word[0] == "{" else word for word in line.split()])
        said = capsys.readouterr()
        assert not any(account.password in said.out + said.err for account in team.accounts.values())
        return code, said.out.strip(), said.err

    return call


def test_a_terminal_can_do_everything_but_a_workers_work(team, terminal, project, tmp_path):
    """Every command there is works with a terminal's account, and a worker's account is enough to carry out runs."""
    (project / "a.txt").write_text("x")
    env = {"MAESTRO_REDIS_URL": team.url("work"), "MAESTRO_NAMESPACE": "left"}
    names = {words.removeprefix("maestro ") for words, _ in commands()}
    values, tried = {}, set(ENDLESS)
    with running(tmp_path, [MAESTRO, "--project", str(project), "worker"], env=env) as worker:
        for line in (*ANAS, *REFUSED, "session end one"):
            code, said, complaint = terminal(project, "ana", "left", line, **values)
            assert code == REFUSED.get(line, 0), (line, complaint)
            assert ("a worker's account" in complaint) == (code == 5), complaint
            if line.startswith("token list"):
                values["token"] = json.loads(said)["tokens"][0]["id"]
            if line.startswith("wsession start"):
                values["cookie"] = said
            tried |= {name for name in names if f"{line} ".startswith(f"{name} ")}
        assert worker.complained.read_text() == ""
    # The worker was refused nothing; the terminal a worker's work, and looking through keys.
    with closing(connect(team.url("boss"))) as wire:
        log = [dict(zip(row[::2], row[1::2], strict=True)) for row in wire.call("ACL", "LOG", 100)]
    denied = {(row[b"username"], row[b"object"].partition(b"|")[0]) for row in log}
    assert denied == {
        (b"ana", b"scan"),
        (b"ana", b"multi"),
        (b"ana", b"exec"),
        (b"ana", b"config"),
        (b"ana", b"left:{@ledger}:counters"),  # no terminal lifts a budget, or counts anything
    }
    assert tried == names


def test_another_tenant_reaches_nothing(team, terminal, project, tmp_path):
    """Every command with the other tenant's ids finds nothing; in the other one's namespace it is not let in."""
    made = {"id": "session start ours --tool echo", "discussion": "discuss start", "cookie": "wsession start planning"}
    ids = {name: terminal(project, "ana", "left", line)[1].split()[0] for name, line in made.items()}
    terminal(project, "ana", "left", "message add --role user secret")
    ids |= {"id6": ids["id"][-6:], "slug": "ours"}
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for line in FOREIGN:
        assert terminal(theirs, "bo", "right", line, **ids)[0] == 3, line
        assert terminal(theirs, "bo", "left", line, **ids)[0] == 5, line
    for space, expected in (("right", 0), ("left", 5)):
        for line in ("session list --all", "discuss list", "wsession list", "wsession tree"):
            code, said, _ = terminal(theirs, "bo", space, line)
            assert code == expected, line
            assert not any(one in said for one in ids.values()), line
    # Control: the same lines work for whom they belong to, and nothing was changed.
    code, said, _ = terminal(project, "ana", "left", "session status {id} --json", **ids)
    assert (code, json.loads(said)["session"]["state"]) == (0, "iniciada")
    assert "secret" in terminal(project, "ana", "left", "messages")[1]
    assert terminal(project, "ana", "left", "discuss show {discussion}", **ids)[0] == 0
    assert terminal(project, "ana", "left", "wsession show {cookie}", **ids)[0] == 0
