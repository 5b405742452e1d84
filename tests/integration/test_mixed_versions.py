"""Workers of the previous stored form and of today's at once, on one queue: each run happens once, whoever takes it.

The older program is this one told that the form before is the newest it knows, from its first import on: it writes that
number and refuses what has a higher one, as any program does that is older than a record. What programs of earlier
commits really wrote is in `tests/earlier`, and read in test_earlier_formats.py.
"""

from __future__ import annotations

import json
import sys

import pytest

from maestro_state.models.schema import SCHEMA
from tests.support.rolling import Rolling
from tests.support.servers import free_port, valkey
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("busy")

OLDER = f"from maestro_state.models import schema; schema.SCHEMA = {SCHEMA - 1}\n"
WORKER = "import sys; from maestro_workers.worker import main; sys.exit(main())"
#: A terminal: starts a session with so many runs and says their names.
TERMINAL = """
import json, sys
from maestro_state import Maestro
with Maestro(sys.argv[1], redis_url=sys.argv[2]) as maestro:
    session = maestro.sessions.start("older", tool=sys.argv[3]).id
    names = [f"old{number}" for number in range(int(sys.argv[4]))]
    print(json.dumps({name: (session, maestro.runs.start(name, session, history=0).id) for name in names}))
"""
#: And one that reads what became of them.
READER = """
import json, sys
from maestro_state import Maestro
from maestro_state.errors import NewerFormat
with Maestro(sys.argv[1], redis_url=sys.argv[2]) as maestro:
    maestro.messages.add("user", "still here", sys.argv[3])
    print(json.dumps([run.status for run in maestro.runs.list(sys.argv[3])]))
    try:
        maestro.messages.add("user", "not mine", sys.argv[4])
    except NewerFormat:
        print("refused")
"""
RUNS = 4


@pytest.fixture
def team(tmp_path, project):
    """Run a server that both versions work with."""
    with valkey(tmp_path, port=free_port()) as server, Rolling(server, project, grace_s=60) as running:
        yield running


def python(team: Rolling, code: str, *words: str):
    """Run code in a process of its own."""
    return team.start(sys.executable, "-P", "-c", code, *words)


def said(program) -> list[str]:
    """Return what a program printed that leaves by itself."""
    assert program.process.wait(60) == 0, program.complained.read_text()
    return program.lines()


def test_older_and_newer_workers_share_a_queue(team: Rolling):
    """The older ones leave alone what they cannot read; it waits for a newer one, and is neither failed nor doubled."""
    address = f"unix://{team.server.socket}"
    asked = said(python(team, OLDER + TERMINAL, str(team.project), address, team.tool, str(RUNS)))
    older = {name: tuple(run) for name, run in json.loads(asked[0]).items()}
    newer = team.ask(RUNS)
    old = [python(team, OLDER + WORKER, "--project", str(team.project)) for _ in range(2)]

    def are_refused() -> bool:
        team.let_go(team.begun())
        return sum(worker.complained.read_text().count("newer Maestro") for worker in old) >= RUNS

    # Control: alone they take none of the newer runs, which only wait.
    wait_until(are_refused, "they came upon all jobs of the newer form")
    assert {team.status(*run) for run in newer.values()} == {"pending"}
    assert not set(team.effects()) & set(newer)
    for _ in range(2):
        python(team, WORKER, "--project", str(team.project))
    statuses = lambda: [team.let_go(team.begun()), *(team.status(*run) for run in newer.values())]  # noqa: E731
    wait_until(lambda: "success" in statuses(), "a newer worker gets one, beside the older ones")
    # As an upgrade goes on: the older ones are told to stop, and what they left alone is done.
    for worker in old:
        worker.process.terminate()
        assert worker.process.wait(60) == 0, worker.complained.read_text()
    runs = older | newer
    assert team.finish(runs) == ["success"] * 2 * RUNS
    assert team.effects() == {name: ["begun", "ended"] for name in sorted(runs)}
    # Whoever carried them out: an older program goes on with its session, and is refused by the newer one.
    sessions = (older["old0"][0], newer["r00"][0])
    assert said(python(team, OLDER + READER, str(team.project), address, *sessions)) == [
        json.dumps(["success"] * RUNS),
        "refused",
    ]
