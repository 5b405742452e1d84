"""A team whose processes are restarted one after another while runs are under way, and what each run did."""

from __future__ import annotations

import shlex
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from maestro_state import Maestro
from tests.support.cli_runs import MAESTRO
from tests.support.process_status import catches
from tests.support.programs import Program, running
from tests.support.servers import Server
from tests.support.waiting import wait_until

#: A tool with an effect that can be counted: it says in a file that it began, waits to be let go, says that it ended.
#: Whose it is, is told by the processes that it comes from.
TOOL = """
import os, sys, time
name = sys.stdin.read().split()[-1]
line = [os.getpid()]
while line[-1] > 1:
    with open(f"/proc/{line[-1]}/stat") as file:
        line.append(int(file.read().rpartition(")")[2].split()[1]))
with open(f"lines/{name}", "w") as file:
    file.write(" ".join(map(str, line)))
def note(word):
    with open(f"effects/{name}", "a") as file:
        file.write(f"{word}\\n")
note("begun")
while not os.path.exists(f"gates/{name}"):
    time.sleep(0.02)
note("ended")
print("did", name)
"""


class Rolling:
    """A server, worker processes with two workers each, and schedulers."""

    def __init__(self, server: Server, project: Path, *, grace_s: int) -> None:
        self.server, self.project = server, project
        self.workers: list[Program] = []
        self.schedulers: list[Program] = []
        self._stack = ExitStack()
        self._grace_s = grace_s
        for name in ("effects", "lines", "gates", "archive", "logs"):
            (project / name).mkdir()
        (project / "tool.py").write_text(TOOL)

    def __enter__(self) -> Self:
        # By another address than the workers have: as from a laptop, whose environment no worker is handed.
        self.maestro = self._stack.enter_context(Maestro(self.project, redis_url=f"unix://{self.server.socket}"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def tool(self) -> str:
        """Return the command line of the tool whose effects are counted."""
        return shlex.join([sys.executable, "-S", "tool.py"])

    def ask(self, count: int) -> dict[str, tuple[str, str]]:
        """Ask for so many runs, in two sessions; return session and run by name."""
        sessions = [self.maestro.sessions.start(name, tool=self.tool).id for name in ("first", "second")]
        asked = {f"r{number:02}": sessions[number % 2] for number in range(count)}
        return {
            name: (session, self.maestro.runs.start(name, session, history=0).id) for name, session in asked.items()
        }

    def start(self, *command: str) -> Program:
        """Start a program with the settings of the team."""
        environment = {
            "MAESTRO_REDIS_URL": self.server.url,
            "MAESTRO_ARCHIVE_ROOT": str(self.project / "archive"),
            "MAESTRO_STOP_GRACE_SECONDS": str(self._grace_s),
            "MAESTRO_CHECKPOINT_SECONDS": "1",
            "MAESTRO_LOG_LEVEL": "info",
        }
        started = running(self.project / "logs", list(command), env=environment, cwd=self.project)
        return self._stack.enter_context(started)

    def start_worker(self) -> None:
        """Start one more process of workers, and wait until both of them listen."""
        self.workers.append(self.start(MAESTRO, "worker", "--count", "2"))
        wanted = 2 * len(self.workers)
        wait_until(lambda: self.maestro.runs.workers() == wanted, f"{wanted} workers listen")

    def start_scheduler(self) -> None:
        """Start one more scheduler, and wait until it can be asked to stop."""
        started = self.start(MAESTRO, "scheduler")
        self.schedulers.append(started)
        wait_until(lambda: catches(started.process.pid, signal.SIGTERM), "it hears when it is to stop")

    def begun(self, of: Program | None = None) -> list[str]:
        """Return the runs that have begun and were not let go yet, all or those of one process."""
        names = [path.name for path in sorted((self.project / "effects").iterdir())]
        return [name for name in names if not self._gate(name).exists() and (of is None or self._is_of(name, of))]

    def _is_of(self, name: str, program: Program) -> bool:
        return str(program.process.pid) in (self.project / "lines" / name).read_text().split()

    def wait_begun(self, count: int) -> None:
        """Wait until so many runs wait to be let go."""
        wait_until(lambda: len(self.begun()) >= count, f"{count} runs are under way, not {self.begun()}")

    def let_go(self, names: list[str]) -> None:
        """Let runs end."""
        for name in names:
            self._gate(name).touch()

    def _gate(self, name: str) -> Path:
        return self.project / "gates" / name

    def replace_worker(self) -> None:
        """Ask the oldest process of workers to stop while its runs are under way, and start another one."""
        old = self.workers.pop(0)
        assert len(self.begun(old)) == 2
        old.process.send_signal(signal.SIGTERM)
        wait_until(lambda: old.complained.read_text().count("worker_stopping") == 2, "both know that they are to stop")
        self.let_go(self.begun(old))
        assert old.process.wait(120) == 0, old.complained.read_text()
        self.start_worker()

    def replace_scheduler(self) -> None:
        """Stop a scheduler and start another one."""
        old = self.schedulers.pop(0)
        old.process.send_signal(signal.SIGTERM)
        assert old.process.wait(120) == 0, old.complained.read_text()
        self.start_scheduler()

    def restart_server(self) -> None:
        """Shut the server down while runs are under way, let these end while it is away, and start it again."""
        self.server.shut_down()
        self.let_go(self.begun())
        self.server.start()

    def effects(self) -> dict[str, list[str]]:
        """Return what each run did."""
        return {path.name: path.read_text().split() for path in sorted((self.project / "effects").iterdir())}

    def finish(self, runs: dict[str, tuple[str, str]]) -> list[str]:
        """Let everything go as it begins; return how each run ended."""
        wait_until(lambda: self.let_go(self.begun()) or not self._unfinished(runs), "all runs are over")
        return [self.status(*run) for run in runs.values()]

    def _unfinished(self, runs: dict[str, tuple[str, str]]) -> bool:
        return any(self.status(*run) in ("pending", "running") for run in runs.values())

    def status(self, session_id: str, run_id: str) -> str:
        """Return how far a run is."""
        return self.maestro.runs.read(run_id, session_id).status
