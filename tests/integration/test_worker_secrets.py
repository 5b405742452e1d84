"""A tool is its worker's user, and still finds none of the secrets of the processes around it."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from maestro_state import Maestro
from tests.support.accounts import guarded
from tests.support.embedded_project import processes_in
from tests.support.other_user import UID
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
def whose(pid):
    # Told now, while it is there: a process may be gone before anybody else can look.
    try:
        return "worker" if b"maestro_workers.worker" in open(f"/proc/{pid}/cmdline", "rb").read() else "another"
    except OSError:
        return "gone"
found = set()
for pid in pids or [str(os.getppid()), *[name for name in os.listdir("/proc") if name.isdigit()]]:
    if pid == str(os.getpid()):
        continue
    for kind, read in contents(pid):
        try:
            if any(wanted in part for part in read()):
                found.add(f"{pid} {kind} {whose(pid)}")
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
    assert [entry for entry in found.strip("[]").split(", ") if entry and not entry.endswith(" another'")] == []
    assert (own, handles.strip()) == ("]", "0, 1, 2]")


def test_without_precautions_it_does(team, project):
    """Control: the same search finds the password of a worker that is as open as any program."""
    said, pids = _searched(team, project, OPEN_WORKER)
    assert any(f"'{pid} environ worker'" in said and f"'{pid} mem worker'" in said for pid in pids)


def _shown(value: str, *pids: int) -> str:
    """Have a process without rights look for a text in others; return what it found."""
    search = [sys.executable, "-c", _WITHOUT_RIGHTS, "-S", "-c", SEARCH]
    question = " ".join([value[::-1], *map(str, pids)])
    return subprocess.run(search, input=question, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("words", "is_closed"),
    [
        ("worker", True),
        ("scheduler", True),
        ("--project . doctor", True),
        ("--project=. sweep", True),
        ("workers", False),
    ],
)
def test_what_runs_beside_tools_is_closed_before_it_has_reached_the_server(project, words, is_closed):
    """A worker that starts, and a health check, while a tool of another worker looks; the control is a terminal's."""
    if not _may_be_dropped():
        pytest.skip("cannot be a user without rights here")
    value = f"value-{os.getpid()}-of-a-password"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://worker:{value}@127.0.0.1:{silent.getsockname()[1]}"
        program = [sys.executable, "-c", _WITHOUT_RIGHTS, "-P", "-c", "from maestro_cli.entry import main; main()"]
        environment = os.environ | {"MAESTRO_REDIS_URL": url, "PYTHONPATH": str(ROOT)}
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            [*program, *words.split()], cwd=project, env=environment, stdout=quiet, stderr=quiet
        ) as process:
            try:
                silent.settimeout(60)
                line, _ = silent.accept()  # it waits for an answer that does not come
                with line:
                    assert _shown(value, process.pid).startswith("[] ") is is_closed
            finally:
                process.kill()


@pytest.mark.skipif(os.getuid() != 0, reason="needs a file that its own user cannot read")
@pytest.mark.parametrize(("mode", "is_closed"), [(0o711, True), (0o755, False)])
def test_a_program_that_cannot_be_read_is_closed_from_the_start(mode, is_closed):
    """What the images rely on for their interpreter: before its first line, which could see to it only later."""
    nobody = {"user": UID, "group": UID, "extra_groups": []}
    real = shutil.which("cat", path="/bin:/usr/bin")
    with tempfile.TemporaryDirectory(prefix="m-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(real, folder)
        os.chmod(program, mode)
        with subprocess.Popen([program], env={"SOME_KEY": "1"}, stdin=subprocess.PIPE, **nobody) as process:
            look = [real, f"/proc/{process.pid}/environ"]
            asked = subprocess.run(look, capture_output=True, check=False, **nobody)
            process.communicate()
    assert (b"Permission denied" in asked.stderr, b"SOME_KEY" in asked.stdout) == (is_closed, not is_closed)


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
        return _shown(value, *pids).startswith("[] ")

    wait_until(is_nothing_shown, "a process that has started shows its environment")
