"""`maestro serve` as a real process, and who asks it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx2

from maestro_state import Maestro
from tests.support.cli_runs import MAESTRO

#: Longest wait for an answer, in seconds.
_TIMEOUT_S = 60.0


class Served:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def client(self, token: str | None = None, **headers: str) -> httpx2.Client:
        """Return somebody who asks, with a token or without."""
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return httpx2.Client(base_url=self.url, headers=headers, timeout=_TIMEOUT_S, trust_env=False)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rsplit(":", 1)[1])


@contextmanager
def serving(
    project: Path, *options: str, port: int = 0, log: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Serve a project; stopped with the signal that people stop it with. `log` is where its standard error goes."""
    argv = [MAESTRO, "--project", str(project), "serve", "--json", "--port", str(port)]
    with open(log, "ab") if log else nullcontext() as written:
        process = subprocess.Popen(
            [*argv, *options], stdout=subprocess.PIPE, stderr=written, text=True, env={**os.environ, **(env or {})}
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"it left with {process.wait()}"
        yield Served(process, json.loads(line)["url"])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()


def started(project: Path, name: str = "fix-login", **settings: Any) -> str:
    """Start a session past the server; return its id."""
    with Maestro(project, **settings) as maestro:
        return maestro.sessions.start(name).id


def noting_browser(folder: Path) -> tuple[dict[str, str], Path]:
    """Return the environment with a browser that only notes what it is opened with, and where it does."""
    browser, given = folder / "browser", folder / "given"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {given}.new && mv {given}.new {given}\n')
    browser.chmod(0o700)
    return {"BROWSER": f"{browser} %s"}, given
