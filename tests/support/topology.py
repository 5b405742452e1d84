"""The containers of docker-compose.yml as processes of this machine: the same commands, environments and order.

Only what a container would have of its own is replaced: its folders, its ports, the name `redis` of the server, and
TLS, which the image's server has built in and the one of the tests does not: a server on PATH that has it is used
instead, and where there is none, TLS is put in front of the other one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import compose, image
from tests.support.cli_runs import MAESTRO
from tests.support.programs import Program, running
from tests.support.servers import free_port, server_binary
from tests.support.tls_front import tls_front
from tests.support.waiting import wait_until

PASSWORDS = {f"REDIS_{name}_PASSWORD": os.urandom(24).hex() for name in ("TERMINAL", "WORKER", "ADMIN")}
_FOLDERS = ("/access", "/archive", "/projects", "/data", "/tls", "/backup")


def make_certificates(folder: Path) -> None:
    """Make a private authority and a certificate of the server's that it signed."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=a private authority",
            "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key",
            "-out", "server.csr")  # fmt: skip
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "server.crt")  # fmt: skip


@dataclass
class Topology:
    """The running set-up."""

    folder: Path
    port: int
    tls_port: int
    serve_port: int
    services: dict[str, Any]
    server: str  #: the program that stands for `valkey-server`
    has_tls: bool  #: whether it was built with TLS
    stack: ExitStack = field(default_factory=ExitStack)
    programs: dict[str, list[Program]] = field(default_factory=dict)

    def command(self, name: str) -> list[str]:
        """Return what a container runs, with the image's entry point."""
        words = [self.local(word) for word in self.services[name].get("command", [])]
        service = self.services[name]
        if "build" not in service:
            return self.program(words)
        entry = service.get("entrypoint") or image.started("ENTRYPOINT", service["build"]["target"])
        return self.program([*(self.local(word) for word in entry), *words])

    def program(self, words: list[str]) -> list[str]:
        """Return a command with the program of this machine that stands for the container's."""
        programs = {"maestro": [MAESTRO], "maestro-backup": [sys.executable, str(image.ROOT / "deploy/backup.py")]}
        return [*(programs | {"valkey-server": [self.server]})[words[0]], *words[1:]]

    def environment(self, name: str) -> dict[str, str]:
        """Return what a container is given."""
        given = self.services[name].get("environment", {})
        return {variable: self.local(str(value)) for variable, value in given.items()}

    def works_in(self, name: str) -> Path:
        """Return where a container works: the image's folder, unless it names another."""
        return Path(self.local(self.services[name].get("working_dir", "/archive")))

    def local(self, word: str) -> str:
        """Return what stands on this machine for a container's folder, port or address."""
        for folder in _FOLDERS:
            if word == folder or word.startswith(f"{folder}/"):
                return str(self.folder / word[1:])
        word = {"6379": str(self.port), "6380": str(self.tls_port), "4175": str(self.serve_port)}.get(word, word)
        return word.replace("@redis:6379", f"@127.0.0.1:{self.port}")

    def start(self, name: str) -> Program:
        """Start one more container of a service."""
        program = self.stack.enter_context(
            running(self.folder, self.command(name), env=self.environment(name), cwd=self.works_in(name))
        )
        self.programs.setdefault(name, []).append(program)
        return program

    def start_server(self) -> None:
        """Run the access job, then the server."""
        access = self.start("access")
        assert access.process.wait(60) == 0, access.complained.read_text()
        redis = self.start("redis")
        wait_until(lambda: "Ready to accept connections" in redis.said.read_text(), "the server does not start")
        if not self.has_tls:
            self.stack.enter_context(tls_front(self.tls_port, self.folder / "tls", self.port))

    def client(self, user: str, *, tls: bool = False) -> dict[str, str]:
        """Return what a terminal on somebody's laptop has in its environment."""
        password = PASSWORDS["REDIS_TERMINAL_PASSWORD"]
        where = f"rediss://terminal:{password}@localhost:{self.tls_port}?ssl_ca_certs={self.folder}/tls/ca.crt"
        plain = f"redis://terminal:{password}@127.0.0.1:{self.port}"
        return {"MAESTRO_REDIS_URL": where if tls else plain, "MAESTRO_USER": user}


@contextmanager
def topology(folder: Path, *, starts: bool = True, **variables: str) -> Iterator[Topology]:
    """Run the access job and the server as the file says; the other services are started by the test."""
    for name in _FOLDERS:
        (folder / name[1:]).mkdir()
    make_certificates(folder / "tls")
    server = server_with_tls()
    tls = {"REDIS_TLS_PORT": "6380", "TLS_FOLDER": "./tls"} if server else {}
    services = compose.load(PASSWORDS | tls | variables)["services"]
    found = Topology(
        folder, free_port(), free_port(), free_port(), services, server or server_binary(), server is not None
    )
    with found.stack:
        if starts:
            found.start_server()
        yield found


def server_with_tls() -> str | None:
    """Return a server that was built with TLS: the one of the tests, else one on PATH, else none."""
    on_path = (shutil.which(name) for name in ("valkey-server", "redis-server"))
    return next((program for program in (server_binary(), *on_path) if program and _has_tls(program)), None)


def _has_tls(program: str) -> bool:
    """Tell whether a server was built with TLS: one that was not refuses to start with a TLS port."""
    words = [program, "--port", "0", "--tls-port", str(free_port()), "--tls-cert-file", os.devnull]
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run([*words, "--dir", folder], capture_output=True, check=False, timeout=60)
    return b"Failed finding TLS support" not in tried.stdout
