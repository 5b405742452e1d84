"""A project with a real server and real workers for tests, and small tools that behave in known ways.

Everything started here is ended here, by its own process id.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

from maestro_state import Maestro
from maestro_state.local.embedded import ensure, stop
from tests.support.embedded_project import is_alive
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


class Workshop:
    """A server without supervisor, and the workers a test asks for."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.workers: list[subprocess.Popen[bytes]] = []
        self._opened: list[Maestro] = []
        self.log = project / "worker.log"

    def __enter__(self) -> Self:
        ensure(self.project, supervise=False)
        return self

    def __exit__(self, *_: object) -> None:
        for maestro in self._opened:
            maestro.close()
        for worker in self.workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGCONT)
                os.kill(worker.pid, signal.SIGKILL)
            worker.wait()
        stop(self.project)

    def open(self, **options: object) -> Maestro:
        """Open Maestro in the project."""
        maestro = Maestro(self.project, **options)
        self._opened.append(maestro)
        return maestro

    def start_worker(self, folder: Path | None = None, **environment: str) -> subprocess.Popen[bytes]:
        """Start one worker, in the project or another folder, and wait until it listens."""
        queue_url = environment.get("MAESTRO_QUEUE_URL")
        maestro = self.open(queue_url=queue_url)
        before = maestro.runs.workers()
        with self.log.open("ab") as log:
            worker = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "maestro_workers.worker",
                    "--project",
                    str(folder or self.project),
                ],
                env=os.environ | {"MAESTRO_LOG_LEVEL": "info"} | environment,
                stdout=log,
                stderr=log,
            )
        self.workers.append(worker)
        wait_until(lambda: maestro.runs.workers() > before, "the worker listens")
        return worker

    def tool(self, name: str, body: str) -> str:
        """Write a tool in Python and return the command line that calls it."""
        path = self.project / f"{name}.py"
        path.write_text(body)
        return shlex.join([sys.executable, "-S", str(path)])

    def pids(self, name: str) -> list[int]:
        """Read the process ids a tool wrote into a file, as far as it has."""
        path = self.project / name
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def wait_for_pids(self, name: str, count: int) -> list[int]:
        """Wait until a tool has written so many process ids."""
        wait_until(lambda: len(self.pids(name)) >= count, f"{name} has {count} process ids")
        return self.pids(name)


def wait_dead(pids: list[int]) -> None:
    """Wait until none of these processes runs."""
    wait_until(lambda: not any(is_alive(pid) for pid in pids), f"{pids} are gone")


#: Prints numbered lines for ever, tells its own pid and that of a grandchild that lives as long.
NUMBERS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
with open("pids.tmp", "w") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")
os.rename("pids.tmp", "pids")
number = 0
while True:
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    number += 1
    time.sleep(0.01)
"""
