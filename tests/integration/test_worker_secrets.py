"""A tool is its worker's user, and still finds none of the secrets of the processes around it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state import Maestro
from tests.support.accounts import guarded
from tests.support.embedded_project import processes_in
from tests.support.programs import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

#: Root may look into everything; without this capability it is a user like any other, as in a container.
_PTRACE = 19
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_WITHOUT_RIGHTS = (
    f"import ctypes, os, sys; ctypes.CDLL(None).prctl({_PR_CAPBSET_DROP}, {_PTRACE}, 0, 0, 0); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
WORKER = "import sys; from maestro_workers.worker import main; sys.exit(main())"
#: The control: a worker that is as open as any program.
OPEN_WORKER = f"from maestro_state.local import process; process.keep_private = lambda: False; {WORKER}"

#: Looks for a text, which it is given backwards, in all that /proc shows of some processes.
SEARCH = """
import os, sys
wanted, *pids = sys.stdin.read().split()
wanted = wanted[::-1].encode()
def regions(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            start, end = (int(part, 16) for part in span.split("-"))
            if rights.startswith("rw") and end - start < 1 << 28:
                try:
                    memory.seek(start)
                    yield memory.read(end - start)
                except (OSError, ValueError):
                    pass
def contents(pid):
    folder = f"/proc/{pid}"
    for name in ("environ", "cmdline"):
        yield name, lambda name=name: [open(f"{folder}/{name}", "rb").read()]
    yield "mem", lambda: regions(pid)
    try:
        descriptors = os.listdir(f"{folder}/fd")
    except OSError:
        descriptors = []
    for number in descriptors:
        yield "fd", lambda number=number: [os.fsencode(os.readlink(f"{folder}/fd/{number}"))]
found, seen = set(), set()
for pid in pids or [str(os.getppid()), *[name for name in os.listdir("/proc") if name.isdigit()]]:
    if pid == str(os.getpid()):
        continue
    for kind, read in contents(pid):
        try:
            if any(wanted in part for part in read()):
                found.add(f"{pid} {kind}")
        except OSError:
            pass
own = [name for name, value in os.environ.items() if wanted.decode() in value]
handles = sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1]
print(sorted(found), own, handles)
"""


def _may_be_dropped() -> bool:
    return os.getuid() != 0 or ctypes.CDLL(None).prctl(_PR_CAPBSET_READ, _PTRACE, 0, 0, 0) == 0 or _has_setpcap()


def _has_setpcap() -> bool:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    return bool(int(line.split()[1], 16) & 1 << 8)


@pytest.fixture
def team(tmp_path):
    """Run a server with a worker's and a terminal's account."""
    if not _may_be_dropped():
        pytest.skip("cannot be a user without rights here")
    with guarded(tmp_path, ("wanda", "worker", "maestro"), ("tom", "terminal", "maestro")) as running:
        yield running


def _searched(team, project: Path, code: str) -> tuple[str, set[int]]:
    """Have a worker run the search for its own password; return what it found, and the worker's pids."""
    script = project / "search.py"
    script.write_text(SEARCH)
    line = [sys.executable, "-c", _WITHOUT_RIGHTS, "-P", "-c", code, "--project", str(project), "--burst"]
    with Maestro(project, redis_url=team.url("tom")) as maestro:
        maestro.sessions.start("search", tool=f"{sys.executable} -S {script}")
        run = maestro.runs.start(team.accounts["wanda"].password[::-1])
        environment = os.environ | {"MAESTRO_REDIS_URL": team.url("wanda"), "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(line, env=environment) as worker:
            ended = maestro.runs.wait(run)
        assert ended.status == "success", ended.error
        return maestro.runs.output(run.id).decode(), {worker.pid}


def test_a_tool_does_not_find_its_workers_password(team, project):
    """Not in any environment, memory, argument or open file of any process it can see; it inherits no open file."""
    said, _ = _searched(team, project, WORKER)
    found, own, handles = said.rsplit(" [", 2)
    # What else this user runs, as these tests do, has the password too and is no worker.
    pids = {int(entry.split()[0].strip("[']")) for entry in found.strip("[]").split(", ") if entry}
    assert not {pid for pid in pids if b"maestro_workers.worker" in _command(pid)}
    assert (own, handles.strip()) == ("]", "0, 1, 2]")


def test_without_precautions_it_does(team, project):
    """Control: the same search finds the password of a worker that is as open as any program."""
    said, pids = _searched(team, project, OPEN_WORKER)
    assert any(f"'{pid} environ'" in said and f"'{pid} mem'" in said for pid in pids)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b"maestro_workers.worker"  # it has left with the worker that it was


def test_the_processes_of_the_stack_show_nothing(project):
    """Supervisor, workers and resident process keep the environment of the terminal that started them to themselves."""
    if not _may_be_dropped():
        pytest.skip("cannot be a user without rights here")
    value = f"value-{os.getpid()}-of-a-key"
    words = [sys.executable, "-P", "-c", "from maestro_cli.entry import main; main()", "session", "start", "stack"]
    environment = os.environ | {"SOME_KEY": value, "PYTHONPATH": str(ROOT)}
    subprocess.run(words, cwd=project, check=True, env=environment, stdout=subprocess.DEVNULL)
    wait_until((project / ".maestro" / "server" / "r.sock").exists, "the stack has no resident process")

    def is_nothing_shown() -> bool:
        pids = processes_in(project)
        assert pids
        search = [sys.executable, "-c", _WITHOUT_RIGHTS, "-S", "-c", SEARCH]
        question = " ".join([value[::-1], *map(str, pids)])
        done = subprocess.run(search, input=question, capture_output=True, text=True, check=True)
        return done.stdout.startswith("[] ")

    wait_until(is_nothing_shown, "a process that has started shows its environment")
