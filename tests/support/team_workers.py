"""Workers of a team as processes of their own, as if they were on other machines: what a terminal has does not reach
them, because they know the server by another address.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from maestro_state import Maestro
from maestro_state.models.worker import Worker
from tests.support.cli_runs import MAESTRO
from tests.support.servers import Server, free_port, valkey
from tests.support.waiting import wait_until

#: A tool's program that tells its version, and else what it was asked; it begins each line with its own folder's name.
PROGRAM = """#!{python} -S
import os, sys
if "--version" in sys.argv:
    print("{name}, version 1.2.3")
elif "logs" not in sys.argv:
    asked = sys.stdin.read()
    print(os.path.basename(os.path.dirname(__file__)), asked[-40:].strip())
"""


@dataclass
class Team:
    """A server, and the workers a test asks for."""

    project: Path
    server: Server
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """What a terminal has in its environment."""
        return {"MAESTRO_REDIS_URL": self.server.url}

    def open(self) -> Maestro:
        """Open Maestro as a terminal does."""
        return Maestro(self.project, redis_url=self.server.url)

    def programs(self, folder: str, *names: str) -> str:
        """Make programs of tools in a folder; return a PATH that has them and nothing of this machine's."""
        (self.folder / folder).mkdir()
        for name in names:
            self.install(folder, name)
        return f"{self.folder / folder}:/usr/bin:/bin"

    def install(self, folder: str, name: str) -> None:
        """Put the program of a tool into a folder."""
        path = self.folder / folder / name
        path.write_text(PROGRAM.format(python=sys.executable, name=name))
        path.chmod(0o755)

    def worker_env(self, path: str, **more: str) -> dict[str, str]:
        """Return the environment of a worker elsewhere."""
        return os.environ | {"MAESTRO_REDIS_URL": f"unix://{self.server.socket}", "PATH": path, **more}

    def start(self, path: str, *words: str, cwd: Path | None = None, **more: str) -> subprocess.Popen[bytes]:
        """Start `maestro worker` with what it has on PATH, and wait until it is listed and listens."""
        return self.run([MAESTRO, "worker", *words], path, cwd=cwd, **more)

    def run(self, command: Sequence[str], path: str, cwd: Path | None = None, **more: str) -> subprocess.Popen[bytes]:
        """Start a program that is a worker, and wait until it is listed and listens."""
        with (self.folder / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=cwd or self.project, env=self.worker_env(path, **more), stdout=log, stderr=log
            )
        self.processes.append(process)
        with self.open() as maestro:
            wait_until(lambda: self.row(process) is not None, "the worker is listed")
            wait_until(lambda: maestro.runs.workers() >= len(maestro.workers.list()), "the worker listens")
        return process

    def row(self, process: subprocess.Popen[bytes]) -> Worker | None:
        """Return what a worker says it has."""
        with self.open() as maestro:
            return next((one for one in maestro.workers.list() if one.pid == process.pid), None)


@contextmanager
def team_of(project: Path, folder: Path) -> Iterator[Team]:
    """Run a server that a team shares."""
    with valkey(folder, port=free_port()) as server:
        team = Team(project, server, folder)
        try:
            yield team
        finally:
            for process in team.processes:
                process.kill()
                process.wait()
