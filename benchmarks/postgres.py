"""A PostgreSQL of the bench's own, where its programs are installed, with its settings as they come."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Who it runs as when the bench is root: it refuses to run as that.
_USER = "postgres"


@contextmanager
def served() -> Iterator[str]:
    """Start one for a while; yields its address. Raises FileNotFoundError where there is none."""
    programs = _programs()
    folder = tempfile.mkdtemp(prefix="mb-postgres-")
    user = _USER if os.getuid() == 0 else None
    if user:
        shutil.chown(folder, user)

    def run(program: str, *words: str) -> None:
        log = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([programs / program, "-D", f"{folder}/data", *words], check=True, user=user, cwd=folder, **log)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        run("initdb", "--auth=trust", "--username=bench", "--no-locale", "--encoding=UTF8")
        run("pg_ctl", "start", "--wait", "-o", f"-h 127.0.0.1 -p {port} -k {folder}")
        try:
            yield f"postgresql://bench@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "stop", "--mode=immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """Return where its programs are: on the path, or in Debian's place for them, the newest."""
    if found := shutil.which("pg_ctl"):
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[4]))
    if not places:
        raise FileNotFoundError("no PostgreSQL is installed")
    return places[-1].parent
